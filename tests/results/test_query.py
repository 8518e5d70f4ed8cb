"""SQL over runs: the same numbers as read one by one, and nothing but the runs; what a query may take, and that what
takes more is ended, or left behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from helpers.examples import few
from helpers.made_runs import CASES, HOSTILE, SPEC, other, rows_of, texts_of, written
from helpers.places import DOCS, any_name, script
from leakmeter.core import registry
from leakmeter.core.measure import NATS, Measurement
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import StoreError, UsageError
from leakmeter.results.limits import QueryLimits
from leakmeter.results.query import VIEWS, all_views, ask


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two complete runs."""
    return [written(tmp_path / "runs"), written(tmp_path / "runs", other(), together=True)]


def rows(sql: str, runs: list[Path]) -> list[tuple[Any, ...]]:
    return list(ask(sql, runs).rows)


def test_readings_are_those_of_the_parts(runs: list[Path]) -> None:
    answer = ask("select * from measurements", runs)
    assert answer.columns == tuple(column.name for column in VIEWS["measurements"])
    assert sorted(map(repr, answer.rows)) == sorted(map(repr, (row for run in runs for row in rows_of(run))))


def test_cases_and_runs(runs: list[Path]) -> None:
    columns = "number, id, query, context, response, n_responses, tree_tokens, naive_tokens, seconds"
    asked = f"select {columns}, out_of_memory_retries from cases where run = '{runs[1].name}' order by number"
    assert rows(asked, runs) == [
        (0, HOSTILE, "Wer? 🙂", "Anna Ek lives in Graz.", "AB", 2, 40, 90, 0.25, 1),
        (1, "b", "Who?", "Bo ate.", "AB", 1, 40, 90, 0.25, 1),
    ]
    ((texts, parameters, *from_run),) = rows(
        "select texts, parameters, measure, model, weights_sha256, dtype, device, n_cases, n_left_out, r.seconds, "
        f"command from cases c, RUNS r where c.id = 'b' and run = '{runs[0].name}' and version = '0.2.0'",
        runs,
    )
    assert json.loads(texts) == texts_of(CASES[1])
    assert json.loads(parameters) == SPEC.params
    assert from_run == ["handmade", "toy of Anna", None, "float64", "cpu", 2, 1, 0.5, "leakmeter influence"]
    joined = "measurements r join cases c on r.run = c.run and r.item = c.id join runs on runs.id = r.run"
    assert rows(f"select count(*) from {joined}", runs) == [(len(rows_of(runs[0])) * 2,)]
    assert rows("select parameters->>'$.temperature' from runs", runs) == [("0.5",), ("0.5",)]


