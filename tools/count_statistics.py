"""In how many places of src each statistic is named by a text, a line each: `python tools/count_statistics.py [NAME
...]`; all by default. The goal is one place: its declaration (`core.measure.Statistic`)."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "leakmeter"
MAKERS = {"Statistic": (0,), "named": (0,), "Measurement": (3,), "Series": (0,)}
"""Callables that are given a statistic's name, and in which place; also under `name`."""
OTHERS = {("fisher/study.py", "susceptibility"): "a measure", ("serve/live.py", "whole"): "an ablation unit"}
"""Constants of modules that know statistics and are others' names: file and text, and what it names."""
KNOWING = ("Measurement", "Statistic", "Statistics")
"""Names of which a module imports one, or one that ends so, where a constant of it may be a statistic's name."""
ABOUT = ("statistic", "series", "measurement", "told", "readings", "ledger", "columns")
"""Words in what a text is looked up in, or compared with, where it is a statistic's name."""
Place = tuple[str, int]


def declared() -> dict[str, list[str]]:
    """Names of statistics to the measures that have them."""
    from leakmeter.core import registry

    measures: dict[str, list[str]] = defaultdict(list)
    for name in registry.instruments():
        for statistic in registry.instrument(name).measure.statistics.all():
            measures[str(statistic)].append(name)
    return measures


def texts_in(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts that stand where a statistic is named: of a call that makes one, a key of a series, what is compared, a
    constant of a module that knows statistics."""
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    if any(name.endswith(KNOWING) for name in imported):
        yield from _texts(
            [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
        )
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last_word(node.func) in MAKERS:
            yield from _texts([node.args[at] for at in MAKERS[_last_word(node.func)] if at < len(node.args)])
            yield from _texts([keyword.value for keyword in node.keywords if keyword.arg in ("name", "statistic")])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            if _is_about(node.func.value):
                yield from _texts(node.args)
        elif isinstance(node, ast.Subscript) and _is_about(node.value):
            yield from _texts([node.slice])
        elif isinstance(node, ast.Compare) and any(map(_is_about, (node.left, *node.comparators))):
            yield from _texts((node.left, *node.comparators))
        elif isinstance(node, ast.Dict):
            # Keys by sample, statistic and piece.
            yield from _texts([key for key in node.keys if isinstance(key, ast.Tuple)])
        elif isinstance(node, ast.comprehension | ast.For) and _is_about(node.target):
            yield from _texts([node.iter])


def _texts(nodes: Sequence[ast.AST]) -> Iterator[ast.Constant]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield from _texts(node.elts)


def _last_word(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_about(node: ast.AST) -> bool:
    return any(word in ast.unparse(node).lower() for word in ABOUT)


def places(names: Sequence[str]) -> dict[str, list[Place]]:
    """Where each name stands, file and line."""
    found: dict[str, list[Place]] = {name: [] for name in names}
    for path in sorted(SOURCE.rglob("*.py")):
        at = {(text.value, text.lineno) for text in texts_in(ast.parse(path.read_text(encoding="utf-8")))}
        file = str(path.relative_to(SOURCE))
        for name, line in at:
            if name in found and not any(file.endswith(end) and name == other for end, other in OTHERS):
                found[name].append((file, line))
    return found


def main(names: Sequence[str]) -> None:
    measures = declared()
    for name, lines in places(names or sorted(measures)).items():
        where = "; ".join(f"{path}:{line}" for path, line in sorted(lines))
        print(f"{name:28} {len(lines)}  {', '.join(measures.get(name, ['no measure']))}: {where}")


if __name__ == "__main__":
    main(sys.argv[1:])
