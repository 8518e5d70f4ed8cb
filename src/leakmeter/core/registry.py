"""What an instrument is: a folder, and the parts of it that the rest of the house reads; and how it is found by name.

A folder of `leakmeter.instruments` whose `__init__` has an `INSTRUMENT` is an instrument; so is what another package
names in the entry-point group `leakmeter.instruments`. Back ends are those of `leakmeter.backends.OWN`, and what other
packages name in the group `leakmeter.backends`. Packages with packs of recognisers are in the group `leakmeter.packs`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from leakmeter.core import own
from leakmeter.core.folder import module_in, names_in
from leakmeter.core.record import JsonObject
from leakmeter.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from leakmeter.core.backend import Backend
    from leakmeter.core.item import Looked, Prepared
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

    def with_controls(self, cases: Sequence[Any], measure: Measure) -> Sequence[Any]:
        """The cases, each with what it is held against of the others."""

    def look(self, case: Any, backend: Backend, measure: Measure) -> Looked | None:
        """Refuse, for little work, what `prepare` would refuse: the case can then be prepared when its turn comes. None
        where nothing but preparing it tells."""

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

    def with_controls(self, cases: Sequence[Any], measure: Measure) -> Sequence[Any]:
        """They need none."""
        return cases

    def look(self, case: Any, backend: Backend, measure: Measure) -> Looked | None:
        """Nothing is known before."""
        return None


@dataclass(frozen=True, slots=True)
class Example:
    """A small invented case, and what measures it in a moment."""

    settings: Settings
    case: AnyCase
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the measure, where they are not its defaults."""


@dataclass(frozen=True, slots=True)
class Short:
    """What `--help` shows of a command: these options, or all, and command lines to start from, which run beside the
    files of `leakmeter demo --write-samples samples`."""

    examples: tuple[str, ...] = ()
    options: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line."""

    name: str
    load: Callable[[], Any]
    """Imports and returns the command, a function or a `cyclopts.App`, when it is asked for."""
    about: str
    """The first line of its help, said without importing it."""
    group: str = "Measure"
    """The heading under which `leakmeter --help` lists it."""
    order: int | None = None
    """Where it stands under the heading; without one behind the others, by name."""
    short: Mapping[str, Short] = field(default_factory=dict)
    """Its short help, and that of the commands within it by their words; its own by ''."""


class Instrument(ABC):
    """One instrument, by its parts: each is a method with an import in it, so that it loads when it is first asked for.

    A folder's `__init__` has `INSTRUMENT`, an object of its own subclass.
    """

    name: ClassVar[str]
    """What runs and studies call it."""
    commands: ClassVar[tuple[Command, ...]] = ()
    """That measure with it, and what prepares that."""

    @property
    def package(self) -> str:
        """The folder, in whose `__init__` the subclass is."""
        return type(self).__module__

    @property
    @abstractmethod
    def measure(self) -> Any:
        """The dataclass of parameters that has the trial; see `core.measure.Measure`."""

    @property
    @abstractmethod
    def result(self) -> Any:
        """The class that makes results of a run; see `results.result.Result`."""

    @abstractmethod
    def report(self, results: Sequence[Any]) -> Any:
        """Blocks that say what results do, a `report.blocks.Report`; of public results those that may be published."""

    @abstractmethod
    def example(self, id_: str = "one", response: str | None = None) -> Example:
        """A case to try it on, which its tests measure; where cases have responses, with one that is given."""

    @property
    def study(self) -> Any:
        """What is particular to studies of it; see `studies.kind.StudyKind`. None where nothing is."""
        return None

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Public functions of the library. Those whose first parameter is a model are methods of a `Meter` too."""
        return ()


_INSTRUMENTS = "leakmeter.instruments"
_BACKENDS = "leakmeter.backends"
_PACKS = "leakmeter.packs"


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


def other_functions() -> dict[str, Callable[..., Any]]:
    """Functions of other packages' instruments by name."""
    others = (point.load() for point in _others(_INSTRUMENTS))
    return {function.__name__: function for other in others for function in other.functions()}


def reporter(kind: type) -> Callable[[Sequence[Any]], Any]:
    """The function that makes a report of a class's results: that of the instrument in whose folder the class is."""
    folder = kind.__module__.rpartition(".")[0]
    for measure in _own().values():
        if measure.package == folder:
            return measure.report
    for point in _others(_INSTRUMENTS):
        if point.module == folder:
            report: Callable[[Sequence[Any]], Any] = point.load().report
            return report
    raise LookupError(f"{kind.__name__} is no instrument's: none is in '{folder}'")


def backends() -> list[str]:
    return sorted({*own.backends(), *(point.name for point in _others(_BACKENDS))})


def added_backends() -> list[str]:
    """Those of other packages."""
    return [point.name for point in _others(_BACKENDS)]


def backend(name: str) -> Any:
    """The class of a back end."""
    for point in _others(_BACKENDS):
        if point.name == name:
            if not _is_backend(added := point.load()):
                raise UsageError(
                    f"back end '{name}' is {point.value}; it has to be a class that inherits "
                    "leakmeter.core.backend.Backend"
                )
            return added
    if name not in own.backends():
        raise UnknownNameError("back end", name, backends())
    return own.backends()[name]()


def added_packs() -> list[str]:
    """Texts of the packs of recognisers that other packages bring, in the order of their names: each entry point names
    a package of theirs, whose TOML files are packs. The first line of each is a comment with its name."""
    texts = []
    for point in sorted(_others(_PACKS), key=lambda point: point.name):
        files = [entry for entry in resources.files(point.load()).iterdir() if entry.name.endswith(".toml")]
        texts += [
            f"# '{point.name}/{file.name}'\n{file.read_text(encoding='utf-8')}"
            for file in sorted(files, key=lambda file: file.name)
        ]
    return texts


def _is_backend(value: Any) -> bool:
    from leakmeter.core.backend import Backend  # help on a command does without arrays

    return inspect.isclass(value) and issubclass(value, Backend)


@cache
def _own() -> dict[str, Instrument]:
    return {measure.name: measure for measure in _within(own.instruments())}


def _within(package: Any) -> Iterator[Instrument]:
    for name in names_in(package, folders=True):
        folder = module_in(package, name)
        if hasattr(folder, "INSTRUMENT"):
            yield folder.INSTRUMENT
            yield from _within(folder)


@cache
def _others(group: str) -> tuple[EntryPoint, ...]:
    # To look through all that is installed takes ten milliseconds, and a command asks for instruments dozens of times.
    from importlib.metadata import entry_points  # it imports a mail parser, and that a socket

    return tuple(entry_points(group=group))
