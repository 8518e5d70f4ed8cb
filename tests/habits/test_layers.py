"""Imports point down: a room knows itself and the rooms below it, and heavy libraries stay in theirs."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.count_ideas import files_that_name_prediction, packages, string_imports

from helpers.places import ROOT
from leakmeter.core.folder import imports_of

SOURCE = ROOT / "src" / "leakmeter"
MODULES = sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyi")])
NAMES = [str(path.relative_to(SOURCE)) for path in MODULES]

# Top to bottom; rooms of one row do not know each other. A room within a room has a row of its own where it is used by
# others than that room.
ROWS = """
    __main__ / cli / products.serve / testing pytest_plugin integrations / meter / runs /
    products.ledger / products.doctor products.integrations / products.pages / products.gate /
    instruments / commands / engine / results / engine.storage / engine.execute / engine.stores / report / backends /
    traces / data.traces / data / text / privacy models / core / stats / errors data.samples /
    products overriding
""".split("/")  # noqa: SIM905
LEVEL = {room: level for level, row in enumerate(ROWS) for room in row.split()}
# Loaded by name at any height: the package's front door.
APART = ("__init__",)
# Where a heavy library may be imported; in `models` within functions only.
HEAVY = ("torch", "transformers")
THEIR_ROOMS = ("backends/hf/", "models/", "instruments/pii/tuning/")
# What the command line does not import at once.
SLOW = ("pandas", "pyarrow", "rich", "jinja2", "tokenizers", "gguf", "safetensors", "duckdb")
# What products read of instruments, beside public names, and why those do not do.
MODULES_FOR_PRODUCTS = {
    "decoding.measure": "completions draw token by token, and refuse beforehand what no guarantee holds for",
    "influence.context": "the page marks a context while its pieces are measured",
    "influence.disclosure_report": "the page words disclosures of what is left of a context as reports do",
    "influence.disclosures": "the page finds disclosures before there is a result; the ledger keeps more of them",
    "influence.findings": "the page marks the pieces that reports call findings",
    "influence.math": "the page and the ledger read measurements of parts by their statistics",
    "influence.measure": "the page measures piece by piece; the ledger measures into runs of its own",
    "influence.search": "the page goes on with a search that it has shown",
    "influence.sources": "the ledger adds up what each source has told",
    "influence.steps": "the page measures a log as the command does, within a server's queue",
    "redaction.measure": "the page and the guard redact one prompt, without a run",
}
# What an instrument may read of another.
MAY_READ = {("redaction", "influence"), ("icl", "influence")}


def room_of(*parts: str) -> str:
    """The room of 'engine', 'storage', 'rundir.py': the innermost that has a row."""
    whole = ".".join(parts[:2])
    return whole if whole in LEVEL else parts[0].partition(".")[0]


def room_at(path: Path) -> str:
    return room_of(*path.relative_to(SOURCE).parts)


@cache
def imports(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """Every imported module's full name, the line, and whether it stands at the top of the module."""
    found: list[tuple[str, int, bool]] = []
    stack: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), True)]
    while stack:
        node, at_top = stack.pop()
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, at_top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(f"{node.module}.{alias.name}", node.lineno, at_top) for alias in node.names]
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        at_top = at_top and not typing_only and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        # There are none within expressions.
        kinds = ast.stmt | ast.excepthandler | ast.match_case
        stack += [(one, at_top) for one in reversed([*ast.iter_child_nodes(node)]) if isinstance(one, kinds)]
    return tuple(found)


def own_rooms(path: Path) -> Iterator[tuple[str, int]]:
    """Rooms of leakmeter that a module imports from, types included; of a public name where it is."""
    homes = imports_of("leakmeter")
    for name, line, _ in imports(path):
        parts = name.split(".")
        if len(parts) == 2 and parts[1] in homes:
            parts = homes[parts[1]].split(".")
        if parts[0] == "leakmeter" and len(parts) > 1:
            yield room_of(*parts[1:]), line


def test_every_room_has_its_place() -> None:
    rooms = {room_at(path) for path in MODULES}
    assert rooms - set(APART) - set(LEVEL) == set(), "a new room: give it a row"


def test_imports_point_down() -> None:
    for path, name in zip(MODULES, NAMES, strict=True):
        room = room_at(path)
        for other, line in own_rooms(path) if room not in APART else ():
            is_down = other in APART or other == room or LEVEL[other] > LEVEL[room]
            assert is_down, f"{name}:{line}: {room} imports {other}"


def test_instruments_do_not_read_each_other() -> None:
    for path in (SOURCE / "instruments").rglob("*/*.py"):
        own = path.relative_to(SOURCE).parts[1]
        for name, line, _ in imports(path):
            parts = name.split(".")
            if parts[:2] == ["leakmeter", "instruments"] and len(parts) > 2 and parts[2] != own:
                assert (own, parts[2]) in MAY_READ, f"{path}:{line} imports {name}"


def test_products_read_few_modules_of_instruments() -> None:
    read: set[str] = set()
    for path in (SOURCE / "products").rglob("*.py"):
        for name, _, _ in imports(path):
            parts = name.split(".")
            if parts[:2] == ["leakmeter", "instruments"] and len(parts) > 3:
                read.add(".".join(parts[2:4]))
    assert read == MODULES_FOR_PRODUCTS.keys()


def test_the_house_has_few_rooms_and_prediction_few_files() -> None:
    assert len(packages()) <= 14
    assert files_that_name_prediction() <= 8


def test_measures_know_no_model_and_no_file() -> None:
    for path in (SOURCE / "instruments").rglob("measure.py"):
        rooms = {room for room, _ in own_rooms(path)}
        assert rooms <= {"core", "stats", "privacy", "instruments", "errors", "overriding"}, (path, rooms)


def test_heavy_libraries_stay_in_their_rooms() -> None:
    for path, name in zip(MODULES, NAMES, strict=True):
        for imported, line, at_top in imports(path):
            library = imported.split(".")[0]
            if library in HEAVY:
                assert name.startswith(THEIR_ROOMS), f"{name}:{line} imports {library}"
                assert not (at_top and name.startswith("models/")), f"{name}:{line} imports {library} at once"
            elif library in SLOW:
                assert not (at_top and name.startswith("cli/")), f"{name}:{line} imports {library} at once"


def test_no_modules_import_each_other_in_a_circle() -> None:
    ran = [path for path in MODULES if path.suffix == ".py"]
    modules = {".".join(("leakmeter", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in ran}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    after: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for imported, _, at_top in imports(path):
            target = imported if imported in modules else imported.rpartition(".")[0]
            if at_top and target in modules and target != name:
                after[name].add(target)
    graphlib.TopologicalSorter(after).prepare()


def test_no_import_is_hidden_in_a_text() -> None:
    """Only what lies in a module's own folder is imported by a name that is made, and public names by their stub."""
    assert list(string_imports(SOURCE)) == []


def test_the_layer_test_sees_what_it_should(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "import a.b\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import c\n"
        "def f():\n    from d.e import g\n"
    )
    assert [(name, at_top) for name, _, at_top in imports(path)] == [
        *(("a.b", True), ("typing.TYPE_CHECKING", True), ("c", False), ("d.e.g", False))
    ]
