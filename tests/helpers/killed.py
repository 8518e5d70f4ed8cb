"""Does a task to a ledger in forked children that kill themselves at one of their steps; nothing waits for a clock.

    python -m helpers.killed TASK FOLDER N_KILLS

Steps are what changes the folder: files that are opened to be written, renamed or removed, directories that are made or
removed, statements of a database; and rounds of the model. FOLDER/before is copied to FOLDER/calm, where the task is
done to its end, and to FOLDER/1, FOLDER/2 …, where it is killed at that step: at N_KILLS steps that are spread over
all. Prints one JSON object: how many steps there were, and those at which a child was killed.

In a process of its own, since a process that forks may have no threads.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from helpers.logged_answers import Echo, logged
from leakmeter.data.traces import LoggedAnswer
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import UsageError
from leakmeter.products.ledger import measuring
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.store import Ledger

KEYS: Final = Keys(b"k" * 32)
SECRET: Final = "Ms Ana Quill: 202-555-0143."
LEAK: Final = "Ana Quill"
WEATHER: Final = "It rains."
_CHANGES: Final = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def day() -> list[LoggedAnswer]:
    """Answers to two recipients: two have a secret document, and one was asked about its person without it."""
    out = []
    for n in range(4):
        documents = {"weather-0": WEATHER, **({"file-7": SECRET} if n % 2 else {})}
        query = "Did ANA  QUILL call?" if n == 2 else "What?"
        out.append(logged(n, documents, LEAK if n % 2 else "Rain", query=query, recipient=f"reader-{n // 2}"))
    return out


def quoting() -> LoggedAnswer:
    """An answer to a question that quotes the secret document, which was not retrieved for it."""
    return logged(8, {"weather-0": WEATHER}, "Rain", query=f"Is it so? {SECRET}")


def ledger_in(folder: Path) -> Ledger:
    return Ledger(folder / "ledger", KEYS)


def add_two(folder: Path, each_round: Callable[[], None] = lambda: None) -> None:
    """Add two answers of the day, one after the other, with texts."""

    class Counted(Echo):
        def score(self, chunk: Any) -> Any:
            each_round()
            return super().score(chunk)

    with patch.object(measuring, "BATCH", 1):
        add(ledger_in(folder), day()[1:3], KeptModel(Counted()), Measuring(keep_texts=True, conditions_hold=True))


def forget_it(folder: Path, id_: str) -> None:
    """Forget, unless that was done before."""
    try:
        forget(ledger_in(folder), id_)
    except UsageError as error:
        if "has no document, subject, recipient or trace" not in str(error):
            raise


def killed(task: str, folder: Path, n_kills: int) -> tuple[Path, list[Path]]:
    """The directory of an undisturbed task, 'add' or 'forget:' and what, and those in which it was killed."""
    told = run_module("helpers.killed", task, str(folder), str(n_kills))
    assert len(told["killed"]) >= min(n_kills, told["n_steps"])
    return folder / "calm", [folder / str(number) for number in told["killed"]]


def run_module(*words: str) -> Any:
    """What a module of the helpers prints."""
    path = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def main(task: str, folder: Path, n_kills: int) -> dict[str, object]:
    name, _, given = task.partition(":")

    def work(place: Path, step: Callable[[], None]) -> None:
        if name == "add":
            add_two(place, step)
        else:
            forget_it(place, given)

    n_steps = _in_child(work, folder, "calm", 0)
    if n_steps is None:
        raise SystemExit("the task that nobody disturbed was killed")
    killed_at = [number for number in spread(n_steps, n_kills) if _in_child(work, folder, str(number), number) is None]
    return {"n_steps": n_steps, "killed": killed_at}


def _in_child(work: Callable[[Path, Callable[[], None]], None], folder: Path, name: str, last: int) -> int | None:
    """How many steps a child took; None where it was killed at the last that it may take."""
    place = folder / name
    shutil.copytree(folder / "before", place)
    return forked(lambda: work(place, watched(place, last)), folder / f"{name}.json")


def spread(n_steps: int, n_kills: int) -> list[int]:
    """Numbers of steps, the first and the last among them, as many and as far apart as can be."""
    n_between = max(min(n_kills, n_steps) - 1, 1)
    return sorted({1 + n * (n_steps - 1) // n_between for n in range(n_between + 1)})


def forked(work: Callable[[], object], told: Path) -> int | None:
    """How many steps a child took, which it writes down; None where it was killed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            told.write_text(json.dumps({"n_steps": _steps, "modules": list(sys.modules)}))
            code = 0
        except BaseException:  # noqa: BLE001 - the child ends here, and says why
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGKILL:
        return None
    if code:
        raise SystemExit("a child failed")
    done = json.loads(told.read_text())
    # What a task takes is imported once for the children to come; nothing of it starts a thread.
    for module in set(done["modules"]) - sys.modules.keys():
        with suppress(ImportError):
            importlib.import_module(module)
    return int(done["n_steps"])


_steps = 0


def watched(place: Path, last: int) -> Callable[[], None]:
    """Take a step before everything that changes a file there; at the last, unless that is 0, the process is killed.

    What is returned takes a further step.
    """

    def step(*_: object) -> None:
        global _steps
        _steps += 1
        if _steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        is_change = event in _CHANGES or (event == "open" and (given[2] or 0) & _WRITING)
        if is_change and any(isinstance(one, str | os.PathLike) and str(one).startswith(str(place)) for one in given):
            step()

    def connect(*given: Any, **more: Any) -> sqlite3.Connection:
        connection = connected(*given, **more)
        connection.set_trace_callback(step)
        return connection

    connected, sqlite3.connect = sqlite3.connect, connect
    sys.addaudithook(hook)
    return step


def all_rows(ledger: Ledger) -> dict[str, list[str]]:
    _, rows = ledger.read()
    return {name: sorted(json.dumps(row, default=str, sort_keys=True) for row in of) for name, of in rows.items()}


if __name__ == "__main__":
    os.fsync = lambda handle: None
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
