"""Cases from anything: rows with `context` or `messages`, `query`, and if need be `response`, `id`; or other names.

A `reference`, what a good response says, stands beside the case: no measure reads it, and no number of a run depends on
it.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from leakmeter.core.case import DECODINGS, Case, Channel, Document, unmeasured_answers, unmeasured_text
from leakmeter.core.plain import counted, excerpt, visible
from leakmeter.core.record import JsonObject
from leakmeter.data import formats, named
from leakmeter.data.api_errors import is_api_error, is_event_stream
from leakmeter.data.chat import (
    ChatCase,
    ChatCases,
    answer_text,
    cases_of_chat,
)
from leakmeter.data.context_marker import (
    ContextElsewhereError,
    ContextMarker,
    Unmarked,
    context_marker,
    retrieved_texts,
)
from leakmeter.data.conversation import ALL_EMISSIONS, EmissionOptions, entries_of
from leakmeter.data.foreign import Unread, fields_of, has_reasoned, is_of_blocks, plain
from leakmeter.data.formats import DataFormat
from leakmeter.data.mapping import (
    Fields,
    Names,
    checked_text,
    is_name,
    listed,
    nearest,
    parsed_cell,
    parsed_json,
    parsed_list,
    renamed,
    value_at,
    whole_id,
)
from leakmeter.data.named import DatasetRecord
from leakmeter.data.opened import named as named_file
from leakmeter.data.opened import open_data
from leakmeter.data.proposed import (
    ROLES,
    answers_beside,
    contexts_among,
    other_contexts,
    proposed_cases,
    proposed_mapping,
    text_paths,
)
from leakmeter.data.recipients import RECIPIENT, is_recipient, recipient_of, whose_of
from leakmeter.data.rows import DataRow, read_rows, text_lines
from leakmeter.data.shape import Shape, shape_of
from leakmeter.data.unfolded import unfolded
from leakmeter.errors import DataError, LeakmeterError, UnknownNameError, UsageError
from leakmeter.text.entities.secrets import find, hidden
from leakmeter.text.entities.values import NOWHERE, is_unexplained
from leakmeter.text.repeats import is_repeated

FIELDS: Final = ("id", "context", "query", "response", "decoding", "reference", "messages", RECIPIENT)
NATIVE: Final = "native"
MARKED: Final = "marked"
"""A field that presets give beside messages: documents that stand in them word for word, and are the context."""
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "query": ("question", "user_input", "input", "prompt", "user_query", "instruction"),
    "context": (
        *("contexts", "retrieved_contexts", "documents", "docs", "passages", "source_documents", "chunks", "sources"),
        *("search_results", "hits", "nodes", "snippets", "evidence", "citations"),
    ),
    "response": (
        *("answer", "output", "completion", "result", "generation", "prediction", "generated", "reply", "replies"),
        "choices",
    ),
    "reference": ("ground_truth", "expected", "target", "gold"),
    "messages": ("conversation", "conversations", "chat", "dialog", "turns"),
    "id": ("case_id", "uuid", "key"),
    "decoding": (),
    RECIPIENT: (),
}
# What a table's rows were numbered with when it was written.
_INDEX = re.compile(r"\s*|Unnamed: .*|__index_level_0__", re.DOTALL)
_TRIED: Final = 8
"""Rows, and cases of each, on which a map is tried before it is proposed."""
_MOST_NAMES: Final = 1000
"""Unknown names that are compared with known ones."""
_MOST_HINTS: Final = 100
"""Hints that are made: rows of further names get none."""
_SHORT: Final = 40
"""Characters of a context below which it may be an id."""

_SHOWN: Final = 60
"""Characters of a text of the first case that a note shows."""
_SEARCHED: Final = 4000
"""Characters of it that are searched for secrets, of which it may show a part."""
_MOST_SHOWN_TEXTS: Final = 3
"""Texts of its context."""

RowOutcome = Fields | Case | ChatCases | DataError
LogFormats = Callable[[ContextMarker | None], Iterable[DataFormat]]


def no_logs(marker: ContextMarker | None) -> Iterable[DataFormat]:
    return ()


@dataclass(frozen=True, slots=True)
class ReadCases:
    """Cases, and what was wrong with the rows left out."""

    cases: tuple[Case, ...]
    problems: tuple[str, ...]
    references: tuple[str | None, ...] = ()
    """Of each case; None where its row has none."""
    format: str = NATIVE
    """The preset that the rows were read by."""
    notes: tuple[str, ...] = ()
    """How the data were read, as far as a person should know it, a line each."""
    first_case: tuple[str, ...] = field(default=(), compare=False)
    """What was taken as query, context and response of the first case, where that was chosen among the fields of a row:
    how each begins, or how long it is."""


def cases_of(
    data: Any,
    *,
    map: str | Iterable[str] | Mapping[str, str] | None = None,
    format: str | None = None,
    context_from: str | None = None,
    skip_bad: bool = False,
    needs_response: bool = False,
    emissions: EmissionOptions = ALL_EMISSIONS,
    quiet_texts: bool = False,
    logs: LogFormats = no_logs,
) -> ReadCases:
    """Cases of a file, of standard input, or of what a caller holds.

    Args:
        data: see `rows.read_rows`; a path, '-', records, a frame, objects, or cases.
        map: fields and the paths at which they stand: {'query': 'question', 'context': 'docs[].text'}, or the text of
            `--map`. Fields that it does not name and that are not known are left out.
        format: 'native', or the name of a preset in `logs` or `formats.FORMATS`; by default native where the fields of
            the first row are known, else the first preset that they fit.
        context_from: a pattern, a group of which is the context within the last user message of a chat, or within the
            query of a row without context: the group `context`, or the first. A dot matches line breaks too. Or
            'system': the system prompt is the context, and all other messages stay. A chat whose only context is its
            system prompt is refused without either.
        skip_bad: leave bad rows out and name them in `problems`, rather than stop at the first.
        needs_response: a row that names no response is bad, since one that was not read must not be replaced by a drawn
            one. A `Case` says itself that it has none.
        emissions: which turns and channels of a conversation are cases.
        quiet_texts: say of the texts of the first case how long they are, and not how they begin.
        logs: further presets, given what marks the context of a chat; tried before all others, and only where the
            fields are not all a case's own.

    >>> loaded = cases_of([{"question": "Who?", "docs": ["Anna sang."]}], map="query=question,context=docs")
    >>> loaded.cases[0].query, loaded.cases[0].documents[0].text
    ('Who?', 'Anna sang.')
    """
    presets = formats.FORMATS
    shape = shape_of(map, FIELDS)
    marker = context_marker(context_from)
    if format is not None and format not in (NATIVE, *presets):
        presets = {log_format.name: log_format for log_format in logs(marker)} | presets
        if format not in presets:
            raise UnknownNameError("format", format, (NATIVE, *presets))
    problems: list[str] = []
    notes: list[str] = []

    def bad(error: DataError) -> None:
        if not skip_bad:
            raise error
        problems.append(str(error))

    sizes: dict[str, set[int]] = {}
    rows = read_rows(data, text_field="context", whole=shape.root)
    tried = list(islice(rows, _TRIED))
    good = _good(chain(tried, rows), shape, bad, sizes)
    first = next(good, None)
    preset, is_flat = None, False
    if first is not None:
        row, fields = first
        if isinstance(fields, Case):
            preset = presets.get(format) if format is not None else None
        elif format is not None:
            preset = presets.get(format)
            is_flat = preset is not None and not preset.fits(fields) and preset.fits(unfolded(fields))
        else:
            preset = _preset(row, fields, shape.names_fields, marker, logs)
            is_flat = preset is None and not shape.names_fields and not all(name in FIELDS for name in fields)
            if is_flat:
                preset = _preset(row, unfolded(fields), False, marker, logs)
        if is_flat and preset is not None:
            # A table has flattened the records.
            first, good = _unfolded(first), (_unfolded(of_row) for of_row in good)
        if preset is not None and format is None:
            notes.append(f"data: read as --format {preset.name}: {preset.about}")
        good = chain((first,), good)
    seen: dict[str, DataRow] = {}
    left_out: dict[str, None] = {}
    n_hidden = 0
    on_rows = _Tried(tried, needs_response)
    contents: Iterable[tuple[DataRow, RowOutcome]] = good
    if preset is not None:
        contents = preset.read((row, {} if isinstance(fields, Case) else fields) for row, fields in good)
    read = _CasesRead(emissions)
    for row, content in contents:
        try:
            if isinstance(content, DataError):
                raise content
            if isinstance(content, Case | ChatCases):
                if marker is not None and (preset is None or preset.name in formats.FORMATS):
                    raise DataError(
                        f"{row.where}: --context-from is for texts, and this row already has a separate context"
                    )
                found = ChatCases([ChatCase(content, is_own=True)]) if isinstance(content, Case) else content
                reference = None
            else:
                hint = partial(_hint_of_row, row, shape, on_rows)
                if preset is None:
                    content = _known(content, row, shape, left_out, hint)
                found, reference = cases_of_fields(
                    *(content, row.number, row.where, marker, hint), emissions=emissions, needs_response=needs_response
                )
                has_others = any(channel != "reasoning" for _, channel in found.left_out)
                is_nothing = not (found.cases or found.n_before_reading or has_others)
                if is_nothing or any(each.case.response is None for each in found.cases):
                    _check_unanswered(row, shape, on_rows)
                elif found.is_unanswered:
                    _check_beside(row, shape)
            found = read.wanted(found)
            of_preset = content.get(RECIPIENT) if preset is not None and isinstance(content, Mapping) else None
            found = _with_recipient(found, row, shape, of_preset, is_own=preset is None)
            if found.cases and (preset is not None or any(each.case.messages for each in found.cases)):
                held = row.content if isinstance(row.content, dict) else {}
                n_hidden += _has_hidden(held, found, emissions)
            for each in found.cases:
                if each.case.response is not None and is_event_stream(each.case.response):
                    raise DataError(
                        f"{row.where}: the response is a stream of events as an API sends it ('data: {{…}}'); give the "
                        "text that they make"
                    )
                if each.case.id in seen:
                    where = seen[each.case.id].place or seen[each.case.id].where
                    # What is no name may be a text, and is not repeated.
                    named = f"id '{each.case.id}'" if is_name(each.case.id) else "its id"
                    raise DataError(f"{row.where}: {named} was already used in {where}")
        except DataError as error:
            is_elsewhere = isinstance(error, ContextElsewhereError) and (map_ := _documents_beside_chat(row, tried))
            bad(DataError(f"{row.where}: {map_}") if is_elsewhere else error)
            continue
        seen.update(dict.fromkeys((each.case.id for each in found.cases), row))
        read.add(found, reference)
    cases, references = read.kept()
    if not cases:
        noun = named_file(data, "data file") if isinstance(data, str | Path) else "the data"
        if problems:
            raise DataError(f"no row of {noun} can be used; {_commonest(problems)}")
        if why := read.nothing():
            raise DataError(f"{noun}: {why}")
        raise DataError(f"{noun} holds no case; expected one JSON object a line, or a table or list of records")
    notes += (f"data: --map {part}: no document or message has it" for part in shape.unused)
    n_unanswered = sum(case.response is None for case in cases)
    if n_unanswered and (preset is not None or n_unanswered < len(cases)):
        notes.append(f"data: {n_unanswered:,} of {counted(len(cases), 'case')} {_have(n_unanswered)} no response")
    if n_hidden:
        notes.append(
            f"data: in {n_hidden:,} of {counted(len(cases), 'case')} the log has reasoning or other calls before the "
            "response that its reader did not see; they are not measured"
        )
    notes += read.notes(cases)
    if unmeasured := sum(unmeasured_answers(cases)):
        notes.append(f"data: {unmeasured_text(unmeasured)}")
    if shape.names_fields:
        notes.append(_mapped_note(cases))
    notes += filter(None, (_missing_note(cases), _repeated_note(cases)))
    notes += (
        f"data: lists at {path} have {min(lengths):,} to {max(lengths):,} elements, so {shape.numbered[path]} may be "
        "something else in some of them; [-1] is the last"
        for path, lengths in sizes.items()
        if len(lengths) > 1
    )
    if left_out:
        notes.append(f"data: columns left out: {listed(left_out)}")
    # Under a case's own names, nothing was chosen.
    is_chosen = preset is not None or shape.names_fields or bool(cases[0].messages)
    return ReadCases(
        tuple(cases),
        tuple(problems),
        tuple(references),
        NATIVE if preset is None else preset.name,
        tuple(notes),
        tuple(_texts_of_first(cases[0], quiet=quiet_texts)) if is_chosen else (),
    )


def _with_recipient(found: ChatCases, row: DataRow, shape: Shape, of_preset: object, *, is_own: bool) -> ChatCases:
    """Cases with the recipient that their row says, where their format says none. In a record of another tool
    (`is_own` is false) the field may be something else."""
    held = row.fields if isinstance(row.content, Mapping) else {}
    said = shape.recipient_in(held, row.where) if of_preset is None or shape.names_recipient else of_preset
    if not is_own and not shape.names_recipient and isinstance(said, Mapping) and not is_recipient(said):
        return found
    recipient = recipient_of(said, row.where)
    if recipient is None:
        return found
    cases = [
        each if each.case.recipient is not None else replace(each, case=replace(each.case, recipient=recipient))
        for each in found.cases
    ]
    return replace(found, cases=cases)


def _commonest(problems: Sequence[str]) -> str:
    kinds = [re.sub(r"\d+", "", problem) for problem in problems]
    ((kind, n),) = Counter(kinds).most_common(1)
    return (f"{n} of {len(problems)} have this problem: " if len(problems) > 1 else "") + problems[kinds.index(kind)]


def _good(
    rows: Iterable[DataRow], shape: Shape, bad: Any, sizes: dict[str, set[int]]
) -> Iterator[tuple[DataRow, Fields | Case]]:
    numbered = shape.numbered
    follows_bad = False
    for outer in rows:
        if isinstance(outer.content, Case):
            yield outer, outer.content
            continue
        try:
            for row in shape.records(replace(outer, follows_bad=follows_bad)):
                follows_bad = False
                record = row.fields
                fields = shape.fields_of(record, row.where)
                # What is named stands for all that a preset would read as the same.
                instead = {alias for role, path in shape.fields.items() if path for alias in _ALIASES.get(role, ())}
                fields = {name: value for name, value in fields.items() if name not in instead}
                for path in numbered:
                    if isinstance(held := parsed_cell(value_at(record, path, row.where)), list):
                        sizes.setdefault(path, set()).add(len(held))
                yield row, _filled(fields) if row.is_table else fields
        except DataError as error:
            bad(error)
            follows_bad = True


def _has_hidden(held: JsonObject, found: ChatCases, emissions: EmissionOptions) -> bool:
    """Whether a row has reasoning or other calls that are not measured."""
    n_hidden, n_reasoned = (n if isinstance(n := held.get(name), int) else 0 for name in ("n_hidden", "n_reasoned"))
    if "reasoning" not in emissions.channels:
        return n_hidden > 0 or has_reasoned(held)
    channels = {each.case.channel for each in found.cases}
    return n_hidden > n_reasoned or ("reasoning" not in channels and has_reasoned(held))


def _filled(fields: Fields) -> JsonObject:
    """What the cells of a table hold, as far as they are filled."""
    kept = {name: value for name, value in fields.items() if value not in (None, "") and not _INDEX.fullmatch(name)}
    if "id" in kept:
        kept["id"] = whole_id(kept["id"], is_table=True)
    return kept | {name: parsed_list(kept[name]) for name in ("context", "messages") if name in kept}


def _check_unanswered(row: DataRow, shape: Shape, tried: _Tried) -> None:
    """Refuse a row in which no response was found, where one is needed or `--map` says where it is."""
    if path := shape.fields.get("response"):
        raise DataError(f"{row.where}: --map response={path}: there is no response")
    if tried.needs_response:
        hint = _hint_of_row(row, shape, replace(tried, is_read=True), row.fields)
        raise DataError(
            f"{row.where}: the row names no response{hint}; to have responses drawn from the model, give --samples 1"
        )


def _check_beside(row: DataRow, shape: Shape) -> None:
    """Refuse a chat that ends without an answer where one may stand beside it, unless `--map` says where it is."""
    if "response" not in shape.fields and (paths := answers_to(row)):
        raise DataError(
            f"{row.where}: the chat ends without an answer, which may be at {', '.join(paths)}; name it, as in --map "
            f"response={paths[0]}, or give --map response= if it was not logged"
        )


def answers_to(row: DataRow) -> list[str]:
    """Paths in a record of the texts that may be the answer to its chat."""
    return answers_beside(row.fields, _ALIASES) if isinstance(row.content, Mapping) else []


def _preset(
    row: DataRow, fields: Fields, is_mapped: bool, marker: ContextMarker | None, logs: LogFormats
) -> formats.DataFormat | None:
    """What the rows are read by, from the first; None where its fields are a case's own."""
    is_marked = marker is not None and "query" in fields
    is_named = is_mapped and (is_marked or not _needed(fields))
    is_own = all(name in FIELDS for name in fields)
    if (
        not (is_named or is_own)
        and (log := next((log_format for log_format in logs(marker) if log_format.fits(fields)), None)) is not None
    ):
        return log
    has_context = "context" in fields or "messages" in fields or is_marked
    # A table has columns of other things too.
    is_native = is_own or (row.is_table and not _needed(fields))
    if is_named or (has_context and is_native):
        return None
    return next((preset for preset in formats.FORMATS.values() if preset.fits(fields)), None)


