"""Every measure on tiny models of many architectures, beside plain passes written apart from the engine.

    python -m benchmarks architectures --out docs/results

Each model has four layers of 64, random weights (seed 0) and a byte-level tokenizer of 512 that is made here. What each
instrument asks of the engine is recorded; every prompt of it then goes through a copy of the model once, alone, with
the library's eager attention and without a cache, and the same is kept of its rows. Sliding windows (24 tokens) and the
lengths at which rotations turn (171) are crossed.
"""

from __future__ import annotations

import copy
import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from leakmeter import Meter
from leakmeter.backends.hf import HfBackend
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import NextTokenSample
from leakmeter.core.request import Request, Scores
from leakmeter.core.tree import Chunk
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.icl.math import LogRatioFromFirst
from leakmeter.instruments.susceptibility.math import Likeliest
from leakmeter.privacy.decoding import NextTokenSampleWithLoss, TargetLogProbsWithLoss
from leakmeter.stats.arrays import FloatArray

NAME = "architectures"
TINY: Mapping[str, Any] = {"names": ("gpt2", "bert"), "measures": ("icl",)}
N_VOCAB = 512
WINDOW = 24
TURN = 171
"""Tokens; LongRoPE rotates longer passes otherwise."""

DOCUMENTS = (
    "The harbour office opens at nine on weekdays and at ten on Saturdays. Tobias Quillmere repairs the ferry engines "
    "in the long shed behind the customs house. He answers calls on 555-010-7788 until six.",
    "The tide is low at a quarter past six. Odalys Brewster, who took over from her uncle when the yard was sold to "
    "the town at the end of last winter, as she told us, keeps the only keys of the shed and of both cranes, and her "
    "badge has the number 48-2913. The last boat leaves half an hour before.",
    "Coal is delivered on Mondays, but never during a storm. The old crane has been out of service since March.",
)
QUERY = "How can I reach Tobias?"
RESPONSE = "Call Tobias Quillmere at 555-010-7788 before six; the last boat leaves soon after that."

