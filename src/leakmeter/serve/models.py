"""The models that the server may use: one of them is in memory at a time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from leakmeter.engine.loading import KeptModel
from leakmeter.errors import UnknownNameError


class Models:
    """Models by name; only the worker's thread asks for one.

    Args:
        names: as `--model` has them, the first by default.
        options: how they are loaded; see `leakmeter.load_backend`.
    """

    def __init__(self, names: Sequence[str], options: Mapping[str, Any]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._options = dict(options)
        self._kept: KeptModel | None = None

    @property
    def served_options(self) -> dict[str, Any]:
        return {name: self._options[name] for name in ("tokenizer", "allow_remote") if name in self._options}

    @property
    def loaded(self) -> str | None:
        return None if self._kept is None else str(self._kept.given)

    def checked(self, name: str | None) -> str:
        """A model's name; the default where none is given."""
        if not name:
            return self.names[0]
        if name not in self.names:
            raise UnknownNameError("model here", name, self.names)
        return name

    def use(self, name: str | None = None) -> KeptModel:
        """A model, loaded; another that was in memory is freed before."""
        name = self.checked(name)
        if self._kept is None or self._kept.given != name:
            self.free()
            kept = KeptModel(name, **self._options)
            _ = kept.backend
            self._kept = kept
        return self._kept

    def free(self) -> None:
        if self._kept is None:
            return
        self._kept = None
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
