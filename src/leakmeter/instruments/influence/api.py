"""The library: a model, a context, a query, and the influence of each piece on the response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.influence.result import InfluenceResult


def influence(
    model: Any = DEFAULT_MODEL,
    *,
    context: str | Sequence[str] | Mapping[str, str] = (),
    query: str = "",
    response: str | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> InfluenceResult:
    """Measure, in nats, the influence of each piece of a context on a response.

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
        options: fields of `instruments.influence.measure.Influence` (temperature, cid_lambda, samples, max_new_tokens,
            seed) and of `text.build.PromptSettings` (unit, removal, template, group, truncate, swap …), and arguments
            of `load_backend` (dtype, device, model_id, cache …), each with the default that it has there. `unit` is
            the ablation unit: 'sentence' (the default), 'ngram:N', 'ngram:N:STRIDE', 'word', 'line', 'paragraph',
            'entity' (personal data), 'document', 'whole', or for chats 'message' (their default).

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.data.cases import case_of
    from leakmeter.instruments.influence.measure import Influence
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.runs import loading
    from leakmeter.text.build import PromptSettings

    measure = loading.made_of(Influence, options)
    settings = loading.made_of(PromptSettings, options)
    case = case_of(context, query, response, messages)
    backend = loading.load_backend(model, **options)
    (result,) = InfluenceResult.from_run(loading.measured_alone(backend, measure, settings, case), asdict(measure))
    return result
