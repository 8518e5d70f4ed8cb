"""Cases to readings: each case a part of its own, finished parts never repeated."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from leakmeter.backends.base import Backend
from leakmeter.engine.drive import drive
from leakmeter.errors import UsageError
from leakmeter.measures.base import Measure
from leakmeter.prompts.build import Prepared, PromptSettings, prepare
from leakmeter.store.rundir import RunDirectory
from leakmeter.studies.prediction import predictor_of
from leakmeter.types.case import Case
from leakmeter.types.chunk import Chunk
from leakmeter.types.reading import TOKEN_ID, Reading
from leakmeter.types.run import RunSpec
from leakmeter.types.tokenizer import Tokenizer

_FINDERS = ("phonenumbers", "pyap2", "faker")
"""Libraries that say what personal data is, and invent other."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Who wants to know how the work goes on; every call has a default that does nothing."""

    on_case: Callable[[int, str], None] = lambda number, case_id: None
    """A case begins: its number from 0 and its id."""
    on_plan: Callable[[Chunk], None] = lambda chunk: None
    """A round was planned."""
    on_halving: Callable[[str, int], None] = lambda case_id, n_halvings: None
    """Memory ran out while a case was measured, so many times; the work went on in smaller parts."""


def prepare_case(case: Case, backend: Backend, settings: PromptSettings, measure: Measure) -> Prepared:
    """Tokenise and cut a case for a back end.

    Raises:
        LeakmeterError: the case cannot be measured so; see `prompts.build.prepare`.
    """
    if case.response is not None and measure.samples > 1:
        raise UsageError(f"case '{case.id}' has a response, so none is drawn; leave it out, or leave samples at 1")
    recognise = None
    if settings.ner is not None:
        from leakmeter.models.recogniser import load_recogniser

        recognise = load_recogniser(settings.ner)
    return prepare(
        case,
        backend.tokenizer,
        settings,
        window=backend.window,
        n_reserved=measure.max_new_tokens,
        recognise=recognise,
    )


def spec_of(
    measure: Measure,
    name: str,
    settings: PromptSettings,
    backend: Backend,
    device: str,
    cases: Sequence[Case],
    *,
    command: str | None = None,
    problems: Sequence[str] = (),
) -> RunSpec:
    """The spec of measuring these cases."""
    return RunSpec(
        measure=name,
        params=asdict(measure),
        prompts=asdict(settings),
        model={
            "name": backend.name,
            "weights_sha256": backend.weights_sha256,
            "dtype": backend.dtype,
            "device": device,
            "memory_bytes": getattr(backend, "memory_bytes", None),
        },
        cases=tuple(asdict(case) for case in cases),
        version=metadata.version("leakmeter"),
        environment={
            "python": platform.python_version(),
            "machine": platform.machine(),
            **{name: metadata.version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
            **{name: metadata.version(name) for name in _FINDERS if settings.unit == "entity"},
        },
        command=command,
        problems=tuple(problems),
    )


def measure_cases(
    backend: Backend,
    measure: Measure,
    settings: PromptSettings,
    prepared: Sequence[Prepared],
    directory: RunDirectory | None,
    watch: Watch,
) -> Iterator[tuple[dict[str, Any], list[Reading]]]:
    """Each case's texts and readings, in order: read where a part is finished, measured and written where not."""
    predictor = predictor_of(backend)
    for number, one in enumerate(prepared):
        if directory is not None and directory.has_part(number):
            (texts,), readings = directory.read_part(number)
            yield texts, readings
            continue
        watch.on_case(number, one.item.id)
        predicted = predictor.told(predictor.predict(measure, one))
        n_halvings = backend.n_halvings
        started = time.perf_counter()
        (readings,), cost = drive(backend, [measure.trial(one.item)], on_plan=watch.on_plan)
        texts = texts_of(one, settings, readings, backend)
        texts["cost"] = {
            "requests": cost.n_prompts,
            "tree_tokens": cost.n_tokens_run,
            "naive_tokens": cost.n_full_pass_tokens,
            "seconds": round(time.perf_counter() - started, 3),
            "predicted": predicted,
            "halvings": backend.n_halvings - n_halvings,
        }
        if backend.n_halvings > n_halvings:
            watch.on_halving(one.item.id, backend.n_halvings - n_halvings)
        if directory is not None:
            directory.write_part(number, [texts], readings)
        yield texts, readings


def texts_of(one: Prepared, settings: PromptSettings, readings: Sequence[Reading], backend: Backend) -> dict[str, Any]:
    """What a case's readings are about, in words: the part of a result that is not numbers."""
    responses = [reading.values.astype(int).tolist() for reading in readings if reading.unit == TOKEN_ID]
    return {
        "id": one.item.id,
        "model": backend.name,
        "weights_sha256": backend.weights_sha256,
        "dtype": backend.dtype,
        "unit": one.unit,
        "removal": settings.removal,
        "template": one.template,
        "query": one.query,
        "context": one.context,
        "documents": [{"name": name, "start": start, "end": end} for name, start, end in one.documents],
        "truncated_tokens": one.n_truncated_tokens,
        "sampled": one.item.response is None,
        "responses": [response_texts(ids, backend.tokenizer) for ids in responses],
        "spans": [asdict(span) for span in one.item.spans],
    }


def response_texts(ids: Sequence[int], tokenizer: Tokenizer) -> dict[str, Any]:
    """A response's text, without what ended it, and the text that each token adds."""
    visible = ids[:-1] if ids and ids[-1] in tokenizer.stop_ids else ids
    tokens: list[str] = []
    # A character may take several tokens: it is shown at the one that completes it.
    start, shown = 0, ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[start:end])
        if text.endswith("�") and end < len(ids):
            tokens.append("")
            continue
        tokens.append(text[len(shown) :])
        shown = text
        if end - start > 64:
            start, shown = end - 1, tokenizer.decode(ids[end - 1 : end])
    return {"text": tokenizer.decode(visible), "tokens": tokens}
