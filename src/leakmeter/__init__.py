"""leakmeter: what a language model lets through of the text it was given, in nats.

Names are loaded on first use, so that `import leakmeter` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leakmeter import instruments

if TYPE_CHECKING:
    from leakmeter._typed import tokens
    from leakmeter.checkup.api import doctor
    from leakmeter.checkup.installation import check_installation
    from leakmeter.commands.study import list_studies, study
    from leakmeter.errors import LeakmeterError
    from leakmeter.instruments import *  # noqa: F403
    from leakmeter.ledger.guard import Guard
    from leakmeter.meter import Meter
    from leakmeter.models.library import list_models, pull_model
    from leakmeter.runs.library import (
        compare_runs,
        export_run,
        gate,
        list_runs,
        query,
        rename_run,
        save_report,
        schema,
        verify_run,
        write_baseline,
    )
    from leakmeter.runs.loading import forget, load_backend, load_run
    from leakmeter.runs.results import Results
    from leakmeter.runs.run import Run

    __version__: str

_HOME = {
    "Guard": "leakmeter.ledger.guard",
    "LeakmeterError": "leakmeter.errors",
    "Meter": "leakmeter.meter",
    "Results": "leakmeter.runs.results",
    "Run": "leakmeter.runs.run",
    "check_installation": "leakmeter.checkup.installation",
    "compare_runs": "leakmeter.runs.library",
    "doctor": "leakmeter.checkup.api",
    "export_run": "leakmeter.runs.library",
    "forget": "leakmeter.runs.loading",
    "gate": "leakmeter.runs.library",
    "list_models": "leakmeter.models.library",
    "list_runs": "leakmeter.runs.library",
    "list_studies": "leakmeter.commands.study",
    "load_backend": "leakmeter.runs.loading",
    "load_run": "leakmeter.runs.loading",
    "pull_model": "leakmeter.models.library",
    "query": "leakmeter.runs.library",
    "save_report": "leakmeter.runs.library",
    "schema": "leakmeter.runs.library",
    "study": "leakmeter.commands.study",
    "tokens": "leakmeter.commands.tokens",
    "rename_run": "leakmeter.runs.library",
    "verify_run": "leakmeter.runs.library",
    "write_baseline": "leakmeter.runs.library",
    **instruments.HOME,
}
__all__ = [
    "Guard",
    "LeakmeterError",
    "Meter",
    "Results",
    "Run",
    "__version__",
    "check_installation",
    "compare_runs",
    "doctor",
    "export_run",
    "forget",
    "gate",
    "list_models",
    "list_runs",
    "list_studies",
    "load_backend",
    "load_run",
    "pull_model",
    "query",
    "save_report",
    "schema",
    "study",
    "tokens",
    "rename_run",
    "verify_run",
    "write_baseline",
    *instruments.__all__,
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("leakmeter")
    if name not in _HOME:
        raise AttributeError(f"module 'leakmeter' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
