"""The README's picture is small, and its script goes the whole way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from helpers.places import DOCS
from helpers.report_browser import CHROMIUM
from report import picture

SHOWN = DOCS / "images" / "report.png"


def test_the_picture_is_small() -> None:
    assert SHOWN.stat().st_size < picture.MOST_BYTES
    with Image.open(SHOWN) as shown:
        assert shown.size == picture.SIZE


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_its_script_takes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    case = {"query": "Who called?", "source_documents": [{"page_content": "Anna Ek called."}], "result": "Anna Ek."}
    (tmp_path / "log.jsonl").write_text(json.dumps(case), encoding="utf-8")
    picture.shoot(tmp_path / "report.png", "toy", data=str(tmp_path / "log.jsonl"))
    with Image.open(tmp_path / "report.png") as shown:
        assert shown.size == picture.SIZE
