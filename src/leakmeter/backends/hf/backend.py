"""Runs of a chunk to rows of logits, rows to scores, on a causal language model of the transformers library."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf import head as heads
from leakmeter.backends.hf.states import Start, State, attention_masks, batched_cache, take_state
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.errors import CapabilityError, ScoreError
from leakmeter.types.chunk import Chunk, Run
from leakmeter.types.prompt import IntArray
from leakmeter.types.request import FloatArray, Request, Scores

_WINDOW_PROBED = 512  # tokens; a model with a longer sliding window is trusted to follow its configuration
_AGREEMENT = 1e-3  # of the largest logit: far above float32 noise, far below any wrong mask or position


class HfBackend:
    """Scores requests with a model that is already in memory; its training mode is put back after every call.

    Args:
        model: a causal language model.
        tokenizer: its fast tokenizer.
        name: what results call it.
        weights_sha256: hash of its weights, if known.
        share_prefixes: fork key/value states where prompts part. Without, every sequence gets a full pass.
        tokens_per_batch: most tail tokens of one pass over several runs, padding included; the default is small on a
            CPU, where long passes gain nothing from company, and large on a GPU.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        weights_sha256: str | None = None,
        share_prefixes: bool = True,
        tokens_per_batch: int | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = HfTokenizer(tokenizer, model)
        self.name = name
        self.weights_sha256 = weights_sha256
        self.dtype = str(model.dtype).removeprefix("torch.")
        config = model.config.get_text_config()
        self.window: int | None = getattr(config, "max_position_embeddings", None)
        on_cpu = model.device.type == "cpu"
        self._tokens_per_batch = tokens_per_batch or (512 if on_cpu else 16_384)
        # Padded prefixes are copied once a pass: this bounds the copy, not the arithmetic.
        self._state_tokens_per_batch = 8 * self._tokens_per_batch
        self._logits_per_slice = 2**24 if on_cpu else 2**28
        self._takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        self._windows = _window_by_kind(model)
        self.n_tokens_run = 0
        self._kept: list[tuple[IntArray, IntArray, State]] = []
        self._kept_for = 0
        with self._borrowed():
            self._head = heads.head_of(model)
            self._has_head = heads.follows_the_rule(model, self._head)
            # A model whose states cannot be forked (recurrent layers, say) gets plain full passes.
            self._forks = self._windows is not None and self._forks_agree()
        self.shares_prefixes = share_prefixes and self._forks

    def score(self, chunk: Chunk) -> list[Scores]:
        """Run the chunk's runs, generation by generation, and reduce their rows."""
        self._check_positions(chunk)
        with self._borrowed():
            rows = self._run_all(chunk)
            return [self._reduce(i, request, rows[slots]) for i, (request, slots) in enumerate(_answers(chunk))]

    def _run_all(self, chunk: Chunk) -> Tensor:
        """Features of every wanted row: hidden states, or logits where the head follows no known rule."""
        # Weights that were trained in between make kept states stale: torch counts changes in place.
        version = sum(p._version for p in self.model.parameters() if not p.is_inference())
        if version != self._kept_for:
            self._kept, self._kept_for = [], version
        features: Tensor | None = None
        states: dict[int, State] = {}
        children = [0] * len(chunk.runs)
        generation = [0] * len(chunk.runs)
        for index, run in enumerate(chunk.runs):
            if run.parent >= 0:
                children[run.parent] += 1
                generation[index] = generation[run.parent] + 1
        continued = {int(s) for r, slots in _answers(chunk) if r.want.continues for s in slots[:, -1]}
        keeps: list[tuple[IntArray, IntArray, State]] = []
        for level in range(max(generation) + 1):
            runs = [i for i in range(len(chunk.runs)) if generation[i] == level]
            starts = {i: self._start(chunk.runs[i], states) for i in runs}
            for batch in self._batches(runs, chunk, starts):
                members = [chunk.runs[i] for i in batch]
                self.n_tokens_run += sum(
                    len(run.ids) - starts[i].n_tokens for i, run in zip(batch, members, strict=True)
                )
                lasting = [bool(children[i]) or not continued.isdisjoint(chunk.runs[i].row_slots) for i in batch]
                out, taken = (
                    self._pass(members, [starts[i] for i in batch], lasting)
                    if self._forks
                    else (self._plain_pass(members[0]), [None])
                )
                for row, (i, run) in enumerate(zip(batch, members, strict=True)):
                    tail_index = torch.from_numpy(run.row_tokens - starts[i].n_tokens).to(out.device)
                    if features is None:
                        features = out.new_empty((chunk.n_slots, out.shape[-1]))
                    features[torch.from_numpy(run.row_slots).to(out.device)] = out[row, tail_index]
                    if (state := taken[row]) is not None:
                        states[i] = state
                        if not continued.isdisjoint(run.row_slots):
                            keeps.append((run.ids, run.positions, state))
                for run in members:
                    if run.parent >= 0:
                        children[run.parent] -= 1
                        if not children[run.parent]:
                            states.pop(run.parent, None)
        self._kept = keeps
        assert features is not None
        return features

    def _start(self, run: Run, states: dict[int, State]) -> Start:
        """The longest run of leading tokens whose states are at hand: the parent's, or the round before's."""
        if not self.shares_prefixes:
            return Start(None, 0)
        best = Start(states[run.parent], run.fork) if run.parent >= 0 else Start(None, 0)
        # At least the first wanted row has to be run again.
        most = int(run.row_tokens.min()) if len(run.row_tokens) else len(run.ids) - 1
        for ids, positions, state in self._kept:
            n = min(len(ids), most)
            same = (ids[:n] == run.ids[:n]) & (positions[:n] == run.positions[:n])
            shared = n if same.all() else int(np.argmin(same))
            if shared > best.n_tokens:
                best = Start(state, shared)
        return best

    def _batches(self, runs: list[int], chunk: Chunk, starts: dict[int, Start]) -> Iterator[list[int]]:
        """Cut runs into passes: alike in tail and start, within the token budgets, at most 15 % padding."""
        if not self.shares_prefixes:
            yield from ([i] for i in runs)
            return
        tails = {i: len(chunk.runs[i].ids) - starts[i].n_tokens for i in runs}
        batch: list[int] = []
        used = 0
        for i in sorted(runs, key=lambda i: (-tails[i], starts[i].n_tokens, i)):
            rows, longest = len(batch) + 1, tails[batch[0]] if batch else tails[i]
            start = max([starts[j].n_tokens for j in (*batch, i)])
            fits = (
                rows * longest <= self._tokens_per_batch
                and rows * (start + longest) <= self._state_tokens_per_batch
                and rows * longest <= 1.15 * (used + tails[i])
            )
            if batch and not fits:
                yield batch
                batch, used = [], 0
            batch.append(i)
            used += tails[i]
        if batch:
            yield batch

    def _pass(
        self, runs: Sequence[Run], starts: Sequence[Start], lasting: Sequence[bool]
    ) -> tuple[Tensor, list[State | None]]:
        """One forward pass: features (run, tail token, size), and the states of the runs that last."""
        device = self.model.device
        tails = [len(run.ids) - start.n_tokens for run, start in zip(runs, starts, strict=True)]
        ids = torch.zeros((len(runs), max(tails)), dtype=torch.int64)
        positions = torch.zeros_like(ids)
        for row, (run, start) in enumerate(zip(runs, starts, strict=True)):
            ids[row, : tails[row]] = torch.from_numpy(run.ids[start.n_tokens :])
            positions[row, : tails[row]] = torch.from_numpy(run.positions[start.n_tokens :])
        cache = batched_cache(starts)
        extra: dict[str, Any] = {"position_ids": positions.to(device)} if self._takes_positions else {}
        out = self._features(
            input_ids=ids.to(device),
            attention_mask=self._masks([run.positions for run in runs], starts),
            past_key_values=cache,
            use_cache=True,
            **extra,
        )
        longest = max(start.n_tokens for start in starts)
        taken = [
            take_state(cache, row, start.n_tokens, longest, tails[row], len(runs)) if wanted else None
            for row, (start, wanted) in enumerate(zip(starts, lasting, strict=True))
        ]
        return out, taken

    def _plain_pass(self, run: Run) -> Tensor:
        return self._features(input_ids=torch.from_numpy(run.ids)[None].to(self.model.device), use_cache=False)

    def _features(self, **inputs: Any) -> Tensor:
        features: Tensor = (
            self.model.base_model(**inputs).last_hidden_state if self._has_head else self.model(**inputs).logits
        )
        return features

    def _masks(self, positions: Sequence[IntArray], starts: Sequence[Start]) -> Tensor | dict[str, Tensor]:
        assert self._windows is not None
        masks = attention_masks(positions, starts, list(self._windows.values()), self.model.dtype, self.model.device)
        named = dict(zip(self._windows, masks, strict=True))
        return named if len(named) > 1 else masks[0]

    def _reduce(self, index: int, request: Request, features: Tensor) -> Scores:
        """Features (prompt, row, size) to scores, a slice of logits at a time."""
        wanted = request.want.rows(len(request.response))
        targets = torch.tensor([*request.response, 0][wanted.start : wanted.stop], device=features.device)
        n_prompts, n_rows = features.shape[:2]
        n_vocab = self.model.config.get_text_config().vocab_size
        at_once = max(1, self._logits_per_slice // n_vocab)
        prompt_step = n_prompts if request.want.rows_together else max(1, min(n_prompts, at_once // n_rows))
        row_step = max(1, at_once // prompt_step)
        blocks: list[FloatArray] = []
        for p in range(0, n_prompts, prompt_step):
            parts: list[FloatArray] = []
            for r in range(0, n_rows, row_step):
                block = features[p : p + prompt_step, r : r + row_step]
                logits = self._head(block) if self._has_head else block
                parts.append(request.want.reduce(logits, targets[r : r + row_step]).cpu().numpy())
            blocks.append(np.concatenate(parts, axis=1))
        values = np.concatenate(blocks, axis=0)
        if np.isnan(values).any():
            prompt = int(np.argwhere(np.isnan(values))[0][0])
            raise ScoreError(
                f"the model gave NaN for prompt {prompt + 1} of {n_prompts} in request {index + 1}; "
                f"its precision is {self.dtype}, try --dtype float32"
            )
        return Scores(values)

    def _check_positions(self, chunk: Chunk) -> None:
        if self._takes_positions and self._forks:
            return
        if any(int(run.positions[-1]) != len(run.positions) - 1 for run in chunk.runs):
            raise CapabilityError(
                f"'{self.name}' has no explicit positions, or states that cannot be forked: nothing can be masked in "
                "place; give --removal drop"
            )

    def _forks_agree(self) -> bool:
        """Whether forked, padded passes give what a plain pass gives: no, for states that cannot be sliced."""
        n_vocab = self.model.config.get_text_config().vocab_size
        windows = [window for window in (self._windows or {}).values() if window is not None]
        # Long enough to see past a window that is short enough to see past quickly.
        n = max([16, *(window + 16 for window in windows if window <= _WINDOW_PROBED)])
        n = min(n, self.window or n)
        ids = np.arange(3, 3 + n, dtype=np.int64) * 7919 % n_vocab
        nothing = np.empty(0, dtype=np.int64)
        whole = Run(ids, np.arange(n), -1, 0, nothing, nothing)
        short = Run(ids[: n - 5], np.arange(n - 5), -1, 0, nothing, nothing)
        plain = self._plain_pass(whole)
        try:
            _, (state,) = self._pass([whole], [Start(None, 0)], [True])
            forked, _ = self._pass([whole, short], [Start(state, n - 7), Start(state, n - 11)], [False, False])
        except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError):
            return False
        size = plain.abs().max().float()
        tolerance = _AGREEMENT * size if self.dtype == "float32" else 0.05 * size
        close = (forked[0, :7] - plain[0, n - 7 :]).abs().max() <= tolerance
        return bool(close and (forked[1, :6] - plain[0, n - 11 : n - 5]).abs().max() <= tolerance)

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        """The model in evaluation mode, without gradients; as it was afterwards."""
        was_training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            for module in was_training:
                module.training = True


def _answers(chunk: Chunk) -> Iterator[tuple[Request, IntArray]]:
    return zip(chunk.requests, chunk.slots, strict=True)


def _window_by_kind(model: Any) -> dict[str, int | None] | None:
    """Sliding-window sizes by kind of attention layer; None for a model with layers that no mask describes."""
    config = model.config.get_text_config()
    if "local" in (getattr(config, "attention_layers", None) or ()):
        # GPT-Neo's local layers count their window in keys, padding and gaps included, whatever the mask says.
        return None
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds:
        # Configurations carry a window that many architectures ignore: one that minds it imports the mask for it.
        minds = hasattr(sys.modules[type(model.base_model).__module__], "create_sliding_window_causal_mask")
        uses = minds and window is not None and getattr(config, "use_sliding_window", True)
        return {"full_attention": window if uses else None}
    if not kinds <= {"full_attention", "sliding_attention"}:
        return None
    return {kind: window if kind == "sliding_attention" else None for kind in sorted(kinds)}
