"""What an instrument is: a folder, and the parts of it that the rest of the house reads; and how it is found by name.

A folder of `leakmeter.instruments` whose `__init__` has an `INSTRUMENT` is an instrument; so is what another package
names in the entry-point group `leakmeter.instruments`. A module of `leakmeter.backends` with a `Backend` is a back end
under its own name; others come from the group `leakmeter.backends`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from leakmeter.core.record import JsonObject
from leakmeter.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.item import Prepared
    from leakmeter.core.measure import Measure


class AnyCase(Protocol):
    """A case as a user gives it: a frozen dataclass of an instrument."""

    @property
    def id(self) -> str:
        """What tells it from the other cases of a run: all that errors and results call it by."""

    def record(self) -> JsonObject:
        """The case as that which names a run: plain objects, with hashes in the place of what is not to be kept."""


class Settings(Protocol):
    """How prompts of cases of one kind are made: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def libraries(self) -> Sequence[str]:
        """Distributions, beside those of every run, whose versions decide what the prompts are."""

    def resolved(self) -> Self:
        """The settings with the files they name read; what cannot be used is said before a model is loaded."""

    def model_record(self) -> JsonObject:
        """What decides the prompts beside the settings and the model, such as another model's hash."""

    def check_measure(self, measure: Measure) -> None:
        """`UsageError` where they do not go with what measures."""

    def prepare(self, case: Any, backend: Backend, measure: Measure) -> Prepared:
        """Tokenise and cut a case of these settings' kind for a back end, which has the tokenizer and the window;
        the measure has refused what it cannot measure. `LeakmeterError` where the case cannot be measured so."""


class PlainSettings:
    """Settings of which nothing is to be said but what they are."""

    __slots__ = ()

    @property
    def libraries(self) -> Sequence[str]:
        return ()

    def resolved(self) -> Self:
        return self

    def model_record(self) -> JsonObject:
        return {}

    def check_measure(self, measure: Measure) -> None:
        """They go with any."""


@dataclass(frozen=True, slots=True)
class Example:
    """A small invented case, and what measures it in a moment."""

    settings: Settings
    case: AnyCase
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the measure, where they are not its defaults."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line."""

    name: str
    at: str
    """'module:name' within the instrument's folder; it is imported when it is asked for."""
    about: str
    """The first line of its help, said without importing it."""
    group: str = "Measure"
    """The heading under which `leakmeter --help` lists it."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One instrument, by where its parts are; each is imported when it is first asked for.

    Args:
        name: what runs and studies call it.
        package: the folder; `__name__` of its `__init__`.
        measure_at: 'module:name' within the folder, or with dots before it as in an import, of the dataclass of
            parameters that has the trial.
        result_at: likewise, of the class that makes results of a run.
        report_at: likewise, of a function of results to the `report.blocks.Report` of them.
        public_report_at: likewise, of what may be published of results; "" where nothing is.
        example_at: likewise, of a function (id, response or None) to an `Example`; what its tests measure.
        functions: likewise, those whose first parameter is a model: methods of a `Meter`.
        commands: that measure with it, and what prepares that.
        study_at: likewise, of what is particular to studies of it; "" where there are none.
    """

    name: str
    package: str
    measure_at: str
    result_at: str
    example_at: str
    study_at: str = ""
    functions: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    report_at: str = "report:report"
    public_report_at: str = ""

    @property
    def measure(self) -> Any:
        """The dataclass of parameters; see `core.measure.Measure`."""
        return self._part(self.measure_at)

    @property
    def result(self) -> Any:
        """The class of results; see `results.result.Result`."""
        return self._part(self.result_at)

    @property
    def study(self) -> Any:
        """What is particular to studies; see `studies.kind.Kind`. None where nothing is."""
        return self._part(self.study_at) if self.study_at else None

    def report(self, results: Sequence[Any]) -> Any:
        """Blocks that say what results do, those that may be published where the results are."""
        at = self.public_report_at if self.public_report_at and results[0].is_public else self.report_at
        return self._part(at)(results)

    def function(self, name: str) -> Any:
        return next((self._part(at) for at in self.functions if at.rpartition(":")[2] == name), None)

    def example(self, id_: str = "one", response: str | None = None) -> Example:
        """A case to try it on; where cases have responses, with one that is given."""
        example: Example = self._part(self.example_at)(id_, response)
        return example

    def _part(self, at: str) -> Any:
        module, _, name = at.partition(":")
        return getattr(importlib.import_module(f".{module}", self.package), name)


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
    own = {m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")}
    return sorted(own | {point.name for point in _others(_BACKENDS)})


def added_backends() -> list[str]:
    """Those of other packages."""
    return [point.name for point in _others(_BACKENDS)]


def backend(name: str) -> Any:
    """The class of a back end: the one of its module that scores."""
    for point in _others(_BACKENDS):
        if point.name == name:
            if not _is_backend(added := point.load()):
                raise UsageError(
                    f"back end '{name}' is {point.value}; it has to be a class that inherits "
                    "leakmeter.core.backend.Backend"
                )
            return added
    if name not in backends():
        raise UnknownNameError("back end", name, backends())
    # A package may leave its class where it is, so that its name alone loads little.
    modules = (importlib.import_module(f"{_BACKENDS}.{where}") for where in (name, f"{name}.backend"))
    return next(
        value
        for module in modules
        for value in vars(module).values()
        if _is_backend(value) and value.__module__.startswith(f"{_BACKENDS}.{name}")
    )


def _is_backend(value: Any) -> bool:
    from leakmeter.core.backend import Backend  # help on a command does without arrays

    return inspect.isclass(value) and issubclass(value, Backend)


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
