"""The library's models and runs: a model to a back end, a run directory to its results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.limits import parse_memory
from leakmeter.core.plain import visible
from leakmeter.engine.options import MODEL_OPTIONS, ModelOptions, as_argument
from leakmeter.errors import UsageError, options_named
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend
    from leakmeter.core.backend import Backend, Tokenizer
    from leakmeter.engine.scores import ScoreCache
    from leakmeter.results.run import Run


def load_backend(
    model: Any = DEFAULT_MODEL,
    *,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
    tokenizer: Any = None,
    allow_remote: bool = False,
    concurrency: int | None = None,
    threads: int | None = None,
    on: str | None = None,
    workers: int | None = None,
    gpus_per_worker: float | None = None,
    allow_mixed: bool = False,
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
            might be reconstructed; `leakmeter models cache clear` empties it.
        tokenizer: of a served model: a known name, 'hf:ORG/NAME', a directory with a tokenizer.json, a .gguf file, or
            a fast tokenizer of the transformers library.
        allow_remote: a served model may be on another machine, to which contexts, queries and responses are sent.
        concurrency: requests to a served model under way at a time; 8 by default.
        threads: of the CPU, of this process or of each worker; by default all cores here, and 1 of a worker. They
            decide the last digits, so runs that differ in them are different runs.
        on: 'ray' to have workers measure on this machine, or on the cluster that RAY_ADDRESS names; 'ray:ADDRESS' for
            another. Contexts, queries and responses are sent to them.
        workers: how many load the model, each its own; 2 by default.
        gpus_per_worker: GPUs of each, which may be a part of one; none by default.
        allow_mixed: take workers on machines of several kinds, which moves last digits.
        notify: told in one line of what takes time, such as a download, and when the score cache cannot be used;
            standard error by default.

    Returns:
        The back end, which every function takes as a model.

    Raises:
        LeakmeterError: there is no such model, or it cannot be loaded so; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> backend = leakmeter.load_backend("toy")
        >>> leakmeter.influence(backend, context="Ana is 41.", query="How old is Ana?", response="41").model
        'toy'
    """
    options = ModelOptions(
        dtype=dtype,
        device=device,
        memory=memory,
        model_id=model_id,
        cache=cache,
        tokenizer=tokenizer,
        allow_remote=allow_remote,
        concurrency=concurrency,
        threads=threads,
        on=on,
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        allow_mixed=allow_mixed,
    )
    with options_named(as_argument):
        return load(model, options, notify)


def load(model: Any, options: ModelOptions, notify: Callable[[str], None] | None = None) -> Backend:
    """As `load_backend`; its errors name options as a command does, and callers in Python rename them."""
    from leakmeter.backends.served import names_a_server
    from leakmeter.core.backend import Backend

    notify = notify or tell
    if options.threads is not None and options.threads < 1:
        raise UsageError(f"--threads is {options.threads}; it has to be 1 or more")
    if options.on is not None:
        from leakmeter.engine.workers import Workers

        crew = Workers(options.on, options.workers, options.gpus_per_worker, options.threads, options.allow_mixed)
        alone = ModelOptions(
            **{name: getattr(options, name) for name in MODEL_OPTIONS if name not in ("on", *_OF_WORKERS)}
        )
        return crew.load(load, model, alone, notify)
    _refuse(options, _OF_WORKERS, "work on several machines", "give --on ray too")
    if isinstance(model, str) and names_a_server(model):
        refuse_local(options)
        from leakmeter.backends.served.load import load_served

        return load_served(
            model,
            tokenizer=options.tokenizer,
            allow_remote=options.allow_remote,
            concurrency=options.concurrency,
            notify=notify,
        )
    _refuse_served(options)
    memory_bytes = parse_memory(options.memory) if options.memory else None
    if not isinstance(model, (str, Path)):
        if isinstance(model, Backend):
            _refuse(options, ("model_id",), "a model that is yet to be loaded", "give it to load_backend")
            return model
        if not (isinstance(model, tuple) and len(model) == 2):
            raise UsageError(
                f"model is a {type(model).__name__}; give a name, a path, the pair (model, "
                "tokenizer), or a back end, whose class inherits leakmeter.core.backend.Backend"
            )
        from leakmeter.backends.hf.load import from_objects

        _use_threads(options.threads)
        return _reusing(from_objects(*model, memory_bytes=memory_bytes), options, notify)
    from leakmeter.core import registry

    if names_a_backend(str(model)):
        name, _, rest = str(model).partition(":")
        kind = registry.backend(name)
        other: Backend = kind.named(rest, dtype=options.dtype, device=options.device, memory=options.memory)
        return other
    if model == "toy":
        if options.dtype not in (None, "float64") or options.device not in (None, "cpu") or options.memory is not None:
            raise UsageError("the toy model computes in float64 on the CPU; leave --dtype, --device and --memory out")
        toy: Backend = registry.backend("toy")()
        return toy
    from leakmeter.models import resolve

    resolved = resolve(str(model), notify=notify)
    from leakmeter.backends.hf.load import load_directory

    _use_threads(options.threads)
    backend = load_directory(
        Path(resolved.path),
        name=resolved.name,
        dtype=options.dtype,
        device=options.device,
        weights_sha256=resolved.weights_sha256,
        memory_bytes=memory_bytes,
    )
    return _reusing(backend, options, notify)


