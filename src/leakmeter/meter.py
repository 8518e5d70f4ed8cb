"""A model that is loaded once and measured often, by every instrument."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from leakmeter.core import registry
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from leakmeter.core.backend import Backend


class Meter:
    """A model, and the functions of all instruments as methods, those of other packages' instruments too.

    `meter.influence(…)` is `leakmeter.influence(model, …)`, with the model loaded once.

    Args:
        model: see `leakmeter.influence`; it is loaded when it is first needed.
        options: how it is loaded: dtype, device, memory, model_id, cache; see `load_backend`.

    Example:
        >>> meter = Meter("toy")
        >>> result = meter.influence(context="Ana is 41.", query="How old is Ana?", response="41")
        >>> result.id
        'case'
    """

    def __init__(self, model: Any = DEFAULT_MODEL, **options: Any) -> None:
        self._model = model
        self._options = options

    @cached_property
    def backend(self) -> Backend:
        """The model, loaded."""
        from leakmeter.runs.loading import load_backend

        return load_backend(self._model, **self._options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        for instrument in map(registry.instrument, registry.instruments()):
            if (function := instrument.function(name)) is not None:
                return partial(function, self.backend)
        raise AttributeError(f"no instrument has a function '{name}'; there are {', '.join(_names())}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_names()})

    def __repr__(self) -> str:
        return f"<Meter of {self.backend.name if 'backend' in self.__dict__ else self._model!r}>"


def _names() -> list[str]:
    """The functions of all instruments."""
    return sorted(at.rpartition(":")[2] for one in registry.instruments() for at in registry.instrument(one).functions)
