"""Models of the hub: `hf:ORG/NAME` or `hf:ORG/NAME@REVISION`, taken from the hub's own cache or fetched into it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leakmeter.errors import ModelError, UsageError
from leakmeter.models import progress_bars
from leakmeter.models.cache import Notify
from leakmeter.models.local import check_model_folder, missing_shards

PREFIX: Final = "hf:"
TOKENIZER: Final = "tokenizer.json"

# Pickles (*.bin, *.pt) run code when loaded and are left on the hub. Files in sub-directories are other formats'
# weights, and `consolidated*` are the same weights a second time.
_WANTED: Final = ["*.safetensors", "*.json", "tokenizer*", "*.model", "*.txt", "*.jinja"]
_UNWANTED: Final = ["*/*", "consolidated*", "*.bin", "*.pt", "*.pth", "*.pkl", "*.gguf"]


def split_hub_name(name: str) -> tuple[str, str | None]:
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    organisation, _, model = repository.partition("/")
    if not organisation or not model or "/" in model:
        raise UsageError(f"'{name}' is not the name of a model on the hub; write hf:ORG/NAME or hf:ORG/NAME@REVISION")
    return repository, revision or None


def cached_snapshot(repository: str, revision: str | None) -> Path | None:
    """Folder of the snapshot if all of its weights are in the hub's cache; touches no network."""
    progress_bars.import_quietly()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        folder = Path(snapshot_download(repository, revision=revision, local_files_only=True))
    except HFValidationError as error:
        raise UsageError(f"'{PREFIX}{repository}' cannot be a name on the hub: {_line(error)}") from error
    except OSError:
        return None
    # A snapshot folder exists as soon as any program has asked for one file of it.
    whole = (folder / "config.json").is_file() and any(folder.glob("*.safetensors")) and not missing_shards(folder)
    return folder if whole else None


def tokenizer_snapshot(repository: str, revision: str | None, *, notify: Notify) -> Path:
    """Folder of a snapshot with its tokenizer, and perhaps nothing else; downloaded where it is not in the cache."""
    progress_bars.import_quietly()
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(repository, TOKENIZER, revision=revision)
    if isinstance(cached, str) and (Path(cached).parent / "tokenizer_config.json").is_file():
        return Path(cached).parent
    folder = _fetched(repository, revision, [pattern for pattern in _WANTED if pattern != "*.safetensors"], notify)
    if not (folder / TOKENIZER).is_file():
        raise ModelError(f"'{PREFIX}{repository}' has no {TOKENIZER} on the hub; name a repository that has one")
    return folder


def fetch_snapshot(repository: str, revision: str | None, *, notify: Notify) -> Path:
    folder = _fetched(repository, revision, _WANTED, notify)
    check_model_folder(folder, _full_name(repository, revision))
    return folder


def _full_name(repository: str, revision: str | None) -> str:
    return f"{PREFIX}{repository}" + (f"@{revision}" if revision else "")


def _fetched(repository: str, revision: str | None, patterns: list[str], notify: Notify) -> Path:
    progress_bars.import_quietly()
    from huggingface_hub import errors, snapshot_download

    name = _full_name(repository, revision)
    # The library has changed its HTTP client before; the client's own root error is the one it imports.
    kinds = (getattr(errors, word, OSError) for word in ("HTTPError", "RevisionResolutionError", "XetDownloadError"))
    failures: tuple[type[Exception], ...] = (OSError, *kinds)
    notify(f"fetching {name} from the hub …")
    try:
        folder = snapshot_download(repository, revision=revision, allow_patterns=patterns, ignore_patterns=_UNWANTED)
    except errors.GatedRepoError as error:
        raise ModelError(
            f"'{name}' asks you to accept its terms: do so on its page of the hub, run `hf auth login` and try again"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ModelError(
            f"the hub has no '{name}', or it is private; check the name, or run `hf auth login`"
        ) from error
    except failures as error:
        raise ModelError(
            f"could not fetch '{name}' from the hub: {_line(error)}; "
            "check the network and the disk, or give a local directory"
        ) from error
    return Path(folder)


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
