"""Passes of a model that round otherwise: what 16 bits a number leave open of its logits.

Two orders of computation may round alike by chance, as where each product of matrices is made of the same sums, while a
third, such as another attention kernel, moves the logits by tenths of a nat. So one pass adds up to half a unit in the
last place, at random, to what each layer with weights gives: random rounding, as CESTAC does it (Vignes 1974, La Porte
and Vignes). Logits then moved by 0.9 to 1.5 times their distance from a float32 pass of the same weights, and by 0.9 to
4 times what separates the library's two attentions (13 architectures with random weights, bfloat16, CPU).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


@contextmanager
def rounding_at_random(model: Any, seed: int) -> Iterator[list[int]]:
    """Meanwhile what layers with weights give is rounded at random; the list has the number of outputs so far. The
    random numbers of the program stay what they were."""
    n_rounded = [0]
    generators: dict[torch.device, torch.Generator] = {}

    def rounded(module: Any, args: Any, out: Any) -> Any:
        if not isinstance(out, Tensor) or not out.is_floating_point():
            return None
        n_rounded[0] += 1
        generator = generators.get(out.device)
        if generator is None:
            generator = generators[out.device] = torch.Generator(out.device).manual_seed(seed)
        shares = torch.rand(out.shape, generator=generator, device=out.device) - 0.5
        return (out.float() * (1.0 + torch.finfo(out.dtype).eps * shares)).to(out.dtype)

    hooks = [module.register_forward_hook(rounded) for module in model.modules() if _has_weights(module)]
    try:
        yield n_rounded
    finally:
        for hook in hooks:
            hook.remove()


def _has_weights(module: torch.nn.Module) -> bool:
    """Whether it multiplies what it is given by a matrix; embeddings, which look vectors up, round nothing."""
    if isinstance(module, torch.nn.Embedding) or any(True for _ in module.children()):
        return False
    # Packed weights are buffers.
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    return any(tensor.ndim > 1 for tensor in own)
