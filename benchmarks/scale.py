"""One to a thousand workers on paper: what a run's driver, store and prefixes allow, with the shipped scheduler.

`python -m benchmarks scale --data RUN --out DIR` measures what a part of a complete run costs its driver and draws how
many parts a second a simulated fleet completes. Workers and their clock are simulated; `execute.pool.Pool` and
`execute.pool.Queues` are the real ones, and their own time, as it is measured here, passes on that clock too.
"""

from __future__ import annotations

import csv
import heapq
import itertools
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from leakmeter.engine.execute.pool import Pool, WorkerEvent
from leakmeter.engine.measure import WRITERS, write_part
from leakmeter.engine.storage.parts import Part, cases_of_part
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.workers import PartDone

NAME: Final = "scale"
WORKERS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
PART_SECONDS: Final = (0.1, 1.0, 5.0, 60.0)
PUT_SECONDS: Final = 0.055
"""Assumed: a put to an object store takes 30 to 80 ms. A part is two."""
LOAD_SECONDS: Final = 20.0
"""Assumed: a worker takes so long from its start to its first part."""
TINY: Final[dict[str, Any]] = {"with_ray": False, "workers": (1, 4), "part_seconds": (1.0,)}
_PARTS_OF_A_WORKER: Final = 12
_LEAST_PARTS: Final = 100
_MEASURED_PARTS: Final = 40


@dataclass(frozen=True, slots=True)
class Costs:
    """What one part costs its driver, seconds."""

    hand_out_s: float
    """Pickle the payload and submit the task."""
    take_s: float
    """Get a result and unpickle it."""
    look_s: float
    """Ask Ray what is done, once."""
    look_each_s: float
    """The same, for each task under way."""
    write_cpu_s: float
    """Encode a part's two files and give them away: the driver computes."""
    write_wait_s: float
    """Wait until one writer's part is stored."""
    prepare_s: float = 0.0
    """Make a case's prompts, which happens for all cases before the first part is handed out."""
    store_parts_per_s: float = float("inf")
    """Parts that the store itself takes a second, however many writers there are."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Who works, on what."""

    n_workers: int
    part_s: float
    stragglers: float = 0.0
    """Share of workers that take three times as long."""
    deaths_per_hour: float = 0.0
    """Of each worker."""
    writers: int = 0
    """Threads that store parts; 0 where the driver's one thread does, as up to this version."""
    sharing: int = 1
    """Parts, one behind another, that begin alike."""
    prefix: float = 0.0
    """Share of a part's work that its beginning is, which a worker that had the part before has done."""


@dataclass(slots=True)
class _Worker:
    free_s: float
    dies_s: float
    slowness: float
    last_key: int | None = None


