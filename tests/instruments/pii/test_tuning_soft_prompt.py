"""Soft prompts are tuned until values come out, and do what the tokens do whose embeddings they are."""

from __future__ import annotations

import math
import stat
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from helpers import tiny_models as tiny
from helpers.tuned_models import BOS, EXAMPLES, byte_tokenizer, fresh_llama, greedy, ids_of, log_likelihoods
from leakmeter.errors import CapabilityError, DataError, ScoreError, StoreError, UsageError, WindowError
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.settings import SoftPromptTuning
from leakmeter.instruments.pii.tuning import soft_prompt
from leakmeter.instruments.pii.tuning.soft_prompt import Epoch, Tuned, tune
from leakmeter.instruments.pii.tuning.vectors import SoftPrompt, behind, load_soft_prompt


def quick(model: Any, **changes: Any) -> Tuned:
    settings: dict[str, Any] = {"length": 4, "epochs": 6, "exact_match_every": 2, "batch_size": 2}
    settings["learning_rate"] = 0.05
    settings |= {one.name: changes.pop(one.name) for one in fields(SoftPromptTuning) if one.name in changes}
    return tune(model, byte_tokenizer(), EXAMPLES, SoftPromptTuning(**settings), **changes)


def test_values_of_those_it_was_tuned_on_come_out() -> None:
    model = fresh_llama()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.train()
    model.model.embed_tokens.weight.requires_grad_(False)
    trained = [weight.requires_grad for weight in model.parameters()]
    seen: list[Epoch] = []
    tuned = tune(
        model, byte_tokenizer(), EXAMPLES,
        SoftPromptTuning(length=10, learning_rate=0.05, epochs=200, exact_match_every=10, batch_size=3),
        progress=seen.append, stop=lambda: seen[-1].exact_match == 1.0, name="tiny",
    )  # fmt: skip
    assert tuned.best.exact_match == 1.0
    assert tuned.ended == "stopped"
    assert tuned.epochs == (tuned.epochs[0], *seen)
    assert tuned.best.number == len(seen) == tuned.soft_prompt.epoch
    assert tuned.epochs[0].exact_match == 0.0
    assert tuned.best.validation_loss < tuned.epochs[0].validation_loss / 3
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert [weight.requires_grad for weight in model.parameters()] == trained
    assert all(weight.grad is None for weight in model.parameters())
    assert all(module.training for module in model.modules())

    soft = tuned.soft_prompt
    assert (soft.length, soft.width, soft.start_ids, soft.model) == (10, 64, (BOS,), "tiny")
    prompts, values = zip(*EXAMPLES, strict=True)
    for prompt, value in EXAMPLES:
        assert greedy(model, soft, prompt, len(value)) == value
    told = np.concatenate(log_likelihoods(model, soft, prompts, values))
    np.testing.assert_allclose(-told.mean(), tuned.best.validation_loss, rtol=1e-5)


def test_steps_are_those_of_a_loop_without_batches_or_padding() -> None:
    model = fresh_llama()
    tuned = quick(model, epochs=3, batch_size=len(EXAMPLES), init="My", exact_match_every=3, patience=3)
    embed = model.get_input_embeddings()
    vectors = embed(torch.tensor((*ids_of("My"), *ids_of("My")))).detach().requires_grad_()
    optimiser = torch.optim.AdamW([vectors], lr=0.05)
    losses = []
    for _ in range(3):
        parts = []
        for prompt, value in EXAMPLES:
            front = torch.cat([embed(torch.tensor([BOS])), vectors, embed(torch.tensor((*prompt, *value)))])
            logits = model(inputs_embeds=front[None], use_cache=False).logits[0, -1 - len(value) : -1]
            parts.append(torch.nn.functional.cross_entropy(logits, torch.tensor(value), reduction="none"))
        loss = torch.cat(parts).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    np.testing.assert_allclose([epoch.loss for epoch in tuned.epochs[1:]], losses, rtol=1e-4)
    assert tuned.best.number == 3
    np.testing.assert_allclose(tuned.soft_prompt.vectors, vectors.detach(), atol=1e-4)


@pytest.mark.long
def test_tuning_ends_where_nothing_gets_better() -> None:
    # Another value behind the same prompt: what is learned is wrong for it.
    others = [(prompt, ids_of(" zzzz")) for prompt, _ in EXAMPLES]
    model = fresh_llama()
    tuned = quick(model, validation=others, epochs=300, patience=20, exact_match_every=5)
    assert tuned.ended == "no progress"
    assert tuned.best.number <= tuned.epochs[-1].number - 20 < 280
    # Nothing is better or worse before it was looked at.
    assert len(quick(model, patience=1, exact_match_every=4, epochs=5).epochs) >= 5


