"""Models that are refused when they are loaded, each in one line that says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from helpers.tiny_models import backend_of, fresh_model
from leakmeter.errors import ModelError


class Prompted(torch.nn.Module):
    """A model with trained vectors before every text, as prompt tuning has them; their rows come with the others."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.base_model = model
        self.config, self.device, self.dtype = model.config, model.device, model.dtype
        self.vectors = torch.nn.Parameter(torch.randn(5, model.config.hidden_size))

    def get_output_embeddings(self) -> Any:
        return self.base_model.get_output_embeddings()

    def get_input_embeddings(self) -> Any:
        return self.base_model.get_input_embeddings()

    def forward(self, input_ids: torch.Tensor, **others: Any) -> Any:
        embedded = self.base_model.get_input_embeddings()(input_ids)
        vectors = self.vectors.expand(len(input_ids), -1, -1)
        return self.base_model(inputs_embeds=torch.cat([vectors, embedded], dim=1), **others)


class LastRowOnly(Prompted):
    def forward(self, input_ids: torch.Tensor, **others: Any) -> Any:
        return SimpleNamespace(logits=self.base_model(input_ids=input_ids, **others).logits[:, -1:])


@pytest.mark.parametrize(("kind", "n_rows"), [(Prompted, 13), (LastRowOnly, 1)])
def test_logits_that_have_not_one_row_for_each_token(kind: type[Prompted], n_rows: int) -> None:
    with pytest.raises(ModelError, match=rf"{kind.__name__}\) gives logits for {n_rows} positions .* 8 tokens") as told:
        backend_of(kind(fresh_model("llama")))
    assert "\n" not in str(told.value)
