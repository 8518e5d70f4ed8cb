"""No command writes over what it reads, nor into a run: one line, exit code 2, and every file as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.read_files import ASKED, CHAT, ICL, NOTE, contents, write_files

pytestmark = pytest.mark.usefixtures("undrawn")

Call = Callable[..., Any]
# What is read, and a command that reads it and writes to OUT.
HTML = {
    "note.txt": ("influence", *NOTE, "--response", "Anna"),
    "cases.jsonl": ("influence", "--data", "cases.jsonl", "--model", "toy"),
    "chat.json": (*CHAT, "--response", "Anna"),
    "frame.txt": ("decode", *NOTE, "--template", "@frame.txt"),
    "patterns.txt": ("redact-plan", *NOTE, "--max-loss", 1, "--unit", "entity", "--entity-patterns", "patterns.txt"),
    "mood.toml": (*ICL, "--exemplars", "exemplars.csv"),
    "data.csv": (*ICL, "--exemplars", "exemplars.csv"),
    "exemplars.csv": (*ICL, "--exemplars", "exemplars.csv"),
    "pool.csv": (*ICL, "--pool", "pool.csv", "--shots", 2),
    "queries.jsonl": ASKED,
    "contexts.jsonl": ASKED,
    "people.jsonl": ("pii", "probe", "--subjects", "people.jsonl", "--model", "toy"),
    "probes.toml": ("pii", "probe", "--subjects", "people.jsonl", "--templates", "probes.toml", "--model", "toy"),
    "audit.toml": ("audit", "run", "--config", "audit.toml"),
    "texts.csv": ("audit", "run", "--config", "audit.toml"),
}
OTHERS = [
    ("note.txt", ("redact-plan", *NOTE, "--max-loss", 1, "--write-redacted", "OUT")),
    ("people.jsonl", ("pii", "tune", "--subjects", "people.jsonl", "--model", "toy", "--out", "OUT")),
    ("cases.jsonl", ("pii", "tune", "--subjects", "people.jsonl", "--validation", "cases.jsonl", "--out", "OUT")),
    ("documents.jsonl", ("pii", "extract", "documents.jsonl", "--out", "OUT")),
]
# In a run's directory, or over a file of a study's: the options of each command that writes.
INTO = [
    ("influence", "--data", "cases.jsonl", "--model", "toy", "--html"),
    ("influence", "--data", "cases.jsonl", "--model", "toy", "--out"),
    ("decode", *NOTE, "--epsilon", 1, "--html"),
    ("redact-plan", *NOTE, "--max-loss", 1, "--write-redacted"),
    ("demo", "--model", "toy", "--html"),
    ("report", "RUN", "--html"),
    ("report", "STUDY", "--html"),
    ("report", "RUN", "--figures"),
    ("gate", "RUN", "--max", "influence.max <= 1e9", "--write-baseline"),
    ("gate", "RUN", "--max", "influence.max <= 1e9", "--junit"),
    ("runs", "export", "RUN", "--out"),
    ("pii", "tune", "--subjects", "people.jsonl", "--model", "toy", "--out"),
    ("pii", "extract", "documents.jsonl", "--out"),
    ("audit", "run", "--config", "audit.toml", "--html"),
    ("audit", "run", "--config", "audit.toml", "--out"),
    ("frontier", "--data", "asked.jsonl", "--model", "toy", "--lambda", 1, "--out"),
    (
        "icl-select",
        "--task",
        "mood.toml",
        "--exemplars",
        "exemplars.csv",
        "--data",
        "data.csv",
        "--model",
        "toy",
        "--out",
    ),
]


@pytest.fixture(autouse=True)
def here(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that commands read, in the directory where they are called."""
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    write_files()
    return Path.cwd()


@pytest.fixture
def run(cli: Call) -> Path:
    ended = cli("influence", "--data", "cases.jsonl", "--model", "toy")
    assert ended.code == 0, ended.err
    return Path(ended.err.splitlines()[-1].removeprefix("run: "))


@pytest.fixture
def study() -> Path:
    folder = Path("runs", "study-mine-laptop-0123456789abcdef")
    folder.mkdir(parents=True)
    (folder / "table.md").write_text("# Mine\n\n- command: leakmeter study run mine.toml\n", encoding="utf-8")
    return folder


