"""Cases to be answered, each with the response that a person wrote: what utility is measured against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakmeter.core.case import Case
from leakmeter.data import named
from leakmeter.data.cases import cases_of
from leakmeter.data.formats import Format
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
    notes: tuple[str, ...] = ()
    """What to tell of how the user's own cases were read."""


def load_referenced(
    source: Any,
    *,
    n: int | None = None,
    map: Iterable[str] | None = None,
    format: str | None = None,
    context_from: str | None = None,
    logs: Iterable[Format] = (),
) -> Referenced:
    """Records of cases (see `data.cases`), each with a 'reference' and without a response, or of NAME=FILE, a published
    data set by its name; the first `n`, all by default and where there are fewer. `logs` as of `cases_of`."""
    if isinstance(source, str):
        name, equals, path = source.partition("=")
        if equals and name in named.names():
            dataset = named.find(name)
            return Referenced(tuple(dataset.load(path, n=n)), dataset.template, dataset.max_context_tokens)
    loaded = cases_of(source, map=map, format=format, context_from=context_from, logs=logs)
    where = f"'{source}'" if isinstance(source, str | Path) else "these"
    pairs = zip(loaded.cases, loaded.references, strict=True)
    records = tuple(_record(case, reference, where) for case, reference in list(pairs)[:n])
    return Referenced(records, notes=loaded.notes)


def _record(case: Case, reference: str | None, where: str) -> Record:
    if case.response is not None:
        raise DataError(
            f"case '{case.id}' of {where} has a response, but this command draws responses; leave it out (in a file "
            "with --map response=), or name it 'reference' if it is a good response to compare with"
        )
    if reference is None or not reference.strip():
        raise DataError(
            f"case '{case.id}' of {where} has no 'reference' (the text of a good response), which utility is measured "
            "against"
        )
    return Record(case, reference)
