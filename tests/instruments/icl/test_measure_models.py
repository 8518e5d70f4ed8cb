"""ICL influence on models of real architectures against one full pass for each left-out exemplar and token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers import naive
from helpers import tiny_models as tiny
from helpers.icl_items import LABELS, ByHand, icl_item, readings_of
from leakmeter.backends.hf.outline import size_of
from leakmeter.core.drive import drive
from leakmeter.core.forecast import planning_backend, predict
from leakmeter.core.plan import Chunk
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings, prepare_exemplars
from leakmeter.text.exemplar import Example, ExemplarCase, Task

# By path: the folder of the back ends' tests is not on the path of these.

MEASURES = {
    "labels": Icl(),
    "sequences": Icl(label_scoring="whole-sequence", temperature=0.8),
    "vocabulary": Icl(space="vocabulary"),
    "calibrated": Icl(calibration="average"),
    "calibrated by one": Icl(label_scoring="whole-sequence", calibration="blank", calibration_baseline="shared"),
}
measures = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
TASK = Task(
    "notes",
    "Classify the notes into the categories of Health, Money, and Travel.\n\n",
    (("text", "Note"),),
    "Answer",
    (("health", "Health"), ("money", "Money"), ("travel", "Travel")),
)
EXEMPLARS = (
    Example("n1", ("Invoice 17 of Mara Lindqvist is three weeks overdue.",), "Money"),
    Example("n2", ("The knee should rest for a fortnight after the fall.",), "Health"),
)
QUERY = Example("q", ("The loan is to be paid back by the end of May.",), "Money")


def by_hand(model: Any, measure: Icl, item: Any) -> ByHand:
    def logits(ids: Sequence[int]) -> np.ndarray:
        found: np.ndarray = naive.naive_logits(model, Prompt((Piece("all", "frame", tuple(ids)),)), ())
        return found

    return ByHand(logits, measure, item)


@measures
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gpt_neo"])
def test_losses_equal_full_passes(kind: str, measure: Icl) -> None:
    item = icl_item(tiny.N_VOCAB, seed=3, lengths=(9, 4, 7), labels=LABELS[measure.label_scoring])
    backend = tiny.tiny_backend(kind)
    got, hand = readings_of(backend, measure, item), by_hand(tiny.tiny_model(kind), measure, item)
    for name in item.cuts:
        # Worst measured: 1.4e-5 (llama, whole sequences), of losses up to 12 nats.
        np.testing.assert_allclose(got["label_loss", name], hand.loss(name), rtol=0, atol=5e-5)
        if measure.space == "vocabulary":
            token, whole, without = hand.farthest(name)
            loss = abs(got["farthest_log_prob", name] - got["farthest_log_prob_without", name])
            assert loss == pytest.approx(abs(whole - without), abs=5e-5)
            assert got["farthest_token", name] == token
    assert max(np.abs(got["label_loss", name]).max() for name in item.cuts) > 0.3
    assert got["noise", ""][0] < 5e-5


@measures
@pytest.mark.parametrize("settings", [{}, {"share_prefixes": False}], ids=["shared", "full passes"])
def test_what_is_taken_is_what_was_predicted(measure: Icl, settings: dict[str, Any]) -> None:
    item = icl_item(tiny.N_VOCAB, seed=3, lengths=(9, 4, 7), labels=LABELS[measure.label_scoring])
    backend = tiny.tiny_backend(**settings)
    size = size_of(backend.model, backend.limits)
    prediction = predict(planning_backend(backend, size), measure.trial(item))
    chunks: list[Chunk] = []
    _, taken = drive(backend, [measure.trial(item)], on_plan=chunks.append)
    assert (prediction.n_tokens_run, prediction.n_prompts) == (taken.n_tokens_run, taken.n_prompts)
    assert not prediction.is_upper_bound
    if backend.shares_prefixes:
        # The second round runs the last token of a few prompts, and labels behind it.
        few = measure._prompts(item, item.answers, ["e1", "e3"])  # type: ignore[arg-type]
        n_label_tokens = chunks[1].n_tree_tokens - _n_tree_tokens(few)
        assert taken.n_tokens_run == chunks[0].n_tree_tokens + len(few) + n_label_tokens


def _n_tree_tokens(prompts: Sequence[Prompt]) -> int:
    return len({tuple(prompt.ids[:n].tolist()) for prompt in prompts for n in range(1, len(prompt.ids) + 1)})


def test_queries_scored_together_have_the_numbers_of_each_alone() -> None:
    backend = tiny.tiny_backend()
    items = [icl_item(tiny.N_VOCAB, seed=i, id_=str(i), lengths=(9, 4, 7)) for i in range(4)]
    chunks: list[Chunk] = []
    together, _ = drive(backend, [Icl().trial(item) for item in items], on_plan=chunks.append)
    for item, measurements in zip(items, together, strict=True):
        alone = readings_of(backend, Icl(), item)
        for measurement in measurements:
            np.testing.assert_allclose(
                measurement.values, alone[measurement.statistic, measurement.piece], rtol=0, atol=5e-5
            )
    # They share their instruction.
    prompts = [prompt for item in items for prompt in (item.prompt, *item.cuts.values())]
    assert chunks[0].n_tree_tokens == _n_tree_tokens(prompts)


@pytest.mark.long
def test_a_real_model_against_full_passes(real_backend: Any) -> None:
    case = ExemplarCase("q", EXEMPLARS, QUERY)
    item = prepare_exemplars(case, real_backend.tokenizer, ExemplarSettings(TASK), window=real_backend.window).item
    assert item.answers is not None
    measure = Icl(space="vocabulary")
    got = readings_of(real_backend, measure, item)
    labels = [ids[0] for ids in item.answers.ids]

    def log_probs(prompt: Prompt) -> np.ndarray:
        logits = naive.naive_logits(real_backend.model, prompt, ())
        return np.asarray(logits - logits.max() - np.log(np.exp(logits - logits.max()).sum()))

    whole = log_probs(item.prompt)
    for name, cut in item.cuts.items():
        without = log_probs(cut)
        renormalised = [row[labels] - np.log(np.exp(row[labels]).sum()) for row in (whole, without)]
        np.testing.assert_allclose(got["label_loss", name], renormalised[0] - renormalised[1], rtol=0, atol=1e-3)
        loss = abs(got["farthest_log_prob", name] - got["farthest_log_prob_without", name])
        assert loss == pytest.approx(np.abs(whole - without).max(), abs=1e-3)
    assert got["noise", ""].max() < 1e-3 < max(np.abs(got["label_loss", name]).max() for name in item.cuts)
