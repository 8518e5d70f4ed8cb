"""Asks a process of its own with limits of memory and time (see `query_child`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from leakmeter.core.limits import parse_memory, refuse_bad
from leakmeter.core.record import JsonObject
from leakmeter.errors import LeakmeterError, StoreError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_CHILD: Final = Path(__file__).with_name("query_child.py")
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "tuple": lambda values: tuple(map(read, values)),
    "dict": lambda pairs: {read(key): read(value) for key, value in pairs},
    "bytes": bytes.fromhex,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda numbers: timedelta(*numbers),
    "Decimal": Decimal,
    "UUID": UUID,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a query may take."""

    memory: str = "4GiB"
    """Memory limit of the query, such as 512MiB or 8GiB. Linux enforces it for the whole query; other systems only for
    what DuckDB itself counts."""
    max_seconds: float = 600.0
    """Time limit of the query, seconds."""

    def __post_init__(self) -> None:
        parse_memory(self.memory)
        refuse_bad((0 < self.max_seconds <= 10**6, "max-seconds", self.max_seconds, "above 0, and 1,000,000 at most"))


DEFAULT_LIMITS: Final = Limits()


class QueryProcess:
    """A process that answers one query; it loads its libraries while tables are made."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left_seconds = limits.max_seconds
        self._is_late = threading.Event()
        # What can be imported here can be there; but nothing of the directory that somebody happens to be in.
        paths = os.pathsep.join(path for path in sys.path if path)
        # More arenas than two take address space, a lot for each thread, and no memory.
        environment = {**os.environ, "PYTHONPATH": paths, "MALLOC_ARENA_MAX": "2"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise StoreError(f"no process can be started to answer the query: {error.strerror}") from None
        self._end = weakref.finalize(self, _ended, self._process)

    def close(self) -> None:
        """End it, whatever it is at; so does whoever forgets its rows."""
        self._end()

    def ask(
        self,
        sql: str,
        views: Sequence[str],
        tables: Mapping[str, pa.Table],
        measurements: Sequence[tuple[str, str]] | None = None,
        files: Sequence[str] = (),
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]:
        """Names of the columns, and the rows, which come as they are asked for, and may raise `UsageError` too. `views`
        are named where `sql` is no SELECT; `measurements` are names and types of the columns of the view of this name,
        if there is one."""
        import pyarrow as pa

        streams: dict[str, pa.Buffer] = {}
        for name, table in tables.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            streams[name] = sink.getvalue()
        header = {
            "sql": sql,
            "views": list(views),
            "memory_bytes": parse_memory(self._limits.memory),
            "measurements": measurements,
            "files": list(files),
            "tables": [(name, stream.size) for name, stream in streams.items()],
        }
        stdin = self._process.stdin
        assert stdin is not None
        # A process that has ended says so when it is read from.
        with suppress(BrokenPipeError, ConnectionError):
            stdin.write(json.dumps(header).encode() + b"\n")
            for stream in streams.values():
                stdin.write(stream)
            stdin.flush()
        columns = tuple(self._next()["columns"])
        return columns, self._rows()

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        try:
            while (message := self._next()) != {"end": True}:
                for row in message["rows"]:
                    yield tuple(read(value) if isinstance(value, list | dict) else value for value in row)
        finally:
            self.close()

    def _next(self) -> JsonObject:
        """What it says next; `UsageError` where it refuses the query, or took too much."""
        assert self._process.stdout is not None
        started = monotonic()
        # Only the time in which it is waited for counts, and not what is done with the rows.
        late = threading.Timer(self._left_seconds, _end_late, (self._process, self._is_late))
        late.start()
        try:
            line = self._process.stdout.readline()
        finally:
            late.cancel()
        self._left_seconds = max(0.001, self._left_seconds - (monotonic() - started))
        message: JsonObject = json.loads(line) if line.endswith(b"\n") else {}
        if "refused" in message:
            raise UsageError(message["refused"])
        if "failed" in message:
            raise RuntimeError(message["failed"])
        if not message or "memory" in message:
            raise self._why_ended(has_no_room="memory" in message)
        return message

    def _why_ended(self, *, has_no_room: bool) -> LeakmeterError:
        if self._is_late.is_set():
            took = f"took over {self._limits.max_seconds:g} seconds"
            return UsageError(f"the query {took}; ask for less, or give more with --max-seconds")
        code = self._process.wait()
        if has_no_room or code < 0:
            how = "" if has_no_room or code >= 0 else f" (it ended with {signal.Signals(-code).name})"
            needs = f"needs more than {self._limits.memory} of memory{how}"
            return UsageError(f"the query {needs}; ask for less, or give more with --memory")
        return StoreError(f"the process for the query ended early with exit code {code}")


def _end_late(process: subprocess.Popen[bytes], is_late: threading.Event) -> None:
    is_late.set()
    process.kill()


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()


def read(value: Any) -> Any:
    if isinstance(value, list):
        return [read(inner) for inner in value]
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        return _READ[kind](content)
    return value
