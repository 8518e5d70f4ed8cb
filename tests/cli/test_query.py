"""`leakmeter runs query`: SQL over runs, as a table, JSON lines and CSV, and every example of it.

That every number of a view is the run's own is in `tests/results/test_views.py`.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import NOTE
from helpers.places import DOCS
from leakmeter.cli.query import query, write_rows
from leakmeter.report.blocks import Text, plain
from leakmeter.report.words import mean_text
from leakmeter.results.query import all_views

Call = Callable[..., Any]
ENDLESS = "select count(*) from range(100000000) a, range(100000000) b"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of a note."""
    folder = tmp_path_factory.mktemp("kept")
    leakmeter.influence("toy", context=NOTE, query="Who?", response="Anna", out=folder)
    return folder


@pytest.fixture
def ask(cli: Call, kept: Path) -> Call:
    """`leakmeter runs query` in a directory with the run of a note."""
    shutil.copytree(kept, "runs")
    return lambda *words: cli("runs", "query", *words)


def test_a_mean_a_piece_is_that_of_the_library(ask: Call) -> None:
    sql = "select piece, avg(value) as mean_nats, count(*) as n from measurements where unit = 'nats' group by piece"
    sql += " order by piece"
    ended = ask("--json", sql)
    assert (ended.code, ended.err) == (0, "")
    rows = [json.loads(line) for line in ended.out.splitlines()]
    (run,) = Path("runs").iterdir()
    assert rows == leakmeter.query(sql, run).to_dict("records") != []
    table = ask(sql).out.splitlines()
    assert (table[0].split(), len(table)) == (["piece", "mean_nats", "n"], len(rows) + 1)
    # One run, or a directory of them.
    assert ask("--json", sql, "--runs", run).out == ended.out


def test_disclosures_beside_a_redaction_are_those_of_influence(ask: Call) -> None:
    for disclosures in (False, True):
        leakmeter.redact("toy", [{"id": "a", "context": NOTE, "query": "Who?", "response": "Anna"}],
                         max_loss=5, disclosures=disclosures, out="runs")  # fmt: skip
    ended = ask("--json", "select distinct measure from disclosures")
    assert (ended.code, ended.err) == (0, "")
    assert {json.loads(line)["measure"] for line in ended.out.splitlines()} <= {"influence"}


def test_damaged_runs_are_left_out_and_told(ask: Call, measure: Call) -> None:
    assert measure(seed=1).code == 0
    first, second = sorted(Path("runs").iterdir())
    (first / "spec.json").write_text("{", encoding="utf-8")
    ended = ask("--csv", "select id from runs")
    assert ended.out == f'"id"\n"{second.name}"\n'
    assert ended.err.startswith(f"left out 1 damaged run; the first: run '{first}' is damaged: spec.json, all of it: ")


def test_every_kind_of_value(ask: Call) -> None:
    sql = (
        "select null as nothing, 'nan'::double as nan, 1.25 as exact, true as yes, '-inf'::double as infinite, "
        "[1, 2] as list, {'a': 1} as struct, 'a,\"b\"' || chr(13) || chr(10) as text, 'x'::blob as bytes, "
        "date '2026-01-02' as day, 2::hugeint as big"
    )
    (row,) = (json.loads(line) for line in ask("--json", sql).out.splitlines())
    plain = {"nothing": None, "nan": None, "exact": 1.25, "yes": True, "infinite": "-Infinity", "list": [1, 2]}
    others = {"struct": {"a": 1}, "text": 'a,"b"\r\n', "bytes": "78", "day": "2026-01-02", "big": 2}
    assert row == {**plain, **others}
    names, values = csv.reader(io.StringIO(ask("--csv", sql).out, newline=""))
    assert names == list(row)
    assert values == ["", "nan", "1.25", "true", "-inf", "[1, 2]", '{"a": 1}', 'a,"b"\r\n', '"78"', "2026-01-02", "2"]
    assert ask(sql).code == 0


def test_an_answer_is_cut_and_made_harmless_where_somebody_looks(ask: Call) -> None:
    sql = "select range as n, repeat('x', 500) as wide from range(150)"
    ended = ask(sql)
    # A text of 80 characters and a number take two lines of 80.
    assert len(ended.out.splitlines()) == 1 + 2 * 100
    assert max(map(len, ended.out.splitlines())) <= 80
    assert ended.err == "the first 100 rows; --json or --csv writes all\n"
    assert [len(ask(option, sql).out.splitlines()) for option in ("--json", "--csv")] == [150, 151]
    shown = ask("select chr(27) || '[31m[bold]red' as a, chr(10) as \"b[bold]\x1b\"").out
    assert ("\x1b" in shown, "[31m[bold]red" in shown, "b[bold]␛" in shown) == (False, True, True)


