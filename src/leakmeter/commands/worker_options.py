"""Options of commands that may measure with several threads, processes and machines."""

# Annotations are not deferred here: those of fields would be looked up in the modules of derived classes.
from dataclasses import dataclass, fields
from typing import Any

from cyclopts import Parameter


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How many threads and processes measure, and where."""

    threads: int | None = None
    """CPU threads of this process or of each worker; by default all cores here and 1 in a worker. Their number affects
    the last digits."""
    on: str | None = None
    """Measure on workers: ray for this machine or the cluster of RAY_ADDRESS, or ray:ADDRESS. Contexts, queries and
    responses are sent to them."""
    workers: int | None = None
    """Number of workers that load the model and measure, with --on; 2 by default."""
    gpus_per_worker: float | None = None
    """GPUs of each worker, possibly a fraction of one; none by default."""
    allow_mixed: bool = False
    """Allow workers on different kinds of machines, which changes the last digits."""

    def loading(self) -> dict[str, Any]:
        """As options of `engine.loading.load_backend`."""
        return {field.name: getattr(self, field.name) for field in fields(WorkerOptions)}
