"""How much the tests notice of random breaks: a sample of all small mutations of the code that computes.

    python tests/mutants/sampled.py [--sample 500] [--seed 0] [--only TEXT …] [--calls FILE] [--from N] [--part K/N]

A mutation changes one operator, comparison, bound, number or boolean, or removes one statement, in `core`, `stats`,
`privacy`, `text` and each instrument's `measure.py` and `math.py`. Messages, annotations, docstrings and defaults of
decorators are left alone: they compute nothing.

Before, the quick tests but those that are `FAR` run once, and each says which functions it calls. A mutant is met by
the tests that call its function: the fastest first, up to the first failure, then others, with those of the file whose
name is the module's. It is compiled in memory, in a process that is forked after the large libraries were loaded:
neither the checkout nor its compiled files are touched. A process that does not end is a mutant that was noticed, since
the tests ended in time without it; it is counted apart.

A line of JSON says of each mutant what became of it. What a sample found is in `sampled.md`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook
from hypothesis import Phase, settings

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
breaks: Any = importlib.import_module("mutants.__main__")
"""The targeted breaks, whose copy of the tree is used here too."""
MUTATED: Final = ("core/*.py", "stats/*.py", "privacy/*.py", "text/**/*.py")
MUTATED_OF_INSTRUMENTS: Final = ("instruments/**/measure.py", "instruments/**/math.py")
FAR: Final = (
    *(
        "tests/engine/execute/",
        "tests/fuzz/",
        "tests/habits/",
        "tests/products/integrations/",
        "tests/products/serve/",
        "tests/engine/stores/",
    ),
    *("tests/models/test_llama_cpp.py", "tests/backends/served/test_llamacpp_real.py"),
    "tests/products/doctor/test_faults_of_servers.py",
)
"""Tests that are left out: of other code, of the source as text, or of servers, for which every mutant would wait."""
LIBRARIES: Final = """
    numpy scipy.stats scipy.optimize torch transformers pandas pyarrow.parquet hypothesis.strategies duckdb jinja2
    rich.console altair array_api_compat.numpy array_api_compat.torch faker opentelemetry.trace requests
    sentencex xxhash zstandard psutil platformdirs pdb
""".split()  # noqa: SIM905
"""Loaded once, before the forks; one that is missing is loaded by nobody."""
FIRST_SECONDS: Final = 6.0
"""Of the fastest tests that a mutant meets first."""
THEN_SECONDS: Final = 20.0
"""Of those that it meets then, again the fastest; both as they took when nothing was broken."""
_FEW_TESTS: Final = 3
"""So many that a function is called by them may be called in the process once."""
MOST_BYTES: Final = 8 * 2**30
"""Of data a mutant may hold: one that allocates without end must not take the machine with it."""

_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip
_BOUNDARIES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One place of one module, and what is done to it."""

    path: str
    """Of the module, from `src/leakmeter`."""
    line: int
    kind: str
    function: int | None
    """First line of the innermost function around it; None where it is run when the module is loaded."""
    number: int
    """Of the mutation among those of the module, which `mutations` gives in order."""
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.kind}: {self.before} → {self.after}"


@dataclass
class Called:
    """What a test calls, and how long it takes."""

    seconds: float
    functions: set[tuple[str, int]]


Mutation = tuple[ast.AST, str, int | None, Callable[[], Callable[[], None]]]
"""A place, the kind of mutation, the function around it, and what makes it and gives what undoes it."""


def mutations(node: ast.AST, function: int | None = None) -> Iterator[Mutation]:
    """Those of a module, or of a part of it that stands within a function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inner = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        for default in filter(None, (*node.args.defaults, *node.args.kw_defaults)):
            yield from mutations(default, function)
        for one in node.body if isinstance(node.body, list) else [node.body]:
            yield from mutations(one, inner)
        yield from _removed(node.body, inner) if isinstance(node.body, list) else ()
        return
    yield from ((node, kind, function, make) for kind, make in _of_node(node))
    for name, held in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "ops", "type_params") or _is_type(node, name):
            continue
        for one in held if isinstance(held, list) else [held]:
            if isinstance(one, ast.AST):
                yield from mutations(one, function)
        if isinstance(held, list) and held and isinstance(held[0], ast.stmt) and function is not None:
            yield from _removed(held, function)


def _is_type(node: ast.AST, name: str) -> bool:
    """Whether a part names types: bases of classes, aliases, what is checked only, and parts of messages."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.ClassDef):
        return name in ("bases", "keywords")
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("TypeVar", "cast", "NewType", "ParamSpec") and name == "args"
    if isinstance(node, ast.JoinedStr | ast.Raise):
        return True
    if isinstance(node, ast.Assign):
        # An alias such as Reader = Callable[[int], int] | None.
        return name == "value" and isinstance(node.value, ast.Subscript | ast.BinOp) and _names_types(node.value)
    return False


