"""Classification tasks: the paper's three by name, one module each with a `TASK`, and a user's own from a TOML file."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from leakmeter.core.files import parsed_toml, read_text
from leakmeter.data.tasks.base import TaskData, task_of, task_of_columns
from leakmeter.errors import UnknownNameError

__all__ = ["find", "load_task", "names", "task_of", "task_of_columns"]


def names() -> list[str]:
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if name != "base" and not name.startswith("_"))


def find(name: str) -> TaskData:
    if name not in names():
        raise UnknownNameError("task", name, names())
    task: TaskData = importlib.import_module(f"{__name__}.{name}").TASK
    return task


def load_task(source: str) -> TaskData:
    """A published task by its name, or a user's own from a file whose path ends in '.toml'."""
    if source.lower().endswith(".toml"):
        path = Path(source)
        where = f"task file '{path}'"
        return task_of({"name": path.stem, **parsed_toml(read_text(path, "task file"), where)}, where)
    return find(source)
