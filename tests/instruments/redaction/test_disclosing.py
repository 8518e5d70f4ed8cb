"""Cutting what a response discloses: a toy that copies, and every number by scoring the cut prompt directly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.examples import few
from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless, flat
from helpers.report_snapshots import printed
from helpers.resumed_runs import resumed
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.backend import response_texts
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.measure import Measurement
from leakmeter.core.prompt import Prompt
from leakmeter.engine.storage.kept import FieldError
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.disclosures import LEAST_NATS, Disclosure, disclosures
from leakmeter.instruments.redaction.disclosing import RedactionStatistics, after
from leakmeter.instruments.redaction.measure import PUT_BACK, REMOVED, Redaction, candidates
from leakmeter.instruments.redaction.report import verdict
from leakmeter.instruments.redaction.result import KeptRedaction, RedactedDisclosures, RedactionResult, unmet
from leakmeter.text.build import PromptSettings, prepare

Call = Callable[..., Any]
NOTE = (
    "The ferry sails at nine. Call 617-555-0134 for seats. The tide was low that day. "
    "It rained. Her number is 617-555-0134. Bread is baked at dawn."
)
ANSWER = "The ferry sails at nine. Call 617-555-0134."
MEASURE = Redaction(max_loss=None, disclosures=True, max_new_tokens=3)


class Copier(Toy):
    """What followed the last three tokens `at_least` times before is likelier by `bonus` nats."""

    def __init__(self, bonus: float = 5.0, at_least: int = 1) -> None:
        super().__init__(scale=0.05)
        self.bonus, self.at_least = bonus, at_least

    def logits(self, ids: Any, positions: Any) -> Any:
        pulled = np.array(super().logits(ids, positions))
        before = np.flatnonzero((ids[:-3] == ids[-3]) & (ids[1:-2] == ids[-2]) & (ids[2:-1] == ids[-1]))
        followed, counts = np.unique(ids[before + 3], return_counts=True)
        pulled[followed[counts >= self.at_least]] += self.bonus
        return pulled


def prepared(context: str = NOTE, response: str | None = ANSWER, query: str = "When?", **settings: Any) -> Any:
    case = Case("note", (Document("note", context),), query, response)
    return prepare(case, ByteTokenizer(), PromptSettings(**settings), window=None, n_reserved=4)


def measured(item: ContextItem, measure: Redaction = MEASURE, model: Toy | None = None) -> list[Measurement]:
    (measurements,), _ = drive(model or Copier(), [measure.trial(item)])
    return measurements


def result_of(case: Any, measurements: list[Measurement], measure: Redaction = MEASURE) -> RedactionResult:
    (result,) = RedactionResult.from_run([(texts_of(case, measurements), measurements)], asdict(measure))
    assert RedactionResult.from_dict(json.loads(result.to_json())) == result
    return result


def texts_of(case: Any, measurements: list[Measurement]) -> dict[str, Any]:
    answers = [each.values.astype(int).tolist() for each in measurements if each.statistic == "token"]
    return {
        **case.texts(), "id": "note", "model": "toy", "weights_sha256": None, "dtype": "float64", "unit": case.unit,
        "removal": case.removal, "template": case.template, "query": case.query, "context": case.context,
        "documents": [{"name": name, "start": start, "end": end} for name, start, end in case.documents],
        "truncated_tokens": 0, "sampled": False, "spans": [asdict(span) for span in case.item.spans],
        "responses": [response_texts(answer, ByteTokenizer()) for answer in answers],
        "cost": {"requests": 6, "tree_tokens": 90, "naive_tokens": 300, "seconds": 0.1, "out_of_memory_retries": 0},
    }  # fmt: skip


def redacted(model: Toy | None = None, measure: Redaction = MEASURE, **given: Any) -> RedactionResult:
    case = prepared(**given)
    return result_of(case, measured(case.item, measure, model), measure)


def told(result: RedactionResult) -> RedactedDisclosures:
    assert result.disclosed is not None
    return result.disclosed


def steps_of(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [each for each in measurements if each.statistic in (REMOVED, PUT_BACK)]


class Directly:
    """Prompts scored one by one, each token by itself; disclosures of what is left from such scores alone."""

    def __init__(self, case: Any, model: Toy) -> None:
        self.item, self.model, self.case = case.item, model, case
        self.bare = self.log_probs(self.item.blank)
        self.known: dict[frozenset[str], np.ndarray] = {}

    def log_probs(self, prompt: Prompt) -> np.ndarray:
        ids, positions = list(prompt.ids), list(prompt.positions)
        out = []
        for position, token in enumerate(self.item.response, prompt.next_position):
            logits = self.model.logits(np.asarray(ids), np.asarray(positions))
            out.append(logits[token] - np.log(np.exp(logits).sum()))
            ids.append(token)
            positions.append(position)
        return np.asarray(out)

    def left(self, cut: Collection[str]) -> np.ndarray:
        if (key := frozenset(cut)) not in self.known:
            self.known[key] = self.log_probs(self.item.without(cut)) - self.bare
        return self.known[key]

    def above(self, cut: Collection[str]) -> list[Disclosure]:
        """Personal or secret disclosures of what is left: influence of a context without the spans."""
        full, names, whole = self.left(cut), candidates(self.item, cut), self.left(())
        series: dict[tuple[int, str, str], np.ndarray] = {
            (0, "whole", ""): full, (0, "log_prob", ""): full + self.bare, (0, "noise", ""): np.zeros(len(full)),
            (0, "placebo_alone", ""): self.log_probs(self.item.placebo_alone) - self.bare,
        }  # fmt: skip
        for number, prompt in enumerate(self.item.placebos):
            series[0, "placebo", str(number)] = self.log_probs(prompt) - whole - self.bare
        for name in names:
            series[0, "without_this", name] = full - self.left([*cut, name])
            series[0, "only_this", name] = self.log_probs(self.item.alone[name]) - self.bare
        texts = {
            **self.case.texts(), "context": self.case.context, "query": self.case.query,
            "responses": [response_texts(self.item.response, ByteTokenizer())],
            "spans": [asdict(span) for span in self.item.spans if span.name in names],
        }  # fmt: skip
        return [each for each in disclosures(texts, series) if each.is_sensitive and each.evidence is not None]


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
def test_every_copy_of_a_source_is_cut_and_every_number_is_that_of_the_cut_prompt(removal: str) -> None:
    case = prepared(removal=removal)
    directly, measurements = Directly(case, Copier()), measured(case.item)
    result = result_of(case, measurements)
    cut = [piece.name for piece in result.redacted]
    assert [piece.text for piece in result.redacted] == ["Call 617-555-0134 for seats.", "Her number is 617-555-0134."]
    (span,) = told(result).spans
    tokens = slice(span.first_token, span.last_token + 1)
    assert (span.text, span.kind, set(span.pieces)) == ("617-555-0134", "phone", set(cut))
    whole, left = directly.left(()), directly.left(cut)
    assert span.before_nats == pytest.approx(whole[tokens].sum(), abs=1e-11)
    assert span.after_nats == pytest.approx(left[tokens].sum(), abs=1e-11)
    assert span.before_nats > 20 > LEAST_NATS == span.floor_nats > span.after_nats
    rest = np.delete(left - whole, tokens)
    assert told(result).n_rest_tokens == len(rest)
    assert told(result).rest_change_nats == pytest.approx(rest.sum(), abs=1e-11)
    assert (told(result).n_left, span.is_left, result.reached, result.max_loss_nats) == (0, False, True, None)
    assert result.left_nats == pytest.approx(np.abs(left).sum(), abs=1e-11)
    # What the rest was said from stays.
    assert "The ferry sails at nine." in result.text
    taken: list[str] = []
    for step in steps_of(measurements):
        taken.append(step.piece) if step.statistic == REMOVED else taken.remove(step.piece)
        np.testing.assert_allclose(step.values, directly.left(taken), rtol=0, atol=1e-12)
    series = {(each.statistic, each.piece): each.values for each in measurements if not each.sample}
    for name in candidates(case.item):
        alone = directly.log_probs(case.item.alone[name]) - directly.bare
        np.testing.assert_allclose(series["only_this", name], alone, rtol=0, atol=1e-12)
        np.testing.assert_allclose(series["without_this", name], whole - directly.left([name]), rtol=0, atol=1e-12)
        if name not in cut:
            without = left - directly.left([*cut, name])
            np.testing.assert_allclose(series["left_without_this", name], without, rtol=0, atol=1e-12)
    assert not directly.above(cut)


def note(number: int) -> str:
    return f"The ferry sails at nine. Call 617-555-01{number} for seats. It rained. Bread is baked at dawn."


@pytest.mark.parametrize("unit", few([None, "sentence", "document"]))
@pytest.mark.parametrize("controls", [3, 0])
def test_what_is_aimed_at_is_what_influence_lists(controls: int, unit: str | None) -> None:
    """Of the second case the answer has a number that its context does not say: others make it as likely."""
    said = {34: 34, 35: 77, 36: 36, 38: 38, 39: 39}
    rows = [
        {"id": f"c{n}", "context": note(n), "query": "When?", "response": f"Call 617-555-01{end}."}
        for n, end in said.items()
    ]
    listed = leakmeter.influence(Copier(), rows, controls=controls, unit=unit)
    aimed = leakmeter.redact(
        Copier(), rows, controls=controls, unit=unit, disclosures=True, max_loss=None, max_new_tokens=3
    )
    for one, other in zip(listed, aimed, strict=True):
        found = [each for each in one.disclosures if each.is_sensitive and each.evidence is not None]
        assert [(each.text, each.first_token, each.last_token) for each in told(other).spans] == [
            (each.text, each.first_token, each.last_token) for each in found
        ]
        for each, span in zip(found, told(other).spans, strict=True):
            assert (span.kind, span.evidence) == (each.kind, each.evidence)
            expected = [each.nats, each.floor_nats, each.control_nats or 0.0]
            assert [span.before_nats, span.floor_nats, span.control_nats or 0.0] == pytest.approx(expected, abs=1e-9)
            assert span.is_left == (span.after_nats > span.least_nats)
    n_listed = [len(told(each).spans) for each in aimed]
    assert n_listed == ([1, 0, 1, 1, 1] if controls else [1] * 5)
    assert [bool(each.redacted) for each in aimed] == [n > 0 for n in n_listed]


def test_a_limit_without_disclosures_asks_for_no_other_context() -> None:
    assert (Redaction(max_loss=1.0).n_controls, MEASURE.n_controls) == (0, 3)
    assert "controls" not in Redaction(max_loss=1.0).record()
    assert "controls" not in replace(MEASURE, controls=0).record()
    assert MEASURE.record()["controls"] == 3
    with pytest.raises(UsageError, match="controls is 17"):
        replace(MEASURE, controls=17)


TWO = (
    "Anna Ek keeps the key. Her phone is 617-555-0134. The code is XK-77-QD. It rained. Ring 617-555-0134. "
    "Use XK-77-QD at the gate."
)


@pytest.mark.parametrize("bonus", few([3.0, 1.0, 6.0]))
@pytest.mark.parametrize("unit", ["sentence", "ngram:40", "document"])
def test_each_step_is_the_best_of_the_sources_there_were(unit: str, bonus: float) -> None:
    """The whole search again, in the open: disclosures of what is left, their sources, the cheapest of them."""
    case = prepared(TWO, "617-555-0134. XK-77-QD. Anna Ek", unit=unit)
    directly, measurements = Directly(case, Copier(bonus)), measured(case.item, model=Copier(bonus))
    taken: list[str] = []
    floors: dict[tuple[int, int], float] = {}

    def excess(left: np.ndarray) -> float:
        return sum(max(0.0, float(left[first:last].sum()) - floor) for (first, last), floor in floors.items())

    def cost(left: np.ndarray) -> float:
        said = [position for first, last in floors for position in range(first, last)]
        return excess(left) - float(np.delete(left, said).sum())

    for step in (step for step in steps_of(measurements) if step.statistic == REMOVED):
        above = directly.above(taken)
        assert above
        for each in above:
            floors[each.first_token, each.last_token + 1] = max(LEAST_NATS, each.placebo_nats or 0.0)
        sources = {
            source.piece
            for each in above
            for source in each.sources
            if each.relation == "copied" or max(source.nats, source.alone_nats or 0.0) > 0
        }
        tried = {name: directly.left([*taken, name]) for name in candidates(case.item, taken) if name in sources}
        helping = {name: left for name, left in tried.items() if excess(left) < excess(directly.left(taken))} or tried
        assert step.piece == min(helping, key=lambda name: cost(helping[name]))
        taken.append(step.piece)
    result = result_of(case, measurements)
    cut = [piece.name for piece in result.redacted]
    assert told(result).n_left == len(directly.above(cut)) == 0
    assert result.reached
    assert bool(steps_of(measurements)) == bool(told(result).spans)
    # No piece can be put back alone.
    for name in cut:
        assert directly.above([other for other in cut if other != name]), name


LINE = "the ferry sails at nine and at noon in winter and at ten in summer"
NEEDLESS = {
    "context": f"Use XK-77-Q. Gate K-77-QD, ring 617-555-0134, or ring 617-555-0134: {LINE}, {LINE}.",
    "response": f"XK-77-QD, ring 617-555-0134: {LINE}",
}


def test_a_piece_that_a_later_cut_made_needless_is_put_back() -> None:
    """A code is known of parts of it in two pieces, a number of the second alone, which says the rest too: the first
    piece is cut since that costs nothing, and put back once the second had to go."""
    model = Copier(at_least=2)
    case = prepared(**NEEDLESS)
    directly, measurements = Directly(case, model), measured(case.item, model=model)
    assert [(step.statistic, step.piece) for step in steps_of(measurements)] == [
        (REMOVED, "s1"), (REMOVED, "s2"), (PUT_BACK, "s1"),
    ]  # fmt: skip
    result = result_of(case, measurements)
    assert result.reached
    assert [span.kind for span in told(result).spans] == ["code", "phone"]
    for span in told(result).spans:
        tokens = slice(span.first_token, span.last_token + 1)
        assert span.after_nats == pytest.approx(directly.left(["s2"])[tokens].sum(), abs=1e-11)
    assert not directly.above(["s2"])
    assert directly.above(["s1"])


def test_nothing_is_cut_where_nothing_personal_is_disclosed() -> None:
    result = redacted(response="The ferry sails at nine.")
    assert (result.redacted, told(result).spans, result.reached, result.after) == ((), (), True, None)
    assert told(result).rest_change_nats == 0
    # What the query says is no disclosure.
    assert not redacted(query="Whose is 617-555-0134?").redacted


def test_where_a_model_does_not_see_the_source_the_words_say_it() -> None:
    result = redacted(Toy(reach=1))
    (span,) = told(result).spans
    assert (span.evidence, span.before_nats, span.after_nats, span.is_left) == ("words", 0.0, 0.0, False)
    assert [piece.name for piece in result.redacted] == ["s2", "s5"]
    assert result.reached


def test_a_value_with_all_its_mentions_goes_where_that_leaves_the_rest_likelier() -> None:
    context = "Call 617-555-0134 for seats on the ferry. The tide was low. Seats on the ferry: 617-555-0134."
    answer = "Call for seats on the ferry 617-555-0134."
    by_sentence, by_value = (redacted(context=context, response=answer, group=group) for group in (False, True))
    assert [piece.kind for piece in by_sentence.redacted] == ["unit", "unit"]
    (value,) = by_value.redacted
    assert (value.kind, value.text) == ("value", "617-555-0134")
    assert by_value.text == "Call for seats on the ferry. The tide was low. Seats on the ferry: ."
    assert by_value.reached
    assert by_sentence.reached
    assert told(by_value).rest_change_nats > told(by_sentence).rest_change_nats


def test_what_cannot_be_removed_is_said(tmp_path: Path) -> None:
    """The entities are cut; a code, which only the user's list knows, stands in the text between."""
    patterns = tmp_path / "secrets.txt"
    patterns.write_text("door = gate [a-z]{6} opens", encoding="utf-8")
    context = "Call 617-555-0134 soon. The gate quelmo opens at nine."
    case = prepared(context, context.removesuffix(" at nine."), unit="entity", sensitive=str(patterns))
    result = result_of(case, measured(case.item))
    phone, door = told(result).spans
    assert (phone.kind, phone.is_left, door.kind, door.is_left) == ("phone", False, "door", True)
    assert (result.reached, told(result).n_left) == (False, 1)
    assert [piece.entity_value for piece in result.redacted] == ["+16175550134"]
    (line,) = (line for line in result.warnings if "cannot be removed" in line)
    directly = Directly(case, Copier()).left([piece.name for piece in result.redacted])
    left = directly[door.first_token : door.last_token + 1].sum()
    assert door.after_nats == pytest.approx(left, abs=1e-11)
    assert line.startswith(f"'gate quelmo opens' (door) cannot be removed: with all its sources cut, {left:.3g} nats")
    assert unmet(result) == "1 personal or secret disclosure is left"