def load_tokenizer(model: str, *, tokenizer: Any = None, notify: Callable[[str], None] | None = None) -> Tokenizer:
    """A model's tokenizer, or `tokenizer` of a served model; weights are not loaded, and no server is asked."""
    from leakmeter.backends.served import names_a_server

    if names_a_server(model):
        from leakmeter.backends.served.load import served_tokenizer

        return served_tokenizer(tokenizer, notify or tell)[0]
    options = ModelOptions(tokenizer=tokenizer)
    _refuse_served(options)
    if model == "toy" or names_a_backend(model):
        return load(model, ModelOptions()).tokenizer
    from leakmeter.models.resolve import tokenizer_folder

    folder = tokenizer_folder(model, notify=notify or tell)
    from leakmeter.backends.hf.tokenizer import load_tokenizer as loaded

    return loaded(folder, model)


_OF_WORKERS: Final = ("workers", "gpus_per_worker", "allow_mixed")
_OF_LOCAL: Final = ("dtype", "device", "memory", "model_id", "threads", "on", *_OF_WORKERS)
_OF_SERVED: Final = ("tokenizer", "allow_remote", "concurrency")


def _refuse(options: ModelOptions, names: Sequence[str], what_for: str, advice: str = "") -> None:
    """`UsageError` where one of these options is given, which are for something else."""
    values = [(name, getattr(options, name)) for name in names]
    given = [f"--{name.replace('_', '-')}" for name, value in values if value is not None and value is not False]
    if given:
        are, them = ("is", "it") if len(given) == 1 else ("are", "them")
        raise UsageError(f"{' and '.join(given)} {are} for {what_for}; {advice or f'leave {them} out'}")


def refuse_local(options: ModelOptions) -> None:
    """`UsageError` where an option is given that a served model does not have."""
    _refuse(options, _OF_LOCAL, "a model loaded here, and this one is served")


def _refuse_served(options: ModelOptions) -> None:
    _refuse(options, _OF_SERVED, "a served model, such as vllm:http://127.0.0.1:8000#NAME")


def _use_threads(n_threads: int | None) -> None:
    """Compute on the CPU with so many threads, in all of this process."""
    if n_threads is not None:
        from leakmeter.backends.hf.machine import use_threads

        use_threads(n_threads)


def names_a_backend(model: str) -> bool:
    """Whether a model's name is 'NAME:…' of a back end that is made of the rest."""
    from leakmeter.backends.served import names_a_server
    from leakmeter.core import registry

    if names_a_server(model):
        return True
    name, colon, _ = model.partition(":")
    return bool(colon) and name in registry.added_backends()


def load_run(path: str | Path) -> Run:
    """Read a complete run directory as an object; iterating over it yields its results, one case after another.

    Args:
        path: the directory, or its URL in an object store, of which a private copy is made that goes with the object.

    Returns:
        The run, a `Results` with a result a case.

    Raises:
        StoreError: no complete run is there; iterating raises it too, where a part is damaged.

    Examples:
        >>> import leakmeter, tempfile
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     again = leakmeter.load_run(one.path)
        ...     same = again[0] == one[0]
        >>> len(again), same
        (1, True)
    """
    from leakmeter.results.run import Run

    return Run.read(path)


