"""`leakmeter demo`: the whole way with the real model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakmeter.engine.loading import load_run
from leakmeter.errors import ModelError
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.models import resolve


@pytest.mark.long
def test_the_demo_finds_the_phone_number(command: Callable[..., Any], tmp_path: Path) -> None:
    try:
        resolve("smollm2-135m", notify=str, download=False)
    except ModelError as error:
        pytest.skip(f"the default model is not cached: {error}")
    # One thread: two processes with two threads each wait for one another more than they work.
    ended = command("demo", environment={"OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    (run,) = (tmp_path / "runs").iterdir()
    (result,) = load_run(run)
    assert isinstance(result, InfluenceResult)
    values = [piece for piece in result.pieces if piece.kind == "value"]
    units = [piece for piece in result.pieces if piece.kind == "unit"]
    phone = max(values, key=lambda piece: piece.nats)
    assert phone.text == "555-010-7788 … 555-010-7788"
    sayers = [piece for piece in units if "555-010-7788" in piece.text]
    assert len(sayers) == 2
    assert all(phone.nats > 2 * piece.nats for piece in sayers)
    assert result.template == "chat"
    for piece in units:
        assert json.dumps(piece.text, ensure_ascii=False)[1:-1] in page or piece.text in page
    assert "555-010-7788" in ended.stdout