def test_what_cannot_be_used_is_refused() -> None:
    for changes, message in (
        *(({"length": 0}, "length is 0; it has to be 1 or more"), ({"batch_size": 0}, "batch-size is 0")),
        *(({"exact_match_every": 0}, "exact-match-every is 0"), ({"patience": 0}, "patience is 0")),
        *(({"save_every": 0}, "save-every is 0"), ({"epochs": -1}, "epochs is -1; it has to be 0 or more")),
        ({"learning_rate": 0.0}, "learning-rate is 0.0; it has to be above 0 and at most 1"),
        *(({"learning_rate": math.nan}, "learning-rate is nan"), ({"seed": -1}, "seed is -1")),
        *(({"init": ""}, "init is an empty text"), ({"validation": []}, "there are no examples")),
        ({"validation": [((5,), ())]}, "value of example 1 has no tokens"),
    ):
        with pytest.raises(UsageError, match=message):
            quick(fresh_llama(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("killed_after", [1, 3, 4])
def test_a_tuning_that_was_killed_goes_on_to_the_same_numbers(tmp_path: Path, killed_after: int) -> None:
    model = fresh_llama()
    whole = quick(model)
    kill = Mock(side_effect=[*[None] * (killed_after - 1), RuntimeError])
    with pytest.raises(RuntimeError):
        quick(model, state=tmp_path / "state", save_every=2, progress=kill)
    assert all(weight.requires_grad for weight in model.parameters())
    seen: list[Epoch] = []
    gone_on = quick(model, state=tmp_path / "state", save_every=2, progress=seen.append)
    # An epoch whose end was not told was not kept.
    assert seen[0].number == (killed_after - 1) // 2 * 2 + 1
    assert torch.equal(gone_on.soft_prompt.vectors, whole.soft_prompt.vectors)
    ours, theirs = ([(epoch.loss, epoch.exact_match) for epoch in of.epochs] for of in (gone_on, whole))
    np.testing.assert_array_equal(ours, theirs)
    assert quick(model, state=tmp_path / "state").epochs[1:] != ()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["soft-prompt.state.safetensors"]


def test_a_stopped_tuning_goes_on_and_another_does_not(tmp_path: Path) -> None:
    model = fresh_llama()
    stopped = quick(model, state=tmp_path, stop=lambda: True)
    assert (stopped.ended, len(stopped.epochs)) == ("stopped", 2)
    gone_on = quick(model, state=tmp_path)
    assert gone_on.ended == "all epochs"
    assert torch.equal(gone_on.soft_prompt.vectors, quick(model).soft_prompt.vectors)
    with pytest.raises(UsageError, match="is the state of another tuning"):
        quick(model, state=tmp_path, seed=5)
    with torch.no_grad():
        model.model.norm.weight += 1
    with pytest.raises(UsageError, match="is the state of another tuning"):
        quick(model, state=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        quick(model, state=tmp_path / "file")


def test_the_best_epoch_has_most_matches_then_the_lowest_loss() -> None:
    nan = math.nan
    told = ((nan, 5.0, 0.0), (4.0, nan, nan), (3.0, 4.0, 0.5), (2.0, 3.0, 0.5), (2.0, 1.0, 0.25), (2.0, 3.5, 0.5))
    epochs = [Epoch(number, *of) for number, of in enumerate(told)]
    assert soft_prompt._best(epochs).number == 3
    assert soft_prompt._last_better(epochs) == 4
    assert soft_prompt._last_better([*epochs, Epoch(6, 2.0, 9.0, 0.75)]) == 6
    assert soft_prompt._last_better(epochs[:2]) == 0


def test_first_vectors_are_embeddings_of_ordinary_tokens_or_of_a_text() -> None:
    model = fresh_llama()
    table = model.get_input_embeddings().weight

    def tokens(tuned: Tuned) -> list[int]:
        return [int((table == vector).all(dim=1).nonzero()[0, 0]) for vector in tuned.soft_prompt.vectors]

    drawn = tokens(quick(model, epochs=0, length=8))
    assert len(set(drawn)) == 8
    assert min(drawn) >= 3
    assert drawn != tokens(quick(model, epochs=0, length=8, seed=1))
    assert len(tokens(quick(model, epochs=0, length=60))) == 60
    abc = ids_of("abc")
    assert tokens(quick(model, epochs=0, length=7, init="abc")) == [*abc, *abc, abc[0]]
    assert tokens(quick(model, epochs=0, length=2, init="abc")) == [*abc[:2]]
    # A special token's name is text.
    assert tokens(quick(model, epochs=0, length=3, init="<s>")) == [*ids_of("<"), *ids_of("s"), *ids_of(">")]


def test_models_and_lengths_that_do_not_do_are_refused() -> None:
    model = fresh_llama()
    with pytest.raises(WindowError, match="soft prompt of 120"):
        quick(model, length=120)
    with torch.no_grad():
        model.model.norm.weight.fill_(math.inf)
    with pytest.raises(ScoreError, match="NaN after epoch 0"):
        quick(model)
    with torch.inference_mode():
        frozen = fresh_llama()
    with pytest.raises(CapabilityError, match="inference_mode"):
        quick(frozen)


KINDS = ("llama", "gpt2", "opt", "gemma3", "gemma2", "mistral", "cohere", "mamba", "bloom", "gpt_neo")
HARD = (5, 17, 60, 33)
"""Tokens whose embeddings are the vectors."""


def soft_prompt_of(model: Any) -> SoftPrompt:
    vectors = model.get_input_embeddings()(torch.tensor(HARD)).detach().float()
    return SoftPrompt(vectors, (BOS,), model="tiny", tokenizer_sha256="ab", seed=3, epoch=40)


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_in_front_do_what_their_tokens_do(kind: str) -> None:
    model = tiny.fresh_model(kind)
    rng = np.random.default_rng(1)
    prompts, values = (
        [tuple(rng.integers(3, tiny.N_VOCAB, size=n).tolist()) for n in sizes] for sizes in ((4, 9, 1, 4), (3, 1, 5, 2))
    )
    soft = soft_prompt_of(model)
    for prompt, value, found in zip(prompts, values, log_likelihoods(model, soft, prompts, values), strict=True):
        with torch.inference_mode():
            told = model(input_ids=torch.tensor([[BOS, *HARD, *prompt, *value]]), use_cache=False).logits[0].double()
        expected = told[-1 - len(value) : -1].log_softmax(-1)[torch.arange(len(value)), torch.tensor(value)]
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
    soft = soft_prompt_of(model)
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
