"""A meter: a model that is loaded once, with the functions of the instruments."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest

import leakmeter
from leakmeter import meter as module
from leakmeter.backends.toy import Toy
from leakmeter.engine import loading


def test_its_methods_are_the_functions_of_the_instruments(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    real = loading.load_backend
    monkeypatch.setattr(loading, "load_backend", lambda model, **more: loaded.append(model) or real(model, **more))
    leakmeter.forget()
    meter = leakmeter.Meter("toy")
    assert repr(meter) == "<Meter of 'toy'>"
    assert loaded == []
    asked = {"context": "Ana is 41. She sings.", "query": "How old is Ana?", "response": "41"}
    one, other = meter.influence(**asked), leakmeter.influence("toy", **asked)
    assert one == replace(other, cost=replace(other.cost, seconds=one.cost.seconds))
    assert meter.decode(context="Ana is 41.", query="Who?", max_new_tokens=2).to_dict() is not None
    assert loaded.count("toy") == 2  # once for the meter, and once for the function alone
    assert isinstance(meter.backend, Toy)
    assert {"influence", "decode", "frontier", "icl", "generate", "pii", "redact", "susceptibility"} <= set(dir(meter))


def test_what_no_instrument_has_is_named() -> None:
    with pytest.raises(AttributeError, match="no instrument has a function 'taste'; there are decode, fisher"):
        leakmeter.Meter("toy").taste()


def test_its_example_runs() -> None:
    assert doctest.testmod(module).failed == 0