PHONE = "617-555-0134"


@pytest.mark.parametrize(
    ("said", "form"),
    [
        (PHONE, "NjE3LTU1NS0wMTM0"),
        (PHONE, "tel:+16175550134"),
        (PHONE, "six one seven five five five zero one three four"),
        ("3 May 1981", "1981-05-03"),
        ("ana.alvi@example.org", "ana.alvi%40example.org"),
        ("Ms Orla Brennock", "Brennock"),
        ("Ms Orla Brennock", "ORLA"),
    ],
)
def test_no_form_of_what_is_cut_is_left(said: str, form: str) -> None:
    """The model sees no source, so that only the words tell."""
    context = f"The ferry sails at nine. Of interest is {said}. The tide was low. See also {form} today."
    plan = redacted(Toy(reach=1), context=context, response=f"It is {said}.", query="What?")
    assert plan.text == "The ferry sails at nine. The tide was low."
    assert (plan.reached, told(plan).n_left) == (True, 0)
    # What the query says is no news.
    asked = redacted(Toy(reach=1), context=context, response=f"It is {said}.", query=f"What is {form}?")
    assert form in asked.text


def test_a_form_that_stands_between_the_pieces_is_said_to_be_left() -> None:
    context = f"Call {PHONE} soon. The tide was low. See NjE3LTU1NS0wMTM0 too."
    plan = redacted(Toy(reach=1), context=context, response=f"Call {PHONE}.", unit="entity")
    (span,) = told(plan).spans
    assert (plan.reached, span.is_left, span.left_as) == (False, True, ("NjE3LTU1NS0wMTM0",))
    (line,) = (line for line in plan.warnings if "cannot be removed" in line)
    assert line.startswith(
        f"'{PHONE}' (phone) cannot be removed: text between the pieces says it, or a part of it, as 'NjE3"
    )


