"""`leakmeter cache`: how much the score cache holds, and emptying it."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Any

from cyclopts import App

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.models import scores_dir

if TYPE_CHECKING:
    from leakmeter.runs.scores import ScoreCache

app = App(
    name="cache",
    help="""Show the score cache, and empty it.

    It lets a run that was made before, or one that differs in little, go without the model. It holds numbers from which
    texts might be reconstructed, is readable by you alone, and can be emptied at any time. LEAKMETER_SCORES=DIR moves
    it, LEAKMETER_SCORES=off turns it off.""",
)

_OFF = "the score cache is turned off by LEAKMETER_SCORES=off; unset that to see, or clear, what was kept before"


@app.default
def show(*, json: Flag = False) -> None:
    """Show where the score cache is, how much it holds and how much it may hold.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    cache = _cache()
    held = _held(cache)
    most = 0 if cache is None else cache.max_bytes
    _write(held | {"max_bytes": most}, f"{held['path']}\n{_amount(held)} of at most {_megabytes(most)}", json)


@app.command
def clear(*, json: Flag = False) -> None:
    """Empty the score cache: what it held is overwritten and its space given back.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    cache = _cache()
    held = _held(cache)
    if cache is not None:
        cache.clear()
    _write(held, f"cleared {_amount(held)} from {held['path']}", json)


def _cache() -> ScoreCache | None:
    """The user's, or None where it is turned off."""
    folder = scores_dir()
    if folder is None:
        return None
    from leakmeter.runs.scores import FILE_NAME, ScoreCache

    # Counting and clearing read no entry: they need no secret.
    return ScoreCache(folder / FILE_NAME, b"", notify=output.tell)


def _held(cache: ScoreCache | None) -> dict[str, Any]:
    """What a cache holds, as `--json` says it."""
    if cache is None:
        return {"path": None, "entries": 0, "bytes": 0}
    return {"path": str(cache.path), "entries": cache.n_entries, "bytes": cache.n_bytes}


def _write(document: dict[str, Any], text: str, json: bool) -> None:
    said = json_format.dumps(document, indent=2) if json else _OFF if document["path"] is None else text
    output.print_plain(f"{said}\n")


def _amount(held: dict[str, Any]) -> str:
    entries = held["entries"]
    return f"{entries} {'entry' if entries == 1 else 'entries'}, {_megabytes(held['bytes'])}"


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB"