def refused(ended: Any) -> str:
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert ended.err.startswith("leakmeter: ")
    assert ended.err.count("\n") == 1
    return str(ended.err)


@pytest.mark.parametrize("name", HTML)
def test_a_report_is_not_written_over_what_is_read(cli: Call, here: Path, name: str) -> None:
    Path("link.html").symlink_to(name)
    Path("hard.html").hardlink_to(name)
    before = contents(here)
    for place in (name, here / name, "link.html", "hard.html"):
        assert "which is read here and would be lost; give another name" in refused(cli(*HTML[name], "--html", place))
        assert contents(here) == before
    Path("link.html").unlink()
    Path("hard.html").unlink()


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
    assert "which is read here and would be lost" in refused(cli(*(name if word == "OUT" else word for word in words)))
    assert contents(here) == before


@pytest.mark.parametrize("words", INTO, ids=[" ".join(map(str, (*words[:2], words[-1]))) for words in INTO])
def test_nothing_is_written_into_a_run(cli: Call, here: Path, run: Path, study: Path, words: tuple[Any, ...]) -> None:
    Path("link").symlink_to(run)
    given = [{"RUN": run, "STUDY": study}.get(word, word) for word in words]
    before = contents(here)
    names = ["new.jsonl"] if words[:2] == ("pii", "extract") else ["spec.json", "new.csv", "measurements-00000.parquet"]
    places = [folder / name for folder in (run, Path("link"), here / run) for name in names]
    if words[-1] in ("--out", "--figures") and words[0] not in ("runs", "pii"):
        places = [run, Path("link"), run / "new"]
    for place in places:
        said = refused(cli(*given, place))
        assert f"lies in the run '{run.name}'" in said or "which is read here" in said, said
        assert contents(here) == before


@pytest.mark.parametrize("words", INTO, ids=[" ".join(map(str, (*words[:2], words[-1]))) for words in INTO])
def test_no_file_of_a_study_is_written_over(
    cli: Call, here: Path, run: Path, study: Path, words: tuple[Any, ...]
) -> None:
    if words[-1] in ("--out", "--figures") and words[:2] not in (("runs", "export"), ("pii", "tune")):
        pytest.skip("it names a directory")
    given = [{"RUN": run, "STUDY": study}.get(word, word) for word in words]
    (study / "kept.csv").write_text("n\n1\n", encoding="utf-8")
    before = contents(here)
    for name in ("table.md", "kept.csv"):
        said = refused(cli(*given, study / name))
        assert f"is a file of '{study.name}'" in said or f"is a file of '{study}'" in said or "there already" in said
        assert contents(here) == before


def test_two_files_are_not_written_to_one_place(cli: Call, here: Path, run: Path) -> None:
    before = contents(here)
    said = refused(
        cli("gate", run, "--max", "influence.max <= 1e9", "--junit", "gate.xml", "--write-baseline", "./gate.xml")
    )
    assert "--write-baseline and --junit are both 'gate.xml'; give each a name of its own" in said
    words = ("redact-plan", *NOTE, "--max-loss", 1, "--write-redacted", "a.html", "--html", "./a.html")
    assert "--write-redacted and --html are both" in refused(cli(*words))
    assert contents(here) == before


def test_what_the_user_keeps_is_not_written_over(cli: Call, here: Path, tmp_path: Path) -> None:
    from leakmeter.models import models_dir

    secret = tmp_path / "config" / "subjects.secret"
    secret.parent.mkdir()
    secret.write_bytes(b"0" * 32)
    words = ("influence", *NOTE, "--response", "Anna", "--html")
    assert "which is read here and would be lost" in refused(cli(*words, secret))
    assert secret.read_bytes() == b"0" * 32
    for path in list(models_dir().glob("*/config.json"))[:1]:
        before = path.read_bytes()
        assert f"is a file of '{models_dir()}'" in refused(cli(*words, path))
        assert path.read_bytes() == before


def test_from_python_no_page_is_written_into_a_run(cli: Call, run: Path) -> None:
    import leakmeter

    loaded = leakmeter.load_run(run)
    (result,) = loaded
    before = contents(run)
    for save in (loaded.save_html, result.save_html):
        for name in ("spec.json", "page.html"):
            with pytest.raises(leakmeter.LeakmeterError, match="lies in the run"):
                save(run / name)
    assert contents(run) == before
    assert loaded.save_html("page.html").stat().st_mode & 0o777 == 0o600
