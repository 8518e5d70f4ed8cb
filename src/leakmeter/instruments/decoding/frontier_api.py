"""The library's comparison of settings: λ or ε swept over cases in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.frontier import Frontier


def frontier(
    model: Any = DEFAULT_MODEL,
    *,
    cases: Sequence[Mapping[str, Any]],
    lambdas: Sequence[float] | None = None,
    epsilons: Sequence[float] | None = None,
    lambda_max: float = 1.0,
    temperature: float = 1.0,
    min_new_tokens: int = 0,
    max_new_tokens: int = 50,
    samples: int = 1,
    seed: int | None = None,
    bertscore: str | None = None,
    bertscore_layer: int | None = None,
    template: str | None = None,
    truncate: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Frontier:
    """Sweep λ or ε: what each setting leaks, what it is good for, and which to ship.

    Nothing is written. Arguments that are not told here are those of `decode`, for every setting alike; all settings
    draw with one seed, or under a bound from the operating system's source. With `epsilons` the result is private, and
    what responses of several settings promise adds up.

    Args:
        cases: each with 'context', 'query' and 'reference', what a good response says; or 'messages' and 'reference'.
        lambdas: values of λ; () for those of `instruments.decoding.sweep.DEFAULTS`.
        epsilons: values of ε instead, nats a token; likewise.
        bertscore: encoder for BERTScore beside ROUGE-L, a directory or a name of the hub.
        bertscore_layer: of the encoder.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.data.referenced import referenced
    from leakmeter.instruments.decoding.frontier import frontier_of, utilities_of
    from leakmeter.instruments.decoding.promise import check_precision, precision_for
    from leakmeter.instruments.decoding.sweep import study_of, sweep_of
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases
    from leakmeter.runs.nonce import drawn_nonce
    from leakmeter.studies.cells import FinishedCell
    from leakmeter.studies.quality import Quality
    from leakmeter.text.build import PromptSettings

    drawing = {"lambda_max": lambda_max, "temperature": temperature, "samples": samples, "seed": seed}
    drawing |= {"min_new_tokens": min_new_tokens, "max_new_tokens": max_new_tokens}
    sweep = sweep_of(lambdas, epsilons, drawing)
    records = referenced(cases)
    if epsilons is not None and seed is not None:
        loading.tell(SEED_WARNING)
    precision = precision_for(sweep.measures[0], model, dtype)
    backend = loading.load_backend(model, dtype=precision, device=device, model_id=model_id, cache=cache)
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
