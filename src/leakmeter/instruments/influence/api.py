"""The library: a model, a context, a query, and the response's debt to each piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.text.build import Removal


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
        messages: a chat instead of context and query: {'role', 'content', 'name'} each. The last user message is the
            query, a last message of the assistant's the response, the others are the context.
        unit: what is removed at a time: 'sentence' (the default), 'ngram:N', 'ngram:N:STRIDE', 'word', 'line',
            'paragraph', 'entity' (personal data), 'document', 'whole', or for chats 'message' (their default).
        removal: 'drop' cuts tokens out, 'mask' leaves their positions empty, 'retokenize' edits the text.
        group: also measure each value said more than once with all its mentions removed.
        region, entity_patterns, ner, swap, swap_seed: for unit 'entity', see `text.build.PromptSettings`.
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

    from leakmeter.data.jsonl import case_of
    from leakmeter.instruments.influence.measure import Influence
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.runs import loading
    from leakmeter.text.build import PromptSettings

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
    backend = loading.load_backend(model, dtype=dtype, device=device, model_id=model_id, cache=cache)
    (result,) = InfluenceResult.from_run(loading.measured_alone(backend, measure, settings, case), asdict(measure))
    return result
