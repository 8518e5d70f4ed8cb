"""What commands over all instruments say with the toy model is what they said, to the last digit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import golden_commands as commands
from helpers.places import TESTS

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
    said = [commands.without_volatile(json.loads(line)) for line in ended.out.splitlines()]
    assert said == json.loads((HERE / "toy" / f"{name}.json").read_text(encoding="utf-8"))
