"""Whether a model knows a subject's data: the likelihood of a true value among decoys, and what is generated."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, Final, get_args

import numpy as np

from leakmeter.core.item import Item
from leakmeter.core.limits import MOST_BEAMS
from leakmeter.core.measure import COUNT, NATS, RESPONSE, TOKEN_ID, Measure, Measurement
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import FloatArray, Request, Scores, Trial
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.beam import Beam, beam_search, longest_beam_search
from leakmeter.instruments.pii.decoy_test import DecoyTest, batch_ends, stopped_at
from leakmeter.overriding import override

TOGETHER: Final = 8
"""Values that are asked for together: a step of beam search reads all weights once, for however many beams."""
BEAM: Final = "beam "
"""What the piece of a generated answer's measurements begins with; the width follows."""

Filled = tuple[tuple[Prompt, tuple[tuple[int, ...], ...]], ...]
"""Templates filled for a name: the prompt of each, and behind it the tokens of each value, the true one first."""


@dataclass(frozen=True, slots=True)
class Values:
    """A value that a model may know, and its decoys, tokenised behind each template."""

    names: tuple[Filled, ...]
    """For the subject, then for each control name."""
    n_new_tokens: int
    """Most tokens of a generated answer."""
    judge: Callable[[Sequence[int]], Mapping[str, float]] = field(compare=False)
    """An answer's tokens to what they give away of the true value, by statistic."""
    units: Mapping[str, str]
    """Units of these statistics."""
    order: tuple[int, ...] = ()
    """Numbers of the decoys, from 1, in the order in which a sequential test scores them: the same in all ways of
    asking for the value."""
    beside: tuple[tuple[Filled, ...], ...] = ()
    """As `names`, for each other case of the value."""
    keeps_answers: bool = False
    """Whether answers are kept, and not only what they give away."""

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for prompt, _ in self.names[0]]

    @property
    def n_values(self) -> int:
        return len(self.names[0][0][1])