def _names_types(node: ast.expr) -> bool:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return bool(names & {"Callable", "Literal", "Mapping", "Sequence", "Generator", "Iterator", "Union", "NDArray"})


def _of_node(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Mutations of one node: kinds, and what puts them in, giving what to do to undo it."""
    put = partial(_put, vars(node))
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        if isinstance(node, ast.AugAssign) or not (_is_text(node.left) or _is_text(node.right)):
            yield "operator", lambda: put("op", _ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign", lambda: put("op", ast.UAdd())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", lambda: put("operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(map(type, node.ops)):
            if op in _BOUNDARIES:
                yield "boundary", partial(_put, node.ops, i, _BOUNDARIES[op]())
        if len(node.ops) == 1:
            yield "comparison", partial(_put, node.ops, 0, _OPPOSITES[type(node.ops[0])]())
    elif isinstance(node, ast.BoolOp):
        yield "and, or", lambda: put("op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "boolean", lambda: put("value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "number", lambda: put("value", node.value + 1)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _removed(body: list[ast.stmt], function: int) -> Iterator[Mutation]:
    for i, statement in enumerate(body):
        is_doc = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_place = isinstance(statement, ast.Assign) and not any(isinstance(t, ast.Name) for t in statement.targets)
        is_act = isinstance(statement, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break)
        if (is_act or is_place) and not is_doc:
            yield statement, "removed", function, partial(_put, body, i, ast.copy_location(ast.Pass(), statement))


def _put(held: Any, at: Any, value: Any) -> Callable[[], None]:
    """Fields of a node, or a list, with another value at a place."""
    before, held[at] = held[at], value
    return lambda: held.__setitem__(at, before)


def mutants_of(package: Path) -> list[Mutant]:
    """Every mutant of the code that computes, by files and places."""
    found: list[Mutant] = []
    for pattern in (*MUTATED, *MUTATED_OF_INSTRUMENTS):
        for path in sorted(package.glob(pattern)):
            tree = ast.parse(path.read_text("utf-8"))
            for number, (node, kind, function, make) in enumerate(mutations(tree)):
                before = ast.unparse(node)
                undo = make()
                after = "" if kind == "removed" else ast.unparse(node)
                undo()
                line = getattr(node, "lineno", 0)
                name = path.relative_to(package).as_posix()
                found.append(Mutant(name, line, kind, function, number, before, after))
    return found


def sampled(mutants: Sequence[Mutant], n: int, seed: int) -> list[Mutant]:
    """Some mutants, drawn one by one by a hash: changes elsewhere leave those that were drawn in the sample."""
    seen: Counter[tuple[str, ...]] = Counter()
    drawn = []
    for mutant in mutants:
        what = (mutant.path, mutant.kind, mutant.before, mutant.after)
        drawn.append((hashlib.sha256(repr((seed, *what, seen[what])).encode()).digest(), mutant))
        seen[what] += 1
    return [mutant for _, mutant in sorted(drawn, key=lambda pair: pair[0])[:n]]


def mutated(text: str, number: int, filename: str) -> types.CodeType:
    tree = ast.parse(text)
    *_, make = next(itertools.islice(mutations(tree), number, None))
    make()
    return compile(ast.fix_missing_locations(tree), filename, "exec")


class Loader(importlib.machinery.SourceFileLoader):
    """Loads one module of the package mutated; neither read from compiled files nor written to them."""

    number = 0

    def get_code(self, fullname: str) -> types.CodeType:
        return mutated(Path(self.path).read_text("utf-8"), self.number, self.path)


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, package: Path, mutant: Mutant) -> None:
        parts = ["leakmeter", *Path(mutant.path).with_suffix("").parts]
        self._is_package = parts[-1] == "__init__"
        self._name = ".".join(parts[:-1] if self._is_package else parts)
        self._path = package / mutant.path
        self._number = mutant.number

    def install(self) -> None:
        """Before all others; pytest's, which rewrites assertions, is there for tests alone then."""
        rewritten = AssertionRewritingHook.find_spec

        def of_tests(hook: Any, name: str, path: Any = None, target: Any = None) -> Any:
            return None if name.startswith("leakmeter") else rewritten(hook, name, path, target)

        AssertionRewritingHook.find_spec = of_tests  # type: ignore[method-assign]
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = Loader(fullname, str(self._path))
        loader.number = self._number
        where = [str(self._path.parent)] if self._is_package else None
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=loader, submodule_search_locations=where
        )


