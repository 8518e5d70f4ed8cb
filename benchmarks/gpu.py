"""What a lent card is asked, within five minutes: `python -m benchmarks gpu` prints each number as soon as it is known.

`batch`: scores a second of so many prompts at once. `job`: tokens a second of the engine's scenarios. `search`: tokens
a second of searches of the sample log. `graphs`: whether the engine replays captured passes. `dtype`: the samples'
answers in each number type on the device, their noise floors, and how far they are from float32 on the CPU. `memory`:
what is held beside the model under several limits. Every step has a share of the time, and ends before the next layer
of the model once that is over; what it has found until then stands. On a CPU all steps run too, on less work.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from benchmarks import base, scenarios
from benchmarks.machine import forget_peak_rss, matrix_rate, operations, peak_rss_mib
from benchmarks.random_ids import ids
from leakmeter.backends.hf import HfBackend
from leakmeter.commands.cases import read_cases
from leakmeter.commands.options import CaseSource
from leakmeter.core.files import sample_path
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of
from leakmeter.engine.ready import make_ready
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.text.build import PromptSettings

NAME: Final = "gpu"
SECONDS: Final = 270.0
"""Of all steps; the rest of the five minutes is for imports and what a step does not interrupt."""
TINY: Final = {"model": "random:llama-tiny", "device": "cpu", "tiny": True}
_JOBS: Final = ("ngram", "icl-fixed", "susceptibility", "decode")
_SHORT: Final = ("ngram",)
"""Of these, those that a CPU runs whole too."""
_DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_LOG: Final = "files/log.jsonl"
_ROUNDS: Final = 3
_RESPONSE: Final = 16
_MIB: Final = 2**20
Row = dict[str, Any]


class _TimeOverError(Exception):
    """A step's time is over."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work a device is given."""

    batches: Sequence[int]
    prompt: int
    """Tokens of each prompt of a batch."""
    answers: int
    """Of the samples, in each number type and on the CPU."""
    jobs: str
    """Scenario whose memory is measured."""
    limits: Sequence[int]
    """Bytes beside the model."""
    rate_s: float
    """Seconds in which the rate of matrix products is measured."""


ON_CARD: Final = Sizes((1, 8, 64, 256, 1024), 512, 12, "ngram-long", (512 * _MIB, 4096 * _MIB, 16_384 * _MIB), 0.6)
ON_CPU: Final = Sizes((1, 4, 16), 128, 2, "ngram", (128 * _MIB, 1024 * _MIB), 0.6)
SMALLEST: Final = Sizes((1, 2), 8, 2, "ngram", (128 * _MIB,), 0.01)


@dataclass(slots=True)
class Clock:
    """Until when the step at hand may go on."""

    ends_at: float
    """Of all steps."""
    step_ends_at: float = field(init=False, default=0.0)

    def begin(self, seconds: float) -> None:
        """A step of so many seconds begins, or of what is left."""
        self.step_ends_at = min(time.perf_counter() + seconds, self.ends_at)

    def check(self) -> None:
        """Raise `_TimeOverError` once the step's time is over."""
        if time.perf_counter() >= self.step_ends_at:
            raise _TimeOverError

    @contextmanager
    def watching(self, backend: HfBackend) -> Iterator[None]:
        """Meanwhile a pass ends before its next layer once the time is over."""
        with backend.interruptible(self.check):
            yield


