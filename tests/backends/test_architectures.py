"""Every measure on tiny models of many architectures is what plain passes give, written apart from the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import architectures

from leakmeter.backends.hf import HfBackend
from leakmeter.core.self_check import doubt
from leakmeter.errors import ModelError

# Of random float32 models; what differs by more has to be said.
MOST_NATS = 1e-3
FAST = ("gemma3n_shared", "phi3_longrope", "mamba", "mistral_window")
LONG = (
    *("gemma3n_shared", "gemma4_shared", "phi3_longrope", "gpt2", "llama", "mamba", "qwen3_next", "gpt_oss"),
    *("deepseek_v3", "gemma3"),
)


def check(row: dict[str, Any]) -> None:
    assert row["largest"] <= MOST_NATS, row
    # Plain passes are right too, and slow: what is right is not to be given up.
    assert not row["self_check_failed"], row
    if "floor_nats" in row:
        # A floor that says nothing can be seen would hide what is right.
        assert row["floor_nats"] <= MOST_NATS, row


@pytest.mark.parametrize("name", FAST)
def test_labels_after_exemplars_are_those_of_plain_passes(name: str) -> None:
    check(architectures.row(name, ["icl"]))


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_every_measure_is_that_of_plain_passes(name: str) -> None:
    check(architectures.row(name))


def test_a_run_says_where_the_last_digit_decides() -> None:
    """Doge keeps some keys by scores of its own; of two that are nearly alike it may keep either."""
    model = architectures.build("doge")
    meter = architectures.Meter((model, architectures.tokenizer()), cache=False)
    plain, recorded = architectures.Plain(model), architectures.Recorded()
    assert isinstance(meter.backend, HfBackend)
    with recorded.of(meter.backend):
        (result,) = architectures.MEASURES["icl"](meter)
    difference = plain.difference(recorded)
    assert difference > MOST_NATS
    assert result.noise_floor_nats > difference
    assert doubt(result.answer_noise_floor_nats, result.self_check) is not None


def test_the_comparison_sees_a_wrong_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.backends.hf import states

    build = states.PassSegment.__init__

    def shared(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs | ({"one_scratch": True} if "one_scratch" in kwargs else {}))

    meter = architectures.Meter((architectures.build("gemma3n_shared"), architectures.tokenizer()), cache=False)
    backend = meter.backend
    plain, recorded = architectures.Plain(backend.model), architectures.Recorded()  # type: ignore[attr-defined]
    # As if one buffer served all layers, though some attend to an earlier one's states.
    monkeypatch.setattr(states.PassSegment, "__init__", shared)
    with recorded.of(backend):  # type: ignore[arg-type]
        architectures.MEASURES["icl"](meter)
    assert plain.difference(recorded) > 0.1


def test_what_cannot_be_measured_is_said(tmp_path: Path) -> None:
    rows = list(architectures.rows(("bert", "gpt2"), ["icl"]))
    assert "not a causal language model" in rows[0]["refused"]
    assert ModelError.__name__ in rows[0]["refused"]
    rows[1] |= {"tokens_run": 1234, "naive_tokens": 5678, "floor_nats": 1e-6, "largest": 2e-6}
    page = tmp_path / "architectures.md"
    page.write_text("# A page\n\n| a |\n| - |\n\nbetween\n\n| b |\n| - |\n\nbehind\n", "utf-8")
    architectures.write(rows, tmp_path)
    text = page.read_text("utf-8")
    assert "| gpt2 | yes, yes | 1,234 of 5,678 | 2.0e-06 | icl | 1.0e-06 |\n\nbetween" in text
    assert "| bert | refused: ModelError" in text
    assert text.endswith("\n\nbehind\n")
    kept = (tmp_path / "architectures.csv").read_text("utf-8").splitlines()
    assert [line.split(",")[0] for line in kept] == ["architecture", "bert", "gpt2"]
