"""In which order branches go through the model, and which of them together: by the chunk and fixed limits alone.

What a batch holds moves the last digits of its numbers, so neither free memory nor what is cached may decide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.layers import attention_widths, inner_width
from leakmeter.backends.hf.states import SPARE_COLUMNS, Start, continued_block
from leakmeter.core.tree import Branch, Chunk
from leakmeter.errors import CapabilityError

# What a logit takes while it is reduced: a copy, and some arrays in float64.
_REDUCTION_BYTES: Final = 64
LEAST_SLICE: Final = 128
"""New tokens of a pass over part of a sequence at least, whatever the memory."""


@dataclass(frozen=True, slots=True)
class PassLimits:
    """Upper bounds of what is held at once. A single sequence is run even where it alone exceeds them."""

    tokens_per_pass: int
    """New tokens of one pass, padding included; more only where more rows of a branch are wanted."""
    state_bytes: int
    """Keys and values that the next round begins with. Those that other branches of a chunk fork from take half as much
    at most, and so do those of one batch; those that one pass makes, to last, a quarter."""
    logits_per_slice: int
    """Entries of the rows of logits that are made at a time."""
    reduced_per_slice: int
    """Entries of the rows of logits that are reduced at a time."""
    feature_bytes: int
    """Features of the rows of a chunk."""

    def halved(self) -> PassLimits:
        return PassLimits(*(max(1, most // 2) for most in astuple(self)))


def limits_for(device_kind: str, memory_bytes: int, token_bytes: int, tokens_per_pass: int | None = None) -> PassLimits:
    """Limits within `memory_bytes` beside the model. A half is for states that the next round begins with, a quarter
    for those that are forked from, an eighth for those that a pass makes, a sixteenth each for what else passes hold
    and for features. No pass runs while rows are reduced: a sixteenth is for logits, an eighth for their reduction."""
    on_cpu = device_kind == "cpu"
    most_tokens, most_logits = (2048, 2**24) if on_cpu else (16_384, 2**28)
    return PassLimits(
        tokens_per_pass=tokens_per_pass or max(1, min(most_tokens, memory_bytes // 16 // token_bytes)),
        state_bytes=memory_bytes // 2,
        logits_per_slice=max(1, min(most_logits, memory_bytes // 16 // 4)),
        reduced_per_slice=max(1, memory_bytes // 8 // _REDUCTION_BYTES),
        feature_bytes=memory_bytes // 16,
    )


def token_bytes(model: Any) -> int:
    """About the memory that a token takes in a layer: its state twice, and what is between the layer's products."""
    config = model.config.get_text_config()
    query_width, key_width = attention_widths(config)
    # Queries, their rotations and the answers; keys and values likewise.
    attention = 4 * query_width + 6 * key_width
    size: int = model.dtype.itemsize * (2 * config.hidden_size + max(4 * inner_width(config), attention))
    return size


