"""What lies under a directory of runs: runs, complete or not, and the directories of studies beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from leakmeter.core.plain import n_listed
from leakmeter.core.record import JsonObject
from leakmeter.core.urls import forget_copy
from leakmeter.engine.storage.parts import PartReader
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.engine.storage.stored import fetched
from leakmeter.errors import StoreError

RunState = Literal["complete", "unfinished", "damaged"]

RUN: Final = "run"
_MOST_LISTED: Final = 6
_STUDIES: Final = re.compile(r"(study|generate|frontier|icl-select)-(?:.*-)?[0-9a-f]{16}")
"""Directories that other commands keep beside their runs; what stands before the first '-' says of what."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One directory, as `leakmeter runs list` shows it; of a study, name and kind alone."""

    name: str
    kind: str
    """run, study, generate, frontier or icl select."""
    state: RunState | None = None
    measure: str | None = None
    model: str | None = None
    dtype: str | None = None
    device: str | None = None
    version: str | None = None
    """Of leakmeter."""
    n_cases: int | None = None
    """Cases to measure."""
    n_cases_finished: int | None = None
    finished: str | None = None
    """When `spec.json` was written, UTC."""
    given_name: str | None = None
    """What the user calls the run."""
    data: str | None = None
    """Files that its cases came from, as they were given; None where they are not known or may name people."""
    unit: str | None = None
    """Ablation unit; None of measures without one."""


@dataclass(frozen=True, slots=True)
class Taken:
    seconds: float
    requests: int
    """Prompts that were asked for."""
    tree_tokens: int
    """Tokens that were run."""
    naive_tokens: int
    """Tokens that full passes would have run."""
    out_of_memory_retries: int
    """How often memory ran out and the work was cut in halves."""

    @classmethod
    def from_cases(cls, cases: Iterable[JsonObject]) -> Taken:
        """Of cases as a run keeps them; what was not kept counts as 0."""
        sums = dict.fromkeys((sum_field.name for sum_field in fields(cls)), 0.0)
        for case in cases:
            cost = case.get("cost")
            if isinstance(cost, dict):
                kept = {name: n for name, n in cost.items() if isinstance(n, (int, float))}
                sums = {name: total + kept.get(name, 0.0) for name, total in sums.items()}
        return cls(round(sums["seconds"], 3), *(int(sums[sum_field.name]) for sum_field in fields(cls)[1:]))


@dataclass(frozen=True, slots=True)
class OfWorker:
    worker: str
    """Its machine, and the number of its process."""
    n_cases: int
    tree_tokens: int
    """Tokens that it ran."""
    seconds: float
    """For them; waiting, and loading the model, apart."""


@dataclass(frozen=True, slots=True)
class SlowestPart:
    number: int
    """From 0."""
    ids: tuple[str, ...]
    """Of its cases."""
    seconds: float
    worker: str | None
    """None where one process measured the run."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, as `leakmeter runs show` has it; of an unfinished one, what is known of it."""

    entry: Entry
    cost: Taken
    n_measurements: int
    """Numbers, one a row."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Of the measure."""
    prompts: Mapping[str, object] = field(default_factory=dict)
    model: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, object] = field(default_factory=dict)
    """Of what computes."""
    command: str | None = None
    problems: tuple[str, ...] = ()
    """Lines of the data that were left out."""
    workers: tuple[OfWorker, ...] = ()
    """By name; none where one process measured the run."""
    slowest_part: SlowestPart | None = None
    """None where no part is finished, or none says what it took."""


def entries(root: Path) -> list[Entry]:
    """Runs and studies directly under a directory, by name; other directories are nobody's business."""
    listed: list[Entry] = []
    local = fetched(root, lean=True)
    for path in _directories(local):
        if is_run(path):
            listed.append(entry_of(path))
        elif study := _STUDIES.fullmatch(path.name):
            listed.append(Entry(path.name, study.group(1)))
    if local is not root:
        forget_copy(local)
    return listed


def is_run(path: Path) -> bool:
    run = RunDirectory(path)
    return run.is_complete or (path / "begun.json").exists() or bool(run.parts)


def entry_of(path: Path) -> Entry:
    run = RunDirectory(path)
    state: RunState = "damaged"
    record: JsonObject = {}
    finished: str | None = None
    n_cases: object = None
    n_finished: int | None = None
    # What is known of a damaged run is listed too.
    with suppress(StoreError):
        if run.is_complete:
            record = run.read_spec()
            run.check_all_there()
            n_cases = n_finished = len(record["cases"])
            finished = moment((path / "spec.json").stat().st_mtime)
            state = "complete"
        else:
            record = run.read_begun()
            n_cases = record.get("n_cases")
            n_finished = sum(len(run.read_texts(number)) for number in run.parts)
            state = "unfinished"
    model = record.get("model") or {}
    return Entry(
        path.name,
        RUN,
        state,
        measure=record.get("measure"),
        model=model.get("name"),
        dtype=model.get("dtype"),
        device=model.get("device"),
        version=record.get("version"),
        n_cases=n_cases if isinstance(n_cases, int) else None,
        n_cases_finished=n_finished,
        finished=finished,
        given_name=record.get("name"),
        data=record.get("data"),
        unit=_unit(path, record.get("prompts") or {}),
    )


def _unit(path: Path, prompts: JsonObject) -> str | None:
    """The ablation unit; where it was left to the kind of case, that of the first one."""
    if "unit" not in prompts or prompts["unit"] is not None:
        return prompts.get("unit")
    try:
        unit = RunDirectory(path).read_texts(0)[0].get("unit")
    except (StoreError, LookupError):
        # Nothing is finished yet, or a part is damaged, which `runs verify` tells.
        return None
    return unit if isinstance(unit, str) else None


