"""Modules that are found by lying in a folder, such as instruments, tasks and data sets; and public names that are
loaded on first use, found among the imports of a stub."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

_IMPORT: Final = re.compile(r"^from (\S+) import (?:\*|(\w+) as \2)$", re.MULTILINE)


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
    run, each on a line 'from MODULE import NAME as NAME', or 'from MODULE import *'."""
    import pkgutil

    found: dict[str, str] = {}
    # `get_data` would load a package without making it an attribute of the one that it is in.
    importlib.import_module(package)
    text = (pkgutil.get_data(package, file) or b"").decode()
    for module, name in _IMPORT.findall(text):
        if name:
            found[name] = module
        else:
            folder, _, last = module.rpartition(".")
            found |= imports_of(folder, f"{last}.py")
    return found
