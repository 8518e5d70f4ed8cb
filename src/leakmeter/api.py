"""The library: a model, a context, a query, and the response's debt to each piece."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from leakmeter.backends.base import Backend
    from leakmeter.backends.hf.backend import HfBackend
    from leakmeter.measures.base import Measure
    from leakmeter.prompts.build import PromptSettings, Removal
    from leakmeter.results.base import Part
    from leakmeter.results.decode import DecodeResult
    from leakmeter.results.influence import InfluenceResult
    from leakmeter.store.scores import ScoreCache
    from leakmeter.types.case import Case

DEFAULT_MODEL = "smollm2-135m"


def influence(
    model: Any = DEFAULT_MODEL,
    *,
    context: str | Sequence[str] | Mapping[str, str] = (),
    query: str = "",
    response: str | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
    unit: str | None = None,
    removal: Removal = "drop",
    group: bool = False,
    region: str = "US",
    entity_patterns: str | None = None,
    ner: str | None = None,
    swap: bool = False,
    swap_seed: int = 0,
    template: str | None = None,
    truncate: bool = False,
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    samples: int = 1,
    max_new_tokens: int = 50,
    seed: int = 0,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> InfluenceResult:
    """Measure, in nats, how much a response owes to each piece of its context.

    τ_i(t) = |log p̄(y_t | D, x, y_<t) − log p̄(y_t | D∖D_i, x, y_<t)| (Flemings et al., Definitions 3.1 and 3.2), under
    p̄_{λ,T} of their Eq. 6: a lower-bound estimate of the ex-post privacy loss of this context for this output.

    Args:
        model: a known name, 'hf:ORG/NAME', a directory, a .gguf file, a loaded (model, tokenizer) pair, or a back end
            from `load_backend`. A name is loaded anew at each call.
        context: one text, several documents, or documents by name.
        query: what the model is asked.
        response: what it answered; None to have answers sampled.
        messages: a chat instead of context and query: {'role', 'content', 'name'} each.
        unit: what is removed at a time: 'sentence' (the default), 'ngram:N', 'ngram:N:STRIDE', 'word', 'line',
            'paragraph', 'entity' (personal data), 'document', 'whole', or for chats 'message' (their default).
        removal: 'drop' cuts tokens out, 'mask' leaves their positions empty, 'retokenize' edits the text.
        group: also measure each value said more than once with all its mentions removed.
        region, entity_patterns, ner, swap, swap_seed: for unit 'entity', see `prompts.build.PromptSettings`.
        template: 'chat', 'plain', 'document', 'article', or a text with {context} and {query}.
        truncate: cut a context that does not fit the model's window, rather than refuse it.
        temperature: T above 0.
        cid_lambda: λ of 0 or more; 1 is ordinary sampling.
        samples: responses to draw when none is given.
        max_new_tokens: most tokens of a drawn response.
        seed: of the draws.
        dtype: 'float32', 'bfloat16' or 'float16'; float32 on a CPU, bfloat16 on CUDA by default.
        device: 'cpu', 'cuda', 'cuda:1' …
        model_id: see `load_backend`.
        cache: see `load_backend`; a back end keeps to what it was loaded with.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from dataclasses import asdict

    from leakmeter.data.given import case_of
    from leakmeter.measures.influence import Influence
    from leakmeter.prompts.build import PromptSettings
    from leakmeter.results.influence import InfluenceResult

    measure = Influence(
        temperature=temperature, cid_lambda=cid_lambda, samples=samples, max_new_tokens=max_new_tokens, seed=seed
    )
    settings = PromptSettings(
        unit=unit,
        removal=removal,
        template=template,
        group=group,
        truncate=truncate,
        region=region,
        entity_patterns=entity_patterns,
        ner=ner,
        swap=swap,
        swap_seed=swap_seed,
    )
    case = case_of(context, query, response, messages)
    backend = load_backend(model, dtype=dtype, device=device, model_id=model_id, cache=cache)
    (result,) = InfluenceResult.of_run(_parts(backend, measure, settings, case), asdict(measure))
    return result


