"""The scale of nats: colours, digits, posteriors and times in words."""

from __future__ import annotations

import math

import pytest

from leakmeter.report import scale, words
from leakmeter.stats.stats import posterior_from_even_odds


def test_colours_start_above_the_noise_floor_and_never_fall() -> None:
    assert scale.heat(0.004, 0.004) == 0
    assert scale.heat(0.0041, 0.004) == 1
    assert scale.heat(math.nan, 0.0) == 0
    heats = [scale.heat(x / 10, 0.0) for x in range(1, 1000)]
    heats.insert(0, scale.heat(0.01, 0.0))
    assert heats == sorted(heats)
    assert set(heats) == set(range(1, scale.BINS + 1))
    assert scale.heat(math.inf, 0.0) == scale.BINS


def test_the_scale_tells_apart_all_that_reports_say() -> None:
    assert scale.TICKS_NATS[-1] == scale.STEPS_NATS[-1] == scale.TOP_NATS == 100
    assert scale.heat(50, 0.0) < scale.heat(99, 0.0) == scale.BINS
    # What made a response less likely is no weaker kind of what made it likelier.
    assert [scale.heat(nats, 0.0) for nats in scale.STEPS_NATS if nats < 0] == [0]


@pytest.mark.parametrize(
    ("nats", "said"),
    [(-1, "0.37"), (0.1, "1.1"), (1, "2.7"), (3, "20"), (5, "148"), (10, "22,000"), (30, "10¹³"), (100, "10⁴³")],
)
def test_how_many_times_as_likely(nats: float, said: str) -> None:
    assert scale.times_text(nats) == said


@pytest.mark.parametrize("dark", [False, True])
def test_every_colour_carries_readable_text_and_the_order_is_in_the_lightness(dark: bool) -> None:
    ramp = scale.ramp(dark=dark)
    assert len(ramp) == scale.BINS
    assert all(scale.contrast(s.paper, s.ink) >= 4.5 for s in ramp)
    from_black = [scale.contrast(s.paper, "#000000") for s in ramp]
    assert from_black == sorted(from_black, reverse=not dark)


@pytest.mark.parametrize("dark", [False, True])
def test_colours_are_evenly_spaced_in_oklab(dark: bool) -> None:
    for step, swatch in enumerate(scale.ramp(dark=dark)):
        f = step / (scale.BINS - 1)
        if dark:
            rgb = oklch(0.285 + 0.565 * f, 0.030 + 0.115 * f, 48 + 30 * f)
        else:
            rgb = oklch(0.970 - 0.530 * f, 0.030 + 0.115 * math.sin(math.pi * min(f, 0.75) / 1.5), 88 - 50 * f)
        assert swatch.paper == "#" + "".join(f"{round(255 * channel):02x}" for channel in rgb)


def oklch(lightness: float, chroma: float, hue_degrees: float) -> tuple[float, float, float]:
    """sRGB in 0..1 of an OKLCH colour (Ottosson 2020), clipped to the gamut."""
    a, b = (chroma * of(math.radians(hue_degrees)) for of in (math.cos, math.sin))
    l3 = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m3 = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s3 = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        gamma(+4.0767416621 * l3 - 3.3077115913 * m3 + 0.2309699292 * s3),
        gamma(-1.2684380046 * l3 + 2.6097574011 * m3 - 0.3413193965 * s3),
        gamma(-0.0041960863 * l3 - 0.7034186147 * m3 + 1.7076147010 * s3),
    )


def gamma(linear: float) -> float:
    value = min(1.0, max(0.0, linear))
    return 12.92 * value if value <= 0.0031308 else 1.055 * math.pow(value, 1 / 2.4) - 0.055


@pytest.mark.parametrize(
    ("nats", "text", "cell"),
    [
        (0.0, "0", "0"), (41.26, "41.3", "41.26"), (3.071, "3.07", "3.07"), (0.0123, "0.012", "0.01"),
        (0.000213, "2e-4", "2e-4"), (-1.5, "−1.50", "−1.50"), (123.4, "123", "123.40"), (None, "–", "–"),
        (math.nan, "–", "–"), (math.inf, "∞", "∞"),
    ],
)  # fmt: skip
def test_digits(nats: float | None, text: str, cell: str) -> None:
    assert (scale.nats_text(nats), scale.nats_cell(nats)) == (text, cell)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "under 1 s"), (1.2, "about 1 s"), (11.7, "about 12 s"), (99.4, "about 99 s"), (150, "about 2.5 min"),
        (1500, "about 25 min"), (9000, "about 2.5 h"), (90_000, "about 25 h"),
    ],
)  # fmt: skip
def test_a_predicted_time_has_two_digits_at_most(seconds: float, said: str) -> None:
    assert words.about_seconds(seconds) == said


@pytest.mark.parametrize(
    ("nats", "said"),
    [
        (0, "50"), (0.1, "52"), (1, "73"), (3, "95"), (5, "99.3"), (41, "> 99.99"),
        (-0.1, "48"), (-3, "5"), (-5, "0.7"), (-8, "0.03"), (-41, "< 0.01"),
    ],
)  # fmt: skip
def test_a_posterior_is_never_rounded_to_certainty_or_impossibility(nats: float, said: str) -> None:
    assert scale.percent(posterior_from_even_odds(nats)).replace("\u00a0", " ") == f"{said} %"
    assert scale.percent(None) == "–"


@pytest.mark.parametrize(
    ("nats", "said"),
    [
        (10.01, "10.1"),
        (3.012, "3.02"),
        (30 * 0.1, "3.00"),
        (1.002, "1.01"),
        (0.0501, "0.051"),
        (2.1e-5, "3e-5"),
        (0.0, "0"),
    ],
)
def test_an_upper_bound_is_rounded_up(nats: float, said: str) -> None:
    assert scale.at_most_text(nats) == said


@pytest.mark.parametrize(
    ("hits", "n", "said"),
    [(1, 1000, "0.10 %"), (999, 1000, "99.9 %"), (0, 1000, "0 %"), (1000, 1000, "100 %"), (1, 3, "33 %")],
)
def test_a_share_is_none_or_all_only_where_it_is(hits: int, n: int, said: str) -> None:
    share = scale.share_in(hits / n, (0.0, 1.0)).replace("\u00a0", " ")
    assert share == f"{said} [0, 100]"
    assert scale.share_percent(0.00299, up=True) == "0.3\u00a0%"