def _unfolded(of_row: tuple[DataRow, Fields | Case]) -> tuple[DataRow, Fields | Case]:
    row, fields = of_row
    if isinstance(fields, Case):
        return of_row
    whole = unfolded(fields)
    return replace(row, content=whole), whole


def _known(
    fields: Fields, row: DataRow, shape: Shape, left_out: dict[str, None], hint: Callable[[Fields], str]
) -> Fields:
    unknown = [name for name in fields if name not in FIELDS]
    if shape.names_fields:
        # Who says where the texts are leaves a chat beside them out, and the reverse.
        others = shape.beside
        return {name: value for name, value in fields.items() if name in FIELDS and name not in others}
    if not unknown:
        return dict(fields)
    if row.is_table:
        # Other columns are left out, but none that may be what the model read or said.
        formats.only(fields, row.where, "response", *_others_of("response", formats.ANSWERS, fields))
        formats.only_context(fields, row.where, "context", *_others_of("context", formats.CONTEXTS, fields))
    if row.is_table and left_out and not _needed(fields) and all(name in left_out for name in unknown):
        return {name: value for name, value in fields.items() if name in FIELDS}
    has_chat = "messages" in fields
    # A column of another name is no recipient that was misspelled.
    optional = ("query", "context", RECIPIENT) if has_chat else (RECIPIENT,)
    missing = [name for name in FIELDS if name not in fields and name not in optional]
    aliases = {field: _ALIASES[field] for field in missing}
    looked_at = unknown[:_MOST_NAMES]
    is_misspelled = any(renamed([name], aliases) or nearest(name, missing) is not None for name in looked_at)
    if row.is_table and not _needed(fields) and not is_misspelled:
        left_out.update(dict.fromkeys(unknown))
        return {name: value for name, value in fields.items() if name in FIELDS}
    if not is_name(unknown[0]):
        # It may be a text, and is not repeated.
        raise DataError(f"{row.where}: a field has a text instead of a name; does the table begin with a heading?")
    raise DataError(f"{row.where}: unknown field '{unknown[0]}'; known: {', '.join(FIELDS)}{hint(fields)}")


