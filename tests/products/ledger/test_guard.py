"""The guard: verdicts from the ledger's sums, what would bring an answer under, and the ledger as its memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import leakmeter
from helpers.logged_answers import Echo
from leakmeter.errors import DataError, UsageError
from leakmeter.products.ledger.guard import NOTE, Guard
from leakmeter.products.ledger.measuring import Measuring
from leakmeter.products.ledger.totals import Book

DOCUMENTS = {"file-7": "Ms Ana Alvi came. She said 4471.", "weather": "It rains."}
ASKED = ("Who came?", "Ana Alvi said 4471", "reader-1")


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


def guard(folder: Path, budget: float, per: str = "document,recipient") -> Guard:
    return leakmeter.Guard(leakmeter.Meter(Echo()), budget=budget, ledger=folder / "ledger", per=per)


def test_answers_are_within_until_their_sum_is_not(tmp_path: Path) -> None:
    once = guard(tmp_path / "a", 1e6).check(DOCUMENTS, *ASKED).uses[0]
    assert (once.id, once.within, once.before_nats) == ("file-7", True, 0.0)
    watch = guard(tmp_path / "b", 2.5 * once.signed_nats)
    verdicts = [watch.check(DOCUMENTS, *ASKED) for _ in range(4)]
    assert [one.within for one in verdicts] == [one.recorded for one in verdicts] == [True, True, False, False]
    assert verdicts[1].uses[0].after_nats == pytest.approx(2 * once.signed_nats)
    # What was refused is not counted, and somebody else has a budget of their own.
    assert verdicts[3].uses[0].before_nats == pytest.approx(2 * once.signed_nats)
    assert watch.check(DOCUMENTS, *ASKED[:2], "reader-2").within
    assert len(Book(watch.ledger).events) == 3
    # Another process finds the same sums.
    assert not guard(tmp_path / "b", 2.5 * once.signed_nats).check(DOCUMENTS, *ASKED, record=False).within


def test_a_document_of_an_earlier_turn_counts_where_the_prompt_repeats_it(tmp_path: Path) -> None:
    watch, (question, answer, reader) = guard(tmp_path, 1e6), ASKED
    asked = {"role": "user", "content": f"{DOCUMENTS['file-7']}\n\nHello."}
    watch.check({"file-7": DOCUMENTS["file-7"]}, "Hello.", "Hello.", reader, messages=[asked])
    later = {"role": "user", "content": f"{DOCUMENTS['weather']}\n\n{question}"}
    messages = [asked, {"role": "assistant", "content": "Hello."}, later]
    verdict = watch.check({"weather": DOCUMENTS["weather"]}, question, answer, reader, messages=messages)
    assert {use.id for use in verdict.uses} == {"file-7", "weather"}
    assert "4471" not in verdict.withheld_answer


def test_redaction_brings_it_under(tmp_path: Path) -> None:
    watch = guard(tmp_path, 5.0)
    verdict = watch.check(DOCUMENTS, *ASKED)
    (cut,) = verdict.cuts
    assert cut.reached
    assert cut.left_nats <= verdict.uses[0].room_nats == 5.0
    again = watch.check({**DOCUMENTS, "file-7": cut.text}, *ASKED) if cut.text.strip() else None
    assert again is None or again.within
    assert verdict.note == NOTE
    assert "monitor, not a bound" in NOTE


def test_one_that_was_shown_all_the_same_is_counted_on_request_and_pieces_are_never_written(tmp_path: Path) -> None:
    watch = guard(tmp_path, 1.0)
    verdict = watch.record(watch.check(DOCUMENTS, *ASKED))
    assert (verdict.recorded, verdict.within) == (True, False)
    assert watch.check(DOCUMENTS, *ASKED).uses[0].room_nats == 0.0
    # Pieces are told to the caller.
    assert verdict.pieces[0].text == "Ana Alvi"
    assert "Alvi" not in repr(verdict)
    assert not any(b"Alvi" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_all_recipients_and_people_may_share_a_budget(tmp_path: Path) -> None:
    most = guard(tmp_path / "a", 1e6).check(DOCUMENTS, *ASKED).uses[0].signed_nats
    together = guard(tmp_path / "b", 1.5 * most, per="document")
    assert together.check(DOCUMENTS, *ASKED).within
    assert not together.check(DOCUMENTS, *ASKED[:2], "reader-2").within
    person = guard(tmp_path / "c", 1e6, per="subject,recipient").check(DOCUMENTS, *ASKED)
    assert person.uses[0].kind == "subject"


def test_nothing_is_within_where_it_is_not_known_what_was_told(tmp_path: Path) -> None:
    given: dict[str, Any] = {"budget": 1e6, "ledger": tmp_path / "ledger", "per": "subject,recipient"}
    documents = {"file-7": "Ms Ana Alvi came. Call 202-555-0143."}
    ours = leakmeter.Guard(leakmeter.Meter(Echo()), how=Measuring(search="top:1:1"), **given)
    verdict = ours.check(documents, *ASKED)
    assert not verdict.within
    ours.record(verdict)
    # A later answer that is scored in full does not make known what was told before.
    again = leakmeter.Guard(leakmeter.Meter(Echo()), **given).check(documents, *ASKED)
    assert not again.within
    assert min(use.room_nats for use in again.uses) == 0.0


def test_documents_have_to_be_in_the_messages_of_a_model_with_a_chat_template(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Ms Ana Alvi  came.\nShe said 4471. It rains. Who came?"}]
    watch = guard(tmp_path, 1e6)
    assert watch.check(DOCUMENTS, *ASKED, messages=messages).within
    for documents in ({"file-9": "Nobody was there at all."}, {}):
        with pytest.raises(UsageError, match="document"):
            watch.check(documents, *ASKED, messages=messages)
    with pytest.raises(UsageError, match="above 0"):
        guard(tmp_path, 0.0)
    plain = leakmeter.Guard(leakmeter.Meter("toy"), budget=5.0, ledger=tmp_path / "plain")
    with pytest.raises(UsageError, match=r"has no chat template.*give the Guard another meter") as refused:
        plain.check(DOCUMENTS, *ASKED)
    assert "--template" not in str(refused.value)


TOLD = {"file-7": "Ms Ana Alvi, 12 Elm Street: call 202-555-0143.", "weather": "It rains."}
SAID = "Ana Alvi, 202-555-0143. Again: 202 555 0143, says Alvi. It rains."


def test_what_is_personal_is_held_back_wherever_the_answer_says_it(tmp_path: Path) -> None:
    watch = guard(tmp_path, 1e6)
    # The second time from what the ledger has.
    for verdict in (watch.check(TOLD, "Who came?", SAID, f"reader-{n}") for n in range(2)):
        held = [(SAID[span.start : span.end], span.kind) for span in verdict.held_spans]
        assert held == [
            ("Ana Alvi", "person"), ("202-555-0143", "phone"), ("202 555 0143", "phone"), ("Alvi", "person"),
        ]  # fmt: skip
        assert {span.documents for span in verdict.held_spans} == {("file-7",)}
        assert min(span.nats for span in verdict.held_spans) > 3
        assert verdict.withheld_answer == (
            "[withheld: person], [withheld: phone]. Again: [withheld: phone], says [withheld: person]. It rains."
        )
        assert verdict.within
        assert "Alvi" not in repr(verdict)


@pytest.mark.parametrize(
    ("answer", "withheld"),
    [
        ("ANA ALVI, ALVI, 202-555-0143.", "[withheld: person], [withheld: person], [withheld: phone]."),
        ("ana alvi: alvi knows.", "[withheld: person]: [withheld: person] knows."),
        ("A\u200bna Al\u00advi 202\u200b-555\u2011-01\u200b43.", "[withheld: person] [withheld: phone]."),
        ("Ána Álvi, ２０２ ５５５ ０１４３.", "[withheld: person], [withheld: phone]."),
        # A word in small letters is no part of a name that is written in capitals.
        ("Ana Alvi, ana.", "[withheld: person], ana."),
    ],
)
def test_it_is_held_back_in_other_clothes(tmp_path: Path, answer: str, withheld: str) -> None:
    verdict = guard(tmp_path, 1e6).check(TOLD, "Who came?", answer, "reader-1", redact=False)
    assert verdict.withheld_answer == withheld


PHONE, DATE = "Call her on 202-555-0143.", "She was born on 3 May 1981."


@pytest.mark.parametrize(
    ("told", "answer", "withheld"),
    [
        (PHONE, "Call 202-555-0143 (+12025550143).", "Call [withheld: phone] ([withheld: phone])."),
        (PHONE, "202-555-0143 or tel:+12025550143", "[withheld: phone] or tel:[withheld: phone]"),
        (PHONE, "202-555-0143, MjAyLTU1NS0wMTQz.", "[withheld: phone], [withheld: phone]."),
        (DATE, "On 3 May 1981 (1981-05-03).", "On [withheld: date] ([withheld: date])."),
        (DATE, "On 3 May 1981, 05/03/1981.", "On [withheld: date], [withheld: date]."),
        # Less than the date is not it.
        (DATE, "On 3 May 1981, not in May.", "On [withheld: date], not in May."),
        ("Mail ana@x.example.", "ana@x.example: ana [at] x [dot] example", "[withheld: email]: [withheld: email]"),
    ],
)
def test_a_second_form_of_what_is_held_back_is_held_back_too(
    tmp_path: Path, told: str, answer: str, withheld: str
) -> None:
    verdict = guard(tmp_path, 1e6).check({"file-7": told}, "What is known?", answer, "reader-1", redact=False)
    assert verdict.withheld_answer == withheld


def test_nothing_is_held_back_of_what_no_document_told(tmp_path: Path) -> None:
    watch = guard(tmp_path, 1e6)
    for answer in ("It rains.", "Zoe Pruk, 897-868-9988"):
        verdict = watch.check(TOLD, "Who came?", answer, "reader-1")
        assert (verdict.held_spans, verdict.withheld_answer) == ((), answer)


def test_spans_are_held_back_whatever_the_budget_says_and_count_in_full(tmp_path: Path) -> None:
    watch = guard(tmp_path, 1.0)
    verdict = watch.check(TOLD, "Who came?", SAID, "reader-1", redact=False)
    assert not verdict.within
    assert verdict.withheld_answer.startswith("[withheld: person]")
    recorded = watch.record(verdict)
    assert recorded.held_spans == verdict.held_spans
    assert {one.kind for one in Book(watch.ledger).disclosed(Book(watch.ledger).events)} >= {"person", "phone"}


def test_a_call_is_held_before_it_is_made_and_its_tool_is_the_recipient(tmp_path: Path) -> None:
    """Of an agent: what tools returned are the documents, and what another tool was told has a budget of its own."""
    call = {"id": "1", "function": {"name": "crm.find", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Who came?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Ms Ana Alvi came. She said 4471."},
    ]
    watch = leakmeter.Guard(leakmeter.Meter(Echo()), budget=1e6, ledger=tmp_path / "ledger")
    verdict = watch.check({}, "", "Ana Alvi said 4471", "reader-1", messages=messages, tool="calendar.create")
    assert verdict.within
    assert verdict.held_spans[0].documents == ("crm.find#1",)
    assert verdict.uses[0].id == "crm.find#1"
    (event,) = Book(watch.ledger).events
    said = watch.check({}, "", "Ana Alvi said 4471", "reader-1", messages=messages)
    assert said.uses[0].before_nats == 0.0  # the user was told nothing by what the calendar was
    again = watch.check(
        {}, "", "Ana Alvi said 4471", "reader-1", messages=messages, tool="calendar.create", record=False
    )
    assert again.uses[0].before_nats == pytest.approx(abs(verdict.uses[0].signed_nats))
    assert event["recipient"] != Book(watch.ledger).events[1]["recipient"]
    with pytest.raises(UsageError, match="no document is given, and no message is the result of a tool"):
        watch.check({}, "", "x", "reader-1", messages=messages[:1])


@pytest.mark.parametrize(
    "given", [TOLD["file-7"], [TOLD["file-7"]], SimpleNamespace(page_content=TOLD["file-7"], metadata={})]
)
def test_a_text_is_one_document_and_not_its_characters(tmp_path: Path, given: Any) -> None:
    verdict = guard(tmp_path, 1e6).check(given, "Who came?", "Call 202-555-0143.", "reader-1")
    assert verdict.withheld_answer == "Call [withheld: phone]."
    assert len(verdict.uses) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"answer": None}, "answer is null; it has to be a text"),
        ({"answer": 4471}, "answer is a number; it has to be a text"),
        ({"query": None}, "query is null; it has to be a text"),
        ({"tool": 7}, "tool is a number; it has to be a text"),
        ({"trace_id": 7}, "trace_id is a number; it has to be a text"),
        ({"temperature": "1"}, "temperature is a text; it has to be a number"),
        ({"temperature": True}, "temperature is a truth value; it has to be a number"),
        ({"documents": None}, "documents has to be a list, and is null"),
        ({"documents": 7}, "documents has to be a list, and is a number"),
        ({"documents": [None]}, "document 1 has no text"),
        ({"messages": "Hello."}, "messages has to be a list, and is a text"),
        ({"messages": 7}, "messages has to be a list, and is a number"),
        ({"recipient": None}, "the recipient has no 'id'"),
        ({"recipient": True}, "'recipient' is a truth value"),
    ],
)
def test_what_is_of_another_kind_is_refused_in_one_line(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    query, answer, recipient = ASKED
    asked = {"documents": DOCUMENTS, "query": query, "answer": answer, "recipient": recipient}
    with pytest.raises((UsageError, DataError)) as refused:
        guard(tmp_path, 1e6).check(**{**asked, **given})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("budget", ["x", "5", None, True, [1.0]])
def test_a_budget_is_a_number(tmp_path: Path, budget: Any) -> None:
    with pytest.raises(UsageError, match=r"budget is .*; it has to be a number of nats above 0"):
        guard(tmp_path, budget)
    with pytest.raises(UsageError, match="per is a number; it has to be a text"):
        guard(tmp_path, 1.0, per=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="ledger is null; it has to be a directory"):
        leakmeter.Guard(leakmeter.Meter(Echo()), budget=1.0, ledger=None)  # type: ignore[arg-type]


def test_ids_may_be_whole_numbers(tmp_path: Path) -> None:
    verdict = guard(tmp_path, 1e6).check({7: TOLD["file-7"]}, "Who came?", "Call 202-555-0143.", "reader-1")
    assert ([use.id for use in verdict.uses], verdict.withheld_answer) == (["7"], "Call [withheld: phone].")
