"""Whatever happens is one line, exit code 2, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.places import SAMPLES

Call = Callable[..., Any]
PRIVATE = "Anna Ek, 555-010-7788"
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Makes `leakmeter runs list` raise; returns where its log would be."""
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))

    def make(error: BaseException) -> Path:
        def raising(root: Path) -> Any:
            raise error

        monkeypatch.setattr("leakmeter.engine.storage.catalogue.entries", raising)
        return tmp_path / "cache" / "errors"

    return make


def test_the_unforeseen_is_one_line_and_a_private_log(broken: Call, cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = broken(KeyError(PRIVATE))
    done = cli("runs", "list")
    (log,) = folder.iterdir()
    assert done.err.startswith("leakmeter: internal error (KeyError)")
    assert str(log) in done.err
    assert (done.code, done.err.count("\n"), PRIVATE in done.err, "Traceback" in done.err) == (2, 1, False, False)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, log)] == [0o700, 0o600]
    assert "Traceback" in log.read_text()
    assert PRIVATE in log.read_text()
    for _ in range(30):
        cli("runs", "list")
    assert len(list(folder.iterdir())) == 20
    monkeypatch.setenv("LEAKMETER_CACHE", "/dev/null/x")
    done = cli("runs", "list")
    assert (done.code, done.err.count("\n"), "its log could not be written" in done.err) == (2, 1, True)


def test_what_was_foreseen_has_words_of_its_own(broken: Call, cli: Call) -> None:
    told = ((MemoryError(), 2, "out of memory"), (RecursionError(), 2, "nested"))
    for error, code, words in (*told, (KeyboardInterrupt(), 130, "interrupted")):
        folder = broken(error)
        done = cli("runs", "list")
        assert (done.code, words in done.err, done.err.count("\n"), folder.exists()) == (code, True, 1, False)


def test_nothing_that_a_terminal_obeys_is_written(cli: Call, measure: Call, tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    good = {"context": "Anna Ek called.", "query": "Who?", "response": "Anna"}
    refused = [measure(unit=EVIL), measure(model=EVIL), measure(template=f"{EVIL}{{context}}{{context}}")]
    refused += [measure("--nosuch" + EVIL), cli("runs", "show", EVIL), cli(EVIL)]
    for line in ({**good, EVIL: 1}, {**good, "id": EVIL, "response": " "}, {**good, "decoding": EVIL}):
        data.write_text(json.dumps(line))
        refused.append(cli("influence", "--model", "toy", "--data", data))
    for done in refused:
        assert done.code == 2
        assert not set(done.err) & set("\x1b\x07\x9b\u202e"), done.err
    data.write_text(json.dumps({**good, "id": EVIL}))
    for words in ((), ("--json",), ("--dry-run",)):
        done = cli("influence", "--model", "toy", "--data", data, *words)
        assert done.code == 0
        # Where nobody looks JSON is given as it is: C1 and direction marks are letters of a file.
        assert not set(done.out + done.err) & set("\x1b\x07" if words else "\x1b\x07\x9b\u202e")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["influence", "NOTE", "--max-new-tokens", "9223372036854775808"], "100,000 at most"),
        (["influence", "NOTE", "--samples", "1000000000"], "100,000 at most"),
        (["decode", "NOTE", "--max-new-tokens", "1000000000"], "100,000 at most"),
        (["pii", "probe", "--subjects", "SUBJECTS", "--decoys", "1000000000"], "100,000 at most"),
        (["pii", "probe", "--subjects", "SUBJECTS", "--beams", "1000000000"], "1,000 at most"),
        (["generate", "--samples", "1000000000"], "100,000 at most"),
        (["study", "run", "figure_7", "--set", "x=[]"], "x"),
        (["influence", "NOTE", "--unit", "entity", "--region", "\udcff"], "no region named"),
        (["influence", "--query", "Who?", "--context-file", "/dev/zero"], "is a device or a pipe"),
        (["influence", "--data", "/dev/zero"], "is a device or a pipe"),
        (["influence", "--messages", "/dev/full"], "is a device or a pipe"),
        (["influence", "NOTE", "--template", "@/dev/zero"], "is a device or a pipe"),
        (["influence", "NOTE", "--unit", "entity", "--entity-patterns", "/dev/zero"], "is a device or a pipe"),
    ],
)
def test_what_would_never_end_is_refused_at_once(words: list[str], said: str, cli: Call, note: Path) -> None:
    places = {"NOTE": ["--context-file", str(note), "--query", "Who?"], "SUBJECTS": [str(SAMPLES / "subjects.toml")]}
    model = [] if words[0] == "study" else ["--model", "toy"]
    done = cli(*(part for word in words for part in places.get(word, [word])), *model)
    assert (done.code, said in done.err, done.err.count("\n")) == (2, True, 1), done.err
    assert not list(Path().rglob("*"))


def test_a_pattern_that_is_too_much_to_compile_is_refused(measure: Call, tmp_path: Path) -> None:
    for pattern in ("a{1000000000}", "(" * 4000 + "a" + ")" * 4000, "(a{1000}){1001}", "x" * 10_001):
        (tmp_path / "patterns.txt").write_text(f"ticket = {pattern}")
        started = time.process_time()
        done = measure(unit="entity", entity_patterns=tmp_path / "patterns.txt")
        assert (done.code, done.err.count("\n"), "line 1" in done.err) == (2, 1, True)
        assert time.process_time() - started < 2


def test_a_small_parquet_file_of_many_rows_and_one_of_no_utf8_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from leakmeter.data.records import load_records
    from leakmeter.errors import DataError

    path = tmp_path / "many.parquet"
    with pq.ParquetWriter(path, pa.schema([("text", pa.string())])) as writer:
        batch = pa.table({"text": pa.array(["x"] * 250_000).dictionary_encode().cast(pa.string())})
        for _ in range(9):
            writer.write_table(batch)
    assert path.stat().st_size < 200_000
    with pytest.raises(DataError, match=r"has 2,250,000 rows; 2,000,000 are read at most"):
        load_records(path)
    letters = pa.array([b"good", b"\xff\xfe"], type=pa.binary())
    pq.write_table(pa.table({"text": pa.Array.from_buffers(pa.string(), 2, letters.buffers())}), path)
    with pytest.raises(DataError, match="text that is not UTF-8"):
        load_records(path)


def test_a_terminal_that_says_it_is_endless_is_not_believed(command: Call, note: Path) -> None:
    words = ("influence", "--model", "toy", "--context-file", note, "--query", "Who?", "--response", "Anna")
    done = command(*words, environment={"COLUMNS": "1000000000"})
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 1000


def test_streams_that_are_closed_or_full(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    closed = {f"runs list {streams}": 0 for streams in (">&-", ">&- 2>&-", "<&- >&- 2>&-")}
    for words, code in {**closed, "models > /dev/full": 2}.items():
        line = f"{sys.executable} -m leakmeter {words}"
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done
        assert code == 0 or done.stderr.count("\n") == 1


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupted_query_ends_at_once(measure: Call, tmp_path: Path) -> None:
    assert measure().code == 0
    sql = "select count(*) from range(100000000) a, range(100000000) b where a.range * b.range % 7 = 1"
    code = "from leakmeter.cli import main; print('begun', flush=True); main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "runs", "query", sql],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where tests run in the background of a shell, interrupts are ignored by all that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        # Left alone, the query would go on for days.
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err.count("\n")) == (130, 1), err