def _others_of(name: str, aliases: Iterable[str], fields: Fields) -> list[str]:
    """Columns that hold the same as this one by another name, or more of it by a number behind the name."""
    numbered = re.compile(rf"{name}[ _-]?[0-9]+", re.IGNORECASE)
    return [column for column in fields if name in fields and (column in aliases or numbered.fullmatch(column))]


def _needed(fields: Fields) -> list[str]:
    if "messages" in fields:
        return []
    return [name for name in ("query", "context") if name not in fields]


@dataclass(frozen=True, slots=True)
class _Tried:
    """The first rows of the data: a map that does not read them is not proposed."""

    rows: Sequence[DataRow] = ()
    needs_response: bool = False
    is_read: bool = False
    """Whether all but the response is read as it is."""
    hints: dict[tuple[object, ...], str] = field(default_factory=dict, repr=False)
    """Made already, by the names of a row's fields: where rows are left out, most of these have the same ones."""

    def reads(self, proposal: Mapping[str, str]) -> bool:
        """Whether a whole map gives a case of each row; what of a chat is context is asked later."""
        ids: set[str] = set()
        try:
            for row, fields in self._fields(proposal):
                marker = Unmarked() if "messages" in fields else None
                found, _ = cases_of_fields(*(fields, row.number, row.where, marker), needs_response=self.needs_response)
                for case in (each.case for each in found.cases):
                    if case.id in ids or (self.needs_response and case.response is None):
                        return False
                    ids.add(case.id)
        except LeakmeterError:
            return False
        return True

    def reads_part(self, proposal: Mapping[str, str], role: str) -> bool:
        """The same of one field of a case alone."""
        of_role = {name: path for name, path in proposal.items() if name.partition(".")[0] in (role, "cases")}
        try:
            for row, fields in self._fields(of_role):
                if role not in fields:
                    return False
                if role == "context":
                    _documents(fields[role], row.where)
                elif role == "messages":
                    entries_of(fields[role], row.where)
                elif role == "response":
                    _response_of(fields[role], row.where)
                elif role != "id":
                    _text_of(fields[role], role, row.where)
        except LeakmeterError:
            return False
        return True

    def _fields(self, proposal: Mapping[str, str]) -> Iterator[tuple[DataRow, Fields]]:
        shape = shape_of(proposal, FIELDS)
        # What cannot be read at all is an error of its own.
        for outer in (row for row in self.rows if row.problem is None):
            for row in islice(shape.records(outer), _TRIED):
                fields = shape.fields_of(row.fields, row.where)
                fields = _filled(fields) if row.is_table else fields
                yield row, {name: fields[name] for name in FIELDS if proposal.get(name) and name in fields}


