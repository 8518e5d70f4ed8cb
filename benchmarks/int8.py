"""Weights in eight bits: what they save, and what they do to the numbers.

`python -m benchmarks int8` gives the model's linear layers (all but the head) other weights, way by way: float32,
bfloat16, torch's dynamic int8 quantization, and torchao's int8, of the weights alone and of activations too. It times
every shape of layer at the tokens of a pass, and a whole pass, each way in turn; then every way scores the answers of
the samples by document, in plain passes and by our engine, held against float32. Where activations share a scale in a
pass, later tokens move the numbers of earlier ones, and the engine may refuse the model. A way whose package is missing
is left out with the reason: `pip install torchao`.
"""

from __future__ import annotations

import copy
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import torch

from benchmarks import base, peers
from leakmeter.backends.hf import HfBackend
from leakmeter.commands.cases import read_cases
from leakmeter.commands.options import CaseSource
from leakmeter.core.files import sample_path
from leakmeter.core.item import ContextItem
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine.ready import make_ready
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.influence.disclosures import OTHER
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.text.build import PromptSettings

NAME: Final = "int8"
TINY: Final = {"model": "random:llama-tiny", "n_tokens": 16, "rounds": 1, "answers": 2}
_EXACT: Final = "float32"
_LOG: Final = "files/log.jsonl"
_SEED: Final = 0
Row = dict[str, Any]


def _dynamic(model: Any) -> Any:
    return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


def _torchao(config: str) -> Callable[[Any], Any]:
    def change(model: Any) -> Any:
        try:
            from torchao import quantization  # type: ignore[import-not-found]
        except ImportError as error:
            raise base.UnavailableError(f"torchao is not installed: {error}") from None
        # Its layers take no gradients.
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        quantization.quantize_(model, getattr(quantization, config)())
        return model

    return change


WAYS: Final[dict[str, Callable[[Any], Any]]] = {
    _EXACT: lambda model: model,
    "bfloat16": lambda model: model.to(torch.bfloat16),
    "torch dynamic int8": _dynamic,
    "torchao int8 weights": _torchao("Int8WeightOnlyConfig"),
    "torchao int8 weights and activations": _torchao("Int8DynamicActivationInt8WeightConfig"),
}
"""A module to the same with other weights; the module itself may change."""


def rows(
    model: str = "smollm2-135m", *, n_tokens: int = 2048, rounds: int = 5, answers: int | None = None
) -> Iterator[Row]:
    """What each way takes, and what it does to the answers of the samples.

    Args:
        model: whose weights they are, as of `base.load`.
        n_tokens: of a pass.
        rounds: how often each way is timed; medians are told.
        answers: take so many of the samples' answers; all by default.
    """
    backend = base.load(model, "cpu", "float32")
    models: dict[str, Any] = {}
    for way, change in WAYS.items():
        try:
            models[way] = _changed(backend.model, change)
        except base.UnavailableError as why:
            yield {"way": way, "left_out": str(why)}
    with torch.inference_mode():
        yield from _layers(backend.model, models, n_tokens, rounds)
        yield from _passes(models, n_tokens, rounds)
    yield from _answers(backend, models, answers)


def _changed(model: Any, change: Callable[[Any], Any]) -> Any:
    """A copy whose layers are changed, and whose head is not, unless all of the model is."""
    own = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if change is WAYS["bfloat16"]:
            return change(own)
        own.model = change(own.model)
    return own


def _layers(model: Any, models: dict[str, Any], n_tokens: int, rounds: int) -> Iterator[Row]:
    """Each shape of layer once, by the name of the first that has it."""
    first: dict[tuple[int, int], str] = {}
    for name, layer in model.model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            first.setdefault((layer.in_features, layer.out_features), name)
    for (n_in, n_out), name in first.items():
        inputs = torch.randn((1, n_tokens, n_in), generator=torch.Generator().manual_seed(_SEED))
        works = {way: _work(own.model.get_submodule(name), inputs.to(own.dtype)) for way, own in models.items()}
        for way, seconds in _timed(works, rounds):
            yield {"what": "layer", "shape": f"{n_tokens} x {n_in} to {n_out}", "way": way, "seconds": seconds}


def _passes(models: dict[str, Any], n_tokens: int, rounds: int) -> Iterator[Row]:
    """All layers, and one row of the head."""
    drawn = torch.Generator().manual_seed(_SEED)
    works = {}
    for way, own in models.items():
        ids = torch.randint(100, own.config.vocab_size, (1, n_tokens), generator=drawn)
        works[way] = lambda own=own, ids=ids: own(input_ids=ids, logits_to_keep=1, use_cache=False)
    for way, seconds in _timed(works, rounds):
        yield {"what": "pass", "tokens": n_tokens, "way": way, "seconds": seconds}


