"""What programs call: `leakmeter.doctor`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from leakmeter.backends.served import names_a_server
from leakmeter.backends.served.connection import StatusError
from leakmeter.checkup.examine import examine, not_examined
from leakmeter.checkup.result import DoctorResult
from leakmeter.checkup.subject import Subject
from leakmeter.checkup.words import fault_of_status
from leakmeter.core.backend import Backend
from leakmeter.engine.loading import load_backend, tell
from leakmeter.errors import ScoreError, UsageError
from leakmeter.models import DEFAULT_MODEL

_PATIENCE: Final = 20.0
"""Seconds that a request waits for a server that is busy; a run waits longer."""


def doctor(model: Any = DEFAULT_MODEL, *, against: Any = None, **options: Any) -> DoctorResult:
    """Examine whether the numbers of a model, served or in this process, are what measurements take them for.

    It sends a few hundred short texts of its own, and nobody's data.

    Args:
        model: as in `influence`: a name, a path, 'vllm:http://…#NAME', a back end, or a pair (model, tokenizer).
        against: local weights to compare a served model with; a name, a path, or a pair.
        options: how the model is loaded; see `load_backend`.

    Returns:
        The checks, what they say together (`verdict`), and whether a measurement would be right (`is_sound`).

    Raises:
        LeakmeterError: there is no such model, or the server does not answer at all.

    Examples:
        >>> import leakmeter
        >>> found = leakmeter.doctor("toy")
        >>> found.is_sound, found.noise.floor_nats
        (True, 0.0)
    """
    return examined(model, against=against, **options)


def examined(
    model: Any,
    *,
    against: Any = None,
    on_check: Callable[[str], None] = lambda name: None,
    on_loaded: Callable[[Subject], None] = lambda subject: None,
    **options: Any,
) -> DoctorResult:
    """What `doctor` finds, for whoever looks on: told the name of each check before it is made, and the model before
    the first."""
    is_named = isinstance(model, str | Path)
    name = str(model) if is_named else getattr(model, "name", type(model).__name__)
    is_served = is_named and names_a_server(name)
    try:
        backend = _served(name, **options) if is_served else load_backend(model, cache=False, **options)
    except (ScoreError, StatusError) as error:
        # Where nobody answers, or asks for a key, there is nothing to be examined.
        if isinstance(error, StatusError) and fault_of_status(error.status, error.fault) in (None, "unreachable"):
            raise
        return not_examined(name, name.partition(":")[0], error)
    other = None if against is None else _local(against)
    other_name = "" if other is None else str(against) if isinstance(against, str | Path) else other.name
    subject = Subject.of(backend)
    on_loaded(subject)
    return examine(subject, name, against=other, against_name=other_name, on_check=on_check)


def _served(name: str, *, notify: Callable[[str], None] = tell, **options: Any) -> Backend:
    """A model behind a server, whatever its tokenizer; nobody waits minutes for it."""
    from leakmeter.backends.served.load import load_served

    for option in set(options) - {"tokenizer", "allow_remote", "concurrency"}:
        if options.pop(option) is not None:
            raise UsageError(f"a served model computes elsewhere; leave {option} out")
    options.setdefault("tokenizer", None)
    return load_served(name, **options, patience=_PATIENCE, checked=False, notify=notify)


def _local(model: Any) -> Subject:
    """A model in this process, in the precision that others are compared with."""
    if not isinstance(model, str | Path):
        return Subject.of(load_backend(model, cache=False))
    name = str(model)
    if names_a_server(name):
        raise UsageError("--against names local weights: hf:PATH, a known name, a directory or a .gguf file")
    if Path(name.removeprefix("hf:")).is_dir():
        name = name.removeprefix("hf:")
    return Subject.of(load_backend(name, dtype=None if name == "toy" else "float32", cache=False))
