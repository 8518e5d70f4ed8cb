"""What tells one served model from another where its weights cannot be hashed: its own numbers of a few fixed texts.

A fingerprint is rounded, and noise may take it over the edge of a step: a run would not be found again, and be paid for
twice. The sums are kept beside the score cache. A model whose sums agree with those of one that was met under the same
name, revision and version has that one's fingerprint. No text of a user and no address is kept.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leakmeter.backends.served.dialect import UNCACHED, Dialect, SequenceToScore
from leakmeter.core.backend import Tokenizer
from leakmeter.core.files import make_private, write_whole
from leakmeter.core.record import JsonObject
from leakmeter.errors import LeakmeterError, ScoreError
from leakmeter.models import scores_dir

PROBES: Final = (
    ("The harbour master wrote to the baker: ", "the boat with the flour comes on Thursday, at noon."),
    ("Opening hours of the library: Monday to Friday, ", "9:30 to 18:00; the reading room closes an hour earlier."),
    ("def area(width, height):\n    ", "return width * height  # in square metres"),
    ("Liste der Zutaten: Mehl, Zucker, ", "zwei Eier, ein Glas Milch und etwas Salz."),
)
"""Prompts and responses: our own, so that nobody's texts are sent to find out what is served."""
_STEP_NATS: Final = 0.5
"""A response's sum is rounded to it. Floating-point noise moves a sum by 1e-3, another quantisation by 0.3 or more."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    sha256: str
    """First 16 digits of the hash of the sums, each rounded to half a nat."""
    sums_nats: tuple[float, ...]
    """Log-probability of each probe's response.

    Rounding cannot keep what lies at an edge from falling to either side: `agrees` compares these.
    """

    def agrees(self, other: Fingerprint, tolerance_nats: float) -> bool:
        """Whether both may be of one model, with the same tokenizer."""
        return len(self.sums_nats) == len(other.sums_nats) and all(
            ours == theirs or abs(ours - theirs) <= tolerance_nats
            for ours, theirs in zip(self.sums_nats, other.sums_nats, strict=True)
        )


def fingerprint(dialect: Dialect, tokenizer: Tokenizer) -> Fingerprint:
    # Without states kept of earlier requests, where that can be asked for.
    controlled = "cache" in dialect.controls
    log_probs = [
        dialect.probed_log_probs(scored, UNCACHED).log_probs if controlled else dialect.target_log_probs(scored)
        for scored in probes(tokenizer)
    ]
    if len({value for values in log_probs for value in values.tolist()}) == 1:
        raise ScoreError(
            "the server returns the same log-probability for all tokens of four texts, whatever precedes them; its "
            "answers do not come from a language model"
        )
    sums = tuple(float(values.sum()) for values in log_probs)
    rounded = " ".join(f"{round(total / _STEP_NATS) if math.isfinite(total) else total}" for total in sums)
    return Fingerprint(hashlib.sha256(rounded.encode()).hexdigest()[:16], sums)


def probes(tokenizer: Tokenizer) -> Iterator[SequenceToScore]:
    for prompt, response in PROBES:
        ids = tokenizer.encode_data(prompt, first=True).ids
        yield SequenceToScore((*tokenizer.start_ids, *ids), tokenizer.encode_data(response, first=False).ids)


SAME_NATS: Final = 0.3
"""By how much a sum may differ: noise moves it by 1e-3, another quantisation by more than this."""


def settled(fingerprint: Fingerprint, identity: Mapping[str, str | None]) -> Fingerprint:
    """The kept fingerprint of the same model, or else this one, which is then kept; `identity` is what else identifies
    the model."""
    name = json.dumps(dict(identity), sort_keys=True)
    folder = scores_dir()
    if folder is None:
        return fingerprint
    path = folder / "served.json"
    entries = _entries(path)
    for entry in entries:
        earlier = Fingerprint(entry["sha256"], tuple(entry["sums_nats"]))
        if entry["model"] == name and earlier.agrees(fingerprint, SAME_NATS):
            return Fingerprint(earlier.sha256, fingerprint.sums_nats)
    entries.append({"model": name, "sha256": fingerprint.sha256, "sums_nats": fingerprint.sums_nats})
    # Without the file, all that is lost is what noise may do to a name.
    with suppress(OSError, LeakmeterError):
        make_private(folder, named=True)
        write_whole(path, json.dumps(entries[-1000:], indent=1).encode())
    return fingerprint


def _entries(path: Path) -> list[JsonObject]:
    try:
        return [
            {
                "model": str(entry["model"]),
                "sha256": str(entry["sha256"]),
                "sums_nats": [float(x) for x in entry["sums_nats"]],
            }
            for entry in json.loads(path.read_bytes())
        ]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
