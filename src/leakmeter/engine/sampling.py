"""Which of many cases stand for the others in a prediction, and how far off it may be.

Parts of a run are sorted by shape and by size, which need no tokenizer. Some are taken, spread evenly over that order;
the others lie between their neighbours. The order in which they are taken is
that of van der Corput ("Verteilungsfunktionen", 1935), from a place that a seed draws: wherever it is broken off, those
taken are spread evenly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from leakmeter.core.request import FloatArray

Outline = tuple[Hashable, int]
"""A shape, which cases have in common that take alike, and a size, with which grows what they take."""
_MOST_SHAPES: Final = 4
"""Beyond the most frequent ones all are taken for one shape."""
_STANDARD_ERRORS: Final = 2.0


def outline_of(case: Any) -> Outline:
    """What a case says itself (`outline`); else which of its fields say nothing, and the characters of its texts."""
    own: Outline | None = getattr(case, "outline", None)
    if own is not None:
        return own
    return tuple(getattr(case, field.name) is None for field in fields(case)), sum(map(len, _texts(case)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _texts(part))
    elif isinstance(value, tuple | list):
        yield from (text for part in value for text in _texts(part))
    elif is_dataclass(value):
        yield from (text for field in fields(value) for text in _texts(getattr(value, field.name)))


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parts of a run in order of shape and size."""

    order: tuple[int, ...]
    """Numbers of the parts."""
    shapes: tuple[int, ...]
    """Numbers of their shapes."""
    sizes: tuple[int, ...]

    @classmethod
    def from_outlines(cls, outlines: Sequence[Outline], *, seed: int) -> Sampling:
        shapes = Counter(shape for shape, _ in outlines)
        rank = {shape: place for place, (shape, _) in enumerate(shapes.most_common(_MOST_SHAPES))}
        # Parts that are alike come in any order, and not in that of the file.
        drawn = np.random.default_rng(seed).permutation(len(outlines)).tolist()
        known = sorted(
            (rank.get(outlines[part][0], _MOST_SHAPES), max(outlines[part][1], 1), place, part)
            for place, part in enumerate(drawn)
        )
        shape_numbers, sizes, _, parts = zip(*known, strict=True)
        return cls(parts, shape_numbers, sizes)

    def places(self, seed: int) -> Iterator[int]:
        """Places in the order, each once: first the middle and the ends of each shape, then evenly spread ones."""
        n, drawn = len(self.order), set[int]()
        start = float(np.random.default_rng(seed).random())
        ends = [(first, last) for first, last in map(self._ends, dict.fromkeys(self.shapes))]
        chosen = (
            *((first + last) // 2 for first, last in ends),
            *(last for _, last in ends),
            *(first for first, _ in ends),
        )
        spread = (int(n * ((start + _van_der_corput(number)) % 1.0)) for number in range(4 * n))
        for place in chain(chosen, spread):
            if place not in drawn:
                drawn.add(place)
                yield place

    def _ends(self, shape: int) -> tuple[int, int]:
        first = self.shapes.index(shape)
        return first, first + self.shapes.count(shape) - 1

    def weights(self, drawn: Sequence[int]) -> FloatArray:
        """The weight of each of these ascending places in the total; between two sampled parts, cost per size is
        interpolated."""
        weights = np.zeros(len(drawn))
        sizes = np.asarray(self.sizes, dtype=np.float64)
        for shape in dict.fromkeys(self.shapes):
            own = [number for number, place in enumerate(drawn) if self.shapes[place] == shape]
            own = own or list(range(len(drawn)))
            places = np.asarray([drawn[number] for number in own])
            first, last = self._ends(shape)
            all_places = np.arange(first, last + 1)
            for number in own:
                share = np.interp(all_places, places, (places == drawn[number]).astype(np.float64))
                weights[number] += float((share * sizes[first : last + 1]).sum()) / sizes[drawn[number]]
        return weights

    def relative_error(self, drawn: Sequence[int], values: Sequence[float]) -> float | None:
        """How far the 95 % interval of the predicted total goes to each side, as a share of it, by the differences of
        neighbours (Wolter, "Introduction to Variance Estimation", 1985, Section 8.2); None where no two neighbours have
        one shape."""
        n, n_taken = len(self.order), len(drawn)
        a_unit = [value / self.sizes[place] for place, value in zip(drawn, values, strict=True)]
        steps = [
            (after - before) ** 2 / (2.0 * max(after * before, math.ulp(0.0)))
            for number, (before, after) in enumerate(pairwise(a_unit))
            if self.shapes[drawn[number]] == self.shapes[drawn[number + 1]] and before > 0 and after > 0
        ]
        if not steps:
            return None
        return _STANDARD_ERRORS * math.sqrt(sum(steps) / len(steps) / n_taken * (1.0 - n_taken / n))


def _van_der_corput(number: int) -> float:
    """The binary digits of a number behind the point, the last one first."""
    value, share = 0.0, 0.5
    while number:
        value += share * (number & 1)
        number, share = number >> 1, share / 2.0
    return value