def _hint(fields: Fields, tried: _Tried, within: str = "", known: Mapping[str, str] | None = None) -> str:
    """What to give so that fields of other names are read, and all others left out; `within` is the path of the cases
    in a larger record, and `known` are paths that are known."""
    first = _proposal(fields, within, known)
    may_be_within = {"query", "response"} <= {*_lacking(first, tried)} or "[0]" in first.get("query", "")
    inner = proposed_cases(fields, _ALIASES) if may_be_within and not within else None
    at, case = inner or ("", {})
    proposals = [*([_proposal(case, at)] if inner else ()), first, _proposal(fields, within, known, chats=False)]
    for proposal in proposals:
        for whole in (proposal, {name: path for name, path in proposal.items() if name != "id"}):
            # Whoever asks is for the user to say.
            is_open = "|" in whole.get("messages.user", "")
            if not _lacking(whole, tried) and (is_open or tried.reads(whole)):
                choose = "; of the roles between | give the one that asks" if is_open else ""
                several = _contexts_of(case if whole.get("cases") == at else fields, whole)
                choose += f"; context may be {several}: give what the model read" if several else ""
                return f"; to read only these fields, give --map {shlex.quote(_pairs(whole))}{choose}"
    # None reads the rows as a whole: give the parts that do, of the one that lacks least.
    partly = [_parts_that_read(proposal, {*(known or {})}, tried) for proposal in proposals]
    proposal = min(partly, key=lambda parts: len(_lacking(parts, tried)))
    fields = case if at and "cases" in proposal else fields
    if not proposal:
        return f"; name the fields with --map query=…,context=…,response=…{_texts_at(fields)}"
    lacking = _lacking(proposal, tried)
    if not lacking and tried.needs_response and "response" not in proposal:
        lacking.append("response")  # of a chat that ends with a question
    if not lacking:
        return _texts_at(fields)
    if tried.is_read and lacking == ["response"]:
        others = _texts_at(fields, besides=proposal.values())
        return others and f"; if it has one under another name, name it with --map response=PATH{others}"
    pairs = _pairs(dict.fromkeys(lacking, "…") | proposal)
    rows = "; --skip-bad leaves out rows that are no answers" if {"query", "context", "response"} <= {*lacking} else ""
    within_query = "; if the query holds the retrieved text, give --context-from REGEX in place of context"
    mark = within_query if "context" in lacking and "query" in proposal else ""
    several = _contexts_of(fields, {name: path for name, path in proposal.items() if name not in lacking})
    choose = f": context may be {several}" if several else ""
    return f"; name the fields with --map {pairs} and replace each … with a path{choose}{_texts_at(fields)}{mark}{rows}"


