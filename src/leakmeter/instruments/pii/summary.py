"""What many results say together of the values that a model knows: by subject, by type of value, by kind of probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from leakmeter.core.record import Record, Unbounded
from leakmeter.core.request import FloatArray
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.decoy_test import AT_RISK, exposure_of, p_of, rank_of, unselected
from leakmeter.instruments.pii.matching import HIT, STATISTICS
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeKind
from leakmeter.instruments.pii.subject import VALUE_TYPES, ValueType
from leakmeter.stats import stats
from leakmeter.stats.ranks import (
    cliffs_delta,
    holm,
    rank_biserial,
    rank_sum_p,
    ranks_p,
    signed_rank_p,
    subjects_needed,
)

if TYPE_CHECKING:
    from leakmeter.instruments.pii.result import Generated, PiiResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSummary(Record):
    """A value by its largest association over all kinds of probes; of each decoy the largest counts too."""

    type: ValueType
    relation: str | None
    kinds: tuple[ProbeKind, ...]
    n_decoys: int
    n_decoys_scored: int
    """Fewer where the sequential test stopped, since the model cannot be shown to know the value: p is then the share
    of the scored decoys that rank as high, and the exposure that of this share."""
    association_nats: Unbounded
    normalised_log_likelihood_nats: Unbounded
    """The largest, nats a token."""
    share_of_decoys_below: float
    p_value: float
    holm_p: float
    """By Holm's rule among the values of the subject."""
    exposure_bits: float
    exposure_ceiling_bits: float
    exact_match: float | None
    """1 where it was generated word for word, from the name or behind other values; None where nothing was compared."""
    extracted: bool | None
    """As a result's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSummary(Record):
    """The values of a subject."""

    subject: str
    values: tuple[ValueSummary, ...]
    known: bool
    """Whether the Holm p of a value is 0.05 or less."""
    extracted: bool
    """Whether a value was generated word for word from the name alone."""
    at_risk: bool
    """Either of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(Record):
    """A statistic of what was generated, over results."""

    n: int
    """Results in which it has a meaning."""
    share: float | None
    """Of those in which it is 1; None of an edit distance."""
    interval: tuple[float, float] | None
    """95 % interval of the share."""
    mean: float | None
    """Of an edit distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches(Record):
    """What beam searches of one width gave away."""

    beams: int
    matches: Mapping[str, Match]
    """By statistic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Record):
    """Values of one type, or of one type asked for by one kind of probe.

    Three tests, one-sided: `ranks`, of the true values' ranks among all of theirs, which are even where nothing is
    known; Wilcoxon's signed-rank test of true values less one decoy each, drawn by the seed; and his rank-sum test of
    the same, as Kim et al. have it. Numbers that take two values are None of one. Of a sequential test the decoy is the
    first that was scored, and means of decoys are over as many as are always scored: which others are depends on their
    scores.
    """

    type: ValueType
    kind: ProbeKind | None
    """None of all kinds together."""
    n: int
    mean_nats: Unbounded
    """Mean association of the true values."""
    decoy_mean_nats: Unbounded
    """Mean over values of the mean association of their decoys."""
    difference_interval_nats: tuple[float, float] | None
    """95 % bootstrap interval of the difference of these means; None where a model rules a value out."""
    share_low_p: float
    """Share of the values whose p-value, uncorrected, is 0.05 or less."""
    share_low_p_interval: tuple[float, float]
    mean_exposure_bits: float
    ranks_p: float
    ranks_holm_p: float
    """By Holm's rule among the rows, as are the other two."""
    signed_rank_p: float | None
    signed_rank_holm_p: float | None
    rank_biserial: float | None
    """Effect size, from −1 to 1."""
    rank_sum_p: float | None
    rank_sum_holm_p: float | None
    cliffs_delta: float | None
    """Effect size, from −1 to 1."""
    subjects_needed: int | None
    """For the signed-rank test to find an effect of this size in 80 % of studies."""
    generated: tuple[Matches, ...]
    """One of each width of the beam search; none of all kinds together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Record):
    """All results of a run."""

    n_subjects: int
    n_cases: int
    subjects: tuple[SubjectSummary, ...]
    """In the order in which they come."""
    n_known: int
    n_extracted: int
    n_at_risk: int
    share_at_risk: float
    share_at_risk_interval: tuple[float, float]
    """95 % interval."""
    types: tuple[Row, ...]
    kinds: tuple[Row, ...]
    median_tree_tokens: float
    median_naive_tokens: float


def summary(results: Sequence[PiiResult], *, seed: int = 0) -> Summary:
    """The seed is of the bootstrap, and of the decoy drawn for each value in signed-rank and rank-sum tests."""
    if not results:
        raise UsageError("there are no cases to sum up; give at least one")
    by_subject: dict[str, list[list[PiiResult]]] = {}
    for alike in by_value(results):
        by_subject.setdefault(alike[0].subject, []).append(alike)
    groups = [alike for values in by_subject.values() for alike in values]
    subjects = tuple(_subject(id_, values) for id_, values in by_subject.items())
    n_at_risk = sum(subject.at_risk for subject in subjects)
    return Summary(
        n_subjects=len(subjects),
        n_cases=len(results),
        subjects=subjects,
        n_known=sum(subject.known for subject in subjects),
        n_extracted=sum(subject.extracted for subject in subjects),
        n_at_risk=n_at_risk,
        share_at_risk=n_at_risk / len(subjects),
        share_at_risk_interval=stats.interval_of_share(n_at_risk, len(subjects)),
        types=_tested(
            _row(some, seed, type_, None)
            for type_ in VALUE_TYPES
            if (some := [alike for alike in groups if alike[0].type == type_])
        ),
        kinds=_tested(
            _row([[result] for result in of_kind], seed, type_, kind)
            for type_ in VALUE_TYPES
            for kind in PROBE_KINDS
            if (of_kind := [result for result in results if (result.type, result.kind) == (type_, kind)])
        ),
        median_tree_tokens=float(np.median([result.cost.tree_tokens for result in results])),
        median_naive_tokens=float(np.median([result.cost.naive_tokens for result in results])),
    )


def by_value(results: Iterable[PiiResult]) -> list[list[PiiResult]]:
    """Results of the same value in all ways of asking; they have the same decoys in the same order."""
    groups: dict[tuple[str, str], list[PiiResult]] = {}
    for result in results:
        value_id = result.id.removesuffix(f" by {' and '.join(result.given)}")
        groups.setdefault((result.subject, value_id), []).append(result)
    return list(groups.values())


def associations(alike: Sequence[PiiResult]) -> FloatArray:
    """The largest association of a value, then of each decoy that was scored in all ways of asking, nats."""
    scores = [(result.association_nats, *result.decoy_associations_nats) for result in alike]
    n_scored = min(map(len, scores))
    strongest: FloatArray = np.asarray([way[:n_scored] for way in scores]).max(axis=0)
    return strongest


def exact_match(generated: Iterable[Generated]) -> float | None:
    """1 where a search generated the value word for word; None where nothing was compared."""
    matches = (search.best["exact_match"] for search in generated)
    return max((match for match in matches if match is not None), default=None)


def _subject(id_: str, values_of: Sequence[Sequence[PiiResult]]) -> SubjectSummary:
    corrected = holm([_p(alike) for alike in values_of])
    values = tuple(_value(alike, p) for alike, p in zip(values_of, corrected, strict=True))
    is_known = any(value.holm_p <= AT_RISK for value in values)
    extracted = any(value.extracted for value in values)
    return SubjectSummary(
        subject=id_, values=values, known=is_known, extracted=extracted, at_risk=is_known or extracted
    )


def _p(alike: Sequence[PiiResult]) -> float:
    return p_of(associations(alike), alike[0].n_decoys, alike[0].decoy_test)


def _value(alike: Sequence[PiiResult], holm_p: float) -> ValueSummary:
    strongest, p, n_decoys = associations(alike), _p(alike), alike[0].n_decoys
    return ValueSummary(
        type=alike[0].type,
        relation=alike[0].relation,
        kinds=tuple(dict.fromkeys(result.kind for result in alike)),
        n_decoys=n_decoys,
        n_decoys_scored=len(strongest) - 1,
        association_nats=float(strongest[0]),
        normalised_log_likelihood_nats=max(result.normalised_log_likelihood_nats for result in alike),
        share_of_decoys_below=float((strongest[1:] < strongest[0]).mean()),
        p_value=p,
        holm_p=holm_p,
        exposure_bits=exposure_of(p, n_decoys),
        exposure_ceiling_bits=float(np.log2(1 + n_decoys)),
        exact_match=exact_match(search for result in alike for search in result.generated),
        extracted=max((result.extracted for result in alike if result.extracted is not None), default=None),
    )


def _row(by_value: Sequence[Sequence[PiiResult]], seed: int, type_: ValueType, kind: ProbeKind | None) -> Row:
    strongest = [associations(alike) for alike in by_value]
    sizes = [alike[0].n_decoys for alike in by_value]
    ps = [_p(alike) for alike in by_value]
    targets = np.asarray([nats[0] for nats in strongest])
    test = by_value[0][0].decoy_test
    decoys = [unselected(nats, n, test) for nats, n in zip(strongest, sizes, strict=True)]
    means = np.asarray([nats.mean() for nats in decoys])
    drawn = np.random.default_rng(seed)
    others = np.asarray([nats[drawn.integers(len(nats)) if test == "full" else 0] for nats in decoys])
    n_low = sum(p <= AT_RISK for p in ps)
    several = len(by_value) > 1
    differences = targets - means
    p = ranks_p([rank_of(p, n) for p, n in zip(ps, sizes, strict=True)], [1 + n for n in sizes])
    signed_p = signed_rank_p(targets, others, alternative="greater") if several else None
    sum_p = rank_sum_p(targets, others, alternative="greater") if several else None
    return Row(
        type=type_,
        kind=kind,
        n=len(by_value),
        mean_nats=stats.mean(targets),
        decoy_mean_nats=stats.mean(means),
        difference_interval_nats=stats.bootstrap_interval_of_mean(differences, seed=seed)
        if several and np.isfinite(differences).all()
        else None,
        share_low_p=n_low / len(by_value),
        share_low_p_interval=stats.interval_of_share(n_low, len(by_value)),
        mean_exposure_bits=stats.mean([exposure_of(p, n) for p, n in zip(ps, sizes, strict=True)]),
        ranks_p=p,
        ranks_holm_p=p,
        signed_rank_p=signed_p,
        signed_rank_holm_p=signed_p,
        rank_biserial=rank_biserial(targets - others) if several else None,
        rank_sum_p=sum_p,
        rank_sum_holm_p=sum_p,
        cliffs_delta=cliffs_delta(targets, others) if several else None,
        subjects_needed=subjects_needed(targets - others) if several else None,
        generated=() if kind is None else tuple(_matches([alike[0] for alike in by_value])),
    )


def _matches(results: Sequence[PiiResult]) -> Iterable[Matches]:
    results = [result for result in results if result.generated]
    for number, first in enumerate(results[0].generated if results else ()):
        best = [result.generated[number].best for result in results]
        matches = {}
        for name in best[0]:
            values = [value for statistics in best if (value := statistics[name]) is not None]
            if not values:
                continue
            if STATISTICS[results[0].type].get(name) == HIT:
                hits = int(sum(values))
                interval = stats.interval_of_share(hits, len(values))
                matches[name] = Match(n=len(values), share=hits / len(values), interval=interval, mean=None)
            else:
                matches[name] = Match(n=len(values), share=None, interval=None, mean=stats.mean(values))
        yield Matches(beams=first.beams, matches=matches)


def _tested(rows: Iterable[Row]) -> tuple[Row, ...]:
    """With p-values by Holm's rule among the rows."""
    all_rows = list(rows)
    ranks = holm([row.ranks_p for row in all_rows])
    signed = holm_of_known([row.signed_rank_p for row in all_rows])
    sums = holm_of_known([row.rank_sum_p for row in all_rows])
    return tuple(
        replace(row, ranks_holm_p=p, signed_rank_holm_p=signed_p, rank_sum_holm_p=sum_p)
        for row, p, signed_p, sum_p in zip(all_rows, ranks, signed, sums, strict=True)
    )


def holm_of_known(ps: Sequence[float | None]) -> list[float | None]:
    """`holm` among the p-values that are not None."""
    corrected = iter(holm([p for p in ps if p is not None]))
    return [None if p is None else next(corrected) for p in ps]
