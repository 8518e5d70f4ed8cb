from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leakmeter.cli import models as command
from leakmeter.errors import ModelError
from leakmeter.models import KNOWN_MODELS, KnownModel


def test_listing_loads_no_heavy_library(cache: Path, run_python: Callable[[str], tuple[int, str, str]]) -> None:
    status, out, err = run_python(
        "import sys; from leakmeter.cli.models import app; app([], result_action='return_value')\n"
        "heavy = {'torch', 'transformers', 'pandas', 'huggingface_hub', 'gguf', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert (status, err) == (0, "")
    assert "smollm2-135m" in out


def call(*arguments: str) -> None:
    command.app(arguments, result_action="return_value")


@pytest.mark.usefixtures("stub_converter")
def test_listing_for_machines(
    tiny_model: KnownModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(KNOWN_MODELS, "tiny", tiny_model)
    call("pull", "tiny")
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split()[0] for line in said.err.splitlines()] == ["fetching", "converting", "tiny:"]
    call("--json")
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    assert {name for name, row in rows.items() if row["cached"]} == {"tiny"}
    assert rows["tiny"]["download_bytes"] == tiny_model.download_bytes
    call("pull", "tiny")
    assert "already" in capsys.readouterr().err


def test_pull_shows_the_terms(cache: Path) -> None:
    with pytest.raises(ModelError, match="--accept-licence"):
        call("pull", "gemma3-270m")
