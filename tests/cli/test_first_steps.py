"""What a newcomer types first: help, nothing, a log, the samples, one person, the demo; and what it costs. People do
their jobs from the files that they have, end to end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers import role_files
from helpers.places import ROOT
from leakmeter.engine.loading import load_run
from leakmeter.errors import ModelError
from leakmeter.models import resolve

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


def test_help_is_a_word_too(cli: Call) -> None:
    for words in (["help"], ["help", "influence"], ["help", "runs", "list"]):
        ended, asked = cli(*words), cli(*words[1:], "--help")
        assert (ended.code, ended.out) == (0, asked.out)
    assert (cli("help", "nosuch").code, "no command named 'nosuch'" in cli("help", "nosuch").err) == (2, True)


def test_a_file_that_is_no_log_is_told_from_a_command(cli: Call) -> None:
    Path("my note.txt").write_text("Anna sang.", encoding="utf-8")
    Path("folder").mkdir()
    for word, said in (
        (
            "my note.txt",
            "is a file, not a command; a text is the context of `leakmeter influence --context-file 'my note.txt'",
        ),
        ("my note.txt", "--query TEXT`, and a log of answers ends in .jsonl, .ndjson, .json, .csv"),
        (
            "folder",
            "'folder' is a directory, not a command; the report of a run is written by `leakmeter report folder`",
        ),
    ):
        ended = cli(word)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert said in ended.err


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


HEAVY = ("torch", "transformers", "pandas", "pyarrow", "tokenizers", "gguf", "rich.progress", "safetensors", "duckdb")
MOST_MODULES = 500
"""There were 418 when this was written."""
MOST_OWN_MODULES = 45
"""Of leakmeter's own there were 39."""


@pytest.mark.parametrize(
    "line", ["--help", "influence --help", "models", "models cache", "study regurgitation --csv x.csv"]
)
def test_nothing_heavy_is_imported_without_need(line: str, tmp_path: Path) -> None:
    """By what is loaded, most of the time: a clock says more of the machine than of the program."""
    words = line.split()
    (tmp_path / "x.csv").write_text("generations,contexts\na,b\n", encoding="utf-8")
    code = (
        "import sys\nfrom leakmeter.cli import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        "print(len(sys.modules), sum(name.startswith('leakmeter') for name in sys.modules),"
        f" *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    n_modules, n_own, *heavy = ended.stdout.splitlines()[-1].split()
    assert heavy == []
    assert words != ["--help"] or (int(n_modules) < MOST_MODULES and int(n_own) < MOST_OWN_MODULES)


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    from leakmeter.cli import commands, program

    for shown in commands():
        command = program([shown.name])[shown.name]
        own = command.help or command.default_command.__doc__
        assert own.strip().splitlines()[0] == shown.about, shown.name
        assert program()[shown.name].help == shown.about


def test_importing_the_package_imports_nothing_of_it_and_every_public_name_is_there() -> None:
    code = (
        "import sys, leakmeter\n"
        "ours = {'leakmeter', 'leakmeter.core', 'leakmeter.core.own'}\n"
        "print([m for m in sys.modules if m.startswith(('leakmeter', 'numpy')) and m not in ours], dir(leakmeter))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith(f"[] {sorted(leakmeter.__all__)}")
    for name in leakmeter.__all__:
        assert name == "__version__" or getattr(leakmeter, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        leakmeter.nosuch  # noqa: B018


def test_version_and_entry_point(cli: Call) -> None:
    version = metadata.version("leakmeter")
    assert cli("--version").out == f"{version}\n"
    assert leakmeter.__version__ == version
    (point,) = [p for p in metadata.entry_points(group="console_scripts") if p.name == "leakmeter"]
    assert point.value == "leakmeter.cli:main"


@pytest.mark.long
def test_the_demo_finds_the_phone_number(command: Call, tmp_path: Path) -> None:
    try:
        resolve("smollm2-135m", notify=str, download=False)
    except ModelError as error:
        pytest.skip(f"the default model is not cached: {error}")
    # One thread: two processes with two threads each wait for one another more than they work.
    ended = command("demo", environment={"OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    (run,) = (tmp_path / "runs").iterdir()
    (result,) = load_run(run)
    values, units = ([piece for piece in result.pieces if piece.kind == kind] for kind in ("value", "unit"))
    phone = max(values, key=lambda piece: piece.nats)
    assert phone.text == "555-010-7788 … 555-010-7788"
    sayers = [piece for piece in units if "555-010-7788" in piece.text]
    assert [phone.nats > 2 * piece.nats for piece in sayers] == [True] * 2
    assert result.template == "chat"
    for piece in units:
        assert json.dumps(piece.text, ensure_ascii=False)[1:-1] in page or piece.text in page
    assert "555-010-7788" in ended.stdout


@pytest.mark.long
def test_a_logged_chat(cli: Call, tmp_path: Path, real_backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *_, **__: real_backend)
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
        assert by_type["phone"]["posterior"] is None, "the answer was given: another model may have written it"


def test_few_shot_examples_from_a_table(cli: Call, tmp_path: Path) -> None:
    shots, queries = role_files.few_shots(tmp_path / "shots.csv"), role_files.queries(tmp_path / "reviews.csv")
    ended = cli(
        *("icl", "--exemplars", shots, "--text-column", "review", "--label-column", "sentiment"),
        *("--instruction", "Classify the sentiment.", "--data", queries, "--html", "icl.html"),
        *("--model", "toy", "--label-scoring", "whole-sequence"),
    )
    assert ended.code == 0, ended.err
    assert "reveal" in ended.out.split("worst case")[0], "what the answers reveal comes before the worst case"
    assert "The kettle leaked on the first day." in Path("icl.html").read_text("utf-8")


@pytest.mark.long
def test_an_export_of_customers(cli: Call, tmp_path: Path) -> None:
    path = role_files.crm_export(tmp_path / "crm.csv")
    few = ("--decoys", "50", "--prompts", "1", "--model", "toy")
    ended = cli("pii", "probe", "--subjects", path, "--kinds", "twin", *few, "--html", "pii.html")
    assert ended.code == 0, ended.err
    assert ("Account Owner" in ended.err, "Mara" in ended.err) == (True, False)
    assert "phone" in Path("pii.html").read_text("utf-8").lower()
    assert "too few" in ended.out
