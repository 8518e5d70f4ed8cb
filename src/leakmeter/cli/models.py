"""`leakmeter models`: which models are known by name, which are on this machine, fetching one; and the score cache."""

from __future__ import annotations

import json as json_format
import sys
from typing import TYPE_CHECKING

from cyclopts import App

from leakmeter.commands import output
from leakmeter.commands.options import FlagOption
from leakmeter.core.record import JsonObject
from leakmeter.models import (
    DEFAULT_MODEL,
    KNOWN_MODELS,
    KnownModel,
    cached_model,
    models_dir,
    pull_model,
    resolve,
    scores_dir,
)

if TYPE_CHECKING:
    from leakmeter.engine.scores import ScoreCache

app = App(name="models", help="List known models, and fetch them.")
cache_app = App(
    name="cache",
    help="""Show the score cache, and empty it.

    With the cache, a run that was made before, or one that differs little, does not need the model. It holds numbers
    from which texts might be reconstructed; only you can read it, and you can empty it at any time.
    LEAKMETER_SCORES=DIR moves it, LEAKMETER_SCORES=off turns it off.""",
)
app.command(cache_app)
_OFF = "the score cache is turned off by LEAKMETER_SCORES=off; unset that to see or clear the existing cache"


@app.default
def list_models(*, json: FlagOption = False) -> None:
    """List the models known by name: cached or not, sizes, parameters, licence, source.

    Parameters
    ----------
    json
        Write one JSON document instead of a table; sizes in bytes.
    """
    models = list(KNOWN_MODELS.values())
    if json:
        document = {
            "cache": str(models_dir()),
            "default": DEFAULT_MODEL,
            "models": [_record(model) for model in models],
        }
        sys.stdout.write(json_format.dumps(document, indent=2) + "\n")
        return
    from rich.console import Console

    rows = [
        (
            model.name + (" *" if model.name == DEFAULT_MODEL else ""),
            "yes" if cached_model(model) else "no",
            f"{model.download_bytes / 1e6:.0f} MB",
            f"{model.disk_bytes / 1e6:.0f} MB",
            f"{model.n_parameters / 1e6:.0f} M",
            model.licence,
        )
        for model in models
    ]
    table = output.table(("name", "cached", "download", "on disk", "parameters", "licence"), rows, right=(2, 3, 4))
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(table, soft_wrap=False)
    for model in models:
        note = f"{model.licence}: {model.licence_note}" + (f" ({model.terms_url})" if model.terms_url else "")
        console.print(f"\n{model.name}\n  {model.summary}\n  from {model.source}\n  {note}")
    console.print(f"\n* the default. Cache: {models_dir()}")
    console.print("A model can also be hf:ORG/NAME, a directory with safetensors, or a .gguf file.")


@app.command
def pull(name: str, /, *, accept_licence: FlagOption = False) -> None:
    """Fetch and convert a model, once; afterwards it needs no network.

    Parameters
    ----------
    name
        A known name, hf:ORG/NAME, or a .gguf file to convert.
    accept_licence
        Accept the model's terms, for models that come under terms.
    """
    if name in KNOWN_MODELS:
        model = KNOWN_MODELS[name]
        had = cached_model(model)
        folder = pull_model(model, notify=output.tell, accept_licence=accept_licence)
        output.tell(f"{name}: {'already' if had else 'ready'} at '{folder}' ({model.licence})")
    else:
        resolved = resolve(name, notify=output.tell)
        output.tell(f"{name}: ready at '{resolved.path}'")


def _record(model: KnownModel) -> JsonObject:
    folder = cached_model(model)
    sizes = ("download_bytes", "disk_bytes", "n_parameters")
    return {
        "name": model.name,
        "default": model.name == DEFAULT_MODEL,
        "cached": folder is not None,
        "path": None if folder is None else str(folder),
        **{
            name: getattr(model, name) for name in (*sizes, "licence", "licence_note", "terms_url", "source", "summary")
        },
    }


@cache_app.default
def show_cache(*, json: FlagOption = False) -> None:
    """Show where the score cache is, how much it holds and how much it may hold.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    cache = _cache()
    held, amount = _held(cache)
    most = 0 if cache is None else cache.max_bytes
    _write({**held, "max_bytes": most}, f"{held['path']}\n{amount} of at most {_megabytes(most)}", json=json)


@cache_app.command(name="clear")
def clear_cache(*, json: FlagOption = False) -> None:
    """Empty the score cache: overwrite its contents and free their space.

    Parameters
    ----------
    json
        Write one JSON object instead; sizes in bytes.
    """
    cache = _cache()
    held, amount = _held(cache)
    if cache is not None:
        cache.clear()
    _write(held, f"cleared {amount} from {held['path']}", json=json)


def _cache() -> ScoreCache | None:
    """The user's, or None where it is turned off."""
    folder = scores_dir()
    if folder is None:
        return None
    from leakmeter.engine.scores import FILE_NAME, ScoreCache

    # Counting and clearing read no entry: they need no secret.
    return ScoreCache(folder / FILE_NAME, b"", notify=output.tell)


def _held(cache: ScoreCache | None) -> tuple[JsonObject, str]:
    """What the cache holds, as a record and in words."""
    if cache is None:
        return {"path": None, "entries": 0, "bytes": 0}, ""
    n_entries, n_bytes = cache.n_entries, cache.n_bytes
    amount = f"{n_entries} {'entry' if n_entries == 1 else 'entries'}, {_megabytes(n_bytes)}"
    return {"path": str(cache.path), "entries": n_entries, "bytes": n_bytes}, amount


def _write(record: JsonObject, text: str, *, json: bool) -> None:
    shown = json_format.dumps(record, indent=2) if json else _OFF if record["path"] is None else text
    output.print_plain(f"{shown}\n")


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB"
