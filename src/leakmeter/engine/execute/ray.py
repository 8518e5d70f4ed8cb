"""Workers as actors of Ray: an engine for machines that Ray has joined, or for this one."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from leakmeter.engine.execute.pool import WorkerEvent, failure_of
from leakmeter.errors import ModelError, UsageError

_ANSWER_SECONDS: Final = 10.0


def address_of(on: str) -> str | None:
    """The address that 'ray:ADDRESS' names; None of 'ray'."""
    name, colon, address = on.partition(":")
    if name != "ray" or (colon and not address):
        raise UsageError(f"no workers on '{on}'; give ray, or ray:ADDRESS of a cluster's head")
    return address or None


class WorkerTasks(Protocol):
    """What a worker does, as an object in its process."""

    def describe(self) -> Any:
        """What the worker says of itself."""

    def do(self, payload: Any) -> Any:
        """A task done."""


class RayEngine:
    """Actors that each make a `WorkerTasks` and do its tasks. Without an address: the cluster of RAY_ADDRESS, else this
    machine. `UsageError` if Ray is not installed, `ModelError` if there is no such cluster."""

    def __init__(
        self, address: str | None, make: Callable[[], WorkerTasks], *, n_workers: int, n_cpus: int, n_gpus: float
    ) -> None:
        # Ray would tell its makers how it is used.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        try:
            import ray
        except ImportError:
            raise UsageError("workers of Ray need it: pip install 'leakmeter[ray]'") from None
        self._ray: Any = ray
        self._begun_here = not ray.is_initialized()
        if self._begun_here:
            self._connect(address, n_workers * n_cpus)
        self._make = make
        remote: Any = ray.remote(_Actor)
        self._actor = remote.options(
            num_cpus=n_cpus, num_gpus=n_gpus, max_restarts=0, max_task_retries=0, max_concurrency=1
        )
        self._actors: list[Any] = []
        self._alive: set[int] = set()
        self._nodes: dict[int, str] = {}
        self._waiting: dict[Any, tuple[int, int | None]] = {}
        """Object references, and the worker and ticket that each is of."""

    def _connect(self, address: str | None, n_cpus: int) -> None:
        ray = self._ray
        address = address or os.environ.get("RAY_ADDRESS")
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            _check_answers(address)
        # Workers that yield to every other program of this machine would be slower than the program alone.
        os.environ.setdefault("RAY_worker_niceness", "0")
        try:
            if address is None:
                # Without 'local' Ray would look for a cluster of anybody's on this machine.
                ray.init("local", num_cpus=n_cpus, include_dashboard=False, **quiet)
            else:
                ray.init(address, **quiet)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            reason = str(error).split("\n", 1)[0]
            where = "on this machine" if address is None else f"at '{address}'"
            raise ModelError(f"Ray cannot be reached {where}: {reason}; see `ray status`") from None

    def start(self) -> int:
        worker = len(self._actors)
        actor = self._actor.remote(self._make)
        self._actors.append(actor)
        self._alive.add(worker)
        self._waiting[actor.describe.remote()] = worker, None
        return worker

    def submit(self, worker: int, ticket: int, payload: Any) -> None:
        self._waiting[self._actors[worker].do.remote(payload)] = worker, ticket

    def events(self, seconds: float) -> list[WorkerEvent]:
        waiting = list(self._waiting)
        ready, _ = self._ray.wait(waiting, num_returns=1, timeout=seconds) if waiting else ([], [])
        # Whatever else is there by now comes along.
        more, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0) if ready else ([], [])
        return [event for reference in more if (event := self._event(reference)) is not None]

    def _event(self, reference: Any) -> WorkerEvent | None:
        origin = self._waiting.pop(reference, None)
        if origin is None:
            return None
        worker, ticket = origin
        try:
            kind, value = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            if worker not in self._alive:
                return None
            self._drop(worker)
            alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
            # Ray may take a while to notice that a machine is gone, and says so in the error before.
            lost_machine = self._nodes.get(worker) not in alive or "its node has died" in str(error)
            return WorkerEvent("lost", worker, blames_task=not lost_machine)
        if ticket is None and kind == "done":
            self._nodes[worker], value = value
            return WorkerEvent("ready", worker, value=value)
        return WorkerEvent(kind, worker, ticket, value)

    def _drop(self, worker: int) -> None:
        self._alive.discard(worker)
        self._waiting = {reference: origin for reference, origin in self._waiting.items() if origin[0] != worker}

    def stop(self, worker: int) -> None:
        self._drop(worker)
        with suppress(Exception):
            self._ray.kill(self._actors[worker])

    def close(self) -> None:
        """End all actors, and Ray where it was begun here."""
        for worker in list(self._alive):
            self.stop(worker)
        if self._begun_here and self._ray.is_initialized():
            self._ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse an address at which nobody answers: Ray would wait for minutes, and end the program."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return  # such as 'auto'
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ModelError(
            f"no answer from '{address}' ({error}); give the address of a Ray cluster's head, as `ray start` prints it"
        ) from None


class _Actor:
    """A worker in its process; its errors travel as data, without what they quote."""

    def __init__(self, make: Callable[[], WorkerTasks]) -> None:
        self._make = make
        self._work: WorkerTasks | None = None

    def describe(self) -> tuple[str, Any]:
        """The node's id, and what the work says of itself."""
        import ray

        def described() -> tuple[str, Any]:
            self._work = self._make()
            return str(ray.get_runtime_context().get_node_id()), self._work.describe()

        return _outcome(described)

    def do(self, payload: Any) -> tuple[str, Any]:
        work = self._work
        if work is None:
            raise RuntimeError("the worker has not loaded a model")
        return _outcome(lambda: work.do(payload))


def _outcome(work: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "done", work()
    except Exception as error:  # noqa: BLE001 - whatever it is, the driver is to know, without its text
        return "failed", failure_of(error)
