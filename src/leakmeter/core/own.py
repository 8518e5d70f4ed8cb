"""What registers as leakmeter's own: packages above this room, which the front door of the package gives.

A folder of the package `instruments` whose `__init__` has an `INSTRUMENT` is an instrument; `backends` are a function
for each back end, with the import of its class in it (`backends.OWN`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

_given: dict[str, Callable[[], Any]] = {}


def provide(*, instruments: Callable[[], ModuleType], backends: Callable[[], Mapping[str, Callable[[], Any]]]) -> None:
    """Say where they are; each function has the import in it, and is called when one is first asked for."""
    _given.update(instruments=instruments, backends=backends)


def instruments() -> ModuleType:
    package: ModuleType = _given["instruments"]()
    return package


def backends() -> Mapping[str, Callable[[], Any]]:
    own: Mapping[str, Callable[[], Any]] = _given["backends"]()
    return own
