"""One forward pass over the rows of a few segments, and the probes that say which way of passing a model allows.

Between the last hidden state and the logits, architectures differ: most apply a linear head, some scale or cap what
comes out. The rule is found from the configuration and then checked against the model's own logits; a model that
does not follow it is asked for its logits instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf import attention
from leakmeter.backends.hf.attention import attention_mask, windows_by_kind
from leakmeter.backends.hf.layers import longest_span
from leakmeter.backends.hf.lengths import ShortPass, SideOf, few_tokens, furthest_position, side_of
from leakmeter.backends.hf.pasts import RECURRENT
from leakmeter.backends.hf.places import entering_layer
from leakmeter.backends.hf.plain_pass import plain_inputs
from leakmeter.backends.hf.shared_start import partial_attention
from leakmeter.backends.hf.states import SPARE_COLUMNS, PassSegment, SequenceState, Start, longest_start
from leakmeter.core.tree import Branch
from leakmeter.errors import ModelError
from leakmeter.stats.arrays import IntArray

_SPAN_PROBED = 512  # tokens; a model with a longer window or block is trusted to follow its configuration
_FAR_PROBED = 160  # tokens, where nothing says after how many attention is another
_CACHE = "past_key_values"
_AGREEMENT = 1e-3  # of the largest logit: far above float32 noise, far below any wrong mask or position
_PROBED_FORKS = (7, 11)  # tokens before the last one of what is probed
_FAILURES = (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)


class Forward:
    """Tokens to features: last hidden states, or logits where the model's head follows no known rule. The model is as
    before after every use."""

    def __init__(self, model: Any) -> None:
        self.model = model
        config = model.config.get_text_config()
        self._config = config
        self.n_vocab: int = config.vocab_size
        self.n_layers: int = config.num_hidden_layers
        self.takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        self._windows = windows_by_kind(model)
        kinds = getattr(config, "layer_types", None) or ["full_attention"] * self.n_layers
        self._kinds: list[str] = list(kinds)
        self._n_states: int = getattr(config, "number_of_conv_states", 1)
        self._cache_name = "cache_params" if "cache_params" in inspect.signature(model.forward).parameters else _CACHE
        self.forks_anywhere = RECURRENT.isdisjoint(self._kinds)
        """Whether a sequence can be forked after each of its tokens, not only where a pass ended."""
        self.joins_segments = False
        self.one_scratch = True
        """Whether no layer attends to states of an earlier one, so that these may be overwritten."""
        self.bytes_per_token = 0
        """Memory of what layers keep of a sequence, for each of its tokens."""
        self.bytes_per_fork = 0
        """Memory of what they keep of it for each place after which it can be forked, if not anywhere."""
        with self.borrowed():
            near = few_tokens(model, self._all_logits)
            self.looks_ahead, self.side_of = self._of_last_token(near)
            self._head = head_of(model)
            self.has_head = follows_the_rule(model, self._head, near)
            # Other implementations do what scaled_dot_product_attention cannot: caps, sinks, kernels of their own.
            # A recurrence runs through all tokens of a row, so that segments in one row would go on from one another.
            ways = [True, False] if config._attn_implementation == "sdpa" and self.forks_anywhere else [False]
            # A model whose states cannot be forked gets plain full passes; so does a recurrent one with several
            # rotations, since parts of a sequence would have to be of its side.
            may_fork = self._windows is not None and (self.forks_anywhere or self.side_of is None)
            self.forks = may_fork and any(self._agrees(joined) for joined in ways)
            self.n_causal = None if self.looks_ahead or self.joins_segments else self._n_causal()
            """After how many tokens the first ones' logits change, where they do; None where they stay."""

    @contextmanager
    def borrowed(self, *, plain: bool = False) -> Iterator[None]:
        """The model in evaluation mode, without gradients, with our attention where it serves, unless it is to be
        `plain`; then as it was."""
        was_training = [module for module in self.model.modules() if module.training]
        implementation = self._config._attn_implementation
        # A look at every module takes as long as a short prompt does; mostly none trains.
        if was_training:
            self.model.eval()
        try:
            if self.joins_segments and not plain:
                self._config._attn_implementation = attention.NAME
            with torch.inference_mode():
                yield
        finally:
            self._config._attn_implementation = implementation
            for module in was_training:
                module.training = True

    @property
    def n_features(self) -> int:
        return project_size(self.model) if self.has_head else self.n_vocab

    def hides_in_view(self, branch: Branch) -> bool:
        """Whether a branch has pieces hidden, and can attend to parts of its parent's states where these are."""
        windows = (self._windows or {}).values()
        if not branch.hidden or any(window is not None and branch.positions[-1] >= window for window in windows):
            return False
        return self.joins_segments and partial_attention(self.model.device.type, self.model.dtype) is not None

    def logits(self, features: Tensor) -> Tensor:
        return self._head(features) if self.has_head else features

    def plain(self, ids: IntArray, until: torch.nn.Module | None = None, positions: IntArray | None = None) -> Tensor:
        """Features of a whole sequence, (token, size), without a cache; or what enters the layer `until`. Positions
        are those of the tokens' places by default."""
        return self._features(until, **plain_inputs(self.model, ids, positions), use_cache=False)[0]

    def pass_plainly(self) -> None:
        """Use nothing of our own from here on: no states, no attention, no head by a rule."""
        self.forks = self.joins_segments = self.has_head = False

    def passed(
        self, segments: Sequence[PassSegment], ids: Sequence[IntArray], until: torch.nn.Module | None = None
    ) -> list[Tensor]:
        """Features of each row's new tokens, (new token, size), rows in the order of the segments; or what enters the
        layer `until`. There is more than one segment only where `joins_segments`."""
        new_ids, new_positions = _new_tokens(segments, ids)
        device = self.model.device
        masks = [self._masks(segment) for segment in segments]
        if self.joins_segments:
            by_layer = [[mask[kind] for mask in masks] for kind in self._kinds]
            cache = attention.SegmentCache(list(segments), by_layer, self._kinds, self._n_states)
            new_ids, new_positions = [torch.cat(new_ids)[None]], [torch.cat(new_positions)[None]]
        else:
            cache = attention.SegmentCache(list(segments), None, self._kinds, self._n_states)
            new_ids, new_positions = [torch.stack(new_ids)], [torch.stack(new_positions)]
        extra: dict[str, object] = {"position_ids": new_positions[0].to(device)} if self.takes_positions else {}
        if not self.joins_segments and masks[0]:
            # Recurrent layers have no mask: padding comes last.
            by_kind = {**dict.fromkeys(RECURRENT.intersection(self._kinds)), **masks[0]}
            extra["attention_mask"] = by_kind if len(masks[0]) > 1 else next(iter(masks[0].values()))
        extra |= {self._cache_name: cache, "use_cache": True}
        out = self._features(until, input_ids=new_ids[0].to(device), **extra)
        sizes = [segment.n_new for segment in segments for _ in segment.starts]
        return list(torch.split(out[0], sizes)) if self.joins_segments else list(out)

    def _features(self, until: torch.nn.Module | None, **inputs: Any) -> Tensor:
        if until is not None:
            return entering_layer(self.model, until, inputs)
        if self.has_head:
            features: Tensor = self.model.base_model(**inputs).last_hidden_state
            return features
        return self._all_logits(**inputs)

    def _all_logits(self, **inputs: Any) -> Tensor:
        """The model's own logits, (row, token, vocab), each token's in its place."""
        logits: Tensor = self.model(**inputs).logits
        n_rows, n_tokens = logits.shape[1], inputs["input_ids"].shape[1]
        if n_rows != n_tokens:
            raise ModelError(
                f"the model ({type(self.model).__name__}) gives logits for {n_rows} positions where it is given "
                f"{n_tokens} tokens, as with vectors before the text (prompt tuning), so nobody can tell whose they "
                "are; give a model with one row of logits for each token, such as the one without these vectors"
            )
        return logits

    def _masks(self, segment: PassSegment) -> dict[str, Tensor | None]:
        assert self._windows is not None
        furthest = max((int(where[-1]) for where in segment.positions), default=0)
        reached = {
            kind: window if window is not None and furthest >= window else None
            for kind, window in self._windows.items()
        }
        masks: dict[int | None, Tensor | None] = {}
        for window in set(reached.values()):
            needless = self.joins_segments and window is None and segment.is_plain
            masks[window] = None if needless else attention_mask(segment, window, self.model.dtype, self.model.device)
        return {kind: masks[window] for kind, window in reached.items()}

    def _of_last_token(self, near: ShortPass) -> tuple[bool, SideOf | None]:
        """Whether a token's logits depend on the token after it, as those of an encoder do; and how lengths are told
        apart, where logits depend on them."""
        again = partial(few_tokens, self.model, self._all_logits, is_other=True)
        if not self.takes_positions:
            return near.is_moved(again()), side_of(self._config, near, None)
        with suppress(*_FAILURES):
            # Another token at the furthest position: mostly neither moves anything, and one pass tells.
            if not near.is_moved(again(position=furthest_position(self._config))):
                return False, None
        if near.is_moved(again()):
            return True, None
        try:
            return False, side_of(self._config, near, lambda position: again(position=position))
        except _FAILURES:
            # Nothing can be found out.
            return False, side_of(self._config, near, None)

    def _n_causal(self) -> int | None:
        """Whether the first tokens' logits stay as they are once so many more follow that blocks of them are put
        together, or keys chosen. Attention of our own, where segments are joined, has no such blocks."""
        span = longest_span(self._config, _SPAN_PROBED)
        if not span and self._windows is not None and self.forks_anywhere:
            return None
        limit = getattr(self._config, "max_position_embeddings", None) or _FAR_PROBED
        n = min(max(span + 32, _FAR_PROBED), limit)
        ids = torch.arange(3, 3 + n, device=self.model.device)[None] * 7919 % self.n_vocab
        # A number of tokens that fills no block.
        n_first = n - 37
        if n_first < 1:
            return None
        rows, first = (self._all_logits(input_ids=some, use_cache=False)[0].float() for some in (ids, ids[:, :n_first]))
        moved = (rows[:n_first] - first).abs().amax(dim=-1)  # (token,)
        if self.model.dtype == torch.float32:
            return n_first if moved.max() > _AGREEMENT * rows.abs().max() else None
        # Of rounded numbers, a router may choose another expert for a token here and there.
        return n_first if moved.median() > 0.05 * rows.abs().max() else None

    def _agrees(self, joined: bool) -> bool:
        """Whether forked, padded and extended passes give what a plain pass gives: no, where states cannot be cut, or
        the library does not go on from a recurrent one."""
        # Long enough to see past windows and blocks that are short enough to see past quickly.
        n = max(16, longest_span(self._config, _SPAN_PROBED) + 16)
        limit = getattr(self._config, "max_position_embeddings", None) or n
        n = min(n, limit)
        ids = np.arange(3, 3 + n, dtype=np.int64) * 7919 % self.n_vocab
        positions = np.arange(n)
        plain = self.plain(ids)
        self.joins_segments = joined
        try:
            with self.borrowed():
                ends = [n] if self.forks_anywhere else sorted({5, *(n - n_behind for n_behind in _PROBED_FORKS)})
                states, parts = self._begun(ids, positions, ends)
                pasts = states[-1].layers
                cells = sum(past.numbers_per_token for past in pasts.values())
                self.bytes_per_token = cells * self.model.dtype.itemsize
                self.bytes_per_fork = sum(past.n_bytes for past in pasts.values() if not past.forks_anywhere)
                starts = [longest_start(states, n - n_behind) for n_behind in _PROBED_FORKS]
                close = self._are_near(parts + self._lasting(starts, ids, positions), plain)
                # Where fewer layers than there are have states, some attend to another's.
                self.one_scratch = len(pasts) == self.n_layers
                self.one_scratch &= close and self._are_near(self._passing(starts, ids, positions), plain)
                if close and not self.one_scratch:
                    close = self._are_near(self._passing(starts, ids, positions), plain)
        except _FAILURES:
            close = False
        self.joins_segments = joined and close
        return close

    def _begun(
        self, ids: IntArray, positions: IntArray, ends: Sequence[int]
    ) -> tuple[list[SequenceState], list[tuple[Tensor, int]]]:
        """States of so many leading tokens, run in as many passes; and what passes after the first give, each with its
        first position."""
        states: list[SequenceState] = []
        parts: list[tuple[Tensor, int]] = []
        start = Start(None, 0)
        for end in ends:
            n_spare = ends[-1] - end
            segment = PassSegment([start], [positions[:end]], end - start.n_tokens, lasts=True, n_spare=n_spare)
            (out,) = self.passed([segment], [ids[:end]])
            parts.append((out, start.n_tokens))
            states += segment.states()
            start = Start(states[-1], end)
        return states, parts[1:]

    def _are_near(self, parts: Sequence[tuple[Tensor, int]], plain: Tensor) -> bool:
        """Whether features, each with its first position, are those of a plain pass."""
        tolerance = (_AGREEMENT if self.model.dtype == torch.float32 else 0.05) * plain.abs().max().float()
        return all((part - plain[first : first + len(part)]).abs().max() <= tolerance for part, first in parts)

    def _lasting(self, starts: Sequence[Start], ids: IntArray, positions: IntArray) -> list[tuple[Tensor, int]]:
        """Features of forks of different lengths, then of one more token in place; each with its first position."""
        # A recurrence would go on from padding.
        ends = [starts[0].n_tokens + 6, starts[1].n_tokens + (5 if self.forks_anywhere else 6)]
        segment = PassSegment(starts, [positions[:end] for end in ends], 6, lasts=True, n_spare=SPARE_COLUMNS)
        out = self.passed([segment], [ids[:end] for end in ends])
        parts = [
            (rows[: end - start.n_tokens], start.n_tokens) for rows, start, end in zip(out, starts, ends, strict=True)
        ]
        later = [Start(fork, len(fork.columns)) for fork in segment.states()]
        more = PassSegment(later, [positions[: end + 1] for end in ends], 1, lasts=True)
        out = self.passed([more], [ids[: end + 1] for end in ends])
        return parts + list(zip(out, ends, strict=True))

    def _passing(self, starts: Sequence[Start], ids: IntArray, positions: IntArray) -> list[tuple[Tensor, int]]:
        """Features of forks whose states are not kept, beside a sequence from its start where segments are joined; each
        with its first position."""
        ends = [starts[0].n_tokens + 6, starts[1].n_tokens + 5]
        forks = [positions[:end] for end in ends]
        segments = [PassSegment(starts, forks, 6, lasts=False, one_scratch=self.one_scratch)]
        sequences = [ids[:end] for end in ends]
        if self.joins_segments:
            segments.append(PassSegment([Start(None, 0)], [positions[:5]], 5, lasts=False))
            sequences.append(ids[:5])
        out = self.passed(segments, sequences)
        first, second = (start.n_tokens for start in starts)
        return [(out[0], first), (out[1][:5], second), *((rows, 0) for rows in out[2:])]


