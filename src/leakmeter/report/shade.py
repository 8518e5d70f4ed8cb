"""The context cut where pieces begin and end, each stretch knowing which pieces cover it.

Everything a case holds is untrusted. `visible` is the one gate it passes before it is shown anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from leakmeter.core.plain import visible

Case = Any
"""A result with a context and pieces of it."""


def excerpt(text: str, characters: int) -> str:
    """`text` on one line, its middle cut out when it is longer than `characters`."""
    # Only the ends can be seen, so only the ends are looked at: a piece may be megabytes.
    if len(text) > 8 * characters:
        text = text[: 4 * characters] + " … " + text[-4 * characters :]
    line = " ".join(visible(text).split())
    if len(line) <= characters:
        return line
    tail = characters // 3
    return f"{line[: characters - tail - 1].rstrip()}…{line[-tail:].lstrip()}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of context characters that the same pieces cover."""

    text: str
    """The characters, made visible."""
    units: tuple[int, ...]
    """Indices in `case.pieces` of the units covering it."""
    values: tuple[int, ...]
    """Indices in `case.pieces` of the repeated values covering it."""
    document: int | None
    """Index in `case.documents` of the document it lies in."""


def stretches(case: Case) -> list[Stretch]:
    """The whole context in order, cut at every boundary of a piece or document; joined, it is the context."""
    context = visible(case.context)
    end = len(context)
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    cuts = {0, end}
    for index, piece in enumerate(case.pieces):
        for start, stop in spans(piece):
            start, stop = max(0, start), min(end, stop)
            if start < stop:
                begins.setdefault(start, []).append(index)
                ends.setdefault(stop, []).append(index)
                cuts |= {start, stop}
    documents = case.documents
    for document in documents:
        cuts |= {min(end, max(0, document.start)), min(end, max(0, document.end))}

    found = []
    open_pieces: list[int] = []
    ordered = sorted(cuts)
    values = {index for index, piece in enumerate(case.pieces) if piece.kind == "value"}
    for start, stop in pairwise(ordered):
        for index in ends.get(start, ()):
            open_pieces.remove(index)
        open_pieces.extend(begins.get(start, ()))
        covering = sorted(set(open_pieces))
        found.append(
            Stretch(
                context[start:stop],
                tuple(i for i in covering if i not in values),
                tuple(i for i in covering if i in values),
                next((i for i, d in enumerate(documents) if d.start <= start < d.end), None),
            )
        )
    return found


def spans(piece: Case) -> Sequence[Sequence[int]]:
    """Character ranges of a piece in the context; one for a unit, one per mention for a value."""
    found: Sequence[Sequence[int]] = piece.spans
    return found


def strongest(case: Case, indices: Sequence[int]) -> int | None:
    """Which of the pieces at `indices` has the most nats; None when there are none."""
    return max(indices, key=lambda i: (rank_nats(case.pieces[i]), -i), default=None)


def by_nats(case: Case, kind: str) -> list[int]:
    """Indices of the pieces of one kind, most nats first; ties in the context's order."""
    pieces = case.pieces
    return sorted((i for i, p in enumerate(pieces) if p.kind == kind), key=lambda i: (-rank_nats(pieces[i]), i))


def leader(case: Case) -> int | None:
    """The strongest piece of any kind; None when it is below the noise floor, or there is none."""
    top = strongest(case, range(len(case.pieces)))
    return None if top is None or case.pieces[top].below_noise_floor else top


def rank_nats(piece: Case) -> float:
    """A piece's nats for sorting: an undefined number ranks below every measured one."""
    nats = float(piece.nats)
    return -math.inf if math.isnan(nats) else nats
