"""Templates in the form that Du et al. 2024 publish, and names by relation.

Templates are an object of relations, each {"open": [...], "closed": [...]}. Names are an object of relations, each a
list of real entities, or {"real": [...], "invented": [...]}; an entity is text, or an object with an 'entity'. The
answers of a relation are the entities of its reverse: 'reverse-R' is the reverse of 'R'.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakmeter.core.files import read_text
from leakmeter.data.text import unused
from leakmeter.errors import DataError
from leakmeter.instruments.susceptibility.relations.base import (
    Names,
    Relation,
    checked_name,
    checked_names,
    relation_of,
)

_REVERSE = "reverse-"


def published_relations(templates: Path, names: Path) -> tuple[Relation, ...]:
    """The relations that there are entities and answers for, in the templates' order; the others are left out.

    A relation whose name is an address is called by what follows its last '/'. The published templates have none for
    contexts, which are made of the first open completion, as the paper's are.

    Raises:
        DataError: a file that is not of the form, or no relation with entities and answers.
    """
    given = _objects(templates, "file of templates")
    known = {
        relation: _names(value, f"file of names '{names}', relation '{relation}'")
        for relation, value in _objects(names, "file of names").items()
    }
    relations: dict[str, Relation] = {}
    for address, value in given.items():
        where = f"file of templates '{templates}', relation '{address}'"
        if not isinstance(value, Mapping):
            raise DataError(f"{where} is no object with 'open' and 'closed'")
        reverse = address.removeprefix(_REVERSE) if address.startswith(_REVERSE) else _REVERSE + address
        if address in known and reverse in known:
            name = unused(_short(address), relations)
            relations[name] = relation_of(name, value, known[address], known[reverse], {}, where)
    if not relations:
        raise DataError(
            f"file of names '{names}' has entities and answers for none of the relations of '{templates}'; a "
            f"relation's answers are the entities of its reverse, '{_REVERSE}' and its name"
        )
    return tuple(relations.values())


def _short(address: str) -> str:
    last = address.rstrip("/").rsplit("/", 1)[-1]
    return f"{_REVERSE}{last.removeprefix(_REVERSE)}" if address.startswith(_REVERSE) else last


def _names(value: object, where: str) -> Names:
    lists = value if isinstance(value, Mapping) else {"real": value}
    if not set(lists) <= {"real", "invented"}:
        raise DataError(f"{where} is an object with other keys than 'real' and 'invented'")
    real, invented = (_entities(lists.get(key, []), key, where) for key in ("real", "invented"))
    if set(real) & set(invented):
        raise DataError(f"{where} has one name in 'real' and in 'invented'")
    return Names(real, invented)


def _entities(value: object, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DataError(f"{where}: '{key}' has to be a list of names")
    return checked_names([entry.get("entity") if isinstance(entry, Mapping) else entry for entry in value], key, where)


def _objects(path: Path, what: str) -> dict[str, Any]:
    try:
        value = json.loads(read_text(path, what))
    except json.JSONDecodeError as error:
        raise DataError(f"{what} '{path}' is not JSON: {error.msg} at character {error.pos + 1:,}") from None
    except (RecursionError, ValueError):
        raise DataError(f"{what} '{path}' is JSON nested too deep, or with a number too long, to be read") from None
    if not isinstance(value, dict):
        raise DataError(f"{what} '{path}' is no object of relations by name")
    return {checked_name(name, "the name of a relation", f"{what} '{path}'"): value[name] for name in value}
