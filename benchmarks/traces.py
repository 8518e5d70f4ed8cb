"""Invented traffic of a retrieval system read from every format: megabytes and answers a second, without scoring.

Records are as far apart as they can be: all steps of one kind, then all of the next, so that no trace is complete
before the end. Times are of this process's one thread, and include finding every retrieved text in its prompt.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.helpers.logged_traffic import WRITERS, exchanges, records, write

from leakmeter.data.traces import TraceReader

NAME: Final = "traces"
_TIMES: Final = 3


def rows(n_traces: int = 2000, n_words: int = 240) -> Iterator[dict[str, Any]]:
    """What reading took, for each format.

    Args:
        n_traces: in each format, of three retrieved texts each.
        n_words: of a retrieved text.
    """
    traffic = exchanges(n_traces, words=n_words)
    with tempfile.TemporaryDirectory() as folder:
        for name, writer in WRITERS.items():
            path = write(Path(folder, f"{name}.jsonl"), records(writer, traffic, apart=True))
            n_bytes = path.stat().st_size
            times = []
            for _ in range(_TIMES):
                started = time.process_time()
                reader = TraceReader(path)
                for _ in reader:
                    pass
                times.append(time.process_time() - started)
            seconds = statistics.median(times)
            yield {
                "format": name,
                "bytes": n_bytes,
                "answers": reader.n_answers,
                "refused": sum(reader.refused.values()),
                "s": seconds,
                "mb_per_s": n_bytes / seconds / 1e6,
            }
            path.unlink()
