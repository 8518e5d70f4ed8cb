"""Small models of many architectures with random weights, a tokenizer for them, and the naive way to their numbers."""

from __future__ import annotations

import os
from copy import copy
from functools import cache
from typing import Any, Final
from unittest import mock
from weakref import WeakSet

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from leakmeter.backends.hf import HfBackend, backend
from leakmeter.backends.hf.forward import Forward
from leakmeter.core.item import ContextItem, Span
from leakmeter.core.prompt import Piece, Prompt

if "PYTEST_XDIST_WORKER" in os.environ:
    # One process a core already; two threads each would wait for one another, and take four times as long.
    torch.set_num_threads(1)

N_VOCAB = 97
WINDOW = 8

# Weights large enough that every token of the context is felt: with the usual 0.02, a wrong mask moves nothing.
_FELT = {"initializer_range": 0.35}
_IDS = {"vocab_size": N_VOCAB, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_SIZES = _IDS | {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 256}
_PLAIN = _SIZES | _FELT | {"intermediate_size": 48}
_GQA = _PLAIN | {"num_key_value_heads": 2}
_GEMMA = _GQA | {"head_dim": 8, "sliding_window": WINDOW, "query_pre_attn_scalar": 8}
_MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
# The last two layers have no keys and values of their own, but those of an earlier layer of their kind.
_GEMMA_3N = _GQA | {
    "head_dim": 8, "sliding_window": WINDOW, "num_hidden_layers": 4, "num_kv_shared_layers": 2, "laurel_rank": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "vocab_size_per_layer_input": N_VOCAB,
    "hidden_size_per_layer_input": 8, "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 4,
}  # fmt: skip
# Heads of two sizes, by kind of layer, and layers that share keys and values.
_GEMMA_4 = _GQA | {
    "head_dim": 8, "global_head_dim": 16, "sliding_window": WINDOW, "num_hidden_layers": 4, "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "vocab_size_per_layer_input": N_VOCAB,
    "hidden_size_per_layer_input": 8, "final_logit_softcapping": 2.0,
}  # fmt: skip
TURN = 28  # tokens; longer passes are rotated by other factors
FACTORS = {
    "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": TURN, "factor": 8.0,
    "short_factor": [1.0] * 4, "long_factor": [1.1, 2.0, 6.0, 30.0],
}  # fmt: skip
_LONGROPE = _GQA | {"original_max_position_embeddings": TURN, "rope_parameters": FACTORS}
_PHIMOE = {"num_local_experts": 4, "rope_parameters": FACTORS | {"short_mscale": 1.0, "long_mscale": 1.3}}
_MINICPM3 = {
    "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "num_key_value_heads": 4, "head_dim": 8,
}  # fmt: skip
# Convolutions and recurrences: before attention, without it, and before attention with an MLP for each layer.
_CONVOLVED = {"layer_types": ["conv", "full_attention", "conv"]}
_MAMBA_2 = {
    "hidden_size": 32, "num_hidden_layers": 3, "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1,
    "chunk_size": 8,
}  # fmt: skip
_DELTA = {
    "head_dim": 8, "layer_types": ["linear_attention", "full_attention", "linear_attention"], "num_experts": 0,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "mlp_only_layers": [0, 1, 2],
}  # fmt: skip
_LOCAL = {"attention_types": [[["global", "local"], 1]], "window_size": 20, "num_layers": 2, "num_heads": 4}
_KINDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "llama": ("Llama", _GQA),
    "gpt2": ("GPT2", _IDS | _FELT | {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256}),
    "gpt_neox": ("GPTNeoX", _PLAIN),
    "opt": ("OPT", _SIZES | {"ffn_dim": 48, "word_embed_proj_dim": 16, "init_std": 0.35}),
    "gemma3": ("Gemma3Text", _GEMMA | _MIXED),
    "gemma2": ("Gemma2", _GEMMA | _MIXED | {"final_logit_softcapping": 2.0}),
    "gemma3n": ("Gemma3nText", _GEMMA_3N),
    "gemma4": ("Gemma4Text", _GEMMA_4),
    "mistral": ("Mistral", _GQA | {"sliding_window": WINDOW}),
    "qwen2": ("Qwen2", _GQA),
    "qwen2_sliding": (
        "Qwen2", _GQA | {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
    ),
    "granite": ("Granite", _GQA | {"logits_scaling": 3.0, "residual_multiplier": 0.7}),
    "cohere": ("Cohere", _GQA | {"logit_scale": 0.3}),
    "gpt_neo": ("GPTNeo", _IDS | _FELT | _LOCAL | {"hidden_size": 32, "max_position_embeddings": 256}),
    "mamba": ("Mamba", _IDS | _FELT | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "lfm2": ("Lfm2", _GQA | _CONVOLVED),
    "mamba2": ("Mamba2", _IDS | _FELT | _MAMBA_2),
    "qwen3_next": ("Qwen3Next", _GQA | _DELTA),
    "bloom": ("Bloom", _IDS | _FELT | {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
}  # fmt: skip

_LONG = {
    "phi3_longrope": ("Phi3", _LONGROPE),
    "llama_longrope": ("Llama", _LONGROPE),
    "phimoe_longrope": ("Phimoe", _LONGROPE | _PHIMOE),
    "minicpm3_longrope": ("MiniCPM3", _LONGROPE | _MINICPM3),
}

# What cannot be forked: a recurrence that the library begins anew in every pass; positions out of the attention mask;
# windows counted over padding.
RECURRENT = ("mamba", "bloom", "gpt_neo")
FORKED_AT_ENDS = ("lfm2", "mamba2", "qwen3_next")
"""Recurrent models, which can be forked only where a pass ended."""
ATTENTION = tuple(kind for kind in _KINDS if kind not in RECURRENT + FORKED_AT_ENDS)
SLIDING = ("gemma3", "gemma2", "mistral", "qwen2_sliding")
"""Models whose contexts here are several times their window."""

_SHARED: Final[WeakSet[Any]] = WeakSet()


@cache
def tiny_model(kind: str, attention: str = "eager", dtype: torch.dtype = torch.float32) -> Any:
    """The model of that kind, always with the same random weights; do not change it."""
    model = fresh_model(kind, attention, dtype)
    _SHARED.add(model)
    return model


def fresh_model(kind: str, attention: str = "eager", dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    """A model of that kind that the caller may change, with changes to its configuration."""
    with torch.random.fork_rng():
        torch.manual_seed(20)
        name, told = (_KINDS | _LONG)[kind]
        config = getattr(transformers, f"{name}Config")(**told | changes)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        # Biases and norms start at 0 and 1, where mistakes about them hide.
        for name, weight in model.named_parameters():
            if weight.ndim == 1 and "A_log" not in name:
                weight.data.add_(0.1 * torch.randn_like(weight))
    return model.to(dtype).eval()


@cache
def tiny_tokenizer() -> Any:
    """A byte-level BPE tokenizer of at most `N_VOCAB` tokens plus bytes, trained on a sentence."""
    text = "a patient writes to the clinic and the clinic writes back to the patient on the same day"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=N_VOCAB, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def backend_of(model: Any, **settings: Any) -> HfBackend:
    with mock.patch.object(backend, "Forward", _forward):
        return HfBackend(model, tiny_tokenizer(), name="tiny", **settings)


def _forward(model: Any) -> Forward:
    """What a model that nobody changes allows is found out once."""
    return copy(_probed(model)) if model in _SHARED else Forward(model)


@cache
def _probed(model: Any) -> Forward:
    return Forward(model)


def tiny_backend(kind: str = "llama", attention: str = "eager", **settings: Any) -> HfBackend:
    """A back end of the model of that kind, which all tests share."""
    return backend_of(tiny_model(kind, attention), **settings)


def item_of(prompt: Prompt, id_: str = "one", stop_ids: frozenset[int] = frozenset()) -> ContextItem:
    """An item without a response whose spans are the prompt's context pieces."""
    names = prompt.names()
    with_placebo = prompt.with_inserted(2, Piece("placebo", "context", (3, 4, 5)))
    return ContextItem(
        id=id_, prompt=prompt, spans=tuple(Span(name, "unit", ((0, 1),), (name,), None, 1) for name in names),
        cuts={name: prompt.without(name) for name in names}, alone={name: prompt.only(name) for name in names},
        blank=prompt.blank(), placebos=(with_placebo,), placebo_alone=with_placebo.only("placebo"), response=None,
        stop_ids=stop_ids,
    )  # fmt: skip
