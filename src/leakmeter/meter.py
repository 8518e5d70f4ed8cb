"""A model that is loaded once and measured often, by every instrument."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from leakmeter.core import registry
from leakmeter.models import DEFAULT_MODEL
from leakmeter.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable

    from leakmeter.core.backend import Backend
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.decoding import command as decoding_command
    from leakmeter.instruments.generation import command as generation_command
    from leakmeter.instruments.icl import command as icl_command
    from leakmeter.instruments.influence import command as influence_command
    from leakmeter.instruments.pii import command as pii_command
    from leakmeter.instruments.redaction import command as redaction_command
    from leakmeter.instruments.susceptibility import command as susceptibility_command


class Meter:
    """A model, and the functions of all instruments as methods, those of other packages' instruments too.

    `meter.influence(…)` is `leakmeter.influence(model, …)`, on a model that this meter keeps.

    Args:
        model: a known name, 'hf:ORG/NAME', a directory, a .gguf file, a served model ('vllm:http://…#NAME'), a loaded
            (model, tokenizer) pair, or a back end from `load_backend`; it is loaded when it is first needed.
        options: how it is loaded: dtype, device, memory, model_id, cache, or for a served model tokenizer,
            allow_remote, concurrency; see `load_backend`.

    Raises:
        UnknownNameError: an option that there is not.

    Examples:
        >>> meter = Meter("toy")
        >>> result = meter.influence(context="Ana is 41.", query="How old is Ana?", response="41")
        >>> result.id
        'case'
        >>> many = meter.influence([{"context": "Ana is 41.", "query": "How old is Ana?"}], samples=1, max_new_tokens=2)
        >>> len(many)
        1
    """

    def __init__(self, model: Any = DEFAULT_MODEL, **options: Any) -> None:
        from leakmeter.engine.loading import KeptModel

        self._model = KeptModel(model, **options)

    @property
    def backend(self) -> Backend:
        """The model, loaded."""
        return self._model.backend

    @property
    def kept_model(self) -> KeptModel:
        """The model as it was given, for what measures with it outside of instruments."""
        return self._model

    if TYPE_CHECKING:
        decode = decoding_command.decode
        fisher_susceptibility = susceptibility_command.fisher_susceptibility
        frontier = decoding_command.frontier
        generate = generation_command.generate
        icl = icl_command.icl
        icl_responses = icl_command.icl_responses
        icl_select = icl_command.icl_select
        influence = influence_command.influence
        pii = pii_command.pii
        pii_check = pii_command.pii_check
        pii_insert = pii_command.pii_insert
        pii_tune = pii_command.pii_tune
        redact = redaction_command.redact
        susceptibility = susceptibility_command.susceptibility
    else:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            for instrument in map(registry.instrument, registry.instruments()):
                if (function := instrument.function(name)) is not None:
                    if hasattr(function, "on"):
                        return partial(function.on, self._model)
                    # A function of another package takes a back end.
                    return partial(function, self.backend)
            raise AttributeError(f"no instrument has a function '{name}'; there are {', '.join(_names())}")

    @override
    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_names()})

    @override
    def __repr__(self) -> str:
        loaded = "backend" in self._model.__dict__
        return f"<Meter of {self.backend.name if loaded else self._model.source!r}>"


def _names() -> list[str]:
    return sorted(
        at.rpartition(":")[2] for name in registry.instruments() for at in registry.instrument(name).functions
    )
