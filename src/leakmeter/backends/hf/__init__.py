"""Causal language models of the transformers library, on CPU or CUDA.

load        names and directories to a model in memory
backend     a chunk to scores: order, states that last, what to do when memory runs out
schedule    which branches go through the model when, and which together
states      key/value states: forked, laid side by side, extended in place, kept for the next round
forward     one pass over segments, hidden states to logits, and what a model allows
attention   our own attention function, for CPUs
reduce      logits to scores, a slice at a time
gradients   requests for gradients to their numbers
places      whose vectors vary or are replaced, and the model made ready to differentiate
reuse       features kept from run to run
machine     what of it decides numbers, and how much memory is taken by default
tokenizer   text to ids with offsets
processors  context influence decoding inside `model.generate`
generate_settings  what else `generate` would do to the logits
"""

from leakmeter.models import progress_bars

progress_bars.import_quietly()

from leakmeter.backends.hf.backend import HfBackend  # noqa: E402

__all__ = ["HfBackend"]
