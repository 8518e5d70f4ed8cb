"""Pages of all that was measured: the list of runs, each run, two of them compared."""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from leakmeter.core import registry
from leakmeter.core.limits import MOST_NEW_TOKENS
from leakmeter.engine.storage import catalogue
from leakmeter.engine.storage.catalogue import Entry
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import MOST_NAME, checked_name
from leakmeter.errors import LeakmeterError, StoreError, UsageError
from leakmeter.products.gate.gate_words import value_text
from leakmeter.products.pages.render import report_of_runs
from leakmeter.products.serve import measuring
from leakmeter.products.serve.bodies import json_object, without_paths
from leakmeter.products.serve.live import TEMPLATES, UNITS
from leakmeter.products.serve.pages import show, whole_report
from leakmeter.products.serve.refusals import refusal
from leakmeter.products.serve.serving import Remembered, Serving, serving_of, stamp
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text
from leakmeter.results.run import Run

ROWS: Final = 50
_COLUMNS: Final[dict[str, tuple[str, Callable[[Entry], Any]]]] = {
    "name": ("Run", lambda entry: ((entry.given_name or entry.name).casefold(), entry.name)),
    "measure": ("Measure", lambda entry: entry.measure or ""),
    "model": ("Model", lambda entry: entry.model or ""),
    "data": ("Data", lambda entry: entry.data or ""),
    "unit": ("Unit", lambda entry: entry.unit or ""),
    "cases": ("Cases", lambda entry: entry.n_cases or 0),
    "finished": ("Finished, UTC", lambda entry: entry.finished or ""),
}
_NAME: Final = re.compile(r"[\w-]{1,200}")
_REMEMBERED: Final = 5_000


@dataclass(frozen=True, slots=True)
class RunFindings:
    number: str
    """Its first quantity, with unit and interval."""
    floor: str
    """Largest noise floor of its cases; empty where they have none."""
    headline: str


