"""`memory` bounds what the engine holds: peaks of resident memory in this process, at a small and at a large budget.

`tests/commands/test_memory.py` has the same of every instrument, in processes of their own.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from helpers.memory_meter import forget_peak, resident
from helpers.naive import random_prompt
from helpers.tiny_models import backend_of
from leakmeter.core.plan import plan
from leakmeter.core.reductions import MixtureLogProbs
from leakmeter.core.request import Request

MIB = 2**20
BESIDE = 24 * MIB
"""Holes between tensors, and what is loaded when it is first needed."""
N_VOCAB = 16_384

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks cannot be forgotten"),
]


def test_a_chunk_of_much_work_keeps_its_budget() -> None:
    """Rows of a wide vocabulary, and wide states: where there is room, the same work takes more."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        heads = {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True}
        sizes = {"vocab_size": N_VOCAB, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
        model = LlamaForCausalLM(LlamaConfig(**sizes, **heads))
    rng = np.random.default_rng(0)
    response = tuple(rng.integers(0, N_VOCAB, size=30).tolist())
    prompt = random_prompt(rng, N_VOCAB, (30,) * 12)
    prompts = (prompt.blank(), prompt, *(prompt.without(name) for name in prompt.names()))
    chunk = plan([Request(prompts, response, MixtureLogProbs(1.5, 1.0))])
    found = {}
    for budget in (8, 256):
        backend = backend_of(model, memory_bytes=budget * MIB)
        gc.collect()
        forget_peak()
        before = resident("VmRSS")
        (scores,) = backend.score(chunk)
        found[budget] = (resident("VmHWM") - before, scores.values)
    assert found[8][0] <= 8 * MIB + BESIDE < found[256][0] <= 256 * MIB + BESIDE
    np.testing.assert_allclose(found[8][1], found[256][1], rtol=0, atol=1e-4)
