"""What a result says of personal data, beside the numbers that every piece has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leakmeter.core.request import FloatArray
from leakmeter.text.entities.repeated import repeated

Series = Mapping[tuple[int, str, str], FloatArray]


def entity_fields(span: Mapping[str, Any], series: Series, context: str, response: str) -> dict[str, Any]:
    """A span's fields about personal data; None in each where it is none.

    The span is as `engine.measure.texts_of` keeps it, the series are measurements by (sample, statistic, piece).
    """
    entity = span.get("entity")
    swapped = series.get((0, "swapped", span["name"]))
    forms = dict.fromkeys(context[start:end] for start, end in span["ranges"])
    return {
        # Of a value said ten times, one form is enough.
        **({"text": " … ".join(forms)} if entity else {}),
        "entity_type": entity and entity["type"],
        "entity_value": entity and entity["value"],
        "repeated": entity and repeated(entity["type"], entity["value"], entity["text"], response),
        "surrogate": entity and entity["invented"],
        "swapped_nats": None if swapped is None else float(np.abs(swapped).sum()),
        "swapped_signed_nats": None if swapped is None else float(swapped.sum()),
        "swapped_signed_per_token_nats": None if swapped is None else tuple(swapped.tolist()),
    }


def ranks(spans: Sequence[Mapping[str, Any]], nats: Sequence[float]) -> list[int]:
    """Rank of each span among those of its kind, from 1, most nats first; ties in the order of the context."""
    order = sorted(range(len(spans)), key=lambda i: (-nats[i], i))
    seen: dict[str, int] = {}
    out = [0] * len(spans)
    for i in order:
        kind = spans[i]["kind"]
        out[i] = seen[kind] = seen.get(kind, 0) + 1
    return out


def entity_warnings(texts: Mapping[str, Any], series: Series) -> list[str]:
    if texts["unit"] != "entity":
        return []
    if not any(span.get("entity") for span in texts["spans"]):
        return [
            "No personal data was found in this context. Names are only found after a title or a label, and where a "
            "recogniser (--ner) sees them; --entity-patterns adds what has a form of its own."
        ]
    left_out = [
        span["name"]
        for span in texts["spans"]
        if span.get("entity") and span["entity"]["invented"] is not None and (0, "swapped", span["name"]) not in series
    ]
    if left_out:
        return [f"With a surrogate value, {', '.join(left_out)} did not fit the model's window, and was not swapped."]
    return []
