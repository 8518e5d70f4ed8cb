"""Context influence: the influence of each piece of a context on a response, in nats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.limits import MOST_NEW_TOKENS, MOST_SAMPLES, bounded
from leakmeter.core.measure import Measure
from leakmeter.core.measurement import HALF_WIDTH, NATS, TOKEN_ID, Measurement
from leakmeter.core.noise import interval_noise_of, neighbourhood_noise
from leakmeter.core.reductions import MixtureLogProbs, TargetLogProbs
from leakmeter.core.request import FloatArray, Request, Trial
from leakmeter.core.sampling import sample
from leakmeter.errors import UsageError
from leakmeter.stats import logspace


@dataclass(frozen=True, slots=True)
class Influence(Measure):
    """|log p̄(y_t | D, x, y_<t) − log p̄(y_t | D∖D_i, x, y_<t)| for every piece D_i and response token, nats.

    Flemings et al., Definitions 3.1 and 3.2, under p̄_{λ,T} of Eq. 6. The signed difference is what is kept, as
    statistic `without_this`; beside it `only_this`, log p̄(y_t | D_i) − log p̄(y_t | ∅), which sees a value that is
    said elsewhere too; `swapped`, log p̄(y_t | D) − log p̄(y_t | D with a surrogate for D_i), for personal data that
    is swapped too; `whole`, for all of D; `placebo`, for an irrelevant piece added, and `placebo_alone`, for one
    as the only context, log p̄(y_t | irrelevant) − log p̄(y_t | ∅): what `without_this` and `whole` are held against;
    `noise`, the difference that other neighbours in the computation make. Where a server's likeliest tokens leave an
    interval for each log-probability, differences are those of the middles; `half_width`, of each piece and of the
    response, is the most that one may be off, and `noise` holds it too.
    """

    temperature: float = 1.0
    """T of the distribution measured and sampled from, above 0."""
    cid_lambda: float = 1.0
    """λ of context influence decoding: 0 is the prior, 1 ordinary sampling, more amplifies the context."""
    samples: int = 1
    """Responses drawn for a case without one."""
    max_new_tokens: int = 50
    """Most tokens of a drawn response."""
    seed: int = 0
    """Of the draws."""

    def __post_init__(self) -> None:
        """Refuse what Eq. 6 has no meaning for."""
        checks = (
            logspace.checked_temperature(self.temperature),
            logspace.checked_weight(self.cid_lambda),
            bounded("samples", self.samples, 1, MOST_SAMPLES),
            bounded("max-new-tokens", self.max_new_tokens, 1, MOST_NEW_TOKENS),
            (self.seed >= 0, "seed", self.seed, "0 or more"),
        )
        for good, name, given, expected in checks:
            if not good:
                raise UsageError(f"{name} is {given}; it has to be {expected}")

    @property
    def reduction(self) -> TargetLogProbs | MixtureLogProbs:
        """What is kept of the logits."""
        if self.cid_lambda == 1.0:
            return TargetLogProbs(self.temperature)
        return MixtureLogProbs(self.cid_lambda, self.temperature)

    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        """Measure one case."""
        measurements: list[Measurement] = []
        if item.response is not None:
            responses = [item.response]
        else:
            responses = yield from sample(
                item,
                n=self.samples,
                temperature=self.temperature,
                context_weight=self.cid_lambda,
                max_new_tokens=self.max_new_tokens,
                seed=self.seed,
            )
        names = [span.name for span in item.spans]
        cuts = [item.cuts[name] for name in names]
        irrelevant = [item.placebo_alone] if item.placebo_alone is not None else []
        extras = [*(item.alone[name] for name in names), *item.swaps.values(), *irrelevant, *item.placebos]
        # The bare prompt stands first: it is what every other mixes with.
        prompts = [(item.blank, item.prompt, *cuts, *(extras if i == 0 else ())) for i in range(len(responses))]
        noise_nats = interval_noise_of(item)
        answers = yield [Request(p, y, self.reduction, noise_nats) for p, y in zip(prompts, responses, strict=True)]
        wide = np.zeros(len(responses[0]))
        for i, (response, scores) in enumerate(zip(responses, answers, strict=True)):
            values = scores.values
            measurements += self._readings(item, i, response, names, values)
            if scores.half_width is not None:
                widths = list(self._half_widths(item, i, names, scores.half_width))
                measurements += widths
                wide = widths[-1].values if i == 0 else wide
        noise = yield from neighbourhood_noise(item, responses[0], self.reduction, answers[0].values[:2])
        measurements.append(Measurement(item.id, 0, "", "noise", NATS, noise + wide))
        return measurements

    def _half_widths(
        self, item: ContextItem, sample_: int, names: list[str], widths: FloatArray
    ) -> Iterator[Measurement]:
        """Most that the contrasts of each piece may be off, and last that any contrast may."""
        n = len(names)
        bare, whole, cuts, extras = widths[0], widths[1], widths[2 : 2 + n], widths[2 + n :]
        swaps = dict(zip(item.swaps, extras[n:], strict=False))
        for number, name in enumerate(names):
            contrasts = [whole + cuts[number], *(whole + swaps[name] for _ in [0] if name in swaps)]
            contrasts += [alone + bare for alone in extras[number : number + 1]]
            yield Measurement(item.id, sample_, name, HALF_WIDTH, NATS, np.max(contrasts, axis=0))
        yield Measurement(item.id, sample_, "", HALF_WIDTH, NATS, np.maximum(bare, whole) + np.max(widths, axis=0))

    def _readings(
        self, item: ContextItem, sample_: int, response: tuple[int, ...], names: list[str], values: FloatArray
    ) -> Iterator[Measurement]:
        def measurement(statistic: str, series: FloatArray, piece: str = "", unit: str = NATS) -> Measurement:
            return Measurement(item.id, sample_, piece, statistic, unit, series)

        n = len(names)
        bare, whole, cuts, extras = values[0], values[1], values[2 : 2 + n], values[2 + n :]
        yield measurement("token", np.asarray(response, dtype=np.float64), unit=TOKEN_ID)
        yield measurement("log_prob", whole)
        yield measurement("whole", whole - bare)
        for name, cut in zip(names, cuts, strict=True):
            yield measurement("without_this", whole - cut, name)
        for name, alone in zip(names, extras[:n], strict=False):
            yield measurement("only_this", alone - bare, name)
        # Extras are scored for the first response alone.
        swapped, irrelevant = extras[n : n + len(item.swaps)], extras[n + len(item.swaps) :]
        for name, swap in zip(item.swaps, swapped, strict=False):
            yield measurement("swapped", whole - swap, name)
        for placebo_alone in irrelevant[:1]:
            yield measurement("placebo_alone", placebo_alone - bare)
        for number, placebo in enumerate(irrelevant[1:]):
            yield measurement("placebo", placebo - whole, str(number))
