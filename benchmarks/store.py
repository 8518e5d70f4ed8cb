"""Ten million numbers written as a run, and asked for again: rows a second, and seconds a query.

Parts are what a run of `leakmeter influence` writes: one case each, a series of response tokens a piece. What a part
takes includes waiting until the disk has it. Queries are answered by `leakmeter runs query`'s way, opening included.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from leakmeter.core.measure import NATS, Measurement
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.results.query import ask

NAME: Final = "store"
_QUERIES: Final = {
    "mean a piece": "select piece, avg(value) from measurements group by piece",
    "mean a case and piece": "select item, piece, avg(value) from measurements group by all",
    "one case": "select * from measurements where item = 'case 7'",
}
_TIMES: Final = 5


def rows(n_cases: int = 1000, n_pieces: int = 200, n_tokens: int = 50) -> Iterator[dict[str, Any]]:
    """What writing took, then each query.

    Args:
        n_cases: parts of the run.
        n_pieces: series of each.
        n_tokens: numbers of each series.
    """
    n_rows = n_cases * n_pieces * n_tokens
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        path = written(Path(folder), n_cases, n_pieces, n_tokens)
        seconds = time.perf_counter() - started
        n_bytes = sum(file.stat().st_size for file in path.iterdir())
        yield {"work": "write", "rows": n_rows, "s": seconds, "rows_per_s": n_rows / seconds, "bytes": n_bytes}
        for work, sql in _QUERIES.items():
            times = []
            for _ in range(_TIMES):
                started = time.perf_counter()
                n_found = sum(1 for _ in ask(sql, [path]).rows)
                times.append(time.perf_counter() - started)
            yield {"work": work, "rows": n_rows, "s": statistics.median(times), "rows_found": n_found}


def written(root: Path, n_cases: int, n_pieces: int, n_tokens: int) -> Path:
    """A complete run of random numbers; returns its directory."""
    cases = tuple({"id": f"case {i}"} for i in range(n_cases))
    spec = RunSpec("influence", {}, {}, {"name": "random"}, cases, "0")
    values = np.random.default_rng(0).normal(size=(n_pieces, n_tokens))
    with RunDirectory(root / spec.id).opened(spec) as run:
        for number, case in enumerate(cases):
            series = [Measurement(case["id"], 0, f"s{p}", "without_this", NATS, values[p]) for p in range(n_pieces)]
            run.write_part(number, [case], series)
        run.finish(spec, n_cases)
    return run.path
