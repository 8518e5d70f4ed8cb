"""The library: what to cut from a context so that what is left has little influence on a response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leakmeter.commands.call import CallOptions, CaseNames, Some, cases_given, function, measured
from leakmeter.core.loaded import Plan
from leakmeter.errors import UsageError
from leakmeter.instruments.redaction.measure import Redaction
from leakmeter.text.build import PromptSettings

if TYPE_CHECKING:
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.redaction.result import RedactionResult
    from leakmeter.results.results import Results


@function(
    case=("context", "query", "response", "messages"),
    measure=Some(Redaction, without=("max_loss",)),
    prompts=Some(PromptSettings, without=("swap", "swap_seed")),
    names=CaseNames,
    how=CallOptions,
)
def redaction(
    model: KeptModel,
    data: Any = None,
    *,
    max_loss: float | None = None,
    context: str | Sequence[Any] | Mapping[str, str] = (),
    query: str = "",
    response: str | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
    measure: Redaction,
    prompts: PromptSettings,
    names: CaseNames,
    how: CallOptions,
) -> RedactionResult | Results[RedactionResult]:
    """Find few pieces to cut from a context, so that the rest has little influence on the response.

    Pieces are cut one by one, each time the one that leaves least, with all that is cut scored together anew; see
    `instruments.redaction.measure.Redaction`. The loss is the influence of Flemings et al., Definition 3.2, on the
    response that was given with everything. With `disclosures` pieces are cut until the response gives away nothing
    personal or secret of what is left. What is not explained here is as in `influence`.

    Args:
        max_loss: largest influence of what is left on the response, nats, above 0; needed without `disclosures`.
        measure: options of the measure; see `instruments.redaction.measure.Redaction`.
        prompts: how prompts are made and cut, but for surrogate values.

    Returns:
        The result of a single case; of data a `Results`, or with `out` a `Run`, with a result for each case.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> told = {"context": "Ana is 41. She sings.", "query": "How old is Ana?", "response": "41"}
        >>> leakmeter.redaction("toy", **told, max_loss=5).reached
        True
    """
    measure = replace(measure, max_loss=max_loss)
    loaded, is_single = cases_given(data, context, query, response, messages, names, how)
    results = measured(model, Plan("redact_plan", measure, prompts, loaded), how)
    return results[0] if is_single else results


def check_prompts(prompts: PromptSettings) -> None:
    """Refuse prompts that nothing can be cut from, since they have surrogate values."""
    if prompts.swap:
        raise UsageError("--swap puts surrogate values in the place of personal data, and redaction cuts; leave it out")
