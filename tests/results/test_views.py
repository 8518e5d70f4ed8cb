"""Views of typed results: every number of a run's results and quantities, of every measure, is in them as it is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.each_run import runs_of_each
from leakmeter.core import registry
from leakmeter.core.quantity import Quantity
from leakmeter.core.record import part_fields, scalar_fields
from leakmeter.results import views
from leakmeter.results.query import ask
from leakmeter.results.run import Run

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def runs() -> list[Path]:
    """One of each measure at least."""
    return sorted(runs_of_each().iterdir())


def rows(view: str, runs: list[Path], where: str = "true") -> Rows:
    answer = ask(f"select * from {view} where {where}", runs)
    assert answer.left_out == ()
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and (type(one) is type(other) or isinstance(one, float | int))


def test_results_are_the_quantities_of_cases(runs: list[Path]) -> None:
    assert {leakmeter.load_run(path).measure for path in runs} == set(registry.instruments())
    found = {(row["run"], row["number"]): row for row in rows("results", runs)}
    n = 0
    for run in map(leakmeter.load_run, runs):
        for number, case in enumerate(run.cases):
            row = found[run.path.name, number]
            assert (row["id"], row["measure"]) == (case.id, run.measure)
            own = {
                one.name.replace(".", "_"): None
                if one.lower_bound and one.lower_bound.holds(case)
                else one.compute(case)
                for one in run.kind.quantities
                if isinstance(one, Quantity)
            }
            assert all(same(row[name], value) for name, value in own.items())
            others = row.keys() - own.keys() - {"run", "measure", "number", "id"}
            assert {row[name] for name in others} == {None}
            n += 1
    assert n == len(found)


def test_quantities_are_those_of_the_run(runs: list[Path]) -> None:
    found = {(row["run"], row["quantity"]): row for row in rows("quantities", runs)}
    # A lower bound is no value.
    expected = {
        (run.path.name, name): one
        for run in map(Run.read, runs)
        for name, one in run.quantities().items()
        if not one.is_lower_bound
    }
    assert found.keys() == expected.keys()
    for key, number in expected.items():
        row = found[key]
        assert (row["value"], row["unit"], row["n_cases"]) == (number.value, number.unit, number.n)
        assert (row["low"], row["high"]) == (number.interval or (None, None))


@pytest.mark.long
def test_the_views_of_a_measure_are_its_records(runs: list[Path]) -> None:
    for run in map(leakmeter.load_run, runs):
        where = f"run = '{run.path.name}'"
        own = rows(f"{run.measure}_results", runs, where)
        assert [row["id"] for row in own] == [case.id for case in run.cases]
        for row, case in zip(own, run.cases, strict=True):
            assert all(same(row[name], getattr(case, name)) for name in scalar_fields(type(case)))
        for field, kind in part_fields(run.kind).items():
            parts = [(case.id, i, part) for case in run.cases for i, part in enumerate(views.parts_of(case, field))]
            told = rows(f"{run.measure}_{field.replace('.', '_')}", runs, where)
            assert len(told) == len(parts)
            for row, (id_, place, part) in zip(told, parts, strict=True):
                assert (row["item"], row["place"]) == (id_, place)
                assert all(same(row[name], getattr(part, name)) for name in scalar_fields(kind))


def test_pieces_have_the_main_number_of_each(runs: list[Path]) -> None:
    found = rows("pieces", runs)
    expected = [
        (run.path.name, case.id, place, getattr(part, at.name), getattr(part, at.nats))
        for run in map(leakmeter.load_run, runs)
        if (at := run.kind.pieces_at) is not None
        for case in run.cases
        for place, part in enumerate(getattr(case, at.field))
    ]
    assert [tuple(row[name] for name in ("run", "item", "place", "piece", "nats")) for row in found] == expected
    assert {row["measure"] for row in found} == {"influence", "icl", "fisher", "susceptibility", "private_generation"}


def test_ranks_go_by_the_main_number(runs: list[Path]) -> None:
    ranked: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for row in rows("pieces", runs, "rank is not null"):
        ranked.setdefault((row["run"], row["item"], row["kind"]), []).append((row["rank"], row["nats"]))
    assert {key[0].partition("-")[0] for key in ranked} == {"influence", "private_generation", "susceptibility"}
    for of_case in ranked.values():
        by_rank = [nats for _, nats in sorted(of_case)]
        assert by_rank == sorted(by_rank, reverse=True)


def test_runs_of_a_measure_that_is_not_there_are_left_out(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    own = registry._own()
    monkeypatch.setattr(registry, "_own", lambda: {name: one for name, one in own.items() if name != "icl"})
    answer = ask("select distinct measure from results", runs)
    assert "icl" not in {row[0] for row in answer.rows}
    assert len(answer.left_out) == 2
    assert all("no measure named 'icl'" in problem for problem in answer.left_out)


def test_a_view_is_made_only_where_it_is_named(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(Run, "__iter__", never)
    assert list(ask("select count(*) > 0 from measurements", runs).rows) == [(True,)]
    with pytest.raises(AssertionError):
        ask("select count(*) from RESULTS", runs)