def _contexts_of(fields: Fields, proposal: Mapping[str, str]) -> str:
    """Paths of what may be the context, that of the proposal first, where there are several."""
    if "messages" in proposal:
        return ""
    if (chosen := proposal.get("context")) is None:
        several = contexts_among(fields)
    else:
        several = [chosen, *other_contexts(fields, proposal, _ALIASES)]
    return " or ".join(several) if len(several) > 1 else ""


def _proposal(
    fields: Fields, within: str, known: Mapping[str, str] | None = None, *, chats: bool = True
) -> dict[str, str]:
    cases = {"cases": within} if within else {}
    return cases | proposed_mapping(fields, _ALIASES, chats=chats) | dict(known or {})


def _parts_that_read(proposal: Mapping[str, str], known: Collection[str], tried: _Tried) -> dict[str, str]:
    roles = {name.partition(".")[0] for name in proposal} - {"cases", "system"}
    bad = {role for role in roles if role not in known and not tried.reads_part(proposal, role)}
    return {name: path for name, path in proposal.items() if name.partition(".")[0] not in bad}


def _documents_beside_chat(row: DataRow, tried: Sequence[DataRow]) -> str:
    """What to give where the system prompt is the only context of a chat, and retrieved texts are in the record but in
    none of its messages; else empty."""
    fields = row.fields if isinstance(row.content, Mapping) else {}
    chat = proposed_mapping(fields, _ALIASES).get("messages")
    found = proposed_mapping(fields, _ALIASES, chats=False)
    if chat is None or "[" not in found.get("context", "") or "response" not in found:
        return ""
    names = ("context", "context.text", "context.name", "response")
    proposal = {"query": f"{chat}[-1].content"} | {name: found[name] for name in names if name in found}
    if not _Tried(tried, needs_response=True).reads(proposal):
        return ""
    return (
        f"the retrieved texts are at {found['context']}, in no message; to measure them, give --map "
        f"{shlex.quote(_pairs(proposal))}"
    )


def _lacking(proposal: Mapping[str, str], tried: _Tried) -> list[str]:
    if "messages" in proposal:
        return []
    lacking = [name for name in ("query", "context") if name not in proposal]
    if "response" not in proposal and (lacking or tried.needs_response):
        lacking.append("response")
    return lacking


def _pairs(proposal: Mapping[str, str]) -> str:
    order = ("cases", "id", *ROLES)
    names = sorted(proposal, key=lambda name: order.index(base) if (base := name.partition(".")[0]) in order else 99)
    return ",".join(f"{name}={proposal[name]}" for name in names)


def _hint_of_row(row: DataRow, shape: Shape, tried: _Tried, fields: Fields) -> str:
    # Of what a preset has made of a row, the row says more.
    fields = row.fields if isinstance(row.content, Mapping) else fields
    key = (tried.is_read, *fields)
    if key not in tried.hints:
        if len(tried.hints) >= _MOST_HINTS:
            return ""
        tried.hints[key] = _new_hint(row, shape, tried, fields)
    return tried.hints[key]


def _new_hint(row: DataRow, shape: Shape, tried: _Tried, fields: Fields) -> str:
    if not shape.cases and all(row.number != other.number for other in tried.rows):
        tried = replace(tried, rows=(*tried.rows, row))
    if not (shape.names_fields or shape.cases):
        return _hint(fields, tried)
    return _hint(fields, tried, shape.cases, {name: path for name, path in shape.fields.items() if path})


