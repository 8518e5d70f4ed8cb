"""Files of documents to a file of people.

The same name with the same e-mail address, relative or university is one person, in however many documents: it is
written once, where it comes first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leakmeter.core.files import check_readable
from leakmeter.core.record import Record
from leakmeter.core.written import check_place, clear_left_over, replacing, store_errors
from leakmeter.errors import DataError, LeakmeterError, UsageError
from leakmeter.instruments.pii.extraction import finders
from leakmeter.instruments.pii.extraction.documents import WHAT, Bad, Document, check_kind, documents_of
from leakmeter.instruments.pii.extraction.finders import Extractor, Find
from leakmeter.instruments.pii.settings import Finds, Scope
from leakmeter.instruments.pii.subject import Subject

if TYPE_CHECKING:
    from leakmeter.text.entities.mention import Mention, Recogniser

N_PROBLEMS: Final = 100
"""So many bad lines are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Extracted(Record):
    """What became of an extraction."""

    out: str
    """The file of people: one JSON object a line, as subjects are loaded from."""
    n_documents: int
    n_subjects: int
    """Written."""
    n_duplicates: int
    """Left out, being there already."""
    n_bad: int
    """Lines that hold no document."""
    problems: tuple[str, ...]
    """The first hundred of these by file and line, with the reason and without a word of the line."""


def extractor_of(
    find: Finds, region: str, ner: str | None, qa: str | None, universities: Path | None, scope: Scope
) -> Extractor:
    from leakmeter.text.entities import address, email, phone
    from leakmeter.text.entities.names import names_beside_emails

    phone.check_region(region)
    names: Find | None = None
    if ner is not None:
        from leakmeter.models.recogniser import load_recogniser

        names = partial(_people_named, recogniser=load_recogniser(ner))
    if qa is not None and find != "relationships":
        raise UsageError("--qa checks relatives' names; give --find relationships with it")
    if (universities is None) == (find == "universities"):
        raise UsageError("--universities and --find universities go together; give both or neither")
    if find == "structured":
        of_values = (email.find, partial(phone.find, region=region), partial(address.find, region=region))
        return finders.Structured(*of_values, names or names_beside_emails)
    if find == "relationships":
        ask = None
        if qa is not None:
            from leakmeter.models.question_answering import load_answerer

            ask = load_answerer(qa)
        return finders.Relationships(ask, names)
    assert universities is not None
    return finders.Universities(finders.load_names(universities), names or names_beside_emails, scope)


def _people_named(text: str, recogniser: Recogniser) -> Iterator[Mention]:
    from leakmeter.text.entities import recognised
    from leakmeter.text.entities.mention import PERSON

    return (mention for mention in recognised.find(text, "US", recogniser) if mention.type == PERSON)


def extract(
    paths: Sequence[str | Path],
    out: str | Path,
    extractor: Extractor,
    *,
    field: str = "text",
    skip_bad: bool = False,
    progress: Callable[[int, int], None] = lambda n_bytes, n_total: None,
) -> Extracted:
    """Find people in documents and write them to a file, one a line, which is there when it is complete.

    Paths are JSON lines (.jsonl, .ndjson), plain text (.txt, .text, .md), JSON, CSV, TSV or Parquet, packed or not; of
    plain text, parts of 50,000 characters at most are documents. `out` is a new name that ends in '.jsonl'. `skip_bad`
    counts and names lines that hold no document, rather than stop at the first. `progress` gets how many bytes of
    the files were read, and of how many.
    """
    if not paths:
        raise UsageError("there are no files; give at least one")
    out = Path(out)
    if out.suffix != ".jsonl":
        raise UsageError(f"'{out}' has to end in '.jsonl', since it is written as JSON lines")
    files = [Path(path) for path in paths]
    for path in files:
        check_kind(path)
        check_readable(path, WHAT, most=None)
    check_place(out, "output", files)
    if out.exists():
        raise UsageError(f"'{out}' exists already; remove it, or name another file")
    n_documents = n_found = n_bad = 0
    problems: list[str] = []
    identities: set[str] = set()
    with store_errors(f"'{out}' cannot be written"):
        # What a killed command left holds personal data.
        clear_left_over(out.parent, out.name)
        with replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            for number, document in _documents(files, field, progress):
                if isinstance(document, Bad):
                    problem = f"'{files[number - 1]}', line {document.line:,}: {document.reason}"
                    if not skip_bad:
                        raise DataError(f"{problem}; skip bad lines to count them and go on")
                    n_bad += 1
                    problems += [problem] if len(problems) < N_PROBLEMS else []
                    continue
                n_documents += document.part == 1
                for subject in subjects_of(document, number, extractor):
                    n_found += 1
                    if (identity := _identity(subject)) not in identities:
                        identities.add(identity)
                        file.write(json.dumps(subject.to_dict(), ensure_ascii=False) + "\n")
    return Extracted(str(out), n_documents, len(identities), n_found - len(identities), n_bad, tuple(problems))


def _documents(
    files: Sequence[Path], field: str, progress: Callable[[int, int], None]
) -> Iterator[tuple[int, Document | Bad]]:
    """The documents of all files, each with its file's number from 1."""
    sizes = [path.stat().st_size for path in files]
    for number, path in enumerate(files, 1):
        for document, n_bytes in documents_of(path, field):
            progress(sum(sizes[: number - 1]) + n_bytes, sum(sizes))
            yield number, document


def subjects_of(document: Document, file: int, extractor: Extractor) -> Iterator[Subject]:
    """The people of a document, with ids that say where they come from.

    '2:1042' is line 1,042 of the second file, '2:1042.3' the third part of a document that is too long to be read in
    one, '2:1042/2' the second person there. Files count from 1. A `DataError` names a document that the extractor
    refused.
    """
    part = f".{document.part}" if document.part > 1 else ""
    id_ = f"{file}:{document.line}{part}"
    try:
        for n, subject in enumerate(extractor(document.text), 1):
            yield replace(subject, id=f"{id_}/{n}" if n > 1 else id_)
    except LeakmeterError as error:
        raise DataError(f"file {file}, line {document.line}: {error}") from None


def _identity(subject: Subject) -> str:
    fields = subject.to_dict()
    identity = [fields["name"], fields.get("email"), fields.get("relationships"), fields.get("university")]
    return json.dumps(identity, ensure_ascii=False).casefold()
