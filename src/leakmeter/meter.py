"""A model that is loaded once and measured often, by every instrument."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from leakmeter.core import registry
from leakmeter.errors import options_named
from leakmeter.models import DEFAULT_MODEL
from leakmeter.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable

    from leakmeter.core.backend import Backend
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.public import _Methods
else:
    _Methods = object


class Meter(_Methods):
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
        from leakmeter.engine.options import ModelOptions

        self._model = KeptModel(model, ModelOptions.named(options))

    @property
    def backend(self) -> Backend:
        """The model, loaded."""
        from leakmeter.engine.options import as_argument

        with options_named(as_argument):
            return self._model.backend

    @property
    def kept_model(self) -> KeptModel:
        """The model as it was given, for what measures with it outside of instruments."""
        return self._model

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            import leakmeter
            from leakmeter.core.folder import imports_of

            others = registry.other_functions()
            ours = imports_of("leakmeter.instruments", "public.py")
            if name in ours and hasattr(function := getattr(leakmeter, name), "on"):
                return partial(function.on, self._model)
            if name in others:
                # One of another package may take a back end.
                on = getattr(others[name], "on", None)
                return partial(others[name], self.backend) if on is None else partial(on, self._model)
            raise AttributeError(f"no instrument has a function '{name}'; there are {', '.join(_names())}")

    @override
    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_names()})

    @override
    def __repr__(self) -> str:
        loaded = "backend" in self._model.__dict__
        return f"<Meter of {self.backend.name if loaded else self._model.source!r}>"


def _names() -> list[str]:
    from leakmeter.instruments.public import _Methods

    return sorted({*(name for name in vars(_Methods) if not name.startswith("_")), *registry.other_functions()})
