"""Files of documents to a file of people: written as they are found, going on after a kill.

    people.jsonl                 mode 0600: it holds personal data
    people.jsonl.state           mode 0600: which files, how far, how much was written; no text

A part is a batch of documents. Its people are appended and flushed to disk, then the state is written beside its place
and renamed into it. Who goes on cuts the file back to what the state says was written, and reads on where it says: no
record is lost, none is written twice.

The same name with the same e-mail address, relative or university is one person, in however many documents: it is
written once, where it comes first. What was written is known again by a hash that is keyed anew in each process and
kept in memory alone; who goes on takes it from the output, so that no hash of personal data is ever on disk.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, BinaryIO, Final

from filelock import FileLock, Timeout

from leakmeter.core.limits import MOST_WORKERS, bounded, refuse_bad
from leakmeter.core.record import Record
from leakmeter.core.written import PRIVATE, check_place, open_private, store_errors, write_whole
from leakmeter.errors import DataError, LeakmeterError, StoreError, UsageError
from leakmeter.execute.pool import Failure, Pool, rebuilt
from leakmeter.execute.ray import RayEngine, address_of
from leakmeter.instruments.pii.extraction.documents import Bad, Batch, documents_of, kind_of, read_batches
from leakmeter.instruments.pii.extraction.finders import Extractor
from leakmeter.instruments.pii.subject import Subject

Progress = Callable[[int, int], None]
"""Told after each part how many bytes of the files on disk were read, and of how many."""
N_PROBLEMS: Final = 100
"""So many bad lines are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Extracted(Record):
    """What became of an extraction, this call and those it went on from together."""

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


def extract(
    paths: Sequence[str | Path],
    out: str | Path,
    extractor: Extractor,
    *,
    settings: Mapping[str, str] | None = None,
    field: str = "text",
    skip_bad: bool = False,
    workers: int = 1,
    on: str | None = None,
    progress: Progress | None = None,
) -> Extracted:
    """Find people in documents and write them to a file, one a line.

    The same call goes on where an earlier one was ended, and does nothing where that was complete. An id says where its
    person comes from: '2:1042' is line 1,042 of the second file, '2:1042.3' the third part of a document that is too
    long to be read in one, '2:1042/2' the second person there; what the second file is, the state tells.

    Args:
        paths: files of documents, by their names: JSON lines (.jsonl, .ndjson), plain text (.txt, .text, .md), JSON,
            CSV, TSV or Parquet, packed or not. Of plain text, parts of 50,000 characters at most are documents.
        out: the file to write, a name that ends in '.jsonl'.
        extractor: what finds them.
        settings: what else determines what is found, such as a region or the name of a recogniser: a call with other
            settings does not go on.
        field: of the JSON objects, the one that is the text.
        skip_bad: count and name lines that hold no document, rather than stop at the first.
        workers: how many processes look; 1 for this one.
        on: 'ray' or 'ray:ADDRESS' to have them on a cluster; by default they are on this machine.
        progress: told how far it is.

    Raises:
        DataError: a file cannot be read, or a line is bad.
        UsageError: the output is of something else, or there are no files or another option is wrong.
        StoreError: the output cannot be written.
    """
    check_workers(extractor, workers, on)
    if not paths:
        raise UsageError("there are no files; give at least one")
    out = Path(out)
    if out.suffix != ".jsonl":
        raise UsageError(f"'{out}' has to end in '.jsonl', since it is written as JSON lines")
    files = [Path(path) for path in paths]
    for path in files:
        kind_of(path)
    check_place(out, "output", files)
    sources = [source_of(path) for path in files]
    known = {**(settings or {}), "finds": type(extractor).__name__, "field": field}
    is_new = check_new(out)
    if is_new and not skip_bad:
        # A line at the end of much that is read would otherwise leave half an output.
        for batch in _batches(files, State((), {})):
            _refuse_bad(files[batch.file], (one for one in documents_of(batch, field) if isinstance(one, Bad)))
    with _locked(out), store_errors(f"'{out}' cannot be written"):
        state = begin(out, sources, known)
        try:
            if not state.is_complete:
                with (
                    _opened(out, state.n_bytes_written) as file,
                    closing(answers(_batches(files, state), extractor, field=field, workers=workers, on=on)) as found,
                ):
                    seen = _Seen(file, out)
                    for answer in found:
                        if not skip_bad:
                            _refuse_bad(files[answer.batch.file], answer.bad)
                        bad = [_told(files[answer.batch.file], one) for one in answer.bad]
                        new = [subject for subject in answer.subjects if seen.adds(subject)]
                        state = _after(state, answer, bad, n_new=len(new), n_bytes_written=_append(file, new))
                        write_state(out, state)
                        if progress is not None:
                            progress(state.n_bytes_read, _n_bytes(sources))
                state = replace(state, is_complete=True)
                write_state(out, state)
        except BaseException:
            if is_new and not state.n_bytes_read:
                # There is nothing to go on from.
                for path in (out, state_path(out), _lock_path(out)):
                    path.unlink(missing_ok=True)
            raise
    return Extracted(str(out), state.n_documents, state.n_subjects, state.n_duplicates, state.n_bad, state.problems)


