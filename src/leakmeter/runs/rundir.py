"""A run's directory.

    runs/influence-1f2e…/          mode 0700: it holds the texts that were measured
      cases-00000.json             texts of one part, for people to read
      measurements-00000.parquet   numbers of that part; its presence means the part is finished
      begun.json                   what is being measured, without texts; gone once the run is complete
      spec.json                    last: its presence means the run is complete

Every file is written beside its place and renamed into it, so that a kill leaves a whole file or none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from leakmeter.core.json_object import JsonObject
from leakmeter.core.measurement import Measurement
from leakmeter.core.written import (
    PARTIAL,
    check_outside_runs,
    made_for,
    make_private,
    remove_unused,
    store_errors,
    write_whole,
)
from leakmeter.errors import ModelError, StoreError
from leakmeter.runs.schema import REPEATED, from_table, to_table
from leakmeter.runs.spec import RunSpec

_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("id", "measure", "version"), str),
    **dict.fromkeys(("params", "prompts", "model", "environment", "noise"), dict),
    **dict.fromkeys(("cases", "problems"), list),
    **dict.fromkeys(("command", "name", "data"), (str, type(None))),
}
"""Fields of a spec whose kind is known."""
_NEEDED = _KINDS.keys() - {"environment", "problems", "command", "name", "data", "noise"} | {"n_parts", "files_sha256"}
PREFIXES: Final = ("measurements-", "readings-")
"""Of the names of files with numbers: today's, and that of version 0.1."""
_NUMBERS = re.compile(rf"(?:{'|'.join(PREFIXES)})(\d{{5,}})\.parquet")


