"""People do their jobs from the files that they have, end to end: as they would type it, and in Python.

Logs of retrieval systems are in `tests/commands`, gates in `test_gate.py`, bounds in `tests/test_testing.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import role_files
from helpers.command_line import Ended

Cli = Callable[..., Ended]


# ---- a builder of a system that retrieves, with its logs ------------------------------------------------------------


@pytest.mark.long
def test_a_logged_chat(cli: Cli, tmp_path: Path, real_backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.engine.loading.load_backend", lambda *_, **__: real_backend)
    for make, name in ((role_files.chat_log, "log.jsonl"), (role_files.completions_log, "log.jsonl.gz")):
        path = make(tmp_path / name)
        assert cli("influence", "--data", path, "--unit", "entity", "--json").code == 2
        ended = cli("influence", "--data", path, "--context-from", "system", "--unit", "entity", "--json")
        assert ended.code == 0, ended.err
        first = json.loads(ended.out.splitlines()[0])
        assert first["response"]["text"] == role_files.ANSWER
        assert first["query"] == role_files.QUESTION
        by_type = {piece["entity_type"]: piece for piece in first["pieces"]}
        assert by_type["phone"]["signed_nats"] > first["placebo_signed_nats"] > 0
        assert by_type["phone"]["posterior"] > 0.99


# ---- a prompt engineer, with few-shot examples in a table ------------------------------------------------------------
def test_few_shot_examples_from_a_table(cli: Cli, tmp_path: Path) -> None:
    shots, queries = role_files.few_shots(tmp_path / "shots.csv"), role_files.queries(tmp_path / "reviews.csv")
    ended = cli(
        *("icl", "--exemplars", shots, "--text-column", "review", "--label-column", "sentiment"),
        *("--instruction", "Classify the sentiment.", "--data", queries, "--html", "icl.html"),
        *("--model", "toy", "--label-scoring", "whole-sequence"),
    )
    assert ended.code == 0, ended.err
    assert "reveal" in ended.out.split("worst case")[0], "what the answers reveal comes before the worst case"
    page = Path("icl.html").read_text("utf-8")
    assert "The kettle leaked on the first day." in page


# ---- a model provider, with an export of customers -------------------------------------------------------------------
@pytest.mark.long
def test_an_export_of_customers(cli: Cli, tmp_path: Path) -> None:
    path = role_files.crm_export(tmp_path / "crm.csv")
    few = ("--decoys", "50", "--prompts", "1", "--model", "toy")
    ended = cli("pii", "probe", "--subjects", path, "--kinds", "twin", *few, "--html", "pii.html")
    assert ended.code == 0, ended.err
    assert "Account Owner" in ended.err
    assert "Mara" not in ended.err
    assert "phone" in Path("pii.html").read_text("utf-8").lower()
    assert "too few" in ended.out