class Calls:
    """A plug-in of pytest: which functions of the package each test that passes calls."""

    def __init__(self, package: Path) -> None:
        self._start = f"{package}{os.sep}"
        self._now: set[tuple[str, int]] = set()
        self._passed = True
        self.found: dict[str, Called] = {}

    def _trace(self, frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self._start):
            self._now.add((code.co_filename[len(self._start) :], code.co_firstlineno))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._now, self._passed = set(), True
        started = time.monotonic()
        threading.settrace(self._trace)  # type: ignore[arg-type]
        sys.settrace(self._trace)  # type: ignore[arg-type]
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            if self._passed:
                self.found[item.nodeid] = Called(time.monotonic() - started, self._now)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tests that fail or are skipped notice nothing."""
        self._passed = self._passed and report.passed


class Chosen:
    """A plug-in of pytest: some tests, in an order; the first failure."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: number for number, test in enumerate(tests)}
        self.failed: str | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._order), key=lambda i: self._order[i.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Of a test, or of a file that cannot be loaded."""
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    pytest_collectreport = pytest_runtest_logreport


def forked(work: Any, seconds: float) -> Any:
    """What a process of its own answers; None where it does not in time."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(read)
        try:
            sink = os.open(os.environ.get("MUTANTS_LOG", os.devnull), os.O_RDWR | os.O_CREAT)
            for handle in (0, 1, 2):
                os.dup2(sink, handle)
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            answer = json.dumps(work()).encode()
            while answer:
                answer = answer[os.write(write, answer) :]
        except BaseException:  # noqa: BLE001 - also what pytest raises to end
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    timer = threading.Timer(seconds, _kill, [child])
    timer.start()
    with open(read, "rb") as pipe:
        told = pipe.read()
    timer.cancel()
    _kill(child)
    os.waitpid(child, 0)
    return json.loads(told) if told else None


def _kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def run_tests(tests: Sequence[str], plugin: object, scratch: Path) -> int:
    """Run pytest in this process, with the same examples every time."""
    phases = [phase for phase in settings().phases if phase not in (Phase.shrink, Phase.explain, Phase.reuse)]
    settings.register_profile("mutants", phases=phases, database=None, deadline=None)
    where = tempfile.mkdtemp(dir=scratch)
    command = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "unshrunk", "--hypothesis-seed", "0"]
    # Hypothesis was loaded before the fork.
    command += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    command += [*breaks.QUICK, "--basetemp", f"{where}/tests", *tests]
    return int(pytest.main(command, plugins=[plugin]))


def calls_of(scratch: Path, package: Path, known: Path | None) -> dict[str, Called]:
    """What each of the tests calls that are not far; read from a file or kept there."""

    def work() -> Any:
        plugin = Calls(package)
        # The working directory is the copy.
        files = [path.as_posix() for path in sorted(Path("tests").rglob("test_*.py"))]
        run_tests([path for path in files if not path.startswith(FAR)], plugin, scratch)
        return {name: [one.seconds, sorted(one.functions)] for name, one in plugin.found.items()}

    if known and known.exists():
        told = json.loads(known.read_text("utf-8"))
    else:
        told = forked(work, 3600)
        if not told:
            raise SystemExit("the tests did not come to an end without a mutant")
        if known:
            known.write_text(json.dumps(told), encoding="utf-8")
    return {name: Called(taken, {(path, line) for path, line in held}) for name, (taken, held) in told.items()}


