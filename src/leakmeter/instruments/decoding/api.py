"""The library: responses drawn with a ledger of their privacy loss, bounded or not; and settings compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.frontier import Frontier
    from leakmeter.instruments.decoding.result import DecodeResult


def decode(
    model: Any = DEFAULT_MODEL,
    *,
    context: str | Sequence[str] | Mapping[str, str] = (),
    query: str = "",
    messages: Sequence[Mapping[str, Any]] = (),
    template: str | None = None,
    truncate: bool = False,
    delta: float = 1e-5,
    dtype: str | None = None,
    **options: Any,
) -> DecodeResult:
    """Draw a response by context influence decoding, and write down in nats what each token tells of the context.

    With `epsilon` each token is ε-DP for the context (Flemings et al., Algorithm 1 and Theorem B.1) as long as a seed
    that was given and all of the result but its `public` part stay secret; see `instruments.decoding.measure.Decode`.
    Arguments that are not explained here are those of `influence`.

    Args:
        delta: δ of the compositions that have one.
        dtype: as of `influence`; with epsilon 'float32' by default, and half precision is refused.
        options: fields of `Decode` (epsilon, lambda_max, cid_lambda, temperature, min_new_tokens, max_new_tokens,
            samples, seed), and arguments of `load_backend` (device, model_id, cache …). Without a seed the draws with
            epsilon come from the operating system's source.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.data.cases import case_of
    from leakmeter.instruments.decoding.guarantee import check_guarantee, check_precision, precision_for
    from leakmeter.instruments.decoding.measure import Decode
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.runs import loading
    from leakmeter.text.build import PromptSettings

    given = loading.made_of(Decode, options)
    measure, case = given.seeded(), case_of(context, query, None, messages)
    check_guarantee(measure, [case], delta)
    if given.epsilon is not None and given.seed is not None:
        loading.tell(SEED_WARNING)
    backend = loading.load_backend(model, dtype=precision_for(measure, model, dtype), **options)
    check_precision(measure, backend.dtype)
    settings = PromptSettings(unit="whole", template=template, truncate=truncate)
    parts = loading.measured_alone(backend, measure, settings, case)
    (result,) = DecodeResult.from_run(parts, asdict(measure), delta=delta)
    return result


def frontier(
    model: Any = DEFAULT_MODEL,
    *,
    cases: Sequence[Mapping[str, Any]],
    lambdas: Sequence[float] | None = None,
    epsilons: Sequence[float] | None = None,
    bertscore: str | None = None,
    bertscore_layer: int | None = None,
    template: str | None = None,
    truncate: bool = False,
    dtype: str | None = None,
    **options: Any,
) -> Frontier:
    """Sweep λ or ε: what each setting leaks, what it is good for, and which to ship.

    Nothing is written. All settings draw with one seed, or under a bound from the operating system's source. With
    `epsilons` the result is private, and what is guaranteed of responses of several settings adds up.

    Args:
        cases: each with 'context', 'query' and 'reference', what a good response says; or 'messages' and 'reference'.
        lambdas: values of λ; () for those of `instruments.decoding.sweep.DEFAULTS`.
        epsilons: values of ε instead, nats a token; likewise.
        bertscore: encoder for BERTScore beside ROUGE-L, a directory or a name of the hub.
        bertscore_layer: of the encoder.
        template, truncate, dtype, options: as of `decode`, for every setting alike.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.data.referenced import referenced
    from leakmeter.instruments.decoding.frontier import frontier_of, utilities_of
    from leakmeter.instruments.decoding.guarantee import check_precision, precision_for
    from leakmeter.instruments.decoding.sweep import drawing_of, study_of, sweep_of
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases
    from leakmeter.runs.nonce import drawn_nonce
    from leakmeter.studies.cells import FinishedCell
    from leakmeter.studies.quality import Quality
    from leakmeter.text.build import PromptSettings

    sweep = sweep_of(lambdas, epsilons, drawing_of(options))
    records = referenced(cases)
    if epsilons is not None and sweep.given_seed is not None:
        loading.tell(SEED_WARNING)
    backend = loading.load_backend(model, dtype=precision_for(sweep.measures[0], model, dtype), **options)
    check_precision(sweep.measures[0], backend.dtype)
    sweep = sweep.seeded(drawn_nonce())
    settings = PromptSettings(unit="whole", template=template, truncate=truncate)
    prepared = [settings.prepare(record.case, backend, sweep.measures[0]) for record in records]
    quality = Quality(bertscore, bertscore_layer)
    told = {"name": backend.name, "weights_sha256": backend.weights_sha256, "dtype": backend.dtype}
    told["device"] = str(getattr(getattr(backend, "model", None), "device", "cpu"))
    finished = []
    for cell in study_of(sweep, backend.name, settings, len(records), quality).cells:
        size = cell.measure.together
        measured = list(measure_cases(backend, cell.measure, prepared, None, Callbacks(), group_size=size))
        finished.append(FinishedCell(cell, told, "", records, measured))
    return frontier_of(sweep, finished, utilities_of(finished, quality, None, loading.tell))
