"""`leakmeter models`: which models are known by name, which are on this machine, and fetching one."""

from __future__ import annotations

import json as json_format
import sys

from cyclopts import App

from leakmeter.cli.cache import app as cache_app
from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.core.json_object import JsonObject
from leakmeter.models import DEFAULT_MODEL, KNOWN_MODELS, KnownModel, cached_model, models_dir, pull_model, resolve

app = App(name="models", help="List known models, and fetch them.")
app.command(cache_app, name="cache")


@app.default
def list_models(*, json: Flag = False) -> None:
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
def pull(name: str, /, *, accept_licence: Flag = False) -> None:
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
    fields = (
        "download_bytes",
        "disk_bytes",
        "n_parameters",
        "licence",
        "licence_note",
        "terms_url",
        "source",
        "summary",
    )
    return {
        "name": model.name,
        "default": model.name == DEFAULT_MODEL,
        "cached": folder is not None,
        "path": None if folder is None else str(folder),
        **{name: getattr(model, name) for name in fields},
    }
