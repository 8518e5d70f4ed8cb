"""Step by step: what is asked of a case of a large log, of which most disclose nothing.

1. The response is scored with its context and without it. If no span of it could be a disclosure even where nothing is
   held against it, or only such as a document says too and nothing calls personal or secret, the case is finished.
2. It is scored beside contexts of other cases, one after another, the shortest first, which takes away most of what is
   style, and beside an irrelevant text, as long as a span is left.
3. Where a span is still left of which no piece of the context says the words, pieces are scored as of any case, and
   irrelevant texts in its own context. Else words show what it came from.

Some cases are of samples (`core.item.StepByStep`), which are asked more whatever was found: from these follows what a
log as a whole is said to be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from leakmeter.core.item import FEW_CASES, ContextItem, StepByStep
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.noise import neighbourhood_noise
from leakmeter.core.reductions import MixtureLogProbs, TargetLogProbs
from leakmeter.core.request import Request, Trial
from leakmeter.instruments.influence.disclosures import open_spans
from leakmeter.instruments.influence.math import InfluenceStatistics, PieceScores, check_possible
from leakmeter.instruments.influence.telling import telling
from leakmeter.stats.arrays import FloatArray

if TYPE_CHECKING:
    from leakmeter.core.case import Case
    from leakmeter.instruments.influence.measure import Influence
    from leakmeter.text.build import PromptSettings

FEWEST: Final = FEW_CASES
"""Of a larger log so many cases, drawn at random, are scored beside contexts of other cases whatever was found: they
say how often the rule of disclosures is wrong."""
AVERAGED: Final = 200
"""Cases of a log, drawn at random, that are scored beside an irrelevant text whatever was found, by default: from these
follow averages over the log."""


def steps_of(n_cases: int, seed: int, n_averaged: int = AVERAGED) -> Sequence[StepByStep]:
    """How each of so many cases of one log is measured; none of a log that is measured completely. `n_averaged` cases
    are scored beside an irrelevant text whatever was found."""
    if n_cases <= FEWEST:
        return ()
    entropy = int.from_bytes(hashlib.sha256(b"steps").digest()[:8])
    order = np.random.default_rng([seed, entropy]).permutation(n_cases)
    ranks = np.empty(n_cases, dtype=np.int64)
    ranks[order] = np.arange(n_cases)
    return [StepByStep(placebo=bool(rank < n_averaged), controls=bool(rank < FEWEST)) for rank in ranks]


TOGETHER: Final = 32
"""Cases measured step by step that are scored together at most. Most are finished after few short passes, which a model
runs faster together, and contexts of other cases that they are held against are run once."""


def planned(
    measure: Influence,
    settings: PromptSettings,
    cases: LoadedCases[Case],
) -> Plan:
    """The plan for the cases of one log. Of what is drawn nothing is known beforehand: all is measured of it."""
    drawn = [case.response is None for case in cases.cases]
    steps = measure.steps(len(cases.cases)) if not all(drawn) else ()
    steps = [None if is_drawn else step for is_drawn, step in zip(drawn, steps, strict=True)] if steps else ()
    size = TOGETHER if steps else 1
    return Plan("influence", measure, settings, cases, group_size=size, steps=steps, telling=telling)


class Stepwise:
    """What is known of one response so far, and what is asked next."""

    def __init__(self, item: ContextItem, response: tuple[int, ...], reduction: TargetLogProbs | MixtureLogProbs):
        self._item, self._response, self._reduction = item, response, reduction
        self._texts = None if item.texts_of is None else item.texts_of(response)
        self.scored = PieceScores()
        self.noise: FloatArray | None = None
        """Of each token; None where the run has other cases measure it."""

    def trial(self, steps: StepByStep) -> Trial[bool]:
        """Ask until nothing is left open but what pieces do; whether that is."""
        controls = sorted(self._item.controls, key=lambda name: len(self._item.controls[name].ids))
        yield from self._ask(controls if steps.controls else (), placebo_alone=steps.placebo)
        self.noise = yield from neighbourhood_noise(
            self._item, self._response, self._reduction, np.stack([self.scored.bare, self.scored.whole])
        )
        for n in range(1, max(len(controls), 1) + 1):
            if not self._open:
                return False
            yield from self._ask(controls[:n], placebo_alone=n >= len(controls))
        return any(not is_sourced for is_sourced in self._open)

    @property
    def _open(self) -> list[bool]:
        """Of each span that may be a disclosure, whether words alone show what it came from; none without texts."""
        if self._texts is None:
            return []
        told, scored, noise = InfluenceStatistics, self.scored, self.noise
        with np.errstate(invalid="ignore"):
            series: dict[tuple[int, str, str], FloatArray] = {
                (0, told.log_prob, ""): scored.whole,
                (0, told.whole, ""): scored.whole - scored.bare,
                (0, told.noise, ""): np.zeros(len(scored.whole)) if noise is None else noise,
                **{(0, told.control, name): scored.control(name) for name in scored.controls},
            }
            if scored.placebo_alone is not None:
                series[0, told.placebo_alone, ""] = scored.placebo_alone - scored.bare
        return open_spans(self._texts, series)

    def _ask(self, controls: Collection[str], *, placebo_alone: bool) -> Trial[None]:
        """Score the response beside these contexts and an irrelevant text, as far as it was not; at first with its own
        context, and without it."""
        item, scored = self._item, self.scored
        is_first = not len(scored.whole)
        names = [name for name in controls if name not in scored.controls]
        alone = item.placebo_alone if placebo_alone and scored.placebo_alone is None else None
        extras = [item.controls[name] for name in names]
        extras += [] if alone is None else [alone]
        own = (item.blank, item.prompt) if is_first else (item.blank,) * int(self._reduction.rows_together)
        if not extras and not is_first:
            return
        (answer,) = yield [Request((*own, *extras), self._response, self._reduction)]
        rows = iter(answer.values[len(own) :])
        if is_first:
            scored.bare, scored.whole = answer.values[:2]
        scored.controls |= {name: next(rows) for name in names}
        scored.placebo_alone = scored.placebo_alone if alone is None else next(rows)
        check_possible(item, scored.values)
