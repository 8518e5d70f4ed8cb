"""A run as a small table that a notebook shows."""

from __future__ import annotations

from collections.abc import Mapping

from leakmeter.core.check import Number
from leakmeter.core.plain import excerpt
from leakmeter.report.scale import interval_text, nats_text

_LETTERS = 400


def run_table(name: str, about: str, headline: str, quantities: Mapping[str, Number]) -> str:
    """HTML of it, every text escaped.

    Args:
        name: of the run.
        about: measure, model and size.
        headline: what was found.
        quantities: by QUANTITY.AGGREGATE.
    """
    from markupsafe import escape

    rows = "".join(
        f"<tr><th>{escape(of)}</th><td>{nats_text(one.value)}{interval_text(one.interval)}</td>"
        f"<td>{escape(one.unit)}</td><td>{one.n:,}</td></tr>"
        for of, one in quantities.items()
    )
    told = "".join(f"<p>{escape(excerpt(text, _LETTERS))}</p>" for text in (about, headline) if text)
    return (
        f"<div><p><strong>{escape(excerpt(name, _LETTERS))}</strong></p>{told}"
        "<table><thead><tr><th>quantity</th><th>value, 95 % interval</th><th>unit</th><th>cases</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )
