"""From measurements to the object that `leakmeter redact --json` prints, by hand-written numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from leakmeter.core.measure import NATS, TOKEN_ID, Measurement
from leakmeter.instruments.redaction.result import RedactionResult, marked
from leakmeter.stats.stats import GIVEN
from leakmeter.text.units import merged

CONTEXT = "Ana is 41. Bo ate. Call Ana.\n\nCid left."
PARAMS = {"temperature": 0.8, "cid_lambda": 1.0, "max_new_tokens": 4, "seed": 7}


def span(name: str, *ranges: tuple[int, int], kind: str = "unit", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "kind": kind, "ranges": ranges, "pieces": [f"t{a}" for a, _ in ranges], "document": "note",
        "n_tokens": sum(b - a for a, b in ranges), "repeats": (), "entity": None,
    } | more  # fmt: skip


SPANS = [span("s1", (0, 10)), span("s2", (11, 18)), span("s3", (19, 28)), span("s4", (30, 39))]
VALUE = span("v1", (0, 3), (24, 27), kind="value")


def texts(**more: Any) -> dict[str, Any]:
    return {
        "id": "ana", "model": "toy", "weights_sha256": None, "dtype": "float64", "unit": "sentence", "removal": "drop",
        "template": "plain", "query": "How old?", "context": CONTEXT,
        "documents": [{"name": "note", "start": 0, "end": 28}, {"name": "more", "start": 30, "end": 39}],
        "truncated_tokens": 0, "sampled": False, "spans": SPANS,
        "responses": [{"text": "She is", "tokens": ["She", " is"]}, {"text": "He was", "tokens": ["He", " was"]}],
        "cost": {"requests": 6, "tree_tokens": 90, "naive_tokens": 300, "seconds": 0.1, "out_of_memory_retries": 0},
    } | more  # fmt: skip


def measurements(*steps: tuple[str, str, list[float]], after: bool = True, **more: list[float]) -> list[Measurement]:
    left = steps[-1][2] if steps else [-4.0, 3.0]
    rows: list[tuple[str, str, int, list[float]]] = [
        ("token", "", 0, [7, 8]), ("log_prob", "", 0, [-1, -2]), ("whole", "", 0, [-4.0, 3.0]),
        *((statistic, piece, 0, values) for statistic, piece, values in steps),
        ("left", "", 0, left), ("noise", "", 0, more.pop("noise", [0.01, 0.02])),
        *((statistic, "", 0, values) for statistic, values in more.items()),
        *([("token", "", 1, [5, 6]), ("whole", "", 1, [0.25, -0.5])] if after else []),
    ]  # fmt: skip
    return [
        Measurement("ana", sample, piece, name, TOKEN_ID if name == "token" else NATS, np.asarray(values, dtype=float))
        for name, piece, sample, values in rows
    ]


STEPS = (
    ("removed", "s3", [2.0, 2.0]), ("removed", "s1", [-2.5, 2.0]), ("removed", "s2", [0.5, -0.25]),
    ("put_back", "s3", [0.5, -0.375]),
)  # fmt: skip


def made(measurements: list[Measurement], max_loss: float = 1.0, **more: Any) -> RedactionResult:
    (result,) = RedactionResult.from_run([(texts(**more), measurements)], PARAMS | {"max_loss": max_loss})
    return result


def test_the_plan_and_the_way_to_it() -> None:
    given = made(measurements(*STEPS))
    assert (given.whole_posterior, given.left_posterior, given.left_posterior_note) == (None, None, GIVEN)
    case = made(measurements(*STEPS), sampled=True)
    assert (case.whole_nats, case.whole_signed_nats) == (7.0, -1.0)
    assert (case.left_nats, case.left_signed_nats, case.reached) == (0.875, 0.125, True)
    assert case.left_per_token_nats == (0.5, 0.375)
    assert case.left_posterior == pytest.approx(1 / (1 + np.exp(-0.125)))
    assert case.whole_posterior == pytest.approx(1 / (1 + np.exp(1.0)))
    assert case.steps[1].left_posterior == pytest.approx(1 / (1 + np.exp(0.5)))
    assert case.left_posterior == case.steps[3].left_posterior
    assert [piece.name for piece in case.redacted] == ["s1", "s2"]
    assert [(s.action, s.name, s.left_nats, s.change_nats, s.raised) for s in case.steps] == [
        ("cut", "s3", 4.0, -3.0, False), ("cut", "s1", 4.5, 0.5, True), ("cut", "s2", 0.75, -3.75, False),
        ("put back", "s3", 0.875, 0.125, False),
    ]  # fmt: skip
    assert case.steps[0].text == "Call Ana."
    assert case.steps[3].left_signed_nats == 0.125
    assert case.warnings == (
        "Cutting s1 raised the loss: no other scored piece lowered it, and the limit could only be reached this way.",
    )
    assert case.all_removed_nats is None
    assert case.after is not None
    assert case.after.to_dict() == {
        "text": "He was", "tokens": ["He", " was"], "seed": 7, "whole_nats": 0.75, "whole_signed_nats": -0.25,
        "whole_per_token_nats": [0.25, 0.5], "disclosures": None,
    }  # fmt: skip
    assert given.response.to_dict() == {"text": "She is", "tokens": ["She", " is"], "sampled": False, "seed": None}
    assert RedactionResult.from_dict(json.loads(case.to_json())) == case


def test_the_text_that_is_left_as_it_is_and_as_it_is_shown() -> None:
    result = made(measurements(*STEPS))
    # Two pieces side by side have one mark.
    assert result.marked_context == "[…] Call Ana.\n\nCid left."
    assert [document.text for document in result.redacted_documents] == ["Call Ana.", "Cid left."]
    assert result.text == "Call Ana.\n\nCid left."
    assert result.redacted_share == pytest.approx(14 / 30)
    frame = result.to_frame()
    assert list(frame["name"]) == ["s3", "s1", "s2", "s3"]
    assert list(frame["left_nats"]) == [4.0, 4.5, 0.75, 0.875]
    last = measurements(("removed", "s4", [0.1, 0.1]))
    assert made(last).text == "Ana is 41. Bo ate. Call Ana."
    documents = [texts()["documents"][0], {"name": "more", "start": 30, "end": 41}]
    lines = made(last, context=CONTEXT + " \n", documents=documents)
    assert [document.text for document in lines.redacted_documents] == ["Ana is 41. Bo ate. Call Ana.", ""]


def test_a_value_goes_with_all_its_mentions() -> None:
    case = made(measurements(("removed", "v1", [0.5, 0.1])), spans=[*SPANS, VALUE])
    (piece,) = case.redacted
    assert (piece.text, piece.n_mentions, piece.spans) == ("Ana", 2, ((0, 3), (24, 27)))
    assert case.marked_context == "[…] is 41. Bo ate. Call […].\n\nCid left."
    assert case.n_pieces == 5


def test_nothing_cut() -> None:
    case = made(measurements(after=False), 9.0, responses=texts()["responses"][:1])
    assert (case.redacted, case.steps, case.after, case.reached) == ((), (), None, True)
    assert case.marked_context == CONTEXT
    assert case.text == CONTEXT
    assert list(case.to_frame().columns)[:2] == ["action", "name"]


def test_what_narrows_a_plan_is_said() -> None:
    case = made(measurements(("removed", "s1", [2.0, 2.0]), all_removed=[3.0, -2.0]))
    assert (case.reached, case.all_removed_nats) == (False, 5.0)
    assert case.warnings[0].startswith("With every piece cut, 5 nats are left: the text between")
    noisy = made(measurements(*STEPS, noise=[1.0, 1.5]))
    assert noisy.warnings[0].startswith("A limit of 1 nats is below this response's noise floor of 2.5")
    # A rise within the noise is none.
    assert not any(step.raised for step in noisy.steps)
    low = made(measurements(*STEPS, placebo=[2.0, -1.5]), sampled=True)
    assert (low.placebo_nats, low.placebo_signed_nats) == (3.5, 0.5)
    assert "irrelevant words as the only context, by 3.5 nats. A limit of 1 is below that" in low.warnings[0]
    # With signs 4.0, −0.5, 0.25 and 0.125 were left on the way.
    assert [step.left_posterior_note for step in low.steps] == [None, *["below the placebo"] * 3]
    assert (low.left_posterior, low.left_posterior_note) == (None, "below the placebo")
    assert low.whole_posterior == pytest.approx(1 / (1 + np.exp(1.0)))
    assert noisy.left_posterior_note == noisy.whole_posterior_note == "below the noise floor"
    high = made(measurements(*STEPS, placebo=[2.0, -1.5]), 4.0)
    assert not any("rrelevant" in warning for warning in high.warnings)
    twice = [span("s1", (0, 10), repeats=("s3",)), *SPANS[1:]]
    assert "--group" in made(measurements(*STEPS), spans=twice).warnings[-1]
    assert "--group" not in " ".join(made(measurements(*STEPS), spans=[*twice, VALUE]).warnings)
    nobody = made(measurements(all_removed=[-4.0, 3.0], after=False), unit="entity", spans=[])
    assert nobody.warnings[0].startswith("No personal data was found")


def test_ranges_and_marks() -> None:
    assert merged([(5, 7), (0, 2), (1, 3), (3, 4), (9, 9)]) == [(0, 4), (5, 7), (9, 9)]
    assert marked("ab cd ef", [(0, 2), (3, 5)]) == "[…] ef"
    assert marked("ab\ncd ef", [(0, 2), (3, 5)]) == "[…] ef"
    assert marked("abc", []) == "abc"
    # What was in the text before is not taken for a mark.
    assert marked("[…] x", [(4, 5)]) == "[…] […]"


def answered(*values: float, said: tuple[str, ...] = ("Call", " Cid", "."), **series: list[float]) -> RedactionResult:
    """With s1 and s2 cut, of an answer with what is left does to each token, and its log-probability."""
    rows = measurements(*STEPS, after=False)
    own = {"token": [5.0, 6.0, 7.0], "whole": [*values], "answer_log_prob": [-1.0] * 3}
    rows += [
        Measurement("ana", 1, "", name, TOKEN_ID if name == "token" else NATS, np.asarray(numbers))
        for name, numbers in (own | series).items()
    ]
    responses = [texts()["responses"][0], {"text": "".join(said), "tokens": said}]
    return made(rows, responses=responses, sensitive=[(0, 3, "client"), (30, 33, "client")], region="US")


def test_the_new_answer_is_searched_as_the_response_is() -> None:
    case = answered(0.0, 9.0, 0.0)
    assert case.after is not None
    (found,) = case.after.sensitive
    assert (found.text, found.kind, found.nats, found.surprise_nats) == ("Cid", "client", 9.0, 10.0)
    assert (found.evidence, found.relation, found.documents, found.floor_nats) == ("scores", "copied", ["note"], 3.0)
    # Pieces were not measured on it.
    assert [(source.piece, source.nats) for source in found.sources] == [("s4", None)]
    assert RedactionResult.from_dict(json.loads(case.to_json())) == case
    # An irrelevant text does as much; then the model would not have said it by itself all the same.
    (found,) = answered(0.0, 9.0, 0.0, answer_placebo=[0.0, 9.5, 0.0]).after.sensitive  # type: ignore[union-attr]
    assert (found.evidence, found.floor_nats) == ("words", 9.5)
    assert answered(0.0, 1.0, 0.0).after.sensitive == ()  # type: ignore[union-attr]


def test_what_is_cut_is_no_source_of_the_new_answer() -> None:
    (found,) = answered(0.0, 9.0, 0.0, said=("He", " Bo", ".")).after.disclosures or ()  # type: ignore[union-attr]
    assert (found.text, found.sources, found.relation) == ("Bo", (), "inferred")
