"""Plug-ins by file name: a new measure, its result or a back end is one new file, and nothing is registered.

Every module of a room that does not begin with an underscore, and is not `base`, is a plug-in under its own name.
A measure's result has the measure's name. Other packages add theirs through the entry-point groups
`leakmeter.measures`, `leakmeter.results` and `leakmeter.backends`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from leakmeter.errors import UnknownNameError

_METHOD = {"measures": "trial", "backends": "score", "results": "of_run"}


def names(room: str) -> list[str]:
    """Names of the plug-ins of a room ('measures', 'results' or 'backends'), without importing any."""
    package = importlib.import_module(f"leakmeter.{room}")
    own = {m.name for m in pkgutil.iter_modules(package.__path__) if m.name != "base" and not m.name.startswith("_")}
    return sorted(own | {point.name for point in _others(room)})


def find(room: str, name: str) -> Any:
    """The class of a plug-in: the one of its module that has the room's method.

    Raises:
        UnknownNameError: no plug-in of that name; says which there are.
    """
    for point in _others(room):
        if point.name == name:
            return point.load()
    if name not in names(room):
        raise UnknownNameError(room.removesuffix("s").replace("backend", "back end"), name, names(room))
    module = importlib.import_module(f"leakmeter.{room}.{name}")
    return next(
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith(module.__name__) and hasattr(value, _METHOD[room])
    )


def _others(room: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"leakmeter.{room}"))
