"""Fingerprints of served models that were met before, so that one model has one name although its numbers are noisy.

A fingerprint is rounded, and noise may take it over the edge of a step: a run would not be found again, and be paid for
twice. The sums are kept beside the score cache. A model whose sums agree with those of one that was met under the same
name, revision and version has that one's fingerprint. No text of a user and no address is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from leakmeter.backends.served.fingerprint import Fingerprint
from leakmeter.core.written import make_private, write_whole
from leakmeter.errors import LeakmeterError
from leakmeter.models import scores_dir

_FILE: Final = "served.json"
_MOST: Final = 1000
SAME_NATS: Final = 0.3
"""By how much a sum may differ: noise moves it by 1e-3, another quantisation by more than this."""


def settled(fingerprint: Fingerprint, identity: Mapping[str, str | None]) -> Fingerprint:
    """The fingerprint of the same model from before, or the one that was found now, which is kept; `identity` is
    what else identifies the model."""
    name = json.dumps(dict(identity), sort_keys=True)
    folder = scores_dir()
    if folder is None:
        return fingerprint
    entries = _entries(folder / _FILE)
    for entry in entries:
        earlier = Fingerprint(entry["sha256"], tuple(entry["sums_nats"]))
        if entry["model"] == name and earlier.agrees(fingerprint, SAME_NATS):
            return Fingerprint(earlier.sha256, fingerprint.sums_nats)
    entries.append({"model": name, "sha256": fingerprint.sha256, "sums_nats": fingerprint.sums_nats})
    # Without the file, all that is lost is what noise may do to a name.
    with suppress(OSError, LeakmeterError):
        make_private(folder, named=True)
        write_whole(folder / _FILE, json.dumps(entries[-_MOST:], indent=1).encode())
    return fingerprint


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_bytes())
        good = [
            {
                "model": str(entry["model"]),
                "sha256": str(entry["sha256"]),
                "sums_nats": [float(x) for x in entry["sums_nats"]],
            }
            for entry in entries
        ]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
    return good
