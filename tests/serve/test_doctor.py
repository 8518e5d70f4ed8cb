"""The page of the doctor."""

from __future__ import annotations

from pathlib import Path

import leakmeter
from helpers.serving import HEADERS, client, events, serving_of


def test_a_model_is_examined(tmp_path: Path) -> None:
    with client(serving_of(tmp_path)) as made:
        assert "<option>toy</option>" in made.get("/doctor").text
        told = events(made.post("/doctor/examine", json={"model": "toy"}, headers=HEADERS))
    assert [name for name, _ in told if name not in ("queued", "started")] == ["loading", "examining", "done"]
    assert told[-1][1]["sound"]
    found = leakmeter.doctor("toy")
    assert found.verdict in told[-1][1]["html"].replace("&#39;", "'")


def test_another_model_than_the_servers_is_refused(tmp_path: Path) -> None:
    with client(serving_of(tmp_path)) as made:
        answer = made.post("/doctor/examine", json={"model": "vllm:http://10.0.0.1#x"}, headers=HEADERS)
        assert answer.status_code == 400
        assert made.post("/doctor/examine", json={"model": "toy"}).status_code == 403


def test_what_is_wrong_is_told_in_a_line(tmp_path: Path) -> None:
    with client(serving_of(tmp_path, models=("vllm:http://127.0.0.1:9#x",))) as made:
        told = events(made.post("/doctor/examine", json={}, headers=HEADERS))
    assert told[-1][0] == "failed"
    assert "tokenizer" in told[-1][1]["error"]
    assert "\n" not in told[-1][1]["error"]
