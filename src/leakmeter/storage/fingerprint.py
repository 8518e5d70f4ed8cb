"""What a run is of: all that determines its numbers, and what explains them."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib import metadata

from leakmeter.core.backend import Backend
from leakmeter.core.instrument import AnyCase, Settings
from leakmeter.core.measure import Measure
from leakmeter.storage.spec import RunSpec


def spec_of(
    measure: Measure,
    name: str,
    settings: Settings,
    backend: Backend,
    cases: Sequence[AnyCase],
    *,
    group_size: int = 1,
    command: str | None = None,
    problems: Sequence[str] = (),
    label: str | None = None,
    data: str | None = None,
) -> RunSpec:
    """The spec of measuring these cases; more than one scored together are part of how they are prompted."""
    return RunSpec(
        measure=name,
        params=measure.record(),
        prompts=asdict(settings) if group_size == 1 else {**asdict(settings), "group_size": group_size},
        model={
            "name": backend.name,
            "weights_sha256": backend.weights_sha256,
            **backend.identity,
            "dtype": backend.dtype,
            # Where a server computes, it does not say.
            "device": None if backend.dtype == "served" else device_of(backend),
            "memory_bytes": getattr(backend, "memory_bytes", None),
            **getattr(backend, "machine", {}),
            **settings.model_record(),
        },
        cases=tuple(case.record() for case in cases),
        version=metadata.version("leakmeter"),
        environment={
            **libraries_of(),
            **{name: _version(name) for name in settings.libraries},
        },
        command=command,
        problems=tuple(problems),
        name=label,
        data=data,
    )


def device_of(backend: Backend) -> str:
    return str(getattr(getattr(backend, "model", backend), "device", "cpu"))


def libraries_of() -> dict[str, str]:
    """Versions of Python and of the libraries that compute, and the kind of machine."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: _version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
    }


@cache
def _version(library: str) -> str:
    """A library's version; to parse its metadata takes a millisecond."""
    return metadata.version(library)
