"""Counts where the program asks a model, a measure or a reduction whether it has an attribute, instead of calling it.

python tools/count_probes.py            a line each, and their number in the last line
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parents[1] / "src" / "leakmeter"
PROBES: Final = ("getattr", "hasattr")
PROBED: Final = ("backend", "measure", "reduction", "model")
"""Last word of what a variable or an attribute is called that is one."""
OF_LIBRARIES: Final = ("backends/hf", "models")
"""Where a `model` is one of the transformers library, whose attributes differ."""


def probes(source: str, probed: Sequence[str] = PROBED) -> Iterator[tuple[int, str]]:
    """Lines and expressions of a module's text. To read each field of a dataclass by its name is no probe: only a name
    that is written out, or one that an object passes on for another (`__getattr__`), may be missing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            yield from ((call.lineno, ast.unparse(call)) for call in ast.walk(node) if _is_probe(call, probed))
        elif _is_probe(node, probed) and isinstance(node, ast.Call) and isinstance(node.args[1], ast.Constant):
            yield node.lineno, ast.unparse(node)


def _is_probe(node: ast.AST, probed: Sequence[str]) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PROBES):
        return False
    asked = node.args[0]
    # Of `getattr(getattr(backend, "model", None), "device")` the inner one is a probe too.
    name = asked.attr if isinstance(asked, ast.Attribute) else asked.id if isinstance(asked, ast.Name) else ""
    return name.rpartition("_")[2] in probed


def main() -> None:
    n = 0
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        probed = PROBED[:-1] if where.startswith(OF_LIBRARIES) else PROBED
        for line, expression in probes(path.read_text(encoding="utf-8"), probed):
            n += 1
            print(f"{path.relative_to(SOURCE.parent)}:{line}: {expression}")
    print(f"getattr and hasattr on models, measures and reductions: {n}")
    sys.exit(n > 0)


if __name__ == "__main__":
    main()
