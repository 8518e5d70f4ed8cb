"""Each statistic is declared once, and nothing else names it by a text."""

from __future__ import annotations

import ast

import pytest
from tools.count_statistics import declared, places, texts_in

from leakmeter.core import registry
from leakmeter.core.measure import Statistic

measures = pytest.mark.parametrize("name", registry.instruments())


def test_each_is_named_at_one_place() -> None:
    found = places(sorted(declared()))
    assert {name: lines for name, lines in found.items() if len(lines) != 1} == {}


@measures
def test_a_measure_says_what_its_numbers_mean(name: str) -> None:
    statistics = registry.instrument(name).measure.statistics
    every = list(statistics.all())
    assert len({*every}) == len(every)
    for statistic in every:
        assert statistic.unit
        assert statistic.about
        assert len(statistic.about) < 120
        # An attribute is called what runs call it.
        assert getattr(statistics, statistic.rstrip("_")) is statistic


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('X = Statistic("whole", NATS, "of all")', {"whole"}),
        ('X = OTHER.named("noise", "of all")', {"noise"}),
        ('series[0, "whole", ""]', {"whole", ""}),
        ('{(0, "whole", name): 1, "noise": 2}', {"whole"}),
        ('[m for m in ms if m.statistic == "token"]', {"token"}),
        ('for statistic in ("whole", "noise"): pass', {"whole", "noise"}),
        ('from a import Measurement\nCONTROL: Final = "control"', {"control"}),
        ('CONTROL: Final = "control"\nf("whole", unit="noise")', set()),
        ('"""Of `whole`."""\nseries[0, S.whole, ""]', {""}),
    ],
)
def test_a_text_that_names_one_is_seen(source: str, texts: set[str]) -> None:
    assert {text.value for text in texts_in(ast.parse(source))} == texts


def test_a_statistic_is_its_name_and_makes_measurements() -> None:
    loss = Statistic("loss", "nats", "of a label", per="piece", over="label")
    assert {loss: 1}["loss"] == 1
    made = loss.of("case", 0.5, "e1", 2)
    assert (made.item, made.sample, made.piece, made.statistic, made.unit) == ("case", 2, "e1", "loss", "nats")
    assert type(made.statistic) is str
    assert made.values.tolist() == [0.5]
    gain = loss.named("gain", "its opposite").but(optional=True)
    assert (gain, gain.about, gain.per, gain.optional, loss.optional) == ("gain", "its opposite", "piece", True, False)
    family = Statistic("renyi_", "nats", "of an order", family=True)
    assert (family.member("2"), family.member("2").family) == ("renyi_2", False)
