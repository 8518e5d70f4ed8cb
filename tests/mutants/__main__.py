"""How much the tests notice: the source is broken in one place at a time, and the tests are run.

    python tests/mutants [--check] [--only TEXT …] [--whole N] [--workers N]

Each break of `breaks.toml` is made in a copy of the tree, never in the checkout. The tests that are likely to notice it
run first, up to the first failure; where they all pass, so does the whole quick suite. A test that fails in the whole
copy too has caught nothing, and is left out from then on. A line of JSON says of each break whether it was caught and
by which test; the last line says how many were. Tests that come to no end catch nothing.

A snippet has to occur exactly once in the source, wherever it stands: files may be moved without touching the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import platformdirs

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("breaks.toml")
PACKAGE = Path("src", "leakmeter")
QUICK = ("-m", "not long and not hub")
LIKELY_SECONDS, WHOLE_SECONDS = 600.0, 2400.0
"""After which nothing is known: a break made the tests hang, or the machine was busy."""

_TEXTS = (".py", ".j2", ".html", ".css", ".js", ".json", ".toml")
_NO_END = "no end in time"
_NO_TESTS = 5
"""Exit code of pytest where all tests of some files are left out."""

Outcome = Literal["caught", "survived", "survived the likely tests", "no end"]


@dataclass(frozen=True)
class Break:
    """A place to break, and what to write there."""

    name: str
    group: str
    snippet: str
    replacement: str
    likely: tuple[str, ...]


@dataclass(frozen=True)
class Bench:
    """A copy of the tree, and how tests are run in it."""

    tree: Path
    scratch: Path
    workers: str
    sound: set[str] = field(default_factory=set)
    """Tests that are known to pass in the whole copy."""
    unsound: set[str] = field(default_factory=set)
    """Tests that fail there."""

    def caught_by(self, one: Break, path: Path, tests: Sequence[str], seconds: float) -> str | None:
        """The first test that fails with a break and passes without it; None where there is none."""
        while True:
            with _broken(one, path):
                found = self.failed(tests, seconds)
            if found is None or "::" not in found or found in self.sound:
                return found
            if self.failed([found], LIKELY_SECONDS) is None:
                self.sound.add(found)
                return found
            self.unsound.add(found)

    def failed(self, tests: Sequence[str], seconds: float) -> str | None:
        """The first test that fails, or what else went wrong; None where all pass."""
        cache = Path(tempfile.mkdtemp(dir=self.scratch))
        command = [sys.executable, "-m", "pytest", "-q", "-x", *QUICK, "-n", self.workers]
        command += [part for test in sorted(self.unsound) for part in ("--deselect", test)]
        # The same examples every time, and none that another break has left.
        command += ["-p", "unshrunk", "-o", f"cache_dir={cache}", "--hypothesis-seed", "0", *tests]
        env = self.environment | {"HYPOTHESIS_STORAGE_DIRECTORY": str(cache / "hypothesis")}
        with (cache / "output").open("wb") as output:
            to: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, cwd=self.tree, env=env, start_new_session=True, **to)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                return _NO_END
            finally:
                # Tests may leave processes behind; they are all of this session.
                _kill_session(process)
        if code == 0 or (code == _NO_TESTS and tests):
            return None
        known = cache / "v" / "cache" / "lastfailed"
        names = sorted(json.loads(known.read_text("utf-8"))) if known.exists() else []
        return names[0] if names else f"pytest ended with {code}: {(cache / 'output').read_text('utf-8')[-400:]}"

    @property
    def environment(self) -> dict[str, str]:
        """That of the tests: the package is the copy's, and the user's cache is left alone."""
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, (self.tree / "src", Path(__file__).parent))),
            "LEAKMETER_CACHE": str(self.scratch / "cache"),
        }

    def check(self) -> None:
        """Refuse to run tests against another package than the copy's."""
        command = [sys.executable, "-c", "import leakmeter; print(leakmeter.__file__)"]
        found = subprocess.run(command, env=self.environment, cwd=self.tree, capture_output=True, text=True, check=True)
        if not Path(found.stdout.strip()).is_relative_to(self.tree):
            raise SystemExit(f"the tests would run against '{found.stdout.strip()}', and not against the copy")


