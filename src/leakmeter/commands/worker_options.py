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
    """Threads of the CPU, in this process or in each worker; all cores here, and 1 in a worker, by default. They decide
    the last digits."""
    on: str | None = None
    """Have workers measure: ray for this machine or the cluster of RAY_ADDRESS, or ray:ADDRESS. Contexts, queries and
    responses are sent to them."""
    workers: int | None = None
    """Workers that load the model and measure, with --on; 2 by default."""
    gpus_per_worker: float | None = None
    """GPUs of each worker, which may be a part of one; none by default."""
    allow_mixed: bool = False
    """Take workers on machines of several kinds, which moves last digits."""

    def loading(self) -> dict[str, Any]:
        """As options of `engine.loading.load_backend`."""
        return {field.name: getattr(self, field.name) for field in fields(WorkerOptions)}
