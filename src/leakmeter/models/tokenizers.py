"""What the user calls a tokenizer becomes a local directory; of a model of the hub, no weights are fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leakmeter.errors import ModelError
from leakmeter.models import hub
from leakmeter.models.cache import Notify
from leakmeter.models.resolve import resolve

_FILE: Final = "tokenizer.json"


def tokenizer_folder(name: str, *, notify: Notify) -> Path:
    """The directory of a tokenizer by the name a user gave it, fetched if need be: a known model, hf:ORG/NAME, a
    directory with a tokenizer.json, or a .gguf file."""
    if name.startswith(hub.PREFIX):
        return hub.tokenizer_snapshot(*hub.split_hub_name(name), notify=notify)
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / _FILE).is_file():
            raise ModelError(f"'{name}' has no {_FILE}; give a directory that a tokenizer's save_pretrained wrote")
        return path.absolute()
    return Path(resolve(name, notify=notify, hash_weights=False).path)
