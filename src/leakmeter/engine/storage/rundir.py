"""A run's directory.

    runs/influence-1f2e…/          mode 0700: it holds the texts that were measured
      cases-00000.json             texts of one part, for people to read
      measurements-00000.parquet   numbers of that part; its presence means the part is finished
      begun.json                   what is being measured, without texts; gone once the run is complete
      sliced.json                  the same with texts, where the run is measured in slices; gone likewise
      spec.json                    last: its presence means the run is complete
      .confirmed                   empty; written when a command found the run complete, and by its time alone

Once finished parts that follow each other have 8 MB of numbers, they are put into a group: one file of texts and one of
numbers (see `storage.schema`). A run of a million cases is a few thousand files then; a run below 8 MB has no groups.
Every file is written beside its place and renamed into it, so that a kill leaves a whole file or none.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import groupby
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from leakmeter.core.files import (
    PARTIAL,
    ForeignFileError,
    check_outside_runs,
    made_for,
    make_private,
    read_whole,
    remove_unused,
    store_errors,
    write_whole,
)
from leakmeter.core.measure import Measurement
from leakmeter.core.plain import one_line
from leakmeter.core.record import JsonObject
from leakmeter.core.urls import check_directory
from leakmeter.engine.storage.kept import FieldError
from leakmeter.engine.storage.schema import (
    GROUP_BYTES,
    GROUP_PARTS,
    NUMBERS,
    REPEATED,
    from_group_table,
    from_table,
    group_table,
    groups_in,
    held_with,
    names_of,
    numbers_name,
    parts_in,
    texts_name,
    to_table,
)
from leakmeter.engine.storage.spec import RunSpec, is_word
from leakmeter.errors import DamagedError, ModelError, StoreError

_T = TypeVar("_T")

SPEC: Final = "spec.json"
CONFIRMED: Final = ".confirmed"
ALL: Final = "all of it"
"""In the place of a field's name, where a whole file is damaged."""
_TEXT_OR_NONE: Final = (str, type(None))
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("id", "measure", "version"), str),
    **dict.fromkeys(("params", "prompts", "model", "environment", "noise"), dict),
    **dict.fromkeys(("cases", "problems"), list),
    **dict.fromkeys(("command", "name", "data", "left_out"), _TEXT_OR_NONE),
}
"""Fields of a spec whose kind is known."""
_INNER_KINDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "model": dict.fromkeys(("name", "weights_sha256", "dtype", "device"), _TEXT_OR_NONE),
    "prompts": {"unit": _TEXT_OR_NONE},
}
_NEEDED: Final = _KINDS.keys() - {"environment", "problems", "command", "name", "data", "left_out", "noise"} | {
    *("n_parts", "files_sha256")
}
_MOST_DIGITS: Final = 300
"""Of a whole number that is a float too; a nonce has 39."""
_SLICES_BEGIN_SECONDS: Final = 5.0
"""How long a slice waits for others that begin; what measures a whole run holds the lock for longer."""