class RunDirectory:
    """Writes and reads one run. Parts are numbered from 0 and independent of each other."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @contextmanager
    def open(cls, root: Path, spec: RunSpec) -> Iterator[RunDirectory]:
        """The run's directory under `root`, made if need be, and locked against other processes meanwhile.

        What ends with an error before any part is finished leaves nothing: there is nothing to go on from.
        """
        path = root / spec.id
        directory = cls(path)
        check_outside_runs(root, "directory of runs")
        with made_for(root):
            with _writing(path):
                # Names of runs may be private too; a directory that is there is the user's own affair.
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                make_private(path)
                lock = FileLock(path / ".lock", timeout=0)
                try:
                    lock.acquire()
                except Timeout:
                    raise StoreError(f"run '{path}' is being written by another process; wait for it to end") from None
            try:
                with _writing(path):
                    directory._begin(spec)
                yield directory
            except BaseException as error:
                directory._abandon()
                if isinstance(error, ModelError) and error.may_pass and directory.parts:
                    error.args = (f"{error}; the run goes on where it stopped",)
                raise
            finally:
                lock.release()

    def _begin(self, spec: RunSpec) -> None:
        """Say what is being measured, and clear what a kill left."""
        for left_over in self.path.glob(f"*{PARTIAL}"):
            left_over.unlink()
        if self.is_complete:
            self._begun.unlink(missing_ok=True)
        else:
            begun = {name: value for name, value in _record(spec).items() if name != "cases"}
            write_whole(self._begun, _json({**begun, "n_cases": len(spec.cases), **self._noise_record}))

    def _abandon(self) -> None:
        """Leave nothing where no part is finished."""
        if not self.parts:
            self._begun.unlink(missing_ok=True)
            for texts in self.path.glob("cases-*.json"):
                texts.unlink()
            remove_unused(self.path)

    @property
    def is_complete(self) -> bool:
        """Whether every part is there and the spec was written."""
        return self._spec.exists()

    @property
    def noise(self) -> JsonObject | None:
        """What `keep_noise` was given: how far log-probabilities of a served model move with the way of asking."""
        told = (self.read_spec() if self.is_complete else self.read_begun()).get("noise")
        nats = None if told is None else told.get("nats")
        is_number = isinstance(nats, int | float) and not isinstance(nats, bool) and nats >= 0
        return dict(told) if told is not None and is_number else None

    def keep_noise(self, noise: JsonObject) -> None:
        """Write down the noise that was measured for the run, before any of its parts is measured."""
        with _writing(self.path):
            write_whole(self._begun, _json({**self.read_begun(), "noise": noise}))

    @property
    def _noise_record(self) -> JsonObject:
        return {} if self.noise is None else {"noise": self.noise}

    @property
    def parts(self) -> list[int]:
        """Numbers of the finished parts, in order."""
        found = (_NUMBERS.fullmatch(path.name) for path in self.path.glob("*.parquet"))
        return sorted({int(match.group(1)) for match in found if match})

    @property
    def numbers(self) -> list[Path]:
        """Files with the numbers of the finished parts, in order."""
        return [self.numbers_of(number) for number in self.parts]

    def numbers_of(self, number: int) -> Path:
        """The file with the numbers of a part, which need not be there; one of version 0.1 has another name."""
        new, old = (self.path / f"{prefix}{number:05}.parquet" for prefix in PREFIXES)
        if new.exists() != old.exists():
            return new if new.exists() else old
        return old if self.is_complete and old.name in self._hashes else new

    def has_part(self, number: int) -> bool:
        """Whether a part is finished."""
        return self.numbers_of(number).exists()

    def write_part(self, number: int, cases: Sequence[JsonObject], measurements: Sequence[Measurement]) -> None:
        """Write one part: its texts, then its numbers."""
        with _writing(self.path):
            # A part of a complete run is only written where somebody removed it: the run is then complete no more.
            with suppress(FileNotFoundError):
                self._spec.replace(self._begun)
            write_whole(self._cases(number), _json(list(cases)))
            sink = pa.BufferOutputStream()
            pq.write_table(to_table(measurements), sink, compression="zstd", use_dictionary=REPEATED)
            write_whole(self.numbers_of(number), sink.getvalue().to_pybytes())

    def read_part(self, number: int) -> tuple[list[JsonObject], list[Measurement]]:
        """Texts and numbers of one part.

        Raises:
            StoreError: a file of it is missing, damaged, or not the one that the finished run was made of.
        """
        return self.read_texts(number), self.read_measurements(number)

    def read_texts(self, number: int) -> list[JsonObject]:
        """Texts of one part, one object a case.

        Raises:
            StoreError: see `read_part`.
        """
        with self._named(number):
            content = self._read(self._cases(number))
            cases = json.loads(content)
            if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
                raise ValueError("its texts are no list of cases")
            if not all(isinstance(case.get("id"), str) for case in cases):
                raise ValueError("one of its cases has no id")
            _check_letters(content, cases)
        return cases

    def read_measurements(self, number: int) -> list[Measurement]:
        """Numbers of one part.

        Raises:
            StoreError: see `read_part`.
        """
        with self._named(number):
            return from_table(pq.read_table(pa.BufferReader(self._read(self.numbers_of(number)))))

    def finish(self, spec: RunSpec, n_parts: int) -> None:
        """Write `spec.json` with the hashes of all parts: the run is complete."""
        with _writing(self.path):
            files = [path for n in range(n_parts) for path in (self._cases(n), self.numbers_of(n))]
            hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
            record = {**_record(spec), **self._noise_record, "n_parts": n_parts, "files_sha256": hashes}
            write_whole(self._spec, _json(record))
            self._begun.unlink(missing_ok=True)

    def read_spec(self) -> JsonObject:
        """What `finish` wrote.

        Raises:
            StoreError: the run is not complete, or its spec is damaged.
        """
        try:
            content = self._spec.read_bytes()
            spec = json.loads(content)
            _check_letters(content, spec)
        except FileNotFoundError:
            raise StoreError(
                f"'{self.path}' holds no complete run (no spec.json); run the same command again"
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise StoreError(f"the spec of run '{self.path}' cannot be read: {error}") from None
        if not _is_spec(spec):
            raise StoreError(f"the spec of run '{self.path}' is not one that leakmeter wrote")
        if not _has_parts(spec):
            raise StoreError(f"n_parts or files_sha256 in the spec of run '{self.path}' is not what leakmeter wrote")
        return dict(spec)

    def read_begun(self) -> JsonObject:
        """What an unfinished run measures: as `read_spec`, with `n_cases` for the cases; {} where nothing says it."""
        try:
            begun = json.loads(self._begun.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(begun, dict):
            return {}
        begun = {name: value for name, value in begun.items() if isinstance(value, _KINDS.get(name, object))}
        # A complete run of which a part was removed and written anew: its spec was moved here.
        return {"n_cases": len(begun["cases"]), **begun} if "cases" in begun else begun

    @property
    def _spec(self) -> Path:
        return self.path / "spec.json"

    @property
    def _begun(self) -> Path:
        return self.path / "begun.json"

    def _cases(self, number: int) -> Path:
        return self.path / f"cases-{number:05}.json"

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return dict(self.read_spec()["files_sha256"]) if self.is_complete else {}

    @contextmanager
    def _named(self, number: int) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError, RecursionError, pa.ArrowException) as error:
            raise StoreError(
                f"part {number} of run '{self.path}' cannot be read: {error}; remove that directory and run again"
            ) from None

    def _read(self, path: Path) -> bytes:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if self._hashes.get(path.name, digest) != digest:
            raise ValueError(f"'{path.name}' was changed after the run was complete")
        return content


def _is_spec(record: object) -> bool:
    """Whether an object has the fields of a spec, each of its kind, but for the number of parts and their hashes."""
    if not isinstance(record, dict) or not record.keys() >= _NEEDED:
        return False
    if not all(isinstance(record[name], kind) for name, kind in _KINDS.items() if name in record):
        return False
    texts = (*record.get("problems", ()), *record.get("environment", {}).values())
    return all(isinstance(text, str) for text in texts) and all(isinstance(case, dict) for case in record["cases"])


def _has_parts(record: JsonObject) -> bool:
    """Whether a spec says how many parts there are, and no more than it has hashes of."""
    n_parts, hashes = record["n_parts"], record["files_sha256"]
    if type(n_parts) is not int or not isinstance(hashes, dict):
        return False
    return 0 <= n_parts <= len(hashes) and all(isinstance(digest, str) for digest in hashes.values())


def _check_letters(content: bytes, record: object) -> None:
    """Refuse half a surrogate pair, which JSON can spell, and no text that leakmeter wrote holds."""
    if b"\\ud" in content.lower():
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half a surrogate pair") from None


def _record(spec: RunSpec) -> JsonObject:
    return {"id": spec.id, **asdict(spec)}


def _json(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=False, indent=1).encode()


def _writing(path: Path) -> AbstractContextManager[None]:
    return store_errors(f"run directory '{path}' cannot be written")