def test_the_schema_is_told_without_runs(cli: Call) -> None:
    rows = [json.loads(line) for line in cli("runs", "query", "--schema", "--json").out.splitlines()]
    assert rows == [
        {"view": view, "column": column.name, "type": column.type, "about": column.about}
        for view, columns in all_views().items()
        for column in columns
    ]
    shown = cli("runs", "query", "--schema").out
    for row in rows:
        assert row["column"] in shown
        assert row["about"] == "" or row["about"].split()[-1] in shown


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["selec"], 'the query cannot be answered: Parser Error: syntax error at or near "selec"'),
        (["copy measurements to 'x.csv'"], "the query is COPY; give one SELECT, over results, pieces, quantities, me"),
        ([], "give either a query, in quotation marks, or --schema"),
        (["select 1", "--schema"], "give either a query, in quotation marks, or --schema"),
        (["select 1", "--json", "--csv"], "--json and --csv do not go together; give one of them"),
        (["--json", "select 1 as a, 2 as a"], "two columns have the name 'a', which a JSON object cannot hold; rename"),
        (["select 1", "--runs", "nowhere"], "no directory of runs 'nowhere' (No such file or directory)"),
        (["select '\udcff'"], "the query is no valid Unicode (half a surrogate pair, or a byte that is no UTF-8)"),
        (["select 1", "--memory", "lots"], "memory is 'lots'; give a number with its unit, such as 512MiB or 2GiB"),
        (["select 1", "--max-seconds", "0"], "max-seconds is 0.0; it has to be above 0, and 1,000,000 at most"),
        (["select 1", "--runs", "."], "no finished run under '.'; name their directory with --runs"),
        ([ENDLESS, "--max-seconds", "0.01"], "the query took over 0.01 seconds; ask for less, or give more with --max"),
        pytest.param(
            *(["select len(list(range(400000000)))", "--memory", "64MiB"], "the query needs more than 64MiB of memory"),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="no other system limits an address space"),
        ),
    ],
)
def test_what_cannot_be_asked_is_one_line(ask: Call, words: list[str], reason: str) -> None:
    ended = ask(*words)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"leakmeter: {reason}")
    assert sorted(path.name for path in Path().iterdir()) == ["runs"]


def test_a_query_of_a_ledger_has_the_same_limits(cli: Call) -> None:
    ended = cli("ledger", "query", "select 1", "--memory", "lots")
    assert (ended.code, ended.err.startswith("leakmeter: memory is 'lots'")) == (2, True)
    for words in (("runs", "query"), ("ledger", "query")):
        assert "[default: 4GiB]" in " ".join(cli(*words, "--help-all").out.replace("│", " ").split())


CASES = [
    {"id": f"c{i}", "context": f"{name} Ek lives in Graz. {name} sang {i} songs. Bo left.", "query": "Who?"}
    for i, name in enumerate(("Anna", "Cora", "Dora"))
]


def in_documentation() -> list[str]:
    # What a page says of the instrument that it adds is asked by that page's test.
    paths = [path for path in sorted(DOCS.rglob("*.md")) if path.name != "extending.md"]
    pages = "".join(path.read_text(encoding="utf-8") for path in paths)
    return re.findall(r'^leakmeter runs query "([^"]+)"', pages, re.MULTILINE)


def in_help() -> list[str]:
    return [" ".join(sql.split()) for sql in re.findall(r'"(select [^"]+)"', query.__doc__ or "", re.DOTALL)]