def nearest(mutant: Mutant, calls: Mapping[str, Called]) -> tuple[list[str], ...]:
    """The tests that a mutant meets first, and those after them."""
    of_module = {name for name, one in calls.items() if any(path == mutant.path for path, _ in one.functions)}
    place = (mutant.path, mutant.function)
    met = of_module if mutant.function is None else {name for name, one in calls.items() if place in one.functions}
    by_name = f"test_{Path(mutant.path).stem}.py::"
    folder = f"tests/{Path(mutant.path).parent.as_posix()}/"
    # What a test makes once for a whole file is called in the first of its tests only.
    also = {name for name in calls if name.startswith(folder) and by_name in name}
    first = _fastest(met, calls, FIRST_SECONDS)
    then = _fastest((met | also) - set(first), calls, THEN_SECONDS)
    # And what is made once for a whole process, in the first of all.
    last = _fastest(of_module - set(first) - set(then), calls, FIRST_SECONDS) if len(met) <= _FEW_TESTS else []
    return first, then, last


def _fastest(tests: Iterable[str], calls: Mapping[str, Called], seconds: float) -> list[str]:
    """As many of the fastest as take so long, and one at least."""
    found: list[str] = []
    for name in sorted(tests, key=lambda name: (calls[name].seconds, name)):
        seconds -= calls[name].seconds
        if found and seconds < 0:
            break
        found.append(name)
    return found


def tried(mutant: Mutant, package: Path, calls: Mapping[str, Called], scratch: Path) -> dict[str, Any]:
    started = time.monotonic()
    groups = [*filter(None, nearest(mutant, calls))]
    outcome, by = "survived" if groups else "not met", None
    for tests in groups:

        def work(tests: Sequence[str] = tests) -> Any:
            Finder(package, mutant).install()
            plugin = Chosen(tests)
            code = run_tests(["-x", *dict.fromkeys(name.partition("::")[0] for name in tests)], plugin, scratch)
            return [code, plugin.failed]

        told = forked(work, 30 + 5 * sum(calls[name].seconds for name in tests))
        if told is None:
            outcome = "no end"
        elif told[0]:
            outcome, by = "caught", told[1] or f"pytest ended with {told[0]}"
        if outcome != "survived":
            break
    seconds, n_tests = round(time.monotonic() - started, 1), sum(map(len, groups))
    return {"mutant": mutant.name, "outcome": outcome, "by": by, "tests": n_tests, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tests/mutants/sampled.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sample", type=int, default=500, metavar="N", help="mutants; 500 by default")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample; 0 by default")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="mutants whose name has one of these")
    parser.add_argument("--calls", type=Path, metavar="FILE", help="what tests call: read if there, else written")
    parser.add_argument("--from", dest="start", type=int, default=0, metavar="N", help="pass over the first N mutants")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="the K-th of N parts, from 0: one a core")
    options = parser.parse_args()
    os.nice(19)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        scratch = Path(made).resolve()
        tree = scratch / "tree"
        breaks._copy(tree)
        breaks._copy_models(scratch / "cache")
        package = tree / breaks.PACKAGE
        paths = os.pathsep.join(map(str, (tree / "src", HERE)))
        os.environ |= {"LEAKMETER_CACHE": str(scratch / "cache"), "PYTHONPATH": paths}
        sys.path[:0] = [str(tree / "src"), str(HERE)]
        os.chdir(tree)
        known = mutants_of(package)
        drawn = sampled(known, options.sample, options.seed)
        part, _, parts = options.part.partition("/")
        drawn = drawn[options.start :][int(part) :: int(parts)]
        drawn = [one for one in drawn if not options.only or any(text in one.name for text in options.only)]
        for name in LIBRARIES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        calls = calls_of(scratch, package, options.calls)
        outcomes: Counter[str] = Counter()
        breaks._tell({"mutants": len(known), "drawn": len(drawn), "seed": options.seed, "tests": len(calls)})
        for mutant in drawn:
            told = tried(mutant, package, calls, scratch)
            outcomes[told["outcome"]] += 1
            breaks._tell(told)
        caught = outcomes["caught"] + outcomes["no end"]
        breaks._tell({"sampled": len(drawn), **outcomes, "share_caught": round(caught / max(1, len(drawn)), 3)})


if __name__ == "__main__":
    main()
