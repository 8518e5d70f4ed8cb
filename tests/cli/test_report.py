"""`leakmeter report` of several runs, of a study, and with figures."""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from leakmeter.commands.studies.study_report import StudyTables
from leakmeter.commands.studies.tables import readable
from leakmeter.commands.study import StudyRun
from leakmeter.engine.loading import load_run
from leakmeter.errors import StoreError

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one case; not to be written to."""
    folder = tmp_path_factory.mktemp("measured")
    case = {"context": "Anna Ek lives in Graz. Bo asked twice.", "query": "Who?", "response": "Anna"}
    return [leakmeter.influence("toy", [case], temperature=at, out=folder).path for at in (1.0, 0.5)]


@pytest.fixture
def study() -> Path:
    folder = Path("study-mine-0123456789abcdef")
    folder.mkdir()
    table = readable("Mine", [], [{"model": "toy", "n": 3}], {})
    for name, text in StudyTables((table,), "leakmeter study run mine.toml").files().items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "figure.png").write_bytes(b"\x89PNG")
    return folder


def test_several_runs_give_one_page_and_so_does_a_study(cli: Call, runs: list[Path], study: Path) -> None:
    ended = cli("report", *runs, "--html", "both.html")
    assert (ended.code, ended.out, ended.err) == (0, "", "report: both.html (private, readable by you alone)\n")
    page = Path("both.html").read_text(encoding="utf-8")
    assert page.count("<iframe") == 2
    assert "From run 1 to run 2" in page
    cli("report", *runs, "--html", "again.html")
    assert Path("again.html").read_text(encoding="utf-8") == page
    assert cli("report", study, "--html", "study.html").code == 0
    page = Path("study.html").read_text(encoding="utf-8")
    for said in ("<h1><bdi>Mine</bdi></h1>", "<code>leakmeter study run mine.toml</code>", "data:image/png"):
        assert said in page


def test_tables_of_a_study_for_a_paper(cli: Call, study: Path) -> None:
    ended = cli("report", study, "--latex", "tables.tex")
    private = "(private, readable by you alone)"
    assert (ended.code, ended.err) == (0, f"report: report.html {private}\ntables: tables.tex {private}\n")
    text = Path("tables.tex").read_text(encoding="utf-8")
    assert text.startswith("% leakmeter study run mine.toml\n")
    assert "    model & n \\\\\n    \\midrule\n    toy & 3 \\\\\n    \\bottomrule\n" in text
    made = StudyRun(study).save_latex("python.tex")
    assert made.read_text(encoding="utf-8") == text
    assert {Path(name).stat().st_mode & 0o777 for name in ("tables.tex", made)} == {0o600}
    with pytest.raises(StoreError, match=f"LaTeX file '{study}/table.md' is a file of"):
        StudyRun(study).save_latex(study / "table.md")


@pytest.mark.long
def test_figures_of_one_run_and_of_several(cli: Call, runs: list[Path]) -> None:
    ended = cli("report", runs[0], "--figures", "one")
    assert ended.code == 0
    names = ["pieces.png", "pieces.svg", "tokens.png", "tokens.svg"]
    assert sorted(os.listdir("one")) == names
    files = ", ".join(f"one/{name}" for name in names)
    private = "(private, readable by you alone)"
    assert ended.err == f"figures: {files} {private}\nreport: report.html {private}\n"
    assert {Path("one", name).stat().st_mode & 0o777 for name in names} == {0o600}
    assert cli("report", *runs, "--figures", "both").code == 0
    assert sorted(os.listdir("both")) == ["run1", "run2"]
    for name in names:
        assert Path("one", name).read_bytes() == Path("both", "run1", name).read_bytes()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["RUN", "RUN", "--public"], "--public is for one run; give the others separately"),
        (["RUN", "--public", "--figures", "f"], "--figures shows private data"),
        (["RUN", "STUDY"], "is a study's directory; give it alone"),
        (["STUDY", "RUN"], "is a study's directory; give it alone"),
        (["STUDY", "--figures", "f"], "without --figures and --public"),
        (["STUDY", "--markdown", "x.md"], "table.md is Markdown"),
        (["RUN", "--latex", "x.tex"], "--latex writes the tables of a study, and 'RUN' is none; leave it out"),
        (["STUDY", "--latex", "report.html"], "--html and --latex are both 'report.html'"),
        (["RUN", "missing"], "there is no 'missing'; give the directory of a run"),
        (["RUN", "--figures", "RUN/spec.json"], "is inside the run 'influence-"),
        (["RUN", "--markdown", "RUN/spec.json"], "which is an input of this command"),
        (["RUN", "RUN", "--html", "no/page.html"], "is in a directory that does not exist"),
    ],
)
def test_bad_input_is_one_line(cli: Call, runs: list[Path], study: Path, words: list[str], why: str) -> None:
    before = sorted(os.listdir())
    ended = cli("report", *(word.replace("RUN", str(runs[0])).replace("STUDY", str(study)) for word in words))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert why.replace("RUN", str(runs[0])) in ended.err
    assert sorted(os.listdir()) == before


def test_without_matplotlib(cli: Call, runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = cli("report", runs[0], "--figures", "figures")
    assert (ended.code, ended.err.count("\n"), os.listdir()) == (2, 1, [])
    assert "pip install matplotlib" in ended.err
    assert cli("report", *runs).code == 0


def test_markdown_says_what_the_page_says_of_one_run_and_of_several(cli: Call, runs: list[Path]) -> None:
    for given in (runs[:1], runs):
        assert cli("report", *given, "--markdown", "said.md").code == 0
        text = html.unescape(Path("said.md").read_text(encoding="utf-8")).replace("\u00a0", " ")
        assert all(load_run(run).headline.replace("\u00a0", " ") in text for run in given)
        assert Path("said.md").stat().st_mode & 0o777 == 0o600
        assert ("| Piece |" in text) or len(given) > 1


def test_markdown_of_what_may_be_published_has_nothing_else(cli: Call) -> None:
    words = ("decode", "--model", "toy", "--context-file", "note.txt", "--query", "Who?", "--epsilon", "1")
    Path("note.txt").write_text("Anna sang in Graz.", encoding="utf-8")
    ended = cli(*words, "--max-new-tokens", "4")
    run = Path(ended.err.splitlines()[-1].removeprefix("run: "))
    assert cli("report", run, "--public", "--markdown", "public.md").code == 0
    public = Path("public.md").read_text(encoding="utf-8")
    assert ("Anna" in public, run.name in public, "guaranteed" in public.casefold()) == (False, False, True)
