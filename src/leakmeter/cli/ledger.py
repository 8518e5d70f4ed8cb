"""`leakmeter ledger`: what logged answers told of documents and people, to whom, and how much."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, Parameter

from leakmeter.cli.query import SCHEMA_COLUMNS, LimitOptions, check_options, write_rows
from leakmeter.commands import output
from leakmeter.commands.options import Explain, FlagOption, LoadingOptions
from leakmeter.core.plain import counted, to_plain
from leakmeter.errors import StoreError, UsageError
from leakmeter.models import DEFAULT_MODEL
from leakmeter.results.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from leakmeter.data.traces import TraceReader
    from leakmeter.products.ledger.measuring import Added
    from leakmeter.products.ledger.store import Ledger
    from leakmeter.products.ledger.totals import Book

app = App(
    name="ledger",
    help="""Keep account of what logged answers disclosed of documents and people, and to whom.

    A ledger is a directory of its owner's alone. It holds numbers, ids of documents and traces, and keyed pseudonyms of
    people; texts and names only with --keep-texts. docs/ledger.md states what adds up, and when.""",
)

_DEFAULT: Final = Path("ledger")
_Ledger = Annotated[Path, Parameter(name="--ledger", help="Directory of the ledger.")]
_Names = Annotated[bool, Parameter(negative="", help="Show names instead of pseudonyms, where they are kept.")]
_Json = Annotated[bool, Parameter(negative="", help="Print one JSON object instead.")]


@app.command
def add(
    *traces: str,
    ledger: _Ledger = _DEFAULT,
    model: str = DEFAULT_MODEL,
    format: str | None = None,
    recipient: str | None = None,
    documents: str | None = None,
    absent_documents: Literal["refuse", "leave-out"] = "refuse",
    search: str | None = None,
    region: str = "US",
    entity_patterns: Path | None = None,
    ner: str | None = None,
    sensitive: Path | None = None,
    allowed: Path | None = None,
    pack: Annotated[list[str] | None, Parameter(negative="")] = None,
    answered_by: Annotated[list[str] | None, Parameter(negative="")] = None,
    conditions_hold: FlagOption = False,
    plain_draws: FlagOption = False,
    keep_texts: FlagOption = False,
    json: _Json = False,
    loading: LoadingOptions | None = None,
) -> None:
    """Measure the answers of logs that the ledger does not have, and add them.

    A call of a model is measured if its prompt contains each retrieved text; other calls are refused, with the reason,
    and counted. An answer or a document that the ledger has costs nothing; adding a log again changes nothing. After an
    interruption, the same command continues from the last answer.

    Parameters
    ----------
    traces
        Logs in any format of --data in `leakmeter influence`, such as traces of Langfuse or OpenTelemetry, requests,
        transcripts, and those of leakmeter.integrations; optionally compressed (.gz, .zst), or '-' for standard input.
    model
        Scoring model, as in `leakmeter influence`; all nats of a ledger come from one model.
    format
        Format of the logs, as of --data in `leakmeter influence`; detected by default.
    recipient
        Path of the field that names the recipient, such as metadata.tenant; by default the user, else the session.
    documents
        Path of the field with the retrieved texts, where a record is a call.
    absent_documents
        If a retrieved text is not in the prompt: refuse the call, or leave-out the document, which then adds 0.
    search
        Search long prompts for their strongest pieces instead of measuring all, as in top:5.
    region
        ISO code of the country whose telephone numbers, addresses and dates are expected.
    entity_patterns
        File of further patterns to recognise, one line TYPE = REGEX each.
    ner
        Local recogniser of names and dates.
    sensitive
        File of values that are personal or secret to you: a .csv table with a column for each type of value, or lines
        TYPE = REGEX.
    allowed
        File of who may know what, .toml or .csv: budgets then count only what recipients are not known to be allowed.
    pack
        File of further recognisers, a TOML pack of a language or a domain; repeat for several.
    answered_by
        Name of the scoring model in the log; repeat for further names. Its own name by default.
    conditions_hold
        Assert what no log shows: later queries depend on a document only through what their recipient saw, and
        recipients know all other documents. Posteriors are shown only with this option.
    plain_draws
        Assert that unlogged limits (top-p, top-k, min-p) and penalties were off, for example because the server's
        interface does not have them. Without this option, such answers have no posterior.
    keep_texts
        Also keep texts and names, so that pages can show heat maps and --show-names works.
    """
    if not traces:
        raise UsageError("no log is given; give files of traces, or '-' for standard input")
    from leakmeter.commands.progress import growing_progress
    from leakmeter.core.long_work import told_if_long
    from leakmeter.data.traces import TraceReader
    from leakmeter.engine.loading import KeptModel
    from leakmeter.products.ledger.measuring import Added, Measuring
    from leakmeter.products.ledger.measuring import add as add_answers
    from leakmeter.products.ledger.totals import draws_of, shared_draws

    how = Measuring(
        search=search,
        region=region,
        entity_patterns=None if entity_patterns is None else str(entity_patterns),
        ner=ner,
        sensitive=None if sensitive is None else str(sensitive),
        allowed=None if allowed is None else str(allowed),
        pack=None if pack is None else tuple(pack),
        keep_texts=keep_texts,
        answered_by=tuple(answered_by or ()),
        conditions_hold=conditions_hold,
        plain_draws=plain_draws,
    )
    kept = KeptModel(model, loading or LoadingOptions())
    kept.on_loading = partial(told_if_long, output.tell, f"loading {model} …")
    reader = TraceReader(
        list(traces), format=format, recipient=recipient, documents=documents, absent_documents=absent_documents
    )
    added = Added()

    book = _opened(ledger, new=True)
    try:
        # An answer takes two: one of the documents, and one of the personal data in them.
        with growing_progress("measurement") as watch:
            add_answers(book, reader, kept, how, notify=output.tell, watch=watch, added=added)
    except KeyboardInterrupt:
        _show_added(added, reader, json=json)
        raise
    _show_added(added, reader, json=json)
    if n := draws_of(book.rows("events"))[1]:
        output.tell(shared_draws(n))


def _show_added(added: Added, reader: TraceReader, *, json: bool) -> None:
    from leakmeter.data.traces import Reason

    n_hidden_calls, n_before_reading = reader.n_hidden_calls, reader.n_before_reading
    if json:
        counts = {"n_hidden_calls": n_hidden_calls, "n_before_reading": n_before_reading}
        output.print_json({**to_plain(added), **counts})
        return
    output.print_text(
        f"read {counted(added.n_read, 'call')}: added {counted(added.n_added, 'answer')}, "
        f"{added.n_measured:,} of them measured; {added.n_known:,} were known, {added.refused.total():,} refused, "
        f"{len(added.problems):,} left out"
    )
    if n_hidden_calls:
        output.print_text(
            f"not counted: {counted(n_hidden_calls, 'call')} without an answer to a recipient, such as a "
            "call that rewrites a question"
        )
    if n_before_reading:
        output.print_text(
            f"not counted: {counted(n_before_reading, 'emission')} before which nothing was read, such as a first call "
            "of a tool"
        )
    for reason, n in added.refused.most_common():
        output.print_text(f"refused {n:,}: {Reason(reason).sentence}")
    if added.problems:
        output.tell(f"left out {len(added.problems):,} that cannot be measured. The first: {added.problems[0]}")


@app.command
def show(
    *,
    ledger: _Ledger = _DEFAULT,
    by: str | None = None,
    subject: str | None = None,
    recipient: str | None = None,
    show_names: _Names = False,
    explain: Explain = False,
    json: FlagOption = False,
) -> None:
    """Show what was disclosed: of which document or person, to whom, how much, and on which day.

    Parameters
    ----------
    by
        Group by document (the default), subject, recipient or day.
    subject
        Show everything disclosed about one person instead: a pseudonym, or a name.
    recipient
        Show everything disclosed to one recipient instead: a pseudonym, or the name of the log.
    json
        Print JSON objects instead, one a line.
    """
    from leakmeter.products.ledger import report as shown
    from leakmeter.products.ledger.forget import find

    if sum(given is not None for given in (by, subject, recipient)) > 1:
        raise UsageError("--by, --subject and --recipient do not go together; give one of them")
    by = by or "document"
    if by not in shown.BY:
        raise UsageError(f"--by is '{by}'; it has to be {', '.join(shown.BY)}")
    book = _book(ledger)
    if recipient is not None:
        _, recipient_id = find(book, recipient, "recipient")
        if json:
            for kind in ("document", "subject"):
                for entry in shown.pairs_of(book, recipient_id, kind):
                    output.print_json(shown.record(entry, book))
        else:
            output.print_report(shown.of_recipient(book, recipient_id, show_names=show_names), explain=explain)
        return
    if subject is None:
        if json:
            for record in shown.records(book, by):
                output.print_json(record)
        else:
            output.print_report(shown.summary(book, by, show_names=show_names), explain=explain)
        return
    _, thing_id = find(book, subject, "subject")
    if json:
        for entry in book.pairs("subject", by_recipient=True):
            if entry.item.id == thing_id:
                output.print_json(shown.record(entry, book))
    else:
        output.print_report(shown.of_subject(book, thing_id, show_names=show_names), explain=explain)


@app.command
def check(
    *,
    budget: float,
    per: str = "document,recipient",
    ledger: _Ledger = _DEFAULT,
    junit: Path | None = None,
    json: _Json = False,
) -> None:
    """Check disclosures against a budget; exit with 1 if it is exceeded.

    A budget limits the largest magnitude that the sum of signed nats has ever had: a disclosure cannot be taken back.
    Nats of different documents do not add up, so each document, or person, has a budget of its own.

    Parameters
    ----------
    budget
        Maximum number of nats that may be disclosed.
    per
        document,recipient; document, for all recipients together; subject,recipient; or subject.
    junit
        Write JUnit XML to this file.
    """
    from leakmeter.core.files import write_whole
    from leakmeter.products.gate.gate_words import check_lines, to_junit
    from leakmeter.products.ledger.budgets import Budget, lines
    from leakmeter.products.ledger.budgets import check as held_against
    from leakmeter.products.ledger.report import record

    limit = Budget(budget, per)
    if junit is not None:
        _check_place(junit, "JUnit file", ledger)
    book = _book(ledger)
    over, unknown, outcome = held_against(book, limit)
    if junit is not None:
        write_whole(junit, to_junit([outcome]), public=True)
    if json:
        listings = {"over": over, "unknown": unknown}
        rows = {name: [record(entry, book) for entry in entries] for name, entries in listings.items()}
        output.print_json({"holds": outcome.holds, "check": asdict(outcome), **rows})
    else:
        further = [entry for entry in unknown if entry not in over]
        for line in (check_lines([outcome])[0], *lines([*over, *further], book)):
            output.print_text(line)
    if not outcome.holds:
        sys.exit(1)


@app.command
def report(*, ledger: _Ledger = _DEFAULT, out: Path = Path("ledger.html"), show_names: _Names = False) -> None:
    """Write the page of a ledger: documents and recipients as a matrix, a timeline, and the answers that leaked most.

    Parameters
    ----------
    out
        Write the page to this file.
    """
    from leakmeter.products.ledger.report import page
    from leakmeter.report import html

    _check_place(out, "report", ledger)
    output.save_page(out, html.page(page(_book(ledger), show_names=show_names)))
    output.tell_page(out, public=False)


@app.command
def forget(id: str, /, *, kind: str | None = None, ledger: _Ledger = _DEFAULT, json: _Json = False) -> None:
    """Remove everything of one document, person, recipient or trace from a ledger.

    Deletes its rows and the texts that were kept, and rewrites the file without them. A tombstone without the id
    records that something was forgotten. Prints what is left, and where else to look.

    Parameters
    ----------
    id
        A document's or a trace's id; a pseudonym of a person, or a name.
    kind
        Kind of the id, if several have it: document, subject, recipient or trace.
    """
    from leakmeter.products.ledger.forget import forget as forget_of
    from leakmeter.products.ledger.store import Ledger

    # A command that was killed before it committed anything has left texts too.
    forgotten = forget_of(_opened(ledger, new=Ledger.of_user(ledger).runs.exists()), id, kind)
    if json:
        output.print_json(asdict(forgotten))
        return
    output.print_text(
        f"forgotten: one {forgotten.kind}: {counted(forgotten.n_rows, 'row')}, "
        f"{counted(forgotten.n_events, 'answer')}, kept texts of {counted(forgotten.n_texts, 'measurement')}"
    )
    for sentence in forgotten.left:
        output.print_text(f"left: {sentence}")


@app.command
def query(
    sql: str | None = None,
    /,
    *,
    ledger: _Ledger = _DEFAULT,
    schema: FlagOption = False,
    json: FlagOption = False,
    csv: FlagOption = False,
    limits: LimitOptions = DEFAULT_LIMITS,
) -> None:
    """Query a ledger in SQL.

    The views are totals (the sums that are shown, one row per document or person and recipient), events (answers),
    looks (documents retrieved for them), scores (numbers), and disclosures (what each answer gave away, of which
    document, to whom). For example: "select id, recipient, largest_running_nats from totals where kind = 'document'
    order by 3 desc".

    Parameters
    ----------
    sql
        One SELECT.
    schema
        Show the columns of all views, their types and units instead.
    json
        Write one JSON object a row.
    csv
        Write comma-separated values, with a line of names first.
    """
    from leakmeter.products.ledger.query import ask, columns

    check_options(sql, schema=schema, json=json, csv=csv)
    if sql is None:
        write_rows(SCHEMA_COLUMNS, iter(columns()), json=json, csv=csv)
        return
    answer = ask(sql, _opened(ledger), limits)
    write_rows(answer.columns, answer.rows, json=json, csv=csv)


@app.command
def verify(*, ledger: _Ledger = _DEFAULT) -> None:
    """Read every row of a ledger and compare it with its checksum; exit with 1 if one is not what was written."""
    n_rows, findings = _opened(ledger).verify()
    for finding in findings:
        output.print_text(f"WRONG   {finding}")
    output.print_text(f"{n_rows:,} rows, {len(findings):,} findings")
    if findings:
        sys.exit(1)


def _opened(path: Path, *, new: bool = False) -> Ledger:
    from leakmeter.products.ledger.store import Ledger

    book = Ledger.of_user(path)
    if not new and not book.exists:
        raise StoreError(f"'{path}' is not a ledger; make one with `leakmeter ledger add`, or name one with --ledger")
    return book


def _check_place(path: Path, noun: str, ledger: Path) -> None:
    """Refuse a place in the ledger's directory, where forgetting would not reach the file."""
    if ledger.resolve() in path.resolve().parents:
        raise StoreError(f"{noun} '{path}' is inside the ledger '{ledger}'; give another place")
    output.check_writable(path, noun, ledger)


def _book(path: Path) -> Book:
    from leakmeter.products.ledger.totals import Book

    return Book(_opened(path))
