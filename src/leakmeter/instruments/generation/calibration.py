"""A calibrated setting of private generation: what it promises, and how sharp a text it allows, as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final

from leakmeter.instruments.generation.words import delta_text, sharpness
from leakmeter.report import blocks as b

_SETTINGS: Final = {
    "temperature": ("Temperature", "lowest"),
    "clip": ("Clip", "widest"),
    "subset-size": ("Subset size", "smallest"),
}
_NEIGHBOURS: Final = {"add-remove": "more or less", "replace-one": "replaced by another"}


def report(told: Mapping[str, Any]) -> b.Report:
    """The free setting, what all three promise for either kind of neighbour, and how sharp a text they allow.

    Args:
        told: as `leakmeter audit calibrate --json` prints it.
    """
    kept, free = told["promises"][told["adjacency"]], told["free"]
    name, which = _SETTINGS[free]
    value = f"{told['value']:,}" if free == "subset-size" else rounded(told["value"], 6, up=free == "temperature")
    others = ", ".join(
        f"{words.lower()} {told[other.replace('-', '_')]:g}" for other, (words, _) in _SETTINGS.items() if other != free
    )
    return b.Report(
        "Private generation: a setting that keeps a promise",
        "private_generation",
        [
            b.Headline(f"{name} {value}: the {which} that promises at most ε = {told['target_epsilon']:g}."),
            b.Text(
                f"With {others}, it promises ε = {_at_most(kept['epsilon'], told['target_epsilon'])} at δ = "
                f"{delta_text(told['delta'])} for {told['n_tokens']:,} tokens: {told['sequences']:,} sequences of "
                f"{told['max_tokens']:,} or fewer."
            ),
            _table(told),
            b.Text(
                "Rényi divergences of tokens add up; α is the order at which their sum makes the least ε. The target "
                f"was for an exemplar {_NEIGHBOURS[told['adjacency']]}. Texts that end early promise no less."
            ),
            b.Text(sharpness(told["clip"], told["temperature"])[0]),
        ],
    )


def rounded(value: float, digits: int, *, up: bool) -> str:
    """A number to so many significant digits, never above it, or never below it, as a reader needs to be safe.

    Args:
        value: above 0.
        digits: 1 or more.
        up: never below it.
    """
    exact = Decimal(value)
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    text = f"{exact.quantize(last, rounding=ROUND_CEILING if up else ROUND_FLOOR):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _table(told: Mapping[str, Any]) -> b.Table:
    rows = {
        f"ε at δ = {delta_text(told['delta'])}": "epsilon",
        "order α that makes it": "order",
        "Rényi divergence of order α, nats": "rdp_nats",
        "of each token": "rdp_per_token_nats",
        "largest log-ratio of a token, nats": "max_per_token_nats",
        "ε at δ = 0": "pure_epsilon",
    }
    both = [told["promises"][name] for name in _NEIGHBOURS]
    # Rounded up, as no kind of column does: a bound has to stay one.
    return b.Table(
        (
            b.Column("Promised where one exemplar is"),
            *(b.Column(words, "number") for words in _NEIGHBOURS.values()),
        ),
        [
            b.Row((name, *(f"{one[key]:.0f}" if key == "order" else rounded(one[key], 3, up=True) for one in both)))
            for name, key in rows.items()
        ],
    )


def _at_most(epsilon: float, target: float) -> str:
    """A promise rounded up, but not beyond the target that it keeps."""
    text = rounded(epsilon, 4, up=True)
    return text if float(text) <= target else f"{target:g}"
