"""The cases a command was given: read from what its options name, and cut for a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from leakmeter.core.case import Case, Document, unmarked_context
from leakmeter.core.instrument import AnyCase
from leakmeter.core.item import Origin
from leakmeter.core.preparations import Preparations
from leakmeter.errors import LeakmeterError, UsageError

if TYPE_CHECKING:
    from leakmeter.commands.options import Source
    from leakmeter.core.backend import Backend
    from leakmeter.core.instrument import Settings
    from leakmeter.core.measure import Measure

_C = TypeVar("_C", bound=AnyCase)


@dataclass(frozen=True, slots=True)
class LoadedCases(Generic[_C]):
    """Cases, and what becomes of those that cannot be used."""

    cases: tuple[_C, ...]
    problems: tuple[str, ...] = ()
    """What was wrong with each case that is left out already."""
    skip_bad: bool = False
    """Leave out further ones too, rather than stop at the first."""
    notes: tuple[str, ...] = ()
    """What to tell of how the cases were read."""
    source: str | None = None
    """The file they are of, as it was given; None where they are of none, or its name may say whom they are about."""

    def prepared(self, backend: Backend, settings: Settings, measure: Measure) -> tuple[Preparations, LoadedCases[_C]]:
        """The cases tokenised and cut; and these cases with the problems of all others, and what to tell of those
        prepared."""
        prepared = Preparations(backend)
        unmarked: dict[str, list[int]] = {}
        kept: list[_C] = []
        problems = list(self.problems)
        for case in self.cases:
            try:
                prepared_case = prepared.append(Origin(case, settings, measure))
                kept.append(case)
                if prepared_case.unmarked_query_tokens is not None:
                    names = (name for name, _, _ in prepared_case.documents)
                    unmarked.setdefault(unmarked_context(names), []).append(prepared_case.unmarked_query_tokens)
            except LeakmeterError as error:
                if not self.skip_bad:
                    raise
                problems.append(str(error))
        if not prepared:
            raise UsageError(f"none of {len(self.cases)} cases can be used; the first: {problems[0]}")
        notes = tuple(_notes(unmarked, len(prepared)))
        return prepared, replace(self, cases=tuple(kept), problems=tuple(problems), notes=notes)


def _notes(unmarked: Mapping[str, Sequence[int]], n_cases: int) -> Iterator[str]:
    for context, sizes in unmarked.items():
        which = f"in {len(sizes):,} of {n_cases:,} cases " if n_cases > 1 else ""
        size = f"up to {max(sizes):,}" if len(sizes) > 1 else f"{sizes[0]:,}"
        yield (
            f"{which}the only context is {context}; the rest of the chat, {size} tokens, counts as the query, "
            "and nothing in it is measured"
        )


def read_cases(source: Source, response: str | None = None) -> LoadedCases[Case]:
    """The cases that options name, and what was wrong with those left out."""
    from leakmeter.data.cases import cases_of, logged_case
    from leakmeter.traces.presets import PRESETS

    named = (("--context-file", source.context_file), ("--data", source.data), ("--messages", source.messages))
    options = [name for name, value in named if value]
    if len(options) != 1:
        expected = "one of --context-file, --data and --messages"
        raise UsageError(
            f"{' and '.join(options)} do not go together; give {expected}" if options else f"give {expected}"
        )
    if source.data is not None:
        if source.query is not None or response is not None:
            raise UsageError("--query and --response stand in the lines of --data; leave them out")
        loaded = cases_of(
            source.data,
            map=source.map,
            format=source.format,
            context_from=source.context_from,
            skip_bad=source.skip_bad,
            logs=PRESETS,
        )
        return LoadedCases(loaded.cases, loaded.problems, source.skip_bad, loaded.notes)
    for name, value in (("--skip-bad", source.skip_bad), ("--map", source.map), ("--format", source.format)):
        if value:
            raise UsageError(f"{name} is for --data")
    if source.messages is not None:
        if source.query is not None:
            raise UsageError("the last user message of --messages is the query; leave --query out")
        case = logged_case(source.messages, response, context_from=source.context_from)
        return LoadedCases((replace(case, id=as_unicode(source.messages.stem)),))
    if source.context_from is not None:
        raise UsageError("--context-from is for --data and --messages; the files of --context-file are the context")
    paths = source.context_file or []
    id_ = as_unicode(paths[0].stem)
    return LoadedCases((Case(id_, documents=_documents(paths), query=source.query or "", response=response),))


def as_unicode(name: str) -> str:
    """What the operating system calls something; bytes that are no UTF-8 become the replacement character."""
    return os.fsencode(name).decode(errors="replace")


def _documents(paths: list[Path]) -> tuple[Document, ...]:
    from leakmeter.core.files import read_text
    from leakmeter.data.cases import unique_names

    documents = [Document(as_unicode(path.name), read_text(path, "context file")) for path in paths]
    for document, path in zip(documents, paths, strict=True):
        if not document.text.strip():
            raise UsageError(f"context file '{path}' is empty; there is nothing whose influence could be measured")
    return tuple(unique_names(documents))
