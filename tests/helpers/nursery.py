"""Runs a command again and again, each time killed at a random moment, until it ends; children are forked, warm.

    python nursery.py OUT N_KILLS SEED WORDS…

Runs `leakmeter WORDS --out OUT/calm` undisturbed, then `--out OUT/0`, killed until it is whole, then `--out OUT/1`, and
so on, until N_KILLS children were killed and the last study is whole. Prints one JSON object: how many were killed, how
many parts they found finished, and what went wrong.
"""

import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from leakmeter.cli import main

# What a study takes, so that a child begins with the work; nothing of it starts a thread.
for name in (
    *("leakmeter.commands.studies.cells", "leakmeter.commands.studies.grid", "leakmeter.commands.studies.table"),
    *("leakmeter.backends.toy", "pyarrow.parquet", "matplotlib.figure", "matplotlib.backends.backend_agg"),
):
    importlib.import_module(name)


def start(words: list[str], out: Path) -> int:
    """A child that runs the command; its exit code is the command's."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        with (out.parent / "output").open("w") as sink:
            sys.stdout = sys.stderr = sink
            main([*words, "--out", str(out)])
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        os._exit(code)


def parts(out: Path) -> dict[str, tuple[int, int]]:
    """Finished parts, and what tells whether one was written again."""
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino) for p in out.glob("*/measurements-*.parquet")}


def ended(child: int, seconds: float) -> int | None:
    """The child's exit code; None where it was still at work after so long, and was killed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == -signal.SIGKILL else code


def run(folder: Path, n_kills: int, seed: int, words: list[str]) -> dict[str, object]:
    rng = random.Random(seed)
    began = time.monotonic()
    if code := ended(start(words, folder / "calm"), 300.0):
        return {"wrong": f"undisturbed, it ended with {code}: {(folder / 'output').read_text()}"}
    calm_seconds = time.monotonic() - began
    killed, studies, found = 0, 0, []
    while killed < n_kills:
        out = folder / str(studies)
        studies += 1
        code, seen = None, {}
        while code is None:
            # Once there were enough, it may end.
            code = ended(start(words, out), rng.uniform(0.0, calm_seconds) if killed < n_kills else 300.0)
            now = parts(out)
            if {name: now.get(name) for name in seen} != seen:
                return {"wrong": "a finished part was measured again"}
            seen = now
            if code is None:
                killed += 1
                found.append(len(seen))
        if code:
            return {"wrong": f"killed {killed} times, it ended with {code}: {(folder / 'output').read_text()}"}
    return {"killed": killed, "studies": studies, "parts": found, "wrong": None}


json.dump(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]), sys.stdout)
