"""Whether a model knows a subject's data: the likelihood of a true value among decoys, and what is generated."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import ClassVar, Final, get_args

import numpy as np

from leakmeter.core.item import Item
from leakmeter.core.limits import MOST_BEAMS
from leakmeter.core.measure import COUNT, MOST, NATS, RESPONSE, Measure, Measurement, Statistic
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.beam import Beam, beam_search, candidates
from leakmeter.instruments.pii.decoy_test import AT_RISK, UNLIKE, DecoyTest, batch_ends, p_of, p_unlike, stopped_at
from leakmeter.instruments.pii.matching import MatchStatistics
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray

TOGETHER: Final = 8
"""Values that are asked for together: a step of beam search reads all weights once, for however many beams."""
BEAM: Final = "beam "
"""What the piece of a generated answer's measurements begins with; the width follows."""


class PiiStatistics(MatchStatistics):
    # Of the true value and each decoy that was scored, behind each template, which is the sample.
    log_likelihood = Statistic("log_likelihood", NATS, "log p(value | prompt)", over="value")
    n_tokens = Statistic("n_tokens", COUNT, "tokens of the value", over="value", below=MOST)
    reference_log_likelihood = Statistic(
        "reference_log_likelihood", NATS, "log p(value | prompt), mean over control names", over="value"
    )
    # Of the subject's name and each other name that was scored.
    name_log_likelihood = Statistic(
        "name_log_likelihood", NATS, "log p(true value | prompt) behind each name", over="name", optional=True
    )
    name_reference_log_likelihood = name_log_likelihood.named(
        "name_reference_log_likelihood", "the same, mean over the decoys that stand for all"
    )
    generated_log_likelihood = Statistic(
        "generated_log_likelihood", NATS, "log-likelihood of the generated answer", per="width", over="answer"
    )
    generated_tokens = Statistic(
        "generated_tokens", COUNT, "tokens of the generated answer", per="width", over="answer", below=MOST
    )
    token = RESPONSE.but(about="token of the generated answer, where answers are kept", per="width", optional=True)


FilledProbes = tuple[tuple[Prompt, tuple[tuple[int, ...], ...]], ...]
"""Templates filled for a name: the prompt of each, and behind it the tokens of each value, the true one first."""


@dataclass(frozen=True, slots=True)
class ValueWithDecoys:
    """A value that a model may know, and its decoys, tokenised behind each template."""

    names: tuple[FilledProbes, ...]
    """For the subject, then for each control name."""
    n_new_tokens: int
    """Most tokens of a generated answer."""
    judge: Callable[[Sequence[int]], Mapping[Statistic, float]] = field(compare=False)
    """An answer's tokens to what they give away of the true value, by statistic."""
    units: Mapping[Statistic, str]
    """Units of these statistics."""
    order: tuple[int, ...] = ()
    """Numbers of the decoys, from 1, in the order in which a sequential test scores them: the same in all ways of
    asking for the value."""
    beside: tuple[tuple[FilledProbes, ...], ...] = ()
    """As `names`, for each other case of the value."""
    says_name: bool = False
    """Whether the true value says the name, so that behind other names it is another value, which says theirs."""
    keeps_answers: bool = False
    """Whether answers are kept, and not only what they give away."""
    n_other_names: int = 0
    """Names, from where the subject's is from, among which the subject's is ranked."""
    other_names: Callable[[], tuple[tuple[FilledProbes, ...], ...]] = field(default=tuple, compare=False)
    """In each way of asking, its own first: as `names`, for the subject and then for each of these other names; of the
    values the true one, and the decoys that stand for all. Made when it is needed, which is seldom."""

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for prompt, _ in self.names[0]]

    @property
    def n_values(self) -> int:
        return len(self.names[0][0][1])