def main() -> None:
    options = _options()
    breaks = [one for one in _table() if not options.only or any(text in one.name for text in options.only)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        scratch = Path(made).resolve()
        bench = Bench(scratch / "tree", scratch, options.workers)
        _copy(bench.tree)
        places = _places(bench.tree, breaks)
        if options.check:
            _tell({"breaks": len(breaks)})
            return
        _copy_models(scratch / "cache")
        bench.check()
        told: list[dict[str, Any]] = []
        n_whole = 0
        for one, path in zip(breaks, places, strict=True):
            is_whole = options.whole is None or n_whole < options.whole
            told.append(_tried(bench, one, path, is_whole))
            n_whole += told[-1]["tests"] == "whole suite"
            _tell(told[-1])
        missed = [one["name"] for one in told if one["outcome"] != "caught"]
        unsound = sorted(bench.unsound)
        _tell({"breaks": len(told), "caught": len(told) - len(missed), "missed": missed, "unsound_tests": unsound})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only look for the snippets in the source")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="breaks whose name has one of these")
    parser.add_argument("--whole", type=int, metavar="N", help="most breaks for which the whole suite is run")
    parser.add_argument("--workers", default="0", metavar="N", help="of pytest-xdist; 0 by default")
    return parser.parse_args()


def _table() -> list[Break]:
    told = tomllib.loads(TABLE.read_text("utf-8"))
    return [Break(group=group, **{**one, "likely": tuple(one["likely"])}) for group, of in told.items() for one in of]


def _copy(tree: Path) -> None:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _copy_models(cache: Path) -> None:
    """The models of the user's cache, which broken code may write to, in a cache of its own."""
    given = os.environ.get("LEAKMETER_CACHE")
    models = (Path(given) if given else platformdirs.user_cache_path("leakmeter")) / "models"
    if models.is_dir():
        shutil.copytree(models, cache / "models", copy_function=shutil.copyfile)


def _places(tree: Path, breaks: Sequence[Break]) -> list[Path]:
    """The file of each break; refuses a snippet that is not there exactly once."""
    paths = (path for path in sorted((tree / PACKAGE).rglob("*")) if path.suffix in _TEXTS)
    texts = {path: path.read_text("utf-8") for path in paths}
    found, wrong = [], []
    for one in breaks:
        counts = {path: n for path, text in texts.items() if (n := text.count(one.snippet))}
        if sum(counts.values()) == 1 and one.snippet != one.replacement:
            found.append(next(iter(counts)))
        else:
            where = ", ".join(f"{path.relative_to(tree)} ({n})" for path, n in counts.items()) or "nowhere"
            wrong.append(f"'{one.name}': has to occur once, and is found {where}: {one.snippet}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    return found


def _tried(bench: Bench, one: Break, path: Path, is_whole: bool) -> dict[str, Any]:
    started = time.monotonic()
    outcome: Outcome = "survived the likely tests"
    tests, by = "likely", None
    if files := _likely(bench.tree, one):
        by = bench.caught_by(one, path, files, LIKELY_SECONDS)
    if by is None and is_whole:
        tests, outcome = "whole suite", "survived"
        by = bench.caught_by(one, path, (), WHOLE_SECONDS)
    outcome = outcome if by is None else "no end" if by == _NO_END else "caught"
    file, seconds = str(path.relative_to(bench.tree / PACKAGE)), round(time.monotonic() - started)
    told = {"name": one.name, "group": one.group, "file": file, "outcome": outcome}
    return {**told, "by": by, "tests": tests, "seconds": seconds}


@contextmanager
def _broken(one: Break, path: Path) -> Iterator[None]:
    """The file with the break in it, and then as it was."""
    text = path.read_text("utf-8")
    try:
        path.write_text(text.replace(one.snippet, one.replacement), encoding="utf-8")
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def _likely(tree: Path, one: Break) -> list[str]:
    """Test files whose paths have one of the words, those of the first word first."""
    known = [path.relative_to(tree).as_posix() for path in sorted((tree / "tests").rglob("test_*.py"))]
    found = [path for word in one.likely for path in known if word in path]
    return list(dict.fromkeys(found))


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tell(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
