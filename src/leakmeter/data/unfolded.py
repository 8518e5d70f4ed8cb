"""Records that a table has flattened: the paths of values as names of columns, and objects as texts in cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import parsed
from leakmeter.data.mapping import Fields, parsed_cell

_BEGINS_OBJECT: Final = re.compile(r"\s*\[?\s*\{")
_LONGEST_NUMBER: Final = 9


def unfolded(fields: Fields) -> JsonObject:
    """A record as it was before a table was made of it, as pandas does it.

    >>> unfolded({"request.messages": "[{'role': 'user'}]", "response.id": "a"})
    {'request': {'messages': [{'role': 'user'}]}, 'response': {'id': 'a'}}
    """
    return nested(objects_of(fields))


def nested(attributes: Mapping[Any, Any]) -> JsonObject:
    """Attributes with dots in their names as records within records, and numbers in them as lists.

    >>> nested({"llm.input_messages.0.message.role": "user"})
    {'llm': {'input_messages': [{'message': {'role': 'user'}}]}}
    """
    out: JsonObject = {}
    for name, value in attributes.items():
        *above, last = str(name).split(".", 16)
        held = out
        for part in above:
            inner = held.get(part)
            if not isinstance(inner, dict):
                inner = held[part] = {}
            held = inner
        if not isinstance(held.get(last), dict) or isinstance(value, dict):
            held[last] = value
    return {name: _listed(value) for name, value in out.items()}


def has_gap(attributes: Iterable[Any], start: str) -> bool:
    """Whether the list of this name lacks an entry, in attributes with numbers in their names: its first are evicted
    where a span has too many.

    >>> has_gap(["llm.input_messages.1.message.role"], "llm.input_messages")
    True
    """
    start = f"{start}."
    names = (name for name in map(str, attributes) if name.startswith(start))
    behind = (name.removeprefix(start).partition(".")[0] for name in names)
    numbers = {int(number) for number in behind if number.isdecimal() and len(number) <= _LONGEST_NUMBER}
    return bool(numbers) and max(numbers) >= len(numbers)


def _listed(value: Any) -> Any:
    if isinstance(value, list):
        return [nested(entry) if isinstance(entry, dict) else entry for entry in value]
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(name, str) and name.isdecimal() and len(name) <= _LONGEST_NUMBER for name in value):
        return [_listed(value[name]) for name in sorted(value, key=int)]
    if any("." in str(name) for name in value):
        return nested(value)
    return {name: _listed(inner) for name, inner in value.items()}


def objects_of(fields: Fields) -> dict[str, Any]:
    """A record in which each object, or list of objects, that a table has as a text of Python's is one again. JSON is
    left to the format, and a list of texts may be what somebody said."""
    out = dict(fields)
    for name, text in fields.items():
        if isinstance(text, str) and _BEGINS_OBJECT.match(text) and parsed(text) is text:
            held = parsed_cell(text)
            is_list = isinstance(held, list) and bool(held) and all(isinstance(entry, dict) for entry in held)
            out[name] = held if is_list or isinstance(held, dict) else text
    return out
