"""Predictions of a model in memory."""

from __future__ import annotations

import pytest

from helpers.tiny_models import backend_of, fresh_model
from leakmeter.core.cost import Speed
from leakmeter.engine.prediction import predictor_of


def test_the_speed_of_a_models_device_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def speed_of(*_: object, seconds: float, **__: object) -> Speed:
        asked.append(seconds)
        return Speed(1e9, 1e9, 1e-3)

    monkeypatch.setattr("leakmeter.backends.hf.speed.speed_of", speed_of)
    backend = backend_of(fresh_model("llama"))
    for seconds, looks in ((0.0, [0.0]), (0.2, [0.0, 0.2]), (0.1, [0.0, 0.2]), (0.2, [0.0, 0.2])):
        measure = predictor_of(backend).measure_speed
        assert measure is not None
        assert measure(seconds) == Speed(1e9, 1e9, 1e-3)
        assert asked == looks
    other = predictor_of(backend_of(fresh_model("llama"))).measure_speed
    assert other is not None
    other(0.0)
    assert asked == [0.0, 0.2, 0.0]