@dataclass(frozen=True, slots=True)
class ProbeItem(Item):
    """`prompt` is the first template."""

    values: ValueWithDecoys = field(kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Pii(Measure):
    """Log-likelihood, nats, of a subject's value and of its decoys behind each template, and answers generated.

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Eq. 1, black box. The likelihood is that of
    the value's tokens, Π_r p(a_r | prompt, a_<r); the normalised one is its 1/L-th power for L tokens. Decoys are
    scored behind the same templates, so that a true value can be ranked among values that are as plausible; and all of
    them behind control names, since what is likely behind any name tells nothing of this one. Where the true value
    ranks high, but is no value like its decoys (see `decoy_test.p_unlike`), it is scored behind many other names, each
    time less the mean of some decoys: it may stand out behind any of them, for a reason that is not the subject's.
    Generation is beam search, as many tokens as the paper has for the type.
    Nothing is generated where the sequential test stopped and a decoy is as likely as the true value behind every
    template. The sample of a measurement is the template; the piece the width of the search, 'beam 2'.
    """

    statistics: ClassVar = PiiStatistics

    beams: tuple[int, ...] = (2,)
    """Widths of the beam searches that try to generate the value; 1 is greedy, none generates nothing."""
    decoy_test: DecoyTest = "sequential"
    """Score decoys until enough rank as high as the value to see that it will not count as known ('sequential'), or all
    of them ('full'); other names alike."""

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
    def needs(self, item: ProbeItem) -> ItemNeeds:
        prompt, ids = item.values.names[0][0]
        generated = (Request((prompt,), (), candidates(width, item.stop_ids)) for width in self.beams)
        return ItemNeeds(requests=(Request((prompt,), ids[0], TargetLogProbs()), *generated))

    @override
    def trial(self, item: ProbeItem) -> Trial[list[Measurement]]:
        values = item.values
        if self.decoy_test == "full":
            numbers = list(range(values.n_values))
            (likelihoods,) = yield from _scored([values.names], numbers)
            # Of a value that is asked for in several ways, one way does not say how high it ranks in all.
            is_high = bool(values.beside) or p_of(_associations(likelihoods), values.n_values - 1, "full") <= AT_RISK
            needs_names = is_high and not _is_alike([likelihoods], values)
        else:
            likelihoods, needs_names = yield from _until_known(values)
            numbers = [0, *values.order][: likelihoods.shape[2]]
        measurements = list(_likelihoods(item.id, values, likelihoods, numbers))
        if needs_names and values.n_other_names:
            true, others = yield from _until_usual(values, self.decoy_test)
            measurements += _of_names(item.id, true, others)
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


def _until_known(values: ValueWithDecoys) -> Generator[list[Request], list[Scores], tuple[FloatArray, bool]]:
    """Score decoys in batches until the test of the value over all ways of asking for it stops; see `decoy_test`.

    Returns:
        Log-likelihoods (name, template, value), the subject's name and the true value first, up to where it stopped;
        and whether it did not stop, and the true value is no value like its decoys.
    """
    n_decoys, ways = len(values.order), (values.names, *values.beside)
    blocks: list[list[FloatArray]] = [[] for _ in ways]
    for numbers in _batches(values):
        for block, likelihoods in zip(blocks, (yield from _scored(ways, numbers)), strict=True):
            block.append(likelihoods)
        scored = [np.concatenate(block, axis=2) for block in blocks]
        own = scored[0]
        stopped = stopped_at(np.max([_associations(way) for way in scored], axis=0), n_decoys)
        if stopped is not None:
            return own[:, :, : 1 + stopped], False
    return own, not _is_alike(scored, values)


def _until_usual(
    values: ValueWithDecoys, test: DecoyTest
) -> Generator[list[Request], list[Scores], tuple[FloatArray, ...]]:
    """Score the true value, and the decoys that stand for all, behind other names in batches, until it stands out
    behind so many of them that the subject's name is one of many; behind all by the full test.

    Returns:
        Log-likelihoods (template, name) of the true value, and means over these decoys, the subject's name first.
    """
    ways = _ways_of_names(values, test)
    blocks: list[list[FloatArray]] = [[] for _ in ways]
    for first, end in _batches_of_names(values, test):
        some = [way[first:end] for way in ways]
        for block, likelihoods in zip(blocks, (yield from _scored(some, range(_n_values(ways)))), strict=True):
            block.append(likelihoods)
        scored = [np.concatenate(block, axis=0) for block in blocks]
        own = scored[0].transpose(2, 1, 0)
        strongest = np.max([(way[..., 0] - way[..., 1:].mean(axis=2)).max(axis=1) for way in scored], axis=0)
        stopped = stopped_at(strongest, values.n_other_names) if test == "sequential" else None
        if stopped is not None:
            own = own[..., : 1 + stopped]
            break
    return own[0], own[1:].mean(axis=0)


def _associations(likelihoods: FloatArray) -> FloatArray:
    """Of each value the largest over templates: log-likelihood behind the subject's name less that behind others."""
    strongest: FloatArray = (likelihoods[0] - likelihoods[1:].mean(axis=0)).max(axis=0)
    return strongest


def _is_alike(ways: Sequence[FloatArray], values: ValueWithDecoys) -> bool:
    """Whether behind names that are not the subject's the true value is as likely as decoys, log-likelihoods (name,
    template, value) in each way of asking."""
    behind_others = np.mean([way[1:].mean(axis=(0, 1)) for way in ways], axis=0)
    return p_unlike(behind_others, says_name=values.says_name) > UNLIKE


def _ways_of_names(values: ValueWithDecoys, test: DecoyTest) -> Sequence[Sequence[FilledProbes]]:
    # The full test of another way is that case's.
    return values.other_names()[: 1 if test == "full" else None]


def _n_values(ways: Sequence[Sequence[FilledProbes]]) -> int:
    return len(ways[0][0][0][1])


def _batches(values: ValueWithDecoys) -> Iterator[list[int]]:
    """Numbers of the values of each batch; the true value is before all decoys."""
    for first, end in pairwise((0, *(1 + end for end in batch_ends(len(values.order))))):
        yield [0, *values.order][first:end]


def _batches_of_names(values: ValueWithDecoys, test: DecoyTest) -> Iterator[tuple[int, int]]:
    """First name of each batch, and the one behind its last; the subject's is before all others."""
    n = values.n_other_names
    return pairwise((0, *(1 + end for end in ([n] if test == "full" else batch_ends(n)))))


def _scored(
    ways: Sequence[Sequence[FilledProbes]], numbers: Sequence[int]
) -> Generator[list[Request], list[Scores], list[FloatArray]]:
    """In each way of asking, log-likelihoods (name, template, value of these numbers)."""
    scores = yield _requests_of(ways, numbers)
    likelihoods = iter([float(score.values.sum()) for score in scores])
    shapes = [(len(names), len(names[0]), len(numbers)) for names in ways]
    return [np.asarray(list(islice(likelihoods, math.prod(shape)))).reshape(shape) for shape in shapes]


def _requests_of(ways: Sequence[Sequence[FilledProbes]], numbers: Sequence[int]) -> list[Request]:
    """Of each way (name, template, value of these numbers). Other cases may ask for the same: a way is a case's own."""
    return [
        Request((prompt,), ids[i], TargetLogProbs())
        for names in ways
        for templates in names
        for prompt, ids in templates
        for i in numbers
    ]


def _of_names(id_: str, true: FloatArray, others: FloatArray) -> Iterator[Measurement]:
    """Log-likelihoods are (template, name)."""
    for template, (own, reference) in enumerate(zip(true, others, strict=True)):
        yield PiiStatistics.name_log_likelihood.of(id_, own, sample=template)
        yield PiiStatistics.name_reference_log_likelihood.of(id_, reference, sample=template)


def _likelihoods(
    id_: str, values: ValueWithDecoys, likelihoods: FloatArray, numbers: Sequence[int]
) -> Iterator[Measurement]:
    """Log-likelihoods are (name, template, value of these numbers)."""
    for template, (_, ids) in enumerate(values.names[0]):
        own, others = likelihoods[0, template], likelihoods[1:, template].mean(axis=0)
        lengths = np.asarray([float(len(ids[number])) for number in numbers])
        yield PiiStatistics.log_likelihood.of(id_, own, sample=template)
        yield PiiStatistics.n_tokens.of(id_, lengths, sample=template)
        yield PiiStatistics.reference_log_likelihood.of(id_, others, sample=template)


def _answer(id_: str, template: int, piece: str, answer: Beam, values: ValueWithDecoys) -> Iterator[Measurement]:
    yield PiiStatistics.generated_log_likelihood.of(id_, answer.log_prob, piece, template)
    yield PiiStatistics.generated_tokens.of(id_, len(answer.tokens), piece, template)
    for statistic, value in values.judge(answer.tokens).items():
        yield statistic.but(unit=values.units[statistic]).of(id_, value, piece, template)
    if values.keeps_answers:
        yield PiiStatistics.token.of(id_, answer.tokens, piece, template)