def _work(layer: Any, inputs: torch.Tensor) -> Callable[[], Any]:
    return lambda: layer(inputs)


def _timed(works: dict[str, Callable[[], Any]], rounds: int) -> Iterator[tuple[str, float]]:
    """Median seconds of each; they take turns, so that what slows the machine slows all. The first round is warm-up."""
    taken: dict[str, list[float]] = {way: [] for way in works}
    for _ in range(1 + rounds):
        for way, work in works.items():
            started = time.perf_counter()
            work()
            taken[way].append(time.perf_counter() - started)
    for way, seconds in taken.items():
        yield way, statistics.median(seconds[1:])


def _answers(backend: HfBackend, models: dict[str, Any], n: int | None) -> Iterator[Row]:
    """Every way by plain passes, a prompt at a time; then by our engine, unless it refuses the model."""
    loaded = read_cases(CaseSource(data=str(sample_path(_LOG))))
    cases, settings, measure = LoadedCases(loaded.cases[:n]), PromptSettings(unit="document"), Influence(controls=0)
    items: list[ContextItem] = [settings.prepare(case, backend, measure).item for case in cases.cases]
    plan = Plan("influence", measure, settings, cases)
    floors: list[float] = []
    before: list[np.ndarray] = []
    told: list[set[tuple[str, str]]] = []
    for way, own in models.items():
        started = time.perf_counter()
        after = [_plain(own, item) for item in items]
        seconds = time.perf_counter() - started
        row: Row = {"what": "answers", "way": way, "answers": len(items), "plain_seconds": seconds}
        engine, results = _by_engine(plan, own, backend, way)
        if way == _EXACT:
            floors, before, told = [result.noise_floor_nats for result in results], after, _told(results)
        yield {**row, **_compared(before, after, floors), **engine, **_disclosures(told, results)}


def _plain(model: Any, item: ContextItem) -> np.ndarray:
    """Log-probabilities of the response behind the prompt, and then without each document: (1 + document, token)."""
    prompts = [item.prompt, *(item.cuts[span.name] for span in item.spans)]
    return peers.full_pass(model, prompts, [item.response or ()] * len(prompts))


def _by_engine(plan: Plan, model: Any, backend: HfBackend, way: str) -> tuple[Row, list[InfluenceResult]]:
    try:
        changed = HfBackend(model, backend.tokenizer.library, name=way)
    except LeakmeterError as why:
        return {"refused": str(why)}, []
    started = time.perf_counter()
    parts = list(make_ready(plan, changed).measure())
    seconds = time.perf_counter() - started
    results = list(InfluenceResult.from_run(parts, asdict(plan.measure)))
    return {
        "engine_seconds": seconds,
        "tokens": changed.n_tokens_run,
        "forks": changed.forward.forks,
        "joins": changed.forward.joins_segments,
        "noise_floor_median_nats": statistics.median(result.noise_floor_nats for result in results),
    }, results


def _compared(before: Sequence[np.ndarray], after: Sequence[np.ndarray], floors: Sequence[float]) -> Row:
    """How far numbers are from those in float32, nats, and how many documents are findings in one of both alone: those
    whose influence is above the noise floor that float32 has."""
    errors = np.concatenate([b[0] - a[0] for a, b in zip(before, after, strict=True)])
    levels = np.concatenate([[floor] * (len(rows) - 1) for floor, rows in zip(floors, before, strict=True)])
    exact, other = (
        np.concatenate([np.abs(rows[0] - rows[1:]).sum(axis=1) for rows in some]) for some in (before, after)
    )
    return {
        "response_tokens": errors.size,
        "log_prob_largest_error_nats": float(np.abs(errors).max()),
        "log_prob_rms_error_nats": float(np.sqrt(np.mean(errors**2))),
        "documents": exact.size,
        "influence_largest_change_nats": float(np.abs(other - exact).max()),
        "findings": int((exact > levels).sum()),
        "findings_changed": int(((exact > levels) != (other > levels)).sum()),
    }


def _told(results: Sequence[InfluenceResult]) -> list[set[tuple[str, str]]]:
    """Personal and secret values that each response gives away."""
    return [{(each.kind, each.text) for each in result.disclosed if each.kind != OTHER} for result in results]


def _disclosures(told: Sequence[set[tuple[str, str]]], results: Sequence[InfluenceResult]) -> Row:
    if not results:
        return {}
    pairs = list(zip(told, _told(results), strict=True))
    return {
        "disclosures": sum(len(a) for a, _ in pairs),
        "disclosures_lost": sum(len(a - b) for a, b in pairs),
        "disclosures_new": sum(len(b - a) for a, b in pairs),
    }
