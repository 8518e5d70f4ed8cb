"""A small llama with random weights, a tokenizer of bytes that begins texts with BOS, and values of invented people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from leakmeter.instruments.pii.tuning.vectors import (
    IdSequence,
    SoftPrompt,
    batches,
    check_examples,
    lead_of,
    value_logits,
)

_SPECIAL = ("<pad>", "<s>", "</s>")
N_VOCAB = len(_SPECIAL) + 256
BOS = 1


def fresh_llama(**changes: Any) -> Any:
    """A llama that the caller may change; always with the same random weights, large enough to be felt."""
    told = {
        "vocab_size": N_VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 128, "initializer_range": 0.2,
        "bos_token_id": BOS, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": True,
    }  # fmt: skip
    config = transformers.LlamaConfig(**{**told, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return transformers.LlamaForCausalLM(config).eval()


@cache
def byte_tokenizer() -> Any:
    """A token for each byte; texts begin with BOS."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*_SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def ids_of(text: str) -> tuple[int, ...]:
    """Token ids of a text, without BOS."""
    return tuple(byte_tokenizer()(text, add_special_tokens=False)["input_ids"])


_SAID = {"Ida": " 0417", "Bo": " 3382", "Ulrich": " 90", "Mai": " 5561", "Tove": " 728"}
EXAMPLES = [(ids_of(f"{name}'s number is"), ids_of(value)) for name, value in _SAID.items()]
"""Of five people, of different lengths."""


@torch.no_grad()
def log_likelihoods(
    model: Any, soft: SoftPrompt, prompts: Sequence[IdSequence], values: Sequence[IdSequence]
) -> list[np.ndarray]:
    """log p of each token of each value behind the vectors and its prompt, in batches, as the tuning sees them."""
    examples = list(zip(prompts, values, strict=True))
    check_examples(model, examples, soft.length, soft.start_ids)
    lead = lead_of(model, soft.vectors, soft.start_ids)
    found: dict[int, np.ndarray] = {}
    for some in batches([len(lead) + sum(map(len, example)) for example in examples]):
        logits, ids = value_logits(model, lead, [examples[i] for i in some])
        told = logits.log_softmax(dim=-1).gather(1, ids[:, None])[:, 0].double().numpy()
        found |= zip(some, np.split(told, np.cumsum([len(examples[i][1]) for i in some])[:-1]), strict=True)
    return [found[i] for i in range(len(examples))]


@torch.no_grad()
def greedy(model: Any, soft: SoftPrompt, prompt: IdSequence, n_new: int) -> tuple[int, ...]:
    """The likeliest tokens behind the vectors and a prompt, each by a pass of its own."""
    ids = torch.tensor([*prompt], dtype=torch.int64)
    for _ in range(n_new):
        rows = torch.cat([lead_of(model, soft.vectors, soft.start_ids), model.get_input_embeddings()(ids)])
        best = model(inputs_embeds=rows[None], use_cache=False).logits[0, -1].argmax()
        ids = torch.cat([ids, best[None]])
    return tuple(ids[len(prompt) :].tolist())
