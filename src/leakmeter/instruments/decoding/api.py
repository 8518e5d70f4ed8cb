"""The library: responses drawn with receipts, bounded or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.result import DecodeResult


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

    With `epsilon` each token is ε-DP for the context (Flemings et al., Algorithm 1 and Theorem B.1) as long as a seed
    that was given and all of the result but its `public` receipt stay secret; see
    `instruments.decoding.measure.Decode`. Arguments that are not told here are those of `influence`.

    Args:
        epsilon: bound for each token between any two contexts, nats, above 0; None for a given λ and no promise.
        lambda_max: largest λ of a token with epsilon.
        cid_lambda: λ without epsilon.
        min_new_tokens: fewest tokens of a response before one that stops it.
        max_new_tokens: most tokens of a response.
        samples: responses to draw; their receipts add up.
        seed: of the draws; by default 0, and with epsilon none: they come from the operating system's source.
        delta: δ of the compositions that have one.
        dtype: as of `influence`; with epsilon 'float32' by default, and half precision is refused.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from dataclasses import asdict

    from leakmeter.data.jsonl import case_of
    from leakmeter.instruments.decoding.measure import Decode
    from leakmeter.instruments.decoding.promise import check_precision, check_promise, precision_for
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.runs import loading
    from leakmeter.text.build import PromptSettings

    given = Decode(temperature, cid_lambda, epsilon, lambda_max, min_new_tokens, max_new_tokens, samples, seed)
    measure, case = given.seeded(), case_of(context, query, None, messages)
    check_promise(measure, [case], delta)
    if epsilon is not None and seed is not None:
        loading.tell(SEED_WARNING)
    precision = precision_for(measure, model, dtype)
    backend = loading.load_backend(model, dtype=precision, device=device, model_id=model_id, cache=cache)
    check_precision(measure, backend.dtype)
    settings = PromptSettings(unit="whole", template=template, truncate=truncate)
    (result,) = DecodeResult.from_run(
        loading.measured_alone(backend, measure, settings, case), asdict(measure), delta=delta
    )
    return result
