"""Batches of documents to people: here, or in processes of their own, in order either way."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing.connection import wait

from leakmeter.core.limits import MOST_WORKERS, bounded, refuse_bad
from leakmeter.errors import DataError, LeakmeterError, UsageError
from leakmeter.instruments.pii.extraction.documents import Bad, Batch, documents_of
from leakmeter.instruments.pii.extraction.finders import Extractor
from leakmeter.instruments.pii.subject import Subject

_BATCHES_AHEAD = 2  # for each worker, so that none waits for another


@dataclass(frozen=True, slots=True)
class Answer:
    """What a batch held."""

    batch: Batch
    """Without its lines."""
    subjects: tuple[Subject, ...]
    """With ids: file, line, part and number, such as '1:1042' or '2:17.3/2'."""
    bad: tuple[Bad, ...]
    n_documents: int


def check_workers(extractor: Extractor, workers: int) -> None:
    """Refuse so many workers.

    Raises:
        UsageError: there are none, or the extractor cannot be handed to them.
    """
    refuse_bad(bounded("workers", workers, 1, MOST_WORKERS))
    if workers > 1:
        try:
            pickle.dumps(extractor)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise UsageError(
                f"workers is {workers}, and these finders cannot be handed to another process; give 1"
            ) from None


def answers(
    batches: Iterable[Batch], extractor: Extractor, *, field: str, workers: int
) -> Generator[Answer, None, None]:
    """What each batch holds, in the order of the batches.

    Args:
        batches: what to read; they are taken as they are needed, and a few ahead.
        extractor: finds people; it travels to the workers, where there are more than one.
        field: of JSON objects, the one that is the text.
        workers: how many processes; with one, everything is done in this.

    Raises:
        UsageError: a worker was ended from outside.
    """
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
