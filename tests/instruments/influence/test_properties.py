"""What has to hold of influence whatever the model: deaf models, renamed vocabularies, other company."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.measure_items import Series, make_item, readings_of
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.measure import Influence

N_VOCAB = 17
TOKENS = st.integers(0, N_VOCAB - 1)


def ids(least: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(TOKENS, min_size=least, max_size=most).map(tuple)


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    context = [Piece(f"c{i}", "context", x) for i, x in enumerate(draw(st.lists(ids(1, 4), min_size=1, max_size=4)))]
    return Prompt((Piece("open", "frame", draw(ids(1, 3))), *context, Piece("query", "query", draw(ids(1, 3)))))


CONTRASTS = ("whole", "without_this", "only_this", "placebo", "noise")


def contrasts(series: Series) -> dict[tuple[int, str, str], np.ndarray]:
    return {key: values for key, values in series.items() if key[1] in CONTRASTS}


MEASURES = st.builds(
    Influence, temperature=st.sampled_from([0.7, 1.0, 2.0]), cid_lambda=st.sampled_from([0.0, 0.5, 1.0, 1.5])
)


@seed(6)
@settings(max_examples=examples(40))
@given(prompts(), ids(1, 4), st.booleans(), MEASURES)
def test_a_model_deaf_to_its_context_owes_it_nothing(
    prompt: Prompt, response: tuple[int, ...], masks: bool, measure: Influence
) -> None:
    item = make_item(prompt, response, masks=masks, placebo=(1, 2))
    for (_, statistic, piece), values in contrasts(readings_of(Toy(N_VOCAB, reach=1), measure, item)).items():
        if measure.cid_lambda == 1.5 and (statistic in ("whole", "only_this") or piece == "all"):
            # Against z∅ itself stands 1.5 z∅ − 0.5 z∅, which rounds. Measured: 3.6e-15.
            assert np.abs(values).max() <= 1e-14
        else:
            assert (values == 0).all(), (statistic, piece)


class Renamed(Toy):
    """The toy with its tokens renamed: token v is called new_name[v]."""

    def __init__(self, new_name: np.ndarray) -> None:
        super().__init__(N_VOCAB)
        old_name = np.argsort(new_name)
        self._last = self._last[np.ix_(old_name, old_name)]
        self._seen = self._seen[np.ix_(old_name, old_name)]


@seed(10)
@settings(max_examples=examples(30))
@given(prompts(), ids(1, 4), st.permutations(range(N_VOCAB)), st.booleans(), MEASURES)
def test_renaming_the_vocabulary_changes_nothing(
    prompt: Prompt, response: tuple[int, ...], names: list[int], masks: bool, measure: Influence
) -> None:
    def renamed(tokens: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(names[token] for token in tokens)

    other = Prompt(tuple(replace(piece, ids=renamed(piece.ids)) for piece in prompt.pieces))
    one = readings_of(Toy(N_VOCAB), measure, make_item(prompt, response, masks=masks))
    two = readings_of(Renamed(np.asarray(names)), measure, make_item(other, renamed(response), masks=masks))
    assert one.keys() == two.keys()
    for key, values in contrasts(one).items():
        # Only the order of sums over the vocabulary differs. Measured: 1.8e-15.
        np.testing.assert_allclose(two[key], values, rtol=0, atol=1e-14)


def test_company_and_order_of_trials_change_nothing() -> None:
    prompt = Prompt((Piece("o", "frame", (1, 2)), Piece("c", "context", (3, 4)), Piece("d", "context", (5,))))
    items = [make_item(prompt, response, id_=str(i)) for i, response in enumerate([(1,), (1, 2, 3), None, (4, 5)])]
    measure = Influence(max_new_tokens=4)
    together, _ = drive(Toy(N_VOCAB), [measure.trial(item) for item in items])
    backwards, _ = drive(Toy(N_VOCAB), [measure.trial(item) for item in reversed(items)])
    for item, mine, other in zip(items, together, reversed(backwards), strict=True):
        alone = readings_of(Toy(N_VOCAB), measure, item)
        for measurements in (mine, other):
            assert {(r.sample, r.statistic, r.piece): r.values.tolist() for r in measurements} == {
                key: values.tolist() for key, values in alone.items()
            }


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"temperature": 0.0}, "temperature is 0.0; it has to be above 0"),
        ({"temperature": float("nan")}, "temperature is nan"), ({"temperature": float("inf")}, "temperature is inf"),
        ({"cid_lambda": -0.1}, "cid-lambda is -0.1; it has to be 0 or more"),
        ({"cid_lambda": float("nan")}, "cid-lambda is nan"), ({"samples": 0}, "samples is 0; it has to be 1 or more"),
        ({"max_new_tokens": 0}, "max-new-tokens is 0"), ({"seed": -1}, "seed is -1"),
    ],
)  # fmt: skip
def test_parameters_without_meaning_are_refused(given_: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Influence(**given_)
