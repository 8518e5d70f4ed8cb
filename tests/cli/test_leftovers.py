"""What is refused leaves nothing behind: no run, no seed, no directory, no half of an output, no warning."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.read_files import ASKED, ICL, NOTE, PLAN, contents, write_files
from leakmeter.backends.toy import Toy
from leakmeter.errors import ScoreError

Call = Callable[..., Any]
AUDIT = ("generate", "--config", "generate.toml")
EXTRACT = ("pii", "extract", "documents.jsonl", "--out")
SWEEP = ("decode", "frontier", "--data", "asked.jsonl", "--max-new-tokens", 2)
STUDY = """
title = "t"
reproduces = "r"
measure = "influence"
show = "factor"
x = "temperature"
[both]
model = "toy"
dataset = "pubmedqa"
records = 1
temperature = [0.5, 1.0]
[laptop]
[paper]
"""
TOO_COLD = ("--temperature", "1e-320")
REFUSED: list[tuple[str, tuple[Any, ...]]] = [
    ("temperature is 1e-320; it has to be finite, and 1e-30 or more", ("influence", *NOTE, *TOO_COLD)),
    ("temperature is 1e-320", ("decode", *NOTE, "--epsilon", 1, *TOO_COLD)),
    ("temperature is 1e-320", ("redact", *NOTE, "--max-loss", 1, *TOO_COLD)),
    ("temperature is 1e-320", (*ICL, "--exemplars", "exemplars.csv", *TOO_COLD)),
    ("temperature is 1e-320", (*ASKED, *TOO_COLD)),
    ("temperature is 1e-320", (*AUDIT, *TOO_COLD)),
    ("temperature is 1e-320", (*SWEEP, "--model", "toy", "--lambda", 1, *TOO_COLD)),
    ("cid-lambda is 1e+308; it has to be at most 1e+09", ("influence", *NOTE, "--cid-lambda", "1e308")),
    ("cid-lambda is 1e+308", ("decode", *NOTE, "--lambda", "1e308")),
    ("clip is 1e+308; it has to be above 0, and at most 1e+09", (*AUDIT, "--clip", "1e308")),
    ("no model named 'nosuch'", (*AUDIT, "--model", "nosuch")),
    ("leave dtype, device and memory out", (*AUDIT, "--dtype", "float32")),
    ("is in a directory that does not exist", (*AUDIT, "--html", "no/such.html")),
    ("no template for exemplars named 'nosuch'", (*AUDIT, "--template", "nosuch")),
    ("no model named 'nosuch'", (*SWEEP, "--model", "nosuch", "--lambda", 1)),
    ("leave dtype, device and memory out", (*SWEEP, "--model", "toy", "--epsilon", 1, "--dtype", "float32")),
    ("a template holds {context}", (*SWEEP, "--model", "toy", "--lambda", 1, "--template", "{foo}")),
    ("a template holds {context}", (*SWEEP, "--model", "toy", "--epsilon", 1, "--template", "{foo}")),
    ("begin with the same token", (*PLAN, "--label-scoring", "first-token")),
    ("leave dtype, device and memory out", (*PLAN, "--memory", "1GiB")),
    ("no model named 'nosuch'", ("study", "run", "mine.toml", "--data", "abstracts.jsonl", "--set", "model=nosuch")),
    ("'bad.jsonl', line 2: it is not JSON", (*EXTRACT, "new.jsonl", "bad.jsonl")),
    ("it has no text in field 'nosuch'", (*EXTRACT, "new.jsonl", "--field", "nosuch")),
    ("exists already; remove it", (*EXTRACT, "cases.jsonl")),
    ("has no weights", ("pii", "tune", "--subjects", "people.jsonl", "--model", "toy", "--out", "new.safetensors")),
    ("has no weights", ("pii", "insert", "--model", "toy", "--out", "planted")),
    ("has no weights", ("pii", "check", "--model", "toy", "--out", "checked")),
]


@pytest.fixture(autouse=True)
def here(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that commands read, in the directory where they are called."""
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    write_files()
    Path("mine.toml").write_text(STUDY, encoding="utf-8")
    told = {"pubid": 1, "question": "Q?", "context": {"contexts": ["A note."]}, "long_answer": "A."}
    Path("abstracts.jsonl").write_text(json.dumps(told) + "\n", encoding="utf-8")
    return Path.cwd()


@pytest.mark.parametrize(("said", "words"), REFUSED, ids=[f"{w[0]} {w[-2]} {w[-1]}" for _, w in REFUSED])
def test_a_refusal_leaves_everything_as_it_was(cli: Call, here: Path, said: str, words: tuple[Any, ...]) -> None:
    before = contents(here)
    ended = cli(*words)
    assert (ended.code, ended.out, "Warning" in ended.err) == (2, "", False)
    assert said in ended.err
    assert ended.err.splitlines()[-1].startswith("leakmeter: ")
    assert contents(here) == before


MEASURED: list[tuple[Any, ...]] = [
    ("influence", *NOTE, "--response", "Anna"),
    ("decode", *NOTE, "--epsilon", 1),
    AUDIT,
    (*SWEEP, "--model", "toy", "--lambda", 1),
    (*SWEEP, "--model", "toy", "--epsilon", 1),
    (*PLAN, "--label-scoring", "whole-sequence"),
]


@pytest.mark.parametrize("words", MEASURED, ids=[f"{w[0]} {w[-1]}" for w in MEASURED])
@pytest.mark.parametrize("error", [ScoreError("the model gave NaN"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_run_that_ends_before_anything_is_finished_leaves_nothing(
    cli: Call, here: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[Any, ...], error: BaseException
) -> None:
    def fail(self: Toy, chunk: Any) -> Any:
        # There is what a kill would leave.
        assert list(here.glob("runs/**/begun.json"))
        raise error

    monkeypatch.setattr(Toy, "score", fail)
    before = contents(here)
    assert cli(*words).code == (2 if isinstance(error, ScoreError) else 130)
    assert contents(here) == before
    # Neither is a directory removed that was there before.
    (here / "runs").mkdir()
    cli(*words)
    assert contents(here) == before | {str(here / "runs"): None}


def test_what_is_finished_stays(cli: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of several parts, interrupted within the second: run and nonce are there to go on with."""
    score, calls = Toy.score, iter(range(5))

    def fail(self: Toy, chunk: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return score(self, chunk)

    words = (*AUDIT, "--subset-size", 2, "--max-new-tokens", 2, "--samples", 1)
    with monkeypatch.context() as patched:
        patched.setattr(Toy, "score", fail)
        assert cli(*words).code == 130
    (run,), (kept,) = (list(here.glob(f"runs/{name}-*")) for name in ("private_generation", "generate"))
    assert (run / "begun.json").exists()
    assert sorted(os.listdir(kept)) == [".lock", "secret.json"]
    stamp = (run / "measurements-00000.parquet").stat().st_mtime_ns
    assert cli(*words).code == 0
    assert (run / "measurements-00000.parquet").stat().st_mtime_ns == stamp
    assert len(list(here.glob("runs/*"))) == 2


def test_an_extraction_is_private(cli: Call, here: Path) -> None:
    assert cli(*EXTRACT, "new.jsonl", "bad.jsonl", "--skip-bad").code == 0
    assert Path("new.jsonl").stat().st_mode & 0o777 == 0o600
