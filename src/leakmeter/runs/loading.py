"""The library's models and runs: a model to a back end, a run directory to its results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend
    from leakmeter.core.backend import Backend
    from leakmeter.core.case import Case
    from leakmeter.core.measure import Measure
    from leakmeter.runs.result import Part
    from leakmeter.runs.run import Run
    from leakmeter.runs.scores import ScoreCache
    from leakmeter.text.build import PromptSettings

T = TypeVar("T")


def load_backend(
    model: Any = DEFAULT_MODEL,
    *,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
    notify: Callable[[str], None] | None = None,
) -> Backend:
    """A model to a back end that scores with it; load once, measure often.

    Args:
        model: see `influence`.
        dtype: 'float32', 'bfloat16' or 'float16'; float32 on a CPU, bfloat16 on CUDA by default.
        device: 'cpu', 'cuda', 'cuda:1' …
        memory: to be held beside the weights, such as '512MiB' or '4GiB'; 1 GiB on a CPU and a quarter of a GPU's by
            default. The work is cut to it, which moves last digits, so runs that differ in it are different runs.
        model_id: what the score cache calls a loaded (model, tokenizer) pair, which it otherwise leaves alone: to hash
            weights in memory is slow, and the hash stale as soon as they are trained further. Other weights need
            another id.
        cache: keep scores, and use those that were kept, in the user's score cache. It holds numbers from which texts
            might be reconstructed; `leakmeter cache clear` empties it.
        notify: told in one line of what takes time, such as a download, and when the score cache cannot be used;
            standard error by default.
    """
    from leakmeter.core.backend import Backend

    if not isinstance(model, (str, Path)):
        if isinstance(model, Backend):
            if model_id is not None:
                raise UsageError(f"model_id '{model_id}' comes too late for a back end; give it to load_backend")
            return model
        if not (isinstance(model, tuple) and len(model) == 2):
            raise UsageError(f"model is a {type(model).__name__}; give a name, a path, or the pair (model, tokenizer)")
        from leakmeter.backends.hf.load import from_objects
        from leakmeter.backends.hf.memory import parse_memory

        given = from_objects(*model, memory_bytes=parse_memory(memory) if memory else None)
        return _reusing(given, model_id, cache, notify or tell)
    other = _other_backend(str(model), dtype, device, memory)
    if other is not None:
        return other
    if model == "toy":
        if dtype not in (None, "float64") or device not in (None, "cpu") or memory is not None:
            raise UsageError("the toy model computes in float64 on the CPU; leave dtype, device and memory out")
        from leakmeter.core import registry

        toy: Backend = registry.backend("toy")()
        return toy
    from leakmeter.models import resolve

    found = resolve(str(model), notify=notify or tell)
    from leakmeter.backends.hf.load import load_directory
    from leakmeter.backends.hf.memory import parse_memory

    backend = load_directory(
        Path(found.path),
        name=found.name,
        dtype=dtype,
        device=device,
        weights_sha256=found.weights_sha256,
        memory_bytes=parse_memory(memory) if memory else None,
    )
    return _reusing(backend, model_id, cache, notify or tell)


def _other_backend(model: str, dtype: str | None, device: str | None, memory: str | None) -> Backend | None:
    """The back end that 'NAME:…' names; None where no back end of that name is made of a text."""
    from leakmeter.core import registry

    if not names_a_backend(model):
        return None
    name, _, rest = model.partition(":")
    made: Backend = registry.backend(name).named(rest, dtype=dtype, device=device, memory=memory)
    return made


def names_a_backend(model: str) -> bool:
    """Whether a model's name is 'NAME:…' of a back end that is made of the rest."""
    from leakmeter.core import registry

    name, colon, _ = model.partition(":")
    return bool(colon) and name in registry.backends() and hasattr(registry.backend(name), "named")


def load_run(path: str | Path) -> Run:
    """A complete run directory as an object; iterating over it yields its results, one case after another.

    Raises:
        StoreError: no complete run is there; iterating raises it too, where a part is damaged.
    """
    from leakmeter.runs.run import Run

    return Run.read(path)


def made_of(kind: type[T], options: dict[str, Any], **given: Any) -> T:
    """A dataclass of measure parameters or prompt settings, from the keyword arguments of a call.

    Args:
        kind: the dataclass.
        options: of the call; those that are its fields are taken out.
        given: more of its fields.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**given, **{name: options.pop(name) for name in names if name in options})


def measured_alone(backend: Backend, measure: Measure, settings: PromptSettings, case: Case) -> Iterator[Part]:
    """Texts and measurements of one case, measured in memory."""
    from leakmeter.runs.measure import Callbacks, measure_cases

    return measure_cases(backend, measure, [settings.prepare(case, backend, measure)], None, Callbacks())


def tell(line: str) -> None:
    """One line to standard error."""
    sys.stderr.write(f"{visible(line)}\n")


def _reusing(backend: HfBackend, model_id: str | None, cache: bool, notify: Callable[[str], None]) -> HfBackend:
    if not cache or (backend.weights_sha256 is None and model_id is None):
        return backend
    scores = _score_cache(notify)
    if scores is not None:
        from leakmeter.backends.hf.reuse import reuse_for

        backend.reuse = reuse_for(backend, scores, model_id)
    return backend


def _score_cache(notify: Callable[[str], None]) -> ScoreCache | None:
    """The user's, or None where it is turned off or its secret cannot be kept."""
    from leakmeter.models import config_dir, scores_dir
    from leakmeter.runs.pseudonym import read_secret
    from leakmeter.runs.scores import FILE_NAME, ScoreCache

    folder = scores_dir()
    if folder is None:
        return None
    try:
        secret = read_secret(config_dir() / "scores.secret")
    except (OSError, NotImplementedError) as error:
        # filelock raises the latter where a file system has no locks.
        reason = getattr(error, "strerror", None) or error
        notify(
            f"going on without the score cache: its secret cannot be kept in '{config_dir()}' ({reason}); "
            "move it with LEAKMETER_CONFIG=DIR"
        )
        return None
    return ScoreCache(folder / FILE_NAME, secret, notify=notify)
