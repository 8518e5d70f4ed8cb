"""What our attention leaves out it refuses, so that a model that needs it keeps its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from leakmeter.backends.hf.attention import attend

ROWS = torch.zeros((1, 2, 3, 4))


@pytest.mark.parametrize("told", ["softcap", "s_aux", "position_bias", "indices", "block_indices"])
def test_an_argument_that_changes_attention(told: str) -> None:
    with pytest.raises(NotImplementedError):
        attend(None, ROWS, [], ROWS, None, **{told: 1.0})


def test_a_mask_of_the_models_own() -> None:
    with pytest.raises(NotImplementedError):
        attend(None, ROWS, [], ROWS, torch.zeros((1, 1, 3, 3)))


def test_arguments_without_effect() -> None:
    told: dict[str, Any] = {"dropout": 0.0, "sliding_window": 8, "use_cache": True, "softcap": None}
    out, _ = attend(None, ROWS, [], ROWS, None, **told)
    assert out.shape == (1, 3, 2, 4)
