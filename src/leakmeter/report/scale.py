"""One scale for every picture: nats to a place on the axis, to one of 21 colours, to words and digits.

The scale is absolute, so the same colour means the same number of nats in every case, page and terminal. It is
log(1 + nats / KNEE), cut off at TOP. A linear scale would be empty: influences run from 0.01 to 100 nats and the
strongest piece would be the only one seen. A plain logarithm would spend half its colours on numbers nobody acts
upon. With a knee at a quarter of a nat, which can move a posterior from even odds by 6 points at most, half of the axis
is reached at 5 nats (99.3 %), and reports say little beyond 100 nats. Bin 0 is kept for measurements at or
below their baseline (the placebo where there is one, the noise floor elsewhere): they are not findings and get no
colour at all. Colours begin there: they are of the nats above the baseline, so that long documents, which all move a
response, can be told apart. Bars are of all nats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

KNEE_NATS = 0.25
TOP_NATS = 100.0
BINS = 20
TICKS_NATS = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
NOT_MEASURED = "–"
STEPS_NATS = (-1.0, 0.1, 1.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""With signs, of which reports say what they mean."""
_NEXT: Final = 1.0 - 1e-9
"""A sum of floats may be above the decimal number that is meant by less than this."""
_SUPERSCRIPT: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# Steps of OKLCH, which the tests compute.
_ON_LIGHT: Final = (
    "fef5df f9eacc f5e0ba f1d5a8 eecb96 eabf85 e7b474 e3a964 df9d55 db9246 "
    "d68739 d07c2d ca7121 c36618 bb5c10 b3520a aa4805 a23e02 993400 912a00"
)
_ON_DARK: Final = (
    "37261d 412c21 4b3325 553a28 60412c 6a482f 754f33 805736 8b5f39 96673b "
    "a16f3e ab7741 b68043 c18846 cc9148 d79b4a e2a44c ecad4e f7b750 ffc152"
)


def position(nats: float) -> float:
    """Place of `nats` on the axis, 0 to 1."""
    if math.isnan(nats) or nats <= 0:
        return 0.0
    if nats >= TOP_NATS:
        return 1.0
    return math.log1p(nats / KNEE_NATS) / math.log1p(TOP_NATS / KNEE_NATS)


def heat(nats: float, floor_nats: float) -> int:
    """Colour of `nats` by how far it rises above its baseline, 1 to BINS; 0 when it does not."""
    above = nats - max(floor_nats, 0.0)
    if math.isnan(above) or above <= 0:
        return 0
    return min(BINS, 1 + int(position(above) * BINS))


def percent_of_axis(nats: float) -> int:
    """Place of `nats` on the axis in whole percent, 0 to 100; anything above zero shows as at least 1."""
    return max(1, round(100 * position(nats))) if nats > 0 else 0


def nats_text(nats: float | None) -> str:
    """`nats` for a sentence, three significant digits: 41.3, 3.07, 0.52, 0.012, 2.1e-5."""
    return _digits(nats, (0, 1, 2), 0.001)


def at_most_text(nats: float | None) -> str:
    """`nats_text` of an upper bound, rounded up: what is promised is never more than what is said."""
    return _digits(nats, (0, 1, 2), 0.001, up=True)


def interval_text(interval: tuple[float, float] | None) -> str:
    """' [5.2, 9.9]', or nothing."""
    return "" if interval is None else f" [{', '.join(map(nats_text, interval))}]"


def nats_in(nats: float | None, interval: tuple[float, float] | None) -> str:
    """'7.1 [5.2, 9.9]': `nats_text` and its interval, where it has one."""
    return f"{nats_text(nats)}{interval_text(interval)}"


def nats_cell(nats: float | None) -> str:
    """`nats` for a column: two decimals wherever they say something, so that points align."""
    return _digits(nats, (2, 2, 2), 0.0095)


def signed_cell(nats: float | None) -> str:
    """`nats` for a column, its sign always written; plus: the piece made the response likelier."""
    cell = nats_cell(nats)
    return f"+{cell}" if nats is not None and nats > 0 else cell


