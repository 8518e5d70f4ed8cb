"""Queries and contexts as the user gives them: texts with what is known of them, and the files they are read from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import Unread, object_of
from leakmeter.data.mapping import Fields, checked_text, suggested, whole_id
from leakmeter.data.rows import read_rows
from leakmeter.errors import DataError

_QUERY: Final = ("query", "question", "text")
_CONTEXT: Final = ("context", "text")
QUERY_FIELDS: Final = ("query", "id", "answer", "answers")
CONTEXT_FIELDS: Final = ("context", "weight", "context.id", "context.answer")
"""Fields that `--map` may name."""


@dataclass(frozen=True, slots=True)
class Context:
    """A text that may stand before a query."""

    id: str
    text: str
    weight: float = 1.0
    """How often it comes, relative to the others; above 0."""
    answer: str | None = None
    """What it says the answer is, where it says one."""


@dataclass(frozen=True, slots=True)
class ClosedAnswer:
    """An answer of a closed set, in all the forms that a model may write it in."""

    name: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, ending where the answer begins, such as 'Q: Who wrote Emma?⏎A:' or 'Emma was written by'."""

    id: str
    text: str
    answers: tuple[ClosedAnswer, ...] = ()
    """The answers that are told apart, all else being the rest; empty for every token of the vocabulary."""
    answer: str | None = None
    """The right answer, where it is known."""
    factors: tuple[tuple[str, str], ...] = ()
    """What is known of it by name, such as ('relation', 'author'), ('openness', 'open' or 'closed'), ('form',
    'question' or 'completion'), ('entity', 'Emma'), ('familiarity', 'real' or 'invented')."""


@dataclass(frozen=True, slots=True)
class QueryCase:
    """A query and the contexts that it is asked behind, one at a time."""

    id: str
    query: Query
    contexts: tuple[Context, ...]

    @property
    def known(self) -> dict[str, str]:
        return dict(self.query.factors)

    def record(self) -> JsonObject:
        """With the number and hash of the contexts, which many queries share."""
        stored = asdict(self)
        contexts = json.dumps(stored.pop("contexts"), sort_keys=True)
        return {
            **stored,
            "n_contexts": len(self.contexts),
            "contexts_sha256": hashlib.sha256(contexts.encode()).hexdigest(),
        }


def load_queries(source: Any, mapping: Mapping[str, str] | None = None) -> tuple[Query, ...]:
    """Queries of a file or of a table in memory; see `queries_of` and `data.rows.read_rows`. A text is a query."""
    return queries_of(*_read(source, mapping, _QUERY[0], "queries"))


def load_contexts(source: Any, mapping: Mapping[str, str] | None = None) -> tuple[Context, ...]:
    return contexts_of(*_read(source, mapping, _CONTEXT[0], "contexts"))


