"""A ledger's directory: Parquet files that are written once, and one list of them that is replaced whole.

    ledger/                        mode 0700; files have mode 0600
      ledger.json                  the parts in order, with the hashes of their files; tombstones; the scoring model
      events-00003-1f2e….parquet   rows of a table that one commit added, named by number and hash
      runs/                        measurements under way; removed when their numbers are committed
      kept/                        with --keep-texts, texts and raw numbers of each score
      subjects.toml                the user's: which people are one, and which are not

A commit writes its files and then replaces `ledger.json`: a kill leaves the state before or the state after. Files that
the list does not name are what a kill left, and are removed by the next command that may write. Any number of
readers and writers may work at once: commits wait for each other, and readers see one whole state.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from filelock import FileLock, Timeout

from leakmeter.core.json_object import JsonObject
from leakmeter.core.plain import one_line
from leakmeter.core.written import PARTIAL, check_outside_runs, make_private, store_errors, write_whole
from leakmeter.errors import StoreError
from leakmeter.ledger.kept import KeptTexts
from leakmeter.ledger.keys import Keys
from leakmeter.ledger.tables import TABLES, Rows, from_parquet, to_parquet, unknown

SCHEMA: Final = "leakmeter-ledger/1"
INDEX: Final = "ledger.json"
SUBJECTS: Final = "subjects.toml"
_READ_AGAIN: Final = 20
_PART: Final = re.compile(rf"({'|'.join(TABLES)})-(\d{{5,}})-([0-9a-f]{{16}})\.parquet")


_HALF: Final = re.compile(rf"({'|'.join((*TABLES, INDEX, SUBJECTS))}).*\.[0-9]+\.[0-9a-f]{{16}}{re.escape(PARTIAL)}")
_LOCK, _MEASURING = ".lock", ".measuring.lock"


def _is_own(name: str) -> bool:
    """Whether a file is one of a part, or of what was to be written."""
    return _PART.fullmatch(name) is not None or _HALF.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Part:
    """What one commit added."""

    number: int
    version: str
    """Of leakmeter."""
    files: Mapping[str, str]
    """Names of files to SHA-256 of their content."""

    def file_of(self, table: str) -> str | None:
        """The name of the file with the rows of a table; None where it has none."""
        return next((name for name in self.files if name.startswith(f"{table}-")), None)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """That something was forgotten, without what it was."""

    kind: str
    """'document', 'subject', 'recipient' or 'trace'."""
    day: str
    n_rows: int
    """Rows that were removed."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Drawn at random."""


