"""A day of logged answers in a ledger: killed twice, resumed, held against budgets, forgotten; and a guard's latency.

The log is that of `ledger_day_log`, answered by the model. Every command is the program's own, in a process of its own.
A log or a ledger that is in the directory already is used as it is: an interrupted benchmark goes on. Needs 40 minutes
on two quiet cores; `--tiny` takes 26 answers.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import signal
import stat
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks import ledger_day_log as day
from leakmeter.meter import Meter
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.store import FILE, Ledger
from leakmeter.products.ledger.totals import Book

NAME: Final = "ledger-day"
WHOLE: Final = day.Sizes()
TINY: Final = day.Sizes(answers=26, documents=8, recipients=4, new_tokens=6)
Row = dict[str, Any]
_POLL_SECONDS: Final = 0.005
_FINISHED: Final = 3
"""Parts of a batch after which it is killed."""
_COUNTS: Final = ("n_added", "n_known", "n_measured")
_CALLS: Final = 20
_FORGOTTEN: Final = ("note-1", "note-4")
"""A document that is forgotten by its id, and one whose person is forgotten by name."""


def rows(data: Path, out: Path, *, model: str = "smollm2-135m", sizes: day.Sizes = WHOLE) -> Iterator[Row]:
    """What was found, a step at a time.

    Args:
        data: directory with the articles and abstracts.
        out: log, ledgers and the user's key go there.
        model: what answers and scores.
        sizes: how much traffic.
    """
    out.mkdir(parents=True, exist_ok=True)
    os.environ |= {"LEAKMETER_CONFIG": str(out / "config"), "LEAKMETER_SCORES": str(out / "scores")}
    log = out / "log.jsonl"
    if not log.exists():
        yield _logged(data, log, model, sizes)
    run = _Program(log, model)
    whole, killed = out / "whole", out / "killed"
    yield {"step": "add", **run.add(whole)}
    yield from _killed_twice(run, killed)
    yield {"step": "compare", "equal": canonical(whole) == canonical(killed), **_counts(whole)}
    before = hashes(killed)
    again = run.add(killed)
    yield {"step": "add again", **again, "files_changed": sum(hashes(killed)[n] != h for n, h in before.items())}
    yield {"step": "verify", "exit": run.ended("verify", killed)}
    yield from _on_top(run, whole)
    yield from _budgets(run, whole)
    _write_totals(run, whole, out / "ledger_day.csv")
    yield {"step": "modes", "wrong": [str(path) for path in _paths(killed) if not is_private(path)]}
    yield from _forgetting(run, killed, out)
    yield from guarded(out, whole, model)


class _Program:
    """The command line, with the log and the model of the day."""

    def __init__(self, log: Path, model: str) -> None:
        self.log, self.model = log, model

    def command(self, name: str, ledger: Path, *more: str) -> list[str]:
        return [sys.executable, "-m", "leakmeter", "ledger", name, "--ledger", str(ledger), *more]

    def adding(self, ledger: Path) -> list[str]:
        options = ("--model", self.model, "--keep-texts", "--conditions-hold", "--json")
        return self.command("add", ledger, str(self.log), *options)

    def add(self, ledger: Path) -> Row:
        started = time.perf_counter()
        ended = subprocess.run(self.adding(ledger), capture_output=True, text=True, check=True)
        told = json.loads(ended.stdout)
        return {"s": time.perf_counter() - started, **{name: told[name] for name in _COUNTS}}

    def ended(self, name: str, ledger: Path, *more: str) -> int:
        return subprocess.run(self.command(name, ledger, *more), capture_output=True, check=False).returncode

    def printed(self, name: str, ledger: Path, *more: str) -> list[Row]:
        return self.exit_and_printed(name, ledger, *more)[1]

    def exit_and_printed(self, name: str, ledger: Path, *more: str) -> tuple[int, list[Row]]:
        ended = subprocess.run(self.command(name, ledger, *more, "--json"), capture_output=True, text=True, check=False)
        return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]


def _logged(data: Path, log: Path, model: str, sizes: day.Sizes) -> Row:
    made = day.planned(data, sizes)
    started = time.perf_counter()
    backend = Meter(model, cache=False).backend
    day.answered(made, backend, sizes)
    day.write(made, log, backend.name)
    return {
        "step": "log",
        "answers": len(made.exchanges),
        "bytes": log.stat().st_size,
        "s": time.perf_counter() - started,
    }


def _killed_twice(run: _Program, ledger: Path) -> Iterator[Row]:
    """Add, killed once within a batch and once when a batch was committed; then to the end."""
    if Ledger.of_user(ledger).exists:
        return
    n_before, again = 0, set[str]()
    moments: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("within a batch", lambda: len(_parts(ledger)) >= _FINISHED),
        ("between batches", lambda: _n_commits(ledger) > n_before and not _parts(ledger)),
    )
    for moment, is_now in moments:
        process = subprocess.Popen(run.adding(ledger), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        again |= _written_anew(ledger, process, is_now)
        process.send_signal(signal.SIGKILL)
        process.wait()
        n_before = _n_commits(ledger)
        yield {"step": "kill", "moment": moment, "commits": n_before, "parts_under_way": len(_parts(ledger))}
    started = time.perf_counter()
    last = subprocess.Popen(run.adding(ledger), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    again |= _written_anew(ledger, last, lambda: False)
    told = json.loads(last.communicate()[0])
    counts = {name: told[name] for name in _COUNTS}
    yield {"step": "resume", "s": time.perf_counter() - started, **counts, "parts_written_twice": len(again)}


def _written_anew(ledger: Path, process: subprocess.Popen[Any], is_now: Callable[[], bool]) -> set[str]:
    """Wait for a moment, or for the end: which finished parts were written again meanwhile."""
    kept, again = _parts(ledger), set[str]()
    while process.poll() is None and not is_now():
        now = _parts(ledger)
        again |= {path for path, which in kept.items() if now.get(path, which) != which}
        time.sleep(_POLL_SECONDS)
    return again


def _parts(ledger: Path) -> dict[str, tuple[int, int]]:
    """Measurements under way that are finished, and what tells whether a file was written anew."""
    finished = {}
    # Files go while they are looked for, and their directories too.
    with suppress(FileNotFoundError):
        for path in (ledger / "runs").rglob("*.parquet"):
            with suppress(FileNotFoundError):
                status = path.stat()
                finished[str(path)] = (status.st_ino, status.st_mtime_ns)
    return finished


def _n_commits(ledger: Path) -> int:
    return Ledger.of_user(ledger).state().n_commits


def canonical(path: Path) -> dict[str, list[str]]:
    """All rows of a ledger, in an order that does not depend on how they came there."""
    _, found = Ledger.of_user(path).read()
    return {name: sorted(json.dumps(row, default=str, sort_keys=True) for row in of) for name, of in found.items()}


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in _paths(folder) if path.is_file()}


def _paths(folder: Path) -> list[Path]:
    return [folder, *sorted(folder.rglob("*"))]


def is_private(path: Path) -> bool:
    """Whether a file or directory is its owner's alone."""
    return stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def _counts(path: Path) -> Row:
    return {table: len(of) for table, of in canonical(path).items()}


