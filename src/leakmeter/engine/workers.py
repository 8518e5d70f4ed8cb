"""A fleet of workers, here or on other machines, that have loaded a model and measure parts of runs."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.backend import Capabilities, Tokenizer
from leakmeter.core.item import Origin
from leakmeter.core.loaded import Preparations
from leakmeter.core.measure import Measure
from leakmeter.core.record import JsonObject
from leakmeter.core.tree import Chunk
from leakmeter.engine.execute.pool import Engine, Failure, Pool
from leakmeter.engine.execute.ray import RayEngine, address_of
from leakmeter.engine.measure import PartCheck, PartsBackend, check_of, measured_together, noise_sample_of
from leakmeter.engine.storage.parts import Part
from leakmeter.engine.storage.spec import libraries_of
from leakmeter.errors import CapabilityError, ModelError, UsageError
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.engine.options import ModelOptions


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes that load a model each and measure parts of runs: on 'ray' or 'ray:ADDRESS', 2 by default, with no
    GPU and one thread each."""

    on: str
    n: int | None
    n_gpus: float | None
    n_threads: int | None
    allow_mixed: bool

    def __post_init__(self) -> None:
        address_of(self.on)
        if self.n is not None and self.n < 1:
            raise UsageError(f"--workers is {self.n}; it has to be 1 or more")
        if self.n_gpus is not None and not (math.isfinite(self.n_gpus) and self.n_gpus >= 0):
            raise UsageError(f"--gpus-per-worker is {self.n_gpus}; it has to be a number of at least 0")

    def load(
        self, loader: Callable[..., Backend], model: Any, options: ModelOptions, notify: Callable[[str], None]
    ) -> Fleet:
        """Have workers load a model by a name, path or URL that each of them can reach."""
        from leakmeter.backends.served import names_a_server

        if not isinstance(model, (str, Path)):
            raise UsageError(
                f"workers load the model themselves, and cannot reach a {type(model).__name__} in this process; give "
                "a name or path that every worker can reach"
            )
        if names_a_server(str(model)):
            raise UsageError("a served model does the work itself; give --concurrency instead of --workers")
        n, n_threads = self.n or 2, self.n_threads or 1
        load = partial(loader, str(model), replace(options, threads=n_threads), notify=_unheard)
        make = partial(PartWorker, load, allow_mixed=self.allow_mixed)
        engine = RayEngine(address_of(self.on), make, n_workers=n, n_cpus=n_threads, n_gpus=self.n_gpus or 0)
        try:
            return Fleet(engine, n, allow_mixed=self.allow_mixed, notify=notify)
        except BaseException:
            engine.close()
            raise


def _unheard(line: str) -> None:
    """Nobody reads what a worker says."""


MIXED: Final = "mixed"
"""What a run says of machines of several kinds."""
_OF_MACHINE: Final = ("machine", "memory_bytes", "device")
"""What of a worker moves last digits alone."""


@dataclass(frozen=True, slots=True)
class WorkerDescription:
    """What a worker says of itself and of the model that it has loaded; see `core.backend.Backend`."""

    name: str
    weights_sha256: str | None
    identity: Mapping[str, str | None]
    dtype: str
    window: int | None
    device: str
    memory_bytes: int | None
    machine: Mapping[str, Any]
    """Processor and threads, where they decide last digits."""
    libraries: Mapping[str, str]
    worker: str
    """The worker's name: its machine's, and the number of its process."""
    capabilities: Capabilities
    tokenizer: Tokenizer = field(compare=False, repr=False)
    refusal: Callable[[Chunk], None] | None = field(default=None, compare=False, repr=False)

    def differs_from(self, other: WorkerDescription, *, allow_mixed: bool) -> str | None:
        """Why one run cannot have both workers; None where it can."""
        apart = {"worker", "tokenizer", "refusal", *(_OF_MACHINE if allow_mixed else ())}
        for trait in fields(self):
            own, its = getattr(self, trait.name), getattr(other, trait.name)
            if trait.name not in apart and own != its:
                if isinstance(own, Capabilities) and isinstance(its, Capabilities):
                    own, its = asdict(own), asdict(its)
                if isinstance(own, Mapping):
                    name = next(key for key in {**own, **its} if own.get(key) != its.get(key))
                    return f"{name} is {own.get(name)} there and {its.get(name)} on '{other.worker}'"
                return f"{trait.name} is {own} there and {its} on '{other.worker}'"
        return None


@dataclass(frozen=True, slots=True)
class PartToDo:
    measure: Measure
    origins: tuple[Origin, ...]
    measuring_noise: tuple[bool, ...]
    """Of each case whether it is of the run's sample that measures noise."""
    in_groups: bool
    keeps_scores: bool
    """Whether the score cache may be used."""
    check: PartCheck | None
    """How it is held against plain passes; None where it is not, unless a worker begins with it."""


@dataclass(frozen=True, slots=True)
class PartDone:
    parts: list[Part]
    n_tokens_run: int
    n_halvings: int