def _new_tokens(segments: Sequence[PassSegment], ids: Sequence[IntArray]) -> tuple[list[Tensor], list[Tensor]]:
    """Ids and positions of each row's new tokens, padded to the length of its segment."""
    new_ids: list[Tensor] = []
    new_positions: list[Tensor] = []
    rows = [(segment, i) for segment in segments for i in range(len(segment.starts))]
    for (segment, i), whole in zip(rows, ids, strict=True):
        n_start = segment.starts[i].n_tokens
        for new, values in ((new_ids, whole), (new_positions, segment.positions[i])):
            padded = torch.zeros(segment.n_new, dtype=torch.int64)
            padded[: len(values) - n_start] = torch.from_numpy(values[n_start:])
            new.append(padded)
    return new_ids, new_positions


def head_of(model: Any) -> Callable[[Tensor], Tensor]:
    """Hidden states (..., size) to logits (..., vocab), by the model's own head and configuration."""
    project = model.get_output_embeddings()
    config = model.config.get_text_config()
    cap = getattr(config, "final_logit_softcapping", None)
    multiplier = getattr(config, "logit_scale", None)
    divisor = getattr(config, "logits_scaling", None)

    def head(hidden: Tensor) -> Tensor:
        logits: Tensor = project(hidden)
        if multiplier is not None:
            logits = logits * multiplier
        if divisor is not None:
            logits = logits / divisor
        if cap is not None:
            logits = torch.tanh(logits / cap) * cap
        return logits

    return head


def follows_the_rule(model: Any, head: Callable[[Tensor], Tensor], few: ShortPass) -> bool:
    """Whether base model and head give the model's own logits of a few tokens."""
    if model.get_output_embeddings() is None or model.base_model is model:
        return False
    hidden = getattr(model.base_model(input_ids=few.ids, use_cache=False), "last_hidden_state", None)
    if hidden is None or hidden.shape[-1] != project_size(model):
        return False
    size = few.logits.abs().max().float()
    return bool((head(hidden)[0] - few.logits).abs().max().float() <= 1e-3 * size + 1e-6)


def project_size(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[-1])
