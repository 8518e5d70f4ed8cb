"""Another λ or T than 1 through a server that gives only its likeliest tokens: one line, nothing sent, nothing kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import leakmeter
from helpers.command_line import Ended
from helpers.model_server import VLLM, ModelServer
from leakmeter.errors import CapabilityError

CASE = {"id": "one", "context": "The clinic is in Graz. It opens at nine.", "query": "When?", "response": "nine."}
COMMANDS = (
    ("influence", "--temperature", 0.5),
    ("influence", "--temperature", 0.5, "--dry-run"),
    ("influence", "--temperature", 0.5, "--search", "top:1"),
    ("influence", "--cid-lambda", 0.5),
    ("influence", "--cid-lambda", 0.0),
    ("influence", "--cid-lambda", 1.5),
    ("redact", "--temperature", 0.5, "--max-loss", 1),
    ("redact", "--cid-lambda", 0.5, "--disclosures"),
)


def test_a_refusal_leaves_nothing_and_sends_nothing(cli: Callable[..., Ended], tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    data.write_text(json.dumps(CASE), encoding="utf-8")
    drawn = tmp_path / "drawn.jsonl"
    drawn.write_text(json.dumps({name: CASE[name] for name in ("id", "context", "query")}), encoding="utf-8")
    with ModelServer(VLLM, max_top=20) as server:
        how = ("--model", server.model, "--tokenizer", "toy", "--unit", "sentence")
        for command, *options in COMMANDS:
            ended = cli(command, *how, "--data", data, *options)
            assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
            assert "a model loaded here" in ended.err
            assert "with λ = 1 and T = 1 this server can" in ended.err
        ended = cli("influence", *how, "--data", data, "--removal", "mask")
        assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
        ended = cli("decode", "--model", server.model, "--tokenizer", "toy", "--data", drawn, "--cid-lambda", 0.5)
        assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
        assert "a distribution over the whole vocabulary cannot be had from this server" in ended.err
        with pytest.raises(CapabilityError, match=r"T = 0\.5 cannot be had from this server"):
            leakmeter.influence(server.model, [CASE], tokenizer="toy", temperature=0.5)
        # What the server can is found out by a request of two tokens of our own.
        assert all(call.body["prompt"] == [[0, 0]] for call in server.calls)
        assert not Path("runs").exists()
        # As it is by default, the same case is measured, and exactly.
        ended = cli("influence", *how, "--data", data, "--json")
        assert ended.code == 0, ended.err
        found = json.loads(ended.out)
    exact = json.loads(cli("influence", "--model", "toy", "--unit", "sentence", "--data", data, "--json").out)
    assert found["whole_nats"] == pytest.approx(exact["whole_nats"], abs=1e-9)
    assert "is_partly_read" not in found
