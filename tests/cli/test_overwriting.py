"""No command writes over what it reads, nor into a run: one line, exit code 2, and every file as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.read_files import ASKED, CASE, CHAT, ICL, NOTE, PLAN, contents, write_files

pytestmark = pytest.mark.usefixtures("undrawn")

Call = Callable[..., Any]
# What is read, and a command that reads it and writes to OUT.
EXEMPLARS = (*ICL, "--exemplars", "exemplars.csv")
AUDIT = ("generate", "--config", "generate.toml")
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


@pytest.fixture(autouse=True)
def here(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that commands read, in the directory where they are called."""
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    write_files()
    return Path.cwd()


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