def _texts_at(fields: Fields, besides: Iterable[str] = ()) -> str:
    known = (*filter(None, besides), "id")
    paths = [path for path in text_paths(fields) if not path.startswith(known)]
    return f"; the texts are at {', '.join(paths)}" if paths else ""


def _mapped_note(cases: Sequence[Case]) -> str:

    def characters(lengths: Sequence[int]) -> str:
        least, most = min(lengths), max(lengths)
        return f"{most:,}" if least == most else f"{least:,} to {most:,}"

    documents = [len(document.text) for case in cases for document in case.documents]
    shown = []
    if queries := [len(case.query) for case in cases if not case.messages]:
        shown.append(f"queries of {characters(queries)} characters")
    chats = [case.messages for case in cases if case.messages]
    if any(len(chat) > 1 for chat in chats):
        texts = [len(part.text) for chat in chats for message in chat for part in message.parts]
        shown.append(f"chats of {characters(list(map(len, chats)))} messages of {characters(texts)} characters")
    if marked := [len(m.parts[i].text) for chat in chats for m in chat for i in m.retrieved]:
        shown.append(f"marked context of {characters(marked)} characters")
    if documents:
        n_each = characters([len(case.documents) for case in cases])
        shown.append(f"documents of {characters(documents)}, {n_each} a case")
    if responses := [len(case.response) for case in cases if case.response is not None]:
        shown.append(f"responses of {characters(responses)}")
    short = documents and max(documents) < _SHORT
    check = "; so short a text may be an id: check that context is the retrieved text" if short else ""
    return f"data: --map reads {'; '.join(shown)}{check}"


def _texts_of_first(case: Case, *, quiet: bool) -> Iterator[str]:
    """What was taken as query, context and response, so that a person sees whether it is that."""
    query = case.query
    if (asking := case.asking) is not None:
        message = case.messages[asking]
        query = "".join(part.text for n, part in enumerate(message.parts) if n not in message.retrieved)
    texts = [("query", query)] if query.strip() else []
    documents = list({document.name: document for document in reversed(case.context_documents)}.values())[::-1]
    for number, document in enumerate(documents[:_MOST_SHOWN_TEXTS], 1):
        of = f" {number} of {len(documents):,}" if len(documents) > 1 else ""
        named = "" if quiet else f" ({excerpt(document.name, _SHORT)})"
        texts.append((f"context{of}{named}", document.text))
    texts += [("response", case.response)] if case.response is not None else []
    # What is on standard error ends in logs that others read.
    secrets = () if quiet else find("\n".join(text[:_SEARCHED] for _, text in texts), by_shape=True)
    for name, text in texts:
        shown = counted(len(text), "character") if quiet else _beginning(hidden(text[:_SEARCHED], secrets))
        yield f"data: first case, {name}: {shown}"


def _beginning(text: str) -> str:
    line = " ".join(visible(text[: 4 * _SHOWN]).split())
    is_whole = len(text) <= 4 * _SHOWN and len(line) <= _SHOWN
    return f'"{line}"' if is_whole else f'"{line[:_SHOWN].rstrip()}…"'


def _missing_note(cases: Sequence[Case]) -> str | None:

    def prompt(case: Case) -> str:
        parts = [*case.documents, *(part for message in case.messages for part in message.parts)]
        return "\n".join((case.query, *(part.text for part in parts)))

    n = sum(is_unexplained(case.response, prompt(case)) for case in cases if case.response)
    return f"data: {counted(n, 'response')} {_have(n)} {NOWHERE}" if n else None


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


def _repeated_note(cases: Sequence[Case]) -> str | None:
    """How many queries have a document's text too, so that it stays in the prompt when the document is left out."""
    n = sum(is_repeated(case.query, (document.text for document in case.documents)) for case in cases)
    if not n:
        return None
    return (
        f"data: in {n:,} of {counted(len(cases), 'case')} the query repeats text of the documents, and what the "
        "response takes from there is not measured; leave it out of the query, or mark it there with --context-from "
        "REGEX instead of naming a context"
    )


