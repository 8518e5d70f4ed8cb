"""The doctor's command, result and page; models in this process; fingerprints."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import leakmeter
from helpers.command_line import assert_refused
from helpers.model_server import VLLM, ModelServer
from helpers.tiny_models import tiny_backend
from leakmeter.backends.served.fingerprint import Fingerprint, fingerprint
from leakmeter.backends.toy import Toy
from leakmeter.products.doctor.result import DoctorResult
from leakmeter.products.doctor.subject import CheckedModel
from leakmeter.report import markdown

Cli = Callable[..., Any]


def test_a_model_in_this_process() -> None:
    result = leakmeter.doctor("toy")
    assert result.is_sound
    assert result.settings == {"precision": "float64"}
    assert [check.status for check in result.checks] == [*["passed"] * 7, "skipped", "passed", "passed"]
    assert DoctorResult.from_dict(result.to_dict()) == result


def test_a_model_of_transformers() -> None:
    """Its precision, attention and threads are told, and its own small noise."""
    result = leakmeter.doctor(tiny_backend())
    assert result.is_sound, result.verdict
    assert {"precision", "attention", "threads", "device"} == set(result.settings or {})
    assert result.uses_prefix_cache
    assert result.noise is not None
    assert result.noise.floor_nats < 1e-4


def test_the_command_prints_what_its_schema_says(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "doctor.html"
    done = cli("doctor", "--model", "toy", "--json", "--report", str(page))
    told = json.loads(done.out)
    Draft202012Validator(leakmeter.schema("doctor")).validate(told)
    assert told["is_sound"]
    assert "Noise floor" in page.read_text(encoding="utf-8")
    assert "Passed: log-probabilities are raw" in cli("doctor", "--model", "toy").out
    assert stat.S_IMODE(page.stat().st_mode) & 0o400


def test_what_cannot_be_examined_is_one_line(cli: Cli) -> None:
    with ModelServer(VLLM, faults=["missing_rows"]) as server:
        # A measurement that would be wrong.
        done = cli("doctor", "--model", server.model, "--tokenizer", "toy")
        assert done.code == 1
        assert "Rows of log-probabilities are missing" in " ".join(done.out.split())
        model = server.model
        wide = cli("doctor", "--model", model, "--tokenizer", "toy", "--dtype", "float32")
        assert_refused(wide, "dtype is for a model loaded here")
        assert_refused(cli("doctor", "--model", "toy", "--against", model), "names local weights")
    assert_refused(cli("doctor", "--model", model, "--tokenizer", "toy"), "cannot be reached")


def test_names_of_models_are_data_on_the_page() -> None:
    result = replace(leakmeter.doctor("toy"), model="<script>x</script>", revision="[b]\x1b[31m")
    page = result.render_page([result], command=None, run=None)
    assert "<script>x" not in page
    assert "\x1b" not in markdown.text(result.report([result]))


def test_fingerprints() -> None:
    def taken(toy: Toy) -> Fingerprint:
        return fingerprint(CheckedModel.from_backend(toy).dialect, toy.tokenizer)

    same, other, near = taken(Toy()), taken(Toy(seed=1)), taken(Toy(scale=1.02))
    assert same == taken(Toy())
    assert len({same.sha256, other.sha256, near.sha256}) == 3
    assert same.agrees(replace(same, sums_nats=tuple(one + 1e-3 for one in same.sums_nats)), 1e-2)
    assert not same.agrees(near, 1e-2)