@pytest.mark.parametrize("form", ["1981", "May 1981", "4 May 1981"])
def test_less_than_a_value_and_another_one_are_left(form: str) -> None:
    context = f"Born 3 May 1981. The tide was low. See {form} too."
    plan = redacted(Toy(reach=1), context=context, response="Born 3 May 1981.")
    assert form in plan.text


def test_with_a_limit_too_both_are_met() -> None:
    alone = redacted()
    measure = replace(MEASURE, max_loss=2.0)
    both = redacted(measure=measure)
    assert both.reached
    assert both.left_nats <= 2.0 < alone.left_nats
    assert {piece.name for piece in alone.redacted} <= {piece.name for piece in both.redacted}
    assert told(both).n_left == 0
    given: dict[str, Any] = {"context": "Call 617-555-0134. It rained at noon.", "unit": "entity"}
    short = redacted(**given, measure=replace(measure, max_loss=1e-9))
    assert not short.reached
    assert short.all_removed_nats == pytest.approx(short.left_nats)
    assert unmet(short) == "more than 1e-09 nats are left"


def test_a_piece_that_is_cut_in_part_says_what_is_left_of_it() -> None:
    """Of a unit whose value was cut, the value is no source any more, though the unit alone was measured with it."""
    case = prepared(group=True)
    measurements = measured(case.item)
    result = result_of(case, measurements)
    series = {(each.sample, each.statistic, each.piece): each.values for each in measurements}
    texts = {**case.item.texts_of(case.item.response), "spans": [asdict(span) for span in case.item.spans]}
    assert [piece.kind for piece in result.redacted] == ["value"]
    assert not [each for each in after(texts, series, ["v1"]) if each.evidence is not None]
    # Without the cut the same numbers say that its sentences, alone, disclose it.
    assert [each.text for each in after(texts, series, []) if each.evidence is not None] == ["617-555-0134"]


