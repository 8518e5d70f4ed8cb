"""What commands over all instruments say with the toy model is what they said, to the last digit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from helpers import golden_commands as commands
from helpers.places import TESTS
from leakmeter.core import registry
from leakmeter.core.record import Record
from leakmeter.core.record import schema as schema_of

HERE = TESTS / "golden"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    commands.write_data(folder)
    return folder


@pytest.mark.parametrize("name", commands.TOY)
def test_a_command_says_what_it_said(
    name: str, data: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    ended = cli(*commands.words_of(name, "toy", tmp_path / "runs"))
    assert ended.code == 0, ended.err
    printed = [json.loads(line) for line in ended.out.splitlines()]
    before = json.loads((HERE / "toy" / f"{name}.json").read_text(encoding="utf-8"))
    agree([commands.without_volatile(one) for one in printed], before, Renamed.of(name))
    for one in printed:
        check_schema(one)


def check_schema(value: dict[str, Any]) -> None:
    """A result keeps to the schema that it names, says nothing beside it, and is read again."""
    kinds = {registry.instrument(known).result for known in registry.instruments()}
    for kind in kinds:
        if issubclass(kind, Record) and value.get("schema") == kind.schema:
            told = schema_of(kind, kind.schema)
            strict = json.loads(
                json.dumps(told).replace('"type": "object"', '"type": "object", "unevaluatedProperties": false')
            )
            Draft202012Validator(strict).validate({name: one for name, one in value.items() if name != "schema"})
            assert kind.from_dict(value).to_dict() == value


@dataclass
class Renamed:
    """How what a command says differs from what it said in version 0.1, by names of keys."""

    keys: dict[str, str] = field(default_factory=dict)
    """Old name to new; 'samples.nats' is the name within `samples` alone, and a new name that ends with * is said of an
    object whose entries have become entries of the one that it was in, with that in front of their names."""
    null_is_infinity: list[str] = field(default_factory=list)
    """New names of numbers whose null has become "Infinity"."""
    values: dict[str, str] = field(default_factory=dict)
    """Old text to new, of names that a result gives."""
    gone: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, command: str) -> Renamed:
        found = cls()
        for path in (HERE / "renamed").glob("*.json"):
            if path.stem == "all" or command == path.stem or command.startswith(f"{path.stem}-"):
                told = json.loads(path.read_text(encoding="utf-8"))
                found.keys |= told.get("keys", {})
                found.values |= told.get("values", {})
                for name in ("null_is_infinity", "gone", "new"):
                    getattr(found, name).extend(told.get(name, []))
        return found

    def entries(self, before: dict[str, Any], where: str) -> dict[str, Any]:
        """What an object had, by its new names."""
        of = where.rpartition(".")[2].partition("[")[0]
        found: dict[str, Any] = {}
        for name, value in before.items():
            now = self.keys.get(f"{of}.{name}", self.keys.get(name, name))
            if now.endswith("*"):
                found |= {f"{now[:-1]}{inner}": one for inner, one in value.items()}
            elif name not in self.gone:
                found[now] = value
        return found


def agree(said: Any, before: Any, renamed: Renamed, where: str = "") -> None:
    """The same values under the new names."""
    if isinstance(before, dict) and isinstance(said, dict):
        old = renamed.entries(before, where)
        assert {name for name in said if name not in renamed.new} == set(old) - set(renamed.new), where
        for name in old.keys() & said.keys():
            was_infinite = old[name] is None and name in renamed.null_is_infinity and said[name] == "Infinity"
            if not was_infinite:
                agree(said[name], old[name], renamed, f"{where}.{name}")
    elif isinstance(before, list) and isinstance(said, list):
        assert len(said) == len(before), where
        for number, pair in enumerate(zip(said, before, strict=True)):
            agree(*pair, renamed, f"{where}[{number}]")
    else:
        infinite = (
            before is None
            and said == "Infinity"
            and where.rpartition(".")[2].partition("[")[0] in renamed.null_is_infinity
        )
        assert infinite or said == (renamed.values.get(before, before) if isinstance(before, str) else before), where
