"""What commands over all instruments say with the toy model is what they said when it was recorded.

Numbers agree within `helpers.closeness`: matrix products of other processors differ in their last digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from helpers import golden_commands as commands
from helpers.closeness import differences
from helpers.places import TESTS
from leakmeter.core import registry
from leakmeter.core.record import Record
from leakmeter.core.record import schema as schema_of

HERE = TESTS / "golden"
LONG = ("pii", "pii-sample", "pii-twin-beams", "redact-word")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    commands.write_data(folder)
    return folder


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in commands.TOY]
)
def test_a_command_says_what_it_said(
    name: str, data: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    ended = cli(*commands.words_of(name, "toy", tmp_path / "runs"))
    assert ended.code == 0, ended.err
    printed = [json.loads(line) for line in ended.out.splitlines()]
    before = json.loads((HERE / "toy" / f"{name}.json").read_text(encoding="utf-8"))
    assert not differences([commands.without_volatile(one) for one in printed], before)
    for one in printed:
        check_schema(one)


@cache
def strict_validator(kind: type[Record]) -> Draft202012Validator:
    """A validator of the schema of a kind of result, which allows nothing that the schema does not name."""
    told = json.dumps(schema_of(kind, kind.schema))
    return Draft202012Validator(
        json.loads(told.replace('"type": "object"', '"type": "object", "unevaluatedProperties": false'))
    )


def check_schema(value: dict[str, Any]) -> None:
    """A result keeps to the schema that it names, says nothing beside it, and is read again."""
    kinds = {registry.instrument(known).result for known in registry.instruments()}
    for kind in kinds:
        if issubclass(kind, Record) and value.get("schema") == kind.schema:
            strict_validator(kind).validate({name: one for name, one in value.items() if name != "schema"})
            assert kind.from_dict(value).to_dict() == value
