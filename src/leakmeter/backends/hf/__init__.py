"""Causal language models of the transformers library, on CPU or CUDA.

load       names and directories to a model in memory
backend    runs of a chunk to rows, rows to scores
states     key/value states: kept, sliced, padded into batches
head       hidden states to logits, on wanted rows alone
tokenizer  text to ids with offsets
"""

from leakmeter.backends.hf.backend import HfBackend

__all__ = ["HfBackend"]
