"""What is refused leaves everything as it was: no run, no seed, no half of an output, and nothing that was read or kept
is written over.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.read_files import ASKED, CASE, CHAT, ICL, NOTE, PLAN, contents, write_files
from leakmeter.backends.toy import Toy
from leakmeter.errors import ScoreError

pytestmark = pytest.mark.usefixtures("undrawn")

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
    ("leave --dtype, --device and --memory out", (*AUDIT, "--dtype", "float32")),
    ("is in a directory that does not exist", (*AUDIT, "--html", "no/such.html")),
    ("no template for exemplars named 'nosuch'", (*AUDIT, "--template", "nosuch")),
    ("no model named 'nosuch'", (*SWEEP, "--model", "nosuch", "--lambda", 1)),
    ("leave --dtype, --device and --memory out", (*SWEEP, "--model", "toy", "--epsilon", 1, "--dtype", "float32")),
    ("a template holds {context}", (*SWEEP, "--model", "toy", "--lambda", 1, "--template", "{foo}")),
    ("a template holds {context}", (*SWEEP, "--model", "toy", "--epsilon", 1, "--template", "{foo}")),
    ("begin with the same token", (*PLAN, "--label-scoring", "first-token")),
    ("leave --dtype, --device and --memory out", (*PLAN, "--memory", "1GiB")),
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


# What is read, and a command that reads it and writes to OUT.
EXEMPLARS = (*ICL, "--exemplars", "exemplars.csv")
PEOPLE = ("--subjects", "people.jsonl", "--model", "toy")
HTML = {
    "note.txt": ("influence", *NOTE, "--response", "Anna"),
    "cases.jsonl": ("influence", "--data", "cases.jsonl", "--model", "toy"),
    "chat.json": (*CHAT, "--response", "Anna"),
    "frame.txt": ("decode", *NOTE, "--template", "@frame.txt"),
    "patterns.txt": ("redact", *NOTE, "--max-loss", 1, "--unit", "entity", "--entity-patterns", "patterns.txt"),
    **dict.fromkeys(("mood.toml", "data.csv", "exemplars.csv"), EXEMPLARS),
    "pool.csv": (*ICL, "--pool", "pool.csv", "--shots", 2),
    **dict.fromkeys(("queries.jsonl", "contexts.jsonl"), ASKED),
    "people.jsonl": ("pii", "probe", *PEOPLE),
    "probes.toml": ("pii", "probe", *PEOPLE, "--templates", "probes.toml"),
    **dict.fromkeys(("generate.toml", "texts.csv"), AUDIT),
}
OTHERS = [
    ("note.txt", ("redact", *NOTE, "--max-loss", 1, "--write-redacted", "OUT")),
    ("people.jsonl", ("pii", "tune", *PEOPLE, "--out", "OUT")),
    ("cases.jsonl", ("pii", "tune", "--subjects", "people.jsonl", "--validation", "cases.jsonl", "--out", "OUT")),
    ("documents.jsonl", ("pii", "extract", "documents.jsonl", "--out", "OUT")),
]
# In a run's directory, or over a file of a study's: the options of each command that writes.
INTO: list[tuple[Any, ...]] = [
    ("influence", "--data", "cases.jsonl", "--model", "toy", "--html"),
    ("influence", "--data", "cases.jsonl", "--model", "toy", "--out"),
    ("decode", *NOTE, "--epsilon", 1, "--html"),
    ("redact", *NOTE, "--max-loss", 1, "--write-redacted"),
    ("demo", "--model", "toy", "--html"),
    ("report", "RUN", "--html"),
    ("report", "STUDY", "--html"),
    ("report", "RUN", "--figures"),
    ("gate", "RUN", "--max", "influence.max <= 1e9", "--write-baseline"),
    ("gate", "RUN", "--max", "influence.max <= 1e9", "--junit"),
    ("runs", "export", "RUN", "--out"),
    ("pii", "tune", "--subjects", "people.jsonl", "--model", "toy", "--out"),
    ("pii", "extract", "documents.jsonl", "--out"),
    ("generate", "--config", "generate.toml", "--html"),
    ("generate", "--config", "generate.toml", "--out"),
    ("decode", "frontier", "--data", "asked.jsonl", "--model", "toy", "--lambda", 1, "--out"),
    (*PLAN, "--out"),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return leakmeter.influence("toy", [CASE], out=tmp_path_factory.mktemp("kept")).path


@pytest.fixture
def run(cli: Call, kept: Path) -> Path:
    return shutil.copytree(kept, Path("runs", kept.name))


@pytest.fixture
def study() -> Path:
    folder = Path("runs", "study-mine-laptop-0123456789abcdef")
    folder.mkdir(parents=True)
    (folder / "table.md").write_text("# Mine\n\n- command: leakmeter study run mine.toml\n", encoding="utf-8")
    return folder


def check_refused(ended: Any, *said: str) -> None:
    """One line with some of these words, exit code 2."""
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended.err
    assert ended.err.startswith("leakmeter: ")
    assert any(words in ended.err for words in said), ended.err


LOST = "which is an input of this command"


@pytest.mark.parametrize("name", HTML)
def test_a_report_is_not_written_over_what_is_read(cli: Call, here: Path, name: str) -> None:
    Path("link.html").symlink_to(name)
    Path("hard.html").hardlink_to(name)
    before = contents(here)
    # However a file is named is tried once.
    for place in (name, here / name, "link.html", "hard.html") if name in ("note.txt", "texts.csv") else (name,):
        check_refused(cli(*HTML[name], "--html", place), f"{LOST} and would be overwritten; give another name")
        assert contents(here) == before


@pytest.mark.parametrize("name", ["note.txt", "cases.jsonl", "mood.toml", "queries.jsonl"])
def test_the_same_command_writes_elsewhere(cli: Call, here: Path, name: str) -> None:
    before = contents(here)
    assert cli(*HTML[name], "--html", "report.html").code == 0
    after = contents(here)
    assert {path: after[path] for path in before} == before
    # What it wrote itself is written over.
    assert cli(*HTML[name], "--html", "report.html").code == 0


@pytest.mark.parametrize(("name", "words"), OTHERS, ids=[" ".join(map(str, words[:2])) for _, words in OTHERS])
def test_nothing_else_is_written_over_what_is_read(cli: Call, here: Path, name: str, words: tuple[Any, ...]) -> None:
    before = contents(here)
    check_refused(cli(*(name if word == "OUT" else word for word in words)), LOST)
    assert contents(here) == before


@pytest.mark.parametrize("words", INTO, ids=[" ".join(map(str, (*words[:2], words[-1]))) for words in INTO])
def test_runs_and_studies_are_left_alone(cli: Call, here: Path, run: Path, study: Path, words: tuple[Any, ...]) -> None:
    Path("link").symlink_to(run)
    (study / "kept.csv").write_text("n\n1\n", encoding="utf-8")
    given = [{"RUN": run, "STUDY": study}.get(word, word) for word in words]
    before = contents(here)
    is_folder = words[-1] in ("--out", "--figures") and words[0] not in ("runs", "pii")
    new = "new.jsonl" if words[:2] == ("pii", "extract") else "measurements-00000.parquet"
    for place in (run, Path("link"), run / "new") if is_folder else (run / new, Path("link", new), here / run / new):
        check_refused(cli(*given, place), f"is inside the run '{run.name}'", "which is an input of this command")
        assert contents(here) == before
    for name in () if is_folder or words[1] == "extract" else ("table.md", "kept.csv"):
        folders = (f"is a file of '{study.name}'", f"is a file of '{study}'", "there already")
        check_refused(cli(*given, study / name), *folders)
        assert contents(here) == before


def test_two_files_are_not_written_to_one_place(cli: Call, here: Path, run: Path) -> None:
    before = contents(here)
    both = ("--junit", "gate.xml", "--write-baseline", "./gate.xml")
    said = "--write-baseline and --junit are both 'gate.xml'; give each a name of its own"
    check_refused(cli("gate", run, "--max", "influence.max <= 1e9", *both), said)
    words = ("redact", *NOTE, "--max-loss", 1, "--write-redacted", "a.html", "--html", "./a.html")
    check_refused(cli(*words), "--write-redacted and --html are both")
    assert contents(here) == before


def test_what_the_user_keeps_is_not_written_over(cli: Call, here: Path, tmp_path: Path) -> None:
    from leakmeter.models import models_dir

    secret = tmp_path / "config" / "subjects.secret"
    secret.parent.mkdir()
    secret.write_bytes(b"0" * 32)
    kept = {secret: LOST} | {path: f"is a file of '{models_dir()}'" for path in models_dir().glob("*/config.json")}
    for path, said in [*kept.items()][:2]:
        before = path.read_bytes()
        check_refused(cli("influence", *NOTE, "--response", "Anna", "--html", path), said)
        assert path.read_bytes() == before


def test_from_python_no_page_is_written_into_a_run(cli: Call, run: Path) -> None:

    loaded = leakmeter.load_run(run)
    before = contents(run)
    for save in (loaded.save_html, loaded[0].save_html):
        for name in ("spec.json", "page.html"):
            with pytest.raises(leakmeter.LeakmeterError, match="is inside the run"):
                save(run / name)
    assert contents(run) == before
    assert loaded.save_html("page.html").stat().st_mode & 0o777 == 0o600
