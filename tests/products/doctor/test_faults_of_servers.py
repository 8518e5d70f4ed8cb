"""The doctor finds each fault of a server and names it; on a sound server every check passes."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers.examples import few
from helpers.measure_items import make_item
from helpers.model_server import OPENAI, OPENAI_CHAT, VLLM, ModelServer, Routes
from helpers.model_server_llamacpp import LLAMACPP
from leakmeter.backends.served import connection, dialect
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import (
    DrawnResponse,
    ProbeAnswer,
    RequestSetting,
    SamplingControl,
    SequenceToScore,
)
from leakmeter.backends.toy import Toy
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.engine.loading import load_backend
from leakmeter.products.doctor import api, checks
from leakmeter.products.doctor.api import examine
from leakmeter.products.doctor.report import FAULTS
from leakmeter.products.doctor.result import DoctorResult
from leakmeter.products.doctor.subject import CheckedModel, InProcess
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray

N_DRAWS = checks._N_DRAWS


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_WAIT", 0.02)
    monkeypatch.setattr(api, "_PATIENCE", 0.2)
    monkeypatch.setattr(checks, "_N_DRAWS", 16)


@pytest.fixture
def all_draws(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_N_DRAWS", N_DRAWS)


def doctored(*faults: str, routes: Routes = VLLM, since: Any = 0, against: str | None = None, **server: Any) -> Any:
    """The doctor's result about a server with faults."""
    with ModelServer(routes, faults=dict.fromkeys(faults, since), **server) as made:
        return api.doctor(made.model, tokenizer="toy", against=against)


def failed(result: DoctorResult) -> list[tuple[int, str | None]]:
    assert result.is_sound == all(check.status != "failed" for check in result.checks)
    return [(check.number, check.fault) for check in result.checks if check.status == "failed"]


@pytest.mark.parametrize("max_top", few([20, -1]))
def test_a_sound_server_passes_every_check(max_top: int) -> None:
    with ModelServer(VLLM, max_top=max_top) as server:
        result: Any = api.doctor(server.model, tokenizer="toy", against="toy")
        assert api.doctor(load_backend(server.model, tokenizer="toy")).fingerprint == result.fingerprint
    assert [check.status for check in result.checks] == ["passed"] * 10
    assert result.is_sound
    assert result.noise.floor_nats == 0.0
    assert result.against.max_token_nats < 1e-12
    assert result.against.max_influence_nats < 1e-10
    assert result.against.largest_influence_nats > 1.0
    assert result.fingerprint == api.doctor("toy").fingerprint


@pytest.mark.parametrize(
    ("fault", "since", "number", "name"),
    [
        *(("wrong_order", 0, 3, "other_places"), ("missing_rows", 0, 1, "missing_rows"), ("nan", 30, 4, "nan")),
        *(("off_by_one", 0, 3, "off_by_one"), ("no_ids", 0, 2, "no_ids"), ("start_token", 0, 2, "start_token")),
        *(("tempered", 0, 5, "tempered"), ("echo_ignored", 0, 1, "no_rows"), ("truncated", 1, 4, "few_top")),
        *(("changed_model", 30, 10, "another_model"), ("swapped_weights", 30, 10, "changed"), ("cut", 30, 10, "cut")),
        *(("other_tokenizer", 0, 2, "other_tokenizer"), ("busy", 30, 10, "busy")),
    ],
)
def test_a_fault_is_named(fault: str, since: int, number: int, name: str) -> None:
    result = doctored(fault, since=since)
    assert failed(result) == [(number, name)]
    assert FAULTS[name][0] in result.checks[number - 1].found
    assert result.checks[number - 1].advice


@pytest.mark.parametrize("routes", [VLLM, LLAMACPP], ids=lambda routes: routes.dialect)
def test_rows_that_sum_to_more_than_1_lack_nothing(routes: Routes) -> None:
    result = doctored("scaled", routes=routes, max_top=-1)
    assert failed(result) == [(4, "not_normalised")]
    assert "do not sum to 1. They sum to more than 1 (the log of the sum is 0." in result.checks[3].found
    assert "do not sum to 1" in result.verdict


