"""Objects under one prefix of an object store: few operations, and errors in one line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from leakmeter.errors import StoreError, UsageError

_AT_ONCE: Final = 16
_TIMES: Final = {"timeout": timedelta(minutes=2), "connect_timeout": timedelta(seconds=5)}
_RETRIES: Final = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}
_HTTP_ALLOWED: Final = ("AWS_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "ALLOW_HTTP")
_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist", re.IGNORECASE)
_DENIED: Final = (
    "access is denied; check the permissions of the environment's credentials there (list, read, write, delete)"
)
_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
# What is said of an error that obstore tells in words alone; the first that is found counts. Answers of servers are not
# shown: anything may stand in them.
_CAUSES: Final = (
    (r"169\.254\.169\.254|metadata\.google|metadata endpoint", "there are no credentials for it in the environment"),
    (r"BadScheme", "its endpoint is http; give one of https, or set {scheme}_ALLOW_HTTP=true"),
    (r"Account must be specified", "the environment names no account; set AZURE_STORAGE_ACCOUNT_NAME"),
    (r"status code: 40[13]\b", _DENIED),
    (r"status code: 30[1278]\b", "it is in another region; set AWS_REGION"),
    (r"error sending request|HTTP error|operation timed out", "it cannot be reached; see its endpoint and the network"),
)
_SCHEMES: Final = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}


Version = Mapping[str, str]
"""Tells an object from others that had or will have its name: 'e_tag' and 'version', of which a store uses either."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    name: str
    """Below the prefix."""
    version: Version
    modified: datetime


class Objects:
    """Objects under one prefix of a store. Every write is one request: an object is there whole or not at all.
    Credentials and endpoint are those of the environment, as obstore reads it."""

    def __init__(self, url: str, store: Any = None) -> None:
        self.url = url
        try:
            from obstore import exceptions
            from obstore.store import from_url
        except ImportError:
            raise UsageError(f"'{url}' needs obstore: pip install 'leakmeter[stores]'") from None
        self._exceptions: Any = exceptions
        if store is None:
            http = any(os.environ.get(name, "").lower() in ("1", "true") for name in _HTTP_ALLOWED)
            with self._errors():
                store = from_url(url, client_options={**_TIMES, "allow_http": http}, retry_config=_RETRIES)
        self._store = store

    def create(self, name: str, content: bytes) -> Version:
        """Write an object where there is none, else `FileExistsError`; returns its version."""
        return self._put(name, content, "create")

    def replace(self, name: str, content: bytes, version: Version) -> Version:
        """Write an object over one version of it; `FileExistsError` where there is another one now, or none."""
        return self._put(name, content, dict(version))

    def put(self, name: str, content: bytes) -> Version:
        return self._put(name, content, "overwrite")

    def get(self, name: str) -> tuple[bytes, Version] | None:
        """An object's content and version; None where there is none."""
        with self._errors():
            try:
                stored = self._store.get(name)
                return bytes(stored.bytes()), _version(stored.meta)
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

    def get_all(self, names: Sequence[str], on_object: Callable[[str, bytes], None]) -> None:
        """Read objects, several at a time; missing ones are left out. `on_object` gets name and content, in order."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                for name, stored in zip(some, pool.map(self.get, some), strict=True):
                    if stored is not None:
                        on_object(name, stored[0])

    def under(self, folder: str = "") -> Sequence[StoredObject]:
        return self.top(folder)[0]

    def top(self, folder: str = "") -> tuple[Sequence[StoredObject], Sequence[str]]:
        """Objects directly in a folder, and the folders that are in it, by name."""
        with self._errors():
            listed = self._store.list_with_delimiter(folder)
        objects = (StoredObject(entry["path"], _version(entry), entry["last_modified"]) for entry in listed["objects"])
        return sorted(objects, key=lambda entry: entry.name), sorted(listed["common_prefixes"])

    def delete(self, name: str) -> None:
        with self._errors():
            try:
                self._store.delete(name)
            except FileNotFoundError as error:
                self._check_bucket(error)

    def delete_all(self, names: Sequence[str]) -> None:
        """Delete objects, many in a request where the store can; some may be gone."""
        with self._errors():
            try:
                self._store.delete(names)
            except FileNotFoundError as error:
                self._check_bucket(error)
                for name in names:
                    self.delete(name)

    def unconditional(self) -> StoreError:
        """The error for a store on which two could write the same object."""
        return StoreError(
            f"'{self.url}': the store has no conditional writes, so two writers could damage a run; name another store"
        )

    def _put(self, name: str, content: bytes, mode: Any) -> Version:
        with self._errors():
            try:
                # In one request, which alone can be conditional.
                return _version(self._store.put(name, content, mode=mode, use_multipart=False))
            except (self._exceptions.AlreadyExistsError, self._exceptions.PreconditionError):
                raise FileExistsError(name) from None
            except FileNotFoundError as error:
                self._check_bucket(error)
                raise FileExistsError(name) from None

    def _check_bucket(self, error: Exception) -> None:
        if _NO_BUCKET.search(str(error)):
            raise StoreError(f"'{self.url}': there is no such bucket; make it, or name another") from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of obstore as one line of our own: its texts quote servers and requests."""
        try:
            yield
        except (self._exceptions.UnauthenticatedError, self._exceptions.PermissionDeniedError):
            raise StoreError(f"'{self.url}': {_DENIED}") from None
        except (self._exceptions.NotSupportedError, NotImplementedError):
            raise self.unconditional() from None
        except self._exceptions.BaseError as error:
            message = str(error)
            self._check_bucket(error)
            why = next((cause for pattern, cause in _CAUSES if re.search(pattern, message)), None)
            if why is None and (status := _STATUS.search(message)):
                why = f"it answered with HTTP status {status[1]}"
            why = (why or "it cannot be used").format(scheme=_SCHEMES.get(self.url[:2], "AWS"))
            raise StoreError(f"'{self.url}': {why}") from None


def _version(entry: Any) -> Version:
    return {name: entry[name] for name in ("e_tag", "version") if entry[name] is not None}
