"""What a directory must hold before it is loaded as a model: a configuration and whole, pickle-free weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from leakmeter.errors import ModelError

_INDEX: Final = "model.safetensors.index.json"
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def check_model_folder(folder: Path, name: str) -> None:
    """Raises a ModelError that says what to do unless `folder`, which the user called `name`, can be loaded."""
    weights = any(folder.glob("*.safetensors"))
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    ggufs = sorted(file.name for file in folder.glob("*.gguf"))
    if not weights and pickles:
        raise ModelError(
            f"'{name}' has only pickled weights ('{pickles[0]}'), which can run code and are never loaded; convert "
            "them where you trust them: AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)"
        )
    if not weights and ggufs:
        raise ModelError(f"'{name}' is a directory with GGUF weights; give the file itself: '{folder / ggufs[0]}'")
    if not weights or not (folder / "config.json").is_file():
        missing = "config.json" if weights else "*.safetensors"
        raise ModelError(f"'{name}' has no {missing}; give a directory that save_pretrained wrote, with both in it")
    if shards := missing_shards(folder):
        raise ModelError(f"'{name}' lacks '{shards[0]}' ({len(shards)} missing in all); fetch the weights again")


def missing_shards(folder: Path) -> list[str]:
    """Weight files that the folder's index names and the folder lacks, in order of name."""
    index = folder / _INDEX
    if not index.is_file():
        return []
    try:
        files = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"'{index}' cannot be read as an index of weights ({error}); fetch it again") from error
    return sorted(file for file in files if not (folder / file).is_file())
