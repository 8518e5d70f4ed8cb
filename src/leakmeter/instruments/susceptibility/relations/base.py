"""What a relation is: templates of questions and of a context, and the names that they are filled with."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from leakmeter.data.text import checked_text
from leakmeter.errors import DataError

_PLACE = re.compile(r"\{(entity|answer)\}")
_BRACES = re.compile(r"\{[^{}]{0,40}\}|[{}]")
_ENTITY = {"entity"}
_BOTH = {"entity", "answer"}


@dataclass(frozen=True, slots=True)
class Names:
    """What things of a kind are called."""

    real: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    """Names that could be one's and are nobody's."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of entities to answers, such as of books to their authors.

    In the templates '{entity}' and '{answer}' stand for names.
    """

    name: str
    open: tuple[str, ...]
    """Questions that leave the answer open, such as 'Q: Who wrote {entity}?⏎A:' or '{entity} was written by'."""
    closed: tuple[str, ...]
    """Questions that name an answer, such as 'Q: Was {entity} written by {answer}?⏎A:'."""
    context: str
    """A sentence that says an answer, such as '{entity} was written by {answer}.'."""
    entities: Names
    answers: Names
    pairs: tuple[tuple[str, str], ...] = ()
    """Real entities whose one right answer is known, with it."""


def form_of(template: str) -> str:
    """'question' for a template that has a question mark, 'completion' for any other."""
    return "question" if "?" in template else "completion"


def fill(template: str, entity: str, answer: str = "") -> str:
    """The template with names in their places: both at once, so that a name may be anything, '{answer}' too."""
    names = {"entity": entity, "answer": answer}
    return _PLACE.sub(lambda place: names[place[1]], template)


def relation_of(
    name: str, given: Mapping[str, Any], entities: Names, answers: Names, pairs: Mapping[str, str], where: str
) -> Relation:
    """A relation from templates that are not checked yet.

    Args:
        name: of the relation.
        given: `open` and `closed`, one of which may be missing; `context`, which is the first open completion with an
            answer behind it where it is missing.
        entities: to ask about; those of `pairs` are added to the real ones.
        answers: likewise.
        pairs: right answers by entity.
        where: it stands, for errors.

    Raises:
        DataError: a template that is missing or misses a place for a name, or no names.
    """
    open_ = _templates(given, "open", _ENTITY, where)
    closed = _templates(given, "closed", _BOTH, where)
    if not open_ and not closed:
        raise DataError(f"{where} asks nothing; expected open or closed questions")
    context = given.get("context")
    if context is None:
        completions = [template for template in open_ if form_of(template) == "completion"]
        if not completions:
            raise DataError(f"{where} has no 'context', and no open completion to make one of")
        context = f"{completions[0].rstrip()} {{answer}}."
    relation = Relation(
        name=name,
        open=open_,
        closed=closed,
        context=_template(context, "context", _BOTH, where),
        entities=_joined(entities, pairs),
        answers=_joined(answers, pairs.values()),
        pairs=tuple(pairs.items()),
    )
    for key, names in (("entities", relation.entities), ("answers", relation.answers)):
        if not names.real and not names.invented:
            raise DataError(f"{where} has no {key}; give at least one name")
    return relation


def checked_names(value: object, key: str, where: str) -> tuple[str, ...]:
    """Names on one line each, none of them twice.

    Raises:
        DataError: they are something else; says the name's number and never the name, which may be a person's.
    """
    if not isinstance(value, list | tuple):
        raise DataError(f"{where}: '{key}' has to be a list of names")
    names: dict[str, int] = {}
    for number, entry in enumerate(value, 1):
        name = checked_name(entry, f"{key}[{number}]", where)
        if name in names:
            raise DataError(f"{where}: '{key}[{number}]' is the same name as '{key}[{names[name]}]'")
        names[name] = number
    return tuple(names)


def checked_name(value: object, key: str, where: str) -> str:
    """A name on one line, without white space around it.

    Raises:
        DataError: it is something else.
    """
    name = checked_text(value, key, where).strip()
    if len(name.splitlines()) != 1:
        raise DataError(f"{where}: '{key}' {'is empty' if not name else 'has several lines'}, expected a name")
    return name


def _joined(names: Names, more: Collection[str]) -> Names:
    return Names(tuple(dict.fromkeys((*names.real, *more))), names.invented)


def _templates(given: Mapping[str, Any], key: str, places: Collection[str], where: str) -> tuple[str, ...]:
    value = given.get(key, ())
    if not isinstance(value, list | tuple):
        raise DataError(f"{where}: '{key}' has to be a list of templates")
    templates = tuple(_template(entry, f"{key}[{i}]", places, where) for i, entry in enumerate(value, 1))
    if len(set(templates)) < len(templates):
        raise DataError(f"{where}: '{key}' has one template twice")
    return templates


def _template(value: object, key: str, places: Collection[str], where: str) -> str:
    text = checked_text(value, key, where)
    for brace in _BRACES.findall(text):
        if not _PLACE.fullmatch(brace):
            raise DataError(f"{where}: '{key}' has {brace!r}; the places for names are {{entity}} and {{answer}}")
    found = set(_PLACE.findall(text))
    for place in sorted(found ^ set(places)):
        says = "asks for an answer and names one" if place in found else "has no place for a name"
        raise DataError(f"{where}: '{key}' {says}, {{{place}}}")
    return text
