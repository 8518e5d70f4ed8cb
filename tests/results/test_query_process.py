"""A query has a process of its own: what it may take, what comes back, and that it never outlives who asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.made_runs import written as written_run
from leakmeter.errors import UsageError
from leakmeter.results import query_child, query_process
from leakmeter.results.query import ask
from leakmeter.results.query_process import Limits, read

ENDLESS = "select count(*) from range(100000000) a, range(100000000) b, range(1000) c"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no other system holds a process to its address space")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every process that is started."""
    started: list[Any] = []
    begin = subprocess.Popen

    def noted(*args: Any, **options: Any) -> Any:
        started.append(begin(*args, **options))
        return started[-1]

    monkeypatch.setattr(query_process.subprocess, "Popen", noted)
    return started


@LINUX
def test_a_query_that_needs_more_memory_is_refused_in_one_line_and_a_little_is_enough(tmp_path: Path) -> None:
    for sql in (
        "select list(range(100000000))",
        "select repeat('x', 900000000) from range(3)",
        "select count(*) from (select range, random() as r from range(100000000) order by r)",
    ):
        said = r"^the query needs more than 128MiB of memory[^\n]*; ask for less, or give more with --memory$"
        with pytest.raises(UsageError, match=said):
            list(ask(sql, [], Limits(memory="128MiB")).rows)
    run = written_run(tmp_path / "runs")
    sql = "select count(distinct piece) > 0, (select count(*) from cases) from measurements"
    assert list(ask(sql, [run], Limits(memory="64MiB")).rows) == [(True, 2)]


def test_a_query_that_takes_too_long_is_ended(processes: list[Any]) -> None:
    # The first line never comes, so that any limit is reached; the process may yet be starting.
    with pytest.raises(UsageError, match=r"^the query took over 0.01 seconds; ask for less, or give more with --max-s"):
        ask(ENDLESS, [], Limits(max_seconds=0.01))
    assert [process.returncode is not None for process in processes] == [True]


def test_the_time_in_which_rows_are_looked_at_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(query_process, "monotonic", lambda: now)
    for _ in ask("select * from range(3000)", []).rows:
        now += 1000.0
    assert now == 3_000_000.0


VALUES = (
    "null", "true", "1", "-9223372036854775808", "170141183460469231731687303715884105727", "1.5::double",
    "'nan'::double", "'-inf'::double", "1.25", "'a'", "''", "chr(8232) || chr(0) || chr(10)", "'x\\x00'::blob",
    "date '2026-01-02'", "timestamp '2026-01-02 03:04:05.678'", "time '03:04:05.6'", "interval '3 days 4 seconds'",
    "'f47ac10b-58cc-4372-a567-0e02b2c3d479'::uuid", "[1, null]", "[[1.5], []]", "{'a': 1, 'b': [date '2026-01-02']}",
    "map {1: 'a', 2: null}", "array_value(1, 2)", "'a'::enum('a', 'b')", "'101'::bit", "union_value(a := 1)",
)  # fmt: skip


def test_values_are_those_that_duckdb_has() -> None:
    sql = "select " + ", ".join(f"{value} as c{number}" for number, value in enumerate(VALUES))
    (row,) = ask(sql, []).rows
    expected = duckdb.connect().execute(sql).fetchall()[0]
    assert repr(row) == repr(expected)
    assert [type(one) for one in row] == [type(one) for one in expected]


ANY = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.dates(),
        st.datetimes(), st.times(), st.timedeltas(),
        st.decimals(allow_nan=False), st.uuids(),
    ),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)  # fmt: skip


@given(value=ANY)
def test_every_value_comes_back_as_it_was(value: Any) -> None:
    came = read(json.loads(json.dumps(query_child.written(value))))
    assert came == value
    assert type(came) is type(value)


def test_what_asks_no_further_ends_the_process(processes: list[Any]) -> None:
    rows = ask("select * from range(10000000)", []).rows
    assert next(rows) == (0,)
    assert processes[0].returncode is None
    rows.close()  # type: ignore[attr-defined]
    ask("select 1", [])  # its rows are forgotten at once
    with pytest.raises(UsageError, match="Parser Error"):
        ask("selec", [])
    assert [process.returncode is None for process in processes] == [False] * 3


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_process_whose_asker_is_killed_ends_too(tmp_path: Path) -> None:
    code = (
        "import os, sys; from leakmeter.results.query_process import QueryProcess, DEFAULT_LIMITS\n"
        "process = QueryProcess(DEFAULT_LIMITS)\n"
        "process._next = lambda: {'columns': []}\n"
        f"process.ask({ENDLESS!r}, (), {{}})\n"
        "print(process._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(30)


def test_a_process_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    monkeypatch.setattr(query_process, "_CHILD", child)
    for code, why in (("import os; os.abort()", "needs more than 4GiB of memory"), ("exit(3)", "exit code 3")):
        child.write_text(code)
        with pytest.raises(Exception, match=why) as caught:
            ask("select 1", [])
        assert "\n" not in str(caught.value)


def test_nothing_of_the_directory_at_hand_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("duckdb", "json", "leakmeter", "resource"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w'); raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert list(ask("select 1", []).rows) == [(1,)]
    assert not Path("imported").exists()


def test_the_process_imports_little() -> None:
    code = f"import sys; sys.argv = ['x']; import runpy; runpy.run_path({str(query_process._CHILD)!r}, run_name='x')\n"
    code += "print([name for name in ('leakmeter', 'torch', 'numpy', 'pandas', 'pyarrow') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
