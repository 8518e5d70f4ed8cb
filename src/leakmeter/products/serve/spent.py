"""What was spent of each document's ε, in a file that several servers may use at once and that holds no text.

A document is known by a keyed hash of its text, made coarse, so that another spelling finds the same budget. ε is
charged before a token is drawn, and is on the disk by then; what was charged for tokens that were never drawn can be
given back. A process that dies gives nothing back.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Final

import regex

from leakmeter.core.database import connected, database_errors, make_file, transaction
from leakmeter.core.files import store_errors
from leakmeter.engine.storage.pseudonym import made_directory, pseudonym, read_secret
from leakmeter.errors import LeakmeterError, StoreError, UsageError

FILE: Final = "spent.sqlite"
KEY_FILE: Final = "documents.secret"
NANO: Final = 10**9
"""Amounts are whole numbers of 1e-9 nats, which add up without rounding."""
_MOST_NATS: Final = 10**6
_VERSION: Final = 3
_UNSEEN: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}]")
_OTHER: Final = regex.compile(r"(?:\A|[^\p{L}\p{M}\p{N}])\p{M}*")
"""What is no letter or number, with the marks that it bears: an accent of its own is a space with a mark."""
_TOO_MUCH: Final = (
    "a document of this request has less epsilon left than the request could use; request fewer or shorter answers, "
    "or leave the document out"
)


class SpentError(LeakmeterError):
    """A document of the request has less ε left than the request could spend."""


def nano(nats: float, *, up: bool, name: str = "epsilon") -> int:
    """Whole 1e-9 nats of the shortest decimal that names a number, rounded up (what is spent) or down (what may be)."""
    if not 0 < nats <= _MOST_NATS:
        raise UsageError(f"{name} is {nats}; it has to be above 0, and {_MOST_NATS:,} at most")
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return int((Decimal(repr(float(nats))) * NANO).to_integral_value(rounding))


def coarse(text: str) -> str:
    """What is the same of all spellings of a text that people or extractors of text take for one.

    That is their letters, marks and numbers, folded for compatibility and case: an extractor may put anything else
    between them. Two texts that are alike in this way share a budget, which can only charge them more.
    """
    for _ in range(2):  # folding case undoes the normal form of a few letters
        decomposed = unicodedata.normalize("NFD", _UNSEEN.sub("", text))
        text = _OTHER.sub("", unicodedata.normalize("NFKC", decomposed.casefold()))
    return unicodedata.normalize("NFKC", text)


class Spent:
    """The file of what was spent of the `total` ε, nats, of each document, and its key, for its owner alone."""

    def __init__(self, folder: Path, total: float) -> None:
        self.total = total
        self._most = nano(total, up=False, name="epsilon-total")
        made_directory(folder)
        self._path = folder / FILE
        with store_errors(f"the key of the documents in '{folder}' can neither be read nor written"):
            self._key = read_secret(folder / KEY_FILE)
        self._make()

    def names_of(self, text: str, identity: str | None = None) -> tuple[str, ...]:
        """What is charged for a document: keyed hashes of its `coarse` text, and of its `coarse` id if it has one."""
        of_text = pseudonym(self._key, "text", coarse(text))
        return (of_text,) if identity is None else (of_text, pseudonym(self._key, "id", coarse(identity)))

    def charge(self, names: Iterable[str], amount: int) -> None:
        """Charge each document, once, that many 1e-9 nats, or none of them; it is on the disk when this returns.
        `SpentError` if one has less than that left."""
        charged = sorted(set(names))
        if amount > self._most:
            raise SpentError(_TOO_MUCH)
        with self._changing() as database:
            for name in charged:
                database.execute("INSERT OR IGNORE INTO spent VALUES (?, 0)", (name,))
                (before,) = database.execute("SELECT amount FROM spent WHERE document = ?", (name,)).fetchone()
                if before + amount > self._most:
                    raise SpentError(_TOO_MUCH)
                database.execute("UPDATE spent SET amount = amount + ? WHERE document = ?", (amount, name))

    def give_back(self, names: Iterable[str], amount: int) -> None:
        """Take back what was charged for tokens that were never drawn; what cannot be written stays charged."""
        with self._changing() as database:
            for name in set(names):
                database.execute("UPDATE spent SET amount = amount - ? WHERE document = ?", (amount, name))

    def nats_of(self, name: str) -> float:
        with self._changing() as database:
            row = database.execute("SELECT amount FROM spent WHERE document = ?", (name,)).fetchone()
        return 0.0 if row is None else float(row[0]) / NANO

    def _make(self) -> None:
        check = pseudonym(self._key, "this file")
        with store_errors(f"'{self._path}' cannot be made"):
            make_file(self._path)
        with self._changing() as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise StoreError(
                    f"'{self._path}' was written by another version of leakmeter, which used other keys for "
                    "documents; use that version, or another --receipts, which resets all budgets"
                )
            if version == 0:
                database.execute("CREATE TABLE spent (document TEXT PRIMARY KEY, amount INTEGER NOT NULL) STRICT")
                database.execute("CREATE TABLE key (name TEXT NOT NULL) STRICT")
                database.execute("INSERT INTO key VALUES (?)", (check,))
                database.execute(f"PRAGMA user_version = {_VERSION}")
            if database.execute("SELECT name FROM key").fetchall() != [(check,)]:
                raise StoreError(
                    f"'{self._path}' was written with another key than '{self._path.with_name(KEY_FILE)}' holds, so "
                    "no document can be found in it; restore the key"
                )

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process has a part in, on the disk at its end."""
        # EXTRA also waits for the directory, without which a lost power supply could undo what was charged.
        with (
            database_errors(f"the epsilon spent cannot be recorded in '{self._path}'"),
            closing(connected(self._path, "synchronous = EXTRA")) as database,
            transaction(database),
        ):
            yield database