def test_a_slow_stream_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "Connection", functools.partial(connection.Connection, seconds=0.2))
    monkeypatch.setattr("leakmeter.backends.served.load.Connection", connection.Connection)
    assert failed(doctored("slow", since=5)) == [(10, "slow")]


def test_a_fault_that_passes_is_told() -> None:
    result = doctored("busy", since=(20, 22))
    assert result.is_sound
    assert (result.checks[9].status, result.checks[9].fault) == ("note", "busy")
    assert "repeated" in result.checks[9].found


def test_noise_is_told_and_is_no_fault() -> None:
    result = doctored("unstable")
    assert result.is_sound
    assert 0.01 < result.noise.repeat_nats <= result.noise.floor_nats < 0.1
    assert (result.checks[5].status, result.checks[5].fault) == ("note", "unstable")
    assert "no report" not in result.checks[5].found


def test_noise_that_allows_no_all_clear_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST_FLOOR_NATS", 0.01)
    assert "no report can say that nothing was disclosed" in doctored("unstable").checks[5].found


@pytest.mark.long
@pytest.mark.parametrize(("fault", "name"), few([("company", "batch_nats"), ("split", "split_nats")]))
def test_noise_is_that_of_a_run(fault: str, name: str) -> None:
    context = [Piece(name, "context", tuple(range(65, 75))) for name in ("a", "b", "c")]
    item = make_item(Prompt((*context, Piece("query", "frame", (32, 33)))), range(70, 76))
    with ModelServer(VLLM, faults=[fault]) as server:
        result: Any = api.doctor(server.model, tokenizer="toy")
        backend = load_backend(server.model, tokenizer="toy")
        assert isinstance(backend, ServedBackend)
        ran = backend.measured_noise([item])
    assert result.is_sound, result.verdict
    told = result.noise.to_dict()
    assert ran.nats == pytest.approx(0.1)
    assert told["floor_nats"] == pytest.approx(ran.nats)
    assert (told["batch_nats"], told["split_nats"]) == pytest.approx((ran.company_nats, ran.split_nats))
    assert [one for one in ("repeat_nats", "order_nats", "batch_nats", "split_nats") if told[one]] == [name]
    assert result.checks[5].status == "note"


@pytest.mark.long
def test_other_weights_are_told_from_the_same() -> None:
    assert failed(doctored(toy=Toy(seed=1), against="toy")) == [(8, "other_weights")]
    result = doctored(toy=Toy(scale=1.02), against="toy")
    assert result.is_sound
    assert result.checks[7].status == "note"
    assert 0.01 < result.against.mean_token_nats < 0.5
    assert result.against.max_influence_nats > 0.01
    assert "The model differs from the local weights by up to" in result.verdict


def test_servers_that_score_nothing() -> None:
    result = doctored(routes=OPENAI_CHAT)
    assert (result.checks[0].status, result.checks[0].fault) == ("note", "no_rows")
    assert "labels and sampling, but not given" in result.verdict


def test_openai_servers() -> None:
    assert doctored(routes=OPENAI).is_sound
    for fault, named in {"wrong_order": (2, "other_ids"), "off_by_one": (3, "off_by_one")}.items():
        assert failed(doctored(fault, routes=OPENAI, since=1)) == [named]
    for fault in ("late_echo", "backward_echo"):
        for since in (0, 1):
            assert failed(doctored(fault, routes=OPENAI, since=since)) == [(3, "other_places")]


