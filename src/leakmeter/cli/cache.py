"""`leakmeter models cache`: how much the score cache holds, and emptying it."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cyclopts import App

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.models import scores_dir
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.json_object import JsonObject
    from leakmeter.engine.scores import ScoreCache

app = App(
    name="cache",
    help="""Show the score cache, and empty it.

    With the cache, a run that was made before, or one that differs little, does not need the model. It holds numbers
    from which texts might be reconstructed; only you can read it, and you can empty it at any time.
    LEAKMETER_SCORES=DIR moves it, LEAKMETER_SCORES=off turns it off.""",
)

_OFF = "the score cache is turned off by LEAKMETER_SCORES=off; unset that to see or clear the existing cache"


@app.default
def show(*, json: Flag = False) -> None:
    """Show where the score cache is, how much it holds and how much it may hold.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    cache = _cache()
    held = _Held.from_cache(cache)
    most = 0 if cache is None else cache.max_bytes
    _write({**asdict(held), "max_bytes": most}, f"{held.path}\n{held} of at most {_megabytes(most)}", json)


@app.command
def clear(*, json: Flag = False) -> None:
    """Empty the score cache: overwrite its contents and free their space.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    cache = _cache()
    held = _Held.from_cache(cache)
    if cache is not None:
        cache.clear()
    _write(asdict(held), f"cleared {held} from {held.path}", json)


@dataclass(frozen=True, slots=True)
class _Held:
    path: str | None
    entries: int
    bytes: int

    @classmethod
    def from_cache(cls, cache: ScoreCache | None) -> _Held:
        return cls(None, 0, 0) if cache is None else cls(str(cache.path), cache.n_entries, cache.n_bytes)

    @override
    def __str__(self) -> str:
        return f"{self.entries} {'entry' if self.entries == 1 else 'entries'}, {_megabytes(self.bytes)}"


def _cache() -> ScoreCache | None:
    """The user's, or None where it is turned off."""
    folder = scores_dir()
    if folder is None:
        return None
    from leakmeter.engine.scores import FILE_NAME, ScoreCache

    # Counting and clearing read no entry: they need no secret.
    return ScoreCache(folder / FILE_NAME, b"", notify=output.tell)


def _write(record: JsonObject, text: str, json: bool) -> None:
    shown = json_format.dumps(record, indent=2) if json else _OFF if record["path"] is None else text
    output.print_plain(f"{shown}\n")


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB"
