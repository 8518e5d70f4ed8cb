"""leakmeter: what a language model lets through of the text it was given, in nats.

Names are loaded on first use, so that `import leakmeter` costs nothing: `__init__.pyi` imports each from where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leakmeter.core import own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


def _instruments() -> ModuleType:
    import leakmeter.instruments as package

    return package


def _backends() -> Mapping[str, Callable[[], Any]]:
    from leakmeter.backends import OWN

    return OWN


own.provide(instruments=_instruments, backends=_backends)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("leakmeter")
    from importlib import import_module

    from leakmeter.core.folder import imports_of

    homes = imports_of("leakmeter")
    if name == "__all__":
        return [*sorted(homes), "__version__"]
    if name not in homes:
        raise AttributeError(f"module 'leakmeter' has no attribute '{name}'")
    return getattr(import_module(homes[name]), name)


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
