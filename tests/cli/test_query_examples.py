"""Every SQL example of the help and the documentation, asked of measured runs, says what the report says."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.places import DOCS
from leakmeter.core.quantity import Quantity
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.report.findings import mean_text

Call = Callable[..., Any]
Rows = list[dict[str, Any]]
CASES = [
    {"id": f"c{i}", "context": f"{name} Ek lives in Graz. {name} sang {i} songs. Bo left.", "query": "Who?"}
    for i, name in enumerate(("Anna", "Cora", "Dora"))
]


def in_documentation() -> list[str]:
    # What a page says of the instrument that it adds is asked by that page's test.
    paths = [path for path in sorted(DOCS.rglob("*.md")) if path.name != "extending.md"]
    pages = "".join(path.read_text(encoding="utf-8") for path in paths)
    return re.findall(r'^leakmeter query "([^"]+)"', pages, re.MULTILINE)


def in_help() -> list[str]:
    from leakmeter.cli.query import query

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


def reported(runs: Path) -> list[tuple[str, InfluenceResult]]:
    """Run, and result of a case."""
    return [(run.path.name, case) for run in opened(runs) for case in run.cases]


def opened(runs: Path) -> list[Any]:
    return [leakmeter.load_run(path) for path in sorted(runs.iterdir())]


def pieces(rows: Rows, runs: Path) -> None:
    """Whatever columns of pieces an example asks for, of the pieces that it asks for."""
    expected = [
        {"run": run, "item": case.id, "piece": piece.name, "of": piece}
        for run, case in reported(runs)
        for piece in case.pieces
        if not piece.below_noise_floor
    ]
    assert len(rows) == len(expected) > 0

    def row_of(told: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(told[name] if name in told else getattr(told["of"], name) for name in rows[0])

    assert Counter(tuple(row.values()) for row in rows) == Counter(map(row_of, expected))
    if "run" not in rows[0] and "signed_nats" not in rows[0]:
        assert [row["nats"] for row in rows] == sorted((row["nats"] for row in rows), reverse=True)


def of_gate(rows: Rows, runs: Path) -> None:
    """The numbers of a run, as a gate and the report have them."""
    expected = [
        {"run": run.path.name, "quantity": name, "value": number.value, "unit": number.unit}
        | dict(zip(("low", "high"), number.interval or (None, None), strict=True))
        for run in opened(runs)
        for name, number in run.quantities().items()
    ]
    of_rows = ["quantity", "value", "low", "high", "unit", *(["run"] if "run" in rows[0] else [])]
    assert Counter(tuple(row[n] for n in of_rows) for row in rows) == Counter(
        tuple(row[n] for n in of_rows) for row in expected
    )


def quantities_of_cases(rows: Rows, runs: Path) -> None:
    known = {one.name.replace(".", "_"): one for one in InfluenceResult.quantities if isinstance(one, Quantity)}
    expected = [
        tuple(case.id if name == "id" else known[name].of(case) for name in rows[0]) for _, case in reported(runs)
    ]
    assert Counter(tuple(row.values()) for row in rows) == Counter(expected)
    assert [row["influence"] for row in rows] == sorted((row["influence"] for row in rows), reverse=True)


def wholes(rows: Rows, runs: Path) -> None:
    expected = Counter(tuple(getattr(case, name) for name in rows[0]) for _, case in reported(runs))
    assert Counter(tuple(row.values()) for row in rows) == expected


def means(rows: Rows, runs: Path) -> None:
    for run in opened(runs):
        values = [case.whole_nats for case in run.cases]
        told = {row["temperature"]: row["mean_nats"] for row in rows}
        assert told[run.cases[0].temperature] == pytest.approx(sum(values) / len(values), rel=1e-12)
        # The report's own mean, to the digits that its headline shows.
        assert mean_text(values) in run.findings.headline


def counts(rows: Rows, runs: Path) -> None:
    measured = [one for run in opened(runs) for one in run.measurements().to_dict("records")]
    expected = Counter((one["unit"], one["statistic"]) for one in measured)
    assert {(row["unit"], row["statistic"]): row["count_star()"] for row in rows} == expected
    assert [tuple(row.values())[:2] for row in rows] == sorted(expected)


def times(rows: Rows, runs: Path) -> None:
    expected = [sum(case.cost.seconds for case in run.cases) / len(run.cases) for run in opened(runs)]
    # A run keeps its seconds to the millisecond.
    assert sorted(row["seconds_a_case"] for row in rows) == pytest.approx(sorted(expected), abs=1e-3)
    (model,) = {(row["model"], row["dtype"], row["n_cases"]) for row in rows}
    assert model == ("toy", "float64", len(CASES))


def texts(rows: Rows, runs: Path) -> None:
    expected = [(case.id, case.template, case.context[:40]) for _, case in reported(runs)]
    assert sorted((row["id"], row["template"], row["context"]) for row in rows) == sorted(expected)


CHECKS: dict[str, Callable[[Rows, Path], None]] = {
    "from pieces": pieces,
    "from quantities": of_gate,
    "from results": quantities_of_cases,
    "avg(whole_nats)": means,
    "left(context, 40)": texts,
    "from influence_results": wholes,
    "count(*)": counts,
    "seconds_a_case": times,
}
"""By what an example has in it, the first that fits."""


def test_there_are_examples() -> None:
    assert len(in_help()) == 2
    assert len(in_documentation()) == 10
    # Raw values are for who knows what they hold.
    assert [sql for sql in EXAMPLES if "measurements" in sql] == [
        "select unit, statistic, count(*) from measurements group by all order by all"
    ]


@pytest.mark.parametrize("sql", EXAMPLES, ids=lambda sql: sql[:70])
def test_an_example_says_what_the_report_says(sql: str, runs: Path, cli: Call) -> None:
    check = next(check for part, check in CHECKS.items() if part in sql)
    ended = cli("query", sql, "--runs", runs, "--json")
    assert (ended.code, ended.err) == (0, "")
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert rows
    check(rows, runs)