def test_nothing_of_a_disclosure_becomes_markup() -> None:
    plain = redacted().to_dict()
    plain["disclosed"]["spans"][0] |= {"text": HOSTILE, "pieces": [HOSTILE], "is_left": True}
    case = RedactionResult.from_dict(plain)
    for cases in ([case], [case, case]):
        assert_report_harmless(RedactionResult.report(cases))


# ---- from the command line ------------------------------------------------------------------------------------------
TOLD = "Anna Ek lives in Graz. Her phone is 617-555-0134. Bo asked twice. Ring 617-555-0134 at nine."


def test_a_run_is_kept_read_and_goes_on(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *given, **more: Copier())
    data = tmp_path / "cases.jsonl"
    lines = [
        {"id": f"c{i}", "context": f"{TOLD} Ask {i}.", "query": "Who?", "response": response}
        for i, response in enumerate(("617-555-0134.", "Bo asked", "Ring 617-555-0134"))
    ]
    data.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    words = ("redact", "--model", "toy", "--data", data, "--disclosures", "--max-new-tokens", 4)
    run, cases = resumed(cli, words)
    assert [[span["kind"] for span in case["disclosed"]["spans"]] for case in cases] == [["phone"], [], ["phone"]]
    assert [sorted(piece["name"] for piece in case["redacted"]) for case in cases] == [["s2", "s4"], [], ["s2", "s4"]]
    kept = leakmeter.load_run(run)
    (in_memory,) = leakmeter.redact(Copier(), lines[:1], disclosures=True, max_new_tokens=4)
    assert in_memory.disclosed == kept[0].disclosed
    assert [told(result).to_dict() for result in kept] == [case["disclosed"] for case in cases]
    dry = json.loads(cli(*words, "--dry-run", "--json").out)
    assert sum(case["cost"]["tree_tokens"] for case in cases) <= dry["tree_tokens"]
    assert sum(case["cost"]["requests"] for case in cases) <= dry["requests"]
    rows = leakmeter.query("select kind, is_left, before_nats > after_nats as fell from redact_disclosed_spans")
    assert [tuple(row) for row in rows.itertuples(index=False)] == [("phone", False, True)] * 2
    (tmp_path / "note.txt").write_text(TOLD, encoding="utf-8")
    words = ("redact", "--model", "toy", "--context-file", tmp_path / "note.txt", "--query", "Who?", "--disclosures")
    ended = cli(*words, "--response", "617-555-0134", "--max-new-tokens", 4, "--write-redacted", "left.txt")
    assert ended.code == 0, ended.err
    assert "the response then discloses nothing personal or secret (before: 1 disclosure)." in flat(ended.out)
    assert Path("left.txt").read_text(encoding="utf-8") == "Anna Ek lives in Graz. Bo asked twice."


