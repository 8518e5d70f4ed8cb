"""Every SQL example of the help and the documentation, asked of measured runs, says what the report says.

That every number of a view is the run's own is in `tests/results/test_views.py`.
"""

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
from leakmeter.report.blocks import Text, plain
from leakmeter.report.words import mean_text

Call = Callable[..., Any]
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


def test_there_are_examples() -> None:
    assert len(in_help()) == 2
    assert len(in_documentation()) == 4
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
    assert all(any(row[name] is not None for row in rows) for name in rows[0])
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
            assert any(mean_text(values) in plain(text) for text in texts)
    elif "seconds_a_case" not in sql and "count(*)" not in sql:
        assert len(rows) == len(cases)