@dataclass(slots=True)
class Simulated:
    """An engine whose workers need simulated time only."""

    fleet: Fleet
    costs: Costs
    rng: np.random.Generator
    clock: Callable[[], float] = time.thread_time
    """Of the scheduler's own work; what it takes passes on the simulated clock."""
    now_s: float = 0.0
    busy_s: float = 0.0
    """What the driver has computed and waited for the store."""
    scheduler_s: float = 0.0
    work_s: float = 0.0
    """What workers have worked."""
    _workers: list[_Worker] = field(default_factory=list)
    _coming: list[tuple[float, int, WorkerEvent]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _left_s: float | None = None
    _n_under_way: int = 0

    def start(self) -> int:
        """Start a worker, which dies at some time."""
        worker, fleet = len(self._workers), self.fleet
        begun = len(self._workers) >= fleet.n_workers
        ready = self.now_s + (LOAD_SECONDS if begun else 0.0)
        dies = float("inf")
        if fleet.deaths_per_hour:
            dies = ready + float(self.rng.exponential(3600 / fleet.deaths_per_hour))
        self._workers.append(_Worker(ready, dies, 3.0 if self.rng.random() < fleet.stragglers else 1.0))
        self._tell(ready, WorkerEvent("ready", worker, value=worker))
        if dies < float("inf"):
            # A machine that goes is no part's fault.
            self._tell(dies, WorkerEvent("lost", worker, blames_task=False))
        return worker

    def submit(self, worker: int, ticket: int, payload: int) -> None:
        """Give a worker a part."""
        self.spend(self.costs.hand_out_s)
        one, fleet = self._workers[worker], self.fleet
        key = payload // fleet.sharing
        takes = fleet.part_s * one.slowness * (1 - fleet.prefix * (key == one.last_key))
        one.last_key = key
        one.free_s = max(self.now_s, one.free_s) + takes
        if one.free_s <= one.dies_s:
            self.work_s += takes
            self._n_under_way += 1
            self._tell(one.free_s, WorkerEvent("done", worker, ticket, payload))

    def events(self, seconds: float) -> list[WorkerEvent]:
        """What has happened by now, or does next."""
        if self._left_s is not None:
            took = self.clock() - self._left_s
            self.scheduler_s += took
            self.spend(took)
        if self._coming:
            self.now_s = max(self.now_s, min(self._coming[0][0], self.now_s + seconds))
        else:
            self.now_s += seconds
        self.spend(self.costs.look_s + self.costs.look_each_s * self._n_under_way)
        out = []
        while self._coming and self._coming[0][0] <= self.now_s:
            event = heapq.heappop(self._coming)[2]
            if event.kind == "done":
                self._n_under_way -= 1
                self.spend(self.costs.take_s)
            out.append(event)
        self._left_s = self.clock()
        return out

    def stop(self, worker: int) -> None:
        """Nothing is to be ended."""

    def close(self) -> None:
        """Nothing is to be ended."""

    def spend(self, seconds: float) -> None:
        """The driver works or waits."""
        self.now_s += seconds
        self.busy_s += seconds

    def _tell(self, when: float, event: WorkerEvent) -> None:
        heapq.heappush(self._coming, (when, next(self._order), event))


@dataclass(slots=True)
class _Store:
    """Takes parts: one at a time from the driver's own thread, or from as many as there are writers."""

    engine: Simulated
    _free: list[float] = field(default_factory=list)
    _next_s: float = 0.0

    def __post_init__(self) -> None:
        self._free = [0.0] * self.engine.fleet.writers

    def put(self) -> None:
        engine, costs = self.engine, self.engine.costs
        engine.spend(costs.write_cpu_s)
        if not self._free:
            engine.spend(costs.write_wait_s)
            return
        # As the driver does, which has at most one part a writer under way.
        if self._free[0] > engine.now_s:
            engine.spend(self._free[0] - engine.now_s)
        begins = max(engine.now_s, self._next_s)
        self._next_s = begins + 1 / costs.store_parts_per_s
        heapq.heapreplace(self._free, begins + costs.write_wait_s)

    @property
    def done_s(self) -> float:
        return max([self.engine.now_s, *self._free])


def simulated(
    fleet: Fleet,
    costs: Costs,
    *,
    seed: int = 0,
    n_parts: int | None = None,
    clock: Callable[[], float] = time.thread_time,
) -> dict[str, float]:
    """A run of equal parts, from the time when the first workers have loaded the model.

    Args:
        fleet: who works.
        costs: of a part.
        seed: of stragglers and deaths.
        n_parts: of the run; 12 a worker by default.
        clock: of the scheduler's own work.
    """
    n = n_parts or max(_LEAST_PARTS, _PARTS_OF_A_WORKER * fleet.n_workers)
    engine = Simulated(fleet, costs, np.random.default_rng(seed), clock)
    pool = Pool(engine, fleet.n_workers, lambda said: None)
    engine.spend(n * costs.prepare_s)
    prepared_s = engine.now_s
    pool.wait()
    store = _Store(engine)
    # What the loop below does is paid for by the costs; the scheduler's own time is what is measured.
    n_done = 0
    for _ in pool.run(range(n), [task // fleet.sharing for task in range(n)], lambda task: task):
        left, engine._left_s = cast("float", engine._left_s), None
        engine.scheduler_s += (took := clock() - left)
        engine.spend(took)
        store.put()
        n_done += 1
        engine._left_s = clock()
    seconds = store.done_s
    return {
        "parts": n_done,
        "seconds": seconds,
        "parts_per_s": n_done / seconds,
        "efficiency": n_done * fleet.part_s / (seconds * fleet.n_workers),
        "driver_busy": engine.busy_s / seconds,
        "scheduler_ms_per_part": 1000 * engine.scheduler_s / n_done,
        "prepare_share": prepared_s / seconds,
        "work_per_part_s": engine.work_s / n_done,
    }


def measured(run: Path, disk: Path, *, prepare_s: float, with_ray: bool) -> Costs:
    """What a part of a complete run costs its driver here.

    Args:
        run: its directory; nothing in it is changed.
        disk: a directory of the disk that is measured; what is written there goes again.
        prepare_s: what a case's prompts take.
        with_ray: measure Ray's own time too, which is 0 otherwise.
    """
    directory = RunDirectory(run)
    parts = [cases_of_part(directory, number) for number in directory.parts[:_MEASURED_PARTS]]
    sent = [pickle.dumps(PartDone(part, 1, 0), protocol=5) for part in parts]
    started = time.thread_time()
    for _ in range(5):
        for one in sent:
            pickle.loads(one)  # noqa: S301 - what this process made
    take_s = (time.thread_time() - started) / len(sent) / 5
    one_s, cpu_s = _written(parts, disk, 1)
    several_s, _ = _written(parts, disk, WRITERS)
    hand_out_s, ray_take_s, look_s, each_s = _of_ray(sent) if with_ray else (0.0, 0.0, 0.0, 0.0)
    return Costs(
        hand_out_s=hand_out_s,
        take_s=max(take_s, ray_take_s),
        look_s=look_s,
        look_each_s=each_s,
        write_cpu_s=cpu_s,
        write_wait_s=max(0.0, one_s - cpu_s),
        prepare_s=prepare_s,
        store_parts_per_s=1 / several_s,
    )


def _written(parts: Sequence[list[Part]], disk: Path, n_threads: int) -> tuple[float, float]:
    """Seconds, and seconds of processors, that writing a part takes with so many threads."""
    with tempfile.TemporaryDirectory(dir=disk) as folder, ThreadPoolExecutor(n_threads) as threads:
        directory = RunDirectory(Path(folder))
        started, computed = time.perf_counter(), time.process_time()
        list(threads.map(lambda number: write_part(directory, number, parts[number]), range(len(parts))))
        n = len(parts)
        return (time.perf_counter() - started) / n, (time.process_time() - computed) / n


def _of_ray(sent: Sequence[bytes]) -> tuple[float, float, float, float]:
    """Submit, get, and look; the last for each task under way. Two workers, which give what they are told to."""
    import ray

    from leakmeter.engine.execute.ray import RayEngine

    largest = max(sent, key=len)
    engine = RayEngine(None, lambda: _Giving(largest), n_workers=2, n_cpus=1, n_gpus=0)
    try:
        pool = Pool(engine, 2, lambda said: None)
        while len(pool._ready) < 2:
            pool.wait()
            for event in engine.events(1.0):
                pool._met(event)
        submits, takes, looks = [], [], []
        for ticket in range(200):
            started = time.thread_time()
            engine.submit(ticket % 2, ticket, largest)
            submits.append(time.thread_time() - started)
        while engine._waiting:
            reference = next(iter(engine._waiting))
            ray.wait([reference])
            started = time.thread_time()
            engine._event(reference)
            takes.append(time.thread_time() - started)
        for n in (2, 1000):
            # None of these is ever done while it is looked at.
            waiting = [engine._actors[i % 2].do.remote(_Giving.SLEEP) for i in range(n)]
            times = []
            for _ in range(20):
                started = time.thread_time()
                ray.wait(waiting, num_returns=1, timeout=0)
                ray.wait(waiting, num_returns=n, timeout=0)
                times.append(time.thread_time() - started)
            looks.append(statistics.median(times))
        each = max(0.0, (looks[1] - looks[0]) / 998)
        return statistics.median(submits), statistics.median(takes), looks[0], each
    finally:
        engine.close()


class _Giving:
    """The work of a worker that gives its payload back."""

    SLEEP: Final = b"wait"

    def __init__(self, result: bytes) -> None:
        self._result = result

    def describe(self) -> str:
        return "giving"

    def do(self, payload: bytes) -> Any:
        if payload == self.SLEEP:
            time.sleep(30)
            return None
        return pickle.loads(self._result)  # noqa: S301 - what the benchmark made


def overhead(run: Path, disk: Path, part_s: float = 5.0, n_parts: int = 12) -> dict[str, float]:
    """Parts of a given length by one worker of Ray's, from the first to be done to the last, against a plain loop.

    The work sleeps, so that what differs is what hands it out, takes it and writes it.

    Args:
        run: its parts are what is given back and written.
        disk: a directory of the disk to write to.
        part_s: how long each takes.
        n_parts: of them.
    """
    from leakmeter.engine.execute.ray import RayEngine

    part = cases_of_part(RunDirectory(run), 0)
    work = _Sleeping(part, part_s)

    def ends(done: Iterator[Any], folder: Path) -> list[float]:
        directory, at = RunDirectory(folder), []
        for number, found in enumerate(done):
            write_part(directory, number, found.parts)
            at.append(time.perf_counter())
        return at

    with tempfile.TemporaryDirectory(dir=disk) as folder:
        plain = ends((work.do(number) for number in range(n_parts)), Path(folder))
    engine = RayEngine(None, lambda: _Sleeping(part, part_s), n_workers=1, n_cpus=1, n_gpus=0)
    try:
        pool = Pool(engine, 1, lambda said: None)
        pool.wait()
        with tempfile.TemporaryDirectory(dir=disk) as folder:
            found = pool.run(range(n_parts), list(range(n_parts)), lambda number: number)
            by_ray = ends((value for _, value in found), Path(folder))
    finally:
        engine.close()
    plain_s, ray_s = (at[-1] - at[0] for at in (plain, by_ray))
    return {"part_s": part_s, "parts": n_parts - 1, "plain_s": plain_s, "ray_s": ray_s, "overhead": ray_s / plain_s - 1}


class _Sleeping:
    """The work of a worker that takes its time, and gives a part."""

    def __init__(self, part: list[Part], seconds: float) -> None:
        self._part, self._seconds = part, seconds

    def describe(self) -> str:
        return "sleeping"

    def do(self, payload: int) -> PartDone:
        time.sleep(self._seconds)
        return PartDone(self._part, 1, 0)


_CASES: Final = (("even", {}), ("stragglers and deaths", {"stragglers": 0.05, "deaths_per_hour": 1.0}))


def rows(
    run: Path | None,
    out: Path,
    *,
    prepare_s: float = 0.0,
    with_ray: bool = True,
    workers: Sequence[int] = WORKERS,
    part_seconds: Sequence[float] = PART_SECONDS,
) -> Iterator[dict[str, Any]]:
    """What was measured, then what each simulated fleet does; the files `scale*.csv` and `scale.png` have it all.

    Args:
        run: a complete run, whose parts are measured; None for what `scale_costs.csv` in `out` says.
        out: directory of the files.
        prepare_s: what a case's prompts take.
        with_ray: measure Ray's own time too.
        workers: sizes of fleets.
        part_seconds: sizes of parts.
    """
    costs = (
        _read(out / "scale_costs.csv") if run is None else measured(run, out, prepare_s=prepare_s, with_ray=with_ray)
    )
    _save(out / "scale_costs.csv", [{"cost": name, "value": value} for name, value in asdict(costs).items()])
    yield {"work": "measured", **asdict(costs)}
    if run is not None and with_ray:
        found_overhead = [overhead(run, out, part_s) for part_s in (0.5, 5.0)]
        _save(out / "scale_overhead.csv", found_overhead)
        yield from ({"work": "overhead", **one} for one in found_overhead)
    # An object store takes many puts at a time; what one takes is assumed.
    remote = replace(costs, write_wait_s=2 * PUT_SECONDS, store_parts_per_s=float("inf"))
    found = []
    for (store, of_store), writers, (case, what), part_s, n in itertools.product(
        (("disk", costs), ("objects", remote)), (0, WRITERS), _CASES, part_seconds, workers
    ):
        told = simulated(Fleet(n, part_s, writers=writers, **what), of_store)
        found.append({"store": store, "writers": writers, "fleet": case, "part_s": part_s, "workers": n, **told})
        yield {"work": "simulated", **found[-1]}
    _save(out / "scale.csv", found)
    shared = []
    for sharing, n in itertools.product((1, 4, 16, 64), workers):
        # A run of 2,000 parts, whose beginnings are half of the work of those that share none.
        told = simulated(Fleet(n, 5.0, writers=WRITERS, sharing=sharing, prefix=0.5), costs, n_parts=2000)
        shared.append({"sharing": sharing, "workers": n, **told})
        yield {"work": "prefixes", **shared[-1]}
    _save(out / "scale_prefixes.csv", shared)
    draw(found, out / "scale.png")


def _read(path: Path) -> Costs:
    with path.open(encoding="utf-8", newline="") as file:
        return Costs(**{row["cost"]: float(row["value"]) for row in csv.DictReader(file)})


def _save(path: Path, found: Sequence[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{value:.5g}" if isinstance(value, float) else value for name, value in row.items()}
            for row in found
        )


def draw(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Throughput against workers: a panel a store, dashed with one thread, solid with several writers."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    stores = list(dict.fromkeys(row["store"] for row in found))
    titles = {"disk": "a local disk, as measured", "objects": "an object store, puts of 55 ms assumed"}
    figure, panels = plt.subplots(1, len(stores), figsize=(9.6, 4.4), dpi=150, sharey=True, squeeze=False)
    colours = ("#b3541e", "#1f5fa8", "#2e7d4f", "#6b4a9b")
    for axes, store in zip(panels[0], stores, strict=True):
        for part_s, colour in zip(dict.fromkeys(row["part_s"] for row in found), colours, strict=False):
            for writers, line in ((0, "--"), (WRITERS, "-")):
                for case, mark in (("even", None), ("stragglers and deaths", "x")):
                    chosen = [
                        row
                        for row in found
                        if (row["store"], row["part_s"], row["writers"], row["fleet"]) == (store, part_s, writers, case)
                    ]
                    if mark and not writers:
                        continue
                    axes.plot(
                        [row["workers"] for row in chosen],
                        [row["parts_per_s"] for row in chosen],
                        line if mark is None else "",
                        marker=mark,
                        markersize=4,
                        color=colour,
                        linewidth=1.2,
                        label=f"parts of {part_s:g} s" if writers and mark is None else None,
                    )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("workers")
        axes.set_title(titles[store], fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("parts a second")
    panels[0][0].legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"solid: {WRITERS} threads write; dashed: one; crosses: 5 % of workers take three times as long, each worker "
        "dies once an hour",
        fontsize=8,
    )
    figure.tight_layout()
    figure.savefig(path)