class Faulty(InProcess):
    """A dialect that checks nothing itself, with a fault in its numbers."""

    controls: frozenset[SamplingControl] = frozenset({"temperature", "repetition_penalty", "presence_penalty", "cache"})

    def __init__(self, fault: str) -> None:
        super().__init__(Toy())
        self.fault = fault

    def target_log_probs(self, scored: SequenceToScore) -> FloatArray:
        return self.probed_log_probs(scored, RequestSetting()).log_probs

    def _faulty(self, scored: SequenceToScore) -> FloatArray:
        values = super().target_log_probs(scored)
        found = {
            "wrong_order": values[::-1], "missing_rows": values[1:], "logits": values + 20.0,
            "one_late": np.roll(values, 1), "quantised": np.minimum(values + 0.1 * (len(scored.response) % 2), 0.0),
        }  # fmt: skip
        return found.get(self.fault, values)

    def whole_rows(self, scored: SequenceToScore, rows: range) -> FloatArray:
        return super().whole_rows(scored, rows) - (0.1 if self.fault == "not_normalised" else 0.0)

    def generate(self, prompt: Sequence[int], *, temperature: float, seed: int, **how: Any) -> DrawnResponse:
        row = self.whole_rows(SequenceToScore(tuple(prompt), ()), range(1))[0]
        if self.fault in ("top_k", "cold") and temperature == 1.0:
            rng = np.random.default_rng(seed)
            if self.fault == "top_k":
                row = np.where(row >= np.sort(row)[-3], row, -np.inf)
            p = np.exp(np.asarray(logspace.log_softmax(row, 0.5 if self.fault == "cold" else 1.0)))
            return DrawnResponse((int(rng.choice(len(row), p=p / p.sum())),), ())
        drawn = super().generate(prompt, temperature=temperature, seed=seed, **how)
        if self.fault == "tempered_draws" and temperature:
            return DrawnResponse(drawn.ids, tuple(one / temperature for one in drawn.log_probs))
        return drawn

    def probed_log_probs(self, scored: SequenceToScore, setting: RequestSetting) -> ProbeAnswer:
        values = self._faulty(scored)
        if self.fault == "penalised":
            values = values * setting.repetition_penalty
        if self.fault == "cache":
            values = values - 0.16 * (setting.reads_cache is not False)
        return ProbeAnswer(values, len(scored.prompt) if setting.reads_cache else 0)


@pytest.mark.usefixtures("all_draws")
@pytest.mark.parametrize(
    ("fault", "number", "name"),
    [
        *(("wrong_order", 3, "wrong_order"), ("one_late", 3, "off_by_one"), ("missing_rows", 1, "missing_rows")),
        *(("logits", 4, "above_zero"), ("not_normalised", 4, "not_normalised"), ("penalised", 5, "penalised")),
        *(("tempered_draws", 5, "tempered"), ("top_k", 5, "sampled_otherwise"), ("cold", 5, "sampled_otherwise")),
    ],
)
def test_a_fault_that_no_dialect_sees_is_named(fault: str, number: int, name: str) -> None:
    assert (number, name) in failed(examine(faulty(fault), "faulty"))


def test_every_fault_of_an_answer_has_words() -> None:
    assert set(re.findall(r'AnswerError\(\s*"(\w+)"', inspect.getsource(dialect))) <= set(FAULTS)


@pytest.mark.usefixtures("all_draws")
def test_without_a_fault_all_of_it_passes() -> None:
    result = examine(faulty(""), "sound")
    # There is no /tokenize to compare tokenizers with.
    assert [check.status for check in result.checks if check.number != 8 and check.status != "passed"] == ["note"]
    assert result.uses_prefix_cache


def test_the_cause_of_noise_is_named_and_rounding_is_no_wrong_place() -> None:
    result: Any = examine(faulty("cache"), "quantised")
    assert result.is_sound
    assert result.noise.cache_nats == pytest.approx(0.16)
    assert (result.noise.repeat_nats, result.noise.order_nats, result.noise.batch_nats) == (0.0, 0.0, 0.0)
    assert "without the prefix cache" in result.checks[5].advice
    # A server of quantised weights moves a token that is scored alone by a few tenths of a nat.
    result = examine(faulty("quantised"), "quantised")
    assert result.is_sound, result.verdict
    assert result.noise.floor_nats == result.noise.split_nats == pytest.approx(0.1)
    assert (result.checks[5].status, result.checks[5].fault) == ("note", None)


def faulty(fault: str) -> CheckedModel:
    local, nobody, dialect = (
        CheckedModel.from_backend(Toy()),
        connection.Connection("http://127.0.0.1:1"),
        Faulty(fault),
    )

    def together(prompts: Sequence[tuple[int, ...]], response: tuple[int, ...]) -> FloatArray:
        return np.stack([dialect.target_log_probs(SequenceToScore(one, response)) for one in prompts])

    return CheckedModel("faulty", dialect, local.tokenizer, local.served, together, nobody)
