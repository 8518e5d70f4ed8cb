"""Models whose numbers depend on how long a pass is: LongRoPE rotates all of a pass by other factors where it is longer
than the texts of the pretraining.

The right numbers of a sequence are those of one pass of it alone. So sequences on different sides of that length share
neither a pass nor key/value states (`Run.side`), and of what is passed in parts the first one reaches its side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

SideOf = Callable[[int], int]
"""Position of a sequence's last token to the side that it is on."""

_FIRST: Final = 2
"""Tokens that are compared; one more stands behind them, at any distance."""
_AGREEMENT: Final = 0.05
"""Of the largest logit. Rotations are compared digit by digit; this is for whatever else may depend on the length."""


def side_of(model: Any, takes_positions: bool) -> SideOf | None:
    """How lengths are told apart; None where numbers do not depend on them. Where no length that the configuration
    names explains the difference, or nothing can be tried, sequences share only with those as long."""
    config = model.config.get_text_config()
    if not takes_positions:
        return (lambda last: last) if any(True for _ in _original_lengths(config)) else None
    furthest = (getattr(config, "max_position_embeddings", None) or 2**20) - 1
    if furthest <= _FIRST:
        return None
    near, far = _first_tokens(model, _FIRST), _first_tokens(model, furthest)
    if _alike(near, far):
        return None
    for length in sorted(set(_original_lengths(config))):
        if not _FIRST < length <= furthest:
            continue
        if _alike(near, _first_tokens(model, length - 1)) and _alike(far, _first_tokens(model, length)):
            return partial(_is_beyond, length)
    return lambda last: last


def _is_beyond(length: int, last: int) -> int:
    return int(last >= length)


def end_on_side(side_of: SideOf, positions: Any, first: int, side: int) -> int:
    """The least number of leading tokens, at least `first`, after which a sequence that ends on a side is on it."""
    return next(n for n in range(first, len(positions) + 1) if side_of(int(positions[n - 1])) == side)


def _first_tokens(model: Any, position: int) -> list[Tensor]:
    """What the first tokens of a sequence get whose last token is at a position: logits, then rotations."""
    n_vocab = model.config.get_text_config().vocab_size
    ids = torch.arange(3, 4 + _FIRST, device=model.device)[None] * 7919 % n_vocab
    positions = torch.tensor([[*range(_FIRST), position]], device=model.device)
    rotations: list[Tensor] = []

    def keep(module: Any, args: Any, out: Any) -> None:
        tensors = [out] if isinstance(out, Tensor) else out
        rotations.extend(t[..., :_FIRST, :].clone() for t in tensors if t.ndim > 1 and t.shape[-2] == _FIRST + 1)

    with ExitStack() as hooks:
        for module in model.modules():
            if any("inv_freq" in name for name, _ in module.named_buffers(recurse=False)):
                hooks.enter_context(module.register_forward_hook(keep))
        logits = model(input_ids=ids, position_ids=positions, use_cache=False).logits
    return [logits[0, :_FIRST].float(), *rotations]


def _alike(some: list[Tensor], others: list[Tensor]) -> bool:
    moved = (some[0] - others[0]).abs().max()
    rotations = zip(some[1:], others[1:], strict=True)
    return bool(moved <= _AGREEMENT * some[0].abs().max()) and all(torch.equal(a, b) for a, b in rotations)


def _original_lengths(config: Any) -> Iterator[int]:
    """Lengths of the pretraining's texts that a configuration names, for all its layers or for a kind of them."""
    rotation = getattr(config, "rope_parameters", None) or {}
    places = [place for place in (rotation, *rotation.values()) if isinstance(place, Mapping)]
    named = [place.get("original_max_position_embeddings") for place in places]
    named.append(getattr(config, "original_max_position_embeddings", None))
    yield from (length for length in named if isinstance(length, int))
