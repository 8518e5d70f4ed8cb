"""`leakmeter influence`: the influence of each piece of a context on a response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leakmeter.commands.call import CallOptions, CaseOptions, FunctionOptions, function_of_cases, measured
from leakmeter.commands.cases import read_cases, run_cases
from leakmeter.commands.options import CaseSource, RunOptions, TextOption
from leakmeter.engine.options import ModelOptions
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.steps import planned
from leakmeter.text.build import PromptSettings

if TYPE_CHECKING:
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.results.results import Results


def influence_command(
    *,
    source: CaseSource | None = None,
    response: TextOption | None = None,
    prompts: Annotated[PromptSettings | None, Parameter(name="*", negative="")] = None,
    measure: Annotated[Influence | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, the influence of each piece of a context on a response.

    Give a context with --context-file and --query, many cases with --data, or a chat with --messages. Without a
    response, one is sampled; rows of --data without one are refused unless you give --samples. The same command
    continues a run that was interrupted.

    Parameters
    ----------
    response
        The response to score; sampled if omitted.
    """
    measure = measure or Influence()
    loaded = read_cases(source or CaseSource(), response, needs_response=not measure.samples)
    prompts, run = prompts or PromptSettings(), run or RunOptions()
    run_cases(planned(measure, prompts, loaded), run, inputs=[source])


class InfluenceOptions(FunctionOptions, CallOptions, PromptSettings, Influence, CaseOptions): ...


class InfluenceCall(ModelOptions, InfluenceOptions): ...


@function_of_cases(InfluenceOptions, InfluenceCall)
def influence(model: KeptModel, data: Any, options: InfluenceOptions) -> Results[InfluenceResult]:
    """Measure, in nats, the influence of each piece of a context on a response.

    τ_i(t) = |log p̄(y_t | D, x, y_<t) − log p̄(y_t | D∖D_i, x, y_<t)| (Flemings et al., Definitions 3.1 and 3.2), under
    p̄_{λ,T} of their Eq. 6: a lower-bound estimate of the ex-post privacy loss of this context for this output.

    Args:
        model: a known name, 'hf:ORG/NAME', a directory, a .gguf file, a loaded (model, tokenizer) pair, or a back end
            from `load_backend`. What a name or path loads is kept for the next call; `forget` frees it.
        data: many cases: a file, records, a pandas or polars frame, a data set, or objects of other libraries; each
            with 'context' and 'query', or 'messages', with 'response', and optionally 'id'. Rows without a response are
            refused unless `samples` is given.
        context: of a single case: one text, several documents, or documents by name.
        query: what the model is asked.
        response: what it answered; None to have answers sampled.
        messages: a chat instead of context and query: {'role', 'content', 'name'} each. The last user message is the
            query, a last message of the assistant's the response, the others are the context.
        measure: options of the measure; see `instruments.influence.measure.Influence`.
        prompts: how prompts are made and cut; `unit` is the ablation unit: 'auto' (the default: documents, then
            sentences of those that matter), 'sentence' (the default with `search`), 'ngram:N', 'word', 'line',
            'paragraph', 'entity' (personal data), 'document', 'whole', or for chats 'message' (their default).
        names: what the fields of the data are called.
        how: `out` keeps the results in a run directory, `progress` draws a bar.

    Returns:
        The result of a single case; of data a `Results`, or with `out` a `Run`, with a result for each case.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> one = leakmeter.influence("toy", context="Ana is 41. She sings.", query="How old is Ana?", response="41")
        >>> [piece.text for piece in one.pieces]
        ['Ana is 41.', 'She sings.']
        >>> many = leakmeter.influence("toy", [{"id": "a", "context": "Ana is 41.", "query": "Age?", "response": "41"}])
        >>> many["a"].whole_nats == many[0].whole_nats
        True
    """
    measure = options.part(Influence)
    cases = options.cases(data, skip_bad=options.skip_bad, needs_response=not measure.samples)
    return measured(model, planned(measure, options.part(PromptSettings), cases), options)
