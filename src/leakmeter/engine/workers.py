"""Where a model's workers are, and how many: options to a fleet of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.execute.ray import RayEngine, address_of

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.engine.fleet import Fleet, PartWorker


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes that load a model each and measure parts of runs.

    Args:
        on: 'ray' or 'ray:ADDRESS'.
        n: how many; 2 by default.
        n_gpus: of each; none by default.
        n_threads: of each; 1 by default.
        allow_mixed: whether machines may be of several kinds.

    Raises:
        UsageError: no such engine, or no such number.
    """

    on: str
    n: int | None
    n_gpus: float | None
    n_threads: int | None
    allow_mixed: bool

    def __post_init__(self) -> None:
        address_of(self.on)
        if self.n is not None and self.n < 1:
            raise UsageError(f"workers is {self.n}; it has to be 1 or more")
        if self.n_gpus is not None and not (math.isfinite(self.n_gpus) and self.n_gpus >= 0):
            raise UsageError(f"gpus per worker is {self.n_gpus}; it has to be a number of at least 0")

    def load(
        self, loader: Callable[..., Backend], model: Any, settings: Mapping[str, Any], notify: Callable[[str], None]
    ) -> Fleet:
        """Have workers load a model by what each of them can reach: a name, path or URL, no object of this process."""
        from leakmeter.backends.served import names_a_server
        from leakmeter.engine.fleet import Fleet

        if not isinstance(model, (str, Path)):
            raise UsageError(
                f"workers load the model themselves, and a {type(model).__name__} is in this process alone; give a "
                "name or path that each of them can reach"
            )
        if names_a_server(str(model)):
            raise UsageError(
                "a served model does the work wherever it is asked from; leave the choice of workers out, and give "
                "concurrency"
            )
        n, n_threads = self.n or 2, self.n_threads or 1
        make = partial(_worker, loader, str(model), {**settings, "threads": n_threads}, allow_mixed=self.allow_mixed)
        engine = RayEngine(address_of(self.on), make, n_workers=n, n_cpus=n_threads, n_gpus=self.n_gpus or 0)
        try:
            return Fleet(engine, n, allow_mixed=self.allow_mixed, notify=notify)
        except BaseException:
            engine.close()
            raise


def _worker(
    loader: Callable[..., Backend], model: str, settings: Mapping[str, Any], *, allow_mixed: bool
) -> PartWorker:
    """What a worker is, made in its own process."""
    from leakmeter.engine.fleet import PartWorker

    return PartWorker(partial(loader, model, notify=_unheard, **settings), allow_mixed=allow_mixed)


def _unheard(line: str) -> None:
    """Nobody reads what a worker says."""
