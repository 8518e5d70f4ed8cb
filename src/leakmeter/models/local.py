"""What a directory must hold before it is loaded as a model: a configuration and whole, pickle-free weights; and what
libraries say when they read it, as one line."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.errors import LeakmeterError, ModelError

FROM_DISK: Final = {"local_files_only": True, "trust_remote_code": False}
"""Options of `from_pretrained` that keep it from the network, and from code that a model brings."""
WEIGHTS_FROM_DISK: Final = {**FROM_DISK, "use_safetensors": True, "output_loading_info": True}
"""The same for weights: no pickles, and what `check_loaded` reads."""
_WHOLE: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_PLAIN_NAME: Final = re.compile(r"[\w][\w.-]*\.safetensors", re.ASCII)
_MOST: Final = {
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 4096),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "n_embd"), 2**24),
    **dict.fromkeys(("d_model", "intermediate_size", "vocab_size"), 2**24),
}
"""Largest numbers of a configuration: building a model of more layers, or of wider ones, would not end."""
_MOST_JSON_BYTES: Final = 64 << 20
_FETCH_AGAIN: Final = "fetch the weights again"


def check_model_folder(folder: Path, name: str) -> None:
    """Refuse a folder that cannot be loaded, under the name that the user gave it. What is loaded is
    `model.safetensors`, or the files that its index names: each a safetensors file in the folder itself, and hashed by
    `weights_hash`."""
    weights = any(folder.glob("*.safetensors"))
    pickles = sorted(file.name for kind in ("bin", "pt", "pth", "ckpt", "pkl") for file in folder.glob(f"*.{kind}"))
    ggufs = sorted(file.name for file in folder.glob("*.gguf"))
    if not weights and pickles:
        raise ModelError(
            f"'{name}' has only pickled weights ('{pickles[0]}'), which can run code and are never loaded; convert "
            "them on a machine where you trust them: AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)"
        )
    if not weights and ggufs:
        raise ModelError(f"'{name}' is a directory with GGUF weights; give the file itself: '{folder / ggufs[0]}'")
    if (folder / "adapter_config.json").exists():
        raise ModelError(
            f"'{name}' holds an adapter (adapter_config.json), whose base weights are elsewhere; merge them, "
            "merge_and_unload().save_pretrained(NEW), and give NEW"
        )
    if not weights or not (folder / "config.json").is_file():
        missing = "config.json" if weights else "*.safetensors"
        raise ModelError(f"'{name}' has no {missing}; give a directory that save_pretrained wrote, with both in it")
    config = _json_object(folder / "config.json", name)
    if "transformers_weights" in config:
        raise ModelError(
            f"the config.json of '{name}' names weights of its own (transformers_weights); remove that key"
        )
    if not (folder / _WHOLE).is_file() and not (folder / _INDEX).is_file():
        raise ModelError(f"'{name}' has neither {_WHOLE} nor {_INDEX}; give a directory that save_pretrained wrote")
    if shards := missing_shards(folder):
        raise ModelError(f"'{name}' lacks '{shards[0]}' ({len(shards)} missing in all); {_FETCH_AGAIN}")
    inner = config.get("text_config")
    for part in (config, inner if isinstance(inner, dict) else {}):
        for key, most in _MOST.items():
            value = part.get(key)
            if isinstance(value, (int, float)) and value > most:
                raise ModelError(f"the config.json of '{name}' has {key} {value:.6g}; {most:,} are built at most")


def missing_shards(folder: Path) -> list[str]:
    """Weight files that the folder's index names and the folder lacks, in order of name; refused where the index names
    what is no safetensors file of this folder."""
    index = folder / _INDEX
    if not index.is_file():
        return []
    files = _json_object(index, folder.name).get("weight_map")
    if not isinstance(files, dict) or not files or not all(isinstance(file, str) for file in files.values()):
        raise ModelError(f"'{index}' has no weight_map from weights to files; {_FETCH_AGAIN}")
    named = set(files.values())
    if strange := sorted(file for file in named if not _PLAIN_NAME.fullmatch(file)):
        raise ModelError(
            f"'{index}' names {strange[0]!r} as a file of weights; only *.safetensors files of that folder itself are "
            "loaded"
        )
    return sorted(file for file in named if not (folder / file).is_file())


def _json_object(path: Path, name: str) -> JsonObject:
    try:
        if path.stat().st_size > _MOST_JSON_BYTES:
            raise ValueError(f"more than {_MOST_JSON_BYTES >> 20} MiB")
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:100]
        raise ModelError(f"the {path.name} of '{name}' cannot be read as JSON ({reason}); {_FETCH_AGAIN}") from None
    if not isinstance(content, dict):
        raise ModelError(f"the {path.name} of '{name}' is not a JSON object; {_FETCH_AGAIN}")
    return content


@contextmanager
def foreign_errors(
    failure: str, advice: str | Callable[[Exception], str], *, disk_failure: str | None = None
) -> Iterator[None]:
    """Give whatever a library raises while it reads files as a ModelError of one line: what failed, why, and what to
    do, which may depend on the error. Errors of the operating system become one where `disk_failure` says what failed;
    else they pass, as our own errors do."""
    try:
        yield
    except LeakmeterError:
        raise
    except Exception as error:
        told = advice if isinstance(advice, str) else advice(error)
        name, text = type(error).__name__, " ".join(str(error).split())
        of_disk = error if isinstance(error, OSError) and error.errno is not None else None
        if name == "SafetensorError" and ("code: 28" in text or "No space left" in text):
            of_disk = OSError(errno.ENOSPC, "no space left on device")
        if of_disk is None:
            raise ModelError(f"{failure}: {text[:200] or name}; {told}") from error
        if disk_failure is not None:
            raise ModelError(f"{disk_failure}: {of_disk.strerror or of_disk}; {told}") from error
        raise of_disk  # noqa: B904 (mostly the error itself)


def check_loaded(name: str, loaded: Mapping[str, Collection[Any]]) -> None:
    """Refuse weights that do not fit their configuration: missing ones would be random, and be measured. `loaded` is
    the loading info of `from_pretrained(..., output_loading_info=True, ignore_mismatched_sizes=True)`, in which tied
    weights do not count as missing."""
    by_kind = {
        "missing": list(loaded["missing_keys"]),
        "unexpected": list(loaded["unexpected_keys"]),
        "of another shape": [key for key, *_ in loaded["mismatched_keys"]],
    }
    misfits = [
        f"{len(names)} {kind} ({', '.join(sorted(names)[:3])}{', …' if len(names) > 3 else ''})"
        for kind, names in by_kind.items()
        if names
    ]
    if misfits:
        raise ModelError(
            f"the weights of '{name}' do not fit its configuration: {'; '.join(misfits)}; give weights and config.json "
            "that belong together"
        )
