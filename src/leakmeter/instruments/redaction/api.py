"""The library: what to cut from a context so that what is left has little influence on a response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.redaction.result import RedactionResult
    from leakmeter.text.build import PromptSettings


def redaction(
    model: Any = DEFAULT_MODEL,
    *,
    max_loss: float,
    context: str | Sequence[str] | Mapping[str, str] = (),
    query: str = "",
    response: str | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> RedactionResult:
    """Find few pieces to cut from a context so that what is left has little influence on the response.

    Pieces are cut one by one, each time the one that leaves least, with all that is cut scored together anew; see
    `instruments.redaction.measure.Redaction`. Arguments that are not explained here are those of `leakmeter.influence`.

    Args:
        max_loss: largest influence of what is left on the response, nats, above 0.
        options: fields of `Redaction` (temperature, cid_lambda, max_new_tokens, seed), fields of
            `text.build.PromptSettings` but for swaps (unit, removal, group, template …), and arguments of
            `load_backend` (dtype, device, model_id, cache …).

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.data.cases import case_of
    from leakmeter.instruments.redaction.measure import Redaction
    from leakmeter.instruments.redaction.result import RedactionResult
    from leakmeter.runs import loading
    from leakmeter.text.build import PromptSettings

    measure = loading.made_of(Redaction, options, max_loss=max_loss)
    settings = loading.made_of(PromptSettings, options)
    check_prompts(settings)
    case = case_of(context, query, response, messages)
    backend = loading.load_backend(model, **options)
    (result,) = RedactionResult.from_run(loading.measured_alone(backend, measure, settings, case), asdict(measure))
    return result


def check_prompts(prompts: PromptSettings) -> None:
    """Refuse prompts that nothing can be cut from.

    Raises:
        UsageError: they have surrogate values.
    """
    if prompts.swap:
        raise UsageError("--swap puts surrogate values in the place of personal data, and redaction cuts; leave it out")
