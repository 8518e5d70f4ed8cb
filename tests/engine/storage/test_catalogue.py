"""What lies under a directory of runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.made_runs import SPEC, other, written
from leakmeter.engine.storage.catalogue import (
    Entry,
    Taken,
    complete_runs,
    entries,
    entry_of,
    find_run,
    spec_of,
    summary,
)
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import StoreError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A complete run, an unfinished, a damaged one, a study, and what is none of these."""
    root = tmp_path / "runs"
    written(root)
    written(root, other("unfinished"), parts=1)
    (written(root, other("damaged")) / "spec.json").write_text("[1]", encoding="utf-8")
    for name in ("study-figure_8-laptop-0123456789abcdef", "generate-0123456789abcdef", "notes", "study-mine"):
        (root / name).mkdir()
    (root / "frontier-0123456789abcdef").write_text("a file", encoding="utf-8")
    return root


def test_runs_and_studies_are_listed(root: Path) -> None:
    found = {entry.name: entry for entry in entries(root)}
    assert list(found) == sorted(found)
    words = {"measure": "handmade", "model": "toy of Anna", "dtype": "float64", "device": "cpu"}
    finished = found[SPEC.id].finished
    assert finished is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", finished)
    unfinished, damaged = other("unfinished").id, other("damaged").id
    study, generated = "study-figure_8-laptop-0123456789abcdef", "generate-0123456789abcdef"
    ended = {"version": "0.2.0", "n_cases_finished": 2, "finished": finished}
    assert found == {
        SPEC.id: Entry(SPEC.id, "run", "complete", **words, n_cases=2, **ended),  # type: ignore[arg-type]
        unfinished: Entry(
            unfinished, "run", "unfinished", **words, version="unfinished", n_cases=2, n_cases_finished=1
        ),
        damaged: Entry(damaged, "run", "damaged"),
        study: Entry(study, "study"),
        generated: Entry(generated, "generate"),
    }


def test_an_unfinished_run_of_an_earlier_version_is_listed_too(root: Path) -> None:
    run = root / other("unfinished").id
    for content in (None, "[]", "{"):
        (run / "begun.json").unlink(missing_ok=True)
        if content is not None:
            (run / "begun.json").write_text(content, encoding="utf-8")
        (entry,) = [entry for entry in entries(root) if entry.name == run.name]
        assert entry == Entry(run.name, "run", "unfinished", n_cases_finished=1)
        found = summary(run)
        assert (found.parameters, found.prompts, found.model, found.versions, found.command) == ({}, {}, {}, {}, None)


def test_a_run_is_summed_up(root: Path) -> None:
    found = summary(root / SPEC.id)
    assert found.cost == Taken(seconds=0.5, requests=6, tree_tokens=80, naive_tokens=180, out_of_memory_retries=2)
    assert (found.n_measurements, found.problems) == (6 + 11, ("line 3 is not JSON",))
    unfinished = summary(root / other("unfinished").id)
    assert (unfinished.cost.seconds, unfinished.parameters) == (0.25, SPEC.params)
    with pytest.raises(StoreError, match=r"is damaged: spec.json, all of it: "):
        summary(root / other("damaged").id)
    # Costs that were not kept count as nothing.
    cases = [{}, {"cost": None}, {"cost": {"seconds": 1, "requests": "many"}}, {"cost": {"predicted": {"seconds": 2}}}]
    assert Taken.from_cases(cases) == Taken(1, 0, 0, 0, 0)
    assert spec_of(RunDirectory(root / SPEC.id)) == SPEC


def test_a_run_is_found_by_path_name_and_beginning(root: Path) -> None:
    path = root / SPEC.id
    for given in (str(path), SPEC.id, SPEC.id[:-3]):
        assert find_run(given, root) == path
    for given, reason in (
        ("handmade-", "'handmade-' matches 3 runs under "),
        ("study-figure", "no run 'study-figure'"),
        ("a\x00b", "no run 'a\x00b'"),
    ):
        with pytest.raises(StoreError, match=re.escape(reason)):
            find_run(given, root)


def test_a_run_is_found_by_the_name_that_it_was_given(root: Path, tmp_path: Path) -> None:
    unfinished = root / other("unfinished").id
    RunDirectory(root / SPEC.id).rename("first try")
    RunDirectory(unfinished).rename("second try")
    assert find_run("first try", root) == find_run("first try", tmp_path, root) == root / SPEC.id
    assert find_run("second try", root) == unfinished
    # A name is whole, and comes before the beginning of another run's directory.
    with pytest.raises(StoreError, match="no run 'first'"):
        find_run("first", root)
    RunDirectory(unfinished).rename(SPEC.id[:-3])
    assert find_run(SPEC.id[:-3], root) == unfinished
    RunDirectory(unfinished).rename("first try")
    listed = ", ".join(f"'{path}'" for path in sorted((root / SPEC.id, unfinished)))
    said = f"'first try' is the name of 2 runs, {listed}; give the directory of one"
    with pytest.raises(StoreError, match=re.escape(said)):
        find_run("first try", root)


def test_what_is_no_complete_run_of_its_name_is_left_out_and_told(root: Path, tmp_path: Path) -> None:
    renamed = written(tmp_path / "elsewhere", other("renamed")).rename(root / "renamed")
    lacking = written(root, other("lacking"))
    (lacking / "measurements-00001.parquet").unlink()
    found, problems = complete_runs(root)
    assert (found, len(problems)) == ([root / SPEC.id], 3)
    for path in (root / other("damaged").id, renamed, lacking):
        assert str(path) in str(problems[path])
    assert complete_runs(root / SPEC.id) == ([root / SPEC.id], {})


@pytest.mark.parametrize("name", ["measurements-00001.parquet", "cases-00000.json"])
def test_a_complete_run_that_lacks_a_file_is_damaged(root: Path, name: str) -> None:
    run = root / SPEC.id
    (run / name).unlink()
    entry = entry_of(run)
    assert (entry.state, entry.measure, entry.finished, entry.n_cases_finished) == ("damaged", "handmade", None, None)
    with pytest.raises(StoreError, match=f"is damaged: {name}, all of it: is missing"):
        summary(run)
