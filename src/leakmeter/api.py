"""The library: a model, a context, a query, and the response's debt to each piece."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from leakmeter.backends.base import Backend
    from leakmeter.prompts.build import Removal
    from leakmeter.results.influence import InfluenceResult

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
    template: str | None = None,
    truncate: bool = False,
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    samples: int = 1,
    max_new_tokens: int = 50,
    seed: int = 0,
    dtype: str | None = None,
    device: str | None = None,
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
            'paragraph', 'document', 'whole', or for chats 'message' (their default).
        removal: 'drop' cuts tokens out, 'mask' leaves their positions empty, 'retokenize' edits the text.
        group: also measure each value said more than once with all its mentions removed.
        template: 'chat', 'plain', 'document', 'article', or a text with {context} and {query}.
        truncate: cut a context that does not fit the model's window, rather than refuse it.
        temperature: T above 0.
        cid_lambda: λ of 0 or more; 1 is ordinary sampling.
        samples: responses to draw when none is given.
        max_new_tokens: most tokens of a drawn response.
        seed: of the draws.
        dtype: 'float32', 'bfloat16' or 'float16'; float32 on a CPU, bfloat16 on CUDA by default.
        device: 'cpu', 'cuda', 'cuda:1' …

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from dataclasses import asdict

    from leakmeter.data.chat import messages_of
    from leakmeter.measures.influence import Influence
    from leakmeter.prompts.build import PromptSettings
    from leakmeter.results.influence import InfluenceResult, case_object
    from leakmeter.studies.run import Watch, measure_cases, prepare_case
    from leakmeter.types.case import Case

    if messages and (context or query):
        raise UsageError("give either messages, or context and query")
    measure = Influence(
        temperature=temperature, cid_lambda=cid_lambda, samples=samples, max_new_tokens=max_new_tokens, seed=seed
    )
    settings = PromptSettings(
        unit=unit,
        removal=removal,
        template=template,
        group=group,
        truncate=truncate,
    )
    case = Case(
        id="case",
        documents=_documents(context),
        query=query,
        response=response,
        messages=messages_of([dict(m) for m in messages], "messages") if messages else (),
    )
    backend = load_backend(model, dtype=dtype, device=device)
    prepared = prepare_case(case, backend, settings, measure)
    ((texts, readings),) = measure_cases(backend, measure, settings, [prepared], None, Watch())
    return InfluenceResult(case_object(texts, readings, asdict(measure)))


def load_backend(
    model: Any = DEFAULT_MODEL,
    *,
    dtype: str | None = None,
    device: str | None = None,
    notify: Callable[[str], None] | None = None,
) -> Backend:
    """A model to a back end that scores with it; load once, measure often.

    Args:
        model: see `influence`.
        dtype: precision of the weights.
        device: where they are put.
        notify: told in one line of what takes time, such as a download; standard error by default.
    """
    from leakmeter.backends.base import Backend

    if not isinstance(model, (str, Path)):
        if isinstance(model, Backend):
            return model
        if not (isinstance(model, tuple) and len(model) == 2):
            raise UsageError(f"model is a {type(model).__name__}; give a name, a path, or the pair (model, tokenizer)")
        from leakmeter.backends.hf.load import from_objects

        return from_objects(*model)
    if model == "toy":
        if dtype not in (None, "float64") or device not in (None, "cpu"):
            raise UsageError("the toy model computes in float64 on the CPU; leave dtype and device out")
        from leakmeter import plugins

        toy: Backend = plugins.find("backends", "toy")()
        return toy
    from leakmeter.models import resolve

    found = resolve(str(model), notify=notify or _tell)
    from leakmeter.backends.hf.load import load_directory

    return load_directory(
        Path(found.path), name=found.name, dtype=dtype, device=device, weights_sha256=found.weights_sha256
    )


def load_run(path: str | Path) -> Iterator[InfluenceResult]:
    """The results of a complete run directory, one case after another.

    Raises:
        StoreError: no complete run is there, or a part is damaged.
    """
    from leakmeter.results.influence import InfluenceResult, case_object
    from leakmeter.store.rundir import RunDirectory

    directory = RunDirectory(Path(path))
    spec = directory.read_spec()
    for number in range(spec["n_parts"]):
        (texts,), readings = directory.read_part(number)
        yield InfluenceResult(case_object(texts, readings, spec["params"]))


def _documents(context: str | Sequence[str] | Mapping[str, str]) -> tuple[Any, ...]:
    from leakmeter.types.case import Document

    if isinstance(context, str):
        return (Document("context", context),)
    if isinstance(context, Mapping):
        return tuple(Document(name, text) for name, text in context.items())
    return tuple(Document(f"d{number}", text) for number, text in enumerate(context, 1))


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
