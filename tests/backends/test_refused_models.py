"""Models that are refused when they are loaded, each in one line that says why."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from helpers.tiny_models import backend_of, fresh_model, tiny_tokenizer
from leakmeter.backends.hf.load import from_objects, load_directory
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


class Blocks(Prompted):
    """Whole blocks of 64 tokens are put together, as some attention does; here they are seen from within, too."""

    def forward(self, input_ids: torch.Tensor, **others: Any) -> Any:
        embedded = self.base_model.get_input_embeddings()(input_ids).clone()
        for first in range(0, embedded.shape[1] - 63, 64):
            block = embedded[:, first : first + 64]
            block += block.mean(dim=1, keepdim=True)
        return self.base_model(inputs_embeds=embedded, **others)


def test_blocks_longer_than_a_few_tokens_that_are_not_causal() -> None:
    model = fresh_model("llama")
    model.config.index_block_size = 64
    with pytest.raises(ModelError, match=r"first 123 tokens of a text other logits once more follow \(Blocks\)"):
        backend_of(Blocks(model))


class LastRowOnly(Prompted):
    def forward(self, input_ids: torch.Tensor, **others: Any) -> Any:
        return SimpleNamespace(logits=self.base_model(input_ids=input_ids, **others).logits[:, -1:])


@pytest.mark.parametrize(("kind", "n_rows"), [(Prompted, 13), (LastRowOnly, 1)])
def test_logits_that_have_not_one_row_for_each_token(kind: type[Prompted], n_rows: int) -> None:
    with pytest.raises(ModelError, match=rf"{kind.__name__}\) gives logits for {n_rows} positions .* 8 tokens") as told:
        backend_of(kind(fresh_model("llama")))
    assert "\n" not in str(told.value)


class Failing(Prompted):
    def forward(self, input_ids: torch.Tensor, **others: Any) -> Any:
        raise RuntimeError("the size of tensor a must match that of tensor b")


def test_a_model_that_fails_is_refused_with_what_it_said() -> None:
    with pytest.raises(
        ModelError, match=r"does not run .*: the size of tensor a must .*; so says transformers 5"
    ) as told:
        from_objects(Failing(fresh_model("llama")), tiny_tokenizer())
    assert "save_pretrained" not in str(told.value)


SAYS = {
    "an unknown kind": ({"model_type": "nosuch"}, "does not recognize this architecture.* update it"),
    "no language model": ({"model_type": "vit"}, "Unrecognized configuration class.* is a causal language model for"),
    "a wrong number": ({"hidden_size": "x"}, "expected int, got str.*; give a directory that save_pretrained wrote"),
    "a missing package": ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "requires.*; install that"),
}


@pytest.mark.parametrize("what", SAYS)
def test_a_directory_is_to_blame_only_where_it_is(what: str, tmp_path: Path) -> None:
    changes, says = SAYS[what]
    fresh_model("llama").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | changes), "utf-8")
    with pytest.raises(ModelError, match=f"(?s){says}"):
        load_directory(tmp_path, name="here", dtype=None, device="cpu", weights_sha256=None)


def test_layers_that_differ_are_no_reason_to_refuse(tmp_path: Path) -> None:
    fresh_model("gemma4").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    backend = load_directory(tmp_path, name="here", dtype=None, device="cpu", weights_sha256=None)
    assert backend.shares_prefixes
