"""Runs of a chunk to rows of features, rows to scores, on a causal language model of the transformers library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.gradients import Differentiator, alike
from leakmeter.backends.hf.lengths import TwoSides, end_on_side
from leakmeter.backends.hf.machine import Surplus, default_memory, is_out_of_memory, machine_of
from leakmeter.backends.hf.places import differentiable, layer_of
from leakmeter.backends.hf.reduce import answers
from leakmeter.backends.hf.reuse import Reuse, continued_branches, parameters_state
from leakmeter.backends.hf.schedule import (
    LEAST_SLICE,
    check_states,
    halves,
    limits_for,
    most_rows,
    passes_of,
    places_to_end,
    token_bytes,
    windows,
)
from leakmeter.backends.hf.self_check import SelfChecker
from leakmeter.backends.hf.states import (
    SPARE_COLUMNS,
    Before,
    Hidden,
    Kept,
    PassSegment,
    SequenceState,
    Start,
    longest_start,
)
from leakmeter.backends.hf.tokenizer import HfTokenizer, json_sha256
from leakmeter.core.backend import Backend, Capabilities, no_masks
from leakmeter.core.record import JsonObject
from leakmeter.core.request import GradientRequest, Gradients, Scores, VectorPlace, tokens_of
from leakmeter.core.self_check import Passes, Recomputed
from leakmeter.core.tree import Branch, Chunk
from leakmeter.errors import CapabilityError, ModelError, ScoreError
from leakmeter.overriding import override


class HfBackend(Backend):
    """Scores requests with a model that is already in memory; everything set on it is put back after every call.

    Args:
        model: a causal language model.
        tokenizer: its fast tokenizer.
        name: what results call it.
        weights_sha256: hash of its weights, if known.
        share_prefixes: fork key/value states where prompts part. Without, every sequence gets a full pass.
        tokens_per_batch: most new tokens of one pass over several branches, padding included; 2,048 on a
            CPU and 16,384 on a GPU by default.
        memory_bytes: memory beside the model, for key/value states, passes, hidden states of the wanted rows and rows
            of logits (see `schedule.limits_for`). A single sequence, and one row of prompts that are reduced together,
            may exceed it. The default depends on the kind of device, not on what is free, since how much is done at a
            time moves the last digits.
    """

    tokenizer: HfTokenizer
    memory_bytes: int

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        weights_sha256: str | None = None,
        share_prefixes: bool = True,
        tokens_per_batch: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = HfTokenizer(tokenizer, model)
        self.name = name
        self.weights_sha256 = weights_sha256
        config = {
            name: value
            for name, value in model.config.to_dict().items()
            if name not in ("_name_or_path", "transformers_version")
        }
        self._identity = {"config_sha256": json_sha256(config), **self.tokenizer.identity}
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.memory_bytes = memory_bytes or default_memory(model.device)
        self.limits = limits_for(model.device.type, self.memory_bytes, token_bytes(model), tokens_per_batch)
        self.reuse: Reuse | None = None
        """Finds features of chunks that were run before; None to run every chunk."""
        self.forward = Forward(model)
        if self.forward.looks_ahead:
            raise ModelError(
                f"'{name}' lets a token attend to later ones ({type(model).__name__}): it is not a causal language "
                "model and has no next-token probabilities"
            )
        if (n := self.forward.n_causal) is not None:
            raise ModelError(
                f"'{name}' gives the first {n} tokens of a text other logits once more follow "
                f"({type(model).__name__}): what it attends to depends on later tokens, so that a pass over a response "
                "does not give its tokens' probabilities; give another model"
            )
        self.shares_prefixes = share_prefixes and self.forward.forks
        self._passes_plainly = False
        self._self_check = SelfChecker(self.forward, name)
        self._differentiator = Differentiator(self.forward, self.tokenizer, name)
        self._kept = Kept(self.limits.state_bytes)
        self._kept_for = parameters_state(model)
        self._surplus = Surplus(self.memory_bytes)
        self._refusal: Callable[[Chunk], None] = partial(
            check_states, name, bytes_per_token=self.forward.bytes_per_token, memory_bytes=self.memory_bytes
        )

    @property
    @override
    def capabilities(self) -> Capabilities:
        # What went through a recurrence cannot be hidden from what comes after it.
        hides = self.forward.forks and self.forward.forks_anywhere
        return Capabilities(
            masks=self.forward.takes_positions and (hides or self._passes_plainly),
            hides_pieces=hides,
            differentiates=True,
            shares="prefixes" if self.shares_prefixes else "sequences",
            most_rows=most_rows(self.limits, self.forward.n_features * self.model.dtype.itemsize),
        )

    @property
    @override
    def identity(self) -> dict[str, str | None]:
        return self._identity

    @property
    @override
    def device(self) -> str:
        return str(self.model.device)

    @property
    @override
    def arithmetic(self) -> dict[str, str]:
        attention = getattr(self.model.config.get_text_config(), "_attn_implementation", None)
        return {"attention": str(attention), "threads": str(torch.get_num_threads()), "device": self.device}

    @property
    @override
    def machine(self) -> JsonObject:
        return machine_of(self.model.device)

    @property
    @override
    def refusal(self) -> Callable[[Chunk], None]:
        """Refuses contexts to be searched whose states do not fit."""
        return self._refusal

    @override
    def check_place(self, place: VectorPlace) -> None:
        if place.kind == "layer":
            layer_of(self.model, place.layer, self.name)

    @contextmanager
    @override
    def interruptible(self, check: Callable[[], None]) -> Iterator[None]:
        """Meanwhile `check` is called before each layer."""
        layers = [
            layer for module in self.model.modules() if isinstance(module, torch.nn.ModuleList) for layer in module
        ]
        hooks = [layer.register_forward_pre_hook(lambda *_: check()) for layer in layers]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    @override
    def without_cache(self) -> Iterator[None]:
        reuse, self.reuse = self.reuse, None
        try:
            yield
        finally:
            self.reuse = reuse

    @override
    def score(self, chunk: Chunk) -> list[Scores]:
        chunk = self._parted(chunk)
        self._check_positions(chunk)
        self.check(chunk)
        if chunk.round == 0:
            self._kept.clear()
        with self.forward.borrowed():
            if self.reuse is None:
                features = self._features(chunk)
            else:
                features = self.reuse.through(chunk, self._features, self._kept.clear)
            self._self_check.saw(chunk, features, self.limits)
            while True:
                try:
                    return answers(chunk, features, self.forward, self.limits, self.dtype, self._surplus)
                except (MemoryError, RuntimeError) as error:
                    self._halve(error, self.limits.logits_per_slice > self.forward.n_vocab)

    @override
    def differentiate(self, requests: Sequence[GradientRequest], contexts: Chunk) -> list[Gradients]:
        gradients: dict[int, Gradients] = {}
        behind = self._behind(requests, self._parted(contexts))
        todo = alike(requests, self.limits)
        with differentiable(self.model, self.name):
            while todo:
                group = todo.pop(0)
                some = [requests[i] for i in group]
                try:
                    answers = self._differentiator.answers(some, [behind[i] for i in group], self.limits)
                except (MemoryError, RuntimeError) as error:
                    self._halve(error, len(group) > 1 or self.limits.tokens_per_pass > len(some[0].prompt.ids))
                    half = -(-len(group) // 2)
                    todo[:0] = [part for part in (group[:half], group[half:]) if part]
                    continue
                self.n_tokens_run += sum(request.n_tokens for request in some)
                gradients.update(zip(group, answers, strict=True))
                self._surplus.give_back()
        in_order = [gradients[i] for i in range(len(requests))]
        self._self_check.saw_gradients(requests, in_order)
        return in_order

    @property
    @override
    def short_length(self) -> int | None:
        """None too where each length is computed in its own way."""
        side_of = self.forward.side_of
        return side_of.length if isinstance(side_of, TwoSides) else None

    @property
    @override
    def passes(self) -> Passes:
        return "shared" if self.shares_prefixes else "plain"

    @property
    def n_self_check_tokens(self) -> int:
        """Tokens of the plain passes of self-checks so far; none of `n_tokens_run`."""
        return self._self_check.n_tokens

    @override
    def begin_self_check(self, seed: int) -> None:
        self._self_check.begin(seed)
        if self.reuse is not None:
            self.reuse.begin()

    @override
    def end_self_check(self) -> Recomputed:
        with self.forward.borrowed(plain=True):
            return self._self_check.end(self.limits)

    @override
    def drop_self_check(self) -> None:
        self._self_check.drop()
        if self.reuse is not None:
            self.reuse.end()

    @override
    def pass_plainly(self) -> None:
        self._kept.clear()
        if self.reuse is not None:
            self.reuse.disown()
        self.forward.pass_plainly()
        self.shares_prefixes = False
        self._passes_plainly = True

    def _behind(self, requests: Sequence[GradientRequest], contexts: Chunk) -> list[Tensor | None]:
        """Each request's states at its place behind each context, (context, position, size); None where contexts need
        not be run."""
        self._check_positions(contexts)
        numbers = sorted({request.place.layer for request in requests if request.runs_contexts})
        layers = {number: layer_of(self.model, number, self.name) for number in numbers}
        with self.forward.borrowed():
            states = {number: self._features(contexts, layer) for number, layer in layers.items()}
        slots = iter(contexts.slots)
        behind: list[Tensor | None] = []
        for request in requests:
            varied = []
            for prompt in request.contexts if request.runs_contexts else ():
                tokens = tokens_of(prompt, request.place.role)
                rows = torch.from_numpy(next(slots)[0, tokens - tokens[0]]).to(self.model.device)
                varied.append(states[request.place.layer][rows])
            behind.append(torch.stack(varied) if varied else None)
        return behind

    def _features(self, chunk: Chunk, until: torch.nn.Module | None = None) -> Tensor:
        """Features of every wanted row, (slot, size): last hidden states, or those that enter the layer `until`."""
        # Weights that were trained in between make kept states stale.
        if self._kept_for != (parameters := parameters_state(self.model)):
            self._kept.clear()
            self._kept_for = parameters
        if not self.shares_prefixes:
            return self._full_passes(chunk, until)
        features: Tensor | None = None

        def put(branch: Branch, out: Tensor, n_start: int) -> None:
            nonlocal features
            if features is None:
                features = out.new_empty((chunk.n_slots, out.shape[-1]))
            _put(features, branch, out, n_start)

        states: dict[int, list[SequenceState]] = {}
        continues = [
            is_continued and not branch.hidden
            for branch, is_continued in zip(chunk.branches, continued_branches(chunk), strict=True)
        ]
        # Nothing of the round before is held longer than what begins with it has not been run.
        before = Before(self._kept_starts(chunk))
        self._kept = Kept(self.limits.state_bytes)
        ends = self._ends(chunk, before.starts)
        fork_bytes = [len(places) * self.forward.bytes_per_fork for places in ends]
        for step in windows(chunk, self.forward.bytes_per_token, self.limits.state_bytes // 2, fork_bytes):
            for index in step.finished:
                states.pop(index, None)
            parents = frozenset(step.parents)
            for i in parents:
                before.cut_back(i)
            starts = {
                i: before.starts.get(i) or longest_start(states.get(branch.parent, ()), branch.fork)
                for i, branch in ((i, chunk.branches[i]) for i in step.branches)
            }
            lasting = {
                i: continues[i]
                or (i in parents and (self.forward.forks_anywhere or len(chunk.branches[i].ids) in ends[i]))
                for i in step.branches
            }
            todo = passes_of(
                chunk, step.branches, starts, lasting, continues, limits=self.limits, forward=self.forward, ends=ends
            )
            while todo:
                group = todo.pop(0)
                try:
                    if len(group) == len(group[0]) == 1 and not chunk.branches[i := group[0][0]].hidden:
                        starts[i], begun = self._begun(
                            chunk.branches[i], starts[i], ends[i], put, continues=continues[i], until=until
                        )
                        if i in parents:
                            states[i] = begun
                    out, ended = self._pass(group, chunk, starts, lasting, continues, until)
                except (MemoryError, RuntimeError) as error:
                    members = [i for batch in group for i in batch]
                    self._halve(error, len(members) > 1 or len(before.starts) > 0)
                    before.clear()
                    todo[:0] = halves(group)
                    continue
                while ended:
                    index, state = ended.pop()
                    branch, n_start = chunk.branches[index], starts.pop(index).n_tokens
                    before.drop(index)
                    self.n_tokens_run += len(branch.ids) - n_start
                    put(branch, out.pop(), n_start)
                    if state is not None and index in parents:
                        states.setdefault(index, []).append(state)
                    if state is not None and continues[index]:
                        self._kept.add(
                            branch.ids, branch.positions, state, beside=before.blocks, group=(branch.apart, branch.side)
                        )
                    state = None
                self._surplus.give_back()
        assert features is not None
        return features

    def _parted(self, chunk: Chunk) -> Chunk:
        """The chunk with lengths told apart, where this model's numbers depend on them."""
        return chunk if self.forward.side_of is None else replace(chunk, side_of=self.forward.side_of)

    def _kept_starts(self, chunk: Chunk) -> dict[int, Start]:
        """Of each branch, the longest start whose states the round before left, where it is longer than that in its
        parent. Where states cannot be forked anywhere, branches that are not begun so still fork from their parents."""
        starts: dict[int, Start] = {}
        first_forks: dict[int, int] = {}
        for i, branch in reversed(list(enumerate(chunk.branches))):
            # At least the first wanted row has to be run again; what pieces are hidden from no other branch has run.
            most = (
                branch.fork
                if branch.hidden
                else int(branch.row_tokens.min())
                if len(branch.row_tokens)
                else len(branch.ids) - 1
            )
            if not self.forward.forks_anywhere:
                most = min(most, first_forks.get(i, most))
            start = self._kept.start(branch.ids, branch.positions, most, (branch.apart, branch.side))
            if start.n_tokens > max(branch.fork, 0):
                starts[i] = start
            else:
                first_forks[branch.parent] = min(branch.fork, first_forks.get(branch.parent, branch.fork))
        return starts

    def _ends(self, chunk: Chunk, starts: Mapping[int, Start]) -> list[tuple[int, ...]]:
        """After how many tokens passes over each branch have to end: where it says so, and for branches without such
        starts to fork there."""
        ends = [branch.ends for branch in chunk.branches]
        if self.forward.forks_anywhere:
            return ends
        forks = chunk.forks(starts.keys())
        places = (places_to_end(each, self.forward.bytes_per_fork, self.limits) for each in forks)
        return [tuple(sorted({*own, *others})) for own, others in zip(ends, places, strict=True)]

    def _begun(
        self,
        branch: Branch,
        start: Start,
        ends: Sequence[int],
        put: Callable[[Branch, Tensor, int], None],
        *,
        continues: bool,
        until: torch.nn.Module | None,
    ) -> tuple[Start, list[SequenceState]]:
        """Where a branch starts once all but its last pass is done, in passes that there is room for and that end where
        others fork; and the states there. Wanted rows that these passes make are `put` in their places."""
        at_once = max(self.limits.tokens_per_pass, LEAST_SLICE)
        first_row = int(branch.row_tokens.min()) if len(branch.row_tokens) else len(branch.ids)
        states = [start.state] if start.state is not None and start.n_tokens in ends else []
        while True:
            if forks := [end for end in ends if start.n_tokens < end < len(branch.ids)]:
                end = min(start.n_tokens + at_once, forks[0])
            elif len(branch.ids) - start.n_tokens > at_once and start.n_tokens < first_row:
                end = min(start.n_tokens + at_once, first_row, len(branch.ids) - 1)
                if self.forward.side_of is not None:
                    end = end_on_side(self.forward.side_of, branch.positions, end, branch.side)
                    if end > min(first_row, len(branch.ids) - 1):
                        break
            else:
                break
            n_spare = len(branch.ids) - end + (SPARE_COLUMNS if continues else 0)
            segment = PassSegment([start], [branch.positions[:end]], end - start.n_tokens, lasts=True, n_spare=n_spare)
            (out,) = self.forward.passed([segment], [branch.ids[:end]], until)
            put(branch, out, start.n_tokens)
            self.n_tokens_run += end - start.n_tokens
            (state,) = segment.states()
            start = Start(state, end)
            if end in ends:
                states.append(state)
        return start, states

    def _pass(
        self,
        group: Sequence[Sequence[int]],
        chunk: Chunk,
        starts: dict[int, Start],
        lasting: dict[int, bool],
        continues: Sequence[bool],
        until: torch.nn.Module | None,
    ) -> tuple[list[Tensor], list[tuple[int, SequenceState | None]]]:
        """One forward pass over batches: each row's features (new token, size), its branch and its lasting state."""
        segments = [
            PassSegment(
                [starts[i] for i in batch],
                [chunk.branches[i].positions for i in batch],
                max(len(chunk.branches[i].ids) - starts[i].n_tokens for i in batch),
                lasts=any(lasting[i] for i in batch),
                n_spare=SPARE_COLUMNS if any(continues[i] for i in batch) else 0,
                hidden=[Hidden(chunk.branches[i].fork, chunk.branches[i].hidden) for i in batch],
                views=all(self.forward.hides_in_view(chunk.branches[i]) for i in batch),
                one_scratch=self.forward.one_scratch,
            )
            for batch in group
        ]
        out = self.forward.passed(segments, [chunk.branches[i].ids for batch in group for i in batch], until)
        states: list[tuple[int, SequenceState | None]] = []
        for segment, batch in zip(segments, group, strict=True):
            states.extend(zip(batch, segment.states() if segment.lasts else [None] * len(batch), strict=True))
        return out, states

    def _full_passes(self, chunk: Chunk, until: torch.nn.Module | None) -> Tensor:
        features: Tensor | None = None
        for branch in chunk.branches:
            # Of a row that several passes make, the shortest has the last word.
            for end in (len(branch.ids), *reversed(branch.ends)):
                ids, positions = branch.ids[:end], branch.positions[:end]
                if self.forward.forks:
                    hidden = [Hidden(branch.fork, branch.hidden)]
                    segment = PassSegment([Start(None, 0)], [positions], end, lasts=False, hidden=hidden)
                    (out,) = self.forward.passed([segment], [ids], until)
                else:
                    out = self.forward.plain(ids, until, positions)
                self.n_tokens_run += end
                if features is None:
                    features = out.new_empty((chunk.n_slots, out.shape[-1]))
                _put(features, branch, out, 0)
        assert features is not None
        return features

    def _halve(self, error: BaseException, is_possible: bool) -> None:
        """Halve every limit where memory ran out; raise any other error."""
        if not is_out_of_memory(error):
            raise error
        if not is_possible:
            raise ScoreError(
                f"'{self.name}' ran out of memory on a single sequence; give a shorter context, a smaller model, or "
                "--dtype bfloat16"
            ) from None
        self.limits = self.limits.halved()
        self.n_halvings += 1
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _check_positions(self, chunk: Chunk) -> None:
        if not self.capabilities.hides_pieces and any(branch.hidden for branch in chunk.branches):
            raise CapabilityError(
                f"'{self.name}' has recurrent states, or states that cannot be forked, so no piece can be hidden"
            )
        if self.capabilities.masks:
            return
        if any(int(branch.positions[-1]) != len(branch.positions) - 1 for branch in chunk.branches):
            raise no_masks(self.name)


def _put(features: Tensor, branch: Branch, out: Tensor, n_start: int) -> None:
    """Write those of a branch's wanted rows that are among some of its tokens, out of the features of these (token,
    size), the first of which is `n_start`, into their slots."""
    here = (branch.row_tokens >= n_start) & (branch.row_tokens < n_start + len(out))
    slots, tokens = (
        torch.from_numpy(rows[here]).to(out.device) for rows in (branch.row_slots, branch.row_tokens - n_start)
    )
    features[slots] = out[tokens]
