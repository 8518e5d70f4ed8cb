"""Requests to a chunk: a prefix tree in which every distinct token goes through the model once.

Sequences are sorted; in each group that shares a prefix the longest becomes a branch from where its parent left off,
and the others fork from it where they part:

    whole   f f f a a a b b b q q y y      branch 0, 13 tokens
    − b     f f f a a a q q y y            branch 1, forks from branch 0 after 6
    − a     f f f b b b q q y y            branch 2, forks from branch 0 after 3

A prompt that hides pieces has the states of its context from the prompt that hides none:

    a hidden                    q q y y    branch 3, forks from branch 0 after 9, and does not attend to a

A back end that can fork a sequence only where a pass over it ended learns from `Chunk.forks` where passes have to end:
those over branch 0 after 3 and 6 tokens, if none hides pieces. Where a request has tokens run one at a time, passes
have to end too, whatever forks there: `Branch.ends` has these places. A pass that ends on another side, see below, has
a sequence of its own.

Where a guarantee is held against the first prompt of a request, that prompt stands apart: it forks from no other branch
and none forks from it. What of it goes through the model, and beside what, then follows from itself alone.

Where a model's numbers depend on how long a pass is, `Chunk.side_of` parts the sequences: each side has a tree of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import PromptStates
from leakmeter.core.request import GradientRequest, Request, tokens_of
from leakmeter.errors import UsageError
from leakmeter.stats.arrays import IntArray

PrefixKeys = npt.NDArray[np.uint64]
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """The tokens of a sequence that no earlier branch has."""

    ids: IntArray
    """Token ids of the whole sequence, (token,)."""
    positions: IntArray
    parent: int
    """Index of the branch whose sequence this one forks from; −1 for none."""
    fork: int
    """Number of leading tokens shared with the parent's sequence, which has them already."""
    row_tokens: IntArray
    """Indices into the sequence, each ≥ fork, whose logits are wanted, (row,)."""
    row_slots: IntArray
    """Where in the chunk's rows each of them goes, (row,)."""
    hidden: Ranges = ()
    """Ranges [start, end) of leading tokens, all before `fork`, that no token of this branch attends to."""
    apart: bool = False
    """Whether nothing of another branch may be in its passes, nor states of one that is not apart be its start."""
    side: int = 0
    """Branches of different sides share neither a pass nor states."""
    ends: tuple[int, ...] = ()
    """Numbers of leading tokens, more than `fork`, after which a pass over it has to end, ascending; its own end is
    none of them."""

    @property
    def n_tail(self) -> int:
        return len(self.ids) - self.fork


TreeLayout = tuple[tuple[Branch, ...], tuple[IntArray, ...], int]
"""Branches, the slots of each request's rows, and how many slots there are."""


@dataclass(frozen=True)
class Chunk:
    """Requests answered together. A back end may follow `branches`; if it cannot fork, none are made."""

    requests: tuple[Request, ...]
    round: int = 0
    """How many chunks of the same trials came before: what a back end keeps in memory outlives a round, not trials."""
    side_of: Callable[[int], int] | None = None
    """Position of a sequence's last token to the side that it is on; None where all are on one."""

    @cached_property
    def layout(self) -> TreeLayout:
        return _lay_out(self.requests, self.side_of or (lambda last: 0))

    @property
    def branches(self) -> tuple[Branch, ...]:
        """What is to be run, parents first."""
        return self.layout[0]

    @property
    def slots(self) -> tuple[IntArray, ...]:
        """For each request, the slot of each prompt's wanted rows: (prompt, row)."""
        return self.layout[1]

    def forks(self, begun: Set[int] = frozenset()) -> tuple[tuple[int, ...], ...]:
        """For each branch, the numbers of leading tokens after which others fork from it, ascending; without those
        that are begun in another way."""
        forks: list[set[int]] = [set() for _ in self.branches]
        for index, branch in enumerate(self.branches):
            if branch.parent >= 0 and index not in begun:
                forks[branch.parent].add(branch.fork)
        return tuple(tuple(sorted(each)) for each in forks)

    @property
    def n_slots(self) -> int:
        return self.layout[2]

    def answers(self) -> Iterator[tuple[Request, IntArray]]:
        return zip(self.requests, self.slots, strict=True)

    @property
    def n_tree_tokens(self) -> int:
        """Distinct tokens of the prefix tree: what has to be run."""
        return sum(branch.n_tail for branch in self.branches)

    @property
    def n_full_pass_tokens(self) -> int:
        return n_full_pass_tokens(self.requests)

    @property
    def n_token_pass_tokens(self) -> int:
        """Tokens that one full pass for each prompt and wanted row would run."""
        return sum(
            len(prompt.ids) + row for request in self.requests for row in request.rows for prompt in request.prompts
        )


