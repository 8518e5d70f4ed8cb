"""`leakmeter pii extract`: people out of documents, to ask a model for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.commands.progress import counting
from leakmeter.core.files import check_readable
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from leakmeter.instruments.pii.extraction import Extractor, Find
    from leakmeter.text.entities.mention import Mention

Finds = Literal["structured", "relationships", "universities"]
Scope = Literal["sentence", "document"]
_MB: Final = 1_000_000


def extract(
    files: Annotated[list[Path], Parameter(consume_multiple=True)],
    *,
    out: Path,
    find: Finds = "structured",
    field: str = "text",
    region: str = "US",
    ner: str | None = None,
    qa: str | None = None,
    universities: Path | None = None,
    scope: Scope = "sentence",
    workers: int = 1,
    skip_bad: Flag = False,
    json: Flag = False,
) -> None:
    """Find people in documents, with what is told of them, and write them to a file that `leakmeter pii probe` reads.

    Documents are read as a stream and need not fit in memory. The output is private. The same command goes on after
    an interruption.

    Parameters
    ----------
    files
        JSON lines (.jsonl) or plain text (.txt, .md), compressed by gzip or not.
    out
        File of people to write; a name that ends in .jsonl.
    find
        structured (people of whom a document has name, telephone number, e-mail and postal address), relationships
        ("Jane Doe's father, …"), or universities (beside a name).
    field
        Of JSON objects, the one that is the text.
    region
        ISO code of the country whose numbers and addresses are looked for.
    ner
        Recogniser of names, a directory or a spaCy pipeline; without one, names beside e-mail addresses, behind
        'Name:', and before "'s father" are found.
    qa
        Question-answering model, a directory or hf:ORG/NAME, that checks relatives' names.
    universities
        File of names, one a line or a CSV column 'name', for --find universities.
    scope
        Where a person's name has to stand for a university to be theirs.
    workers
        Processes that look.
    skip_bad
        Leave out lines that hold no document, and say how many.
    json
        Print one JSON object instead of the summary.
    """
    from leakmeter.instruments.pii.extraction import extract as extracted

    settings = {"region": region, "ner": ner or "", "qa": qa or "", "scope": scope}
    if universities is not None:
        check_readable(universities, "file of universities")
        try:
            settings["universities"] = hashlib.sha256(universities.read_bytes()).hexdigest()
        except OSError as error:
            raise UsageError(
                f"file of universities '{universities}' cannot be read: {error.strerror or error}"
            ) from None
    extractor = _extractor(find, region, ner, qa, universities, scope)
    with counting("MB") as advance:
        found = extracted(
            files,
            out,
            extractor,
            settings=settings,
            field=field,
            skip_bad=skip_bad,
            workers=workers,
            progress=lambda done, of: advance(done // _MB, max(1, of // _MB)),
        )
    if json:
        told = {"documents": found.n_documents, "people": found.n_subjects, "seen_before": found.n_duplicates}
        output.print_json({"out": found.out, **told, "bad_lines": found.n_bad})
    else:
        output.print_text(f"{found.n_subjects:,} people in {found.n_documents:,} documents.")
    output.tell(f"people: {found.out}")
    if found.problems:
        output.tell(output.left_out(found.problems))


def _extractor(
    find: Finds, region: str, ner: str | None, qa: str | None, universities: Path | None, scope: Scope
) -> Extractor:
    """What finds people.

    Raises:
        LeakmeterError: an option is missing, or a model cannot be loaded.
    """
    from leakmeter.instruments.pii import extraction
    from leakmeter.text.entities import address, email, phone

    phone.check_region(region)
    names: Find | None = None
    if ner is not None:
        from leakmeter.models.recogniser import load_recogniser

        load_recogniser(ner)
        names = partial(people_named, recogniser=ner)
    if qa is not None and find != "relationships":
        raise UsageError("--qa checks relatives' names; give --find relationships with it")
    if (universities is None) == (find == "universities"):
        raise UsageError("--universities and --find universities go together; give both or neither")
    if find == "structured":
        finders = (email.find, partial(phone.find, region=region), partial(address.find, region=region))
        return extraction.Structured(*finders, names or extraction.names_beside_emails)
    if find == "relationships":
        ask = None
        if qa is not None:
            from leakmeter.models.question_answering import load_answerer

            load_answerer(qa)
            ask = partial(answered, model=qa)
        return extraction.Relationships(ask, names)
    assert universities is not None
    listed = extraction.load_names(universities)
    return extraction.Universities(listed, names or extraction.names_beside_emails, scope)


def people_named(text: str, *, recogniser: str) -> Iterator[Mention]:
    """People's names in a text, by a recogniser that each process loads once."""
    from leakmeter.models.recogniser import load_recogniser
    from leakmeter.text.entities import recognised
    from leakmeter.text.entities.mention import PERSON

    return (one for one in recognised.find(text, "US", load_recogniser(recogniser)) if one.type == PERSON)


def answered(question: str, context: str, *, model: str) -> tuple[str, float]:
    """A question-answering model's answer and confidence; each process loads it once."""
    from leakmeter.models.question_answering import load_answerer

    return load_answerer(model)(question, context)
