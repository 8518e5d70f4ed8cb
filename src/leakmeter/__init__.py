"""leakmeter: what a language model lets through of the text it was given, in nats.

Names are loaded on first use, so that `import leakmeter` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leakmeter import instruments

if TYPE_CHECKING:
    from leakmeter.checkup.api import doctor
    from leakmeter.checkup.installation import check_installation
    from leakmeter.commands.study import list_studies, study
    from leakmeter.commands.tokens import tokens
    from leakmeter.engine.loading import forget, load_backend, load_run
    from leakmeter.errors import LeakmeterError
    from leakmeter.instruments import *  # noqa: F403
    from leakmeter.ledger.guard import Guard
    from leakmeter.meter import Meter
    from leakmeter.models.resolve import list_models, pull_model
    from leakmeter.results.results import Results
    from leakmeter.results.run import Run
    from leakmeter.runs import (
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

    __version__: str

_HOME = {
    "Guard": "leakmeter.ledger.guard",
    "LeakmeterError": "leakmeter.errors",
    "Meter": "leakmeter.meter",
    "Results": "leakmeter.results.results",
    "Run": "leakmeter.results.run",
    "check_installation": "leakmeter.checkup.installation",
    "compare_runs": "leakmeter.runs",
    "doctor": "leakmeter.checkup.api",
    "export_run": "leakmeter.runs",
    "forget": "leakmeter.engine.loading",
    "gate": "leakmeter.runs",
    "list_models": "leakmeter.models.resolve",
    "list_runs": "leakmeter.runs",
    "list_studies": "leakmeter.commands.study",
    "load_backend": "leakmeter.engine.loading",
    "load_run": "leakmeter.engine.loading",
    "pull_model": "leakmeter.models.resolve",
    "query": "leakmeter.runs",
    "save_report": "leakmeter.runs",
    "schema": "leakmeter.runs",
    "study": "leakmeter.commands.study",
    "tokens": "leakmeter.commands.tokens",
    "rename_run": "leakmeter.runs",
    "verify_run": "leakmeter.runs",
    "write_baseline": "leakmeter.runs",
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
