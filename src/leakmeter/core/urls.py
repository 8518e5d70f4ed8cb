"""URLs of object stores where a directory may stand, and private copies of what is there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leakmeter.errors import UsageError

_URL: Final = re.compile(r"(s3|gs|az):(?P<rest>|/.*)", re.DOTALL | re.IGNORECASE)
_OTHER_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+):/", re.IGNORECASE)
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WRONG: Final = re.compile(r"[^\x21-\x7e]|[?#%\\*]")


def url_of(path: Path) -> str | None:
    """The URL of an object store that a path spells; None of a path.

    `Path` takes one of the slashes away: Path("s3://b/x") is s3:/b/x. A directory called 's3:' is named by its absolute
    path.

    Raises:
        UsageError: the URL holds credentials, names no bucket, a place that no object has, or another kind of store.

    >>> url_of(Path("s3://bucket/team/runs")), url_of(Path("runs"))
    ('s3://bucket/team/runs', None)
    """
    spelled = path.as_posix()
    match = _URL.fullmatch(spelled)
    if match is None:
        if other := _OTHER_URL.match(spelled):
            raise UsageError(
                f"no runs are kept at {other[1]}:// URLs; give a directory, or an s3://, gs:// or az:// URL"
            )
        return None
    scheme, rest = match[1].lower(), match["rest"].strip("/")
    # What is refused may be a secret, and is not shown.
    if "@" in rest or "?" in rest:
        raise UsageError(
            f"a {scheme}:// URL is given with credentials or a query; give {scheme}://BUCKET/PREFIX alone, and "
            "credentials in the environment"
        )
    bucket, *prefix = rest.split("/")
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(f"a {scheme}:// URL names no bucket; give {scheme}://BUCKET/PREFIX")
    if any(part in ("", ".", "..") or _WRONG.search(part) for part in prefix):
        raise UsageError(
            f"the prefix of a {scheme}:// URL has to be names of printable ASCII between single slashes, without "
            "'..', ?, #, %, * and backslashes; give another"
        )
    return "/".join((f"{scheme}://{bucket}", *prefix))


def check_directory(path: Path) -> None:
    """Refuse the URL of an object store."""
    if (url := url_of(path)) is not None:
        raise UsageError(f"'{url}' is in an object store, which keeps only runs of cases; give a directory")


@dataclass(frozen=True)
class LocalCopy:
    """A private copy of what is at a URL. Messages name the URL."""

    path: Path
    url: str


_copies: Final[dict[str, LocalCopy]] = {}


def copy_of(path: Path, url: str) -> LocalCopy:
    """Remember what a path is a copy of."""
    return _copies.setdefault(str(path), LocalCopy(path, url))


def forget_copy(path: Path) -> None:
    _copies.pop(str(path), None)


def place_of(path: Path) -> str:
    """A path as the user gave it: the URL that it spells or is a copy of, or the path itself."""
    return url_of(path) or as_given(str(path))


def as_given(text: str) -> str:
    """A text in which the paths of copies are replaced by their URLs."""
    for path, copy in list(_copies.items()):
        text = text.replace(path, copy.url)
    return text