def decode(
    model: Any = DEFAULT_MODEL,
    *,
    context: str | Sequence[str] | Mapping[str, str] = (),
    query: str = "",
    messages: Sequence[Mapping[str, Any]] = (),
    epsilon: float | None = None,
    lambda_max: float = 1.0,
    cid_lambda: float = 1.0,
    temperature: float = 1.0,
    min_new_tokens: int = 0,
    max_new_tokens: int = 50,
    samples: int = 1,
    seed: int | None = None,
    delta: float = 1e-5,
    template: str | None = None,
    truncate: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> DecodeResult:
    """Draw a response by context influence decoding, and write down in nats what each token tells of the context.

    With `epsilon` each token is ε-DP for the context (Flemings et al., Algorithm 1 and Theorem B.1) as long as the seed
    and all of the result but its `public` receipt stay secret; see `measures.decode.Decode`. Arguments that are not
    told here are those of `influence`.

    Args:
        epsilon: bound for each token between any two contexts, nats, above 0; None for a given λ and no promise.
        lambda_max: largest λ of a token with epsilon.
        cid_lambda: λ without epsilon.
        min_new_tokens: fewest tokens of a response before one that stops it.
        max_new_tokens: most tokens of a response.
        samples: responses to draw; their receipts add up.
        seed: of the draws; by default 0, and with epsilon a secret one, drawn at random.
        delta: δ of the compositions that have one.
        dtype: as of `influence`; with epsilon 'float32' by default, and half precision is refused.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from dataclasses import asdict

    from leakmeter.data.given import case_of
    from leakmeter.measures.decode import Decode
    from leakmeter.prompts.build import PromptSettings
    from leakmeter.results.decode import DecodeResult
    from leakmeter.studies.promise import SEED_WARNING, check_precision, check_promise, precision_for

    given = Decode(temperature, cid_lambda, epsilon, lambda_max, min_new_tokens, max_new_tokens, samples, seed)
    measure, case = given.seeded(), case_of(context, query, None, messages)
    check_promise(measure, [case], delta)
    if epsilon is not None and seed is not None:
        _tell(SEED_WARNING)
    precision = precision_for(measure, model, dtype)
    backend = load_backend(model, dtype=precision, device=device, model_id=model_id, cache=cache)
    check_precision(measure, backend.dtype)
    settings = PromptSettings(unit="whole", template=template, truncate=truncate)
    (result,) = DecodeResult.of_run(_parts(backend, measure, settings, case), asdict(measure), delta=delta)
    return result


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
        dtype: precision of the weights.
        device: where they are put.
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
    from leakmeter.backends.base import Backend

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
        return _reusing(given, model_id, cache, notify or _tell)
    if model == "toy":
        if dtype not in (None, "float64") or device not in (None, "cpu") or memory is not None:
            raise UsageError("the toy model computes in float64 on the CPU; leave dtype, device and memory out")
        from leakmeter import plugins

        toy: Backend = plugins.find("backends", "toy")()
        return toy
    from leakmeter.models import resolve

    found = resolve(str(model), notify=notify or _tell)
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
    return _reusing(backend, model_id, cache, notify or _tell)


def load_run(path: str | Path) -> Iterator[Any]:
    """The results of a complete run directory, one case after another: `InfluenceResult`s, `DecodeResult`s …

    Raises:
        StoreError: no complete run is there, or a part is damaged.
    """
    from leakmeter import plugins
    from leakmeter.store.rundir import RunDirectory

    directory = RunDirectory(Path(path))
    spec = directory.read_spec()
    parts = (directory.read_part(number) for number in range(spec["n_parts"]))
    yield from plugins.find("results", spec["measure"]).of_run(
        ((texts, readings) for (texts,), readings in parts), spec["params"]
    )


def _parts(backend: Backend, measure: Measure, settings: PromptSettings, case: Case) -> Iterator[Part]:
    from leakmeter.studies.run import Watch, measure_cases, prepare_case

    return measure_cases(backend, measure, settings, [prepare_case(case, backend, settings, measure)], None, Watch())


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
    from leakmeter.store.scores import FILE_NAME, ScoreCache
    from leakmeter.store.secret import read_secret

    folder = scores_dir()
    if folder is None:
        return None
    try:
        secret = read_secret(config_dir() / "scores.secret")
    except (OSError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        notify(
            f"going on without the score cache: its secret cannot be kept in '{config_dir()}' ({reason}); "
            "move it with LEAKMETER_CONFIG=DIR"
        )
        return None
    return ScoreCache(folder / FILE_NAME, secret, notify=notify)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
