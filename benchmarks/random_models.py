"""Models of known shape with random weights: speed needs no download."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from benchmarks.random_ids import N_VOCAB
from leakmeter.backends.hf import HfBackend

_END = "</s>"
_CHAT = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
_CONFIGS = {
    "llama-8b": {
        "vocab_size": 128_256,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
    },
    "llama-1b": {
        "vocab_size": 128_256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
    },
    # To compare numbers with. Weights are large enough that every token is felt.
    "llama-tiny": {
        "vocab_size": 30_000,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "initializer_range": 0.35,
    },
}


def random_backend(name: str, device: str, dtype: str) -> HfBackend:
    """A back end over a model with random weights, seed 0."""
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(LlamaConfig(**_CONFIGS[name]), dtype=getattr(torch, dtype))
    return HfBackend(model, _spelling(), name=f"random:{name}")


def _spelling() -> PreTrainedTokenizerFast:
    """A tokenizer that spells every text in bytes; further ids are words that no text has."""
    words = [_END, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words += [f"<{number}>" for number in range(len(words), N_VOCAB)]
    tokenizer = Tokenizer(BPE({word: number for number, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=_END,
        pad_token=_END,
        chat_template=_CHAT,
        clean_up_tokenization_spaces=False,
    )