EXAMPLES = [*in_help(), *in_documentation()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three cases with two responses each, at two temperatures."""
    folder = tmp_path_factory.mktemp("queried")
    how: dict[str, Any] = {"samples": 2, "max_new_tokens": 4, "out": folder}
    for temperature in (1.0, 0.5):
        leakmeter.influence("toy", CASES, temperature=temperature, **how)
    return folder


def test_there_are_examples() -> None:
    assert (len(in_help()), len(in_documentation())) == (2, 4)
    # Raw values are for those who know what they hold.
    assert not [sql for sql in EXAMPLES if "measurements" in sql]


@pytest.mark.parametrize("sql", EXAMPLES, ids=lambda sql: sql[:70])
def test_an_example_says_what_the_report_says(sql: str, runs: Path, cli: Call) -> None:
    ended = cli("runs", "query", sql, "--runs", runs, "--json")
    assert (ended.code, ended.err) == (0, "")
    rows = [json.loads(line) for line in ended.out.splitlines()]
    opened = [leakmeter.load_run(path) for path in sorted(runs.iterdir())]
    cases = [case for run in opened for case in run.cases]
    if "from disclosures" in sql:
        listed = [(case.id, found.text, found.nats) for case in cases for found in case.disclosed]
        assert sorted((row["item"], row["text"], row["nats"]) for row in rows) == sorted(listed)
        return
    # So few cases have no interval.
    assert all(any(row[name] is not None for row in rows) for name in rows[0] if name not in ("low", "high"))
    if "from pieces" in sql:
        shown = [piece for case in cases for piece in case.pieces if not piece.below_noise_floor]
        numbers = {name: Counter(getattr(piece, name) for piece in shown) for name in rows[0] if name.endswith("nats")}
        assert numbers == {name: Counter(row[name] for row in rows) for name in numbers}
    elif "from quantities" in sql:
        numbers = [number for run in opened for number in run.quantities().values()]
        told = Counter(number.value for number in numbers if not number.is_lower_bound)
        assert Counter(row["value"] for row in rows) == told
    elif "avg(whole_nats)" in sql:
        means = {row["temperature"]: row["mean_nats"] for row in rows}
        for run in opened:
            values = [case.whole_nats for case in run.cases]
            assert means[run.cases[0].temperature] == pytest.approx(sum(values) / len(values), rel=1e-12)
            # The report's own mean, to the digits that its text shows.
            texts = [block.text for block in run.report().blocks if isinstance(block, Text)]
            assert any(mean_text(values, range(len(values))) in plain(text) for text in texts)
    elif "seconds_a_case" not in sql and "count(*)" not in sql:
        assert len(rows) == len(cases)


def table(capsys: pytest.CaptureFixture[str], columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    write_rows(columns, iter(rows), json=False, csv=False)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
@pytest.mark.parametrize("n_columns", [1, 6, 19, 60])
def test_no_column_is_left_out_and_no_number_cut(
    width: int, n_columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    columns = tuple(f"largest_running_nats_{n}" for n in range(n_columns))
    rows: list[tuple[Any, ...]] = [
        tuple((-1234.5 - n, f"word{n} of-a.longer/text_{n}", None, 10_000 + n)[n % 4] for n in range(n_columns))
        for _ in range(2)
    ]
    lines = table(capsys, columns, rows)
    assert max(map(len, lines)) <= width
    said = "".join("".join(lines).split())
    for n in range(n_columns):
        if n % 4 != 2:
            value = str(rows[0][n]).split()[-1] if n % 4 != 1 else f"word{n}"
            assert said.count(value) >= 2
    words = " ".join(lines).split()
    for n in range(n_columns):
        assert str(n) in words or f"nats_{n}" in " ".join(words)
        if n % 4 == 0:
            assert words.count(str(rows[0][n])) >= 2


def test_a_table_that_does_not_fit_shows_each_row_by_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = ("run", "value", "low", "high", "unit")
    row = ("influence-38f2a9c1d0e4b7a6", 38.4085, 22.39, 53.1111, "nats")
    assert table(capsys, columns, [row]) == [
        "row 1", "run    influence-38f2a9c1d0e4b7a6", "value  38.4085", "low    22.39", "high   53.1111", "unit   nats",
    ]  # fmt: skip
    assert table(capsys, columns * 3, [])[:2] == ["no rows, of these columns:", "run"]
    monkeypatch.setenv("COLUMNS", "60")
    assert table(capsys, columns, [row]) == [
        "run                           value    low     high  unit",
        "influence-38f2a9c1d0e4b7a6  38.4085  22.39  53.1111  nats",
    ]
    monkeypatch.setenv("COLUMNS", "50")
    assert table(capsys, columns, [row]) == [
        "run                    value    low     high  unit", "influence-           38.4085  22.39  53.1111  nats",
        "38f2a9c1d0e4b7a6",
    ]  # fmt: skip