@dataclass(frozen=True, slots=True)
class State:
    """One whole state of a ledger, as `ledger.json` says it."""

    key_check: str
    model: JsonObject | None = None
    """What scores; None of an empty ledger."""
    parts: tuple[Part, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    next_number: int = 1
    generation: int = 0
    """Grows with each change."""

    def to_json(self) -> bytes:
        """The content of `ledger.json`."""
        told = {
            "schema": SCHEMA,
            "key_check": self.key_check,
            "model": self.model,
            "generation": self.generation,
            "next_number": self.next_number,
            "tombstones": [{"id": t.id, "kind": t.kind, "day": t.day, "n_rows": t.n_rows} for t in self.tombstones],
            "parts": [{"number": p.number, "version": p.version, "files_sha256": dict(p.files)} for p in self.parts],
        }
        return json.dumps(told, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, content: bytes) -> State:
        """The state that a file says.

        Raises:
            ValueError: it is none.
        """
        told = json.loads(content)
        if not isinstance(told, dict) or told.get("schema") != SCHEMA:
            raise ValueError(f"it is no list of schema {SCHEMA}")
        try:
            parts = tuple(
                Part(int(p["number"]), str(p["version"]), {str(n): str(h) for n, h in p["files_sha256"].items()})
                for p in told["parts"]
            )
            stones = tuple(
                Tombstone(str(t["kind"]), str(t["day"]), int(t["n_rows"]), str(t["id"])) for t in told["tombstones"]
            )
            model, generation, number = told["model"], int(told["generation"]), int(told["next_number"])
            key_check = str(told["key_check"])
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            # Their own words repeat what stands there.
            raise ValueError("a field of it is missing or of another kind") from None
        if any(_PART.fullmatch(name) is None for part in parts for name in part.files):
            raise ValueError("it names a file that is no part of a ledger")
        return cls(key_check, model, parts, stones, number, generation)


class Ledger:
    """A ledger's directory.

    Args:
        path: the directory; it is made by the first commit.
        keys: of the user; see `ledger.keys`.
    """

    def __init__(self, path: Path, keys: Keys) -> None:
        self.path = path
        self.keys = keys
        self._kept: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    def of_user(cls, path: Path) -> Ledger:
        """A ledger under the user's own key.

        Raises:
            StoreError: the key can neither be read nor written.
        """
        from leakmeter.models import config_dir
        from leakmeter.runs.pseudonym import subject_key

        return cls(path, Keys(subject_key(config_dir())))

    @property
    def runs(self) -> Path:
        """Directory of the measurements under way."""
        return self.path / "runs"

    @property
    def texts(self) -> KeptTexts:
        """The texts behind the scores, of those that are kept."""
        return KeptTexts(self.path / "kept")

    @property
    def is_begun(self) -> bool:
        """Whether anything was ever committed, or measured to be."""
        return self.exists or self.runs.exists()

    @property
    def exists(self) -> bool:
        """Whether anything was ever committed."""
        return (self.path / INDEX).exists()

    def state(self) -> State:
        """The present state; of a directory without a ledger an empty one.

        Raises:
            StoreError: the list cannot be read, or was made under another key.
        """
        try:
            state = State.from_json((self.path / INDEX).read_bytes())
        except FileNotFoundError:
            return State(self.keys.check)
        except (OSError, ValueError, RecursionError) as error:
            raise StoreError(f"'{self.path / INDEX}' cannot be read: {one_line(error)}") from None
        if state.key_check != self.keys.check:
            raise StoreError(
                f"ledger '{self.path}' was made under another key, so that its pseudonyms cannot be compared; "
                "name the directory with its subjects.secret in LEAKMETER_CONFIG"
            )
        return state

    def rows(self, table: str, state: State | None = None) -> list[dict[str, Any]]:
        """All rows of a table, in the order they were added.

        Args:
            table: its name.
            state: that was read before; the present one where None.

        Raises:
            StoreError: a file is missing, or not the one that was written.
        """
        if state is None:
            return self.read(table)[1][table]
        return [row for part in state.parts for row in self.rows_of(part, table)]

    def read(self, *tables: str) -> tuple[State, dict[str, list[dict[str, Any]]]]:
        """One whole state, and the rows of tables; all of them where none is named.

        Raises:
            StoreError: see `rows`.
        """
        # A forgetting beside us removes files of the state that we have read: then there is a newer one.
        for _ in range(_READ_AGAIN):
            state = self.state()
            # What was rewritten, without what was forgotten, is not kept in memory as it was.
            named = {name for part in state.parts for name in part.files}
            self._kept = {name: rows for name, rows in self._kept.items() if name in named}
            try:
                return state, {table: self.rows(table, state) for table in tables or TABLES}
            except StoreError:
                if self.state().generation == state.generation:
                    raise
        raise StoreError(f"ledger '{self.path}' changes faster than it can be read; try again")

    def rows_of(self, part: Part, table: str) -> list[dict[str, Any]]:
        """The rows that one part has of a table.

        Raises:
            StoreError: see `rows`.
        """
        name = part.file_of(table)
        if name is None:
            return []
        # Another thread may put another dictionary there.
        kept = self._kept
        if name not in kept:
            try:
                content = (self.path / name).read_bytes()
                if hashlib.sha256(content).hexdigest() != part.files[name]:
                    raise ValueError("it was changed after it was written")
                kept[name] = from_parquet(table, content)
            except (OSError, ValueError, pa.ArrowException) as error:
                raise StoreError(
                    f"'{self.path / name}' of the ledger cannot be read: {one_line(error)}; restore it from a copy, or "
                    "make a new ledger from the logs"
                ) from None
        return kept[name]

    def verify(self) -> tuple[int, list[str]]:
        """Read every file again: how many there are, and what is wrong, each with the file's name."""
        state = self.state()
        findings: list[str] = []
        names = {name for part in state.parts for name in part.files}
        self._kept.clear()
        for part in state.parts:
            for table in TABLES:
                try:
                    self.rows_of(part, table)
                except StoreError as error:
                    findings.append(str(error))
        findings += [f"{name}: not in the list" for name in sorted(self._foreign(state))]
        return len(names), findings

    def strangers(self) -> list[str]:
        """Names of what is in the directory and no part of the ledger."""
        own = {INDEX, SUBJECTS, _LOCK, _MEASURING, self.runs.name, self.texts.path.name}
        return sorted(path.name for path in self.path.iterdir() if path.name not in own and not _is_own(path.name))

    def tidy(self) -> bool:
        """Remove what a killed command left; whether there was something."""
        if not (self._foreign(self.state()) or self._half_written()):
            return False
        with self.writing():
            pass
        return True

    @contextmanager
    def measuring(self, notify: Callable[[str], None] = lambda line: None) -> Iterator[None]:
        """Hold the right to measure: what two would measure at once is measured by one, and found by the other."""
        with self._locked(_MEASURING, notify):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the right to commit, after what a kill left was removed."""
        with self._locked(_LOCK):
            # Nobody else may write now; a process may have the number of one that was killed.
            for path in self._half_written():
                path.unlink(missing_ok=True)
            self._sweep(self.state())
            yield

    def commit(
        self, rows: Rows, *, model: JsonObject | None = None, provided: Callable[[], bool] = lambda: True
    ) -> bool:
        """Add rows that are not there yet; all of them, or none where it is interrupted.

        Args:
            rows: by table; empty tables are left out. What others added since they were made is not added again.
            model: what scored them.
            provided: asked while nobody else can commit; where it says no, nothing is added.

        Returns:
            Whether they are there.

        Raises:
            StoreError: the ledger cannot be written, or is of another model.
        """
        with self.writing():
            state = self.state()
            if model is not None and state.model not in (None, model):
                raise other_model(self.path, state.model or {}, model)
            if not provided():
                return False
            there, is_cut = partial(self.rows, state=state), bool(state.tombstones)
            new = {table: unknown(rows, table, there, is_cut=is_cut) for table in TABLES}
            self._replace(
                State(
                    state.key_check,
                    state.model or model,
                    (*state.parts, *([self._written(state.next_number, new)] if any(new.values()) else [])),
                    state.tombstones,
                    state.next_number + 1,
                    state.generation + 1,
                )
            )
        return True

    def rewrite(self, keeps: Callable[[str, Mapping[str, Any]], bool], stone: Callable[[int], Tombstone]) -> int:
        """Keep some of the rows: the parts concerned are written anew, and their files removed.

        Args:
            keeps: tells of a table and a row whether it stays.
            stone: number of rows removed to what stays in the list instead of them.

        Returns:
            How many rows were removed.

        Raises:
            StoreError: the ledger cannot be read or written.
        """
        with self.writing():
            state = self.state()
            parts: list[Part] = []
            number, n_removed = state.next_number, 0
            for part in state.parts:
                rows = {table: self.rows_of(part, table) for table in TABLES}
                left = {table: [row for row in of if keeps(table, row)] for table, of in rows.items()}
                gone = sum(map(len, rows.values())) - sum(map(len, left.values()))
                if not gone:
                    parts.append(part)
                    continue
                n_removed += gone
                if any(left.values()):
                    parts.append(self._written(number, left))
                    number += 1
            if n_removed:
                stones = (*state.tombstones, stone(n_removed))
                new = State(state.key_check, state.model, tuple(parts), stones, number, state.generation + 1)
                self._replace(new)
                self._kept.clear()
                self._sweep(new)
        return n_removed

    def _written(self, number: int, rows: Rows) -> Part:
        files: dict[str, str] = {}
        with self._errors():
            for table in TABLES:
                if not rows.get(table):
                    continue
                content = to_parquet(table, rows[table])
                digest = hashlib.sha256(content).hexdigest()
                name = f"{table}-{number:05}-{digest[:16]}.parquet"
                write_whole(self.path / name, content)
                files[name] = digest
        return Part(number, metadata.version("leakmeter"), files)

    def _replace(self, state: State) -> None:
        with self._errors():
            write_whole(self.path / INDEX, state.to_json())

    def _foreign(self, state: State) -> set[str]:
        """Files of parts that the list does not name."""
        named = {name for part in state.parts for name in part.files}
        return {path.name for path in self.path.glob("*.parquet") if _PART.fullmatch(path.name)} - named

    def _half_written(self) -> list[Path]:
        return [path for path in self.path.glob(f"*{PARTIAL}") if _is_own(path.name)]

    def _sweep(self, state: State) -> None:
        for name in self._foreign(state):
            with suppress(FileNotFoundError):
                (self.path / name).unlink()

    @contextmanager
    def _locked(self, name: str, notify: Callable[[str], None] = lambda line: None) -> Iterator[None]:
        with self._errors():
            if not self.exists:
                check_outside_runs(self.path, "ledger")
            make_private(self.path)
            lock = FileLock(self.path / name, mode=0o600)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                notify(f"waiting for another process that writes to ledger '{self.path}'")
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _errors(self) -> Any:
        return store_errors(f"ledger '{self.path}' cannot be written")


def other_model(path: Path, first: Mapping[str, Any], second: Mapping[str, Any]) -> StoreError:
    """Nats of two models do not add up."""
    names = [str(model.get("name")) for model in (first, second)]
    return StoreError(
        f"ledger '{path}' has numbers of {names[0]}, and nats of another model ({names[1]}, or other weights or "
        "another tokenizer of that name) do not add to them; give that model, or another ledger"
    )
