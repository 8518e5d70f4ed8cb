"""The page of a run fills while it is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakmeter.cli import main
from leakmeter.commands import output


def test_a_page_is_written_again_whenever_there_are_twice_as_many_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"r{i}", "context": "Ana Berg sings.", "query": "Who?", "response": "Ana"} for i in range(20)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    page = tmp_path / "page.html"
    written: list[tuple[int, bool]] = []
    write_page = output.write_page

    def noted(path: Path, results: Any, *others: Any, **named: Any) -> None:
        write_page(path, results, *others, **named)
        written.append(
            (len(results), f"Only {len(results)} of 20 cases are measured so far." in page.read_text("utf-8"))
        )

    monkeypatch.setattr(output, "write_page", noted)
    words = ["influence", "--model", "toy", "--data", str(log), "--out", str(tmp_path / "runs"), "--html", str(page)]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert written == [(8, True), (16, True), (20, False)]
