"""What a sequence's last token does to the first ones: nothing, in a causal language model, unless its position decides
how all of a pass is rotated (LongRoPE has other factors for what is longer than the texts of the pretraining).

The right numbers of a sequence are those of one pass of it alone. So sequences on different sides of that length share
neither a pass nor key/value states (`Branch.side`), and of what is passed in parts the first one reaches its side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

SideOf = Callable[[int], int]
"""Position of a sequence's last token to the side that it is on."""

_FIRST: Final = 7
"""Tokens that are compared; one more stands behind them, at any distance."""
_AGREEMENT: Final = 1e-3
_ROUNDED_AGREEMENT: Final = 0.05
"""Of what the last token's logits move: in float32, and where numbers are rounded more."""


@dataclass(frozen=True, slots=True)
class ShortPass:
    """A few tokens of a sequence."""

    ids: Tensor
    """(1, token)."""
    logits: Tensor
    """(token, vocab)."""
    rotations: Sequence[Tensor]
    """What rotates the tokens before the last one, of every kind of layer."""
    is_rounded: bool
    """Whether the model computes with fewer digits than float32 has."""

    def is_moved(self, other: ShortPass) -> bool:
        """Whether another last token moves the tokens before it. Rotations are compared digit by digit."""
        moved = (self.logits.float() - other.logits.float()).abs().amax(dim=-1)  # (token,)
        tolerance = (_ROUNDED_AGREEMENT if self.is_rounded else _AGREEMENT) * moved[-1]
        alike = all(torch.equal(a, b) for a, b in zip(self.rotations, other.rotations, strict=True))
        return bool(moved[:-1].max() > tolerance) or not alike


def few_tokens(
    model: Any, logits_of: Callable[..., Tensor], *, position: int | None = None, is_other: bool = False
) -> ShortPass:
    """A pass of a few tokens, whose last one may be another, and may stand at another position."""
    n_vocab = model.config.get_text_config().vocab_size
    ids = torch.arange(3, 4 + _FIRST, device=model.device)[None] * 7919 % n_vocab
    ids[0, -1] = (ids[0, -1] + is_other) % n_vocab
    inputs = {"input_ids": ids}
    if position is not None:
        inputs["position_ids"] = torch.tensor([[*range(_FIRST), position]], device=model.device)
    rotations: list[Tensor] = []

    def keep(module: Any, args: Any, out: Any) -> None:
        tensors = [out] if isinstance(out, Tensor) else out
        rotations.extend(t[..., :_FIRST, :].clone() for t in tensors if t.ndim > 1 and t.shape[-2] == _FIRST + 1)

    with ExitStack() as hooks:
        for module in model.modules():
            if any("inv_freq" in name for name, _ in module.named_buffers(recurse=False)):
                hooks.enter_context(module.register_forward_hook(keep))
        logits = logits_of(**inputs, use_cache=False)[0]
        return ShortPass(ids, logits, rotations, is_rounded=model.dtype != torch.float32)


def furthest_position(config: Any) -> int:
    """The position of the last token of the longest sequence that a model takes."""
    return max(_FIRST, (getattr(config, "max_position_embeddings", None) or 2**20) - 1)


def side_of(config: Any, near: ShortPass, at: Callable[[int], ShortPass] | None) -> SideOf | None:
    """How lengths are told apart; None where numbers do not depend on them. `at` makes the pass `near` with the last
    token, another one, at a position; None where that cannot be done. Where no length that the configuration names
    explains the difference, or nothing can be tried, sequences share only with those as long."""
    lengths = sorted(original_lengths(config))
    if at is None:
        return (lambda last: last) if lengths else None
    furthest = furthest_position(config)
    far = at(furthest)
    if not near.is_moved(far):
        return None
    for length in lengths:
        if _FIRST < length <= furthest and not near.is_moved(at(length - 1)) and _is_as(far, at(length)):
            return TwoSides(length)
    return lambda last: last


def end_on_side(side_of: SideOf, positions: Any, first: int, side: int) -> int:
    """The least number of leading tokens, at least `first`, after which a sequence that ends on a side is on it."""
    return next(n for n in range(first, len(positions) + 1) if side_of(int(positions[n - 1])) == side)


@dataclass(frozen=True, slots=True)
class TwoSides:
    """Two sides: texts of at most so many tokens, and longer ones."""

    length: int

    def __call__(self, last: int) -> int:
        """The side of a text whose last token is at that position, from 0."""
        return int(last >= self.length)


def _is_as(some: ShortPass, other: ShortPass) -> bool:
    """Whether the last tokens of two passes, at different positions, do the same to those before."""
    gap = (some.logits[:-1].float() - other.logits[:-1].float()).abs().max()
    alike = all(torch.equal(a, b) for a, b in zip(some.rotations, other.rotations, strict=True))
    return alike and bool(gap <= _ROUNDED_AGREEMENT * some.logits.float().abs().max())


def original_lengths(config: Any) -> set[int]:
    """Lengths of the pretraining's texts that a configuration names, for all its layers or for a kind of them."""
    rotation = getattr(config, "rope_parameters", None) or {}
    places = [place for place in (rotation, *rotation.values()) if isinstance(place, Mapping)]
    named = [place.get("original_max_position_embeddings") for place in places]
    named.append(getattr(config, "original_max_position_embeddings", None))
    return {length for length in named if isinstance(length, int)}
