"""Objects of other libraries as plain values of Python: by what they have, since none of those is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from leakmeter.errors import DataError

_DEEPEST: Final = 64
_METADATA = ("metadata", "id", "id_")


def plain(value: Any, where: str, *, depth: int = 0) -> Any:
    """Dicts with text as keys, lists, texts, numbers, truth values and None; a number that is none becomes None, a
    member of an enumeration its value. Knows mappings, sequences, dataclasses, named tuples, pydantic models, NumPy
    arrays and scalars, documents of LangChain (`page_content`, `metadata`) and nodes of LlamaIndex (`text`, `metadata`;
    `node`, `score`). Something else is refused, and what is too deep, as is what holds itself."""
    if depth > _DEEPEST:
        raise DataError(f"{where} is nested more than {_DEEPEST} deep")
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int):
        return value
    held = fields_of(value)
    if held is not None:
        return {str(key): plain(inner, where, depth=depth + 1) for key, inner in held.items()}
    if callable(tolist := getattr(value, "tolist", None)):
        return plain(tolist(), where, depth=depth + 1)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return [plain(inner, where, depth=depth + 1) for inner in value]
    raise DataError(f"{where} holds an object of type {type(value).__name__}, which is no text, number, list or record")


def fields_of(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    for text in ("page_content", "text"):
        # Before the dataclass's or the model's own fields: a node keeps its text in another place in each version.
        if isinstance(getattr(value, text, None), str) and hasattr(value, "metadata"):
            held = {text: getattr(value, text)}
            return held | {
                name: metadata_value for name in _METADATA if (metadata_value := getattr(value, name, None)) is not None
            }
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if callable(dump := getattr(value, "model_dump", None)):
        return dict(dump())
    if isinstance(getattr(value, "text", None), str):
        return {"text": value.text}
    return None
