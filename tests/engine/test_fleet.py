"""Runs that workers measure: the numbers, the id and the bytes of one process, whatever dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.engine import Here
from leakmeter.backends.toy import Toy
from leakmeter.core.backend import Capabilities
from leakmeter.core.case import Case, Document
from leakmeter.core.item import Prepared
from leakmeter.core.loaded import LoadedCases
from leakmeter.core.request import Scores
from leakmeter.core.tree import Chunk
from leakmeter.engine.groups import groups_of
from leakmeter.engine.loading import KeptModel, load
from leakmeter.engine.measure import Callbacks, measure_cases
from leakmeter.engine.options import ModelOptions
from leakmeter.engine.storage import export
from leakmeter.engine.storage.catalogue import summary
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import spec_of
from leakmeter.engine.workers import MIXED, Fleet, PartWorker, Workers
from leakmeter.errors import CapabilityError, ModelError, UsageError, WindowError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

SETTINGS, MEASURE = PromptSettings(), Influence(max_new_tokens=5)
CASES = tuple(
    Case(f"c{i}", (Document("a", f"Anna sang {i} songs. Bo ate."),), "Who?", "Anna" if i % 2 else None)
    for i in range(7)
)


def worker(number: int = 0) -> PartWorker:
    return PartWorker(Toy, allow_mixed=False)


def fleet(engine: Here | None = None, n: int = 2, **how: Any) -> Fleet:
    return Fleet(engine or Here(worker), n, **{"allow_mixed": False, **how})


def prepared(backend: Any) -> tuple[Prepared, ...]:
    return LoadedCases(CASES).prepared(backend, SETTINGS, MEASURE)[0]


def finished(
    backend: Any, folder: Path, size: int = 1, callbacks: Callbacks | None = None, measure: Influence = MEASURE
) -> dict[str, bytes]:
    spec = spec_of(MEASURE, "influence", SETTINGS, backend, CASES, group_size=size)
    given = prepared(backend)
    with RunDirectory(folder / spec.id).opened(spec) as directory:
        parts = list(
            measure_cases(
                backend,
                measure,
                given,
                directory,
                callbacks or Callbacks(),
                groups=groups_of([None] * len(given), size),
            )
        )
        assert [texts["id"] for texts, _ in parts] == [case.id for case in CASES]
        directory.finish(spec, len(groups_of([None] * len(given), size)))
    export.write(folder / spec.id, folder / "exported")
    files = {path.name: path.read_bytes() for path in (folder / "exported").iterdir()}
    assert len(files) == 3
    return files


@pytest.mark.parametrize(("size", "n_workers"), [(1, 3), (2, 1), (3, 3)])
def test_the_export_is_that_of_one_process(tmp_path: Path, size: int, n_workers: int) -> None:
    found = finished(fleet(n=n_workers), tmp_path / "fleet", size)
    assert found == finished(Toy(), tmp_path / "alone", size)


def test_a_worker_that_dies_changes_nothing(tmp_path: Path) -> None:
    engine = Here(worker, lambda number, todo: number < 2 and todo.origins[0].case.id in ("c2", "c5"))
    assert finished(Toy(), tmp_path / "alone") == finished(fleet(engine), tmp_path / "fleet")
    assert engine.n_started == 4


def test_a_case_that_kills_its_worker_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    engine = Here(worker, lambda number, todo: todo.origins[0].case.id == "c3")
    with pytest.raises(ModelError, match=r"'c3' could not be measured: its worker died 3 times.*other 6 parts"):
        finished(fleet(engine), tmp_path / "fleet")
    # The same command goes on with it.
    again = Here(worker)
    assert finished(Toy(), tmp_path / "alone") == finished(fleet(again), tmp_path / "fleet")
    assert [todo.origins[0].case.id for _, todo in again.done] == ["c3"]


class Picky(Influence):
    __slots__ = ()

    def trial(self, item: Any) -> Any:
        if item.id in ("c1", "c6"):
            raise WindowError(f"case '{item.id}' is too long")
        return super().trial(item)


def test_cases_that_cannot_be_measured_are_told_when_all_others_are(tmp_path: Path) -> None:
    engine = Here(worker)
    said = r"'c1', 'c6' could not be measured: case 'c1' is too long; the other 5 parts"
    with pytest.raises(WindowError, match=said):
        finished(fleet(engine), tmp_path, measure=Picky(max_new_tokens=5))
    assert len(engine.done) == 7


def test_in_memory_the_numbers_are_those_of_one_process() -> None:
    found, alone = (
        [list(map(repr, some)) for _, some in measure_cases(model, MEASURE, prepared(model), None, Callbacks())]
        for model in (fleet(), Toy())
    )
    assert found == alone
    assert all(alone)


def test_progress_and_a_run_say_what_each_worker_did(tmp_path: Path) -> None:
    told: list[int] = []
    finished(fleet(), tmp_path, 2, Callbacks(on_case=lambda number, case_id: told.append(number)))
    assert told == [0, 2, 4, 6, 7]
    (path,) = (one for one in tmp_path.iterdir() if one.name != "exported")
    found = summary(path)
    (did,) = found.workers
    assert (did.worker, did.n_cases) == (worker().describe().worker, len(CASES))
    assert did.tree_tokens == found.cost.tree_tokens > 0
    assert found.slowest_part is not None
    first = 2 * found.slowest_part.number
    assert found.slowest_part.ids == tuple(case.id for case in CASES[first : first + 2])
    assert found.slowest_part.worker == did.worker


def told(**changed: Any) -> Any:
    """A worker that says so of itself."""
    return SimpleNamespace(describe=lambda: replace(worker().describe(), **changed))


@pytest.mark.parametrize(
    ("changed", "named", "may_be_mixed"),
    [
        ({"weights_sha256": "0" * 64}, "weights_sha256", False),
        ({"libraries": {"torch": "1"}}, "torch is 1 there", False),
        ({"dtype": "float16"}, "dtype", False),
        ({"capabilities": Capabilities()}, "hides_pieces is False there and True on", False),
        ({"machine": {"processor": "another", "threads": 1}}, "processor", True),
        ({"machine": {"processor": "one", "threads": 2}}, "threads", True),
        ({"memory_bytes": 1}, "memory_bytes", True),
    ],
)
def test_workers_are_alike(changed: dict[str, Any], named: str, may_be_mixed: bool) -> None:
    machine = {"processor": "one", "threads": 1}
    workers = [told(machine=machine), told(**{"machine": machine, **changed})]
    lines: list[str] = []
    for allow_mixed in (False, True):
        made = fleet(Here(lambda n: workers[min(n, 1)]), allow_mixed=allow_mixed, notify=lines.append)
        list(made._pool.run([], [], lambda task: task))
        made._pool._met(made._pool.engine.events(0)[0])
        assert len(made._pool._ready) == 1 + (may_be_mixed and allow_mixed)
        assert made.machine == (dict.fromkeys(machine, MIXED) if allow_mixed else machine)
    assert named in lines[0]
    assert ("--allow-mixed" in lines[0]) == may_be_mixed


def test_a_mixed_run_is_another_run() -> None:
    def run_id(machine: dict[str, Any], **how: Any) -> str:
        engine = Here(lambda n: told(machine=machine))
        return spec_of(MEASURE, "influence", SETTINGS, fleet(engine, 1, **how), CASES).id

    ids = {*map(run_id, ({}, {"threads": 1}, {"threads": 2})), run_id({"threads": 1}, allow_mixed=True)}
    assert len(ids) == 4


def test_the_score_cache_is_left_alone_where_it_has_to_be() -> None:
    seen: list[object] = []

    class Reusing(Toy):
        reuse: str | None = "cache"

        @contextmanager
        def without_cache(self) -> Iterator[None]:
            self.reuse = None
            yield
            self.reuse = "cache"

        def score(self, chunk: Chunk) -> list[Scores]:
            seen.append(self.reuse)
            return super().score(chunk)

    model = KeptModel(fleet(Here(lambda number: PartWorker(Reusing, allow_mixed=False))))
    with model.without_cache() as backend:
        list(measure_cases(backend, MEASURE, prepared(backend), None, Callbacks()))
    assert set(seen) == {None}
    list(measure_cases(model.backend, MEASURE, prepared(backend), None, Callbacks()))
    assert "cache" in seen


def test_what_needs_the_model_here_is_refused() -> None:
    backend = fleet()
    with pytest.raises(CapabilityError, match="leave the workers out"):
        backend.score(None)  # type: ignore[arg-type]
    bare = [replace(one, origin=None) for one in prepared(backend)]
    with pytest.raises(UsageError, match="in this process only"):
        list(measure_cases(backend, MEASURE, bare, None, Callbacks()))


def test_options_and_models_that_workers_can_do_nothing_with_are_refused() -> None:
    for given, said in (
        (("spark", None, None), "no workers on 'spark'"),
        (("ray:", None, None), "no workers on 'ray:'"),
        (("ray", 0, None), "--workers is 0"),
        (("ray", None, -1.0), "--gpus-per-worker is -1.0"),
        (("ray", None, float("nan")), "--gpus-per-worker is nan"),
    ):
        with pytest.raises(UsageError, match=said):
            Workers(*given, None, allow_mixed=False)
    workers = Workers("ray", None, None, None, allow_mixed=False)
    for model, said in ((Toy(), "cannot reach a Toy in this process"), ("vllm:http://a:1#x", "a served model")):
        with pytest.raises(UsageError, match=said):
            workers.load(load, model, ModelOptions(), lambda line: None)