def described(runs: list[Path], views: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    of_each = " union all ".join(f"select '{view}', column_name, column_type from (describe {view})" for view in views)
    found: dict[str, list[tuple[str, str]]] = {}
    for view, name, type_ in rows(f"{of_each} -- cases", runs):
        found.setdefault(view, []).append((name, type_))
    return found


def test_views_are_as_described(runs: list[Path]) -> None:
    said = {view: [(column.name, column.type) for column in columns] for view, columns in all_views().items()}
    assert described(runs, VIEWS) == {view: said[view] for view in VIEWS}
    assert described([], said) == said
    counts = ", ".join(f"(select count(*) from {view})" for view in VIEWS)
    (found,) = rows(f"select {counts}", [])
    # Without runs there are none of all that runs hold; what numbers mean is known.
    assert [view for view, n in zip(VIEWS, found, strict=True) if n] == ["statistics"]


def test_statistics_are_those_that_measures_declare(runs: list[Path]) -> None:
    found = rows("select statistic, unit, about from statistics where measure = 'influence' and not optional", runs)
    of_measure = registry.instrument("influence").measure.statistics
    assert found == [(one, one.unit, one.about) for one in of_measure.all() if not one.optional]
    assert "without_this" in {statistic for statistic, *_ in found}


def test_the_site_describes_them_too() -> None:
    page = script(DOCS / "reference" / "generate.py").columns_page()
    tables = re.findall(r"^`(\w+)` \| meaning\n--- \| ---\n((?:.+\n)+)", page, re.MULTILINE)
    shown = {view: all_views()[view] for view in ("pieces", "quantities", *VIEWS)}
    assert [(view, rows.splitlines()) for view, rows in tables] == [
        (view, [f"`{c.name}` {c.type} | {c.about}" for c in columns]) for view, columns in shown.items()
    ]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "",
            r"the query is empty; give one SELECT, over results, pieces, quantities, measurements, cases, runs, "
            r"statistics$",
        ),
        ("select 1; select 2", "the query is SELECT and SELECT; give one SELECT"),
        ("install httpfs", "the query is LOAD; give one SELECT"),
        ("attach 'x.db'", "the query is ATTACH; give one SELECT"),
        ("explain analyze copy (select 1) to 'x.csv'", "the query is EXPLAIN; give one SELECT"),
        ("copy (select 1) to 'x.csv'; select 1", "the query is COPY and SELECT; give one SELECT"),
        ("set enable_external_access = true", "the query is SET; give one SELECT"),
        ("pragma enable_external_access = true", "the query is SET; give one SELECT"),
        ("call enable_logging(storage := 'file')", "the query is CALL; give one SELECT"),
        ("select * from enable_logging(storage = 'file', storage_config = {'path': 'x.csv'})", "Cannot change"),
        ("select * from query('copy (select 1) to ''x.csv''')", "Expected a single SELECT statement"),
        ("select * from query('set enable_external_access = true')", "Expected a single SELECT statement"),
        # What a value says is no reason for anything.
        ("select 'out of memory: cannot allocate'::int", r"Conversion Error: Could not convert string …$"),
        ("select " + "(" * 5000 + "1" + ")" * 5000, "Max expression depth limit"),
        ("select " + "1" * 200_000, "the query has 200,007 characters; give 200,000 at most"),
        ("select itm from measurements", r"Referenced column \"itm\" not found .* \"item\""),
        # A variable of this function is no table.
        ("select * from runs_here", "Table with name runs_here does not exist"),
    ],
)
def test_a_query_that_cannot_be_answered_is_one_line(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    runs_here = runs
    with pytest.raises(UsageError, match=reason) as caught:
        rows(sql, runs_here)
    assert not any(drawn in str(caught.value) for drawn in ("LINE", "^"))
    assert os.listdir(tmp_path) == ["runs"]


def test_nothing_but_the_numbers_can_be_opened_nor_do_errors_quote_them(runs: list[Path], tmp_path: Path) -> None:
    for cast in ("item::int", "strptime(item, '%Y')", "json_extract(item, '$.a')"):
        with pytest.raises(UsageError) as caught:
            rows(f"select {cast} from measurements", runs)
        assert "DROP" not in str(caught.value)
    file, spec = tmp_path / "secret.txt", runs[0] / "spec.json"
    file.write_text("secret", encoding="utf-8")
    (tmp_path / "other.parquet").write_bytes((runs[0] / "measurements-00000.parquet").read_bytes())
    for source in (
        *(f"read_text('{spec}')", f"'{file}'", f"glob('{tmp_path}/*')"),
        *(f"read_parquet('{tmp_path}/other.parquet')", "read_text('https://localhost/x')"),
        *(f"query('select * from ''{file}''')", f"sniff_csv('{file}')", f"parquet_metadata('{file}')"),
        f"json_execute_serialized_sql(json_serialize_sql('select * from ''{file}'''))",
    ):
        with pytest.raises(UsageError, match=r"Permission Error|Missing Extension|disabled|does not exist"):
            rows(f"select * from {source}", runs)
    settings = dict(rows("select name, value from duckdb_settings()", runs))
    for name in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
        assert settings[name] == "false", name
    assert (settings["lock_configuration"], settings["temp_directory"]) == ("true", "")


@any_name
def test_names_of_directories_are_no_sql(tmp_path: Path) -> None:
    root = tmp_path / "it's; DROP TABLE x --, a=1 🙂"
    run = written(root)
    assert rows("select count(*), min(run) from measurements", [run]) == [(len(rows_of(run)), run.name)]
    link = tmp_path / "link"
    link.symlink_to(run)
    assert rows("select distinct run from measurements", [link]) == [(run.name,)]


def test_a_directory_that_reads_as_a_pattern_is_refused(tmp_path: Path) -> None:
    for name in ("a*", "a?", "a[b]"):
        with pytest.raises(StoreError, match="which DuckDB reads as a pattern; rename it, or link to it") as caught:
            ask("select * from measurements", [written(tmp_path / name)])
        assert str(tmp_path / name) in str(caught.value)


def test_a_damaged_part_is_one_line(runs: list[Path]) -> None:
    part = runs[0] / "measurements-00001.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(StoreError, match=rf"{runs[0].name}' is damaged: measurements-00001\.parquet, all of it: "):
        rows("select avg(value) from measurements", runs)
    cases = runs[1] / "cases-00000.json"
    cases.write_text("[]", encoding="utf-8")
    with pytest.raises(StoreError, match="was changed after the run was complete"):
        rows("select * from cases", runs[1:])


def test_a_million_numbers_are_written_and_asked_for_fast(tmp_path: Path) -> None:
    """`python -m benchmarks store` measures ten million; limits here leave room for a machine that is busy."""
    n_cases, n_pieces, n_tokens = 50, 400, 50
    cases = tuple({"id": f"case {i}"} for i in range(n_cases))
    spec = replace(SPEC, cases=cases)
    values = np.random.default_rng(0).normal(size=(n_pieces, n_tokens))
    started = time.process_time()
    with RunDirectory(tmp_path / spec.id).opened(spec) as run:
        for number, case in enumerate(cases):
            series = [Measurement(case["id"], 0, f"s{p}", "without_this", NATS, values[p]) for p in range(n_pieces)]
            run.write_part(number, [case], series)
        run.finish(spec, n_cases)
    assert time.process_time() - started < 5.0
    started = time.process_time()
    means = dict(rows("select piece, avg(value) from measurements group by piece", [run.path]))
    assert time.process_time() - started < 2.0
    for p in range(n_pieces):
        assert means[f"s{p}"] == pytest.approx(values[p].mean(), abs=1e-12)


ENDLESS = "select count(*) from range(100000000) a, range(100000000) b, range(1000) c"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no other system holds a process to its memory")
# DuckDB counts its buffers, and not what a function allocates for one text or list.
HUNGRY = (
    "select list(range(100000000))",
    "select len(list(range(400000000)))",
    "select len(range(400000000))",
    "select repeat('x', 900000000) from range(3)",
    "select repeat('x', 2000000000)",
    "select repeat('x', 100000) from range(1000000)",
    "select string_agg(repeat('x', 1000000), '') from range(3000)",
    "select list_sort(range(30000000))",
    "select list_transform(range(50000000), lambda x: x::varchar || repeat('a', 25))",
    "select array_agg(repeat('x', 100000)) from range(100000)",
    "with recursive t as (select 'x' as a union all select a || a from t) select count(*) from t",
    "select count(*) from (select range, random() as r from range(100000000) order by r)",
)


@LINUX
def test_a_query_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    """Each in turn in one process, whose peak is looked at, and which has its own limit again afterwards."""
    code = (
        "import resource, sys; from leakmeter.errors import UsageError\n"
        "from leakmeter.results.limits import QueryLimits; from leakmeter.results.query import ask\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "list(ask('select 1', []).rows)\n"
        "before, limits = peak(), resource.getrlimit(resource.RLIMIT_DATA)\n"
        f"for sql in {HUNGRY!r}:\n"
        "    try: print('answered', list(ask(sql, [], QueryLimits(memory='128MiB')).rows))\n"
        "    except UsageError as error: print(error)\n"
        "    assert resource.getrlimit(resource.RLIMIT_DATA) == limits\n"
        "print((peak() - before) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    *said, peak = done.stdout.splitlines()
    refused = "the query needs more than 128MiB of memory; ask for less, or give more with --memory"
    assert said == [refused] * len(HUNGRY)
    # Pages of what was freed between two queries count too.
    assert float(peak) < 1.5 * 128


def test_a_little_memory_is_enough(tmp_path: Path) -> None:
    run = written(tmp_path / "runs")
    sql = "select count(distinct piece) > 0, (select count(*) from cases) from measurements"
    assert list(ask(sql, [run], QueryLimits(memory="64MiB")).rows) == [(True, 2)]


@LINUX
def test_queries_side_by_side_leave_the_limit_of_the_process_as_it_was() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    sql = "select count(*) from range(3000000) a, range(3) b where a.range % 7 = b.range"
    all_there = threading.Barrier(4)
    stack = threading.stack_size(64 * 2**20)  # threads whose stacks alone take what one query may
    try:
        with ThreadPoolExecutor(4) as pool:
            # All four, with their stacks, are there before the first query holds the process to its memory.
            list(pool.map(lambda _: all_there.wait(), range(4)))
            asked = [pool.submit(lambda: list(ask(sql, [], QueryLimits(memory="128MiB")).rows)) for _ in range(8)]
            assert all(one.result() == asked[0].result() for one in asked)
    finally:
        threading.stack_size(stack)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_query_that_takes_too_long_is_ended() -> None:
    began = set(threading.enumerate())
    with pytest.raises(UsageError, match=r"^the query took over 0.01 seconds; ask for less, or give more with --max-s"):
        ask(ENDLESS, [], QueryLimits(max_seconds=0.01))
    assert set(threading.enumerate()) <= began


# One call of a function, and what is planned for long.
SLOW = (
    "select levenshtein(repeat('a', 60000), repeat('b', 60000))",
    "with c0 as (select 1)"
    + "".join(f", c{n} as (select * from c{n - 1} a, c{n - 1} b)" for n in range(1, 40))
    + " select count(*) from c39",
)


@pytest.mark.parametrize("sql", few(SLOW))
def test_what_does_not_look_whether_it_is_late_is_left_behind(tmp_path: Path, sql: str) -> None:
    """Whoever asks goes on, and the program ends as it should."""
    words = ["runs", "query", sql, "--max-seconds", "0.2", "--runs", str(written(tmp_path))]
    done = subprocess.run([sys.executable, "-m", "leakmeter", *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("leakmeter: the query took over 0.2 seconds; ask for less")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("sql", [ENDLESS, SLOW[0]])
def test_ctrl_c_ends_the_command(tmp_path: Path, sql: str) -> None:
    words = ["runs", "query", sql, "--runs", str(written(tmp_path))]
    # It is ignored where tests run in the background.
    code = (
        "import os, signal, threading, time; from leakmeter.cli import main\n"
        "from leakmeter.results.limits import THREAD\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "running = lambda: {thread.ident for thread in threading.enumerate() if thread.name == THREAD}\n"
        "def interrupt():\n"
        "    before = set()\n"
        "    while not (now := running()) & before: before = now; time.sleep(0.5)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        f"main({words!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("leakmeter: interrupted")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_query() -> None:
    began = set(threading.enumerate())
    # It is ignored where tests run in the background.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    interruption = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    interruption.start()
    with pytest.raises(KeyboardInterrupt):
        list(ask(ENDLESS, []).rows)
    interruption.join()
    signal.signal(signal.SIGINT, handler)
    assert set(threading.enumerate()) <= began


def test_the_time_in_which_rows_are_looked_at_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("leakmeter.results.sql.monotonic", lambda: now)
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


def test_who_asks_no_further_leaves_nothing_behind() -> None:
    began = set(threading.enumerate())
    rows = ask("select * from range(10000000)", []).rows
    assert next(rows) == (0,)
    rows.close()  # type: ignore[attr-defined]
    ask("select 1", [])  # its rows are forgotten at once
    with pytest.raises(UsageError, match="Parser Error"):
        ask("selec", [])
    assert set(threading.enumerate()) <= began