def percent(posterior: float | None, *, up: bool = False) -> str:
    """A posterior in percent, with more digits the nearer it is to 0 or 1, never rounded to either; `up` of an upper
    bound, which is rounded up; None: not shown."""
    if posterior is None:
        return NOT_MEASURED
    if posterior > 0.9999:
        return ">\u00a099.99\u00a0%"
    if posterior < 0.0001:
        return "<\u00a00.01\u00a0%"
    nearest = min(posterior, 1.0 - posterior)
    decimals = 2 if nearest <= 0.001 else 1 if nearest <= 0.015 else 0
    return f"{_decimal(100 * posterior, decimals, up=up)}\u00a0%"


def times_text(nats: float) -> str:
    """How many times as likely so many nats make a response: '0.37', '20', '22,000', '10⁴³'."""
    if nats < 3:
        return f"{math.exp(nats):.2g}"
    if nats < 13:
        times = math.exp(nats)
        return f"{round(times, 2 - len(str(round(times)))) if times > 1000 else round(times):,.0f}"
    return f"10{str(round(nats / math.log(10))).translate(_SUPERSCRIPT)}"


def share_text(share: float | None, digits: int) -> str:
    """A share in percent, with so many significant digits."""
    if share is None:
        return NOT_MEASURED
    return "∞" if math.isinf(share) else f"{100 * share:.{digits}g}\u00a0%"


def share_percent(share: float, *, up: bool = False) -> str:
    """A share as `percent` writes a posterior, but that none and all are said as such."""
    return f"{100 * share:.0f}\u00a0%" if share in (0.0, 1.0) else percent(share, up=up)


def share_in(share: float, interval: tuple[float, float]) -> str:
    """'12 % [8, 17]': a share and its interval, in percent; nothing but none and all is rounded to 0 or 100."""
    low, high = map(_whole_percent, interval)
    return f"{_whole_percent(share)}\u00a0% [{low}, {high}]"


def _whole_percent(share: float) -> str:
    text = f"{100 * share:.0f}"
    is_rounded_to_an_end = text in ("0", "100") and share not in (0.0, 1.0)
    return percent(share).removesuffix("\u00a0%") if is_rounded_to_an_end else text


def _digits(nats: float | None, decimals: tuple[int, int, int], plain_from: float, *, up: bool = False) -> str:
    """`decimals` from 100, from 10 and below; three under a tenth in sentences; powers of ten under `plain_from`. `up`
    rounds what is above 0 up."""
    if nats is None or math.isnan(nats):
        return NOT_MEASURED
    size = abs(nats)
    if math.isinf(size):
        text = "∞"
    elif size == 0:
        text = "0"
    elif size < plain_from:
        mantissa, exponent = f"{size:.0e}".split("e")
        if up and float(f"{mantissa}e{exponent}") < size * _NEXT:
            mantissa, exponent = f"{float(f'{mantissa}e{exponent}') + float(f'1e{exponent}'):.0e}".split("e")
        text = f"{mantissa}e-{abs(int(exponent))}"
    elif size < 0.0995 and plain_from < 0.005:
        text = _decimal(size, 3, up=up)
    else:
        text = _decimal(size, decimals[0] if size >= 99.95 else decimals[1] if size >= 9.995 else decimals[2], up=up)
    return f"−{text}" if nats < 0 else text


def rounded_up(value: float, decimals: int) -> str:
    """An upper bound, or a p value, 0 or more: never below it."""
    text = f"{value:.{decimals}f}"
    return f"{float(text) + 10.0**-decimals:.{decimals}f}" if float(text) < value * _NEXT else text


def _decimal(value: float, decimals: int, *, up: bool) -> str:
    return rounded_up(value, decimals) if up else f"{value:.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Swatch:
    """A background and the text colour that reads best on it, both `#rrggbb`."""

    paper: str
    ink: str


@lru_cache(maxsize=2)
def ramp(*, dark: bool) -> tuple[Swatch, ...]:
    """Colours of bins 1 to BINS: one amber-to-rust ramp, evenly spaced in OKLab lightness. Lightness alone carries the
    order, so the ramp survives every kind of colour blindness and a grey printer. On light paper strong means darker;
    on dark paper it means brighter."""
    papers = [f"#{digits}" for digits in (_ON_DARK if dark else _ON_LIGHT).split()]
    inks = ("#000000" if contrast("#000000", paper) >= contrast("#ffffff", paper) else "#ffffff" for paper in papers)
    return tuple(map(Swatch, papers, inks))


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio of two `#rrggbb` colours, 1 to 21."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
