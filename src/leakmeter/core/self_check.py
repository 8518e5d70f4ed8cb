"""Whether a run's numbers are those of plain passes: what its self-checks found, and what that makes to a floor.

A back end that shares work between prompts recomputes, in the first case of a run and in one of a hundred after it, a
random sequence or two by plain passes: the model as its library runs it, batch 1, no cache, nothing shared. What
differs is part of the floor of every instrument. Where it differs by more than rounding makes of the precision, the
case is measured again with plain passes alone.

How far other neighbours in the computation move a number (`core.noise`) is measured of a sample of the cases too
(`core.noise_sample`), and what is checked is of that sample where a hundred has a case of it. The others have the most
that any of these showed, in proportion to their length where they are longer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isnan, sqrt
from typing import Any, Final, Literal, Self

import numpy as np

from leakmeter.core.measure import NATS, NOISE, Measurement, Texts
from leakmeter.core.plain import SELDOM, to_plain
from leakmeter.core.record import JsonObject, Record, Unbounded
from leakmeter.errors import ScoreError

Passes = Literal["shared", "plain"]
BLOCK: Final = 100
"""Cases of which one, drawn at random, is checked; of the first so many it is the first."""

_EXACT: Final = ("float32", "float64")
"""Number types whose rounding is far below what is looked for."""

MOST_FLOOR_NATS: Final = 0.1
"""Noise of a token above which a model's numbers cannot show that there is nothing to find."""
_ROUNDING: Final = ("rounding_nats", "rounding_entropy_nats")
_TOLERANCES: Final = {"float64": 1e-6, "float32": 1e-3, "float16": 0.2, "bfloat16": 1.0}


def is_half(dtype: str) -> bool:
    """Whether numbers have 16 bits or fewer: how far their rounding moves logits is then measured by itself."""
    return dtype not in _EXACT


def tolerance_nats(dtype: str) -> float:
    """Most that rounding moves a token's log-probability, nats, between two orders of computation; beyond, one of the
    two is wrong. In float32 121 of 122 architectures stayed within 1.4e-4 (docs/results/architectures.md); in bfloat16
    SmolLM2-135M moves by 0.15."""
    return _TOLERANCES.get(dtype, _TOLERANCES["bfloat16"])