@pytest.mark.parametrize(
    ("unit", "context", "answer", "cut"),
    [
        ("line", "Call\n555-010-\n7788 now.\nTide.", "Call 555-010-7788.", ["555-010-", "7788 now."]),
        ("word", "Call 555 010\n7788 now.", "Call 555-010-7788.", ["555", "010", "7788"]),
        ("ngram:5", "The code is Kq9hunter2-77. Tide.", "It is Kq9hunter2-77.", ["s Kq9", "hunte", "r2-77"]),
        ("entity", "The code is Kq9hunter2-77. Tide.", "It is Kq9hunter2-77.", None),
        ("entity", "Call 617-555-0134. Again: 617;555;0134.", "Call 617-555-0134.", None),
        ("entity", "At 12 Elm Street\nLeeds LS1 4AB.", "At 12 Elm Street, Leeds LS1 4AB.", None),
    ],
)
def test_all_that_says_a_value_is_cut_or_the_plan_is_not_reached(
    unit: str, context: str, answer: str, cut: list[str] | None
) -> None:
    result = redacted(Toy(), context=context, response=answer, unit=unit)
    (span,) = told(result).spans
    assert (result.reached, span.is_left) == (cut is not None, cut is None)
    if cut is None:
        (line,) = (line for line in result.warnings if "cannot be removed" in line)
        assert "text between the pieces says it, or a part of it" in line
        assert unmet(result) == "1 personal or secret disclosure is left"
    else:
        assert [context[piece.start : piece.end] for piece in result.redacted] == cut


