"""Cases to be answered, each with the response that a person wrote: what utility is measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakmeter.core.case import Case
from leakmeter.data import named
from leakmeter.data.cases import case_of_fields, cases_of
from leakmeter.data.mapping import Fields
from leakmeter.data.named.base import Record
from leakmeter.errors import DataError


@dataclass(frozen=True, slots=True)
class Referenced:
    """Records, and how a published data set has its prompts made."""

    records: tuple[Record, ...]
    template: str | None = None
    """Of a data set by name; None for the user's own cases."""
    max_context_tokens: int | None = None
    """Where contexts of a data set by name are cut."""


def load_referenced(source: str, *, n: int | None = None) -> Referenced:
    """Records of a file.

    Args:
        source: a file of cases (see `data.cases`), each with a 'reference'; or NAME=FILE for a published data set by
            its name.
        n: how many to take, from the first; all by default, and where there are fewer.

    Raises:
        DataError: a file that cannot be read, a case without reference, or one with a response.
    """
    name, equals, path = source.partition("=")
    if equals and name in named.names():
        dataset = named.find(name)
        return Referenced(tuple(dataset.load(path, n=n)), dataset.template, dataset.max_context_tokens)
    loaded = cases_of(source)
    pairs = zip(loaded.cases, loaded.references, strict=True)
    return Referenced(tuple(_record(case, reference, f"'{source}'") for case, reference in list(pairs)[:n]))


def referenced(cases: Sequence[Fields]) -> list[Record]:
    """Records of cases that a caller holds, with the fields of `data.cases`.

    Raises:
        DataError: as `load_referenced`; no cases, or two of one id.
    """
    records = [
        _record(*case_of_fields(fields, number, f"cases[{number - 1}]"), "these")
        for number, fields in enumerate(cases, 1)
    ]
    ids = [record.case.id for record in records]
    if not ids:
        raise DataError("no cases; give at least one, with 'context', 'query' and 'reference'")
    if len(set(ids)) < len(ids):
        twice = next(id_ for i, id_ in enumerate(ids) if id_ in ids[:i])
        raise DataError(f"id '{twice}' stands for two of the cases; make ids unique")
    return records


def _record(case: Case, reference: str | None, where: str) -> Record:
    if case.response is not None:
        raise DataError(
            f"case '{case.id}' of {where} has a response, and here responses are drawn; call it 'reference' if it says "
            "what a good one would"
        )
    if reference is None or not reference.strip():
        raise DataError(
            f"case '{case.id}' of {where} has no 'reference', the text of a good response, against which utility is "
            "measured"
        )
    return Record(case, reference)
