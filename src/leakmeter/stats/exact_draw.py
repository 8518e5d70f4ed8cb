"""Draw tokens with exactly the certified probabilities.

A float64 number is a whole number times a power of two. So float weights are whole weights W(v) in units of 2^-1126,
and the probability of a token is W(v) / Σ W, a fraction without rounding. A whole number that is uniform below Σ W, by
rejection, stands for a token with that very probability: every token with a weight can be drawn, and no other.

Inverting a cumulative sum in float64 does neither. Next to a sum near 1 it rounds weights below 1e-16 away or up, and a
uniform number of 53 bits reaches only some of what is left.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol

import numpy as np
from array_api_compat import array_namespace, device, to_device

from leakmeter.stats.arrays import FloatArray, IntArray

LOG_LEAST: Final = -708.0
"""About the logarithm of the least weight that is given to what is possible: float64 has all its digits from here."""
N_BITS: Final = 1127
"""Random bits of an attempt. Weights that add up to 1 or so are 2^1126 units, so that about every second attempt
serves, whatever the weights."""

_UNIT_EXPONENT: Final = 1126  # the least float64 is 2^-1074, of 53 binary digits as any other
_DIGITS: Final = 53
_BAND: Final = 4  # exponents of 16 values in a row are added up together
_HALF: Final = 27  # binary digits of the lower half of a weight: 27 + 15 of 2^20 tokens add up within 63
_MOST_TOKENS: Final = 2**20


class Bits(Protocol):
    """Where random bits come from."""

    def take(self, n: int, row: int, attempt: int) -> int:
        """A whole number below 2^n, uniform, and independent of those for another row or attempt."""


@dataclass(frozen=True, slots=True)
class SystemBits:
    """The operating system's source, which nobody can repeat."""

    def take(self, n: int, row: int, attempt: int) -> int:
        return secrets.randbits(n)


@dataclass(frozen=True, slots=True)
class StreamBits:
    """SHAKE-256 of a key and a place: as good as random without the key."""

    key: bytes
    """32 bytes."""
    place: tuple[int, ...] = ()
    """Such as response and step."""

    def take(self, n: int, row: int, attempt: int) -> int:
        place = b"".join(number.to_bytes(8, "big") for number in (len(self.place), *self.place, row, attempt))
        n_bytes = -(-n // 8)
        return int.from_bytes(hashlib.shake_256(self.key + place).digest(n_bytes), "big") >> (8 * n_bytes - n)


def weights_of(log_probs: Any) -> Any:
    """Weights that tokens are drawn by: e^(log p), (..., vocab), float64; 0 for −inf, and for nothing else.

    Below −708 nats they count as that, so that what is possible stays so.
    """
    xp = array_namespace(log_probs)
    weights = xp.exp(xp.clip(log_probs, min=LOG_LEAST))
    return xp.where(log_probs == -xp.inf, xp.zeros_like(weights), weights)


def draw(weights: Any, bits: Bits) -> Any:
    """A token for each row, (row, 1), int64, with exactly the probability W(v) / Σ W.

    Weights are (row, vocab), float64, finite, 0 or more, in each row not all 0, of at most 2^20 tokens. A row with NaN
    gives the first token that has it.
    """
    xp = array_namespace(weights)
    rows = np.asarray(to_device(weights, "cpu"))
    drawn = [[_drawn(row, bits, number)] for number, row in enumerate(rows)]
    return xp.asarray(drawn, dtype=xp.int64, device=device(weights))


def _drawn(weights: FloatArray, bits: Bits, row: int) -> int:
    unusable = ~np.isfinite(weights)
    if unusable.any():
        return int(unusable.argmax())
    bands = _banded(weights)
    totals = [(int(low.sum()) + (int(high.sum()) << _HALF)) << (number << _BAND) for number, _, low, high in bands]
    total = sum(totals)
    if not total:
        raise ValueError("nothing can be drawn: all weights are 0")
    n_bits = max(N_BITS, total.bit_length())
    at = next(at for attempt in count() if (at := bits.take(n_bits, row, attempt)) < total)
    for (number, tokens, low, high), total_of_band in zip(bands, totals, strict=True):
        if at < total_of_band:
            return int(tokens[_n_before(at >> (number << _BAND), low, high)])
        at -= total_of_band
    raise AssertionError("a number below the total lies in some band")


def _banded(weights: FloatArray) -> list[tuple[int, IntArray, IntArray, IntArray]]:
    """Bands of exponents that have tokens, rising: number, tokens, and both halves of their weights in its units."""
    if len(weights) > _MOST_TOKENS:
        raise ValueError(f"{len(weights):,} tokens are more than the sums have room for, {_MOST_TOKENS:,}")
    fraction, exponent = np.frexp(weights)
    whole = np.ldexp(fraction, _DIGITS).astype(np.int64)
    # W = whole · 2^shift, in units.
    shift = np.where(whole > 0, exponent + (_UNIT_EXPONENT - _DIGITS), 0)
    band = (shift >> _BAND).astype(np.uint8)
    order = np.argsort(band, kind="stable")
    whole, rest, in_order = whole[order], (shift & ((1 << _BAND) - 1))[order], band[order]
    halves = (whole & ((1 << _HALF) - 1)) << rest, (whole >> _HALF) << rest
    starts = np.flatnonzero(np.diff(in_order)) + 1
    tokens, low, high = (np.split(array, starts) for array in (order, *halves))
    return list(zip(in_order[[0, *starts]].tolist(), tokens, low, high, strict=True))


def _n_before(at: int, low: IntArray, high: IntArray) -> int:
    """Tokens of a band whose weights do not add up to more than `at`, in the band's units."""
    low, high = np.cumsum(low), np.cumsum(high)
    # Both halves as the digits of one number.
    high, low = high + (low >> _HALF), low & ((1 << _HALF) - 1)
    at_high, at_low = at >> _HALF, at & ((1 << _HALF) - 1)
    return int(((high < at_high) | ((high == at_high) & (low <= at_low))).sum())