def n_full_pass_tokens(requests: Sequence[Request]) -> int:
    """Tokens that full passes would run: one for each prompt of the requests, and one up to each place where a pass
    has to end."""
    return sum(
        len(prompt.ids) + max(request.rows.stop - 1, 0) + sum(request.ends(prompt))
        for request in requests
        for prompt in request.prompts
    )


@dataclass(slots=True)
class _BranchDraft:
    sequence: int
    parent: int
    fork: int
    hidden: Ranges = ()
    slot_of: dict[int, int] = field(default_factory=dict)  # index in the sequence -> slot
    ends: set[int] = field(default_factory=set)


def chunk_of(requests: Sequence[Request], round: int = 0) -> Chunk:
    """The chunk that answers the requests of a round. The order of its branches depends on the requests alone."""
    for request in requests:
        if not request.rows.stop:
            raise UsageError("the response has no tokens to score; give at least one")
        if not all(len(prompt.ids) for prompt in request.prompts):
            raise UsageError("the prompt is empty; give the model at least one token before the response")
    return Chunk(tuple(requests), round)


def _lay_out(requests: Sequence[Request], side_of: Callable[[int], int]) -> TreeLayout:
    sequences: list[tuple[IntArray, IntArray]] = []
    keys: list[PrefixKeys] = []
    seen: dict[tuple[bytes, bool], int] = {}
    apart: set[int] = set()  # sequences that share nothing with the others

    def number_of(ids: IntArray, positions: IntArray, *, is_apart: bool = False) -> int:
        key = (positions.astype(np.uint64) << np.uint64(32)) | ids.astype(np.uint64)
        index = seen.setdefault((key.tobytes(), is_apart), len(sequences))
        if index == len(sequences):
            sequences.append((ids, positions))
            keys.append(key)
            if is_apart:
                apart.add(index)
        return index

    # request -> prompt -> sequences and where passes over them end: of tokens that run alone, one for each side
    members: list[list[list[tuple[int, Sequence[int]]]]] = []
    lasting: set[int] = set()  # sequences that the next round takes further
    begun: dict[tuple[int, int, int], int] = {}  # number of the sequence that hiding prompts have their states from
    for number, request in enumerate(requests):
        members.append([])
        n_rows = request.rows.stop
        for at, prompt in enumerate(request.prompts):
            # Prompts that hide different pieces of one context have its ids in one array.
            context = (id(prompt.ids), id(prompt.positions), number)
            if prompt.hidden_tokens:
                if context not in begun:
                    begun[context] = number_of(*_sequence(prompt, request.response, n_rows))
                members[-1].append([(begun[context], request.ends(prompt))])
            else:
                is_apart = at == 0 and request.reduction.bare_first
                ids, positions = _sequence(prompt, request.response, n_rows)
                parts: list[tuple[int, Sequence[int]]] = [
                    (number_of(ids[:n], positions[:n], is_apart=is_apart), ends)
                    for *ends, n in _by_sides(positions, request.ends(prompt), side_of)
                ]
                members[-1].append(parts)
                if request.reduction.continues:
                    lasting.add(parts[-1][0])

    sides = [side_of(int(positions[-1])) for _, positions in sequences]
    branches, branch_of = _decompose(keys, lasting, apart, sides)
    hiding: dict[tuple[int, Ranges, int], int] = {}
    slots: list[IntArray] = []
    n_slots = 0
    for request, of_prompts in zip(requests, members, strict=True):
        rows = request.rows
        table = np.empty((len(request.prompts), len(rows)), dtype=np.int64)
        for i, (prompt, parts) in enumerate(zip(request.prompts, of_prompts, strict=True)):
            first = 0
            for sequence, ends in parts:
                branch, n_tokens = branch_of[sequence], len(sequences[sequence][0])
                if prompt.hidden_tokens and n_tokens > prompt.n_before:
                    branch = hiding.setdefault((sequence, prompt.hidden_tokens, prompt.n_before), len(branches))
                    if branch == len(branches):
                        parent = _holder(branches, branch_of[sequence], prompt.n_before - 1)
                        branches.append(_BranchDraft(sequence, parent, prompt.n_before, prompt.hidden_tokens))
                for j, row in enumerate(rows):
                    token = len(prompt.ids) - 1 + row
                    if first <= token < n_tokens:
                        owner = _holder(branches, branch, token)
                        slot = branches[owner].slot_of.setdefault(token, n_slots)
                        n_slots += slot == n_slots
                        table[i, j] = slot
                for end in ends:
                    branches[_holder(branches, branch, end - 1)].ends.add(end)
                first = n_tokens
        slots.append(table)

    laid_out = tuple(
        Branch(
            *sequences[branch.sequence],
            parent=branch.parent,
            fork=branch.fork,
            row_tokens=np.fromiter(branch.slot_of.keys(), dtype=np.int64),
            row_slots=np.fromiter(branch.slot_of.values(), dtype=np.int64),
            hidden=branch.hidden,
            apart=branch.sequence in apart,
            side=sides[branch.sequence],
            ends=tuple(sorted(end for end in branch.ends if end < len(sequences[branch.sequence][0]))),
        )
        for branch in branches
    )
    return laid_out, tuple(slots), n_slots


