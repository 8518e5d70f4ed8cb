"""Back ends: what turns a chunk of requests into scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from leakmeter.core.spinning import limit_spinning

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend
    from leakmeter.backends.served.backend import ServedBackend
    from leakmeter.backends.toy import Toy

limit_spinning()


def _toy() -> type[Toy]:
    from leakmeter.backends.toy import Toy

    return Toy


def _hf() -> type[HfBackend]:
    from leakmeter.backends.hf.backend import HfBackend

    return HfBackend


def _served() -> type[ServedBackend]:
    from leakmeter.backends.served.backend import ServedBackend

    return ServedBackend


OWN: Final[Mapping[str, Callable[[], type]]] = {"hf": _hf, "served": _served, "toy": _toy}
"""Leakmeter's own by name, each a function that imports its class."""
