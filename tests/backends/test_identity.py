"""What a run's identity says of its model, and which models are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers.tiny_models import fresh_model, tiny_tokenizer
from leakmeter.backends.hf import HfBackend
from leakmeter.backends.hf.load import load_directory
from leakmeter.errors import ModelError

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<answer>{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    fresh_model("llama").save_pretrained(made)
    tiny_tokenizer().save_pretrained(made)
    (made / "chat_template.jinja").write_text(TEMPLATE)
    return made


def load(folder: Path) -> HfBackend:
    return load_directory(folder, name="own", dtype=None, device="cpu", weights_sha256="0" * 64)


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_each_file_that_moves_numbers_moves_its_own_hash(folder: Path) -> None:
    before = load(folder).identity
    assert set(before) == {"config_sha256", "tokenizer_sha256", "chat_template_sha256"}
    assert load(folder).identity == before
    template = folder / "chat_template.jinja"
    changes: list[tuple[str, Callable[[], object]]] = [
        ("config_sha256", lambda: edit(folder / "config.json", rms_norm_eps=0.5)),
        ("tokenizer_sha256", lambda: edit(folder / "tokenizer.json", normalizer={"type": "Lowercase"})),
        ("chat_template_sha256", lambda: template.write_text(TEMPLATE.replace("<answer>", "<reply>"))),
        ("tokenizer_sha256", lambda: edit(folder / "generation_config.json", eos_token_id=[2, 5])),
    ]
    for moved, change in changes:
        change()
        after = load(folder).identity
        assert {name for name in before if after[name] != before[name]} == {moved}
        before = after


def test_a_template_that_writes_the_date_is_another_one_tomorrow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.utils import chat_template_utils

    (folder / "chat_template.jinja").write_text("{{ strftime_now('%d %B %Y') }}" + TEMPLATE)

    class Tomorrow(chat_template_utils.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls(2031, 5, 17)

    today = load(folder).identity
    monkeypatch.setattr(chat_template_utils, "datetime", Tomorrow)
    tomorrow = load(folder).identity
    assert {name for name in today if tomorrow[name] != today[name]} == {"chat_template_sha256"}


def test_weights_that_do_not_fit_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    up, norm = "model.layers.9.mlp.up_proj.weight", "model.norm.weight"
    for changed, words in (
        ({name: one for name, one in weights.items() if ".layers.1." not in name}, r"9 missing \(model\.layers\.1\."),
        ({**weights, up: weights[up.replace("9", "0")].clone()}, "1 unexpected"),
        ({**weights, norm: weights[norm][:3].clone()}, "1 of another shape"),
    ):
        save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelError, match=rf"the weights of 'own' do not fit its configuration: {words}"):
            load(folder)


def test_tied_weights_are_not_missing(tmp_path: Path) -> None:
    config = transformers.LlamaConfig(**{**fresh_model("llama").config.to_dict(), "tie_word_embeddings": True})
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert not any("lm_head" in name for name in load_file(tmp_path / "model.safetensors"))
    load(tmp_path)


def test_an_encoder_is_refused(tmp_path: Path) -> None:
    sizes = {"vocab_size": 97, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    # Weights large enough that every token is felt.
    config = transformers.BertConfig(**sizes, num_attention_heads=2, initializer_range=0.35)
    torch.manual_seed(0)
    transformers.BertLMHeadModel(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"'own' lets a token attend to later ones \(BertLMHeadModel\)"):
        load(tmp_path)