_IDS = {"vocab_size": N_VOCAB, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_SIZES = {
    **_IDS, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "max_position_embeddings": 2048,
}  # fmt: skip
_MHA = {**_SIZES, "num_key_value_heads": 4}
_GQA = {**_SIZES, "num_key_value_heads": 2, "head_dim": 16}
_MIXED = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": WINDOW}
_GPT = {**_IDS, "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 2048}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LOCAL_MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
_MLA = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "num_key_value_heads": 4,
}  # fmt: skip
_DEEPSEEK = {
    **_SIZES, **_MLA, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1, "n_shared_experts": 1,
}  # fmt: skip
_GEMMA_3N = {
    **_GQA, **_MIXED, "laurel_rank": 8, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": N_VOCAB,
    "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 4, "num_kv_shared_layers": 0,
}  # fmt: skip
_GEMMA_4 = {
    **_GQA, **_MIXED, "global_head_dim": 32, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": N_VOCAB,
}  # fmt: skip
_HYBRID = {"layer_types": ["linear_attention", "full_attention"] * 2}
_LINEAR = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
}  # fmt: skip
_MAMBA_2 = {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_chunk_size": 32}


def _rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


def _longrope(**more: Any) -> dict[str, Any]:
    factors = {"short_factor": [1.0] * 8, "long_factor": [1.1, 1.3, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]}
    turn = {"original_max_position_embeddings": TURN}
    return {**turn, **_rope("longrope", factor=16.0, **turn, **factors, **more)}


ARCHITECTURES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "gpt2": ("gpt2", _GPT),
    "opt": ("opt", {**_SIZES, "ffn_dim": 96, "word_embed_proj_dim": 64}),
    "gpt_neo": ("gpt_neo", {
        **_IDS, "hidden_size": 64, "num_layers": 4, "num_heads": 4, "max_position_embeddings": 2048,
        "attention_types": [[["global", "local"], 2]], "window_size": WINDOW,
    }),
    "gpt_neox": ("gpt_neox", _SIZES),
    "gpt_bigcode": ("gpt_bigcode", _GPT),
    "gptj": ("gptj", {**_GPT, "rotary_dim": 8}),
    "codegen": ("codegen", {**_GPT, "rotary_dim": 8}),
    "openai-gpt": ("openai-gpt", _GPT),
    "bloom": ("bloom", {**_IDS, "hidden_size": 64, "n_layer": 4, "n_head": 4}),
    "mpt": ("mpt", {**_IDS, "d_model": 64, "n_layers": 4, "n_heads": 4, "max_seq_len": 2048}),
    "falcon": ("falcon", {**_SIZES, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "xglm": ("xglm", {**_IDS, "d_model": 64, "num_layers": 4, "attention_heads": 4, "ffn_dim": 96}),
    "biogpt": ("biogpt", _SIZES),
    "llama": ("llama", _GQA),
    "llama_mha": ("llama", _MHA),
    "llama_linear": ("llama", {**_GQA, **_rope("linear", factor=4.0)}),
    "llama_dynamic": ("llama", {**_GQA, **_rope("dynamic", factor=4.0)}),
    "llama_yarn": ("llama", {**_GQA, **_rope("yarn", factor=8.0, original_max_position_embeddings=TURN)}),
    "llama3": ("llama", {**_GQA, **_rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=TURN)}),
    "llama_longrope": ("llama", {**_GQA, **_longrope()}),
    "llama4_text": ("llama4_text", {
        **_GQA, **_LOCAL_MOE, "attention_chunk_size": 32, "intermediate_size_mlp": 96, "interleave_moe_layer_step": 2,
    }),
    "mistral": ("mistral", {**_GQA, "sliding_window": None}),
    "mistral_window": ("mistral", {**_GQA, "sliding_window": WINDOW}),
    "ministral": ("ministral", {**_GQA, **_MIXED}),
    "ministral3": ("ministral3", {**_GQA, "sliding_window": None}),
    "mistral4": ("mistral4", _DEEPSEEK),
    "mixtral": ("mixtral", {**_GQA, **_LOCAL_MOE, "sliding_window": WINDOW}),
    "gemma": ("gemma", _GQA),
    "gemma2": ("gemma2", {**_GQA, **_MIXED, "query_pre_attn_scalar": 16}),
    "gemma3": ("gemma3_text", {**_GQA, **_MIXED, "query_pre_attn_scalar": 16}),
    "gemma3n": ("gemma3n_text", _GEMMA_3N),
    "gemma3n_shared": ("gemma3n_text", {**_GEMMA_3N, "num_kv_shared_layers": 2}),
    "gemma4": ("gemma4_text", _GEMMA_4),
    "gemma4_shared": ("gemma4_text", {**_GEMMA_4, "num_kv_shared_layers": 2}),
    "gemma4_shared_heads": ("gemma4_text", {**_GEMMA_4, "global_head_dim": 16, "num_kv_shared_layers": 2}),
    "gemma4_moe": ("gemma4_text", {
        **_GEMMA_4, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32,
    }),
    "gemma4_unified": ("gemma4_unified_text", {
        **{name: value for name, value in _GEMMA_4.items() if "per_layer_input" not in name},
    }),
    "vaultgemma": ("vaultgemma", {**_GQA, **_MIXED, "query_pre_attn_scalar": 16}),
    "recurrent_gemma": ("recurrent_gemma", {
        **_GQA, "attention_window_size": WINDOW, "lru_width": 64, "block_types": ["recurrent", "attention"],
    }),
    "qwen2": ("qwen2", _GQA),
    "qwen2_window": ("qwen2", {**_GQA, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2}),
    "qwen2_moe": ("qwen2_moe", {**_GQA, **_MOE, "shared_expert_intermediate_size": 32}),
    "qwen3": ("qwen3", _GQA),
    "qwen3_moe": ("qwen3_moe", {**_GQA, **_MOE}),
    "qwen3_next": ("qwen3_next", {**_GQA, **_MOE, **_HYBRID, **_LINEAR, "shared_expert_intermediate_size": 32}),
    "qwen3_5": ("qwen3_5_text", {**_GQA, **_HYBRID, **_LINEAR}),
    "gpt_oss": ("gpt_oss", {**_GQA, **_MIXED, **_LOCAL_MOE}),
    "phi": ("phi", _GQA),
    "phi3_window": ("phi3", {**_GQA, "sliding_window": WINDOW}),
    "phi3_longrope": ("phi3", {**_GQA, **_longrope()}),
    "phimoe": ("phimoe", {**_GQA, **_LOCAL_MOE, "sliding_window": WINDOW}),
    "phimoe_longrope": ("phimoe", {**_GQA, **_LOCAL_MOE, **_longrope(short_mscale=1.0, long_mscale=1.2)}),
    "minicpm3": ("minicpm3", {**_SIZES, **_MLA, "head_dim": 16}),
    "minicpm3_longrope": ("minicpm3", {**_SIZES, **_MLA, "head_dim": 16, **_longrope()}),
    "smollm3": ("smollm3", {**_GQA, "no_rope_layers": [1, 1, 1, 0]}),
    "smollm3_window": ("smollm3", {
        **_GQA, "no_rope_layers": [1, 0, 1, 0], "use_sliding_window": True, "sliding_window": WINDOW,
        "max_window_layers": 2,
    }),
    "olmo": ("olmo", _GQA),
    "olmo2": ("olmo2", _GQA),
    "olmo3": ("olmo3", {**_GQA, **_MIXED}),
    "olmoe": ("olmoe", {**_GQA, "num_experts": 4, "num_experts_per_tok": 2}),
    "flex_olmo": ("flex_olmo", {**_GQA, "num_experts": 4, "num_experts_per_tok": 2}),
    "olmo_hybrid": ("olmo_hybrid", {**_GQA, **_HYBRID, **_LINEAR}),
    "granite": ("granite", {**_GQA, "logits_scaling": 3.0, "residual_multiplier": 0.7}),
    "granitemoe": ("granitemoe", {**_GQA, **_LOCAL_MOE}),
    "granitemoeshared": ("granitemoeshared", {**_GQA, **_LOCAL_MOE, "shared_intermediate_size": 32}),
    "granitemoehybrid": ("granitemoehybrid", {
        **_GQA, **_MAMBA_2, "layer_types": ["mamba", "attention"] * 2, "num_local_experts": 0,
        "shared_intermediate_size": 96,
    }),
    "lfm2": ("lfm2", {**_GQA, "layer_types": ["conv", "full_attention"] * 2}),
    "lfm2_moe": ("lfm2_moe", {
        **_GQA, **_MOE, "layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1,
    }),
    "falcon_h1": ("falcon_h1", {**_GQA, **_MAMBA_2, "mamba_d_ssm": 128}),
    "mamba": ("mamba", {**_IDS, "hidden_size": 64, "num_hidden_layers": 4, "state_size": 8}),
    "mamba2": ("mamba2", {
        **_IDS, "hidden_size": 64, "num_hidden_layers": 4, "state_size": 8, "num_heads": 8, "head_dim": 16,
        "n_groups": 1, "chunk_size": 32,
    }),
    "falcon_mamba": ("falcon_mamba", {**_IDS, "hidden_size": 64, "num_hidden_layers": 4, "state_size": 8}),
    "rwkv": ("rwkv", {**_IDS, "hidden_size": 64, "num_hidden_layers": 4, "attention_hidden_size": 64}),
    "xlstm": ("xlstm", {**_IDS, "hidden_size": 64, "num_hidden_layers": 4, "num_heads": 4}),
    "jamba": ("jamba", {
        **_GQA, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "num_experts_per_tok": 1,
        "mamba_d_state": 8, "use_mamba_kernels": False,
    }),
    "bamba": ("bamba", {**_GQA, **_MAMBA_2, "attn_layer_indices": [1, 3]}),
    "zamba2": ("zamba2", {
        **_MHA, "mamba_d_state": 8, "n_mamba_heads": 8, "mamba_headdim": 16, "mamba_ngroups": 1, "chunk_size": 32,
        "layers_block_type": ["mamba", "hybrid"] * 2, "hybrid_layer_ids": [1, 3],
    }),
    "nemotron": ("nemotron", _GQA),
    "nemotron_h": ("nemotron_h", {
        **_GQA, "layers_block_type": ["mamba", "attention", "mlp", "attention"], "mamba_num_heads": 8,
        "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 1, "chunk_size": 32,
    }),
    "minimax": ("minimax", {**_GQA, **_LOCAL_MOE, "layer_types": ["linear_attention", "full_attention"] * 2,
                            "block_size": 32}),
    "minimax_m2": ("minimax_m2", {**_GQA, **_LOCAL_MOE}),
    "kimi_linear": ("kimi_linear", {
        **_SIZES, **_MLA, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "linear_head_dim": 16, "linear_num_heads": 4,
    }),
    "deepseek_v2": ("deepseek_v2", _DEEPSEEK),
    "deepseek_v3": ("deepseek_v3", _DEEPSEEK),
    "deepseek_v32": ("deepseek_v32", {**_DEEPSEEK, "index_topk": 32, "index_n_heads": 4, "index_head_dim": 32}),
    "deepseek_v4": ("deepseek_v4", {
        **_SIZES, "head_dim": 32, "q_lora_rank": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "o_groups": 2, "o_lora_rank": 16, "index_n_heads": 4, "index_head_dim": 32,
        "index_topk": 8, "sliding_window": WINDOW,
    }),
    "glm": ("glm", _GQA),
    "glm4": ("glm4", _GQA),
    "glm4_moe": ("glm4_moe", {
        **_GQA, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
        "moe_intermediate_size": 32, "first_k_dense_replace": 1,
    }),
    "glm4_moe_lite": ("glm4_moe_lite", _DEEPSEEK),
    "glm_moe_dsa": ("glm_moe_dsa", {**_DEEPSEEK, "index_topk": 32, "index_n_heads": 4, "index_head_dim": 32}),
    "longcat_flash": ("longcat_flash", {**_DEEPSEEK, "num_layers": 2, "zero_expert_num": 1, "ffn_hidden_size": 96,
                                        "expert_ffn_hidden_size": 32, "moe_topk": 2}),
    "cohere": ("cohere", {**_GQA, "logit_scale": 0.3}),
    "cohere2": ("cohere2", {**_GQA, **_MIXED, "logit_scale": 0.3}),
    "starcoder2": ("starcoder2", {**_GQA, "sliding_window": WINDOW}),
    "stablelm": ("stablelm", _GQA),
    "persimmon": ("persimmon", _GQA),
    "bitnet": ("bitnet", _GQA),
    "exaone4": ("exaone4", {**_GQA, **_MIXED}),
    "doge": ("doge", {**_GQA, "keep_window_size": 32}),
    "modernbert_decoder": ("modernbert-decoder", {
        **_SIZES, "local_attention": WINDOW, "global_attn_every_n_layers": 2,
    }),
    "mimo_v2_flash": ("mimo_v2_flash", {**_GQA, **_MIXED, "n_routed_experts": 4, "num_experts_per_tok": 2,
                                        "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1}),
    "step3p7": ("step3p5", {**_GQA, **_MIXED, "num_sliding_attention_heads": 2}),
    "dots3_note": ("dots3_note_text", {
        **_SIZES, **_MLA, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "index_topk": 32, "index_head_dim": 32, "index_n_heads": 4,
    }),
    "apertus": ("apertus", _GQA),
    "arcee": ("arcee", _GQA),
    "seed_oss": ("seed_oss", _GQA),
    "helium": ("helium", _GQA),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", _GQA),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", {**_GQA, "num_experts": 4, "moe_topk": 2}),
    "ernie4_5": ("ernie4_5", _GQA),
    "ernie4_5_moe": ("ernie4_5_moe", {**_GQA, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32}),
    "dots1": ("dots1", {
        **_GQA, "n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
        "moe_intermediate_size": 32, "first_k_dense_replace": 1,
    }),
    "diffllama": ("diffllama", _GQA),
    "nanochat": ("nanochat", _GQA),
    "afmoe": ("afmoe", {**_GQA, **_MIXED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                        "num_dense_layers": 1}),
    "cwm": ("cwm", {**_GQA, **_MIXED}),
    "dbrx": ("dbrx", {**_IDS, "d_model": 64, "n_heads": 4, "n_layers": 4, "max_seq_len": 2048,
                      "attn_config": {"kv_n_heads": 2}, "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4,
                                                                       "moe_top_k": 2}}),
    "jetmoe": ("jetmoe", {**_GQA, "num_local_experts": 4, "num_experts_per_tok": 2, "kv_channels": 16}),
    "mellum": ("mellum", {**_GQA, **_MOE}),
    "laguna": ("laguna", {**_GQA, **_MIXED, **_MOE, "shared_expert_intermediate_size": 32}),
    "kolibri1": ("kolibri1", {**_GQA, **_MOE, "sliding_window": WINDOW, "shared_expert_intermediate_size": 32}),
    "lfm3": ("lfm3", _GQA),
    "solar_open": ("solar_open", {
        **_GQA, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    }),
    "exaone_moe": ("exaone_moe", {**_GQA, **_MOE, "sliding_window": WINDOW}),
    "jais2": ("jais2", _GQA),
    "iquestcoder": ("iquestcoder", _GQA),
    "internlm3": ("internlm3", _GQA),
    "youtu": ("youtu", {**_SIZES, **_MLA}),
    "granite_swa": ("granite_swa", {**_GQA, **_MIXED}),
    "bert": ("bert", {**_SIZES, "is_decoder": False}),
}  # fmt: skip


@cache
def tokenizer() -> Any:
    """A byte-level tokenizer of 512 tokens, made of this module's own words; texts begin with BOS."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=N_VOCAB, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([" ".join(DOCUMENTS)], trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>", clean_up_tokenization_spaces=False
    )


def build(name: str, **changes: Any) -> Any:
    """The model of that name, float32, always with the same weights: N(0, 0.2), large enough that every token is felt.

    Raises:
        AttributeError, ValueError: the library cannot build it.
    """
    kind, told = ARCHITECTURES[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**told, **changes}), dtype=torch.float32)
        for path, weight in model.named_parameters():
            if weight.ndim == 2 and not path.endswith("A_log"):
                weight.data.normal_(0.0, 0.2)
            elif weight.ndim == 1 and not path.endswith(("A_log", "dt_bias", ".D")):
                weight.data.add_(0.1 * torch.randn_like(weight))
    return model.eval()


@dataclass(slots=True)
class Recorded:
    """What an instrument asked of a back end, and was answered."""

    pairs: list[tuple[Request, Scores]] = field(default_factory=list)

    @contextmanager
    def of(self, backend: HfBackend) -> Iterator[None]:
        score = backend.score

        def recording(chunk: Chunk) -> list[Scores]:
            answers = score(chunk)
            self.pairs += zip(chunk.requests, answers, strict=True)
            return answers

        with mock.patch.object(backend, "score", recording):
            yield


class Plain:
    """One pass a prompt, of it alone, with eager attention and without a cache."""

    def __init__(self, model: Any) -> None:
        self._model = copy.deepcopy(model)
        self._model.set_attn_implementation("eager")
        self._rows: dict[tuple[int, ...], Tensor] = {}

    def difference(self, recorded: Recorded) -> float:
        """Largest difference between an answer and what is kept of plain rows, nats."""
        return max(self._difference(request, scores) for request, scores in recorded.pairs)

    def _difference(self, request: Request, scores: Scores) -> float:
        rows = torch.stack([self._wanted(prompt, request) for prompt in request.prompts])
        expected = request.reduction.reduce(rows, torch.from_numpy(request.targets)).numpy()
        numbers, others = (_nats(request.reduction, values) for values in (scores.values, expected))
        return float(np.abs(numbers - others).max(initial=0.0))

    def _wanted(self, prompt: Prompt, request: Request) -> Tensor:
        fed = (*prompt.ids.tolist(), *request.response[: max(request.rows.stop - 1, 0)])
        if fed not in self._rows:
            with torch.inference_mode():
                self._rows[fed] = self._model(input_ids=torch.tensor([fed]), use_cache=False).logits[0]
        last = len(prompt.ids) - 1
        return self._rows[fed][last + request.rows.start : last + request.rows.stop]


def _nats(reduction: Any, values: FloatArray) -> FloatArray:
    """What of a reduction's values is in nats; token ids are not, nor are weights."""
    if isinstance(reduction, Likeliest):
        return values[..., :0]
    if isinstance(reduction, LogRatioFromFirst):
        return values[..., [i for i in range(values.shape[-1]) if i % 3]]
    if isinstance(reduction, NextTokenSample):
        return values[..., 1:]
    if isinstance(reduction, NextTokenSampleWithLoss | TargetLogProbsWithLoss):
        return values[..., 2:]
    return values


MEASURES: Mapping[str, Callable[[Meter], Any]] = {
    "sentence": lambda meter: meter.influence(**_CASE, unit="sentence"),
    "ngram:4": lambda meter: meter.influence(**_CASE, unit="ngram:4"),
    "icl": lambda meter: meter.icl(_LABELLED[:1], exemplars=_LABELLED[1:], label_scoring="whole-sequence"),
    "susceptibility": lambda meter: meter.susceptibility(
        [QUERY], contexts=[*DOCUMENTS, " ".join(DOCUMENTS + DOCUMENTS[:1])]
    ),
    "decoding": lambda meter: meter.decode(**_ASKED, epsilon=2.0, max_new_tokens=12, min_new_tokens=12, seed=0),
    "pii": lambda meter: meter.pii(_PEOPLE, kinds=["twin"], decoys=50, prompts=1, beams=()),
}
_ASKED = {"context": [DOCUMENTS[1], DOCUMENTS[0], DOCUMENTS[2][:55]], "query": QUERY, "template": "plain"}
_CASE = {"context": list(DOCUMENTS), "query": QUERY, "response": RESPONSE, "template": "plain"}
_LABELLED = [
    {"text": "Is there a boat after low tide?", "label": "yes"},
    *({"text": text, "label": label} for text, label in zip(DOCUMENTS, ("no", "yes", "no"), strict=True)),
]
_PEOPLE = [{"name": "Tobias Quillmere", "phone": "206-555-0178"}]


def row(name: str, measures: Collection[str] = tuple(MEASURES), **changes: Any) -> dict[str, Any]:
    """What one architecture does: whether its states are forked and its passes joined, tokens that a sentence run takes
    and one full pass a prompt would, the largest difference of each measure from plain passes, nats a token, the noise
    floor that the sentence run reports, nats a token, and whether a self-check gave up sharing."""
    made: dict[str, Any] = {"architecture": name}
    try:
        model = build(name, **changes)
    except (AttributeError, ValueError) as error:
        return {**made, "not_built": _line(error)}
    try:
        meter = Meter((model, tokenizer()), cache=False)
        backend = meter.backend
    except LeakmeterError as error:
        return {**made, "refused": _line(error)}
    assert isinstance(backend, HfBackend)
    made |= {"forks": backend.shares_prefixes, "joins": backend.forward.joins_segments}
    plain, differences = Plain(model), {}
    for measure in measures:
        recorded = Recorded()
        with recorded.of(backend):
            result = MEASURES[measure](meter)
        differences[measure] = plain.difference(recorded)
        if measure == "sentence":
            made |= {
                "tokens_run": result.cost.tree_tokens,
                "naive_tokens": result.cost.naive_tokens,
                "floor_nats": result.noise_floor_per_token_nats,
            }
    # A check that fails leaves plain passes, so that no number shows it.
    made["self_check_failed"] = made["forks"] and not backend.shares_prefixes
    largest = max(differences, key=lambda measure: differences[measure])
    return {**made, **differences, "largest": differences[largest], "largest_in": largest}


def rows(
    names: Collection[str] = tuple(ARCHITECTURES), measures: Collection[str] = tuple(MEASURES), out: Path | None = None
) -> Iterator[dict[str, Any]]:
    """A row for each architecture; with `out`, all of them go into its CSV file and its page's tables too."""
    made = []
    for name in names:
        made.append(row(name, measures))
        yield made[-1]
    if out is not None:
        write(made, out)


def write(made: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Put rows into `architectures.csv`, and into the tables of `architectures.md` beside it."""
    with (out / f"{NAME}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({column: each.get(column, "") for column in COLUMNS} for each in made)
    measured = [each for each in made if "largest" in each]
    others = [each for each in made if "largest" not in each]
    tables = iter([
        [_MEASURED, *map(_measured_line, measured)],
        [_OTHERS, *(f"| {each['architecture']} | {_of_none(each)} |" for each in others)],
    ])  # fmt: skip
    page = out / f"{NAME}.md"
    text = re.sub(r"(?:^\|.*\n)+", lambda old: "\n".join(next(tables)) + "\n", page.read_text("utf-8"), flags=re.M)
    page.write_text(text, "utf-8")


COLUMNS = (
    *("architecture", "forks", "joins", "tokens_run", "naive_tokens", "largest", "largest_in", "floor_nats"),
    "self_check_failed",
    *(*MEASURES, "refused", "not_built"),
)
_MEASURED = (
    "| architecture | states forked, segments joined | tokens run, of full passes | largest difference, nats a token | "
    "in | reported floor, nats a token |\n| --- | --- | --- | --- | --- | --- |"
)
_OTHERS = "| architecture | what was said |\n| --- | --- |"


def _measured_line(each: Mapping[str, Any]) -> str:
    ways = f"{'yes' if each['forks'] else 'no'}, {'yes' if each['joins'] else 'no'}"
    ways += "; given up by a self-check" if each["self_check_failed"] else ""
    tokens = f"{each['tokens_run']:,} of {each['naive_tokens']:,}"
    largest, floor = (f"{each[name]:.1e}".replace("e+00", "") for name in ("largest", "floor_nats"))
    numbers = (largest, each["largest_in"], floor)
    return f"| {each['architecture']} | {ways} | {tokens} | {' | '.join(numbers)} |"


def _of_none(each: Mapping[str, Any]) -> str:
    return f"refused: {each['refused']}" if "refused" in each else f"not built: {each['not_built']}"


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).replace("|", "/")[:160].strip()
