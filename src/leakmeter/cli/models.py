"""`leakmeter models`: which models are known by name, which are on this machine, and fetching one."""

from __future__ import annotations

import json as json_format
import sys
from typing import Any

from cyclopts import App

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.models import DEFAULT_MODEL, KNOWN_MODELS, KnownModel, cached_model, models_dir, pull_model, resolve

app = App(name="models", help="List the models known by name, and fetch them.")


@app.default
def list_models(*, json: Flag = False) -> None:
    """List the models known by name: cached or not, sizes, parameters, licence, source.

    Parameters
    ----------
    json
        Write one JSON document instead of a table; sizes in bytes.
    """
    models = [_row(model) for model in KNOWN_MODELS.values()]
    if json:
        document = {"cache": str(models_dir()), "default": DEFAULT_MODEL, "models": models}
        sys.stdout.write(json_format.dumps(document, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "cached", "download", "on disk", "parameters", "licence"):
        table.add_column(heading, justify="right" if heading in ("download", "on disk", "parameters") else "left")
    for row in models:
        table.add_row(
            row["name"] + (" *" if row["default"] else ""),
            "yes" if row["cached"] else "no",
            f"{row['download_bytes'] / 1e6:.0f} MB",
            f"{row['disk_bytes'] / 1e6:.0f} MB",
            f"{row['n_parameters'] / 1e6:.0f} M",
            row["licence"],
        )
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(table, soft_wrap=False)
    for row in models:
        note = f"{row['licence']}: {row['licence_note']}" + (f" ({row['terms_url']})" if row["terms_url"] else "")
        console.print(f"\n{row['name']}\n  {row['summary']}\n  from {row['source']}\n  {note}")
    console.print(f"\n* the default. Cache: {models_dir()}")
    console.print("A model can also be hf:ORG/NAME, a directory with safetensors, or a .gguf file.")


@app.command
def pull(name: str, /, *, accept_licence: Flag = False) -> None:
    """Fetch a model and convert it, once; then it is used without a network.

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
        found = resolve(name, notify=output.tell)
        output.tell(f"{name}: ready at '{found.path}'")


def _row(model: KnownModel) -> dict[str, Any]:
    folder = cached_model(model)
    return {
        "name": model.name,
        "default": model.name == DEFAULT_MODEL,
        "cached": folder is not None,
        "path": None if folder is None else str(folder),
        "download_bytes": model.download_bytes,
        "disk_bytes": model.disk_bytes,
        "n_parameters": model.n_parameters,
        "licence": model.licence,
        "licence_note": model.licence_note,
        "terms_url": model.terms_url,
        "source": model.source,
        "summary": model.summary,
    }
