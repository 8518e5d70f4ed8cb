"""What the user calls a model becomes a local directory: a known name, hf:ORG/NAME, a directory or a .gguf file; so
does what the user calls a tokenizer, of which no weights are fetched. And which models are known, for programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from leakmeter.errors import ModelError, UnknownNameError
from leakmeter.models import hub, pull
from leakmeter.models.cache import Notify, disk_errors, settings_hash, weights_hash
from leakmeter.models.local import check_model_folder
from leakmeter.models.pull import cached_model
from leakmeter.models.registry import KNOWN_MODELS, KnownModel


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """Where a model's weights are, and the SHA-256 that names them."""

    name: str
    """What the user said."""
    path: str
    """Local directory; the hub's ORG/NAME only when nothing may be downloaded and nothing is cached."""
    is_hub: bool
    """Whether the weights come from the hub."""
    weights_sha256: str | None
    """See `weights_hash`; None while the weights are not on this machine, or where none was asked for."""
    settings_sha256: str | None = None
    """See `settings_hash`; None where `weights_sha256` is."""


def resolve(name: str, *, notify: Notify, download: bool = True, hash_weights: bool = True) -> ResolvedModel:
    """Find a model by the name a user gave; fetch and convert it first if need be. `notify` gets a line about each
    thing that takes time; once everything is cached it is not called and no network is touched. With `download=False`
    nothing is fetched or converted, and what would need it is a ModelError, except for a hub model, which is returned
    without a hash. With `hash_weights=False` no model is hashed: a file has to be read whole the first time."""
    if name.startswith(hub.PREFIX):
        repository, revision = hub.split_hub_name(name)
        snapshot = hub.cached_snapshot(repository, revision)
        if snapshot is None and not download:
            return ResolvedModel(name=name, path=repository, is_hub=True, weights_sha256=None)
        snapshot = snapshot or hub.fetch_snapshot(repository, revision, notify=notify)
        return _local(name, snapshot, is_hub=True, hashed=hash_weights)
    if name in KNOWN_MODELS:
        model = KNOWN_MODELS[name]
        folder = pull.pull_model(model, notify=notify) if download else cached_model(model)
        if folder is None:
            raise ModelError(f"'{name}' is not in the cache; fetch it with `leakmeter models pull {name}`")
        return _local(name, folder, hashed=hash_weights)
    path = Path(name).expanduser()
    if path.suffix.lower() == ".gguf" and path.is_file():
        from leakmeter.models.gguf import converted_file

        converted = converted_file(path.absolute(), notify=notify, make=download)
        if converted is None:
            raise ModelError(f"'{name}' is not converted yet; run `leakmeter models pull {name}`")
        return _local(name, converted, hashed=hash_weights)
    if path.is_dir():
        with disk_errors(path, "check that path"):
            check_model_folder(path, name)
        return _local(name, path.absolute(), hashed=hash_weights)
    if path.exists():
        raise ModelError(f"'{name}' is not a kind of file that can be loaded; give a directory or a .gguf file")
    is_file_name = name.startswith((".", "~")) or path.suffix.lower() == ".gguf"
    if os.sep not in name and not is_file_name:
        raise UnknownNameError("model", name, [*KNOWN_MODELS, "toy"])
    could_be_hub = name.count("/") == 1 and not name.startswith("/") and not is_file_name
    hint = f"; for a model of the hub write 'hf:{name}'" if could_be_hub else "; check the path"
    raise ModelError(f"there is no file or directory '{name}'{hint}")


def _local(name: str, folder: Path, *, hashed: bool, is_hub: bool = False) -> ResolvedModel:
    with disk_errors(folder, "check that path"):
        sha256s = (weights_hash(folder), settings_hash(folder)) if hashed else (None, None)
        return ResolvedModel(name, str(folder), is_hub, *sha256s)


def tokenizer_folder(name: str, *, notify: Notify) -> Path:
    """The directory of a tokenizer by the name a user gave it, fetched if need be: a known model, hf:ORG/NAME, a
    directory with a tokenizer.json, or a .gguf file."""
    if name.startswith(hub.PREFIX):
        return hub.tokenizer_snapshot(*hub.split_hub_name(name), notify=notify)
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / hub.TOKENIZER).is_file():
            raise ModelError(
                f"'{name}' has no {hub.TOKENIZER}; give a directory that a tokenizer's save_pretrained wrote"
            )
        return path.absolute()
    return Path(resolve(name, notify=notify, hash_weights=False).path)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that is known by name."""

    name: str
    about: KnownModel
    """Sizes, parameters, licence and source."""
    path: Path | None
    """Where it lies on this machine; None where it was not fetched."""


def list_models() -> list[ListedModel]:
    """List the models known by name, and where they lie on this machine.

    Returns:
        One entry a model, those that are not on this machine too.

    Examples:
        >>> import leakmeter
        >>> "smollm2-135m" in [model.name for model in leakmeter.list_models()]
        True
    """
    return [ListedModel(name, model, cached_model(model)) for name, model in KNOWN_MODELS.items()]


def pull_model(name: str, *, accept_licence: bool = False) -> Path:
    """Fetch and convert a model, once; afterwards it needs no network.

    Args:
        name: a known name, hf:ORG/NAME, or a .gguf file to convert.
        accept_licence: accept the model's terms, for models that come under terms.

    Returns:
        Its directory.

    Raises:
        ModelError: it cannot be fetched or verified, or its terms are not accepted.
    """
    if name in KNOWN_MODELS:
        return pull.pull_model(KNOWN_MODELS[name], notify=lambda line: None, accept_licence=accept_licence)
    return Path(resolve(name, notify=lambda line: None).path)
