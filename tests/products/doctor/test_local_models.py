"""A model in this process whose passes are wrong does not pass, and the advice is for such a model."""

from __future__ import annotations

import pytest
import torch

import leakmeter
from helpers.tiny_models import FACTORS, TURN, backend_of, fresh_model
from leakmeter.backends.hf import forward
from leakmeter.report import markdown


def test_a_local_model_with_wrong_passes_fails_and_the_advice_is_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of(fresh_model("llama", "eager"))
    assert leakmeter.doctor(backend).is_sound
    real = forward._new_tokens

    def shifted(segments: object, ids: object) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        new_ids, positions = real(segments, ids)  # type: ignore[arg-type]
        starts = [start for segment in segments for start in segment.starts]  # type: ignore[attr-defined]
        return new_ids, [where + 9 * bool(start.n_tokens) for where, start in zip(positions, starts, strict=True)]

    monkeypatch.setattr(forward, "_new_tokens", shifted)
    result = leakmeter.doctor(backend)
    assert not result.is_sound
    failed = [check for check in result.checks if check.status == "failed"]
    assert [check.fault for check in failed] == ["wrong_passes"] * len(failed)
    assert failed
    for check in failed:
        assert "passes that share work are wrong" in check.found
        for word in ("server", "concurrency", "kernels"):
            assert word not in check.advice
        assert "--dtype" not in check.advice
    text = markdown.text(type(result).report([result]))
    assert text.count("Give another model, and report this one as a bug.") == 1
    assert ".:" not in text


@pytest.mark.parametrize("kind", ["phi3_longrope", "llama_longrope"])
def test_a_model_that_tells_lengths_apart_is_told_apart_from_wrong_passes(kind: str) -> None:
    result = leakmeter.doctor(backend_of(fresh_model(kind, "eager", rope_parameters=FACTORS)))
    failed = [check for check in result.checks if check.status == "failed"]
    assert failed
    assert {check.fault for check in failed} == {"lengths"}
    for check in failed:
        assert "share work" not in check.found
        assert f"texts of more than {TURN} tokens otherwise than shorter ones (LongRoPE)" in check.found
        assert f"prompt and response together have at most {TURN} tokens" in check.advice
        assert "--dtype" not in check.advice
    text = markdown.text(type(result).report([result]))
    assert text.count(failed[0].advice) == 1
    assert ".:" not in text


def test_a_local_model_that_changes_its_mind_is_told_apart() -> None:
    """Not as a server that others ask too."""
    model = fresh_model("llama", "eager")
    backend = backend_of(model)
    noise = torch.Generator().manual_seed(0)
    model.lm_head.register_forward_hook(lambda module, args, out: out + 3 * torch.randn(out.shape, generator=noise))
    (found,) = [check for check in leakmeter.doctor(backend).checks if check.fault == "unstable"]
    assert found.status == "failed"
    assert "dropout or random routing" in found.advice