@pytest.mark.parametrize("statistic", ["only_this", "without_this", "log_prob"])
def test_measurements_without_those_of_disclosures_are_none_of_the_case(statistic: str) -> None:
    case = prepared()
    measurements = measured(case.item)
    kept = KeptRedaction.from_dict(texts_of(case, measurements))
    kept.check_measurements(RedactionStatistics, asdict(MEASURE), measurements)
    with pytest.raises(FieldError, match="is missing"):
        kept.check_measurements(
            RedactionStatistics, asdict(MEASURE), [each for each in measurements if each.statistic != statistic]
        )


def test_what_a_plan_for_disclosures_says() -> None:
    def said(*cases: RedactionResult, width: int = 80) -> str:
        return flat(printed(RedactionResult.report(cases), width=width))

    result, nothing = redacted(), redacted(response="The ferry sails at nine.")
    assert flat(verdict(result)) == (
        "Cut 2 of 6 pieces (42 % of the text): the response then discloses nothing personal or secret (before: 1 "
        "disclosure)."
    )
    assert flat(verdict(nothing)) == (
        "Nothing has to be cut: the response discloses no recognisable personal or secret data."
    )
    assert "The context influences the response by " in said(nothing)
    assert "the limit is 2" in said(redacted(measure=replace(MEASURE, max_loss=2.0)))
    page = said(result)
    assert re.sub(r"[0-9.]+(?= nats)", "N", page).startswith(
        f"{flat(verdict(result))} The cuts make the rest of the response N nats less likely. What is left influences "
        "the response by N nats."
    )
    assert "Personal or secret disclosures, before and after the cuts" in page
    assert "Steps, until nothing personal or secret is disclosed" in page
    several = RedactionResult.findings([result, nothing])
    assert "2 of 2 plans" in several.headline
    assert "remove what is personal or secret" in several.headline
    table = said(result, nothing, width=160)
    assert "0 of 1" in table
    assert "0 of 0" in table
