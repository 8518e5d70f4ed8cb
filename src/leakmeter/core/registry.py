"""Instruments and back ends by name: folders and modules of this package, and entry points of others.

A folder of `leakmeter.instruments` whose `__init__` has an `INSTRUMENT` is an instrument; so is what another package
names in the entry-point group `leakmeter.instruments`. A module of `leakmeter.backends` with a class that scores is a
back end under its own name; others come from the group `leakmeter.backends`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from leakmeter.core.instrument import Instrument
from leakmeter.errors import UnknownNameError

_INSTRUMENTS = "leakmeter.instruments"
_BACKENDS = "leakmeter.backends"
_DOCTOR = "doctor"


def instruments() -> list[str]:
    return sorted({*_own(), *(point.name for point in _others(_INSTRUMENTS))})


def instrument(name: str) -> Instrument:
    for point in _others(_INSTRUMENTS):
        if point.name == name:
            measure: Instrument = point.load()
            return measure
    try:
        return _own()[name]
    except KeyError:
        raise UnknownNameError("measure", name, instruments()) from None


def reporter(kind: type) -> Callable[[Sequence[Any]], Any]:
    """The function that makes a report of a class's results: its instrument's, or that of the module `report` beside
    it."""
    folder = kind.__module__.rpartition(".")[0]
    for measure in _own().values():
        if measure.package == folder:
            return measure.report
    for point in _others(_INSTRUMENTS):
        if point.module == folder:
            report: Callable[[Sequence[Any]], Any] = point.load().report
            return report
    beside: Callable[[Sequence[Any]], Any] = importlib.import_module(f"{folder}.report").report
    return beside


def printed(name: str) -> tuple[Any, str]:
    """The class that `--json` prints, and the package that ships its schema."""
    if name == _DOCTOR:
        return importlib.import_module("leakmeter.checkup.result").DoctorResult, "leakmeter.checkup"
    measure = instrument(name)
    return measure.result, measure.package


def all_printed() -> list[str]:
    return sorted((*instruments(), _DOCTOR))


def backends() -> list[str]:
    package = importlib.import_module(_BACKENDS)
    own = {m.name for m in pkgutil.iter_modules(package.__path__) if m.name != "base" and not m.name.startswith("_")}
    return sorted(own | {point.name for point in _others(_BACKENDS)})


def backend(name: str) -> Any:
    """The class of a back end: the one of its module that scores."""
    for point in _others(_BACKENDS):
        if point.name == name:
            return point.load()
    if name not in backends():
        raise UnknownNameError("back end", name, backends())
    # A package may leave its class where it is, so that its name alone loads little.
    modules = (importlib.import_module(f"{_BACKENDS}.{where}") for where in (name, f"{name}.backend"))
    return next(
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith(f"{_BACKENDS}.{name}") and hasattr(value, "score")
    )


@cache
def _own() -> dict[str, Instrument]:
    return {measure.name: measure for measure in _within(importlib.import_module(_INSTRUMENTS))}


def _within(package: Any) -> Iterator[Instrument]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.ispkg:
            folder = importlib.import_module(module.name)
            if hasattr(folder, "INSTRUMENT"):
                yield folder.INSTRUMENT
                yield from _within(folder)


@cache
def _others(group: str) -> tuple[EntryPoint, ...]:
    # To look through all that is installed takes ten milliseconds, and a command asks for instruments dozens of times.
    return tuple(entry_points(group=group))