def moment(seconds: float) -> str:
    """A time since 1970 as '2026-03-04T05:06:07+00:00', UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def minute(entry: Entry) -> str:
    """When a run was finished, '2026-03-04 05:06' UTC; empty where it is not."""
    return (entry.finished or "")[:16].replace("T", " ")


def label(entry: Entry) -> str:
    """What tells a run from others of its measure: name, data, unit, time."""
    when = minute(entry)
    parts = (entry.given_name, entry.data, entry.unit and f"unit {entry.unit}", when and f"{when} UTC")
    return ", ".join(part for part in parts if part)


def summary(path: Path) -> RunSummary:
    run = RunDirectory(path)
    reader = PartReader.of_run(run)
    run.check_all_there()
    cases: list[JsonObject] = []
    n_measurements = 0
    slowest: SlowestPart | None = None
    for number in run.parts:
        parts = reader.cases(number)
        texts = [case for case, _ in parts]
        cases += texts
        seconds = Taken.from_cases(texts).seconds
        if texts and seconds > (slowest.seconds if slowest is not None else 0.0):
            slowest = SlowestPart(number, tuple(case["id"] for case in texts), seconds, _worker(texts[0]))
        n_measurements += sum(len(measurement.values) for _, measurements in parts for measurement in measurements)
    by_worker: dict[str, list[JsonObject]] = {}
    for case in cases:
        if (name := _worker(case)) is not None:
            by_worker.setdefault(name, []).append(case)
    workers = {name: (len(of_one), Taken.from_cases(of_one)) for name, of_one in sorted(by_worker.items())}
    record = reader.record
    return RunSummary(
        entry_of(path),
        Taken.from_cases(cases),
        n_measurements,
        parameters=record.get("params") or {},
        prompts=record.get("prompts") or {},
        model=record.get("model") or {},
        versions=record.get("environment") or {},
        command=record.get("command"),
        problems=tuple(record.get("problems") or ()),
        workers=tuple(OfWorker(name, n, took.tree_tokens, took.seconds) for name, (n, took) in workers.items()),
        slowest_part=slowest,
    )


def _worker(case: JsonObject) -> str | None:
    cost = case.get("cost")
    name = cost.get("worker") if isinstance(cost, dict) else None
    return name if isinstance(name, str) else None


def spec_of(run: RunDirectory) -> RunSpec:
    # What is in it, and of which kind, was looked at when it was read.
    return RunSpec.from_record(run.read_spec())


def find_run(name: str, *roots: Path) -> Path:
    """A run by its directory, by its name under one of `roots`, by the name that the user gave it, or by as much of its
    name as tells it from others.

    One of an object store is copied (see `fetched`).
    """
    place, given = fetched(Path(name)), roots
    roots = () if place.is_dir() else tuple(fetched(root, name) for root in roots)
    for path in (place, *(root / name for root in roots)):
        if path.is_dir():
            if is_run(path):
                return path
            raise StoreError(f"'{path}' is not a run; `leakmeter runs list` shows the runs")
    called = [(root, directory) for root in given for directory in _called(name, root)]
    if len(called) == 1:
        ((root, directory),) = called
        return find_run(directory, root)
    if called:
        n = n_listed(len(called), _MOST_LISTED)
        listed = ", ".join(f"'{root / directory}'" for root, directory in called[:n])
        more = f" and {len(called) - n:,} more" if len(called) > n else ""
        raise StoreError(f"'{name}' is the name of {len(called)} runs, {listed}{more}; give the directory of one")
    matches = [path for root in roots for path in _directories(root) if path.name.startswith(name) and is_run(path)]
    if len(matches) == 1:
        return matches[0]
    where = " and ".join(f"'{root}'" for root in roots)
    if matches:
        raise StoreError(
            f"'{name}' matches {len(matches)} runs under {where}, '{matches[0].name}' …; give more of the name"
        )
    raise StoreError(f"no run '{name}', neither as a directory nor under {where}; `leakmeter runs list` shows them")


def _called(name: str, root: Path) -> list[str]:
    """Directories of the runs under a directory that the user called so."""
    local = fetched(root, lean=True)
    directories = [path.name for path in _directories(local) if is_run(path) and _given_name(path) == name]
    if local is not root:
        forget_copy(local)
    return directories


def _given_name(path: Path) -> str | None:
    run = RunDirectory(path)
    with suppress(StoreError):
        name: str | None = (run.read_spec() if run.is_complete else run.read_begun()).get("name")
        return name
    return None


def unfinished_runs(root: Path) -> list[Path]:
    """Runs directly under a directory that are begun and not complete; of an object store none are looked for."""
    if not root.is_dir():
        return []
    return [path for path in _directories(root) if is_run(path) and not RunDirectory(path).is_complete]


def complete_runs(root: Path) -> tuple[list[Path], dict[Path, StoreError]]:
    """Complete runs directly under a directory, or the one that it is; and why others, damaged ones, cannot be used.

    Those of an object store are copied (see `fetched`).
    """
    paths: list[Path] = []
    problems: dict[Path, StoreError] = {}
    root = fetched(root)
    if is_one := RunDirectory(root).is_complete:
        # Of several, those that are damaged are left out; of the one that was named, it is said where.
        PartReader.of_complete(RunDirectory(root))
    for path in [root] if is_one else _directories(root):
        run = RunDirectory(path)
        if not run.is_complete:
            continue
        try:
            if path.resolve().name != (id_ := spec_of(run).id):
                raise StoreError(f"'{path}' is not named {id_}, as what its spec says; give it that name, or remove it")
            run.check_all_there()
        except StoreError as error:
            problems[path] = error
        else:
            paths.append(path)
    return paths, problems


def _directories(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError as error:
        raise StoreError(f"no directory of runs '{root}' ({error.strerror or error}); name one with --runs") from None