def chunk_of_contexts(requests: Sequence[GradientRequest]) -> Chunk:
    """A chunk that finds the states of a place behind contexts: for each request that needs them, a request for each of
    its contexts, in order, with rows from the first token whose vectors vary to the last one."""
    states: list[Request] = []
    for request in requests:
        role = request.place.role
        for prompt in request.contexts if request.runs_contexts else ():
            last = max(i for i, piece in enumerate(prompt.pieces) if piece.role == role)
            needed = Prompt(prompt.pieces[: last + 1])
            states.append(Request((needed,), (), PromptStates(len(needed.ids) - int(tokens_of(needed, role)[0]))))
    return chunk_of(states)


def _holder(branches: Sequence[_BranchDraft], branch: int, token: int) -> int:
    """The branch that runs a token, among a sequence's branch and those it forks from."""
    while token < branches[branch].fork:
        branch = branches[branch].parent
    return branch


def _sequence(prompt: Prompt, response: tuple[int, ...], n_rows: int) -> tuple[IntArray, IntArray]:
    # The last wanted row needs only the tokens before the one it predicts.
    n_fed = max(n_rows - 1, 0)
    ids = np.concatenate([prompt.ids, np.asarray(response[:n_fed], dtype=np.int64)])
    after = prompt.next_position + np.arange(n_fed, dtype=np.int64)
    return ids, np.concatenate([prompt.positions, after])


def _by_sides(positions: IntArray, ends: Sequence[int], side_of: Callable[[int], int]) -> list[list[int]]:
    """The ends of passes over a sequence, its own the last of them, those on one side together."""
    return [list(some) for _, some in groupby([*ends, len(positions)], lambda end: side_of(int(positions[end - 1])))]


def _decompose(
    keys: Sequence[PrefixKeys], lasting: Set[int], apart: Set[int], sides: Sequence[int]
) -> tuple[list[_BranchDraft], list[int]]:
    """Cut each side's tree of sequences into branches, parents first; returns them and each sequence's branch. A
    branch's main sequence is a lasting one, so that its states are held once, else the longest."""
    # Big-endian bytes sort as the numbers do, and compare in C.
    order = sorted(set(range(len(keys))) - apart, key=lambda i: keys[i].astype(">u8").tobytes())
    branches = [_BranchDraft(i, -1, 0) for i in sorted(apart)]
    branch_of = [0] * len(keys)
    for number, branch in enumerate(branches):
        branch_of[branch.sequence] = number
    of_sides = [[i for i in order if sides[i] == side] for side in sorted(set(sides))]
    todo = [(group, -1, 0) for of_side in of_sides for group in _split(keys, of_side, 0)]
    todo.reverse()
    while todo:
        group, parent, fork = todo.pop()
        main = max(group, key=lambda i: (i in lasting, len(keys[i])))
        number = len(branches)
        branches.append(_BranchDraft(main, parent, fork))
        by_depth: dict[int, list[int]] = {}
        for other in group:
            shared = _common_prefix(keys[main], keys[other])
            branch_of[other] = number
            if shared < len(keys[other]):
                by_depth.setdefault(shared, []).append(other)
        for depth, others in sorted(by_depth.items()):
            todo.extend((part, number, depth) for part in reversed(_split(keys, others, depth)))
    return branches, branch_of


def _split(keys: Sequence[PrefixKeys], ordered: Sequence[int], depth: int) -> list[list[int]]:
    parts: dict[int, list[int]] = {}
    for i in ordered:
        parts.setdefault(int(keys[i][depth]), []).append(i)
    return list(parts.values())


def _common_prefix(left: PrefixKeys, right: PrefixKeys) -> int:
    n = min(len(left), len(right))
    differs = left[:n] != right[:n]
    first = int(np.argmax(differs)) if n else 0
    return first if n and differs[first] else n