def _on_top(run: _Program, ledger: Path) -> Iterator[Row]:
    """At which places the planted documents, and the people in them, stand."""
    book = Book(Ledger.of_user(ledger))
    told = [one["document"] for one in run.printed("show", ledger, "--by", "document")]
    yield {"step": "on top", "by": "document", "places": {n: told.index(n) + 1 for n in day.NOTES if n in told}}
    names = [book.names.get(one["subject"], "") for one in run.printed("show", ledger, "--by", "subject")]
    private = {note: _first(names, value.private) for note, value in day.NOTES.items()}
    yield {"step": "on top", "by": "subject", "places": private}


def _first(names: list[str], private: tuple[str, ...]) -> int | None:
    places = [place for place, name in enumerate(names, 1) if any(value in name for value in private)]
    return places[0] if places else None


def largest_sums(run: _Program, ledger: Path, *, by_recipient: bool) -> list[float]:
    """The largest sizes of running sums, by arithmetic of this module's own over the rows of `query`, largest first."""
    events = run.printed("query", ledger, "select * from events order by time")
    looks = run.printed("query", ledger, "select * from looks where present")
    scores = run.printed("query", ledger, "select * from scores where unit = 'document'")
    nats = {(row["score"], row["target"]): row["signed_nats"] for row in scores}
    of_event = defaultdict(list)
    for look in looks:
        of_event[look["event"]].append((look["document"], look["content"]))
    each: dict[Any, list[float]] = defaultdict(list)
    draws: set[Any] = set()
    for event in events:
        for document, content in of_event[event["event"]]:
            group = (document, content, event["recipient"] if by_recipient else None)
            if (group, event["draw"]) not in draws:
                draws.add((group, event["draw"]))
                each[group].append(nats[event["by_document"], content])
    return sorted((max(map(abs, itertools.accumulate(of))) for of in each.values()), reverse=True)