@dataclass(slots=True)
class _CasesRead:
    """Cases in their order, and what of the log is none."""

    emissions: EmissionOptions
    found: list[tuple[ChatCase, str | None]] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    """Of each conversation its last turn, in any channel."""
    left_out: Counter[tuple[str, Channel]] = field(default_factory=Counter)
    """See `ChatCases`."""
    n_before_reading: int = 0
    n_unanswered: int = 0
    n_errors: int = 0

    def wanted(self, found: ChatCases) -> ChatCases:
        """The cases of the channels that are measured."""
        wanted: list[ChatCase] = []
        left_out = found.left_out.copy()
        for each in found.cases:
            name, turn = _turn_of(each.case)
            self.last[name] = max(self.last.get(name, 0), turn)
            if each.case.channel in self.emissions.channels:
                wanted.append(each)
            else:
                left_out[name, each.case.channel] += 1
        return replace(found, cases=wanted, left_out=left_out)

    def add(self, found: ChatCases, reference: str | None) -> None:
        self.left_out += found.left_out
        self.n_before_reading += found.n_before_reading
        self.n_unanswered += found.is_unanswered
        for each in found.cases:
            if is_api_error(each.case):
                self.n_errors += 1
            else:
                self.found.append((each, reference if each.is_own else None))

    def kept(self) -> tuple[list[Case], list[str | None]]:
        """Without earlier turns that are rows of their own, as where each request has the whole chat before it, or that
        are not wanted: a conversation may be of several rows."""
        seen = {said_by(each) for each, _ in self.found if each.is_own}
        cases: list[Case] = []
        references: list[str | None] = []
        for each, reference in self.found:
            if not self._has_turn_of(each.case):
                continue
            if not each.is_own:
                if (said := said_by(each)) in seen:
                    continue
                seen.add(said)
            cases.append(each.case)
            references.append(reference)
        return cases, references

    def _has_turn_of(self, case: Case) -> bool:
        name, turn = _turn_of(case)
        return self.emissions.has_turn(turn, self.last[name])

    def notes(self, cases: Sequence[Case]) -> Iterator[str]:
        said = [case.emission for case in cases if case.emission is not None]
        names = {emission.conversation for emission in said}
        if len(said) > len(names) or any(emission.channel != "answer" for emission in said):
            channels = Counter(emission.channel for emission in said)
            kinds = [counted(n, _CHANNEL_NOUNS[channel]) for channel, n in channels.items()]
            yield f"data: {counted(len(names), 'conversation')} with {', '.join(kinds)}"
        measured = {_turn_of(each.case)[0] for each, _ in self.found if self._has_turn_of(each.case)}
        if cases and (n := len({name for name, channel in self.left_out if channel != "reasoning"} - measured)):
            have = "conversation has" if n == 1 else "conversations have"
            yield f"data: {n:,} {have} {self._missing()}, and {'is' if n == 1 else 'are'} left out"
        if self.n_before_reading:
            yield (
                f"data: {counted(self.n_before_reading, 'other emission')} came before anything was read, so that "
                "there is nothing to measure"
            )
        if self.n_unanswered:
            ends = "ends" if self.n_unanswered == 1 else "end"
            yield (
                f"data: {counted(self.n_unanswered, 'chat')} {ends} without an answer; only earlier turns are measured"
            )
        if self.n_errors:
            noun = "is an error" if self.n_errors == 1 else "are errors"
            yield f"data: {counted(self.n_errors, 'response')} {noun} of an API, and not measured"

    def nothing(self) -> str:
        """Why there is no case, where that is known."""
        why = [note.removeprefix("data: ") for note in self.notes(())]
        of_channels = Counter(channel for _, channel in self.left_out.elements())
        of_channels.update(each.case.channel for each, _ in self.found)
        if of_channels:
            has = ", ".join(f"{channel} ({n:,})" for channel, n in of_channels.items())
            why.append(f"there is {self._missing()}; the data have {has}: choose with --channels and --turns")
        return "; ".join(why)

    def _missing(self) -> str:
        """'no tool call or memory write to measure', of the channels that are measured."""
        nouns = " or ".join(noun for channel, noun in _CHANNEL_NOUNS.items() if channel in self.emissions.channels)
        return f"no {nouns} to measure{' in the last turn' if self.emissions.turns == 'last' else ''}"


def _turn_of(case: Case) -> tuple[str, int]:
    """Conversation and turn; what is no turn of a conversation is one by itself."""
    return (case.id, 1) if case.emission is None else (case.emission.conversation, case.emission.turn)


_CHANNEL_NOUNS: Final = {
    "answer": "answer",
    "tool": "tool call",
    "agent": "agent message",
    "memory": "memory write",
    "reasoning": "reasoning text",
}


def said_by(each: ChatCase) -> tuple[object, ...]:
    """What was said, and after what: equal where one emission was logged twice."""
    case = each.case
    return each.after, case.response, case.channel, case.begun and case.begun.calls


def cases_of_fields(
    value: Fields,
    number: int,
    where: str,
    marker: ContextMarker | None = None,
    hint: Callable[[Fields], str] | None = None,
    *,
    emissions: EmissionOptions = ALL_EMISSIONS,
    needs_response: bool = False,
) -> tuple[ChatCases, str | None]:
    """The cases and the reference, if it has one, of the fields of a row that are in `FIELDS`; `number` is the id,
    where there is none, the marker says what is context in a chat, and the hint what mends a record without context."""
    chat = value.get("messages")
    if marker is not None and chat is None and value.get("query") and "context" not in value:
        chat = [{"role": "user", "content": value["query"]}]
        value = {name: held for name, held in value.items() if name != "query"} | {"messages": chat}
    if "context" in value and "messages" in value:
        raise DataError(
            f"{where}: give either 'context' or 'messages', and not both; --map messages=… or --map "
            "query=…,context=… says which"
        )
    if "context" not in value and "messages" not in value:
        mending = hint(value) if value and hint is not None else ""
        raise DataError(f"{where}: it has neither 'context', the retrieved texts, nor 'messages', a chat{mending}")
    id_ = whole_id(value.get("id", number), is_table=False)
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        raise DataError(f"{where}: 'id' has to be text or a whole number")
    id_ = checked_text(str(id_), "id", where)
    reference = value.get("reference")
    reference = None if reference is None else checked_text(reference, "reference", where)
    response = value.get("response")
    if "messages" in value:
        if marker is None and MARKED in value:
            marker = retrieved_texts(_documents(value[MARKED], where), value["messages"], where)
        if value.get("query"):
            raise DataError(f"{where}: the last user message is the query; leave 'query' out")
        is_blocks = isinstance(response, list)
        found = cases_of_chat(
            *(id_, value["messages"], response if is_blocks or response is None else _response_of(response, where)),
            where,
            marker,
            options=emissions,
            needs_response=needs_response,
            decoding=_decoding(value, where),
        )
        return found, reference
    if marker is not None:
        raise DataError(f"{where}: the case has a 'context', and --context-from gives another; leave one of them out")
    text = None if response is None else _response_of(response, where)
    case = Case(
        id=id_,
        documents=_documents(value["context"], where) if "context" in value else (),
        query=_text_of(value.get("query", ""), "query", where),
        response=text,
        decoding=_decoding(value, where),
    )
    if case.decoding is not None and text is None:
        raise DataError(f"{where}: 'decoding' describes how a response was chosen, but there is no 'response'")
    return ChatCases([ChatCase(case, is_own=True)]), reference


