"""What a newcomer types first: nothing, a log, the samples, one person."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.places import ROOT

Call = Callable[..., Any]


def test_without_words_it_says_what_to_type(cli: Call) -> None:
    ended = cli()
    assert ended.code == 0
    assert {"leakmeter demo", "leakmeter LOG.jsonl"} <= {line[24:] for line in ended.out.splitlines()}


def test_a_log_as_the_first_word_is_measured_into_a_page(cli: Call) -> None:
    case = {"question": "Who called?", "contexts": ["Anna Ek called."], "answer": "Anna Ek."}
    Path("log.jsonl").write_text(json.dumps(case), encoding="utf-8")
    ended = cli("log.jsonl", "--model", "toy")
    assert ended.code == 0, ended.err
    assert "read as --format ragas" in ended.err
    assert Path("log.html").is_file()
    assert cli("log.jsonl", "--model", "toy", "--html=mine.html").code == 0
    assert Path("mine.html").is_file()
    ended = cli("none.jsonl")
    assert (ended.code, "none.jsonl" in ended.err) == (2, True)


def test_samples_are_written_once_and_over_nothing_else(cli: Call) -> None:
    for _ in range(2):
        assert cli("demo", "--write-samples", "samples").code == 0
        written = {path.name: path.read_bytes() for path in Path("samples").iterdir()}
        assert written == {path.name: path.read_bytes() for path in (ROOT / "examples" / "data").iterdir()}
    Path("samples/note.txt").write_text("mine", encoding="utf-8")
    Path("samples/log.jsonl").unlink()
    ended = cli("demo", "--write-samples", "samples")
    assert (ended.code, "samples/note.txt" in ended.err) == (2, True)
    assert not Path("samples/log.jsonl").exists()


def test_one_person_is_probed_and_nothing_of_them_is_kept(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", "config")
    person = ("--name", "Mara Ellsworth", "--phone=617-555-0134", "--email", "mara@example.org")
    how = ("--model", "toy", "--decoys", "50", "--prompts", "1", "--kinds", "twin", "--beams", "0")
    ended = cli("pii", "probe", *person, *how, "--run-name", "mine")
    assert ended.code == 0, ended.err
    shown = ended.out + ended.err
    kept = b"".join(path.read_bytes() for path in Path("runs").rglob("*") if path.is_file())
    for value in ("Ellsworth", "555-0134", "mara@"):
        assert value not in shown
        assert value.encode() not in kept


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--phone", "617-555-0134"], "needs a name; give it with --name"),
        (["--name", "Mara Ellsworth"], "give --phone, --email or --address too"),
        (["--name", "Mara", "--phone", "617-555-0134", "--subjects", "people.csv"], "leave one out"),
    ],
)
def test_half_a_person_is_refused(cli: Call, words: list[str], why: str) -> None:
    ended = cli("pii", "probe", *words, "--model", "toy")
    assert (ended.code, why in ended.err) == (2, True)