def _refuse_bad(path: Path, bad: Iterable[Bad]) -> None:
    for one in bad:
        raise DataError(f"{_told(path, one)}; skip bad lines to count them and go on")


def _told(path: Path, bad: Bad) -> str:
    return f"'{path}', line {bad.line:,}: {bad.reason}"


class _Seen:
    """What was written, as hashes that mean nothing outside this process."""

    def __init__(self, file: BinaryIO, out: Path) -> None:
        """Knows what the lines of an output say, and leaves the file at its end.

        Raises:
            StoreError: a line was not written here.
        """
        self._secret = os.urandom(32)
        try:
            self._hashes = {self._hash(json.loads(line)) for line in file}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StoreError(
                f"'{out}' was changed since it was written; remove it and its state, and begin again"
            ) from None

    def adds(self, subject: Subject) -> bool:
        """Whether a subject was not there yet; it is now."""
        n_before = len(self._hashes)
        self._hashes.add(self._hash(subject.to_dict()))
        return len(self._hashes) > n_before

    def _hash(self, fields: Mapping[str, object]) -> bytes:
        told = [fields["name"], fields.get("email"), fields.get("relationships"), fields.get("university")]
        return hashlib.blake2b(
            json.dumps(told, ensure_ascii=False).casefold().encode(), key=self._secret, digest_size=16
        ).digest()


def _batches(files: Sequence[Path], state: State) -> Iterator[Batch]:
    for number in range(state.file, len(files)):
        line, offset = (state.line, state.offset) if number == state.file else (1, 0)
        yield from read_batches(files[number], number, line=line, offset=offset)


def _after(state: State, answer: Answer, bad: Sequence[str], *, n_new: int, n_bytes_written: int) -> State:
    batch = answer.batch
    return replace(
        state,
        file=batch.file + 1 if batch.damage else batch.file,
        offset=0 if batch.damage else batch.next_offset,
        line=1 if batch.damage else batch.next_line,
        n_bytes_read=_n_bytes(state.files[: batch.file]) + batch.n_bytes_read,
        n_bytes_written=n_bytes_written,
        n_documents=state.n_documents + answer.n_documents,
        n_subjects=state.n_subjects + n_new,
        n_duplicates=state.n_duplicates + len(answer.subjects) - n_new,
        n_bad=state.n_bad + len(bad),
        problems=(*state.problems, *bad)[:N_PROBLEMS],
    )


def _n_bytes(files: Iterable[Source]) -> int:
    return sum(file.n_bytes for file in files)


