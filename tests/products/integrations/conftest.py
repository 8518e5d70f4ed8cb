"""What tests of logging share."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakmeter.products.integrations import AnswerLog


@pytest.fixture
def log(tmp_path: Path) -> AnswerLog:
    """Without a line yet."""
    return AnswerLog(tmp_path / "answers.jsonl")
