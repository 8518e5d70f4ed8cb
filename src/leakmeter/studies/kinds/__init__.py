"""Kinds of studies: one module each, with a `KIND`. A module serves the measure of its name, `contexts` all others."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

from leakmeter.studies.kinds.base import Kind

_DEFAULT: Final = "contexts"


def kind_of(measure: str) -> Kind:
    """The kind of the studies of a measure, by the measure's name."""
    own = {module.name for module in pkgutil.iter_modules(__path__)} - {"base"}
    kind: Kind = importlib.import_module(f"{__name__}.{measure if measure in own else _DEFAULT}").KIND
    return kind
