"""Data sets by name: one module each, with a `DATASET`. A module's name is the data set's name."""

from __future__ import annotations

import importlib
import pkgutil

from leakmeter.data.named.base import Dataset
from leakmeter.errors import UnknownNameError


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")


def find(name: str) -> Dataset:
    if name not in names():
        raise UnknownNameError("data set", name, names())
    dataset: Dataset = importlib.import_module(f"{__name__}.{name}").DATASET
    return dataset