class Shelf:
    """The runs of a directory, which need not be there yet; what was read of one is kept until its files change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._entries, self._findings = Remembered(_REMEMBERED), Remembered(_REMEMBERED)

    def entries(self) -> list[Entry]:
        try:
            paths = sorted(path for path in self.root.iterdir() if path.is_dir() and _NAME.fullmatch(path.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"the directory of runs cannot be read ({error.strerror})") from None
        # Of several browsers that ask at once, one has the runs read.
        with self._lock:
            return [self.entry(path.name) for path in paths if catalogue.is_run(path)]

    def path(self, name: str) -> Path:
        path = self.root / name
        if not _NAME.fullmatch(name) or not path.is_dir() or not catalogue.is_run(path):
            raise StoreError("there is no such run; see the list of runs")
        return path

    def entry(self, name: str) -> Entry:
        path = self.root / name
        return self._entries.cached((name, _state(path)), lambda: catalogue.entry_of(path))

    def known(self, name: str) -> RunFindings | None:
        """What a run found, if it was asked for before and has not changed."""
        known: RunFindings | None = self._findings.get((name, _state(self.root / name)))
        return known

    def finding(self, name: str) -> RunFindings:
        path = self.path(name)
        return self._findings.cached((name, _state(path)), lambda: _finding(path))


def _state(path: Path) -> tuple[Hashable, ...]:
    """Differs where a run has changed."""
    spec, begun = stamp(path / "spec.json"), stamp(path / "begun.json")
    return spec, begun, stamp(path) if spec else len(RunDirectory(path).parts)


def _finding(path: Path) -> RunFindings:
    run = Run.read(path)
    summed = run.summed_up()
    number = ""
    if summed:
        name, (_, first) = next(iter(summed.items()))
        unit = f" {first.unit}" if first.unit else ""
        number = f"{name} {value_text(first)}{unit}"
    floors = [floor for case in run.cases if (floor := getattr(case, "noise_floor_nats", None)) is not None]
    return RunFindings(number, f"{nats_text(max(floors))} nats" if floors else "", run.headline)


def shelf_of(serving: Serving) -> Shelf:
    shelf: Shelf = serving.extras.setdefault("shelf", Shelf(serving.runs))
    return shelf


async def page(request: Request) -> Response:
    query, shelf = request.query_params, shelf_of(serving_of(request))
    every = await run_in_threadpool(shelf.entries)
    text, measure, model = (query.get(name, "")[:200] for name in ("text", "measure", "model"))
    sort = query.get("sort", "")
    by, down = sort.removeprefix("-"), sort.startswith("-")
    if by not in _COLUMNS:
        by, down = "finished", True
    matches = [entry for entry in every if _meets(entry, text, measure, model)]
    chosen = sorted(matches, key=_COLUMNS[by][1], reverse=down)
    n_pages = max(1, -(-len(chosen) // ROWS))
    page_text = query.get("page", "1")
    number = min(n_pages, max(1, int(page_text))) if page_text.isdecimal() and len(page_text) < 7 else 1

    def address(**changed: str) -> str:
        return "?" + urlencode({"text": text, "measure": measure, "model": model, "sort": sort, **changed})

    return show(
        request,
        "runs.html.j2",
        rows=[(entry, shelf.known(entry.name)) for entry in chosen[(number - 1) * ROWS : number * ROWS]],
        minute=catalogue.minute,
        # A second click on a column sorts it the other way.
        columns=[
            (title, name == by, down, address(sort=name if name != by or down else f"-{name}"))
            for name, (title, _) in _COLUMNS.items()
        ],
        n_runs=len(every),
        n_chosen=len(chosen),
        text=text,
        measure=measure,
        model=model,
        sort=sort,
        measures=sorted({entry.measure for entry in every if entry.measure}),
        models=sorted({entry.model for entry in every if entry.model}),
        number=number,
        n_pages=n_pages,
        before=address(page=str(number - 1)),
        behind=address(page=str(number + 1)),
        loaded=serving_of(request).models.names,
        units=UNITS,
        templates=TEMPLATES,
        most_tokens=MOST_NEW_TOKENS,
        most_name=MOST_NAME,
    )


def _meets(entry: Entry, text: str, measure: str, model: str) -> bool:
    entry_text = " ".join(
        filter(None, (entry.name, entry.given_name, entry.data, entry.unit, entry.measure, entry.model))
    ).casefold()
    return (
        all(word in entry_text for word in text.casefold().split())
        and measure in ("", entry.measure)
        and model in ("", entry.model)
    )


async def finding(request: Request) -> Response:
    shelf = shelf_of(serving_of(request))
    try:
        result = await run_in_threadpool(shelf.finding, request.path_params["run"])
    except LeakmeterError:
        return JSONResponse({"number": "cannot be read", "floor": "", "headline": ""})
    return JSONResponse(asdict(result))


async def run_page(request: Request) -> Response:
    serving = serving_of(request)
    name, shelf = request.path_params["run"], shelf_of(serving)
    path = shelf.path(name)
    entry = shelf.entry(name)
    others: list[Entry] = []
    result: RunFindings | None = None
    facts: list[tuple[str, str]] = []
    problem = "The run is damaged; leakmeter runs verify says where."
    if entry.state != "damaged":
        facts, problem = await run_in_threadpool(_summary, path)
        every = await run_in_threadpool(shelf.entries)
        others = [
            other
            for other in every
            if (other.measure, other.state) == (entry.measure, "complete") and other.name != name
        ]
        if entry.state == "complete" and not problem:
            try:
                result = await run_in_threadpool(shelf.finding, name)
            except LeakmeterError as error:
                problem = without_paths(str(error))
    started = measuring.started(serving, name)
    return show(
        request,
        "run.html.j2",
        run=entry,
        found=result,
        problem=problem,
        facts=facts,
        others=others,
        codes=_codes(path, entry) if entry.state == "complete" else [],
        started=started,
        progress=measuring.progress(path, started),
        most_name=MOST_NAME,
        minute=catalogue.minute,
    )


def _summary(path: Path) -> tuple[list[tuple[str, str]], str]:
    try:
        summary = catalogue.summary(path)
    except LeakmeterError as error:
        return [], without_paths(str(error))
    entry, cost = summary.entry, summary.cost
    facts = [
        ("Directory", entry.name),
        ("Measure", entry.measure or ""),
        ("Model", ", ".join(filter(None, (entry.model, entry.dtype, entry.device)))),
        ("Data", entry.data or ""),
        ("Ablation unit", entry.unit or ""),
        ("Cases", f"{entry.n_cases_finished or 0:,} of {entry.n_cases or 0:,}"),
        ("Finished", f"{catalogue.minute(entry)} UTC" if entry.finished else ""),
        ("Cost", f"{cost.seconds:,.1f} s; {cost.requests:,} prompts; {cost.tree_tokens:,} tokens run"),
        ("Numbers", f"{summary.n_measurements:,}"),
        ("leakmeter", entry.version or ""),
    ]
    for kind in ("parameters", "prompts"):
        text = ", ".join(f"{key} {_plain(value)}" for key, value in getattr(summary, kind).items() if value is not None)
        facts.append((kind.capitalize(), text))
    return [(name, value) for name, value in facts if value], ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _codes(path: Path, entry: Entry) -> list[tuple[str, str]]:
    """What shows the run elsewhere: a title and something to copy."""
    command = RunDirectory(path).read_spec().get("command")
    place = str(path)
    sql = "select * from results"
    if entry.measure in registry.instruments() and registry.instrument(entry.measure).result.pieces_at is not None:
        sql = "select item, piece, nats from pieces order by nats desc"
    return [
        *([("The command that measured it", command)] if isinstance(command, str) else []),
        ("Its report, from the command line", f"leakmeter report {shlex.quote(place)}"),
        ("In Python", f"import leakmeter\n\nrun = leakmeter.load_run({place!r})\nrun.to_frame()"),
        ("In SQL", f"leakmeter runs query {shlex.quote(sql)} --runs {shlex.quote(place)}"),
    ]


async def progress(request: Request) -> Response:
    serving = serving_of(request)
    name, shelf = request.path_params["run"], shelf_of(serving)
    begun = measuring.started(serving, name)
    if begun is not None and begun.job.is_over and not (shelf.root / name).exists():
        # It was cancelled before there was anything to keep.
        return JSONResponse(asdict(measuring.RunProgress("dropped", 0, None)))
    return JSONResponse(asdict(measuring.progress(shelf.path(name), begun)))


async def report(request: Request) -> Response:
    path = shelf_of(serving_of(request)).path(request.path_params["run"])
    return whole_report(await run_in_threadpool(lambda: Run.read(path).report()))


async def rename(request: Request) -> Response:
    new_name = (await json_object(request)).get("name")
    if not isinstance(new_name, str):
        raise UsageError("name has to be a text")
    path = shelf_of(serving_of(request)).path(request.path_params["run"])
    name = checked_name(new_name.strip() or None)
    await run_in_threadpool(lambda: RunDirectory(path).rename(name))
    return JSONResponse({"name": name or path.name})


async def compare(request: Request) -> Response:
    chosen = list(dict.fromkeys(request.query_params.getlist("run")))
    if len(chosen) != 2:
        return refusal(400, f"choose two runs to compare; {len(chosen)} were chosen")
    shelf = shelf_of(serving_of(request))
    paths = [shelf.path(name) for name in chosen]
    blocks = await run_in_threadpool(_compared, paths)
    return show(request, "compare.html.j2", blocks=blocks, runs=[shelf.entry(name) for name in chosen])


def _compared(paths: Sequence[Path]) -> list[b.Block]:
    runs = [Run.read(path) for path in paths]
    blocks = [block for block in report_of_runs(runs).blocks if not isinstance(block, b.Embedded)]
    if runs[0].measure != runs[1].measure:
        blocks.append(b.Text("The runs have different measures, whose numbers cannot be compared."))
    elif not any(isinstance(block, b.HeadedBlocks) for block in blocks):
        blocks.append(b.Text("The runs have no case in common: cases are paired by their ids."))
    # The pages of the runs, to which the first table leads elsewhere, are not in this one.
    return [
        replace(block, rows=[replace(row, to="") for row in block.rows]) if isinstance(block, b.Table) else block
        for block in blocks
    ]


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/runs", page),
    Route("/runs/compare", compare),
    Route("/runs/measure", measuring.measure, methods=["POST"]),
    Route("/runs/{run}", run_page),
    Route("/runs/{run}/found", finding),
    Route("/runs/{run}/progress", progress),
    Route("/runs/{run}/report", report),
    Route("/runs/{run}/rename", rename, methods=["POST"]),
    Route("/runs/{run}/continue", measuring.go_on, methods=["POST"]),
    Route("/runs/{run}/cancel", measuring.cancel, methods=["POST"]),
)
