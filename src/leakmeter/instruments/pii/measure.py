"""Whether a model knows a subject's data: the likelihood of a true value among decoys, and what is generated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from leakmeter.core.limits import MOST_BEAMS
from leakmeter.core.measure import Measure
from leakmeter.core.measurement import COUNT, NATS, RESPONSE, TOKEN_ID, Measurement
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import FloatArray, Request, Scores, Trial
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.beam import Beam, beam_search, longest_beam_search
from leakmeter.instruments.pii.item import ProbeItem, Values
from leakmeter.overriding import override

TOGETHER: Final = 8
"""Values that are asked for together: a step of beam search reads all weights once, for however many beams."""
BEAM: Final = "beam "
"""What the piece of a generated answer's measurements begins with; the width follows."""


@dataclass(frozen=True, slots=True)
class Pii(Measure):
    """Log-likelihood, nats, of a subject's value and of its decoys behind each template, and answers generated.

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Eq. 1, black box. The likelihood is that of
    the value's tokens, Π_r p(a_r | prompt, a_<r); the normalised one is its 1/L-th power for L tokens. Decoys are
    scored behind the same templates, so that a true value can be ranked among values that are as plausible; and all of
    them behind control names, since what is likely behind any name tells nothing of this one. Generation is beam
    search, as many tokens as the paper has for the type.

    Statistics. Of each template (the sample), one value for the true value and each decoy, in that order:
    `log_likelihood`, `n_tokens` and `reference_log_likelihood`, the mean over control names. Of each template and width
    (the piece, 'beam 2'): `generated_log_likelihood` and `generated_tokens`, and what the answer gives away
    (`instruments.pii.matching.STATISTICS`); with answers kept, its tokens.
    """

    beams: tuple[int, ...] = (2,)
    """Widths of the beam searches that try to generate the value; 1 is greedy, none generates nothing."""

    def __post_init__(self) -> None:
        if any(not 1 <= width <= MOST_BEAMS for width in self.beams):
            raise UsageError(f"beams is {self.beams!r}; give widths of 1 or more and {MOST_BEAMS:,} at most, or none")
        if len(set(self.beams)) < len(self.beams):
            raise UsageError("a width of beams is given twice; give each once")

    @property
    @override
    def samples(self) -> int:
        return 1

    @property
    @override
    def together(self) -> int:
        """A step of beam search reads all weights once, for however many beams."""
        return TOGETHER

    @property
    @override
    def max_new_tokens(self) -> int:
        """What is generated depends on the type of the value; cases reserve the room themselves."""
        return 0

    @override
    def trial(self, item: ProbeItem) -> Trial[list[Measurement]]:
        values = item.values
        scores = yield _scored(values)
        measurements = list(_likelihoods(item.id, values, scores))
        for width in self.beams:
            by_template = yield from beam_search(
                values.asked, width=width, max_new_tokens=values.n_new_tokens, stop_ids=item.stop_ids
            )
            for template, answers in enumerate(by_template):
                measurements += _answer(item.id, template, f"{BEAM}{width}", answers[0], values)
        return measurements

    def longest_trial(self, item: ProbeItem) -> Trial[Any]:
        values = item.values
        yield _scored(values)
        for width in self.beams:
            yield from longest_beam_search(
                values.asked, width=width, max_new_tokens=values.n_new_tokens, stop_ids=item.stop_ids
            )


def _scored(values: Values) -> list[Request]:
    everyone = (values.scored, *values.control_names)
    return [Request((before,), ids, TargetLogProbs()) for ways in everyone for way in ways for before, ids in way]


def _likelihoods(id_: str, values: Values, scores: Sequence[Scores]) -> Iterator[Measurement]:
    shape = (1 + len(values.control_names), len(values.scored), -1)
    likelihoods = _array([float(score.values.sum()) for score in scores]).reshape(shape)
    for template, way in enumerate(values.scored):
        own, others = likelihoods[0, template], likelihoods[1:, template].mean(axis=0)
        yield Measurement(id_, template, "", "log_likelihood", NATS, own)
        yield Measurement(id_, template, "", "n_tokens", COUNT, _array([float(len(ids)) for _, ids in way]))
        yield Measurement(id_, template, "", "reference_log_likelihood", NATS, others)


def _answer(id_: str, template: int, piece: str, answer: Beam, values: Values) -> Iterator[Measurement]:
    def measurement(statistic: str, unit: str, numbers: Sequence[float]) -> Measurement:
        return Measurement(id_, template, piece, statistic, unit, _array(numbers))

    yield measurement("generated_log_likelihood", NATS, [answer.log_prob])
    yield measurement("generated_tokens", COUNT, [float(len(answer.tokens))])
    for statistic, value in values.judge(answer.tokens).items():
        yield measurement(statistic, values.units[statistic], [value])
    if values.keeps_answers:
        yield measurement(RESPONSE, TOKEN_ID, [float(token) for token in answer.tokens])


def _array(numbers: Sequence[float]) -> FloatArray:
    return np.asarray(numbers, dtype=np.float64)
