"""Relations and kinds of things from TOML, the form of the set that ships and of a user's own.

[kinds.colleague]
real = ["Anna Berg", "Ole Lund"]
invented = ["Tarvo Quillane", "Brisel Okandry"]

[relations.works-in]
entities = "colleague"
answers = "city"                    # a kind of the set that ships
open = ["Q: Where does {entity} work?\\nA:", "{entity} works in"]
closed = ["Q: Does {entity} work in {answer}?\\nA:"]
context = "{entity} works in {answer}."

[relations.works-in.pairs]          # right answers, where they are known
"Anna Berg" = "Oslo"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakmeter.core.files import read_text
from leakmeter.errors import DataError
from leakmeter.instruments.susceptibility.relations.base import (
    Names,
    Relation,
    checked_name,
    checked_names,
    relation_of,
)

_TABLES = ("kinds", "relations")
_KIND = ("real", "invented")
_RELATION = ("entities", "answers", "open", "closed", "context", "pairs")


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says.

    Raises:
        DataError: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(read_text(path, "relation file"))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"relation file '{path}' is not TOML: {error}") from None
    except (RecursionError, ValueError):
        raise DataError(
            f"relation file '{path}' is TOML nested too deep, or with a number too long, to be read"
        ) from None


def kinds_of(given: Mapping[str, Any], where: str) -> dict[str, Names]:
    """Kinds of things by name.

    Args:
        given: what a file says.
        where: it stands, for errors.

    Raises:
        DataError: a kind that is not understood, or has one name twice.
    """
    kinds = {}
    for name, value in _tables(given, "kinds", where):
        place = f"{where}, kind '{name}'"
        _check_keys(value, _KIND, place)
        real, invented = (checked_names(value.get(key, ()), key, place) for key in _KIND)
        for number, one in enumerate(invented, 1):
            if one in real:
                raise DataError(f"{place}: 'invented[{number}]' is a name of 'real' too")
        kinds[name] = Names(real, invented)
    return kinds


def relations_of(given: Mapping[str, Any], where: str, kinds: Mapping[str, Names]) -> tuple[Relation, ...]:
    """Relations, in order.

    Args:
        given: what a file says.
        where: it stands, for errors.
        kinds: known beside those that it brings, which go before.

    Raises:
        DataError: no relation, or one in which something is missing or not understood.
    """
    _check_keys(given, _TABLES, where)
    known = {**kinds, **kinds_of(given, where)}
    relations = []
    for name, value in _tables(given, "relations", where):
        place = f"{where}, relation '{name}'"
        if "/" in name:
            raise DataError(
                f"{place}: the name of a relation may not have a '/', which stands between the parts of ids"
            )
        _check_keys(value, _RELATION, place)
        entities, answers = (_kind(value, key, known, place) for key in ("entities", "answers"))
        pairs = _pairs(value.get("pairs", {}), entities, answers, place)
        relations.append(relation_of(name, value, entities, answers, pairs, place))
    if not relations:
        raise DataError(f"{where} has no relation; expected one or more, each as [relations.NAME]")
    return tuple(relations)


def _kind(value: Mapping[str, Any], key: str, kinds: Mapping[str, Names], where: str) -> Names:
    if key not in value:
        raise DataError(f"{where} has no '{key}'; expected the name of a kind, such as {key} = \"city\"")
    name = checked_name(value[key], key, where)
    if name not in kinds:
        raise DataError(f"{where}: '{key}' is {name!r}, expected one of {', '.join(map(repr, sorted(kinds)))}")
    return kinds[name]


def _pairs(value: object, entities: Names, answers: Names, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: 'pairs' has to be a table of entities and their right answers")
    pairs = {}
    for number, (given, answer) in enumerate(value.items(), 1):
        entity = checked_name(given, f"pairs[{number}]", where)
        if entity in entities.invented or entity in pairs:
            told = "is twice there" if entity in pairs else "is an invented name"
            raise DataError(f"{where}: the entity of 'pairs[{number}]' {told}, expected real ones, each once")
        pairs[entity] = checked_name(answer, f"pairs[{number}]", where)
        if pairs[entity] in answers.invented:
            raise DataError(f"{where}: the answer of 'pairs[{number}]' is an invented name, expected a real one")
    return pairs


def _tables(given: Mapping[str, Any], key: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    value = given.get(key, {})
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise DataError(f"{where}: '{key}' has to be tables, each as [{key}.NAME]")
    return [(checked_name(name, f"a name of {key}", where), table) for name, table in value.items()]


def _check_keys(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in given:
        if key not in known:
            raise DataError(f"{where}: unknown key {key!r}; known: {', '.join(known)}")