def _append(file: BinaryIO, subjects: Iterable[Subject]) -> int:
    """Write subjects to disk; how long the file is then."""
    for subject in subjects:
        file.write(json.dumps(subject.to_dict(), ensure_ascii=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
    return file.tell()


@contextmanager
def _opened(out: Path, n_bytes: int) -> Iterator[BinaryIO]:
    """The output, cut to what counts as written, at its beginning."""
    with os.fdopen(open_private(out, os.O_RDWR), "r+b") as file:
        file.truncate(n_bytes)
        yield file


def _lock_path(out: Path) -> Path:
    return out.with_name(f".{out.name}.lock")


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    with store_errors(f"'{out}' cannot be written"):
        lock = FileLock(_lock_path(out), timeout=0, mode=PRIVATE)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(f"'{out}' is being written by another process; wait for it to end") from None
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was when the extraction began."""

    path: str
    n_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class State:
    """What was read and written so far; no text."""

    files: tuple[Source, ...]
    settings: Mapping[str, str]
    """Whatever determines what is found."""
    file: int = 0
    """Number, from 0, of the file that is read next."""
    offset: int = 0
    """Where in it, in bytes of what was compressed."""
    line: int = 1
    """The line that begins there."""
    n_bytes_read: int = 0
    """Of the files on disk, all together."""
    n_bytes_written: int = 0
    """More than these in the output were never reported as written."""
    n_documents: int = 0
    n_subjects: int = 0
    n_duplicates: int = 0
    n_bad: int = 0
    problems: tuple[str, ...] = ()
    is_complete: bool = False


def source_of(path: Path) -> Source:
    """A file as it is now.

    Raises:
        DataError: there is none, or it may not be read.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}") from None
    return Source(str(path.absolute()), found.st_size, found.st_mtime_ns)


def begin(out: Path, files: Sequence[Source], settings: Mapping[str, str]) -> State:
    """The state to go on from: what an earlier call left for this output, or a new one.

    Raises:
        UsageError: the output is of something else.
        StoreError: the state cannot be read, or the output has lost what it says was written.
        OSError: it cannot be written.
    """
    path = state_path(out)
    if check_new(out):
        state = State(tuple(files), dict(settings))
        write_state(out, state)
        return state
    state = read_state(path)
    if (state.files, dict(state.settings)) != (tuple(files), dict(settings)):
        what = "other settings" if state.files == tuple(files) else "other files, or these were changed since"
        raise UsageError(f"'{out}' was begun with {what}; name another file, or remove it and '{path.name}'")
    n_bytes = out.stat().st_size if out.exists() else 0
    if n_bytes < state.n_bytes_written:
        raise StoreError(
            f"'{out}' has {n_bytes:,} bytes and {state.n_bytes_written:,} were written; remove it and '{path.name}', "
            "and begin again"
        )
    return state


def check_new(out: Path) -> bool:
    """Whether nothing was begun for an output.

    Raises:
        UsageError: there is a file already, which is of something else.
    """
    if state_path(out).exists():
        return False
    if out.exists():
        raise UsageError(f"'{out}' exists already, and not from an extraction that could go on; name another file")
    return True


def state_path(out: Path) -> Path:
    """Where the state of an output stands."""
    return out.with_name(out.name + ".state")


def write_state(out: Path, state: State) -> None:
    """Write a state so that its place holds either the one before or the whole new one."""
    write_whole(
        state_path(out), json.dumps(asdict(state), ensure_ascii=False, indent=1).encode("utf-8", "surrogateescape")
    )


def read_state(path: Path) -> State:
    """What `write_state` wrote.

    Raises:
        StoreError: it cannot be read, or is something else.
    """
    try:
        value: dict[str, Any] = json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
        files = tuple(Source(**file) for file in value.pop("files"))
        return State(files=files, problems=tuple(value.pop("problems")), **value)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"'{path}' cannot be read as the state of an extraction ({type(error).__name__}); remove it and its output"
        ) from None


_BATCHES_AHEAD = 2  # for each worker, so that none waits for another
_BATCHES_AT_ONCE = 16  # for each worker of an engine


@dataclass(frozen=True, slots=True)
class Answer:
    """What a batch held."""

    batch: Batch
    """Without its lines."""
    subjects: tuple[Subject, ...]
    """With ids: file, line, part and number, such as '1:1042' or '2:17.3/2'."""
    bad: tuple[Bad, ...]
    n_documents: int


