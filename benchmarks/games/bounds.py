"""Tokens drawn under a bound: does the best adversary tell two contexts apart better than ε allows, and how nearly?

The adversary knows both contexts and the rule, and says which context a token came from by the ratio of the two
probabilities that the rule gives it: no adversary does better. The tokens are drawn by leakmeter's own instruments with
the operating system's random numbers. An ε-private rule has P(event | one) ≤ e^ε P(event | other) for every event. Half
of the tokens choose the event, the other half count it, and Clopper and Pearson's bounds give an ε that the rule has at
least (Jagielski et al., 2020; Nasr et al., 2021).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from scipy.stats import beta

from benchmarks.games import worlds
from leakmeter.backends.hf import HfBackend
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Prompt
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.prompts import GenerationSettings, prepare_generation
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.decoding import Decoding
from leakmeter.privacy.mechanism import ClippedLogitAggregation
from leakmeter.stats.arrays import FloatArray
from leakmeter.text.exemplars import ExemplarCase, LabelledText

EPSILONS: Final = (0.5, 1.0, 2.0, 4.0)
_MISS: Final = 0.05
_CLIP: Final = 10.0
_N_EXEMPLARS: Final = 3
Row = dict[str, Any]


@dataclass(frozen=True)
class Played:
    """Tokens that were drawn of each of two contexts."""

    ratios: tuple[FloatArray, FloatArray]
    """log P(token | one) − log P(token | other) under the rule, nats, of the tokens drawn of each."""
    largest: float
    """The largest that any token of the vocabulary has, in absolute value, nats."""


def rows(
    backend: HfBackend, *, seed: int, n_worlds: int, n_draws: int, rules: Sequence[str] | None = None
) -> Iterator[Row]:
    """One of each rule and ε.

    Args:
        backend: the model that writes.
        seed: of the texts, and of which tokens choose the event.
        n_worlds: pairs of contexts.
        n_draws: tokens that are drawn of each context of each pair.
        rules: names among `RULES`; all by default.
    """
    for rule in rules or RULES:
        for epsilon in EPSILONS:
            played = list(RULES[rule](backend, epsilon, seed, n_worlds, n_draws))
            one, other = (np.concatenate([pair.ratios[side] for pair in played]) for side in (0, 1))
            yield {
                "kind": rule,
                "epsilon_promised": epsilon,
                "epsilon_of_the_worst_token": max(pair.largest for pair in played),
                "epsilon_at_least": least_epsilon(one, other, seed),
                "tokens_drawn": len(one) + len(other),
            }


def least_epsilon(one: FloatArray, other: FloatArray, seed: int) -> float:
    """An ε, nats, that the rule has at least, with 95 % confidence; 0 where nothing shows."""
    rng = np.random.default_rng([seed, 3])
    one, other = rng.permutation(one), rng.permutation(other)
    halves = [(of[: len(of) // 2], of[len(of) // 2 :]) for of in (one, other)]
    (one_first, one_last), (other_first, other_last) = halves
    # Each event is a ratio above a threshold, or below it: the two directions of the definition.
    events = [(sign, sign * float(t)) for sign in (1.0, -1.0) for t in np.unique(np.concatenate([one, other]))]

    def found(event: tuple[float, float], one: FloatArray, other: FloatArray) -> float:
        sign, threshold = event
        likely, unlikely = (one, other) if sign > 0 else (other, one)
        hits = [int(np.sum(sign * of >= threshold)) for of in (likely, unlikely)]
        lower = beta.ppf(_MISS / 2, hits[0], len(likely) - hits[0] + 1) if hits[0] else 0.0
        all_hit = hits[1] == len(unlikely)
        upper = 1.0 if all_hit else beta.isf(_MISS / 2, hits[1] + 1, len(unlikely) - hits[1])
        return math.log(lower / upper) if lower > 0 else -math.inf

    chosen = max(events, key=lambda event: found(event, one_first, other_first))
    return max(0.0, found(chosen, one_last, other_last))


def _decoded(backend: HfBackend, epsilon: float, seed: int, n_worlds: int, n_draws: int) -> Iterator[Played]:
    """Two customers' records as the whole context."""
    measure = Decode(epsilon=epsilon, max_new_tokens=1, samples=n_draws).seeded()
    decoding = Decoding(bound_nats=epsilon / 2)
    for world in worlds.kinds(seed, n_worlds, None)["this document or another"]:
        items = world.items(backend)
        log_probs = [
            decoding.mix(_logits(backend, item.prompt), _logits(backend, item.blank)).log_probs for item in items
        ]
        yield _counted(backend, measure, items, log_probs)


def _generated(backend: HfBackend, epsilon: float, seed: int, n_worlds: int, n_draws: int) -> Iterator[Played]:
    """Three customers' records as exemplars, and two of them."""
    # The pure loss of a token is twice the sensitivity, which falls with the temperature.
    at_one = 2.0 * Aggregation(_CLIP, _N_EXEMPLARS, 1.0).sensitivity()
    mechanism = ClippedLogitAggregation(Aggregation(_CLIP, _N_EXEMPLARS, at_one / epsilon))
    measure = PrivateGeneration(mechanism=mechanism, max_new_tokens=1, sequences=n_draws).seeded()
    drawn = random.Random(f"exemplars of bounds {seed}")
    for number in range(n_worlds):
        texts = tuple(LabelledText(f"e{i}", (worlds.record(drawn),), "a customer's note") for i in range(_N_EXEMPLARS))
        items = [_exemplars(backend, f"game {number}", of) for of in (texts, texts[1:])]
        log_probs = [
            mechanism.log_probs(torch.stack([_logits(backend, item.alone[span.name]) for span in item.spans]))
            for item in items
        ]
        yield _counted(backend, measure, items, log_probs)


def _exemplars(backend: HfBackend, name: str, texts: tuple[LabelledText, ...]) -> ContextItem:
    case = ExemplarCase(name, texts, LabelledText("query", (), texts[0].label))
    settings = GenerationSettings(instruction="Write a text of this kind.", label_heading="Kind")
    return prepare_generation(case, backend.tokenizer, settings, window=backend.window, n_reserved=1).item


def _counted(
    backend: HfBackend, measure: Decode | PrivateGeneration, items: list[ContextItem], log_probs: list[Any]
) -> Played:
    """What the measure draws of each of two items, and what the rule says of it."""
    ratio = (log_probs[0] - log_probs[1]).cpu().numpy()
    sides: list[FloatArray] = []
    for item in items:
        ((measured,), _) = drive(backend, [measure.trial(item)])
        tokens = [m.values for m in measured if m.statistic == "token"]
        sides.append(ratio[np.concatenate(tokens).astype(int)])
    return Played((sides[0], sides[1]), float(np.abs(ratio).max()))


@torch.inference_mode()
def _logits(backend: HfBackend, prompt: Prompt) -> torch.Tensor:
    """Of the next token, (vocab,), float64, by a plain pass of the model's own class."""
    model: Any = backend.model
    ids = torch.tensor([list(map(int, prompt.ids))], device=next(model.parameters()).device)
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0, -1].double()
    return logits


RULES: Final[dict[str, Callable[[HfBackend, float, int, int, int], Iterator[Played]]]] = {
    "bounded decoding": _decoded,
    "private generation": _generated,
}
