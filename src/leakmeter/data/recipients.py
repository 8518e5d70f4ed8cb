"""Who received an answer, as a row of data says it: an id, or an object with id, role, tenant and subject; and whose a
document is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leakmeter.core.case import Recipient
from leakmeter.data.mapping import checked_text, is_name, parsed_cell
from leakmeter.errors import DataError

RECIPIENT: Final = "recipient"
"""Field of a row."""
PARTS: Final = ("id", "role", "tenant", "subject", "may_know", "may_not_know")


def recipient_of(value: object, where: str) -> Recipient | None:
    """The recipient that a field says; None where it says nothing.

    >>> recipient_of({"id": "ana", "role": ["nurse", "tutor"]}, "line 1").roles
    ('nurse', 'tutor')
    """
    held = parsed_cell(value)
    if held in (None, "", {}):
        return None
    if not isinstance(held, Mapping):
        return Recipient(id=_text(held, RECIPIENT, where))
    for key in held:
        if key not in PARTS:
            named = f" '{key}'" if isinstance(key, str) and is_name(key) else ""
            raise DataError(f"{where}: '{RECIPIENT}' has a field{named} that is not known; known: {', '.join(PARTS)}")
    id_, tenant = (
        None if held.get(name) in (None, "") else _text(held[name], f"{RECIPIENT}.{name}", where)
        for name in ("id", "tenant")
    )
    roles, subjects, may_know, may_not_know = (
        _texts(held.get(name), f"{RECIPIENT}.{name}", where) for name in ("role", "subject", "may_know", "may_not_know")
    )
    roles, subjects = roles or (), subjects or ()
    return Recipient(id_, roles, tenant, subjects, may_know, may_not_know)


def is_recipient(fields: Mapping[object, object]) -> bool:
    """Whether an object has nothing but the parts of a recipient."""
    return all(key in PARTS for key in fields)


def whose_of(document: Mapping[str, object], where: str) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Owner, tenant and readers of a document, as far as it says them."""
    owner, tenant = (
        None if document.get(name) is None else _text(document[name], name, where) for name in ("owner", "tenant")
    )
    return owner, tenant, _texts(document.get("readers"), "readers", where) or ()


def recipient_said(record: Mapping[Any, object]) -> Recipient | None:
    """The recipient in a record of another tool, whose field may be something else; None where it says none."""
    held = parsed_cell(record.get(RECIPIENT))
    if isinstance(held, Mapping) and not is_recipient(held):
        return None
    try:
        return recipient_of(held, "")
    except DataError:
        return None


def _texts(value: object, name: str, where: str) -> tuple[str, ...] | None:
    held = parsed_cell(value)
    if held in (None, ""):
        return None
    several = held if isinstance(held, list) else [held]
    return tuple(_text(each, name, where) for each in several)


def _text(value: object, field: str, where: str) -> str:
    """A text, or a whole number as one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return checked_text(str(value) if isinstance(value, int) and not isinstance(value, bool) else value, field, where)
