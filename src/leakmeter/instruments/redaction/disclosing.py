"""Disclosures of what is left of a context, by the definition of `influence.disclosures` for the whole of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from leakmeter.core.measure import LOG_PROB, NATS, WHOLE, WITHOUT_THIS, Statistic, Texts
from leakmeter.core.record import JsonObject
from leakmeter.instruments.influence.disclosures import Disclosure, disclosures, is_to_user
from leakmeter.instruments.influence.math import ContextStatistics, InfluenceStatistics
from leakmeter.stats.arrays import FloatArray
from leakmeter.text.build import REGION
from leakmeter.text.entities.again import KnownValue
from leakmeter.text.entities.encoded import ENCODED
from leakmeter.text.entities.values import SHAPED, AskedValues
from leakmeter.text.entity_results import PieceSeries
from leakmeter.text.matching import Folded
from leakmeter.text.structured import TextRange


class RedactionStatistics(ContextStatistics):
    # Where cutting a piece is what makes a token possible, two infinities are contrasted.
    without_this = WITHOUT_THIS.but(undefined=True, first_only=True, optional=True)
    only_this = ContextStatistics.only_this.but(optional=True)
    log_prob = LOG_PROB.but(first_only=True, optional=True)
    whole = WHOLE.but(about=f"{WHOLE.about}; of sample 1, the answer after, against what is left")
    left = Statistic("left", NATS, "log p̄(y_t | D∖R) − log p̄(y_t | ∅), with the plan R", first_only=True)
    removed = Statistic(
        "removed", NATS, "left after a step that cut the span", per="piece", first_only=True, optional=True
    )
    put_back = removed.named("put_back", "left after a step that put the span back")
    all_removed = Statistic(
        "all_removed", NATS, "with every span cut, where the limit was not reached", first_only=True, optional=True
    )
    left_without_this = without_this.named(
        "left_without_this", "log p̄(y_t | D∖R) − log p̄(y_t | D∖R∖D_i) of a piece that is left"
    )
    answer_log_prob = Statistic(
        "answer_log_prob", NATS, "log p̄(a_t | D∖R) of the answer drawn from what is left", optional=True
    )
    answer_placebo = Statistic(
        "answer_placebo",
        NATS,
        "what irrelevant words as the only context do to that answer",
        optional=True,
        # A token that neither makes possible says nothing.
        undefined=True,
    )
    answer_noise = answer_log_prob.named(
        "answer_noise", "in earlier versions, the largest noise of the response, for each token of the answer"
    )


Tokens = tuple[int, int]
"""First of the response, and the one behind the last."""


def tokens_of(disclosure: Disclosure) -> Tokens:
    return disclosure.first_token, disclosure.last_token + 1


def before(texts: Texts, series: PieceSeries) -> list[Disclosure]:
    """Personal or secret disclosures of the whole context, without those that the recipient may know."""
    spans = disclosures(texts, series)
    return [
        disclosure
        for disclosure in spans
        if disclosure.is_sensitive and disclosure.evidence is not None and disclosure.allowed != "yes"
    ]


def after(texts: Texts, series: PieceSeries, cut: Collection[str]) -> list[Disclosure]:
    """The same without some pieces: `series` has `left`, and `left_without_this` of the other pieces."""
    told = RedactionStatistics
    left: dict[tuple[int, str, str], FloatArray] = {
        key: values
        for key, values in series.items()
        if not key[0] and key[1] in (told.noise, told.placebo, told.control)
    }
    spans = []
    for span, ranges in _left_of(texts, cut):
        without = series.get((0, told.left_without_this, span["name"]))
        if without is None:
            continue
        spans.append({**span, "ranges": ranges})
        left[0, told.without_this, span["name"]] = without
        # Of a piece that was cut in part the rest was never measured alone.
        if ranges == [tuple(part) for part in span["ranges"]] and (0, told.only_this, span["name"]) in series:
            left[0, told.only_this, span["name"]] = series[0, told.only_this, span["name"]]
    left[0, told.whole, ""] = series[0, told.left, ""]
    with np.errstate(invalid="ignore"):
        left[0, told.log_prob, ""] = series[0, told.log_prob, ""] - series[0, told.whole, ""] + series[0, told.left, ""]
    return before({**texts, "spans": spans, "cut": _ranges_of(texts, cut)}, left)


def still_said(texts: Texts, disclosures: Iterable[Disclosure], cut: Collection[str]) -> dict[Tokens, list[TextRange]]:
    """Where a context without some pieces says again what was disclosed, in whatever form, and the query does not: the
    characters of the context, of each disclosure of which there are any. Scores are not asked: who reads the form knows
    the value."""
    context, region = texts["context"], texts.get("region", REGION)
    kept = _outside((0, len(context)), _ranges_of(texts, cut))
    at = [i for start, end in kept for i in range(start, end)]
    text = "".join(context[start:end] for start, end in kept)
    asked = AskedValues(query := texts["query"] if is_to_user(texts) else "", Folded(query), None)
    said: dict[Tokens, list[TextRange]] = {}
    for disclosure in disclosures:
        found = {place for value in _values_of(texts, disclosure) for place in value.places(text, region)}
        news = [(start, end) for start, end in sorted(found) if not asked.has(text[start:end], SHAPED)]
        if news:
            said[tokens_of(disclosure)] = [(at[start], at[end - 1] + 1) for start, end in news]
    return said


def _values_of(texts: Texts, disclosure: Disclosure) -> Iterator[KnownValue]:
    region = texts.get("region", REGION)
    yield KnownValue.of(texts["responses"][0]["text"], disclosure.start, disclosure.end, disclosure.kind, region)
    if disclosure.found_by == ENCODED:
        for source in disclosure.sources:
            yield KnownValue.of(texts["context"], source.start, source.end, disclosure.kind, region)


def of_answer(texts: Texts, series: PieceSeries, cut: Collection[str]) -> tuple[Disclosure, ...] | None:
    """What the answer drawn from what is left gives away of that, and values below the floor; None where its
    log-probabilities were not kept, as by earlier versions. Pieces were not measured on it, so that sources are those
    that have its words; nor were controls, so that it is held against none, nor noise, for which the largest of a token
    of the response stands."""
    told = RedactionStatistics
    if (1, told.answer_log_prob, "") not in series:
        return None
    answer: dict[tuple[int, str, str], FloatArray] = {
        (0, told.whole, ""): series[1, told.whole, ""],
        (0, told.log_prob, ""): series[1, told.answer_log_prob, ""],
        (0, told.noise, ""): np.full(len(series[1, told.whole, ""]), series[0, told.noise, ""].max()),
    }
    if (1, told.answer_placebo, "") in series:
        answer[0, InfluenceStatistics.placebo_alone, ""] = series[1, told.answer_placebo, ""]
    spans = [{**span, "ranges": ranges} for span, ranges in _left_of(texts, cut)]
    said = {"responses": texts["responses"][1:], "spans": spans, "cut": _ranges_of(texts, cut), "sampled": True}
    return disclosures({**texts, **said}, answer)


def _left_of(texts: Texts, cut: Collection[str]) -> Iterator[tuple[JsonObject, list[tuple[int, int]]]]:
    """Pieces of which something is left without those that are cut, and the characters that are."""
    cut_ranges = _ranges_of(texts, cut)
    for span in texts["spans"]:
        if ranges := [part for whole in span["ranges"] for part in _outside(whole, cut_ranges)]:
            yield span, ranges


def _ranges_of(texts: Texts, names: Collection[str]) -> list[Sequence[int]]:
    return [part for span in texts["spans"] if span["name"] in names for part in span["ranges"]]


def _outside(whole: Sequence[int], ranges: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    parts = [(whole[0], whole[1])]
    for start, end in ranges:
        parts = [
            part
            for first, last in parts
            for part in ((first, min(last, start)), (max(first, end), last))
            if part[0] < part[1]
        ]
    return parts


@dataclass(frozen=True, slots=True)
class CutState:
    """log p̄(y_t | …) − log p̄(y_t | ∅) of a context without some pieces, and without each of the others as well."""

    cut: tuple[str, ...]
    left: FloatArray
    others: dict[str, FloatArray]

    def loss(self, name: str | None = None) -> float:
        """L(R), or L(R ∪ name), nats."""
        return float(np.abs(self.left if name is None else self.others[name]).sum())


@dataclass(slots=True)
class Targets:
    """Disclosures that have to go, and how much of them is left; `series` are of the case with nothing cut."""

    texts: Texts
    series: dict[tuple[int, str, str], FloatArray]
    floors: dict[Tokens, float] = field(default_factory=dict)
    """Nats that a span has to be above to be a disclosure, of each that was one on the way: its floor, and what the
    context of another case does to it."""
    found: dict[Tokens, Disclosure] = field(default_factory=dict)
    """Each as it was first."""

    def above(self, state: CutState) -> list[Disclosure]:
        """Disclosures of what is left that are personal or secret; each is a target from now on."""
        told = RedactionStatistics
        of_state: dict[tuple[int, str, str], FloatArray]
        of_state = {(0, told.left_without_this, name): state.left - values for name, values in state.others.items()}
        series = {**self.series, (0, told.left, ""): state.left, **of_state}
        above = after(self.texts, series, state.cut)
        for disclosure in above:
            floor = disclosure.floor_nats + (disclosure.control_nats or 0.0)
            self.floors.setdefault(tokens_of(disclosure), floor)
            self.found.setdefault(tokens_of(disclosure), disclosure)
        return above

    def said(self, cut: Collection[str]) -> set[TextRange]:
        """Where what is left of the context says the targets again, in whatever form."""
        return {place for places in still_said(self.texts, self.found.values(), cut).values() for place in places}

    def excess(self, left: FloatArray) -> float:
        """Σ of the targets' nats above their floors."""
        return sum(max(0.0, float(left[slice(*tokens)].sum()) - floor) for tokens, floor in self.floors.items())

    def cost(self, left: FloatArray) -> float:
        """`excess`, less the log-probability of the rest of the response: nats, up to a constant."""
        return self.excess(left) - float(left[self.rest].sum())

    @property
    def rest(self) -> npt.NDArray[np.bool_]:
        return outside(self.floors, len(self.series[0, RedactionStatistics.whole, ""]))

    def options(self, above: Iterable[Disclosure], state: CutState) -> list[str]:
        """Pieces to cut next: sources of disclosures, and values that say the same words; those first, if any, whose
        cutting leaves less of the disclosures. Where none is left, pieces that say a target in another form."""
        values = [span for span in self.texts["spans"] if span["kind"] == "value"]
        names = set()
        for disclosure in above:
            for source in disclosure.sources:
                if disclosure.relation == "copied" or source.most_nats > self._noise(disclosure):
                    names.add(source.piece)
                    names |= {
                        span["name"]
                        for span in values
                        for start, end in span["ranges"]
                        if start < source.end and source.start < end
                    }
        left = [name for name in state.others if name in names]
        noise = sum(self._noise(disclosure) for disclosure in above)
        helping = [name for name in left if self.excess(state.others[name]) < self.excess(state.left) - noise]
        return helping or left or self._saying(state)

    def _saying(self, state: CutState) -> list[str]:
        said = self.said(state.cut)
        ranges = {span["name"]: span["ranges"] for span in self.texts["spans"]}
        return [
            name
            for name in state.others
            if any(start < last and first < end for first, last in said for start, end in ranges[name])
        ]

    def _noise(self, disclosure: Disclosure) -> float:
        return float(self.series[0, RedactionStatistics.noise, ""][slice(*tokens_of(disclosure))].sum())


def outside(spans: Iterable[Tokens], n_tokens: int) -> npt.NDArray[np.bool_]:
    """Which tokens are in none of some spans, (response,)."""
    rest = np.ones(n_tokens, dtype=bool)
    for tokens in spans:
        rest[slice(*tokens)] = False
    return rest
