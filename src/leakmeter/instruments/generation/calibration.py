"""A setting of private generation that has a wanted guarantee: the search, its result, and its report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Final

from leakmeter.core.record import Record
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.words import delta_text, sharpness
from leakmeter.privacy.calibrate import Free, Target, calibrate
from leakmeter.privacy.clipped_logits import Adjacency, Aggregation
from leakmeter.privacy.rdp import Guarantee, bound, zcdp
from leakmeter.report import blocks as b

if TYPE_CHECKING:
    from leakmeter.instruments.generation.command import Wanted

_NEIGHBOURS: Final[dict[Adjacency, str]] = {"add-remove": "more or less", "replace-one": "replaced by another"}
_SETTINGS: Final = {
    "temperature": ("Temperature", "lowest"),
    "clip": ("Clip", "widest"),
    "subset_size": ("Subset size", "smallest"),
}
_MOST: Final = 1e9
"""Of any number that is given; beyond it, and below its inverse, a guarantee is no longer told from rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedGuarantee(Guarantee):
    """The guarantee of a setting, for one kind of neighbour."""

    rdp_per_token_nats: float
    """Rényi divergence of the order that gives ε, of each token."""
    max_per_token_nats: float
    """Largest log-ratio of a token."""
    rho: float
    """ρ of all tokens: zero-concentrated differential privacy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Record):
    """A setting and its guarantee."""

    free: Free
    """The setting that was sought."""
    value: float
    """What was found."""
    target_epsilon: float
    adjacency: Adjacency
    """Which neighbours the target is for."""
    delta: float
    clip: float
    subset_size: int
    temperature: float
    normalise_by: str
    samples: int
    max_new_tokens: int
    n_tokens: int
    """The most there may be."""
    guarantees: Mapping[str, CalibratedGuarantee]
    """For 'add-remove' and for 'replace-one'."""


def calibrated(wanted: Wanted) -> Calibration:
    free, name = wanted.free, wanted.free.replace("-", "_")
    fixed = {other: getattr(wanted, other) for other in ("clip", "subset_size", "temperature")}
    if fixed.pop(name) is not None:
        raise UsageError(f"--{free} is the setting that --free {free} searches for; leave it out")
    missing = [f"--{other.replace('_', '-')}" for other, value in fixed.items() if value is None]
    if missing:
        raise UsageError(f"--free {free} needs {' and '.join(missing)}; give a value")
    start = Aggregation(**fixed, **{name: 2}, normalise_by=wanted.normalise_by)
    counts = {"samples": wanted.samples, "max-new-tokens": wanted.max_new_tokens}
    for other, number in {"epsilon": wanted.epsilon, **fixed, **counts}.items():
        least = 1 if other in counts else 1.0 / _MOST
        if not least <= number <= _MOST:
            raise UsageError(f"{other.replace('_', '-')} is {number:g}; it has to be from {least:g} to {_MOST:g}")
    n_tokens = wanted.samples * wanted.max_new_tokens
    target = Target(wanted.epsilon, wanted.delta, n_tokens, wanted.adjacency)
    aggregation = calibrate(start, free, target)
    return Calibration(
        **asdict(aggregation),
        free=free,
        value=getattr(aggregation, name),
        target_epsilon=wanted.epsilon,
        adjacency=wanted.adjacency,
        delta=wanted.delta,
        samples=wanted.samples,
        max_new_tokens=wanted.max_new_tokens,
        n_tokens=n_tokens,
        guarantees={kind: _guarantee(aggregation.sensitivity(kind), target) for kind in _NEIGHBOURS},
    )


def _guarantee(sensitivity: float, target: Target) -> CalibratedGuarantee:
    kept = target.guarantee(sensitivity)
    each, most = (float(limit) for limit in bound(sensitivity, [kept.order, math.inf]))
    return CalibratedGuarantee(
        **asdict(kept), rdp_per_token_nats=each, max_per_token_nats=most, rho=zcdp(sensitivity, target.n_tokens)
    )


def report(result: Calibration) -> b.Report:
    kept, free = result.guarantees[result.adjacency], result.free.replace("-", "_")
    name, extreme = _SETTINGS[free]
    # Rounded up, but not beyond the target that it keeps.
    epsilon = rounded(kept.epsilon, 4, up=True)
    epsilon = epsilon if float(epsilon) <= result.target_epsilon else f"{result.target_epsilon:g}"
    value = f"{result.value:,}" if free == "subset_size" else rounded(result.value, 6, up=free == "temperature")
    others = ", ".join(
        f"{words.lower()} {getattr(result, other):g}" for other, (words, _) in _SETTINGS.items() if other != free
    )
    return b.Report(
        "Private generation: a setting with a guarantee",
        "private_generation",
        [
            b.Headline(f"{name} {value}: the {extreme} that guarantees at most ε = {result.target_epsilon:g}."),
            b.Text(
                f"With {others}, it guarantees ε = {epsilon} at δ = "
                f"{delta_text(result.delta)} for {result.n_tokens:,} tokens: {result.samples:,} samples of "
                f"{result.max_new_tokens:,} or fewer."
            ),
            _table(result),
            b.Text(
                "Rényi divergences of tokens add up; α is the order at which their sum gives the smallest ε. The "
                f"target was for an exemplar {_NEIGHBOURS[result.adjacency]}. Texts that end early have at least this "
                "guarantee."
            ),
            b.Text(sharpness(result.clip, result.temperature)[0]),
        ],
    )


def rounded(value: float, digits: int, *, up: bool) -> str:
    """A number above 0 with so many significant digits, rounded up or down as is safe."""
    exact = Decimal(value)
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    text = f"{exact.quantize(last, rounding=ROUND_CEILING if up else ROUND_FLOOR):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _table(result: Calibration) -> b.Table:
    rows = {
        f"ε at δ = {delta_text(result.delta)}": "epsilon",
        "order α that gives it": "order",
        "Rényi divergence of order α, nats": "rdp_nats",
        "of each token": "rdp_per_token_nats",
        "largest log-ratio of a token, nats": "max_per_token_nats",
        "ε at δ = 0": "pure_epsilon",
    }

    def text(kind: Adjacency, name: str) -> str:
        value = getattr(result.guarantees[kind], name)
        # Rounded up, as no kind of column does: a bound has to stay one.
        return f"{value:.0f}" if name == "order" else rounded(value, 3, up=True)

    return b.Table(
        (b.Column("Bound where one exemplar is"), *(b.Column(words, "number") for words in _NEIGHBOURS.values())),
        [b.Row((label, *(text(kind, name) for kind in _NEIGHBOURS))) for label, name in rows.items()],
    )
