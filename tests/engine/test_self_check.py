"""A run holds itself against plain passes: an engine that is broken on purpose reports nothing that is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

import leakmeter
from helpers.each_run import CONTEXTS, MOODS, PEOPLE, QUERIES, ROWS
from helpers.examples import few
from helpers.measure_items import make_item
from helpers.tiny_models import N_VOCAB, backend_of, fresh_model
from leakmeter.backends.hf import attention, forward, states
from leakmeter.backends.hf import self_check as hf_self_check
from leakmeter.backends.hf.plain_pass import plain_logits
from leakmeter.backends.hf.reuse import reuse_for
from leakmeter.backends.hf.rounding import rounding_at_random
from leakmeter.core.drive import drive
from leakmeter.core.measure import Measurement
from leakmeter.core.plain import to_json
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.self_check import (
    Recomputed,
    SelfCheck,
    WrongPassError,
    carried,
    doubt,
    is_checked,
    record_of,
    tolerance_nats,
    warnings_of,
    with_noise_of,
)
from leakmeter.engine.storage.kept import KeptSelfCheck
from leakmeter.errors import LeakmeterError, ModelError
from leakmeter.instruments.influence import context
from leakmeter.instruments.influence.measure import Influence
from leakmeter.report import markdown, words

NOTE = {
    "id": "note",
    "context": "the patient writes to the clinic. the clinic writes back. the same day.",
    "query": "who writes?",
    "response": " the patient writes back",
}
ASK = {name: text for name, text in NOTE.items() if name != "response"}
WHOLE: dict[str, Any] = {"task": MOODS, "exemplars": ROWS[2:5], "label_scoring": "whole-sequence"}
MEASURED: dict[str, Callable[[Any], Any]] = {
    "influence": lambda model: leakmeter.influence(model, [NOTE], unit="sentence"),
    "redaction": lambda model: leakmeter.redact(model, [NOTE], max_loss=0.05, max_new_tokens=2),
    "decoding": lambda model: leakmeter.decode(model, [ASK], cid_lambda=1.5, max_new_tokens=8),
    "icl": lambda model: leakmeter.icl(model, ROWS[:1], **WHOLE),
    "susceptibility": lambda model: leakmeter.susceptibility(model, QUERIES[:1], contexts=CONTEXTS, answer_tokens=4),
    "pii": lambda model: leakmeter.pii(model, PEOPLE[:1], decoys=50, prompts=1, kinds=["twin"], beams=()),
    "generation": lambda model: leakmeter.generate(
        model, [row["said"] for row in ROWS[:4]], instruction="Write.", subset_size=4, epsilon=8.0, samples=2,
        max_new_tokens=5, seed=5,
    ),
}  # fmt: skip


def positions_off_by_one(patch: pytest.MonkeyPatch, model: Any) -> None:
    """What is run behind kept states stands one place too far."""
    real = forward._new_tokens

    def shifted(segments: Any, ids: Any) -> Any:
        new_ids, positions = real(segments, ids)
        starts = [start for segment in segments for start in segment.starts]
        return new_ids, [where + int(start.n_tokens > 0) for where, start in zip(positions, starts, strict=True)]

    patch.setattr(forward, "_new_tokens", shifted)


def one_scratch_for_all(patch: pytest.MonkeyPatch, model: Any) -> None:
    """A layer reads what another layer wrote."""
    real = states.PassSegment.extend

    def extend(self: Any, layer: int, keys: torch.Tensor, values: torch.Tensor) -> Any:
        out = real(self, layer, keys, values)
        if layer == 0:
            self.first_layer = tuple(side.clone() for side in out)
        return self.first_layer if layer and self.n_start else out

    patch.setattr(states.PassSegment, "extend", extend)


def factors_of_the_longest(patch: pytest.MonkeyPatch, model: Any) -> None:
    """Rotation factors follow how the pass is made up."""
    real = forward.Forward.passed

    def passed(self: Any, segments: Any, *args: Any) -> Any:
        rotary = self.model.base_model.rotary_emb
        was = rotary.inv_freq.clone()
        rotary.inv_freq.mul_(3.0)
        try:
            return real(self, segments, *args)
        finally:
            rotary.inv_freq.copy_(was)

    patch.setattr(forward.Forward, "passed", passed)


def rows_from_the_front(patch: pytest.MonkeyPatch, model: Any) -> None:
    """The model puts tokens of its own in front, and rows are counted from there."""

    def longer(module: Any, args: Any, out: Any) -> Any:
        out.last_hidden_state = torch.cat([out.last_hidden_state[:, :3].flip(1), out.last_hidden_state], dim=1)
        return out

    model.base_model.register_forward_hook(longer)


def padding_attended_to(patch: pytest.MonkeyPatch, model: Any) -> None:
    """A row sees the columns that are another row's, and those that are nobody's."""

    def mask(segment: Any, window: Any, dtype: Any, device: Any) -> torch.Tensor:
        n_rows, n_start, n_new = len(segment.starts), segment.n_start, segment.n_new
        later = torch.arange(n_start + n_new) - n_start > torch.arange(n_new)[:, None] + 2
        return torch.zeros((n_rows, 1, n_new, n_start + n_new), dtype=dtype).masked_fill(later, torch.finfo(dtype).min)

    for module in (attention, forward):
        patch.setattr(module, "attention_mask", mask)


BREAKS = [
    one_scratch_for_all,
    positions_off_by_one,
    factors_of_the_longest,
    rows_from_the_front,
    padding_attended_to,
]


@pytest.mark.parametrize("measured", few(MEASURED, 4))
@pytest.mark.parametrize("broken", BREAKS)
def test_no_instrument_reports_what_a_broken_engine_gives(
    broken: Any, measured: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses, or falls back to plain passes and says so; and then the numbers are the right ones."""
    model = fresh_model("llama", "eager")
    made = backend_of(model)
    right = next(iter(MEASURED[measured](made)))
    assert right.self_check.passes == "shared"
    assert right.self_check.failed_nats is None
    broken(monkeypatch, model)
    try:
        result = next(iter(MEASURED[measured](made)))
    except LeakmeterError:
        return
    assert result.self_check.passes == "plain"
    assert result.self_check.failed_nats > tolerance_nats("float32")
    assert any("plain" in warning for warning in result.warnings)
    assert numbers_of(result) == pytest.approx(numbers_of(right), abs=1e-3)


