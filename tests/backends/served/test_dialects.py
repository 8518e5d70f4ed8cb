"""What holds for the module of every dialect."""

from __future__ import annotations

from importlib import import_module

import pytest

from helpers.places import ROOT
from leakmeter.backends.served import DIALECTS
from leakmeter.backends.served.dialect import Dialect

MOST_LINES = 150


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_is_short_and_has_what_the_protocol_lists(name: str) -> None:
    kind = import_module(f"leakmeter.backends.served.{name}").DIALECT
    assert kind.name == name
    wanted = {word for word in (*vars(Dialect), *Dialect.__annotations__) if not word.startswith("_")}
    assert wanted <= set(dir(kind)), wanted - set(dir(kind))
    lines = (ROOT / "src/leakmeter/backends/served" / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) < MOST_LINES
