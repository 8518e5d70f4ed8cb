"""The fast way to log-probabilities, which measurements take, against a slow one that shares nothing with it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from leakmeter.checkup.installation.result import InstallationParity
from leakmeter.checkup.probes import probes_of
from leakmeter.checkup.subject import Subject

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend
    from leakmeter.backends.toy import Toy
    from leakmeter.core.backend import Backend

_N_PROMPTS: Final = 3
"""The full prompt and two with a piece removed: a tree with branches, in a second or two."""
TOY_NATS: Final = 1e-9
MODEL_NATS: Final = 1e-3
"""The largest difference that passes, of a model in float32; 5.4e-5 was the largest in the tests of the engine."""

Slow = Callable[[Sequence[int], Sequence[int]], Sequence[float]]
"""Log-probabilities of a response (second) behind a prompt (first), nats."""


def toy_parity(toy: Toy) -> InstallationParity:
    """The toy: the engine's way against sums in Python's own numbers, token by token.

    Args:
        toy: the model.
    """

    def slow(prompt: Sequence[int], response: Sequence[int]) -> list[float]:
        ids = np.asarray([*prompt, *response])
        found = []
        for n, token in enumerate(response):
            end = len(prompt) + n
            logits = toy.logits(ids[:end], np.arange(end)).tolist()
            top = max(logits)
            found.append(logits[token] - top - math.log(math.fsum(math.exp(logit - top) for logit in logits)))
        return found

    return _parity(toy, slow, TOY_NATS)


def model_parity(backend: HfBackend) -> InstallationParity:
    """A model of transformers in float32: the engine's way against one plain pass a prompt.

    Args:
        backend: the model, without a score cache.
    """
    from leakmeter.backends.hf.machine import one_thread
    from leakmeter.backends.hf.plain_pass import plain_log_probs

    def slow(prompt: Sequence[int], response: Sequence[int]) -> list[float]:
        return plain_log_probs(backend.model, prompt, response)

    with one_thread():
        return _parity(backend, slow, MODEL_NATS)


def _parity(backend: Backend, slow: Slow, bound_nats: float) -> InstallationParity:
    begun = time.perf_counter()
    case = probes_of(backend.tokenizer).case
    prompts = case.prompts[:_N_PROMPTS]
    fast = Subject.of(backend).together(prompts, case.response)
    expected = np.asarray([slow(prompt, case.response) for prompt in prompts])
    gap = np.abs(fast - expected)
    return InstallationParity(
        model=backend.name,
        n_tokens=gap.size,
        # NaN is no agreement, and would be smaller than no bound.
        max_token_nats=float(np.where(np.isnan(gap), np.inf, gap).max()),
        bound_nats=bound_nats,
        seconds=time.perf_counter() - begun,
    )
