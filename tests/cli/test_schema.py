"""The schemas that are shipped are those of the results, and what commands print keeps to them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from leakmeter.cli.runs import schema_of
from leakmeter.core import registry
from leakmeter.core.record import Record

NAMES = [name for name in registry.all_printed() if issubclass(registry.printed(name)[0], Record)]


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_schema_is_that_of_the_results(name: str, cli: Callable[..., Any]) -> None:
    shipped = Path(str(resources.files(registry.printed(name)[1]))) / "schema.json"
    if "LEAKMETER_SNAPSHOTS" in os.environ:
        shipped.write_text(schema_of(name), encoding="utf-8")
    assert shipped.read_text(encoding="utf-8") == schema_of(name)
    assert cli("runs", "schema", name).out == schema_of(name)
    Draft202012Validator.check_schema(json.loads(schema_of(name)))
