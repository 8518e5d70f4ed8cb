"""What an instrument is: a folder, and the parts of it that the rest of the house reads."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Instrument:
    """One instrument, by where its parts are; each is imported when it is first asked for.

    Args:
        name: what runs and studies call it.
        package: the folder; `__name__` of its `__init__`.
        measure_at: 'module:name' within the folder of the dataclass of parameters that has the trial.
        result_at: likewise, of the class that makes results of a run.
        study_at: likewise, of what is particular to studies of it; "" where studies are of responses to contexts.
    """

    name: str
    package: str
    measure_at: str
    result_at: str
    study_at: str = ""

    @property
    def measure(self) -> Any:
        """The dataclass of parameters; see `core.measure.Measure`."""
        return self._part(self.measure_at)

    @property
    def result(self) -> Any:
        """The class of results; see `core.result.Result`."""
        return self._part(self.result_at)

    @property
    def study(self) -> Any:
        """What is particular to studies; see `studies.kind.Kind`. None where nothing is."""
        return self._part(self.study_at) if self.study_at else None

    def _part(self, at: str) -> Any:
        module, _, name = at.partition(":")
        return getattr(importlib.import_module(f"{self.package}.{module}"), name)
