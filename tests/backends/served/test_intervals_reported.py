"""An interval from the command to the result, the report and the gate; and refusals that leave nothing behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import Ended
from helpers.measure_items import make_item
from helpers.model_server import VLLM, ModelServer
from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.cost import PlanningBackend
from leakmeter.core.drive import drive
from leakmeter.core.plan import Chunk
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import NextTokenSample
from leakmeter.instruments.influence.report import verdict
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.redaction.measure import Redaction
from leakmeter.instruments.redaction.report import verdict as redaction_verdict
from leakmeter.instruments.redaction.result import RedactionResult

Cli = Callable[..., Ended]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "cases.jsonl"
    case = {"id": "one", "context": "The clinic is in Graz. It opens at nine.", "query": "When?", "response": "nine."}
    path.write_text(json.dumps(case))
    return path


def measure(cli: Cli, model: str, data: Path, *more: object, command: str = "influence") -> Ended:
    tokenizer = () if model == "toy" else ("--tokenizer", "toy")
    return cli(command, "--model", model, *tokenizer, "--data", data, "--unit", "sentence", "--json", *more)


def result_of(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_interval_reaches_result_report_and_gate(cli: Cli, data: Path) -> None:
    exact = result_of(measure(cli, "toy", data, "--temperature", 0.5, "--out", "exact"))
    with ModelServer(VLLM, max_top=20) as server:
        ended = measure(cli, server.model, data, "--temperature", 0.5, "--html", "page.html")
    found = result_of(ended)
    half = found["half_width_nats"]
    assert half > 0
    assert abs(found["whole_nats"] - exact["whole_nats"]) <= half
    assert found["noise_floor_nats"] >= half
    for one, other in zip(found["pieces"], exact["pieces"], strict=True):
        assert 0 < one["half_width_nats"] <= half
        for name in ("nats", "signed_nats", "alone_nats"):
            assert abs(one[name] - other[name]) <= one["half_width_nats"]
        assert "half_width_nats" not in other
    assert "half_width_nats" not in exact
    assert any("midpoint of an interval" in warning for warning in found["warnings"])

    result = InfluenceResult.from_dict(found)
    assert result.half_width_nats == half
    assert result.to_dict() == found
    assert "by between" in verdict(result)
    assert "by between" not in verdict(InfluenceResult.from_dict(exact))
    assert "between" in Path("page.html").read_text(encoding="utf-8")

    (run,) = Path("runs").iterdir()
    for option, sign, limit, code in (
        ("max", "<=", half / 2, 1),
        ("max", "<=", half + 1e-3, 0),
        ("min", ">=", -half / 2, 1),
    ):
        assert cli("gate", run, f"--{option}", f"influence.max {sign} {found['whole_nats'] + limit:.9f}").code == code


def test_redaction_says_between(cli: Cli, data: Path) -> None:
    with ModelServer(VLLM, max_top=20) as server:
        options = ("--temperature", 0.5, "--max-loss", 1, "--max-new-tokens", 2)
        found = result_of(measure(cli, server.model, data, *options, command="redact"))
    result = RedactionResult.from_dict(found)
    assert result.half_width_nats
    assert result.reached is (result.left_nats + result.half_width_nats <= 1)
    assert "between" in redaction_verdict(result)


def test_refusal_leaves_nothing_and_sends_nothing(cli: Cli, data: Path) -> None:
    with ModelServer(VLLM, max_top=20) as server:
        for options in (("--cid-lambda", 1.5), ("--removal", "mask"), ("--temperature", 1.5, "--dry-run")):
            ended = measure(cli, server.model, data, *options)
            assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
            assert "a model loaded here" in ended.err
        # What the server can is found out by a request of two tokens of our own.
        assert all(call.body["prompt"] == [[0, 0]] for call in server.calls)
    assert not Path("runs").exists()


def test_redaction_asks_of_no_interval_more_than_the_longest_trial() -> None:
    """The check before a run is of the longest trial: every request of it takes intervals, as those of the trial do."""
    prompt = Prompt((Piece("a", "context", (70, 71)), Piece("b", "context", (80,)), Piece("q", "query", (90,))))
    seen: list[Chunk] = []
    planning = PlanningBackend(name="toy", tokenizer=ByteTokenizer(), dtype="served", window=None, sharing="nothing")
    planning.refuse, planning.draws_responses = seen.append, True
    drive(planning, [Redaction(temperature=0.5).longest_trial(make_item(prompt, (65, 66)))])
    requests = [request for chunk in seen for request in chunk.requests]
    assert requests
    assert all(one.interval_noise_nats is not None for one in requests)
    assert not any(isinstance(one.reduction, NextTokenSample) for one in requests)
