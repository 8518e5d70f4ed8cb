"""Parts of a batch put together again: cases of the same exemplars, each with some of the batch's sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from leakmeter.core.measurement import Measurement
from leakmeter.report.result import Part

_SUMS: Final = ("requests", "tree_tokens", "naive_tokens", "seconds", "halvings")
_OF_BATCH: Final = "promised_"
"""What statistics begin with that every part says again."""


def whole_batches(parts: Iterable[Part], n_parts: int) -> Iterator[Part]:
    """Each batch as one part, as soon as its last part is there.

    Args:
        parts: of all batches, in order.
        n_parts: how many a batch has.
    """
    rest = iter(parts)
    while of_batch := list(islice(rest, n_parts)):
        yield of_batch[0] if n_parts == 1 else _joined(of_batch)


def _joined(parts: Sequence[Part]) -> Part:
    texts, _ = parts[0]
    responses: list[Any] = []
    together: list[Measurement] = []
    for number, (own, measurements) in enumerate(parts):
        kept = [r for r in measurements if not number or not r.statistic.startswith(_OF_BATCH)]
        together += [replace(r, sample=r.sample + len(responses)) for r in kept]
        responses += own["responses"]
    cost = _cost([own["cost"] for own, _ in parts])
    return {**texts, "id": texts["id"].rpartition(", part ")[0], "responses": responses, "cost": cost}, together


def _cost(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    expected = [cost["predicted"]["seconds"] for cost in costs]
    predicted = {
        "tree_tokens": sum(cost["predicted"]["tree_tokens"] for cost in costs),
        "seconds": None if None in expected else round(sum(expected), 3),
    }
    sums = {name: sum(cost[name] for cost in costs) for name in _SUMS}
    return {**costs[0], **sums, "seconds": round(sums["seconds"], 3), "predicted": predicted}
