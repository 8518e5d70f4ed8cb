"""Counts, one line each, of what a reader has to hold: imports hidden in texts, packages, names that stand for two."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "leakmeter"
IMPORTERS = ("import_module", "__import__", "import_string", "resolve_name")
ALLOWED = {
    "core/folder.py": "modules that lie in a folder that is imported",
    "__init__.py": "names of the package's own stub, whose imports tools read",
}


def string_imports(source: Path = SOURCE) -> Iterator[str]:
    """Files and lines where a module is imported by a text, or a text names one as 'package.module:name'."""
    for path in sorted(source.rglob("*.py")):
        name = str(path.relative_to(source))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in IMPORTERS
            named = (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_module(node.value, path, source)
            )
            if (called and name not in ALLOWED) or named:
                yield f"{name}:{getattr(node, 'lineno', 0)}"


def _is_module(text: str, path: Path, source: Path) -> bool:
    """Whether a text is 'module:name' of a module here, from the top or from the folder of the text."""
    module, colon, name = text.partition(":")
    if not (colon and name.isidentifier() and module.strip(".").replace(".", "").isidentifier()):
        return False
    parts = module.strip(".").removeprefix("leakmeter.").split(".")
    return any(folder.joinpath(*parts).with_suffix(".py").exists() for folder in (source, path.parent))


def packages(source: Path = SOURCE) -> list[str]:
    return sorted(path.parent.name for path in source.glob("*/__init__.py"))


def public_classes(source: Path = SOURCE) -> dict[str, list[str]]:
    """Public classes at the top of modules by name, and the modules that define one."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(source)))
    return dict(found)


def main() -> None:
    hidden, rooms = list(string_imports()), packages()
    doubles = {name: places for name, places in sorted(public_classes().items()) if len(places) > 1}
    print(f"string imports: {len(hidden)}{''.join(f' {place}' for place in hidden)}")
    print(f"top-level packages: {len(rooms)} ({' '.join(rooms)})")
    listed = "; ".join(f"{name}: {' '.join(places)}" for name, places in doubles.items())
    print(f"public class names with more than one definition: {len(doubles)}{f' ({listed})' if listed else ''}")


if __name__ == "__main__":
    main()
