"""`leakmeter cache`: how much the score cache holds, and emptying it."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from leakmeter.models import scores_dir

if TYPE_CHECKING:
    from leakmeter.store.scores import ScoreCache

app = App(
    name="cache",
    help="""Show the score cache, and empty it.

    It lets a run that was made before, or one that differs in little, go without the model. It holds numbers from which
    texts might be reconstructed, is readable by you alone, and can be emptied at any time. LEAKMETER_SCORES=DIR moves
    it, LEAKMETER_SCORES=off turns it off.""",
)

_JSON = Annotated[bool, Parameter(negative="")]
_OFF = "the score cache is turned off by LEAKMETER_SCORES=off; unset that to see, or clear, what was kept before\n"


@app.default
def show(*, json: _JSON = False) -> None:
    """Show where the score cache is, how much it holds and how much it may hold.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    folder = scores_dir()
    if folder is None:
        _write({"path": None, "entries": 0, "bytes": 0, "max_bytes": 0}, _OFF, json)
        return
    cache = _cache(folder)
    entries, n_bytes = cache.n_entries, cache.n_bytes
    _write(
        {"path": str(cache.path), "entries": entries, "bytes": n_bytes, "max_bytes": cache.max_bytes},
        f"{cache.path}\n{_amount(entries, n_bytes)} of at most {_megabytes(cache.max_bytes)}\n",
        json,
    )


@app.command
def clear(*, json: _JSON = False) -> None:
    """Empty the score cache: what it held is overwritten and its space given back.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    folder = scores_dir()
    if folder is None:
        _write({"path": None, "entries": 0, "bytes": 0}, _OFF, json)
        return
    cache = _cache(folder)
    entries, n_bytes = cache.n_entries, cache.n_bytes
    cache.clear()
    _write(
        {"path": str(cache.path), "entries": entries, "bytes": n_bytes},
        f"cleared {_amount(entries, n_bytes)} from {cache.path}\n",
        json,
    )


def _cache(folder: Path) -> ScoreCache:
    from leakmeter.store.scores import FILE_NAME, ScoreCache

    # Counting and clearing read no entry: they need no secret.
    return ScoreCache(folder / FILE_NAME, b"", notify=_tell)


def _write(document: dict[str, object], text: str, json: bool) -> None:
    sys.stdout.write(json_format.dumps(document, indent=2) + "\n" if json else text)


def _amount(entries: int, n_bytes: int) -> str:
    return f"{entries} {'entry' if entries == 1 else 'entries'}, {_megabytes(n_bytes)}"


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB"


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
