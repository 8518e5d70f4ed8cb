"""Gates over responses that nobody was given, over the last answers of chats, and over what is left of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import leakmeter
from helpers.toy_chat import ToyChat
from leakmeter.core.case import Case, Document, Message, unmeasured_answers
from leakmeter.report.blocks import Advice

Call = Callable[..., Any]
BOUND = "influence.disclosures.personal <= 100"
ROWS: list[dict[str, Any]] = [{"id": f"c{n}", "context": f"Anna is {n}.", "query": "Who?"} for n in range(3)]


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{**ROWS[0], "response": "Anna"}, *ROWS[1:], {"id": "bad"}]
    out = tmp_path_factory.mktemp("drawn")
    return leakmeter.influence("toy", rows, samples=1, max_new_tokens=2, skip_bad=True, out=out).path


def test_a_gate_over_drawn_responses_fails_unless_it_is_asked_to_let_them_count(
    drawn: Path, cli: Call, tmp_path: Path
) -> None:
    said = "the responses of 2 of 3 cases were drawn from the scoring model, not given"
    junit = tmp_path / "gate.xml"
    failed = cli("gate", drawn, "--max", BOUND, "--junit", junit)
    assert failed.code == 1
    assert f"BROKEN  {said}; to let them count, give --allow-drawn" in failed.out
    assert "holds   1 of 3 answers discloses personal or secret data, 1 disclosure in total." in failed.out
    assert ElementTree.parse(junit).getroot().attrib["failures"] == "1"
    held = cli("gate", drawn, "--max", BOUND, "--allow-drawn")
    assert f"note    {said}\n" in held.out
    assert "note    1 case could not be used and is left out" in held.out
    record = json.loads(cli("gate", drawn, "--max", BOUND, "--json").out)
    assert (record["holds"], record["checks"][-1]["found"]["value"]) == (False, 2.0)
    found = leakmeter.gate(drawn, max=BOUND)
    assert (found.holds, "drawn" in str(found)) == (False, True)
    allowed = leakmeter.gate(drawn, max=BOUND, allow_drawn=True)
    assert (allowed.holds, allowed.notes[0]) == (True, said)


@pytest.mark.parametrize("order", [(False, True), (True, False)])
def test_a_log_with_bad_rows_and_one_without_share_no_run_whichever_is_first(
    order: tuple[bool, ...], tmp_path: Path
) -> None:
    good = [{**row, "response": "Anna"} for row in ROWS]
    files = {False: tmp_path / "log.jsonl", True: tmp_path / "bad.jsonl"}
    for is_bad, file in files.items():
        file.write_text("\n".join(map(json.dumps, [*good, *([{"id": "bad"}] * is_bad)])), encoding="utf-8")
    runs = {is_bad: leakmeter.influence("toy", files[is_bad], skip_bad=is_bad, out=tmp_path / "o") for is_bad in order}
    for is_bad, run in runs.items():
        notes = leakmeter.gate(run.path, max=BOUND).notes
        assert ("1 case could not be used and is left out" in notes) is is_bad
        assert run.spec["data"] == str(files[is_bad])


def test_a_measure_that_draws_is_not_about_given_responses(tmp_path: Path) -> None:
    run = leakmeter.decode("toy", ROWS, max_new_tokens=2, out=tmp_path)
    assert leakmeter.gate(run, max="decode.max <= 1000").holds


def test_responses_that_were_given_pass_without_a_note(tmp_path: Path) -> None:
    run = leakmeter.influence("toy", [{**row, "response": "Anna"} for row in ROWS], out=tmp_path)
    found = leakmeter.gate(run, max=BOUND)
    assert (found.holds, found.notes) == (True, ())


def turns(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    said = [turn for asked, answered in pairs for turn in (("user", asked), ("assistant", answered))]
    return [{"role": role, "content": text} for role, text in (("tool", "Anna is at home."), *said)]


FIRST, LAST = ("Who is at home?", "Anna is."), ("Thanks!", "You are welcome.")


def test_earlier_answers_of_chats_are_counted_everywhere(tmp_path: Path) -> None:
    how = "not measured: as a chat in the data, with all turns and channels, each is"
    said = f"2 earlier answers or calls of the assistant were {how}"
    rows = [{"id": str(n), "messages": turns(FIRST, LAST)} for n in range(2)]
    run = leakmeter.influence(ToyChat(), rows, turns="last", out=tmp_path)
    assert run.headline.startswith(f"{said}. None of 2 responses is known to disclose")
    assert run[0].warnings[0] == f"1 earlier answer or call of the assistant was {how}."
    assert (run[0].unmeasured_answers, run[0].to_dict()["unmeasured_answers"]) == (1, 1)
    assert said in run.render_page()
    # Nothing says that these answers may be shipped.
    advice = [row for block in run.report().blocks if isinstance(block, Advice) for row in block.rows]
    assert "then ship" not in str(advice)
    assert leakmeter.gate(run, max=BOUND).notes == (said,)
    alone = leakmeter.influence(ToyChat(), messages=turns(FIRST, LAST))
    assert alone.unmeasured_answers == 1


def test_an_answer_that_another_case_ends_with_is_measured(tmp_path: Path) -> None:
    rows = [{"id": "1", "messages": turns(FIRST)}, {"id": "2", "messages": turns(FIRST, LAST)}]
    run = leakmeter.influence(ToyChat(), rows, out=tmp_path)
    assert [result.unmeasured_answers for result in run] == [None, None]
    assert "earlier" not in run.headline
    assert leakmeter.gate(run, max=BOUND).notes == ()


def chat(*texts: str, response: str | None = None) -> Case:
    roles = ("user", "assistant")
    messages = [Message(roles[n % 2], f"{roles[n % 2]} {n}", (Document("d", text),)) for n, text in enumerate(texts)]
    return Case("c", response=response, messages=tuple(messages))


def test_an_answer_counts_as_measured_only_if_the_same_question_was_answered_so() -> None:
    long = chat("Hello.", "Good day.", "Who?", "Yes.", "When?", response="At nine.")
    for other, n in (
        (chat("Who?", response="Yes."), 0),
        (chat("Notes: Anna. Question:  Who?", response="Yes."), 0),
        (chat("May I?", response="Yes."), 1),
        (chat("Who?", response="No."), 1),
        (chat("Who?"), 1),
    ):
        assert unmeasured_answers((long, other)) == [n, 0]
    assert unmeasured_answers((chat("Who?", response="Anna."), Case("d", query="Who?"))) == [0, 0]