def is_checked(first: int, n_cases: int, measuring_noise: Container[int] = ()) -> bool:
    """Whether one of the cases first, first + 1 … of a part is the one of its hundred that is checked. It is one of
    those `measuring_noise`, if the hundred has any."""
    return any(number == _checked_of(number // BLOCK, measuring_noise) for number in range(first, first + n_cases))


def _checked_of(block: int, measuring_noise: Container[int]) -> int:
    start = block * BLOCK
    drawn = start + (int(np.random.default_rng(block).integers(BLOCK)) if block else 0)
    if drawn in measuring_noise:
        return drawn
    return next((number for number in range(start, start + BLOCK) if number in measuring_noise), drawn)


class WrongPassError(ScoreError):
    """Scores that a plain pass of the same tokens does not give."""

    def __init__(self, message: str, nats: float) -> None:
        super().__init__(message)
        self.nats = nats


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Sequences that were run a second time, by plain passes."""

    n_rows: int = 0
    nats: float = 0.0
    """Mean difference of a row: of the response token's log-probability, or of the mean over the row's distribution,
    whichever is more."""
    largest_nats: float = 0.0
    """Of a row."""
    rounding_nats: float | None = None
    """Mean difference of a row between two plain passes that round otherwise, of the sequence where it is more; None
    where that was not measured."""
    rounding_entropy_nats: float | None = None
    """The same of the row's entropy."""
    n_tokens: int = 0
    """Tokens of the plain passes."""


def record_of(recomputed: Recomputed, passes: Passes, failed_nats: float | None) -> JsonObject:
    """What a checked case keeps of it, an infinite number as JSON has it (see `core.plain.to_plain`). `failed_nats`
    says by how much shared passes were off, where they were given up for it."""
    record: JsonObject = {
        "passes": passes,
        "rows": recomputed.n_rows,
        "nats": _kept(recomputed.nats),
        "largest_nats": _kept(recomputed.largest_nats),
        "tokens": recomputed.n_tokens,
    }
    for name in _ROUNDING:
        if (nats := getattr(recomputed, name)) is not None:
            record[name] = _kept(nats)
    return record if failed_nats is None else {**record, "failed_nats": _kept(failed_nats)}


def _kept(nats: float) -> Any:
    """An infinite difference as JSON has it; what is no number is as far apart."""
    return to_plain(inf if isnan(nats) else nats)


def _nats_of(record: Mapping[str, Any], name: str) -> float | None:
    """A number of such a record, which may be infinite."""
    value = record.get(name)
    return None if value is None else float(value)


def nats_apart(nats: float) -> str:
    """How far two numbers are apart, for a sentence."""
    return f"{nats:.3g}\u00a0nats" if nats < inf else "infinitely many nats"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck(Record):
    """What the self-checks of a run found, up to and with a case."""

    passes: Passes
    """How the case was computed: 'shared' where prompts share work; 'plain' where each prompt is run alone and
    whole."""
    rows: int
    """Number of rows of logits that were recomputed by plain passes."""
    nats: Unbounded
    """Mean difference of a token's log-probability between the run and a plain pass, nats: the largest of all checks so
    far."""
    largest_nats: Unbounded
    """Largest difference of a token's log-probability between the run and a plain pass, nats."""
    failed_nats: Unbounded | None
    """Error of the shared passes where a check failed, nats; None where none did."""
    tokens: int | None = field(default=None, metadata={SELDOM: True})
    """Number of tokens that the plain passes of the checks ran, beside those of the run. Absent where not counted."""
    rounding_nats: Unbounded | None = field(default=None, metadata={SELDOM: True})
    """How far rounding moves a token's log-probability, nats, on average: the most of any recomputed sequence. Present
    only where numbers have 16 bits, or the model keeps a number of keys by scores of its own."""
    rounding_entropy_nats: Unbounded | None = field(default=None, metadata={SELDOM: True})
    """How far rounding moves the entropy of the next token, nats, on average: the most of any recomputed sequence.
    Present only where `rounding_nats` is."""

    @classmethod
    def from_texts(cls, texts: Texts) -> Self | None:
        """Of the texts of a case that `carried` gave, or of a case alone; None where nothing was checked so far."""
        record = texts.get("self_check")
        if record is None:
            return None
        return cls(
            passes=record["passes"],
            rows=record.get("rows") or 0,
            nats=_nats_of(record, "nats") or 0.0,
            largest_nats=_nats_of(record, "largest_nats") or 0.0,
            failed_nats=_nats_of(record, "failed_nats"),
            tokens=record.get("tokens"),
            **{name: _nats_of(record, name) for name in _ROUNDING},
        )


def carried(parts: Iterable[tuple[Texts, Any]]) -> Iterator[tuple[Texts, Any]]:
    """Cases in their order, each with the largest differences of all checks up to it: what was found of one case holds
    for those after it. A case that measured no noise has that of those before it as `run_noise`."""
    has_any, rows, nats, largest = False, 0, 0.0, 0.0
    of_some: dict[str, Any] = dict.fromkeys(("failed_nats", "tokens", *_ROUNDING))
    noise = RunNoise(cases=0, nats=0.0, n_characters=0)
    for texts, measurements in parts:
        own = [measurement.values for measurement in measurements if measurement.statistic == NOISE]
        if own:
            noise = noise.after(float(max(values.max(initial=0.0) for values in own)), _n_characters(texts))
        elif noise.cases:
            texts = {**texts, "run_noise": {"nats": noise.of_case(_n_characters(texts)), "cases": noise.cases}}
        record: Mapping[str, Any] = texts.get("self_check") or {}
        rows += record.get("rows") or 0
        nats = max(nats, _nats_of(record, "nats") or 0.0)
        largest = max(largest, _nats_of(record, "largest_nats") or 0.0)
        for name in ("failed_nats", *_ROUNDING):
            if (number := _nats_of(record, name)) is not None:
                of_some[name] = max(of_some[name] or 0.0, number)
        if (n_tokens := record.get("tokens")) is not None:
            of_some["tokens"] = (of_some["tokens"] or 0) + n_tokens
        has_any |= bool(record)
        if has_any:
            passes = record.get("passes", "shared")
            so_far = {"rows": rows, "nats": nats, "largest_nats": largest, "passes": passes, **of_some}
            texts = {**texts, "self_check": so_far}
        yield texts, measurements


@dataclass(frozen=True, slots=True)
class RunNoise:
    """What the cases that measured noise showed, nats at a token."""

    cases: int
    nats: float
    """The most of any."""
    n_characters: int
    """Of the longest of them: context and query."""

    def after(self, nats: float, n_characters: int) -> RunNoise:
        """With one more case."""
        return RunNoise(self.cases + 1, max(self.nats, nats), max(self.n_characters, n_characters))

    def of_case(self, n_characters: int) -> float:
        """Noise of a case of that length, nats at a token."""
        return self.nats * max(1.0, n_characters / max(1, self.n_characters))


def _n_characters(texts: Texts) -> int:
    return len(texts.get("context") or "") + len(texts.get("query") or "")


def warnings_of(texts: Texts) -> Iterator[str]:
    """What a self-check that failed, or could not be made, means for a case's numbers, in a sentence."""
    check = SelfCheck.from_texts(texts)
    if check is not None and not check.rows and check.passes == "shared":
        yield (
            "No number was recomputed by a plain pass of the model: there was no memory for one, or no prompt that one "
            "could give. Whether passes that share work are right for it was tested when it was loaded only."
        )
    if check is not None and check.rows and check.rounding_nats is None and is_half(texts.get("dtype", "float32")):
        yield (
            f"How far rounding in {texts['dtype']} moves these numbers was not measured: other orders of computation "
            "may give others, by more than the noise floor. Give --dtype float32."
        )
    if check is not None and check.failed_nats is not None:
        yield (
            "A self-check failed: passes that share work between prompts gave other numbers than the model alone, by "
            f"{nats_apart(check.failed_nats)} at a token. This case was computed with one plain pass a prompt."
        )


def doubt(floor_per_token_nats: float, check: SelfCheck | None) -> str | None:
    """Why it says nothing that nothing was found, as a clause; None where it does say so.

    Args:
        floor_per_token_nats: noise floor of a number, over the tokens that it is added up of.
        check: what the run's self-checks found.
    """
    if check is not None and check.failed_nats is not None:
        return f"a self-check found passes that are wrong by {nats_apart(check.failed_nats)} at a token"
    if not floor_per_token_nats <= MOST_FLOOR_NATS:
        return (
            f"the order of computation alone moves this model's numbers by {floor_per_token_nats:.2g}\u00a0nats a token"
        )
    return None


def noise_of_token(texts: Texts) -> float:
    """What the differences found make to a contrast of two log-probabilities of a token, nats, on average over the
    tokens of a sum: both may be off."""
    check = texts.get("self_check") or {}
    return 2.0 * max(_nats_of(check, "nats") or 0.0, _nats_of(check, "rounding_nats") or 0.0)


def noise_of_contrast(texts: Texts, n_tokens: int, *, n_terms: int = 1, adds_absolutely: bool = False) -> float:
    """What the differences found make to a contrast of two sums over so many tokens, nats; fewer than one such number
    in twenty moves by more.

    Between passes that share work, errors may all have one sign. Rounding has no sign: a token moves by 2.5 times the
    mean in one case of twenty, as the normal distribution has it, a contrast of two by √2 as much, rounded up to 4, and
    a sum of n by √n as much. Of absolute values the means add up, √2 of them for a contrast.

    Args:
        texts: see `carried`.
        n_tokens: tokens of a sum.
        n_terms: sums that are off by themselves, of which the number is made.
        adds_absolutely: whether tokens are added up by their absolute values.
    """
    check = texts.get("self_check") or {}
    found, rounding = (_nats_of(check, name) or 0.0 for name in ("nats", "rounding_nats"))
    of_rounding = 4.0 * rounding * sqrt(n_tokens * n_terms)
    if adds_absolutely:
        of_rounding = max(of_rounding, sqrt(2.0 * n_terms) * rounding * n_tokens)
    return max(2.0 * found * n_tokens * n_terms, of_rounding)


def noise_of_entropy(texts: Texts) -> float:
    """What rounding makes to a number over the whole distribution of a token that contrasts it with another, as a
    divergence does, nats: the errors of many tokens cancel out, and what both distributions share. Persuasions moved by
    0.3 of this at most (bfloat16, four architectures with random weights), and by half of it with SmolLM2-135M."""
    return 2.0 * (_nats_of(texts.get("self_check") or {}, "rounding_entropy_nats") or 0.0)


def noise_beyond_rounding(texts: Texts) -> float:
    """`noise_of_token` of what sharing work does, nats; 0 where rounding alone does half as much."""
    check = texts.get("self_check") or {}
    found, rounding = (_nats_of(check, name) or 0.0 for name in ("nats", "rounding_nats"))
    return 2.0 * found if found > 2.0 * rounding else 0.0


def with_noise_of(texts: Texts, measurements: Iterable[Measurement]) -> list[Measurement]:
    """The measurements, of which the noise of each token is at least what the self-checks found.
    Where the case measured none, that of its run is added; where nobody did, the most that rounding makes."""
    measurements = list(measurements)
    if not any(measurement.statistic == NOISE for measurement in measurements):
        of_run: Mapping[str, Any] = texts.get("run_noise") or {}
        nats = of_run.get("nats", 2.0 * tolerance_nats(texts["dtype"]))
        of_tokens = np.full(len(texts["responses"][0]["tokens"]), nats)
        measurements.append(Measurement(texts["id"], 0, "", NOISE, NATS, of_tokens))
    return [
        replace(measurement, values=np.maximum(measurement.values, least))
        if measurement.statistic == NOISE and (least := _least_of_token(texts, len(measurement.values)))
        else measurement
        for measurement in measurements
    ]


def _least_of_token(texts: Texts, n_tokens: int) -> float:
    """Noise of each token of a response, which its tokens' influences add up to, nats."""
    return noise_of_contrast(texts, n_tokens, adds_absolutely=True) / max(1, n_tokens)