def rows(
    model: str = "smollm2-135m",
    *,
    device: str | None = None,
    dtype: str | None = None,
    seconds: float = SECONDS,
    tiny: bool = False,
) -> Iterator[Row]:
    """All steps, one after another; a step that cannot be done says why in a row, and the next one begins.

    Args:
        model: as of `base.load`.
        device: 'cuda' where there is one, by default.
        dtype: of batches, jobs and memory: bfloat16 on a card by default, else float32.
        seconds: of all steps together.
        tiny: as little work as shows that it runs.
    """
    clock = Clock(time.perf_counter() + seconds)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    sizes = SMALLEST if tiny else ON_CPU if where.type == "cpu" else ON_CARD
    started = time.perf_counter()
    exact = base.load(model, "cpu", "float32")
    number_type = _DTYPES[dtype or ("float32" if where.type == "cpu" else "bfloat16")]
    backend = _on(exact, where, number_type)
    yield {"step": "start", "model": model, "load_s": time.perf_counter() - started, **_machine(where, sizes)}
    steps: dict[str, tuple[float, Callable[[], Iterator[Row]]]] = {
        "batch": (0.15, lambda: _batches(backend, sizes, clock)),
        **{f"job {name}": (0.30 / len(_JOBS), partial(_job, name, backend, sizes, clock, tiny=tiny)) for name in _JOBS},
        "search": (0.15, lambda: _search(backend, sizes, clock)),
        "graphs": (0.01, _graphs),
        "dtype": (0.25, lambda: _dtypes(exact, where, sizes, clock)),
        "memory": (0.14, lambda: _memory(backend, sizes, clock, tiny=tiny)),
    }
    for name, (share, step) in steps.items():
        clock.begin(share * seconds)
        began = time.perf_counter()
        try:
            clock.check()
            for row in step():
                yield {"step": name, **row}
        except _TimeOverError:
            yield {"step": name, "ended": "its time was over", "after_s": time.perf_counter() - began}
        except (RuntimeError, LeakmeterError) as error:  # those of torch and CUDA; the next step is still worth asking
            yield {"step": name, "ended": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    yield {"step": "end", "seconds": seconds - (clock.ends_at - time.perf_counter())}


def _on(backend: HfBackend, where: torch.device, dtype: torch.dtype) -> HfBackend:
    """The same weights on a device, in a number type."""
    if where.type == "cpu" and dtype == backend.model.dtype:
        return backend
    return _backend_of(copy.deepcopy(backend.model).to(where, dtype), backend)


def _backend_of(model: Any, backend: HfBackend, memory_bytes: int | None = None) -> HfBackend:
    return HfBackend(model, backend.tokenizer.library, name=backend.name, memory_bytes=memory_bytes)


def _machine(where: torch.device, sizes: Sizes) -> Row:
    rates = {
        f"{name}_gflops": matrix_rate(where, _DTYPES[name], sizes.rate_s) / 1e9 for name in ("float32", "bfloat16")
    }
    # With fewer digits in products of float32, its floor on a card is not that of a CPU.
    row = {"device": str(where), "torch": torch.__version__, "float32_products": torch.get_float32_matmul_precision()}
    if where.type == "cuda":
        properties = torch.cuda.get_device_properties(where)
        row |= {"name": properties.name, "memory_mib": properties.total_memory // _MIB, "cuda": torch.version.cuda}
    return row | rates


def _batches(backend: HfBackend, sizes: Sizes, clock: Clock) -> Iterator[Row]:
    """Prompts that share nothing, each with a response of 16 tokens."""
    rng = np.random.default_rng(11)
    for n in sizes.batches:
        requests = [
            Request((Prompt((Piece("c", "context", ids(rng, sizes.prompt)),)),), ids(rng, _RESPONSE), TargetLogProbs())
            for _ in range(n)
        ]
        took, rounds = _median(partial(base.scored, backend, requests), backend, clock)
        speed = {"scores_a_second": n / took, "tokens_a_second": chunk_of(requests).n_tree_tokens / took}
        yield {"prompts": n, "seconds": took, "rounds": rounds, **speed}


def _job(name: str, backend: HfBackend, sizes: Sizes, clock: Clock, *, tiny: bool) -> Iterator[Row]:
    """The engine's way of a scenario alone; peers have tables of their own."""
    rate = matrix_rate(backend.model.device, backend.model.dtype, sizes.rate_s)
    is_small = tiny or (backend.model.device.type == "cpu" and name not in _SHORT)
    scenario = scenarios.build(name, backend, tiny=is_small)
    assert isinstance(scenario, base.Scenario)
    took, rounds = _median(scenario.ours, backend, clock)
    yield {
        "whole": not is_small,
        "seconds": took,
        "rounds": rounds,
        "tokens": scenario.chunk.n_tree_tokens,
        "tokens_a_second": scenario.chunk.n_tree_tokens / took,
        "of_matrix_rate": operations(backend.model, scenario.chunk) / rate / took,
    }


def _search(backend: HfBackend, sizes: Sizes, clock: Clock) -> Iterator[Row]:
    """`influence --search top:2` of the sample log's answers."""
    plan = _plan(sizes, Influence(controls=0, search="top:2"), "sentence")
    started, before = time.perf_counter(), backend.n_tokens_run
    n_answers, seconds, tokens = 0, 0.0, 0
    with clock.watching(backend), suppress(_TimeOverError):
        for _ in make_ready(plan, backend).measure():
            n_answers += 1
            seconds, tokens = time.perf_counter() - started, backend.n_tokens_run - before
    if not n_answers:
        raise _TimeOverError
    yield {"answers": n_answers, "seconds": seconds, "tokens": tokens, "tokens_a_second": tokens / seconds}


def _graphs() -> Iterator[Row]:
    """A captured pass needs one shape each time; the engine's passes are as long as what prompts do not share."""
    yield {"cuda_graphs": "none: the engine captures no pass, since lengths of its passes differ"}


def _dtypes(exact: HfBackend, where: torch.device, sizes: Sizes, clock: Clock) -> Iterator[Row]:
    """Answers of the sample log by document, held against float32 on the CPU."""
    plan = _plan(sizes, Influence(controls=0), "document")
    with clock.watching(exact):
        right = _results(plan, exact)
    yield {"device": "cpu", "dtype": "float32", **_floor(right)}
    for name in ("float32", "bfloat16"):
        if where.type == "cpu" and name == "float32":
            continue
        other = _on(exact, where, _DTYPES[name])
        started = time.perf_counter()
        with clock.watching(other):
            found = _results(plan, other)
        took = time.perf_counter() - started
        pairs = list(zip(right, found, strict=True))
        apart = [np.abs(np.subtract(a.whole_signed_per_token_nats, b.whole_signed_per_token_nats)) for a, b in pairs]
        yield {
            "device": str(where),
            "dtype": name,
            "seconds": took,
            **_floor(found),
            "largest_change_of_a_token_nats": max(float(nats.max()) for nats in apart),
            "largest_change_of_a_context_nats": max(abs(a.whole_nats - b.whole_nats) for a, b in pairs),
            "same_disclosures": sum(_told(a) == _told(b) for a, b in pairs) / len(pairs),
        }


def _memory(backend: HfBackend, sizes: Sizes, clock: Clock, *, tiny: bool) -> Iterator[Row]:
    """The most that was held beside the loaded model."""
    for limit in sizes.limits:
        limited = _backend_of(backend.model, backend, limit)
        scenario = scenarios.build(sizes.jobs, limited, tiny=tiny)
        assert isinstance(scenario, base.Scenario)
        device = limited.model.device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            torch.cuda.reset_peak_memory_stats(device)
            loaded = torch.cuda.memory_allocated(device) / _MIB
        else:
            loaded = forget_peak_rss()
        with clock.watching(limited):
            scenario.ours()
        peak = torch.cuda.max_memory_allocated(device) / _MIB if device.type == "cuda" else peak_rss_mib()
        yield {
            "job": sizes.jobs,
            "limit_mib": limit / _MIB,
            "beside_the_model_mib": peak - loaded,
            "out_of_memory_retries": limited.n_halvings,
        }


def _plan(sizes: Sizes, measure: Influence, unit: str) -> Plan:
    cases = read_cases(CaseSource(data=str(sample_path(_LOG)))).cases[: sizes.answers]
    return Plan("influence", measure, PromptSettings(unit=unit), LoadedCases(cases))


def _results(plan: Plan, backend: HfBackend) -> list[InfluenceResult]:
    return list(InfluenceResult.from_run(make_ready(plan, backend).measure(), asdict(plan.measure)))


def _floor(results: Sequence[InfluenceResult]) -> Row:
    floors = [result.noise_floor_nats for result in results]
    return {"answers": len(results), "noise_floor_median_nats": statistics.median(floors), "largest_nats": max(floors)}


def _told(result: InfluenceResult) -> set[tuple[str, str]]:
    return {(one.kind, one.text) for one in result.disclosed if one.is_sensitive}


def _median(work: Callable[[], Any], backend: HfBackend, clock: Clock) -> tuple[float, int]:
    """Median seconds of three rounds after one that warms up, and how many the step had time for: with none, the
    seconds are those of the first."""
    device = backend.model.device
    taken: list[float] = []
    with clock.watching(backend):
        longest = first = base.seconds(work, device)
        while len(taken) < _ROUNDS and time.perf_counter() + longest < clock.step_ends_at:
            taken.append(base.seconds(work, device))
            longest = max(taken)
    return statistics.median(taken or [first]), len(taken)
