"""What is known of the pieces of a context that was searched, and what the search may have missed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from leakmeter.core.item import LEVELS
from leakmeter.core.measure import Params, Statistic, Texts
from leakmeter.core.record import JsonObject, Record, Unbounded
from leakmeter.instruments.influence.math import InfluenceStatistics
from leakmeter.instruments.influence.search import Audit, Search, kth, reach
from leakmeter.instruments.influence.sources import ContextPiece
from leakmeter.stats.hypergeometric import round_alpha, upper_limit
from leakmeter.text.entity_results import PieceSeries

_CONFIDENCES: Final = (Fraction(9, 10), Fraction(8, 10))
"""Of intervals, where the audited pieces are too few for the audit's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedPiece(ContextPiece):
    """A piece of a context that was searched: what is known of its influence."""

    nats: Unbounded | None
    """Exact influence τ_i of the piece, nats; None of a piece that was not removed on its own."""
    screened_nats: Unbounded | None
    """Screened value by which the search ranks the piece, nats, which is not its influence: Σ_t |log p̄(y_t | D) − log
    p̄(y_t | D with the piece hidden)|. None where the screen was by removal."""
    interval_nats: tuple[Unbounded, Unbounded] | None
    """Interval of the influence of a piece that was screened only, nats, with the confidence `interval_confidence`;
    None without an audit of enough pieces."""
    group_nats: Unbounded | None
    """Influence of the group of pieces that the piece was last removed with, nats; None where each was scored on its
    own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRound(Record):
    """What a round of the audit says: how many pieces that are not listed exceed the K-th that was listed before it."""

    confidence: float
    """Confidence with which `most_missed` holds."""
    threshold_nats: Unbounded | None
    """K-th largest exact value before the draw, nats; a piece that exceeds it was missed. None where fewer than K
    pieces had one: every piece that was drawn then counts as found, and the round says nothing."""
    n_left: int
    """Number of pieces without an exact value before the draw."""
    n_drawn: int
    """Number of pieces that were drawn at random and scored."""
    drawn: tuple[str, ...]
    """Names of the pieces that were drawn."""
    n_found: int
    """Number of drawn pieces whose exact value is above the threshold; they are in the list now."""
    most_missed: int
    """Largest number of pieces not scored that exceed the threshold, with the confidence of the round (hypergeometric
    limit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSummary(Record):
    """How a context was searched, and what may have been missed."""

    k: int
    """Number of pieces that were searched for."""
    screen: str
    """Screen that ranked the pieces: 'attention', each piece hidden from what stands behind the context; 'removal',
    groups of pieces removed."""
    n_pieces: int
    """Number of pieces of the ablation unit in the context."""
    n_rescored: int
    """Number of pieces that were scored exactly because of the screen."""
    n_audited: int
    """Number of pieces that were scored exactly because they were drawn at random."""
    threshold_nats: Unbounded | None
    """K-th largest exact value, nats; None where there are fewer than K."""
    reach_nats: Unbounded | None
    """Largest influence that the pieces left were taken to reach when the search stopped, nats, by how exact and
    screened values differ among those rescored: a heuristic. None of a screen by removal."""
    stopped_early: bool
    """Whether the search stopped at the largest number of pieces to rescore, with neither the K-th value nor that of an
    irrelevant piece above `reach_nats`."""
    audit_confidence: float | None
    """Confidence with which all statements of the audit hold together; None without an audit."""
    rounds: tuple[AuditRound, ...]
    """Rounds of the audit; empty without one, or where nothing had to be drawn."""
    interval_confidence: float | None
    """Confidence of each `interval_nats` by itself; None where there are no intervals."""
    pieces: tuple[SearchedPiece, ...]
    """Pieces without an exact value, in the order of the context."""
    levels: tuple[SearchedPiece, ...]
    """Paragraphs and documents that the pieces stand in."""

    @property
    def is_complete(self) -> bool:
        return not self.pieces


def is_exact(span: JsonObject, series: PieceSeries, params: Params) -> bool:
    """Whether a piece has numbers of its own; a search has those of documents and paragraphs in `levels`."""
    is_elsewhere = params.get("search") is not None and span["kind"] in LEVELS
    return not is_elsewhere and (0, InfluenceStatistics.without_this, span["name"]) in series


def summary(texts: Texts, series: PieceSeries, params: Params) -> SearchSummary | None:
    if params.get("search") is None:
        return None
    search = Search.parse(params["search"])
    audit = None if params["audit"] is None else Audit.parse(params["audit"])
    told, spans = InfluenceStatistics, texts["spans"]
    units = [span["name"] for span in spans if span["kind"] == "unit"]
    exact, screened = _nats(series, told.without_this), _nats(series, told.screened)
    round_of = {name: int(values[0]) for (_, statistic, name), values in series.items() if statistic == told.audited}
    rescored = [name for name in units if name in exact and name not in round_of]
    placebos = list(_nats(series, told.placebo).values())
    placebo_nats = float(np.mean(placebos)) if placebos else 0.0
    # What a removal does whatever the piece says, the screen does not see: residuals are of a placebo's size.
    floor = max(float(series[0, told.noise, ""].sum()), placebo_nats)
    # Whether there is a second round depends on what the first found: its pieces are no random sample.
    first = [name for name in units if round_of.get(name) == 1 and name in screened]
    factor, confidence = _factor([exact[name] for name in first], [screened[name] for name in first], audit, floor)
    listed = [exact[name] for name in units if name in exact]
    rest = [screened[name] for name in units if name not in rescored and name in screened]
    ranked = [exact[name] for name in rescored]
    reached = reach(ranked, [screened[name] for name in rescored], rest) if screened and rest else None
    of_units = [span for span in spans if span["kind"] not in LEVELS and span["name"] not in exact]
    return SearchSummary(
        k=search.k,
        screen="attention" if screened else "removal",
        n_pieces=len(units),
        n_rescored=len(rescored),
        n_audited=len(round_of),
        threshold_nats=kth(listed, search.k) if len(listed) >= search.k else None,
        reach_nats=reached,
        stopped_early=reached is not None and max(kth(ranked, search.k), placebo_nats) <= reached,
        audit_confidence=None if audit is None else audit.confidence,
        rounds=tuple(_rounds(search, audit, params["audit_rounds"], units, exact, round_of)),
        interval_confidence=confidence,
        pieces=tuple(_searched(span, texts, series, factor, floor) for span in of_units),
        levels=tuple(_searched(span, texts, series, None, floor) for span in spans if span["kind"] in LEVELS),
    )


def _nats(series: PieceSeries, statistic: Statistic) -> dict[str, float]:
    """Sums of a statistic over the first response, by piece; infinite where they are not defined."""
    sums = {
        name: float(np.abs(values).sum()) for (i, kind, name), values in series.items() if (i, kind) == (0, statistic)
    }
    return {name: math.inf if math.isnan(nats) else nats for name, nats in sums.items()}


def _factor(
    exact: Sequence[float], screened: Sequence[float], audit: Audit | None, floor: float
) -> tuple[float | None, float | None]:
    """Factor of the intervals of screened values, and their confidence: the audit's, or what its pieces are enough for.

    How many pieces are drawn is fixed before the draw, and so is the confidence.
    """
    from leakmeter.stats.conformal import interval_factor

    for level in () if audit is None else (1 - audit.alpha, *_CONFIDENCES):
        factor = interval_factor(exact, screened, level, floor)
        if factor is not None:
            return factor, float(level)
    return None, None


def _rounds(
    search: Search,
    audit: Audit | None,
    n_rounds: int,
    units: Sequence[str],
    exact: Mapping[str, float],
    round_of: Mapping[str, int],
) -> Iterator[AuditRound]:
    if audit is None:
        return
    scored = {name for name in units if name in exact and name not in round_of}
    for number in range(1, max(round_of.values(), default=0) + 1):
        drawn = [name for name in units if round_of.get(name) == number]
        threshold = kth((exact[name] for name in scored), search.k)
        n_left, n_found = len(units) - len(scored), sum(exact[name] > threshold for name in drawn)
        alpha = round_alpha(audit.alpha, number, n_rounds)
        yield AuditRound(
            confidence=float(1 - alpha),
            threshold_nats=threshold if len(scored) >= search.k else None,
            n_left=n_left,
            n_drawn=len(drawn),
            drawn=tuple(drawn),
            n_found=n_found,
            most_missed=upper_limit(n_left, len(drawn), n_found, alpha) - n_found,
        )
        scored.update(drawn)


def _searched(span: JsonObject, texts: Texts, series: PieceSeries, factor: float | None, floor: float) -> SearchedPiece:
    from leakmeter.stats.conformal import interval

    told = InfluenceStatistics
    exact, screened, group = (
        None if (values := series.get((0, statistic, span["name"]))) is None else float(np.abs(values).sum())
        for statistic in (told.without_this, told.screened, told.grouped)
    )
    return SearchedPiece(
        **SearchedPiece.fields_of(span, texts, series),
        nats=exact,
        screened_nats=screened,
        interval_nats=None if factor is None or screened is None else interval(screened, factor, floor),
        group_nats=group,
    )
