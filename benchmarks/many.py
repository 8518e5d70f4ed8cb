"""Very many cases: files, seconds and memory of one large run, and of a catalogue of many runs.

`python -m benchmarks many` measures one case with the toy (25 sentences, 40 response tokens), writes it again and again
under other ids, and reads what it wrote; each row comes from a process of its own. So the storage alone is measured: no
model, no workers. For 10⁶ to 10⁹ cases `on_paper` multiplies what was measured, for runs of 100,000 cases.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import leakmeter
from benchmarks.scale import PUT_SECONDS
from leakmeter.engine.measure import WRITERS
from leakmeter.engine.storage.catalogue import entries, spec_of
from leakmeter.engine.storage.parts import Part, cases_of_part, cases_of_run
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.results.query import ask

NAME: Final = "many"
SLICE: Final = 100_000
"""Cases of one run, of which a large measurement is made of many."""
TINY: Final[dict[str, Any]] = {"cases": (30,), "runs": (5,), "sentences": 3}
_SQL: Final = "select count(*), avg(value) from measurements"


def rows(
    cases: tuple[int, ...] = (1_000, 10_000, SLICE), runs: tuple[int, ...] = (1_000, 10_000), sentences: int = 25
) -> Iterator[dict[str, Any]]:
    """One run of each number of cases, then a catalogue of each number of runs, then larger ones on paper."""
    found: dict[str, Any] = {}
    for n_cases in cases:
        found = _alone(_large_run, n_cases, sentences)
        yield found
    for n_runs in runs:
        yield _alone(_catalogue, n_runs, sentences)
    for n_cases in (10**6, 10**7, 10**8, 10**9):
        yield on_paper(n_cases, found)


def on_paper(n_cases: int, measured: dict[str, Any]) -> dict[str, Any]:
    """What `n_cases` take, in runs of `SLICE` cases that are measured like the measured one."""
    n_groups = n_cases * measured["files"] / 2 / measured["cases"]
    n_puts = 2 * n_cases + 2 * n_groups
    return {
        "work": "on paper",
        "cases": n_cases,
        "runs": max(1, n_cases // SLICE),
        "objects": round(2 * n_groups),
        "gigabytes": n_cases * measured["bytes"] / measured["cases"] / 1e9,
        "puts": round(n_puts),
        "put_hours_per_driver": n_puts * PUT_SECONDS / WRITERS / 3600 / max(1, n_cases // SLICE),
        "driver_mib_per_run": measured["peak_mib"],
    }


def _large_run(n_cases: int, n_sentences: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        spec, part = _measured(n_sentences)
        started = time.perf_counter()
        path = _written(Path(folder), spec, part, n_cases)
        written_s = time.perf_counter() - started
        files = [file for file in path.iterdir() if not file.name.startswith((".", "spec"))]
        n_bytes = sum(file.stat().st_size for file in files)
        started = time.perf_counter()
        for _ in cases_of_run(RunDirectory(path)):
            pass
        read_s = time.perf_counter() - started
        started = time.perf_counter()
        list(ask(_SQL, [path]).rows)
        return {
            "work": "one run",
            "cases": n_cases,
            "files": len(files),
            "bytes": n_bytes,
            "spec_bytes": (path / "spec.json").stat().st_size,
            "written_ms_per_case": 1e3 * written_s / n_cases,
            "read_ms_per_case": 1e3 * read_s / n_cases,
            "sql_s": time.perf_counter() - started,
            "peak_mib": _peak_mib(),
        }


def _catalogue(n_runs: int, n_sentences: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spec, part = _measured(n_sentences)
        for number in range(n_runs):
            _written(root, replace(spec, params={**spec.params, "seed": number}), part, 1)
        started = time.perf_counter()
        listed = entries(root)
        listed_s = time.perf_counter() - started
        paths = [root / entry.name for entry in listed]
        started = time.perf_counter()
        list(ask("select model, count(*) from runs group by model", paths).rows)
        runs_s = time.perf_counter() - started
        started = time.perf_counter()
        list(ask(_SQL, paths).rows)
        return {
            "work": "catalogue",
            "runs": n_runs,
            "list_s": listed_s,
            "sql_of_runs_s": runs_s,
            "sql_of_measurements_s": time.perf_counter() - started,
            "peak_mib": _peak_mib(),
        }


def _measured(n_sentences: int) -> tuple[RunSpec, Part]:
    """What a run says of itself, and its one case."""
    context = " ".join(f"Guest {number} paid {number * 37} crowns." for number in range(n_sentences))
    case = {"context": context, "query": "Who paid most?", "response": "The guest who came last paid most of all"}
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(leakmeter.influence("toy", [case], unit="sentence", out=folder).path)
        (part,) = cases_of_part(run, 0)
        return spec_of(run), part


def _written(root: Path, spec: RunSpec, part: Part, n_cases: int) -> Path:
    """A complete run of a case under other ids, a part each."""
    texts, measurements = part
    spec = replace(spec, cases=tuple({**spec.cases[0], "id": str(number)} for number in range(n_cases)))
    with RunDirectory(root / spec.id).opened(spec) as run:
        for number in range(n_cases):
            own = [replace(measurement, item=str(number)) for measurement in measurements]
            run.write_part(number, [{**texts, "id": str(number)}], own)
        run.finish(spec, n_cases)
    return run.path


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _alone(work: Any, *arguments: Any) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: dict[str, Any] = pool.apply(work, arguments)
    return found
