"""Soft prompts in use: vectors that are embeddings of tokens have to do what those tokens do."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import tiny_models as tiny
from helpers.tuned_models import BOS, EXAMPLES, byte_tokenizer, fresh_llama, log_likelihoods
from leakmeter.errors import DataError, StoreError, UsageError, WindowError
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.tuning.vectors import SoftPrompt, behind, load_soft_prompt

KINDS = ("llama", "gpt2", "opt", "gemma3", "gemma2", "mistral", "cohere", "mamba", "bloom", "gpt_neo")
HARD = (5, 17, 60, 33)
"""Tokens whose embeddings are the vectors."""


def soft_prompt_of(model: Any, ids: tuple[int, ...] = HARD, start_ids: tuple[int, ...] = (BOS,)) -> SoftPrompt:
    vectors = model.get_input_embeddings()(torch.tensor(ids)).detach().float()
    return SoftPrompt(vectors, start_ids, model="tiny", tokenizer_sha256="0", seed=0, epoch=0)


def random_ids(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    return tuple(int(i) for i in rng.integers(3, tiny.N_VOCAB, size=n))


def naive_logits(model: Any, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_in_front_do_what_their_tokens_do(kind: str) -> None:
    model = tiny.fresh_model(kind)
    rng = np.random.default_rng(1)
    prompts = [random_ids(rng, n) for n in (4, 9, 1, 4, 7)]
    values = [random_ids(rng, n) for n in (3, 1, 5, 2, 3)]
    soft = soft_prompt_of(model)
    for prompt, value, found in zip(prompts, values, log_likelihoods(model, soft, prompts, values), strict=True):
        before = (BOS, *HARD, *prompt)
        logits = naive_logits(model, (*before, *value))[len(before) - 1 : -1]
        expected = logits.log_softmax(-1)[torch.arange(len(value)), torch.tensor(value)]
        # Measured: 4e-6 nats at most.
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)


def test_many_values_are_scored_as_one_by_one() -> None:
    model = fresh_llama()
    soft = soft_prompt_of(model)
    prompts, values = zip(*(EXAMPLES * 30), strict=True)
    together = log_likelihoods(model, soft, prompts, values)
    for number in (0, 4, 77, 149):
        (alone,) = log_likelihoods(model, soft, [prompts[number]], [values[number]])
        np.testing.assert_allclose(together[number], alone, atol=1e-5)
    assert log_likelihoods(model, soft, [], []) == []


def test_a_model_in_half_precision_takes_float32_vectors() -> None:
    model = fresh_llama()
    soft = soft_prompt_of(model)
    prompts, values = zip(*EXAMPLES, strict=True)
    exact = np.concatenate(log_likelihoods(model, soft, prompts, values))
    rough = np.concatenate(log_likelihoods(model.bfloat16(), soft, prompts, values))
    # Measured: 0.12 nats.
    assert np.abs(rough - exact).max() < 0.5
    assert np.corrcoef(rough, exact)[0, 1] > 0.99


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    model = fresh_llama()
    soft = replace(soft_prompt_of(model), model="tiny", tokenizer_sha256="ab", seed=3, epoch=40)
    soft.save(tmp_path / "soft.safetensors")
    loaded = load_soft_prompt(tmp_path / "soft.safetensors", model, byte_tokenizer())
    assert torch.equal(loaded.vectors, soft.vectors)
    assert behind(tmp_path / "soft.safetensors", ProbeSettings()).soft_tokens == len(HARD)
    assert loaded.start_ids == (BOS,)
    assert (loaded.model, loaded.tokenizer_sha256, loaded.seed, loaded.epoch) == ("tiny", "ab", 3, 40)
    assert stat.S_IMODE((tmp_path / "soft.safetensors").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["soft.safetensors"]


def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    model = fresh_llama()
    soft_prompt_of(model).save(tmp_path / "soft.safetensors")
    with pytest.raises(DataError, match=r"vectors of width 64, tuned on 'tiny', and 'LlamaForCausalLM' takes width 32"):
        load_soft_prompt(tmp_path / "soft.safetensors", fresh_llama(hidden_size=32), byte_tokenizer())
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "text").write_text("no tensors", encoding="utf-8")
    for name in ("model/model.safetensors", "text"):
        with pytest.raises(DataError, match="is not a file with a soft prompt"):
            load_soft_prompt(tmp_path / name, model, byte_tokenizer())
    with pytest.raises(DataError, match="cannot be read"):
        load_soft_prompt(tmp_path / "nowhere", model, byte_tokenizer())
    with pytest.raises(StoreError, match="cannot be written"):
        soft_prompt_of(model).save(tmp_path / "no" / "such" / "place")


def test_examples_that_cannot_stand_behind_it_are_refused() -> None:
    model = fresh_llama()
    soft = soft_prompt_of(model)
    with pytest.raises(UsageError, match="value of example 2 has no tokens"):
        log_likelihoods(model, soft, [(5,), (6,)], [(7,), ()])
    with pytest.raises(UsageError, match="prompt of example 1 begins with the model's start tokens"):
        log_likelihoods(model, soft, [(BOS, 5)], [(7,)])
    with pytest.raises(WindowError, match=r"example 1 takes 136 tokens with its soft prompt of 4, .* holds 128"):
        log_likelihoods(model, soft, [(5,) * 130], [(7,)])