def _budgets(run: _Program, ledger: Path) -> Iterator[Row]:
    for per, by_recipient in (("document,recipient", True), ("document", False)):
        sums = largest_sums(run, ledger, by_recipient=by_recipient)
        for place in (0, 1, 2):
            for factor in (1 + 1e-9, 1 - 1e-9):
                budget = sums[place] * factor
                code, (checked,) = run.exit_and_printed("check", ledger, "--budget", repr(budget), "--per", per)
                yield {
                    "step": "budget",
                    "per": per,
                    "budget": budget,
                    "expected_over": sum(one > budget for one in sums),
                    "over": len(checked["over"]),
                    "exit": code,
                }


def _write_totals(run: _Program, ledger: Path, path: Path) -> None:
    """What was told of each document to each recipient; recipients by the order of their names."""
    keys = Ledger.of_user(ledger).keys
    who = {keys.recipient(name): f"recipient {n}" for n, name in enumerate(day.RECIPIENTS, 1)}
    names = (
        *("signed_nats", "largest_running_nats", "largest_answer_nats", "n_answers", "n_repeats"),
        *("placebo_running_nats", "posterior"),
    )
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("document", "planted", "recipient", *names, "low", "high"))
        for one in run.printed("show", ledger, "--by", "document"):
            own = (one["document"], int(one["document"] in day.NOTES), who[one["recipient"]])
            table.writerow((*own, *(one[name] for name in names), *one["interval_nats"]))


def _forgetting(run: _Program, ledger: Path, out: Path) -> Iterator[Row]:
    document, with_person = _FORGOTTEN
    person = day.NOTES[with_person].person
    store = Ledger.of_user(ledger)
    book = Book(store)
    keys: Keys = store.keys
    pseudonyms = [content for id_, content in book.documents if id_ == document]
    pseudonyms.append(keys.entity("person", person.casefold()))
    exits = [run.ended("forget", ledger, one) for one in (document, person)]
    first, last = person.split()
    gone = (document, *day.NOTES[document].private, first, last, *pseudonyms)
    yield {
        "step": "forget",
        "exits": exits,
        "found": {str(folder.name): found_in(folder, gone) for folder in (ledger, out / "config", out / "scores")},
        "verify": run.ended("verify", ledger),
        "added_again": run.add(ledger)["n_added"],
    }


def found_in(folder: Path, values: tuple[str, ...]) -> list[str]:
    """Which values a file says, in its name, its bytes or, of a ledger, its rows and texts."""
    found = set()
    for path in folder.rglob("*"):
        said = str(path.relative_to(folder)).encode()
        if path.is_file():
            said += path.read_bytes()
        if path.name == FILE:
            store = Ledger.of_user(folder)
            said += json.dumps([store.read()[1], store.texts()], default=str, ensure_ascii=False).encode()
        found |= {value for value in values if value.encode() in said}
    return sorted(found)


def guarded(out: Path, full: Path, model: str) -> Iterator[Row]:
    """Seconds of `Guard.check` for a case of the demo's size, with an empty ledger and with one of the day.

    Args:
        out: where the empty ledger is.
        full: a ledger with answers, which stays as it is.
        model: what scores.
    """
    from leakmeter.products.ledger.guard import Guard

    meter = Meter(model, cache=False)
    for name, ledger in (("empty", out / "guarded"), ("day", full)):
        guard = Guard(meter, budget=1e6, ledger=ledger)
        times = [_checked(guard, number) for number in range(_CALLS + 1)][1:]
        yield {
            "step": "guard",
            "ledger": name,
            "calls": len(times),
            "median_s": statistics.median(times),
            "worst_s": max(times),
        }


def _checked(guard: Any, number: int) -> float:
    documents: Mapping[str, str] = {"note": day.NOTES["note-1"].text, "other": day.NOTES["note-6"].text}
    started = time.perf_counter()
    guard.check(documents, f"Question {number}: who came?", f"Answer {number}: somebody came.", "guarded", record=False)
    return time.perf_counter() - started
