"""For pytest, which loads it where leakmeter is installed: a fixture with a model that a whole session shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leakmeter.meter import Meter


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting `leakmeter_model`, the model of the fixture."""
    parser.addini("leakmeter_model", "model of the fixture leakmeter_meter; smollm2-135m by default")


@pytest.fixture(scope="session")
def leakmeter_meter(pytestconfig: pytest.Config) -> Meter:
    """Give a `leakmeter.Meter` that all tests of a session share."""
    from leakmeter.meter import Meter
    from leakmeter.models import DEFAULT_MODEL

    return Meter(pytestconfig.getini("leakmeter_model") or DEFAULT_MODEL)