@dataclass(frozen=True, slots=True)
class ProbeItem(Item):
    """`prompt` is the first template."""

    values: Values = field(kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Pii(Measure):
    """Log-likelihood, nats, of a subject's value and of its decoys behind each template, and answers generated.

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Eq. 1, black box. The likelihood is that of
    the value's tokens, Π_r p(a_r | prompt, a_<r); the normalised one is its 1/L-th power for L tokens. Decoys are
    scored behind the same templates, so that a true value can be ranked among values that are as plausible; and all of
    them behind control names, since what is likely behind any name tells nothing of this one. Generation is beam
    search, as many tokens as the paper has for the type.

    Statistics. Of each template (the sample), one value for the true value and each decoy that was scored, in that
    order: `log_likelihood`, `n_tokens` and `reference_log_likelihood`, the mean over control names. Of each template
    and width (the piece, 'beam 2'): `generated_log_likelihood` and `generated_tokens`, and what the answer gives away
    (`instruments.pii.matching.STATISTICS`); with answers kept, its tokens. Nothing is generated where the sequential
    test stopped and a decoy is as likely as the true value behind every template.
    """

    beams: tuple[int, ...] = (2,)
    """Widths of the beam searches that try to generate the value; 1 is greedy, none generates nothing."""
    decoy_test: DecoyTest = "sequential"
    """Score decoys until enough rank as high as the value to see that it will not count as known ('sequential'), or all
    of them ('full')."""

    def __post_init__(self) -> None:
        if any(not 1 <= width <= MOST_BEAMS for width in self.beams):
            raise UsageError(f"beams is {self.beams!r}; give widths of 1 or more and {MOST_BEAMS:,} at most, or none")
        if len(set(self.beams)) < len(self.beams):
            raise UsageError("a width of beams is given twice; give each once")
        if self.decoy_test not in get_args(DecoyTest):
            raise UsageError(f"decoy-test is {self.decoy_test!r}, expected one of {', '.join(get_args(DecoyTest))}")

    @property
    @override
    def samples(self) -> int:
        return 1

    @property
    @override
    def together(self) -> int:
        return TOGETHER

    @property
    @override
    def max_new_tokens(self) -> int:
        """What is generated depends on the type of the value; cases reserve the room themselves."""
        return 0

    @override
    def trial(self, item: ProbeItem) -> Trial[list[Measurement]]:
        values = item.values
        if self.decoy_test == "full":
            numbers = list(range(values.n_values))
            scores = yield _requests(values.names, numbers)
            shape = (len(values.names), len(values.names[0]), values.n_values)
            likelihoods = np.asarray([float(score.values.sum()) for score in scores]).reshape(shape)
        else:
            likelihoods = yield from _until_known(values)
            numbers = [0, *values.order][: likelihoods.shape[2]]
        measurements = list(_likelihoods(item.id, values, likelihoods, numbers))
        own = likelihoods[0]
        if len(numbers) < values.n_values and (own[:, 1:] >= own[:, :1]).any(axis=1).all():
            # Behind each template a decoy is as likely as the true value: no search is expected to find it.
            return measurements
        for width in self.beams:
            by_template = yield from beam_search(
                values.prompts, width=width, max_new_tokens=values.n_new_tokens, stop_ids=item.stop_ids
            )
            for template, answers in enumerate(by_template):
                measurements += _answer(item.id, template, f"{BEAM}{width}", answers[0], values)
        return measurements

    def longest_trial(self, item: ProbeItem) -> Trial[Any]:
        values = item.values
        if self.decoy_test == "full":
            yield _requests(values.names, range(values.n_values))
        else:
            for _, requests in _batches(values):
                yield requests
        for width in self.beams:
            yield from longest_beam_search(
                values.prompts, width=width, max_new_tokens=values.n_new_tokens, stop_ids=item.stop_ids
            )


def _until_known(values: Values) -> Generator[list[Request], list[Scores], FloatArray]:
    """Score decoys in batches until the test of the value over all ways of asking for it stops; see `decoy_test`.

    Returns:
        Log-likelihoods (name, template, value), the subject's name and the true value first, up to where it stopped.
    """
    n_decoys, ways = len(values.order), (values.names, *values.beside)
    blocks: list[list[FloatArray]] = [[] for _ in ways]
    for n_values, requests in _batches(values):
        scores = yield requests
        likelihoods = iter([float(score.values.sum()) for score in scores])
        for block, names in zip(blocks, ways, strict=True):
            shape = (len(names), len(names[0]), n_values)
            block.append(np.asarray(list(islice(likelihoods, math.prod(shape)))).reshape(shape))
        scored = [np.concatenate(block, axis=2) for block in blocks]
        own = scored[0]
        associations = [(way[0] - way[1:].mean(axis=0)).max(axis=0) for way in scored]
        stopped = stopped_at(np.max(associations, axis=0), n_decoys)
        if stopped is not None:
            return own[:, :, : 1 + stopped]
    return own


def _batches(values: Values) -> Iterator[tuple[int, list[Request]]]:
    """Number of values and requests of each batch; the true value is before all decoys."""
    for first, end in pairwise((0, *(1 + end for end in batch_ends(len(values.order))))):
        numbers = [0, *values.order][first:end]
        others = [request for names in values.beside for request in _requests(names, numbers, is_others=True)]
        yield end - first, _requests(values.names, numbers) + others


def _requests(names: Sequence[Filled], numbers: Sequence[int], *, is_others: bool = False) -> list[Request]:
    """(name, template, value of these numbers)."""
    return [
        Request((prompt,), ids[i], TargetLogProbs(), is_others=is_others)
        for templates in names
        for prompt, ids in templates
        for i in numbers
    ]


def _likelihoods(id_: str, values: Values, likelihoods: FloatArray, numbers: Sequence[int]) -> Iterator[Measurement]:
    """Log-likelihoods are (name, template, value of these numbers)."""
    for template, (_, ids) in enumerate(values.names[0]):
        own, others = likelihoods[0, template], likelihoods[1:, template].mean(axis=0)
        lengths = np.asarray([float(len(ids[number])) for number in numbers])
        yield Measurement(id_, template, "", "log_likelihood", NATS, own)
        yield Measurement(id_, template, "", "n_tokens", COUNT, lengths)
        yield Measurement(id_, template, "", "reference_log_likelihood", NATS, others)


def _answer(id_: str, template: int, piece: str, answer: Beam, values: Values) -> Iterator[Measurement]:
    judged = values.judge(answer.tokens).items()
    rows: list[tuple[str, str, Sequence[float]]] = [
        ("generated_log_likelihood", NATS, [answer.log_prob]),
        ("generated_tokens", COUNT, [len(answer.tokens)]),
        *((statistic, values.units[statistic], [value]) for statistic, value in judged),
    ]
    if values.keeps_answers:
        rows.append((RESPONSE, TOKEN_ID, answer.tokens))
    for statistic, unit, numbers in rows:
        yield Measurement(id_, template, piece, statistic, unit, np.asarray(numbers, dtype=np.float64))