class RunDirectory:
    """Writes and reads one run. Parts are numbered from 0 and independent of each other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._spec, self._begun, self._sliced = path / SPEC, path / "begun.json", path / "sliced.json"
        self.lasting = True
        """Whether what is written outlives a stop of the machine, for which each file waits for the disk."""
        self._lock = RLock()
        """Several threads write parts, and one of them puts parts into a group, which moves them."""
        self._known_groups: list[range] | None = None
        self._last_read: dict[str, tuple[range, list[list[Any]]]] = {}
        """Texts and numbers of the group that was read last."""
        self._group_end = sys.maxsize
        self._ungrouped = range(0)
        """Finished parts that are in no group yet, of which the next group is made, and after them where to go on."""
        self._ungrouped_bytes = 0

    @property
    def place(self) -> str:
        """Where the run is, as a user names it."""
        return str(self.path)

    @contextmanager
    def opened(self, spec: RunSpec) -> Iterator[RunDirectory]:
        """The directory, made if need be, and locked against other processes meanwhile.

        What ends with an error before any part is finished leaves nothing: there is nothing to go on from.
        """
        root = self.path.parent
        check_directory(root)
        check_outside_runs(root, "directory of runs")
        with made_for(root), ExitStack() as locks:
            with self._writing():
                self._make()
                locks.enter_context(self._locked())
            try:
                self._fetch()
                self._refuse_slices()
                with self._writing():
                    self._begin(spec)
                yield self
            except BaseException as error:
                self._abandon()
                if isinstance(error, ModelError) and error.may_pass and self.parts:
                    error.args = (f"{error}; the run continues where it stopped",)
                raise

    @contextmanager
    def opened_slice(self, spec: RunSpec, number: int, n_slices: int, n_parts: int) -> Iterator[RunDirectory]:
        """Open the directory for slice `number`, from 1; other processes may write other slices. The spec is the whole
        run's. `StoreError` where another process writes this slice or the whole run, or the run was begun in other
        slices."""
        check_outside_runs(self.path.parent, "directory of runs")
        with ExitStack() as locks:
            with self._writing():
                self._make()
                locks.enter_context(
                    self._locked(f".slice-{number}-of-{n_slices}.lock", f"part {number}/{n_slices} of run")
                )
            with self._locked(seconds=_SLICES_BEGIN_SECONDS), self._writing():
                self._fetch()
                self._begin_slice(spec, n_slices, n_parts)
            self._group_from((number - 1) * n_parts // n_slices, number * n_parts // n_slices)
            yield self

    @contextmanager
    def reopened(self) -> Iterator[tuple[RunSpec, int, int]]:
        """Spec, number of parts and number of slices of a run that was begun in slices; `StoreError` while a slice is
        being written."""
        with self._locked():
            self._fetch()
            self._refuse_slices()
            yield self._read_sliced()

    @property
    def sliced(self) -> bool:
        """Whether the run was begun in slices, which are still to be put together."""
        return self._sliced.exists()

    def _make(self) -> None:
        # Names of runs may be private too; a directory that is there is the user's own affair.
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private(self.path)

    @contextmanager
    def _locked(self, name: str = ".lock", noun: str = "run", seconds: float = 0) -> Iterator[None]:
        """Hold a lock of the run, waiting for it so many seconds; others read that `noun` is being written."""
        lock = FileLock(self.path / name, timeout=seconds)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(self._in_use(noun)) from None
        try:
            yield
        finally:
            lock.release()

    def _in_use(self, noun: str) -> str:
        return f"{noun} '{self.place}' is being written by another process; wait for it to end"

    def _fetch(self) -> None:
        """Get what is kept elsewhere; a directory has all."""

    def _refuse_slices(self) -> None:
        """Refuse to go on while another process writes a slice; the run's own lock is held."""
        for name in self._slice_locks():
            with self._locked(name, "a slice of run"):
                pass

    def _slice_locks(self) -> list[str]:
        return sorted(path.name for path in self.path.glob(".slice-*.lock"))

    def _begin_slice(self, spec: RunSpec, n_slices: int, n_parts: int) -> None:
        if self.is_complete:
            return
        if self.sliced:
            _, _, before = self._read_sliced()
            if before != n_slices:
                raise StoreError(
                    f"run '{self.place}' was begun in {before} slices, which {n_slices} others would overlap; give "
                    f"--part I/{before}, or no --part to measure what is left in one process"
                )
            return
        self._write(self._sliced, _json({**_record(spec), "n_parts": n_parts, "slices": n_slices}))
        if not self._begun.exists():
            self._write_begun(spec)

    def _read_sliced(self) -> tuple[RunSpec, int, int]:
        try:
            record = json.loads(read_whole(self._sliced))
            spec = RunSpec.from_record(record)
            n_parts, n_slices = int(record["n_parts"]), int(record["slices"])
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            raise StoreError(
                f"the spec of the slices of run '{self.place}' cannot be read: {one_line(error)}"
            ) from None
        if spec.id != self.path.resolve().name:
            raise StoreError(f"the slices in '{self.place}' are of run {spec.id}; the directory has another name")
        return spec, n_parts, n_slices

    def _begin(self, spec: RunSpec) -> None:
        for left_over in self.path.glob(f"*{PARTIAL}"):
            left_over.unlink()
        if self.is_complete:
            self._remove(self._begun)
        else:
            self._write_begun(spec)

    def _write_begun(self, spec: RunSpec) -> None:
        begun = {name: value for name, value in _record(spec).items() if name != "cases"}
        self._write(self._begun, _json({**begun, "n_cases": len(spec.cases), **self._noise_record}))

    def _abandon(self) -> None:
        if not self.parts:
            for path in (*self.path.glob("cases-*.json"), self._begun):
                self._remove(path)
            remove_unused(self.path)

    @property
    def is_complete(self) -> bool:
        """Whether every part is there and the spec was written."""
        return self._spec.exists()

    @property
    def noise(self) -> JsonObject | None:
        """What `keep_noise` kept: how far log-probabilities of a served model move with the way of asking."""
        noise = (self.read_spec() if self.is_complete else self.read_begun()).get("noise")
        nats = None if noise is None else noise.get("nats")
        is_number = isinstance(nats, int | float) and not isinstance(nats, bool) and nats >= 0
        return dict(noise) if noise is not None and is_number else None

    def confirm(self) -> None:
        """Write down that a command found the run complete, as if it had just measured it (see `last_ended`).

        No lock is needed: of several processes each says the same.
        """
        with self._writing():
            self._write(self.path / CONFIRMED, b"")

    @property
    def last_ended(self) -> float:
        """When a command last finished this complete run or confirmed it, seconds since 1970."""
        confirmed = self.path / CONFIRMED
        times = (path.stat().st_mtime_ns / 1e9 for path in (self._spec, confirmed) if path.exists())
        return max(times, default=0.0)

    @property
    def last_written(self) -> float:
        """When a command last wrote to this run, complete or not, seconds since 1970."""
        return max(
            (path.stat().st_mtime_ns / 1e9 for path in (self._begun, *self.numbers) if path.exists()), default=0.0
        )

    def rename(self, name: str | None) -> None:
        """Give the run another name, or none."""
        with self._locked():
            self._fetch()
            path, record = (self._spec, self.read_spec()) if self.is_complete else (self._begun, self.read_begun())
            with self._writing():
                when = path.stat()
                self._write(path, _json({**record, "name": name}))
                # A run was finished when its spec was written first.
                os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))

    def keep_noise(self, noise: JsonObject) -> None:
        """Write down the noise that was measured for the run, before any of its parts is measured."""
        with self._writing():
            self._write(self._begun, _json({**self.read_begun(), "noise": noise}))

    @property
    def _noise_record(self) -> JsonObject:
        return {} if self.noise is None else {"noise": self.noise}

    @property
    def parts(self) -> list[int]:
        """Numbers of the finished parts, in order."""
        return [number for parts in self.files for number in parts]

    @property
    def files(self) -> list[range]:
        """The finished parts in order, those of one file together."""
        listed = [path.name for path in self.path.glob(f"{NUMBERS}*.parquet")]
        self._known_groups = groups = groups_in(listed)
        # A kill leaves parts that are in a group too.
        held = {held_with(parts.start, groups) for name in listed if (parts := parts_in(name)) is not None}
        return sorted(held, key=lambda parts: parts.start)

    @property
    def numbers(self) -> list[Path]:
        return [self.path / numbers_name(parts) for parts in self.files]

    def numbers_of(self, number: int) -> Path:
        """The file with the numbers of a part, which need not be there."""
        return self.path / numbers_name(self._held_with(number))

    def texts_of(self, number: int) -> Path:
        """The file with the texts of a part, which need not be there."""
        return self.path / texts_name(self._held_with(number))

    def check_all_there(self) -> None:
        """`DamagedError` where a file of the complete run is missing; of an unfinished one nothing says what has to be
        there."""
        there = {path.name for path in self.path.glob("*")}
        for name in self._hashes:
            if name not in there:
                raise DamagedError(self.place, name, ALL, "is missing")

    def _files_of(self, numbers: Iterable[int]) -> list[Path]:
        """The files of parts, in the order in which they are written."""
        held = dict.fromkeys(self._held_with(number) for number in numbers)
        return [self.path / name for parts in held for name in names_of(parts)]

    def has_part(self, number: int) -> bool:
        return self.numbers_of(number).exists()

    def _held_with(self, number: int) -> range:
        return held_with(number, self._groups())

    def _groups(self, *, again: bool = False) -> list[range]:
        with self._lock:
            if self._known_groups is None or again:
                self._known_groups = groups_in(path.name for path in self.path.glob(f"{NUMBERS}*-*.parquet"))
            return self._known_groups

    def write_part(self, number: int, cases: Sequence[JsonObject], measurements: Sequence[Measurement]) -> None:
        """Write one part: its texts, then its numbers."""
        with self._writing():
            # A part of a complete run is only written where somebody removed it: the run is then complete no more.
            self._take_back()
            self._write_files(range(number, number + 1), list(cases), to_table(measurements))
            with self._lock:
                self._group_full()

    def _write_files(self, parts: range, texts: list[Any], table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", use_dictionary=REPEATED)
        self._write(self.path / texts_name(parts), _json(texts))
        self._write(self.path / numbers_name(parts), sink.getvalue().to_pybytes())

    def _take_back(self) -> None:
        with suppress(FileNotFoundError):
            self._spec.replace(self._begun)
            self.__dict__.pop("_hashes", None)

    def _write(self, path: Path, content: bytes) -> None:
        write_whole(path, content, lasting=self.lasting)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def read_part(self, number: int) -> tuple[list[JsonObject], list[Measurement]]:
        """Texts and numbers of one part; `StoreError` where a file of it is missing, damaged, or not the one that the
        finished run was made of."""
        return self.read_texts(number), self.read_measurements(number)

    def read_texts(self, number: int) -> list[JsonObject]:
        """Texts of one part, one object a case."""
        return self._part_of(number, self._texts_in)

    def read_measurements(self, number: int) -> list[Measurement]:
        return self._part_of(number, self._numbers_in)

    def _part_of(self, number: int, read: Callable[[range], list[list[_T]]]) -> list[_T]:
        """A part of what `read` makes of a file; the group that was read last is kept, since its parts follow."""
        with self._lock:
            parts = self._held_with(number)
            if not (self.path / numbers_name(parts)).exists():
                # Another process may have put it into a group, or its group is missing.
                parts = held_with(number, groups_in([*map(numbers_name, self._groups(again=True)), *self._hashes]))
            if len(parts) == 1:
                return read(parts)[0]
            if self._last_read.get(read.__name__, (None,))[0] != parts:
                self._last_read[read.__name__] = parts, read(parts)
            return self._last_read[read.__name__][1][number - parts.start]

    def _texts_in(self, parts: range) -> list[list[JsonObject]]:
        path = self.path / texts_name(parts)
        with self.reading(path.name):
            content = self._read(path)
            texts = json.loads(content)
            by_part = [texts] if len(parts) == 1 else texts
            if not isinstance(by_part, list) or len(by_part) != len(parts):
                raise FieldError(ALL, "has to be a list for each part")
            for place, cases in enumerate(by_part):
                where = "" if len(parts) == 1 else f"{place}."
                if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
                    raise FieldError(ALL, "has to be a list of cases")
                for case_place, case in enumerate(cases):
                    if not isinstance(case.get("id"), str):
                        raise FieldError(f"{where}{case_place}.id", "has to be a text")
            _check_letters(content, texts)
        return by_part

    def _numbers_in(self, parts: range) -> list[list[Measurement]]:
        path = self.path / numbers_name(parts)
        with self.reading(path.name):
            # `read_table` would import pandas, nearly a second.
            table = pq.ParquetFile(pa.BufferReader(self._read(path))).read()
            return [from_table(table)] if len(parts) == 1 else from_group_table(table, len(parts))

    def _group_from(self, first: int, end: int) -> None:
        """Let groups begin at part `first`, and hold none from `end` on."""
        self._ungrouped, self._ungrouped_bytes, self._group_end = range(first, first), 0, end

    def _group_full(self) -> None:
        """Put finished parts into groups, as far as parts are finished one after another and fill a group."""
        while (number := self._ungrouped.stop) < self._group_end:
            held = self._held_with(number)
            if len(held) > 1:
                self._group_from(held.stop, self._group_end)
                continue
            try:
                self._ungrouped_bytes += (self.path / numbers_name(held)).stat().st_size
            except FileNotFoundError:
                return
            self._ungrouped = parts = range(self._ungrouped.start, number + 1)
            if self._ungrouped_bytes >= GROUP_BYTES or len(parts) == GROUP_PARTS:
                self._group(parts)
                self._group_from(parts.stop, self._group_end)

    def _group_rest(self, n_parts: int) -> None:
        """Put all parts of a finished run into groups, unless it is too small for one."""
        self._group_from(0, n_parts)
        self._group_full()
        if groups := self._groups(again=True):
            # A kill leaves parts that are in a group, and texts of a group without its numbers.
            listed = ((path.name, parts_in(path.name)) for path in self.path.iterdir())
            self._remove_all([name for name, parts in listed if parts and held_with(parts.start, groups) != parts])
            alone = [number for number in range(n_parts) if len(held_with(number, groups)) == 1]
            for _, places in groupby(enumerate(alone), key=lambda place: place[1] - place[0]):
                numbers = [number for _, number in places]
                self._group(range(numbers[0], numbers[-1] + 1))

    def _group(self, parts: range) -> None:
        """Put finished parts into one file of texts and one of numbers; the latter's presence makes it a group."""
        if len(parts) == 1:
            return
        texts, measurements = zip(*(self.read_part(number) for number in parts), strict=True)
        self._write_files(parts, list(texts), group_table(measurements))
        # Numbers first: texts without numbers are no part.
        self._remove_all(numbers_name(range(number, number + 1)) for number in parts)
        self._remove_all(texts_name(range(number, number + 1)) for number in parts)
        self._known_groups = None
        self._last_read.clear()

    def _remove_all(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def finish(self, spec: RunSpec, n_parts: int) -> None:
        """Write `spec.json` with the hashes of all parts: the run is complete."""
        with self._writing():
            self._group_rest(n_parts)
            files = self._files_of(range(n_parts))
            self._check_files(files)
            hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
            record = {**_record(spec), **self._noise_record, "n_parts": n_parts, "files_sha256": hashes}
            self._write(self._spec, _json(record))
            for path in (self._begun, self._sliced, *self.path.glob(".slice-*.lock")):
                self._remove(path)

    def _check_files(self, files: Sequence[Path]) -> None:
        """Refuse files that differ from those written or fetched; a directory checks nothing."""

    def _why_there_is_no_spec(self) -> str:
        listed = "give the directory of a run, one that `leakmeter runs list` shows"
        if not self.path.exists():
            return f"there is no '{self.place}'; {listed}"
        if not self._begun.exists():
            return f"'{self.place}' is no run: it has neither {SPEC} nor {self._begun.name}; {listed}"
        return f"'{self.place}' holds no complete run (no {SPEC}); run the same command again"

    def read_spec(self) -> JsonObject:
        with self.reading(SPEC):
            try:
                content = read_whole(self._spec)
            except FileNotFoundError:
                raise StoreError(self._why_there_is_no_spec()) from None
            except ForeignFileError:
                raise
            except OSError as error:
                raise StoreError(f"'{self._spec}' cannot be read: {error.strerror or error}") from None
            spec: JsonObject = json.loads(content, parse_int=_whole_number)
            _check_letters(content, spec)
            _check_spec(spec)
        return spec

    def read_begun(self) -> JsonObject:
        """What an unfinished run measures: as `read_spec`, with `n_cases` for the cases; {} where nothing says it."""
        try:
            begun = json.loads(read_whole(self._begun))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(begun, dict):
            return {}
        begun = {name: value for name, value in begun.items() if isinstance(value, _KINDS.get(name, object))}
        if not is_word(begun.get("measure", "")):
            begun.pop("measure", None)
        # A complete run of which a part was removed and written anew: its spec was moved here.
        return {"n_cases": len(begun["cases"]), **begun} if "cases" in begun else begun

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return dict(self.read_spec()["files_sha256"]) if self.is_complete else {}

    def _writing(self) -> AbstractContextManager[None]:
        return store_errors(f"run directory '{self.place}' cannot be written")

    @contextmanager
    def reading(self, file: str) -> Iterator[None]:
        """Errors within become a `DamagedError` that names a file of the run."""
        try:
            yield
        except FieldError as error:
            raise DamagedError(self.place, file, error.field, error.why) from None
        except FileNotFoundError:
            raise DamagedError(self.place, file, ALL, "is missing") from None
        except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
            # What these say may quote the file, unless the operating system says it.
            kind = "JSON" if file.endswith(".json") else "Parquet"
            reason = getattr(error, "strerror", None)
            why = f"cannot be read: {reason}" if reason else f"is no {kind} that can be read"
            raise DamagedError(self.place, file, ALL, why) from None

    def _read(self, path: Path) -> bytes:
        content = read_whole(path)
        digest = hashlib.sha256(content).hexdigest()
        if self._hashes.get(path.name, digest) != digest:
            raise FieldError(ALL, "was changed after the run was complete")
        return content


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise FieldError("a number", f"has more than {_MOST_DIGITS} digits")
    return int(digits)


def _check_spec(record: object) -> None:
    if not isinstance(record, dict):
        raise FieldError(ALL, "has to be an object")
    for name in sorted(_NEEDED):
        if name not in record:
            raise FieldError(name, "is missing")
    _check_kinds(record, _KINDS, "")
    for name, kinds in _INNER_KINDS.items():
        _check_kinds(record[name], kinds, f"{name}.")
    # It is repeated in messages, where no text of whoever forged the file belongs.
    if not is_word(record["measure"]):
        raise FieldError("measure", "has to be a name")
    for name, kind, values in (
        ("problems", str, record.get("problems", ())),
        ("environment", str, record.get("environment", {}).values()),
        ("cases", dict, record["cases"]),
    ):
        if not all(isinstance(value, kind) for value in values):
            raise FieldError(name, "holds what is none of them")
    n_parts, hashes = record["n_parts"], record["files_sha256"]
    if not isinstance(hashes, dict) or not all(isinstance(digest, str) for digest in hashes.values()):
        raise FieldError("files_sha256", "has to be a hash a file")
    held = {parts for name in hashes if (parts := parts_in(name)) is not None}
    ordered = sorted(held, key=lambda parts: parts.start)
    bounds = [0, *(parts.stop for parts in ordered)]
    if type(n_parts) is not int or bounds[-1] != n_parts or len(hashes) != 2 * len(held):
        raise FieldError("n_parts", "has to be the number of parts, of which each is in two files with hashes")
    if [parts.start for parts in ordered] != bounds[:-1] or hashes.keys() != {
        name for parts in held for name in names_of(parts)
    }:
        raise FieldError("files_sha256", "has to be of the files of all parts")


def _check_kinds(record: JsonObject, kinds: Mapping[str, type | tuple[type, ...]], place: str) -> None:
    for name, kind in kinds.items():
        if name in record and not isinstance(record[name], kind):
            raise FieldError(f"{place}{name}", "is of another kind")


def _check_letters(content: bytes, record: object) -> None:
    """Refuse half a surrogate pair: JSON can spell it, and leakmeter writes none."""
    if b"\\ud" in content.lower():
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise FieldError(ALL, "holds half a surrogate pair") from None


def _record(spec: RunSpec) -> JsonObject:
    return {"id": spec.id, **spec.record()}


def _json(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=False, indent=1).encode()