@pytest.mark.parametrize("measured", few(MEASURED, 1))
def test_learned_positions_off_by_one_are_found_too(measured: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = backend_of(fresh_model("gpt2", "eager"))
    right = next(iter(MEASURED[measured](made)))
    positions_off_by_one(monkeypatch, made.model)
    result = next(iter(MEASURED[measured](made)))
    assert result.self_check.failed_nats > tolerance_nats("float32")
    assert numbers_of(result) == pytest.approx(numbers_of(right), abs=1e-3)


def test_positions_off_by_one_are_no_error_of_a_model_without_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing notices, since nothing is wrong: such a model gives the same numbers at any positions."""
    model = fresh_model("llama", "eager")
    model.base_model.rotary_emb.inv_freq.zero_()
    made = backend_of(model)
    (right,) = MEASURED["influence"](made)
    positions_off_by_one(monkeypatch, model)
    (result,) = MEASURED["influence"](made)
    assert result.self_check.passes == "shared"
    assert result.self_check.failed_nats is None
    assert result.whole_signed_nats == pytest.approx(right.whole_signed_nats, abs=1e-4)


def numbers_of(result: Any) -> list[float]:
    names = ("whole_nats", "loss_nats", "susceptibility_nats", "association_nats", "log_likelihood_nats")
    return [getattr(result, name) for name in names if hasattr(result, name)]


def test_what_is_computed_plainly_is_said_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the run is computed so too, and each case says so."""
    model = fresh_model("llama", "eager")
    backend = backend_of(model)
    factors_of_the_longest(monkeypatch, model)
    cases = [{**NOTE, "id": f"n{i}"} for i in range(3)]
    results = leakmeter.influence(backend, cases, unit="sentence")
    assert [result.self_check.passes for result in results] == ["plain"] * 3
    assert all(result.self_check.failed_nats == results[0].self_check.failed_nats for result in results)
    assert results[0].self_check.rows > 0


def test_cases_before_a_failed_check_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh_model("llama", "eager")
    cases = [{**NOTE, "id": f"n{i}"} for i in range(3)]
    backend = backend_of(model)
    results = list(leakmeter.influence(backend, cases[:2], unit="sentence"))
    factors_of_the_longest(monkeypatch, model)
    results += leakmeter.influence(backend, cases[2:], unit="sentence")
    assert results[2].self_check.failed_nats is not None
    text = markdown.text(type(results[0]).report(results))
    assert "The 2 before it were computed by passes that share work" in text


def test_a_model_that_disagrees_with_itself_is_refused() -> None:
    model = fresh_model("llama", "eager")
    backend = backend_of(model)
    generator = torch.Generator().manual_seed(0)

    def restless(module: Any, args: Any, out: torch.Tensor) -> torch.Tensor:
        return out + torch.randn(out.shape, generator=generator)

    model.get_input_embeddings().register_forward_hook(restless)
    with pytest.raises(ModelError, match="other numbers each time"):
        leakmeter.influence(backend, [NOTE], unit="sentence")


def test_gradients_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh_model("llama", "eager")
    backend = backend_of(model)
    told: dict[str, Any] = {"contexts": CONTEXTS, "sigma": ("identity",), "probes": 4}
    (right,) = leakmeter.fisher_susceptibility(backend, QUERIES[:1], **told)
    assert right.self_check.rows == 1
    assert right.self_check.nats < 1e-5
    rows_from_the_front(monkeypatch, model)  # of a pass for gradients the last row is read: it is still right
    (same,) = leakmeter.fisher_susceptibility(backend, QUERIES[:1], **told)
    assert same.self_check.failed_nats is None
    # There is no other way to gradients than the one that is wrong.
    model.lm_head.register_forward_hook(lambda module, args, out: 1.5 * out if torch.is_grad_enabled() else out)
    with pytest.raises(WrongPassError, match="so nothing is reported"):
        leakmeter.fisher_susceptibility(backend, QUERIES[:1], **told)


def test_one_case_of_a_hundred_is_checked() -> None:
    chosen = [number for number in range(1000) if is_checked(number, 1)]
    assert len(chosen) == 10
    assert chosen[0] == 0
    assert all(before // 100 + 1 == after // 100 for before, after in pairwise(chosen))
    assert is_checked(0, 7)
    assert sum(is_checked(first, 50) for first in range(0, 1000, 50)) == 10


def test_what_one_case_showed_holds_for_those_after_it() -> None:
    found = {"passes": "shared", "rows": 3, "nats": 0.2, "largest_nats": 0.5}
    failed = {"passes": "plain", "rows": 2, "nats": 0.1, "largest_nats": 0.1, "failed_nats": 4.0}
    parts = [
        ({"self_check": found}, []),
        ({}, []),
        ({"self_check": failed}, []),
        ({"self_check": {"passes": "plain"}}, []),
    ]
    checks = [SelfCheck.from_texts(texts) for texts, _ in carried(parts)]
    assert [check.rows for check in checks if check] == [3, 3, 5, 5]
    assert [check.nats for check in checks if check] == [0.2] * 4
    assert [check.passes for check in checks if check] == ["shared", "shared", "plain", "plain"]
    assert [check.failed_nats for check in checks if check] == [None, None, 4.0, 4.0]
    assert SelfCheck.from_texts({}) is None


@pytest.mark.parametrize("nats", [math.inf, math.nan])
def test_an_infinite_difference_stays_one(nats: float) -> None:
    kept = json.loads(to_json(record_of(Recomputed(2, 0.1, 0.2), "plain", nats)))
    assert kept["failed_nats"] == "Infinity"
    assert TypeAdapter(KeptSelfCheck).validate_json(json.dumps(kept), strict=True).failed_nats == "Infinity"
    *_, (texts, _) = carried([({"self_check": {**kept, "failed_nats": 4.0}}, []), ({"self_check": kept}, [])])
    check = SelfCheck.from_texts(texts)
    assert check is not None
    assert (check.failed_nats, check.nats) == (math.inf, 0.1)
    assert check.to_dict()["failed_nats"] == "Infinity"
    assert SelfCheck.from_dict(check.to_dict()) == check
    assert doubt(0.0, check) == "a self-check found passes that are wrong by infinitely many nats at a token"
    assert any("by infinitely many nats at a token" in warning for warning in warnings_of(texts))


def test_an_infinite_difference_is_kept_with_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = fresh_model("llama", "eager")
    backend = backend_of(model)
    factors_of_the_longest(monkeypatch, model)
    found = hf_self_check._differences
    monkeypatch.setattr(
        hf_self_check, "_differences", lambda *rows: torch.where((made := found(*rows)) > 1e-3, math.inf, made)
    )
    results = leakmeter.influence(backend, [NOTE], unit="sentence", out=tmp_path)
    assert results[0].self_check.failed_nats == math.inf
    assert next(iter(leakmeter.load_run(next(tmp_path.iterdir())))).self_check == results[0].self_check


def test_a_check_that_could_not_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*args: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("out of memory")

    monkeypatch.setattr("leakmeter.backends.hf.self_check.plain_logits", no_memory)
    results = leakmeter.influence(backend_of(fresh_model("llama", "eager")), [NOTE, {**NOTE, "id": "b"}])
    for result in results:
        assert result.self_check.rows == 0
        assert any("no memory" in warning for warning in result.warnings)


def test_a_model_is_not_called_restless_where_no_second_pass_could_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh_model("llama", "eager")
    backend = backend_of(model)
    real, n_passes = hf_self_check.plain_logits, 0

    def once(*args: Any) -> Any:
        nonlocal n_passes
        n_passes += 1
        if n_passes == 2:
            raise torch.cuda.OutOfMemoryError("out of memory")
        return real(*args)

    monkeypatch.setattr(hf_self_check, "plain_logits", once)
    factors_of_the_longest(monkeypatch, model)
    (result,) = leakmeter.influence(backend, [NOTE], unit="sentence")
    assert result.self_check.passes == "plain"
    assert result.self_check.failed_nats > tolerance_nats("float32")


def test_rows_are_compared_within_the_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sequence with more rows than fit at once, some are recomputed, a few at a time."""
    sizes: list[int] = []
    real = hf_self_check._differences

    def seen(one: torch.Tensor, plain: torch.Tensor, targets: Any) -> torch.Tensor:
        sizes.append(len(plain))
        return real(one, plain, targets)

    monkeypatch.setattr(hf_self_check, "_differences", seen)
    backend = backend_of(fresh_model("llama", "eager"))
    backend.limits = replace(backend.limits, logits_per_slice=4 * N_VOCAB, reduced_per_slice=3 * N_VOCAB)
    (result,) = leakmeter.influence(backend, [NOTE], unit="sentence")
    assert max(sizes) == 3
    assert 4 < result.self_check.rows <= 8
    assert result.self_check.largest_nats < 1e-5


def test_the_noise_of_a_token_is_at_least_twice_what_was_found() -> None:
    noise = Measurement("a", 0, "", "noise", "nats", np.asarray([0.0, 1.0]))
    whole = Measurement("a", 0, "", "whole", "nats", np.asarray([0.0, 1.0]))
    raised = with_noise_of({"self_check": {"passes": "shared", "nats": 0.2}}, [noise, whole])
    assert raised[0].values.tolist() == [0.4, 1.0]
    assert raised[1] is whole
    assert with_noise_of({}, [noise]) == [noise]


HALF: dict[str, tuple[Callable[[Any], Any], Callable[[Any], list[float]]]] = {
    "influence": (
        MEASURED["influence"],
        lambda result: [result.whole_signed_nats, *(piece.signed_nats for piece in result.pieces)],
    ),
    "icl": (MEASURED["icl"], lambda result: [nats for each in result.exemplars for nats in each.signed_nats]),
    "susceptibility": (
        lambda model: leakmeter.susceptibility(model, [{"id": "q", "query": "who writes?"}], contexts=CONTEXTS),
        lambda result: [result.susceptibility_nats, *(context.persuasion_nats for context in result.contexts)],
    ),
    "pii": (MEASURED["pii"], lambda result: [result.association_nats, *result.decoy_associations_nats]),
}


@pytest.mark.parametrize("measured", HALF)
@pytest.mark.parametrize("dtype", few([torch.bfloat16, torch.float16], 1))
def test_floors_of_16_bits_cover_other_orders_of_computation(measured: str, dtype: torch.dtype) -> None:
    """Of small models two orders of computation often give the same digits, whereas a third is tenths of a nat off: the
    floor is that of another rounding. Held against plain passes, one a prompt, by the library's two attentions: at
    least 19 of 20 numbers differ by no more. No floor can promise all, since rounding has no largest error."""
    instrument, numbers = HALF[measured]
    within: list[bool] = []
    for kind in ("llama", "gpt2", "gemma3", "opt"):
        runs = {}
        for kernel in ("eager", "sdpa"):
            made = backend_of(fresh_model(kind, kernel, dtype))
            (runs[kernel],) = islice(instrument(made), 1)
            made.pass_plainly()
            (runs[f"plain {kernel}"],) = islice(instrument(made), 1)
        for shared in ("eager", "sdpa"):
            floor = runs[shared].noise_floor_nats
            assert floor > 0.0
            for plain in ("plain eager", "plain sdpa"):
                pairs = zip(numbers(runs[shared]), numbers(runs[plain]), strict=False)
                within += [abs(one - other) <= floor for one, other in pairs]
    assert sum(within) >= 0.95 * len(within)


N_ADDED: dict[str, Callable[[Any], float]] = {
    "influence": lambda result: len(result.response.tokens),
    "icl": lambda result: 8.0,
    "susceptibility": lambda result: 8.0,
    "pii": lambda result: 4.0 * result.n_tokens**0.5,
}
"""About how many tokens' rounding adds up to a number of each measure."""


@pytest.mark.parametrize("measured", HALF)
def test_floors_of_16_bits_are_no_larger_than_rounding_makes_them(measured: str) -> None:
    """A floor above all there is would cover everything, and find nothing."""
    model = fresh_model("llama", "eager")
    (exact,) = islice(HALF[measured][0](backend_of(model)), 1)
    (rounded,) = islice(HALF[measured][0](backend_of(model.to(torch.bfloat16))), 1)
    assert exact.self_check.rounding_nats is None
    assert 0.0 < rounded.self_check.rounding_nats < 0.2
    assert exact.noise_floor_nats < 1e-3 < rounded.noise_floor_nats
    n = N_ADDED[measured](rounded)
    assert rounded.noise_floor_nats <= max(4 * n * rounded.self_check.rounding_nats, 0.05)


@pytest.mark.parametrize("kind", ["llama", "mamba"])
def test_rounding_at_random_moves_logits_as_far_as_rounding_did(kind: str) -> None:
    """Held against a float32 pass of the same weights, which no run can afford; and it leaves the model, and the
    program's random numbers, as they were."""
    model = fresh_model(kind, "eager", torch.bfloat16)
    ids = np.arange(3, 80) % N_VOCAB
    rows = np.arange(len(ids))
    state = torch.get_rng_state()
    with torch.inference_mode():
        plain = plain_logits(model, ids, rows, rows).double().log_softmax(-1)
        with rounding_at_random(model, 5) as n_rounded:
            once = plain_logits(model, ids, rows, rows).double().log_softmax(-1)
        assert n_rounded[0] > 0
        with rounding_at_random(model, 5):
            again = plain_logits(model, ids, rows, rows).double().log_softmax(-1)
        assert (plain_logits(model, ids, rows, rows).double().log_softmax(-1) == plain).all()
        exact = plain_logits(model.float(), ids, rows, rows).double().log_softmax(-1)
    assert (once == again).all()
    assert (torch.get_rng_state() == state).all()
    ratio = float((once - plain).abs().mean() / (exact - plain).abs().mean())
    assert 0.7 < ratio < 2.5


def test_it_is_said_where_rounding_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.backends.hf.rounding._has_weights", lambda module: False)
    (result,) = leakmeter.influence(backend_of(fresh_model("llama", "eager", torch.bfloat16)), [NOTE])
    assert result.self_check.rounding_nats is None
    assert any("How far rounding in bfloat16 moves" in warning for warning in result.warnings)


def test_a_run_says_what_its_self_checks_ran() -> None:
    """Of a few short prompts that is more than two in a hundred."""
    backend = backend_of(fresh_model("llama", "eager"))
    results = list(leakmeter.icl(backend, ROWS[:2], **WHOLE))
    n_tokens = backend.n_self_check_tokens
    assert [result.self_check.tokens for result in results] == [n_tokens] * 2
    n_run = sum(result.cost.tree_tokens for result in results)
    assert f"self-checks ran {n_tokens:,} more ({100 * n_tokens / n_run:.1f}\u00a0%)" in words.cost(results)
    (one,) = leakmeter.influence(backend, [NOTE], unit="sentence")
    assert f"self-checks of the run so far ran {one.self_check.tokens:,} more" in context.settings(one)["Cost"]


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_self_check_costs_little(dtype: torch.dtype) -> None:
    """Of the sample log; measured: 0.7 % of the tokens, 1.3 % with 16 bits, and 1.0 % with the default model."""
    backend = backend_of(fresh_model("llama", dtype=dtype))
    log = resources.files("leakmeter") / "data/samples/files/log.jsonl"
    results = leakmeter.influence(backend, log, template="plain")
    n_run = sum(result.cost.tree_tokens for result in results)
    assert 0 < backend.n_self_check_tokens <= 0.02 * n_run


def test_wrong_passes_leave_nothing_in_the_score_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh_model("llama", "eager")
    backend, cache = backend_of(model), Cache()
    backend.reuse = reuse_for(backend, cache, "tiny")
    pieces = [Piece(f"s{i}", "context", tuple(range(5 + 3 * i, 8 + 3 * i))) for i in range(3)]
    item = make_item(Prompt((Piece("start", "frame", (1,)), *pieces, Piece("q", "query", (40, 41)))), (9, 4, 7))
    backend.begin_self_check(0)
    drive(backend, [Influence().trial(item)])
    assert backend.end_self_check().n_rows > 0
    kept = set(cache.held)
    factors_of_the_longest(monkeypatch, model)
    backend.begin_self_check(0)
    drive(backend, [Influence(temperature=0.5).trial(replace(item, response=(7, 4, 9)))])
    with pytest.raises(WrongPassError):
        backend.end_self_check()
    assert kept < set(cache.held)
    backend.pass_plainly()
    assert set(cache.held) <= kept


class Cache:
    def __init__(self) -> None:
        self.held: dict[bytes, Any] = {}

    def get(self, key: bytes) -> Any:
        return self.held.get(key)

    def put(self, key: bytes, array: Any) -> None:
        self.held[key] = array.copy()

    def remove(self, key: bytes) -> None:
        self.held.pop(key, None)
