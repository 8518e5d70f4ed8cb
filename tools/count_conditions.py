"""How many conditions compose each sentence of the instruments' reports: `python tools/count_conditions.py [MOST]`.

A sentence is what a function returns or yields as text, or what stands in a `Headline`, `Text` or `Warning`. Its
conditions are those that decide about words within it: in the expression itself, in what is assigned to the names that
it uses, and in the functions of the instruments, and of `report/words.py`, that it calls, each counted once. To choose
a whole sentence by a guard, or from a table by its key, is no condition of it; plurals and counts are grammar.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[1] / "src" / "leakmeter"
MODULES: Final = (
    "report",
    "words",
    "sentences",
    "headline",
    "charts",
    "attribution",
    "conversations",
    "permitted",
    "context",
)
BLOCKS: Final = ("Headline", "Text", "Warning")
TEXTS: Final = ("str", "Phrase", "Headline")
MOST: Final = 3
Function = ast.FunctionDef
"""One that makes a sentence."""


def modules(source: Path = SOURCE) -> list[Path]:
    """Modules of the instruments that say something."""
    found = sorted((source / "instruments").rglob("*.py"))
    return [path for path in found if path.stem in MODULES or path.stem.endswith("_report")]


def sentences(source: Path = SOURCE) -> dict[str, int]:
    """Functions, with the most conditions of a sentence in each; without those whose sentences have none."""
    paths = modules(source)
    functions: dict[str, Function] = {}
    for path in [source / "report" / "words.py", *paths]:
        functions |= {node.name: node for node in _functions(path) if _gives_text(node)}
    counted = {}
    for path in paths:
        for node in _functions(path):
            n = max((len(_conditions(one, node, functions, {node.name})) for one in _said(node)), default=0)
            if n:
                counted[f"{path.relative_to(source / 'instruments').as_posix()}:{node.name}"] = n
    return counted


def too_many(source: Path = SOURCE, most: int = MOST) -> dict[str, int]:
    return {name: n for name, n in sentences(source).items() if n > most}


def _functions(path: Path) -> Iterator[Function]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in tree.body if isinstance(node, Function))


def _gives_text(node: Function) -> bool:
    given = "" if node.returns is None else ast.unparse(node.returns)
    return any(
        given.removeprefix("b.") == text or given.endswith(f"[{text}]") or f"b.{text}" in given for text in TEXTS
    )


def _said(node: Function) -> Iterator[ast.expr]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Return | ast.Yield | ast.YieldFrom) and inner.value is not None and _gives_text(node):
            yield inner.value
        elif isinstance(inner, ast.Call) and ast.unparse(inner.func).rpartition(".")[2] in BLOCKS:
            yield from inner.args[:1]


def _conditions(said: ast.AST, within: Function, functions: dict[str, Function], seen: set[str]) -> set[int]:
    """Nodes that decide about words of a sentence; `seen` are names and functions that were followed already."""
    found: set[int] = set()
    for node in _words_of(said):
        if isinstance(node, ast.IfExp) or (isinstance(node, ast.BoolOp) and _has_text(node)) or _is_repeated(node):
            found.add(id(node))
        elif isinstance(node, ast.Name) and f"{within.name}.{node.id}" not in seen:
            seen.add(f"{within.name}.{node.id}")
            for value, guards in _assigned(within, node.id):
                found |= guards | _conditions(value, within, functions, seen)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in functions and called not in seen:
                seen.add(called)
                inner = functions[called]
                of_each = [_conditions(one, inner, functions, seen) for one in _said(inner)]
                found |= max(of_each, key=len, default=set())
    return found


def _words_of(said: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression without the keys by which it reads tables."""
    yield said
    for inner in ast.iter_child_nodes(said):
        if not (isinstance(said, ast.Subscript) and inner is said.slice):
            yield from _words_of(inner)


def _has_text(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.JoinedStr) or (isinstance(inner, ast.Constant) and isinstance(inner.value, str))
               for inner in ast.iter_child_nodes(node))  # fmt: skip


def _is_repeated(node: ast.AST) -> bool:
    """A text times a truth value."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _has_text(node)


def _assigned(within: Function, name: str) -> Iterator[tuple[ast.expr, set[int]]]:
    """What is assigned to a name in a function, and the `if` around each assignment but the first."""
    n = 0

    def visit(body: list[ast.stmt], guards: set[int]) -> Iterator[tuple[ast.expr, set[int]]]:
        nonlocal n
        for node in body:
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
                if name in names:
                    yield node.value, guards if n else set()
                    n += 1
            elif isinstance(node, ast.If):
                yield from visit(node.body, guards | {id(node)})
                yield from visit(node.orelse, guards | {id(node)})
            elif isinstance(node, ast.For | ast.With):
                yield from visit(node.body, guards)

    return visit(within.body, set())


def main(given: list[str]) -> None:
    most = int(given[0]) if given else MOST
    for name, n in sorted(sentences().items(), key=lambda row: (-row[1], row[0])):
        if n > most:
            print(f"{n} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
