"""Models: known by name, fetched once, checked, converted, and found again. Importing this loads no weights library."""

from leakmeter.core.spinning import limit_spinning
from leakmeter.models.cache import cache_dir, config_dir, models_dir, scores_dir, weights_hash
from leakmeter.models.pull import cached_model, pull_model
from leakmeter.models.registry import DEFAULT_MODEL, KNOWN_MODELS, KnownModel
from leakmeter.models.resolve import ResolvedModel, resolve

__all__ = [
    "DEFAULT_MODEL",
    "KNOWN_MODELS",
    "KnownModel",
    "ResolvedModel",
    "cache_dir",
    "cached_model",
    "config_dir",
    "models_dir",
    "pull_model",
    "resolve",
    "scores_dir",
    "weights_hash",
]

limit_spinning()