def check_workers(extractor: Extractor, workers: int, on: str | None = None) -> None:
    """Refuse so many workers, or a place where there are none.

    Raises:
        UsageError: there are none, or the extractor cannot be handed to them.
    """
    refuse_bad(bounded("workers", workers, 1, MOST_WORKERS))
    if on is not None:
        address_of(on)
    if workers > 1 or on is not None:
        try:
            pickle.dumps(extractor)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise UsageError(
                f"workers is {workers}, and these finders cannot be handed to another process; give 1"
            ) from None


def answers(
    batches: Iterable[Batch], extractor: Extractor, *, field: str, workers: int, on: str | None = None
) -> Generator[Answer, None, None]:
    """What each batch holds, in the order of the batches.

    Args:
        batches: what to read; they are taken as they are needed, and a few ahead.
        extractor: finds people; it travels to the workers, where there are more than one.
        field: of JSON objects, the one that is the text.
        workers: how many processes; with one, everything is done in this.
        on: see `extract`.

    Raises:
        UsageError: a worker was ended from outside.
    """
    if on is not None:
        yield from _answers_on(on, batches, _Looking(extractor, field), workers)
        return
    if workers == 1:
        for batch in batches:
            yield answer(batch, extractor, field)
        return
    pool = ProcessPoolExecutor(
        workers,
        # A forked process may hang on locks that threads of this one held.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(extractor, field),
    )
    waiting: deque[Future[Answer]] = deque()
    try:
        for batch in batches:
            waiting.append(pool.submit(_answer, batch))
            if len(waiting) >= workers * _BATCHES_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise UsageError(
            "a worker was ended, perhaps for want of memory; run the same again, with fewer workers, and it goes on"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Looking:
    """What a worker of an engine does."""

    extractor: Extractor
    field: str

    def describe(self) -> None:
        """Nothing: workers have no model that would have to be alike."""

    def do(self, payload: Batch) -> Answer:
        """What a batch holds."""
        return answer(payload, self.extractor, self.field)


def _answers_on(on: str, batches: Iterable[Batch], looking: _Looking, workers: int) -> Generator[Answer, None, None]:
    """See `answers`; as many batches as keep the workers busy are read at a time, and all are done before the next."""
    engine = RayEngine(address_of(on), lambda: looking, n_workers=workers, n_cpus=1, n_gpus=0)
    try:
        pool = Pool(engine, workers, lambda said: None)
        pool.wait()
        several = iter(batches)
        while window := list(islice(several, workers * _BATCHES_AT_ONCE)):
            found = dict(pool.run(range(len(window)), range(len(window)), window.__getitem__))
            for number in range(len(window)):
                if isinstance(found[number], Failure):
                    raise rebuilt(found[number])
                yield found[number]
    finally:
        engine.close()


def answer(batch: Batch, extractor: Extractor, field: str) -> Answer:
    """What a batch holds.

    Raises:
        DataError: the extractor refused a document, naming it.
    """
    subjects: list[Subject] = []
    bad: list[Bad] = []
    n_documents = 0
    for document in documents_of(batch, field):
        if isinstance(document, Bad):
            bad.append(document)
            continue
        n_documents += document.part == 1
        part = f".{document.part}" if document.part > 1 else ""
        id_ = f"{batch.file + 1}:{document.line}{part}"
        try:
            found = list(extractor(document.text))
        except LeakmeterError as error:
            raise DataError(f"file {batch.file + 1}, line {document.line}: {error}") from None
        subjects += [replace(one, id=f"{id_}/{n}" if n > 1 else id_) for n, one in enumerate(found, 1)]
    return Answer(replace(batch, lines=()), tuple(subjects), tuple(bad), n_documents)


_of_this_process: tuple[Extractor, str]


def _start(extractor: Extractor, field: str) -> None:
    global _of_this_process
    _of_this_process = extractor, field
    # The one who started this decides what becomes of it: an interrupt is for them, and with them it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _answer(batch: Batch) -> Answer:
    extractor, field = _of_this_process
    return answer(batch, extractor, field)