def _response_of(value: object, where: str) -> str:
    """A text, or one that is logged as a list of blocks, each with its type."""
    if is_of_blocks(value):
        return answer_text(value, f"{where}: 'response'")
    return _text_of(value, "response", where)


def _text_of(value: object, field: str, where: str) -> str:
    if isinstance(value, list):
        hint = f"take one with {field}=PATH[0], or say with cases=PATH which list holds the cases"
        hint += "; of one answer in blocks, each with its type, give the list itself" if field == "response" else ""
        raise DataError(f"{where}: '{field}' is a list, expected text; {hint}")
    if isinstance(value, Mapping):
        raise DataError(
            f"{where}: '{field}' is an object, expected text; it has {listed(value)}: take one with {field}=PATH.NAME"
        )
    return checked_text(value, field, where)


def _decoding(value: Fields, where: str) -> str | None:
    decoding = value.get("decoding")
    if decoding is None:
        return None
    if decoding not in DECODINGS:
        raise DataError(f"{where}: 'decoding' has to be one of {', '.join(DECODINGS)}")
    return str(decoding)


def _documents(value: object, where: str) -> tuple[Document, ...]:
    if isinstance(value, str | Unread):
        return (Document("context", checked_text(value, "context", where)),)
    if isinstance(value, Mapping):
        value = formats.documents_by_name(value) or [value]
    if not isinstance(value, list):
        raise DataError(f"{where}: 'context' has to be text or a list of documents")
    out: list[Document] = []
    for number, entry in enumerate(value, 1):
        document = formats.document_of(entry, number, where)
        text = checked_text(document["text"], f"context[{number - 1}]", where)
        out.append(Document(checked_text(document["name"], "name", where), text, *whose_of(document, where)))
    return tuple(unique_names(out))


def unique_names(documents: list[Document]) -> list[Document]:
    names = Names()
    return [replace(document, name=names.own(document.name)) for document in documents]


def logged_case(path: str | Path, response: str | None = None, *, context_from: str | None = None) -> Case:
    """The chat of a JSON file, or of standard input ('-'): a list of messages, or an object with `messages`, as a log
    of chat completions has it. `response` is what was answered, where the file does not say."""
    where = named_file(path, "messages file")
    with open_data(path, "messages file") as opened:
        value = parsed_json("".join(text_lines(opened, where, "\n")), where)
    fields: JsonObject = {"messages": value.get("messages") if isinstance(value, dict) else value}
    if isinstance(value, dict) and formats.FORMATS["openai"].fits(value):
        row = DataRow(1, "", where, value)
        answers = [answer for _, answer in formats.FORMATS["openai"].read([(row, value)])]
        if len(answers) > 1:
            raise DataError(f"{where} has {len(answers)} answers; give it with --data, which makes each a case")
        (only,) = answers
        if isinstance(only, DataError):
            raise only
        assert not isinstance(only, ChatCases)
        fields = {name: held for name, held in only.items() if name in ("messages", "response")}
    if response is not None:
        if "response" in fields:
            raise DataError(f"{where} has an answer, and a response is given too; leave one of them out")
        fields["response"] = response
    found, _ = cases_of_fields(fields, 1, where, context_marker(context_from), emissions=_LAST)
    return _only(found, where)


_LAST: Final = EmissionOptions(turns="last")


def _only(found: ChatCases, where: str) -> Case:
    """What the chat ended with: its answer, or the last call."""
    answers = [each.case for each in found.cases if each.case.channel == "answer"]
    last = answers or [each.case for each in found.cases]
    if not last:
        raise DataError(f"{where}: nothing was read before the last turn, so there is nothing to measure")
    case = last[-1]
    return case if case.emission is None else replace(case, id=case.emission.conversation)


def case_of(
    context: Any = (),
    query: str = "",
    response: str | None = None,
    messages: Sequence[Any] = (),
    *,
    context_from: str | None = None,
) -> Case:
    """One text, several, or several by name, and a query; or a chat. A context is a text, a list of texts or of
    documents of any library, or texts by name."""
    if messages and (context or query):
        raise UsageError("give either messages, or context and query")
    marker = context_marker(context_from)
    if messages or (marker is not None and not context):
        turns = plain(messages, "messages") if messages else [{"role": "user", "content": query}]
        return _only(cases_of_chat("case", turns, response, "messages", marker, options=_LAST), "messages")
    if marker is not None:
        raise UsageError("the case has a context, and context_from gives another; leave one of them out")
    return Case(id="case", documents=_documents_of(context), query=query, response=response)


def _documents_of(context: Any) -> tuple[Document, ...]:
    if isinstance(context, Mapping):
        return tuple(Document(name, text) for name, text in context.items())
    if isinstance(context, str):
        return (Document("context", context),)
    held = [context] if fields_of(context) is not None else list(context)
    entries = (plain(entry, "context") for entry in held)
    texts = [formats.document_of(entry, number, "context", is_mapped=False) for number, entry in enumerate(entries, 1)]
    documents = [
        Document(
            str(item["name"]),
            checked_text(item["text"], "context", "the case"),
            *whose_of(item, "the case"),
        )
        for item in texts
    ]
    return tuple(unique_names(documents))


@dataclass(frozen=True, slots=True)
class Referenced:
    """Records, and how a published data set has its prompts made."""

    records: tuple[DatasetRecord, ...]
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
    logs: LogFormats = no_logs,
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


def _record(case: Case, reference: str | None, where: str) -> DatasetRecord:
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
    return DatasetRecord(case, reference)