class PartWorker:
    """Measures parts in the process that loaded the model; with `allow_mixed` each part names its kind of machine."""

    def __init__(self, load: Callable[[], Backend], *, allow_mixed: bool) -> None:
        self._backend = load()
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._allow_mixed = allow_mixed
        self._has_checked = False

    def describe(self) -> WorkerDescription:
        backend = self._backend
        return WorkerDescription(
            name=backend.name,
            weights_sha256=backend.weights_sha256,
            identity=dict(backend.identity),
            dtype=backend.dtype,
            window=backend.window,
            device=backend.device,
            memory_bytes=backend.memory_bytes,
            machine=backend.machine,
            libraries=libraries_of(),
            worker=self._name,
            tokenizer=backend.tokenizer,
            capabilities=backend.capabilities,
            refusal=backend.refusal,
        )

    def do(self, todo: PartToDo) -> PartDone:
        backend = self._backend
        n_tokens, n_halvings = backend.n_tokens_run, backend.n_halvings
        with nullcontext() if todo.keeps_scores else backend.without_cache():
            group = [origin.prepare(backend) for origin in todo.origins]
            check = todo.check or (None if self._has_checked else PartCheck(0, is_kept=False))
            self._has_checked = True
            parts = measured_together(
                *(backend, todo.measure, group),
                measuring_noise=todo.measuring_noise,
                in_groups=todo.in_groups,
                check=check,
            )
        facts = {"worker": self._name, **(backend.machine if self._allow_mixed else {})}
        for texts, _ in parts:
            texts["cost"].update(facts)
        return PartDone(parts, backend.n_tokens_run - n_tokens, backend.n_halvings - n_halvings)


class Fleet(PartsBackend):
    """A back end whose workers measure; it knows what prompts and runs need of the model. `ModelError` where workers
    differ."""

    def __init__(
        self, engine: Engine, n_workers: int, *, allow_mixed: bool, notify: Callable[[str], None] = lambda line: None
    ) -> None:
        self._first: WorkerDescription | None = None
        self._allow_mixed = allow_mixed
        self._pool = Pool(engine, n_workers, self._accept, notify)
        self._pool.wait()
        first = self.described
        self.name, self.dtype, self.window = first.name, first.dtype, first.window
        self.weights_sha256 = first.weights_sha256
        self.tokenizer = first.tokenizer
        self.memory_bytes = first.memory_bytes
        self._keeps_scores = True

    @property
    @override
    def capabilities(self) -> Capabilities:
        return self.described.capabilities

    @property
    @override
    def identity(self) -> Mapping[str, str | None]:
        return self.described.identity

    @property
    @override
    def device(self) -> str:
        return self.described.device

    @property
    @override
    def machine(self) -> JsonObject:
        machine = self.described.machine
        return dict.fromkeys(machine, MIXED) if self._allow_mixed else dict(machine)

    @contextmanager
    @override
    def without_cache(self) -> Iterator[None]:
        self._keeps_scores = False
        try:
            yield
        finally:
            self._keeps_scores = True

    @property
    def described(self) -> WorkerDescription:
        if self._first is None:
            raise ModelError("no worker has loaded the model")
        return self._first

    def _accept(self, description: WorkerDescription) -> None:
        if self._first is None:
            self._first = description
        elif (why := description.differs_from(self._first, allow_mixed=self._allow_mixed)) is not None:
            advice = (
                "give workers of one kind"
                if self._allow_mixed or description.differs_from(self._first, allow_mixed=True)
                else "give workers of one kind, or --allow-mixed, which may change the last digits"
            )
            raise ModelError(f"worker '{description.worker}' is unlike the others: {why}; {advice}")

    @property
    @override
    def refusal(self) -> Callable[[Chunk], None] | None:
        return self.described.refusal

    @override
    def score(self, chunk: Chunk) -> Any:
        """Nothing is scored in this process: always a `CapabilityError`."""
        raise CapabilityError(
            f"this needs '{self.name}' in this process, and the workers hold it; leave the workers out"
        )

    @override
    def measure_parts(
        self,
        measure: Measure,
        cases: Preparations,
        parts: Sequence[int],
        groups: Sequence[range],
    ) -> Iterator[tuple[int, PartDone | Failure]]:
        """Parts of a run, measured or failed, as they come; after a KeyboardInterrupt what was under way is done
        first."""

        in_groups = any(len(group) > 1 for group in groups)
        sample = noise_sample_of(measure, cases.lengths, self)

        def todo(number: int) -> PartToDo:
            at = groups[number]
            group = cases.origins_of(at)
            origins = tuple(origin for origin in group if origin is not None)
            if len(origins) < len(group):
                raise UsageError("these cases can be measured in this process only; leave the workers out")
            return PartToDo(
                *(measure, origins, tuple(case in sample for case in at), in_groups, self._keeps_scores),
                check=check_of(number, at, sample, is_first=False),
            )

        keys: list[Hashable] = [cases.contexts[groups[number].start] for number in parts]
        for number, outcome in self._pool.run(parts, keys, todo):
            if isinstance(outcome, PartDone):
                self.n_tokens_run += outcome.n_tokens_run
                self.n_halvings += outcome.n_halvings
            yield number, outcome

    @override
    def close(self) -> None:
        self._pool.close()
