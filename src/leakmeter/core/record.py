"""What results are made of: dataclasses that are written as JSON, read from it, and described by a schema."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from leakmeter.core.plain import INFINITY, SELDOM, to_plain
from leakmeter.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


JsonObject = dict[str, Any]


class _MayBeInfinite:
    """Says it in a schema; pydantic asks for it by this method's name."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> JsonObject:
        return {"anyOf": [handler(core), {"enum": [INFINITY, f"-{INFINITY}"]}]}


Unbounded = Annotated[float, _MayBeInfinite]
"""A number that may be infinite."""


@dataclass(frozen=True, slots=True)
class Record:
    """Base of frozen dataclasses whose fields are numbers, texts, tuples, mappings by name and other records.

    Units stand in the fields' names. None means that something is missing; what is infinite is `math.inf`.
    """

    # An attribute of this name is where pydantic looks for its settings.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}

    def to_dict(self) -> JsonObject:
        """Dictionaries, lists, texts and numbers, as JSON has them: an infinite number is the text "Infinity"."""
        plain: JsonObject = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, value: object) -> Self:
        """The record that `to_dict` wrote; keys that it does not know are left out, as those of a later version.

        Raises:
            DataError: something is missing, or of another kind; says where.
        """
        from pydantic import ValidationError

        try:
            read: Self = reader_of(cls).validate_python(value)  # type: ignore[arg-type]  # a class is hashable
            return read
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "all of it"
            raise DataError(f"{cls.__name__} cannot be read: {where}: {first['msg']}") from None


@cache
def reader_of(kind: Any) -> Any:
    """What reads objects of JSON as a record, or as another type: a `TypeAdapter` of pydantic."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def frame_of(kind: type[Record], records: Iterable[Record]) -> pd.DataFrame:
    """One row a record, with its numbers and texts; fields that hold tuples or records are left out."""
    import pandas as pd

    records = list(records)
    seldom = {field.name for field in fields(kind) if field.metadata.get(SELDOM)}
    names = [
        name
        for name in scalar_fields(kind)
        if name not in seldom or any(getattr(record, name) is not None for record in records)
    ]
    return pd.DataFrame([{name: getattr(record, name) for name in names} for record in records], columns=names)


def scalar_fields(kind: type[Record]) -> dict[str, type]:
    """Fields that hold one number or text, or None, and their type: bool, int, float or str."""
    hints = get_type_hints(kind)
    scalars = {field.name: _scalar(hints[field.name]) for field in fields(kind)}
    return {name: scalar for name, scalar in scalars.items() if scalar is not None}


def _scalar(hint: Any) -> type | None:
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = {type(get_args(kind)[0]) if get_origin(kind) is Literal else kind for kind in alternatives} - {NoneType}
    return kinds.pop() if len(kinds) == 1 and kinds <= {bool, int, float, str} else None


def part_fields(kind: type[Record]) -> dict[str, type[Record]]:
    """Fields of a record that are tuples of records, and of which; those of a record that may be missing too.

    The latter have the names of both fields with a point between them, such as 'search.pieces'.
    """
    parts = {}
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        records = (inner for inner in get_args(hint) if isinstance(inner, type) and issubclass(inner, Record))
        inner = next(records, None)
        if inner is None:
            continue
        if get_origin(hint) is tuple:
            parts[field.name] = inner
        elif get_origin(hint) is UnionType:
            parts |= {f"{field.name}.{name}": record_type for name, record_type in part_fields(inner).items()}
    return parts


def schema(kind: type[Record], name: str) -> JsonObject:
    """JSON schema (draft 2020-12) of `to_dict`'s output, with the docstrings of the fields."""
    from pydantic import TypeAdapter

    json_schema = TypeAdapter(kind).json_schema(mode="serialization")
    inner = json_schema.get("$defs", {})
    for record in {*records_in(kind)}:
        definition = inner.get(record.__name__, json_schema if record is kind else {})
        descriptions = docstrings(record)
        for name_, field in definition.get("properties", {}).items():
            field.pop("title", None)
            if name_ in descriptions:
                field["description"] = descriptions[name_]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:leakmeter:{name}",
        **json_schema,
    }


def records_in(kind: Any) -> Iterator[type]:
    if isinstance(kind, type) and is_dataclass(kind):
        yield kind
        hints = get_type_hints(kind)
        for field in fields(kind):
            yield from records_in(hints[field.name])
    for inner in get_args(kind):
        yield from records_in(inner)


@cache
def docstrings(record: type) -> dict[str, str]:
    """Docstring of each field of a dataclass, inherited ones too; none without its source, which another package's need
    not be at hand. Pydantic can do so for a class's own fields alone, and would whenever JSON is read."""
    by_field: dict[str, str] = {}
    for base in reversed(record.__mro__):
        if not is_dataclass(base):
            continue
        try:
            source = inspect.getsource(base)
        except OSError:
            continue
        (parsed,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(parsed, ast.ClassDef)
        for field, text in pairwise(parsed.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                by_field[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return by_field