class KeptModel:
    """A model as it was given, loaded (see `load_backend`) when it is first needed and kept; one call at a time
    measures with it."""

    is_shared = False
    """Whether calls of functions share it, rather than those of one meter."""

    def __init__(self, model: Any = DEFAULT_MODEL, options: ModelOptions = ModelOptions()) -> None:  # noqa: B008 (frozen)
        self.source = model
        self.options = options
        self.on_loading: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while it is loaded, by who wants to tell of it."""
        self.lock = RLock()

    @property
    def dtype(self) -> str | None:
        """The precision that was asked for; None for the default of the device."""
        return self.options.dtype

    @property
    def name(self) -> str:
        """What the command line would call it; that of the back end where no name was given."""
        return str(self.source) if isinstance(self.source, (str, Path)) else str(self.backend.name)

    @cached_property
    def backend(self) -> Backend:
        with self.lock, self.on_loading():
            return load(self.source, self.options)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; a name or path is not loaded for it."""
        if "backend" in self.__dict__ or not isinstance(self.source, (str, Path)):
            return self.backend.tokenizer
        return load_tokenizer(str(self.source), tokenizer=self.options.tokenizer)

    def in_precision(self, dtype: str | None) -> KeptModel:
        """What measures in a precision that a guarantee needs; a meter's own model stays as it was loaded."""
        if self.is_shared and dtype != self.dtype:
            return model_of(self.source, replace(self.options, dtype=dtype))
        return self

    @contextmanager
    def without_cache(self) -> Iterator[Backend]:
        """The model, whose scores of people's data are not kept in the score cache meanwhile."""
        with self.backend.without_cache():
            yield self.backend


_kept: tuple[object, KeptModel] | None = None
_keeping = Lock()


def model_of(model: Any, options: ModelOptions) -> KeptModel:
    """What measures with a model: that of the call before, where the same name or path is given alike.

    A path whose files have changed since, and other settings of the environment, are not the same. What is no name,
    such as a (model, tokenizer) pair, may be trained between two calls, and is not kept.
    """
    global _kept
    kept_model = KeptModel(model, options)
    kept_model.is_shared = True
    if not isinstance(model, (str, Path)):
        return kept_model
    key = (str(model), options, _files_of(Path(model)), _environment())
    with _keeping:
        if _kept is None or _kept[0] != key:
            _kept = (key, kept_model)
        return _kept[1]


def forget() -> None:
    """Free the model that functions such as `influence` loaded and keep for the next call.

    Examples:
        >>> import leakmeter
        >>> leakmeter.forget()
    """
    global _kept
    with _keeping:
        _kept = None


def _files_of(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, times and sizes of a model's files; none where it is known by a name."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def _environment() -> tuple[tuple[str, str], ...]:
    """What decides where models and scores are kept."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(("LEAKMETER_", "HF_"))))


def tell(line: str) -> None:
    sys.stderr.write(f"{visible(line)}\n")


def _reusing(backend: HfBackend, options: ModelOptions, notify: Callable[[str], None]) -> HfBackend:
    if not options.cache or (backend.weights_sha256 is None and options.model_id is None):
        return backend
    scores = _score_cache(notify)
    if scores is not None:
        from leakmeter.backends.hf.reuse import reuse_for

        backend.reuse = reuse_for(backend, scores, options.model_id)
    return backend


def _score_cache(notify: Callable[[str], None]) -> ScoreCache | None:
    """The user's, or None where it is turned off or its secret cannot be kept."""
    from leakmeter.engine.scores import FILE_NAME, ScoreCache
    from leakmeter.engine.storage.pseudonym import read_secret
    from leakmeter.models import config_dir, scores_dir

    folder = scores_dir()
    if folder is None:
        return None
    try:
        secret = read_secret(config_dir() / "scores.secret", replaces_damaged=True)
    except (OSError, NotImplementedError) as error:
        # filelock raises the latter where a file system has no locks.
        reason = getattr(error, "strerror", None) or error
        notify(
            f"continuing without the score cache: its secret cannot be kept in '{config_dir()}' ({reason}); "
            "move it with LEAKMETER_CONFIG=DIR"
        )
        return None
    return ScoreCache(folder / FILE_NAME, secret, notify=notify)
