"""Cases of a command, read from what its options name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakmeter.core.case import Case, Document
from leakmeter.core.loaded import LoadedCases
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from leakmeter.commands.options import Source


def read_cases(source: Source, response: str | None = None) -> LoadedCases[Case]:
    from leakmeter.data.cases import cases_of, logged_case
    from leakmeter.traces.case import PRESETS

    named = (("--context-file", source.context_file), ("--data", source.data), ("--messages", source.messages))
    options = [name for name, value in named if value]
    if len(options) != 1:
        expected = "one of --context-file, --data and --messages"
        raise UsageError(
            f"{' and '.join(options)} do not go together; give {expected}" if options else f"give {expected}"
        )
    if source.data is not None:
        if source.query is not None or response is not None:
            raise UsageError("each line of --data has its own query and response; leave out --query and --response")
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
            raise UsageError("the last user message of --messages is the query; leave out --query")
        case = logged_case(source.messages, response, context_from=source.context_from)
        return LoadedCases((replace(case, id=as_unicode(source.messages.stem)),))
    if source.context_from is not None:
        raise UsageError("--context-from is for --data and --messages; the files of --context-file are the context")
    paths = source.context_file or []
    id_ = as_unicode(paths[0].stem)
    return LoadedCases((Case(id_, documents=_documents(paths), query=source.query or "", response=response),))


def as_unicode(name: str) -> str:
    """A name of the operating system's; bytes that are not UTF-8 become the replacement character."""
    return os.fsencode(name).decode(errors="replace")


def _documents(paths: list[Path]) -> tuple[Document, ...]:
    from leakmeter.core.files import read_text
    from leakmeter.data.cases import unique_names

    documents = [Document(as_unicode(path.name), read_text(path, "context file")) for path in paths]
    for document, path in zip(documents, paths, strict=True):
        if not document.text.strip():
            raise UsageError(f"context file '{path}' is empty, so there is no influence to measure")
    return tuple(unique_names(documents))