def most_rows(limits: PassLimits, row_bytes: int) -> int:
    return max(1, limits.feature_bytes // row_bytes)


def check_states(name: str, chunk: Chunk, bytes_per_token: int, memory_bytes: int) -> None:
    """Refuse a searched context whose states do not fit: they and those of a fork of it are in memory, beside three
    eighths for a pass and what it leaves behind. A search shows in branches with pieces hidden."""
    if not any(prompt.hidden for request in chunk.requests for prompt in request.prompts):
        return
    n_tokens = max((len(branch.ids) for branch in chunk.branches if branch.hidden), default=0)
    needed = 2 * n_tokens * bytes_per_token
    if needed <= memory_bytes // 8 * 5:
        return
    n_gib = -(-needed * 8 // 5 // 2**30)
    n_fit = max(memory_bytes // 8 * 5 // (2 * bytes_per_token) // 100 * 100, 0)
    needs, total = needed / 2**30, memory_bytes / 2**30
    raise CapabilityError(
        f"the states that '{name}' keeps of a searched context of {n_tokens:,} tokens take {needs:.1f} GiB, with "
        f"passes {needs * 8 / 5:.1f} GiB, and --memory is {total:.2g} GiB; give --memory {n_gib}GiB, contexts of about "
        f"{n_fit:,} tokens (--max-context-tokens), or numbers of half the size (--dtype bfloat16)"
    )


@dataclass(frozen=True, slots=True)
class Window:
    """Branches of one generation whose states fit in memory together; their descendants come next."""

    branches: tuple[int, ...]
    parents: tuple[int, ...]
    """Those whose states have to last."""
    finished: tuple[int, ...] = ()
    """Parents of an earlier window, all of whose descendants have been run."""


def places_to_end(forks: Sequence[int], bytes_per_fork: int, limits: PassLimits) -> tuple[int, ...]:
    """After how many tokens passes over a run end, so that others can fork from it there: after all of `forks` as far
    as there is memory for what recurrent layers keep, else after some of them, as far apart as the rest."""
    most = max(1, limits.state_bytes // 8 // bytes_per_fork)
    return tuple(forks[:: -(-len(forks) // most)]) if forks else ()


def windows(
    chunk: Chunk, bytes_per_token: int, state_bytes: int, fork_bytes: Sequence[int] | None = None
) -> Iterator[Window]:
    """Every branch after its parent; siblings together as far as their states take at most half of what is left.
    `fork_bytes` has for each branch what is kept of it beside what each token takes."""
    children: list[list[int]] = [[] for _ in chunk.branches]
    roots: list[int] = []
    for index, branch in enumerate(chunk.branches):
        (children[branch.parent] if branch.parent >= 0 else roots).append(index)

    def visit(siblings: Sequence[int], left: int) -> Iterator[Window]:
        window: list[int] = []
        used = 0
        for index in siblings:
            takes = len(chunk.branches[index].ids) * bytes_per_token if children[index] else 0
            takes += fork_bytes[index] if fork_bytes is not None else 0
            if window and used + takes > left // 2:
                yield from close(window, max(left - used, 0))
                window, used = [], 0
            window.append(index)
            used += takes
        if window:
            yield from close(window, max(left - used, 0))

    def close(window: list[int], left: int) -> Iterator[Window]:
        parents = tuple(i for i in window if children[i])
        yield Window(tuple(window), parents)
        if parents:
            yield from visit([child for i in parents for child in children[i]], left)
            yield Window((), (), finished=parents)

    yield from visit(roots, state_bytes)


def batches(
    chunk: Chunk,
    branches: Sequence[int],
    starts: dict[int, Start],
    lasts: dict[int, bool],
    limits: PassLimits,
    bytes_per_token: int,
    *,
    joins: bool,
    views: Callable[[Branch], bool],
    pads_lasting: bool = True,
    bytes_per_row: int = 0,
) -> Iterator[list[int]]:
    """Cut a window into batches of branches that are alike in new tokens and in starts. A batch of the round before
    that is extended as a whole stays as it was, so that its states can grow in place. `lasts` says whether a branch's
    states are wanted afterwards, `views` whether it has pieces hidden and needs no copy of the states that it begins
    with. With `joins`, tokens of all lengths share a pass without padding, so that a batch has rows that are alike.
    Unless `pads_lasting`, rows whose states are wanted afterwards are equally long. States take `bytes_per_row` beside
    what they take for each token."""
    # Most that padding may add to new tokens, and to the columns of the states that rows begin with, as factors.
    new_padding, start_padding = (1.0, 1.5) if joins else (1.15, math.inf)
    tails = {i: len(chunk.branches[i].ids) - starts[i].n_tokens for i in branches}
    rest = set(branches)
    for unchanged in _unchanged(branches, starts, tails):
        yield unchanged
        rest.difference_update(unchanged)
    for hiding in _hiding(sorted(rest), chunk, starts, views):
        at_once = max(1, limits.tokens_per_pass // tails[hiding[0]])
        for first in range(0, len(hiding), at_once):
            yield hiding[first : first + at_once]
        rest.difference_update(hiding)
    batch: list[int] = []
    n_new = n_before = longest_start = 0
    for i in sorted(rest, key=lambda i: (lasts[i], -tails[i], starts[i].n_tokens, i)):
        rows, longest = len(batch) + 1, tails[batch[0]] if batch else tails[i]
        longest_start = max(longest_start, starts[i].n_tokens)
        most_padding = new_padding if pads_lasting or not lasts[i] else 1.0
        fits = (
            lasts[i] == lasts[(batch or [i])[0]]
            and rows * longest <= limits.tokens_per_pass
            and rows * longest <= most_padding * (n_new + tails[i])
            and (longest_start == 0 or rows * longest_start <= start_padding * (n_before + starts[i].n_tokens))
            and rows * ((longest_start + longest) * bytes_per_token + bytes_per_row)
            <= limits.state_bytes // (4 if lasts[i] else 2)
        )
        if batch and not fits:
            yield batch
            batch, n_new, n_before, longest_start = [], 0, 0, starts[i].n_tokens
        batch.append(i)
        n_new += tails[i]
        n_before += starts[i].n_tokens
    if batch:
        yield batch


def together(
    batches: Iterable[list[int]],
    chunk: Chunk,
    starts: dict[int, Start],
    limits: PassLimits,
    state_bytes_of: Callable[[list[int]], int],
) -> Iterator[list[list[int]]]:
    """Join neighbouring batches into passes of as many new tokens, and of as large states, as one batch may have;
    `state_bytes_of` is what a batch's states take while the pass lasts."""
    group: list[list[int]] = []
    n_tokens = n_bytes = 0
    for batch in batches:
        more_tokens = len(batch) * max(len(chunk.branches[i].ids) - starts[i].n_tokens for i in batch)
        more_bytes = state_bytes_of(batch)
        fits = n_tokens + more_tokens <= limits.tokens_per_pass and n_bytes + more_bytes <= limits.state_bytes // 4
        if group and not fits:
            yield group
            group, n_tokens, n_bytes = [], 0, 0
        group.append(batch)
        n_tokens += more_tokens
        n_bytes += more_bytes
    if group:
        yield group


def _unchanged(branches: Sequence[int], starts: dict[int, Start], tails: dict[int, int]) -> Iterator[list[int]]:
    by_block: dict[int, list[tuple[int, int]]] = {}
    for i in branches:
        if (state := starts[i].state) is not None and tails[i] == 1:
            by_block.setdefault(id(state.block), []).append((state.row, i))
    for rows in by_block.values():
        batch = [i for _, i in sorted(rows)]
        if continued_block([starts[i] for i in batch], 1) is not None:
            yield batch


def _hiding(
    branches: Sequence[int], chunk: Chunk, starts: dict[int, Start], views: Callable[[Branch], bool]
) -> Iterator[list[int]]:
    """Runs with pieces hidden that begin with the same states and are equally long."""
    alike: dict[tuple[int, int, int], list[int]] = {}
    for i in branches:
        if starts[i].state is not None and views(chunk.branches[i]):
            key = (id(starts[i].state), starts[i].n_tokens, len(chunk.branches[i].ids))
            alike.setdefault(key, []).append(i)
    yield from alike.values()


def passes_of(
    chunk: Chunk,
    branches: Sequence[int],
    starts: dict[int, Start],
    lasting: dict[int, bool],
    continues: Sequence[bool],
    *,
    limits: PassLimits,
    forward: Forward,
    ends: Sequence[Sequence[int]] | None = None,
) -> list[list[list[int]]]:
    """Runs in passes of batches, each of one side; those that are apart come first, each in a pass of its own, and so
    do those over which passes end (`ends`) before they are done. `lasting` says of each branch whether its states are
    needed once it has been run, `continues` of each of the chunk's whether the next round extends it."""
    joins = forward.joins_segments

    def state_bytes(batch: list[int]) -> int:
        if all(forward.hides_in_view(chunk.branches[i]) for i in batch):
            return 0
        begun = [starts[i] for i in batch]
        n_new = max(len(chunk.branches[i].ids) - starts[i].n_tokens for i in batch)
        n_columns = max(start.n_tokens for start in begun) + n_new
        if not any(lasting[i] for i in batch):
            # A layer's keys and values are put together with those of the start, and forgotten if no other needs them.
            n_apart = forward.n_layers if forward.one_scratch else 1
            return len(batch) * n_columns * forward.bytes_per_token // n_apart
        if continued_block(begun, n_new) is not None:
            return 0
        n_columns += SPARE_COLUMNS if any(continues[i] for i in batch) else 0
        return len(batch) * n_columns * forward.bytes_per_token

    alone = [i for i in branches if chunk.branches[i].apart or (ends is not None and ends[i])]
    passes = [[[i]] for i in alone]
    rest = [i for i in branches if i not in alone]
    for side in sorted({chunk.branches[i].side for i in rest}):
        cut = batches(
            chunk,
            [i for i in rest if chunk.branches[i].side == side],
            starts,
            lasting,
            limits,
            forward.bytes_per_token,
            joins=joins,
            views=forward.hides_in_view,
            pads_lasting=forward.forks_anywhere,
            bytes_per_row=forward.bytes_per_fork,
        )
        passes += together(cut, chunk, starts, limits, state_bytes) if joins else ([batch] for batch in cut)
    return passes


def halves(group: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    """A pass over several batches as two over half of them; over one, as two over half of its rows."""
    if len(group) > 1:
        half = len(group) // 2
        return [[list(batch) for batch in part] for part in (group[:half], group[half:])]
    half = len(group[0]) // 2
    return [[list(part)] for part in (group[0][:half], group[0][half:]) if part]
