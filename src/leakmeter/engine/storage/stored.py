"""Runs in an object store: written there file by file, and read from a private copy.

The store alone is the truth. Who writes a run has a lease on it, and a private copy of what the store has, in which the
run is written and read as any other; each file goes to the store first. Texts of a part go before its numbers, and the
spec last, so that who reads meanwhile finds every finished part whole. Numbers and spec are only written where there
are none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leakmeter.core.files import make_private, remove_unused, store_errors, write_whole
from leakmeter.core.urls import as_given, copy_of, forget_copy, url_of
from leakmeter.engine.storage.rundir import CONFIRMED, RunDirectory
from leakmeter.engine.storage.schema import NUMBERS, TEXTS, parts_in
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.errors import LeakmeterError, StoreError
from leakmeter.models import cache_dir
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.engine.stores.lease import Lease
    from leakmeter.engine.stores.objects import Objects, StoredObject, Version

_LEASE: Final = ".lease"
_SPEC: Final = "spec.json"
_TOLD: Final = (_SPEC, "begun.json", "sliced.json")
_ONCE: Final = (NUMBERS, _SPEC)
"""How names of files begin that are never written over."""


def run_directory(root: Path, id_: str, slice_: str = "") -> RunDirectory:
    """A run to be written, under a directory of runs or an object store's URL; each slice has a copy of its own."""
    url = url_of(root)
    return RunDirectory(root / id_) if url is None else StoredRun(url, id_, slice_)


def check_store(root: Path) -> None:
    """Refuse an object store that cannot be used, before any work is done for it."""
    if (url := url_of(root)) is not None:
        _objects_at(url).top()


def _objects_at(url: str) -> Objects:
    from leakmeter.engine.stores.objects import Objects

    return Objects(url)


class StoredRun(RunDirectory):
    """A run in an object store, with its private copy as directory; see the module and `run_directory`."""

    def __init__(self, url: str, id_: str, slice_: str = "", objects: Objects | None = None) -> None:
        self._url = f"{url}/{id_}"
        copy = hashlib.sha256(f"{self._url} {slice_}".encode()).hexdigest()[:32]
        super().__init__(cache_dir() / "stores" / copy / id_)
        self._objects = _objects_at(self._url) if objects is None else objects
        self._leases: list[Lease] = []
        self._versions: dict[str, Version] = {}

    @property
    @override
    def place(self) -> str:
        return self._url

    @contextmanager
    @override
    def opened(self, spec: RunSpec) -> Iterator[RunDirectory]:
        with self._copied(), super().opened(spec):
            yield self

    @contextmanager
    @override
    def opened_slice(self, spec: RunSpec, number: int, n_slices: int, n_parts: int) -> Iterator[RunDirectory]:
        with self._copied(), super().opened_slice(spec, number, n_slices, n_parts):
            yield self

    @contextmanager
    @override
    def reopened(self) -> Iterator[tuple[RunSpec, int, int]]:
        with self._copied(), super().reopened() as opened:
            yield opened

    @contextmanager
    def _copied(self) -> Iterator[None]:
        copy_of(self.path, self._url)
        try:
            with store_errors("a private copy of the run cannot be kept"):
                self._make()
            yield
        except LeakmeterError as error:
            error.args = (as_given(str(error)),)
            raise
        finally:
            remove_unused(self.path, [path.name for path in self.path.glob(".*lock")])
            remove_unused(self.path.parent)
            forget_copy(self.path)

    @contextmanager
    @override
    def _locked(self, name: str = ".lock", noun: str = "run", seconds: float = 0) -> Iterator[None]:
        from leakmeter.engine.stores.lease import SECONDS, held

        # Slices begin one after another, and one that was killed as it began leaves its lease.
        patient = 2 * SECONDS if seconds else 0.0
        with (
            super()._locked(name, noun, seconds),
            held(self._objects, name.replace(".lock", _LEASE), self._in_use(noun), patient) as lease,
        ):
            self._leases.append(lease)
            try:
                yield
            finally:
                self._leases.remove(lease)
                if not self._leases:
                    self._clear()

    @override
    def _slice_locks(self) -> list[str]:
        names = (file.name for file in self._objects.under())
        return [name.replace(_LEASE, ".lock") for name in names if name.startswith(".slice-")]

    def _clear(self) -> None:
        for path in self.path.glob("*"):
            if not path.name.endswith(".lock"):
                path.unlink()

    @override
    def _fetch(self) -> None:
        """Make the copy what the store has; what an earlier process left in it may be older."""
        self._clear()
        files = _readable(self._objects)
        self._versions = {file.name: file.version for file in files}
        _copy(self._objects, files, self.path)

    @override
    def _write(self, path: Path, content: bytes) -> None:
        self._check_held()
        self._versions[path.name] = self._sent(path.name, content)
        super()._write(path, content)

    def _sent(self, name: str, content: bytes) -> Version:
        if not name.startswith((*_ONCE, TEXTS)):
            return self._objects.put(name, content)
        try:
            return self._objects.create(name, content)
        except FileExistsError:
            stored = self._objects.get(name)
        if stored is not None and stored[0] == content:
            return stored[1]
        # Texts without numbers are those of a process that was killed between the two.
        numbers = f"{NUMBERS}{name.removeprefix(TEXTS).removesuffix('.json')}.parquet"
        if stored is not None and name.startswith(TEXTS) and self._objects.get(numbers) is None:
            with suppress(FileExistsError):
                return self._objects.replace(name, content, stored[1])
        raise self._interfered(name)

    def _interfered(self, name: str) -> StoreError:
        return StoreError(f"'{name}' of run '{self.place}' was written by another process; run the same command again")

    def _check_held(self) -> None:
        if not all(lease.is_held for lease in self._leases):
            raise StoreError(
                f"the lease on run '{self.place}' ran out and could not be renewed; finished parts are kept, and the "
                "same command continues"
            )

    @override
    def confirm(self) -> None:
        self._objects.put(CONFIRMED, b"")

    @override
    def _remove(self, path: Path) -> None:
        if all(lease.is_held for lease in self._leases):
            self._objects.delete(path.name)
        super()._remove(path)

    @override
    def _remove_all(self, names: Iterable[str]) -> None:
        self._check_held()
        if there := [name for name in names if (self.path / name).exists()]:
            self._objects.delete_all(there)
        super()._remove_all(there)

    @override
    def _abandon(self) -> None:
        try:
            super()._abandon()
        except StoreError:
            # The error that brought us here is told; what is left in the store says that a run was begun.
            return

    @override
    def _take_back(self) -> None:
        if self.is_complete:
            self._check_held()
            self._objects.put(self._begun.name, self._spec.read_bytes())
            self._objects.delete(_SPEC)
        super()._take_back()

    @override
    def _check_files(self, files: Sequence[Path]) -> None:
        tags = {file.name: file.version.get("e_tag") for file in self._objects.under()}
        for path in files:
            # Without a tag, or where a store spells it in two ways, the content decides.
            if tags.get(path.name) is None or tags[path.name] != self._versions.get(path.name, {}).get("e_tag"):
                stored = self._objects.get(path.name)
                if stored is None or stored[0] != path.read_bytes():
                    raise self._interfered(path.name)


