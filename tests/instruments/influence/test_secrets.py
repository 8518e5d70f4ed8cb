"""Keys that a response gives away are not printed whole."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from leakmeter.cli import main

KEYS = {"tk_4f9a0c77d1e2b35f6a80": "key or password", "AKIAQ2W3E4R5T6Y7ZAPS": "AWS access key"}


def _printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_printed_whole_only_where_that_is_asked(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = tmp_path / "note.txt"
    note.write_text(f"The key of the door is {key}. The shop opens at nine.", encoding="utf-8")
    words = ["influence", "--model", "toy", "--context-file", str(note), "--query", "What is the key?"]
    words += ["--response", f"The key is {key}.", "--out", str(tmp_path / "runs"), "--explain"]
    out = _printed(capsys, *words)
    assert KEYS[key] in out
    assert key not in out
    assert key[:4] + "•" in out
    assert key in _printed(capsys, *words, "--show-secrets")
    assert key in _printed(capsys, *words, "--json")
    (run,) = (tmp_path / "runs").iterdir()
    page, told = tmp_path / "page.html", tmp_path / "note.md"
    how = ["report", str(run), "--html", str(page), "--markdown", str(told)]
    _printed(capsys, *how)
    assert key not in unescape(told.read_text(encoding="utf-8"))
    _printed(capsys, *how, "--show-secrets")
    assert key in unescape(told.read_text(encoding="utf-8"))
