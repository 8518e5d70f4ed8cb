"""The module `instruments/public.py`, made of what each instrument says."""

from __future__ import annotations

from typing import Any

from helpers.places import ROOT
from leakmeter.core import own, registry

PLACE = ROOT / "src" / "leakmeter" / "instruments" / "public.py"
_ABOUT = '''\
"""Public names of instruments, and which of them are methods of a `Meter`, for type checkers and for lazy names.

Made of what each `INSTRUMENT` says: `LEAKMETER_SNAPSHOTS=1 pytest tests/habits/test_typed.py` writes it.
"""
'''


def _home(public: Any) -> tuple[str, str]:
    return public.__module__, public.__name__


def written() -> str:
    folder = own.instruments().__name__
    ours = [one for one in map(registry.instrument, registry.instruments()) if one.package.startswith(folder)]
    functions = dict(sorted((_home(function), function) for one in ours for function in one.functions()))
    names = {*functions, *(_home(one.result) for one in ours)}
    methods = [home for home, function in functions.items() if hasattr(function, "on")]
    alias = {module: f"_{module.split('.')[-2]}" for module, _ in methods}
    lines = [(module, f"from {module} import {name} as {name}") for module, name in names]
    for module, name in alias.items():
        package, _, last = module.rpartition(".")
        lines.append((package, f"from {package} import {last} as {name}"))
    body = [f"    {name} = {alias[module]}.{name}" for module, name in methods]
    imports = [line for _, line in sorted(lines)]
    return "\n".join([_ABOUT, *imports, "", "", "class _Methods:", *body]) + "\n"