def split_mapping(mapping: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A `--map` of the fields of queries, and of those of contexts."""
    ours = {name: path for name, path in mapping.items() if name in QUERY_FIELDS}
    theirs = {name.removeprefix("context."): path for name, path in mapping.items() if name not in QUERY_FIELDS}
    return ours, theirs


def _read(source: Any, mapping: Mapping[str, str] | None, text_field: str, noun: str) -> tuple[list[Fields], str]:
    """Records, and what messages call their source."""
    rows = read_rows(source, mapping=mapping, text_field=text_field)
    records: list[Fields] = [_with_whole_id(row.fields, is_table=row.is_table) for row in rows]
    return records, f"'{source}'" if isinstance(source, str | Path) else noun


def _with_whole_id(fields: Fields, *, is_table: bool) -> Fields:
    return {
        name: whole_id(value, is_table=is_table) if name.lower() == "id" else value for name, value in fields.items()
    }


def queries_of(records: Iterable[Fields], source: str) -> tuple[Query, ...]:
    """Queries of records, in order, by columns of any case.

    A query has its text in the column `query`, `question` or `text`, and may have an `id` (else its number, from 1),
    the right `answer`, and `answers`, a list of them or an object of the forms that each is written in; in CSV that is
    JSON, or the answers with '|' between them. All other columns that have a name are its factors.
    """
    queries = []
    for where, fields, id_ in _checked(records, source):
        column, text = _text(fields, _QUERY, where)
        others = {name: value for name, value in fields.items() if name not in (column, "id", "answers", "answer")}
        queries.append(
            Query(
                id=id_,
                text=text,
                answers=_answers(fields.get("answers"), where),
                answer=_answer(fields, where),
                factors=tuple((name, _level(value, name, where)) for name, value in others.items() if not _none(value)),
            )
        )
    return tuple(queries)


def contexts_of(records: Iterable[Fields], source: str) -> tuple[Context, ...]:
    """Contexts of records, in order, by columns of any case.

    A context has its text in the column `context` or `text`, and may have an `id` (else its number, from 1), a `weight`
    (else 1), and the `answer` that it says is right.
    """
    contexts = []
    for where, fields, id_ in _checked(records, source):
        column, text = _text(fields, _CONTEXT, where)
        columns = ("id", column, "weight", "answer")
        for name in fields:
            if name not in columns:
                raise DataError(f"{where}: unknown column {name!r}; known: {', '.join(columns)}")
        contexts.append(Context(id_, text, _weight(fields.get("weight"), where), _answer(fields, where)))
    return tuple(contexts)


def _checked(records: Iterable[Fields], source: str) -> Iterable[tuple[str, Fields, str]]:
    """Place of each record for messages, fields by names in lower case, id."""
    seen: dict[str, int] = {}
    for number, record in enumerate(records, 1):
        where = f"{source}, record {number}"
        # A table that was written with its row numbers has a column without a name.
        fields = {name.lower(): value for name, value in record.items() if name.strip()}
        raw_id = fields.get("id")
        if isinstance(raw_id, bool) or not (_none(raw_id) or isinstance(raw_id, str | int)):
            raise DataError(f"{where}: 'id' has to be text or a whole number")
        id_ = str(number) if _none(raw_id) else checked_text(str(raw_id), "id", where)
        if id_ in seen:
            raise DataError(
                f"{where} has the id of record {seen[id_]}; make ids unique (without one, it is the number)"
            )
        seen[id_] = number
        yield where, fields, id_
    if not seen:
        raise DataError(f"{source}: it has no record")


def _text(fields: Fields, columns: Sequence[str], where: str) -> tuple[str, str]:
    column = next((name for name in columns if name in fields), None)
    if column is None:
        # What else there is may be a text, where a file has no heading, and is not repeated.
        names = ", ".join(map(repr, columns))
        suggestion = suggested(list(fields), columns[:1], {columns[0]: columns[1:]})
        hint = f"try {suggestion}" if suggestion else "does the file begin with a heading that has one?"
        raise DataError(f"{where} has none of the columns {names}; {hint}")
    text = checked_text(fields[column], column, where)
    if not text.strip():
        raise DataError(f"{where}: '{column}' is empty")
    return column, text


def _answer(fields: Fields, where: str) -> str | None:
    value = fields.get("answer")
    return None if _none(value) else checked_text(value, "answer", where)


def _answers(value: object, where: str) -> tuple[ClosedAnswer, ...]:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(value, object_pairs_hook=object_of)
        except (ValueError, RecursionError):
            raise DataError(f"{where}: 'answers' looks like JSON but is not valid") from None
        if isinstance(value, Unread):
            checked_text(value, "answers", where)
    if _none(value):
        return ()
    if isinstance(value, str):
        value = value.split("|")
    if isinstance(value, list):
        named_forms: dict[Any, Any] = {_form(form, f"answers[{i}]", where): [form] for i, form in enumerate(value, 1)}
        if len(named_forms) < len(value):
            raise DataError(f"{where}: 'answers' has the same answer twice")
    elif isinstance(value, Mapping):
        # A table of objects has every key in every row.
        named_forms = {name: forms for name, forms in value.items() if forms is not None}
    else:
        raise DataError(f"{where}: 'answers' has to be a list of answers, or an object of their forms")
    answers = tuple(_one_answer(name, forms, i, where) for i, (name, forms) in enumerate(named_forms.items(), 1))
    if not answers:
        raise DataError(f"{where}: 'answers' is empty; name one answer or more, or leave it out")
    whose: dict[str, int] = {}
    for i, answer in enumerate(answers, 1):
        for form in answer.forms:
            if whose.setdefault(form, i) != i:
                raise DataError(f"{where}: answers {whose[form]} and {i} share a form; give each its own")
    return answers


def _one_answer(name: object, forms: object, number: int, where: str) -> ClosedAnswer:
    key = f"answers[{number}]"
    forms = [forms] if isinstance(forms, str) else forms
    if not isinstance(forms, list) or not forms:
        raise DataError(f"{where}: '{key}' has to be a list of one form or more")
    return ClosedAnswer(_form(name, key, where), tuple(dict.fromkeys(_form(form, key, where) for form in forms)))


def _form(value: object, key: str, where: str) -> str:
    form = checked_text(value, key, where).strip()
    if not form:
        raise DataError(f"{where}: '{key}' is empty, or has an empty form")
    return form


def _level(value: object, name: str, where: str) -> str:
    checked_text(name, "the name of a column", where)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return checked_text(value, name, where)


def _weight(value: object, where: str) -> float:
    if _none(value):
        return 1.0
    try:
        weight = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        weight = math.nan
    if not 0 < weight < math.inf:
        raise DataError(f"{where}: 'weight' has to be a number above 0")
    return weight


def _none(value: object) -> bool:
    """Whether a cell is empty, or NaN as tables of other programs have it."""
    return value is None or (isinstance(value, str) and not value.strip()) or (value != value)
