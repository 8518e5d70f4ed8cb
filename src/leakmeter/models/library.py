"""What programs ask of models: which are known by name, and to fetch one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakmeter.models.pull import cached_model
from leakmeter.models.pull import pull_model as pulled
from leakmeter.models.registry import KNOWN_MODELS, KnownModel
from leakmeter.models.resolve import resolve


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
        return pulled(KNOWN_MODELS[name], notify=lambda line: None, accept_licence=accept_licence)
    return Path(resolve(name, notify=lambda line: None).path)
