"""Which cases of a run measure how far other neighbours in the computation move a number; the others have their noise.

Where rounding is that of float32 on a CPU, a sample stands for all: the first three cases, without which the next ones
would have no noise of a case before them; seven others that the seed draws, one from each seventh of them by length,
since noise grows with the length of a prompt; and one of each further thousand. In other number types, and on
accelerators, noise is near what is looked for, and each case measures it. Accelerators may multiply float32 with fewer
digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from leakmeter.core.self_check import is_half

FIRST: Final = 3
"""Cases at the beginning of a run that measure noise."""
MEASURING_NOISE: Final = 10
"""Cases that do at least: measuring it takes more than all else of a clean answer."""
EACH: Final = 1000
"""Cases behind the first so many, of which one does."""


@dataclass(frozen=True, slots=True)
class NoiseSample:
    """The cases of a run that measure noise, by their numbers."""

    numbers: frozenset[int] = frozenset()
    has_all: bool = False

    def __contains__(self, number: object) -> bool:
        return self.has_all or number in self.numbers

    @classmethod
    def of(cls, lengths: Sequence[int], *, seed: int, dtype: str, device: str) -> NoiseSample:
        """The sample of a run.

        Args:
            lengths: characters of each case's prompt, in the order of the cases.
            seed: of the draw.
            dtype: number type of the model.
            device: that the model is on.
        """
        n = len(lengths)
        if is_half(dtype) or device != "cpu" or n <= MEASURING_NOISE:
            return cls(has_all=True)
        entropy = int.from_bytes(hashlib.sha256(b"noise").digest()[:8])
        rng = np.random.default_rng([seed, entropy])
        by_length = FIRST + np.argsort(np.asarray(lengths[FIRST:]), kind="stable")
        strata = np.array_split(by_length, MEASURING_NOISE - FIRST)
        drawn = [int(rng.choice(stratum)) for stratum in strata]
        drawn += [start + int(rng.integers(min(EACH, n - start))) for start in range(EACH, n, EACH)]
        return cls(frozenset((*range(FIRST), *drawn)))
