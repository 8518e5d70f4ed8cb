"""The library: what to cut from a context so that a response owes little to what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.redaction.result import RedactPlanResult
    from leakmeter.text.build import Removal


def redact_plan(
    model: Any = DEFAULT_MODEL,
    *,
    max_loss: float,
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
    template: str | None = None,
    truncate: bool = False,
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    max_new_tokens: int = 50,
    seed: int = 0,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> RedactPlanResult:
    """Find few pieces of a context without which a response owes at most so many nats to what is left of it.

    Pieces are cut one by one, each time the one that leaves least, with all that is cut scored together anew; see
    `instruments.redaction.measure.RedactPlan`. Arguments that are not told here are those of `leakmeter.influence`.

    Args:
        max_loss: nats that the response may still owe, above 0.
        group: also offer each value said more than once, with all its mentions, as a piece.
        max_new_tokens: most tokens of a drawn response, and of the answer drawn from what is left.
        seed: of both draws.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from dataclasses import asdict

    from leakmeter.data.jsonl import case_of
    from leakmeter.instruments.redaction.measure import RedactPlan
    from leakmeter.instruments.redaction.result import RedactPlanResult
    from leakmeter.runs import loading
    from leakmeter.text.build import PromptSettings

    measure = RedactPlan(max_loss, temperature, cid_lambda, max_new_tokens, seed)
    settings = PromptSettings(
        unit=unit,
        removal=removal,
        template=template,
        group=group,
        truncate=truncate,
        region=region,
        entity_patterns=entity_patterns,
        ner=ner,
    )
    case = case_of(context, query, response, messages)
    backend = loading.load_backend(model, dtype=dtype, device=device, model_id=model_id, cache=cache)
    (result,) = RedactPlanResult.from_run(loading.measured_alone(backend, measure, settings, case), asdict(measure))
    return result