def fetched(path: Path, beginning: str = "", *, lean: bool = False) -> Path:
    """A run or a directory of runs to be read: the path itself, or a private copy of what an object store has there.
    The copy goes when the process ends, or when it is forgotten (see `core.urls.forget_copy`). Of a directory those
    runs alone are copied whose names begin with `beginning`; with `lean`, of complete runs, only what says what they
    are of, and of other files that they are there."""
    url = url_of(path)
    if url is None:
        return path
    objects = _objects_at(url)
    files, folders = objects.top()
    if not (files or folders):
        raise StoreError(f"nothing exists at '{url}'; give the URL of a run, or of the directory of runs")
    with store_errors("a private copy of runs cannot be kept"):
        root = tempfile.mkdtemp(prefix="leakmeter-")
        copy = copy_of(Path(root) / url.rpartition("/")[2], url)
        weakref.finalize(copy, shutil.rmtree, root, ignore_errors=True)
        make_private(copy.path)
        if _are_of_a_run(files):
            _copy(objects, _readable(objects), copy.path)
            return copy.path
        for folder in (folder for folder in folders if folder.startswith(beginning)):
            files = _readable(objects, folder)
            if not _are_of_a_run(files):
                continue
            make_private(copy.path / folder)
            if lean and any(_own_name(file) == _SPEC for file in files):
                for file in files:
                    (copy.path / folder / _own_name(file)).touch()
                files = [file for file in files if _own_name(file).startswith((_SPEC, f"{TEXTS}00000"))]
            _copy(objects, files, copy.path / folder)
    return copy.path


def _own_name(file: StoredObject) -> str:
    return file.name.rpartition("/")[2]


def _are_of_a_run(files: Sequence[StoredObject]) -> bool:
    return any(_own_name(file) in _TOLD or _own_name(file).startswith(NUMBERS) for file in files)


def _readable(objects: Objects, folder: str = "") -> list[StoredObject]:
    """Files of a run that can be read while others are written."""
    files = objects.under(folder)
    if any(_own_name(file) == _SPEC for file in files):
        # A list is not of one moment; all of the run is there since its spec is.
        files = objects.under(folder)
    own = {_own_name(file): file for file in files if not file.name.endswith((_LEASE, ".lock"))}
    if _SPEC in own:
        return list(own.values())
    parts = {name: held for name in own if (held := parts_in(name))}
    halves = list(parts.values())
    return [file for name, file in own.items() if name not in parts or halves.count(parts[name]) > 1]


def _copy(objects: Objects, files: Sequence[StoredObject], folder: Path) -> None:
    when = {file.name: file.modified.timestamp() for file in files}

    def write(name: str, content: bytes) -> None:
        path = folder / name.rpartition("/")[2]
        write_whole(path, content)
        os.utime(path, (when[name], when[name]))

    objects.get_all(list(when), write)
