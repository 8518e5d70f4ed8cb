"""Modules that are found by lying in a folder, such as instruments, tasks and data sets; and public names that are
loaded on first use, found among the imports of a stub."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType


def names_in(package: ModuleType, *, folders: bool = False) -> list[str]:
    """Names of a package's modules, or of its folders alone."""
    import pkgutil

    found = pkgutil.iter_modules(package.__path__)
    return sorted(one.name for one in found if (one.ispkg or not folders) and not one.name.startswith("_"))


def module_in(package: ModuleType, name: str) -> Any:
    """A module of a package, imported."""
    return importlib.import_module(f"{package.__name__}.{name}")


@cache
def imports_of(package: str, file: str = "__init__.pyi") -> Mapping[str, str]:
    """Public names to the modules that have them: the imports of a file that type checkers read and programs do not
    run, written 'from MODULE import NAME as NAME'."""
    import ast
    import pkgutil

    found: dict[str, str] = {}
    for node in ast.parse(pkgutil.get_data(package, file) or b"").body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if alias.name == "*":
                    folder, _, module = node.module.rpartition(".")
                    found |= imports_of(folder, f"{module}.py")
                elif alias.asname == alias.name:
                    found[alias.name] = node.module
    return found
