"""Parts of a run as they are read: texts, measurements and parameters held against what leakmeter writes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from leakmeter.core import registry
from leakmeter.core.measure import Measurement, Params, Statistics
from leakmeter.core.record import JsonObject, reader_of, records_in
from leakmeter.engine.storage.kept import FieldError, KeptCase
from leakmeter.engine.storage.rundir import SPEC, RunDirectory
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from pydantic import ValidationError

Part = tuple[JsonObject, list[Measurement]]
"""A case's texts (see `engine.measure.texts_of`) and its measurements."""


@dataclass(slots=True)
class PartReader:
    directory: RunDirectory
    record: JsonObject
    """What the run says of itself: its spec, or what it measures until it is complete."""
    kind: type[KeptCase] = KeptCase
    params: Params | None = None
    """Of the measure; None where nothing says them, or the measure is not installed: then texts alone are checked."""
    statistics: type[Statistics] | None = None
    """The measure's; None where it does not say what its numbers mean, so that they are not checked."""
    _same: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_run(cls, directory: RunDirectory) -> Self:
        return cls.of_complete(directory) if directory.is_complete else cls._read(directory, directory.read_begun())

    @classmethod
    def of_complete(cls, directory: RunDirectory) -> Self:
        record = directory.read_spec()
        with directory.reading(SPEC):
            if RunSpec.from_record(record).id != record["id"]:
                raise FieldError("id", "is not that of what the run holds")
            return cls._read(directory, record)

    @classmethod
    def _read(cls, directory: RunDirectory, record: JsonObject) -> Self:
        measure, params = record.get("measure"), record.get("params")
        if measure not in registry.instruments() or params is None:
            return cls(directory, record)
        instrument = registry.instrument(measure)
        if directory.is_complete:
            _check_params(instrument.measure, params)
        return cls(directory, record, instrument.result.kept, params, instrument.measure.statistics)

    def texts(self, number: int) -> list[JsonObject]:
        cases = self.directory.read_texts(number)
        self._checked(number, cases)
        return cases

    def cases(self, number: int) -> list[Part]:
        cases, measurements = self.directory.read_part(number)
        kept = self._checked(number, cases)
        with self.directory.reading(self.directory.numbers_of(number).name):
            by_case: dict[str, list[Measurement]] = {case["id"]: [] for case in cases}
            for measurement in measurements:
                if measurement.item not in by_case:
                    raise FieldError("item", "is none of the part's cases")
                by_case[measurement.item].append(measurement)
            if self.params is not None and self.statistics is not None:
                for kept_case in kept:
                    kept_case.check_measurements(self.statistics, self.params, by_case[kept_case.id])
        return [(case, by_case[case["id"]]) for case in cases]

    def all_cases(self) -> Iterator[Part]:
        ids: list[str] = []
        for number in range(self.record["n_parts"]):
            for case in self.cases(number):
                ids.append(case[0]["id"])
                yield case
        if ids != [case.get("id") for case in self.record["cases"]]:
            with self.directory.reading(SPEC):
                raise FieldError("cases", "are not those of the parts")

    def _checked(self, number: int, cases: list[JsonObject]) -> list[KeptCase]:
        with self.directory.reading(self.directory.texts_of(number).name):
            kept = [_kept(self.kind, case, str(place)) for place, case in enumerate(cases)]
            if len({kept_case.id for kept_case in kept}) < len(kept):
                raise FieldError("id", "is that of two cases")
            for place, kept_case in enumerate(kept):
                for name in self.kind.same:
                    if self._same.setdefault(name, getattr(kept_case, name)) != getattr(kept_case, name):
                        raise FieldError(f"{place}.{name}", "is not that of the other cases")
        return kept


def cases_of_part(directory: RunDirectory, number: int) -> list[Part]:
    return PartReader.of_run(directory).cases(number)


def cases_of_run(directory: RunDirectory) -> Iterator[Part]:
    return PartReader.of_complete(directory).all_cases()


def _check_params(measure: Any, params: Params) -> None:
    kinds = _kinds_of(measure)
    if not params.keys() <= kinds.keys():
        raise FieldError("params", "has one that the measure has not")
    arguments = {name: _parameter(kinds[name], value, f"params.{name}") for name, value in params.items()}
    try:
        needed = measure(**{**measure.unsaid, **arguments}).record().keys()
    except (UsageError, TypeError):
        raise FieldError("params", "are none that the measure takes") from None
    for name in sorted(needed - params.keys()):
        raise FieldError(f"params.{name}", "is missing")


def _parameter(kind: Any, value: Any, place: str) -> Any:
    from pydantic import PydanticSchemaGenerationError, ValidationError

    try:
        reader = reader_of(kind)
    except PydanticSchemaGenerationError:
        # An object of the user's own, of which a run keeps the fields.
        if not isinstance(value, dict | None):
            raise FieldError(place, "has to be an object") from None
        return None
    try:
        # As JSON, a list stands for a tuple, and nothing else for anything.
        return reader.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise _damage(error, place, frozenset()) from None


@cache
def _kinds_of(measure: Any) -> dict[str, Any]:
    hints = get_type_hints(measure)
    return {parameter.name: hints[parameter.name] for parameter in fields(measure)}


def _kept(kind: Any, value: object, place: str) -> KeptCase:
    from pydantic import ValidationError

    try:
        kept_case: KeptCase = reader_of(kind).validate_python(value)
    except ValidationError as error:
        raise _damage(error, place, _names_in(kind)) from None
    return kept_case


@cache
def _names_in(kind: Any) -> frozenset[str]:
    return frozenset(record_field.name for record in records_in(kind) for record_field in fields(record))


def _damage(error: ValidationError, place: str, names: Collection[str]) -> FieldError:
    """The first error, at `place`. Pydantic's path may hold a text of the user's: it is cut at a step that is not in
    `names`."""
    first = error.errors(include_url=False, include_input=False)[0]
    steps = takewhile(lambda step: isinstance(step, int) or step in names, first["loc"])
    where = ".".join((place, *map(str, steps)))
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, FieldError):
        return FieldError(f"{where}.{cause.field}", cause.why)
    reason = "is missing" if first["type"] == "missing" else first["msg"].removeprefix("Input ")
    return FieldError(where, reason)
