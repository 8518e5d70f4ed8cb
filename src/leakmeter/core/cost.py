"""What trials take on a model of some size and speed: predicted on a back end that counts alone, and what they took.

To predict, every trial is driven to its end on answers of the right shape, so that whatever a measure asks is counted:
tokens run (each round's prefix tree, less what the round before left in memory), rows, passes. Answers hold no
information. A response that is still to be drawn counts with all the tokens it may have: nothing that is drawn ends it,
and responses drawn side by side part at their first token.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

import numpy as np

from leakmeter.core.backend import Backend, Capabilities, Sharing, Tokenizer, no_gradients
from leakmeter.core.drive import drive
from leakmeter.core.measure import Texts
from leakmeter.core.plan import Chunk, Run
from leakmeter.core.record import Record
from leakmeter.core.request import DrawRequest, GradientRequest, Gradients, Request, Responses, Scores, Trial
from leakmeter.overriding import override

_ANY_VOCAB: Final = 2**18  # of a model whose size is not known: a reduction may name any token
Shape = tuple[int, tuple[int, ...]]
"""How many of two prompts a reduction's answer tells apart, and the shape of what it keeps of a row."""
_SHAPES: Final[dict[tuple[object, ...], Shape]] = {}
"""By reduction and vocabulary: to see one takes 10 ms, as long as a short case of a small model."""
_RANDOMNESS: Final = ("uniform", "random")
"""Fields of reductions that draw, on which no shape depends."""
# Share of the best matrix-product rate that long passes reach: from whole measurements of given responses (cuts by
# sentence and by n-gram) with the default model in float32: 0.66 to 0.68 on two CPU cores, 0.75 on one.
_EFFICIENCY = 0.68
# A logit on its way to a log-probability has two float32 temporaries; to make and to sum them, ten numbers are moved.
_REDUCTION_MOVED_BYTES = 40


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large a model is, and in what portions its back end works."""

    n_layer_parameters: int
    """Weights that every token is multiplied with: all but embedding and head."""
    n_head_parameters: int
    """Hidden size times vocabulary: weights that every wanted row is multiplied with."""
    n_vocab: int
    n_layers: int
    query_width: int
    """Query heads times head size."""
    state_width: int
    """Numbers kept for a token in each layer: key/value heads times head size, for keys and for values."""
    bytes_per_number: int
    """2 or 4, by precision."""
    n_pass_tokens: int
    """Most tokens of one pass over several sequences; a longer sequence has a pass of its own."""
    n_slice_logits: int
    """Most logits in memory at a time."""
    most_state_bytes: int
    """Most memory for the keys and values that later sequences begin with."""


@dataclass(frozen=True, slots=True)
class Speed:
    """At best."""

    operations_per_second: float
    """In a large matrix product; a multiply-add is two."""
    bytes_per_second: float
    """In a product of a large matrix with a vector, which has to read all of the matrix."""
    layer_seconds: float
    """Time that a layer takes in every pass, however few the tokens."""


@dataclass(slots=True)
class Work:
    n_tokens: int = 0
    """Tokens put through the layers."""
    n_seen: int = 0
    """Tokens that each of them attends to, itself included, added up."""
    n_rows: int = 0
    """Rows put through the head."""
    n_passes: int = 0
    """Times that all layers are gone through."""
    n_slices: int = 0
    """Times that the head is applied."""


def operations(size: ModelSize, work: Work) -> float:
    attention = 4.0 * size.n_layers * size.query_width * work.n_seen
    return 2.0 * size.n_layer_parameters * work.n_tokens + 2.0 * size.n_head_parameters * work.n_rows + attention


def least_operations(size: ModelSize, chunk: Chunk) -> float:
    """Operations that a chunk needs at least: each token of its prefix tree once."""
    seen = sum(n_seen(run.fork, len(run.ids)) for run in chunk.runs)
    return operations(size, Work(n_tokens=chunk.n_tree_tokens, n_seen=seen, n_rows=chunk.n_slots))


def n_seen(start: int, end: int) -> int:
    """Tokens that the tokens [start, end) of a sequence attend to, themselves included, added up."""
    return (end * (end + 1) - start * (start + 1)) // 2


def seconds(size: ModelSize, speed: Speed, work: Work) -> float:
    computing = operations(size, work) / (_EFFICIENCY * speed.operations_per_second)
    n_read = work.n_passes * size.n_layer_parameters + work.n_slices * size.n_head_parameters
    n_moved = n_read * size.bytes_per_number + work.n_rows * size.n_vocab * _REDUCTION_MOVED_BYTES
    reading = n_moved / speed.bytes_per_second
    return computing + reading + work.n_passes * size.n_layers * speed.layer_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCost(Record):
    """What measuring a case took: its share, where several were scored together."""

    requests: int
    """Prompts scored."""
    tree_tokens: int
    """Tokens put through the model."""
    naive_tokens: int
    """Tokens that one full pass for each prompt would have run."""
    seconds: float
    out_of_memory_retries: int
    """How often memory ran out, and the work went on in smaller parts."""
    scored_together: int | None
    """Cases of the part; None where each was scored alone."""

    @classmethod
    def from_texts(cls, texts: Texts) -> Self:
        cost = texts["cost"]
        return cls(
            **{name: cost[name] for name in ("requests", "tree_tokens", "naive_tokens", "seconds")},
            out_of_memory_retries=cost["out_of_memory_retries"],
            scored_together=cost.get("scored_together"),
        )


@dataclass(frozen=True, slots=True)
class Sent:
    n_requests: int = 0
    n_tokens: int = 0
    """Of all prompts, with the responses that are scored behind them."""
    is_upper_bound: bool = False
    """Whether some of it depends on what the server answers."""

    def __add__(self, other: Sent) -> Sent:
        is_upper_bound = self.is_upper_bound or other.is_upper_bound
        return Sent(self.n_requests + other.n_requests, self.n_tokens + other.n_tokens, is_upper_bound)


@dataclass(frozen=True, slots=True)
class Prediction:
    n_prompts: int
    n_tokens_run: int
    n_full_pass_tokens: int
    n_token_pass_tokens: int
    is_upper_bound: bool
    """Whether a response is still to be drawn, or a trial may end early: it counts with the most it may take."""
    work: Work
    sent: Sent | None = None
    """None unless the model is served."""


@dataclass(kw_only=True, eq=False, repr=False)
class PlanningBackend(Backend):
    """A back end that counts what another would run."""

    name: str
    tokenizer: Tokenizer
    dtype: str
    window: int | None
    sharing: Sharing
    size: ModelSize | None = None
    """None where operations have no meaning."""
    most_rows: int | None = None
    sending: Callable[[Sequence[Request]], Sent] | None = None
    """Of a served model, what a chunk's requests have the server asked."""
    draws_responses: bool = False
    hides_pieces: bool = False
    differentiates: bool = True
    refuse: Callable[[Chunk], None] | None = None
    """Refuses what the back end that will do the work cannot answer; None where it answers everything."""
    work: Work = field(default_factory=Work)
    sent: Sent = Sent()
    _kept: dict[bytes, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = self._free_tokens()

    @property
    @override
    def capabilities(self) -> Capabilities:
        return Capabilities(
            hides_pieces=self.hides_pieces,
            draws_responses=self.draws_responses,
            differentiates=self.differentiates,
            shares=self.sharing,
            most_rows=self.most_rows,
        )

    @property
    @override
    def refusal(self) -> Callable[[Chunk], None] | None:
        return self.refuse

    @override
    def score(self, chunk: Chunk) -> list[Scores]:
        self.check(chunk)
        if chunk.round == 0:
            self._kept = {}
            self._free = self._free_tokens()
        n_before = self.work.n_tokens
        if self.sending is None:
            self._count_runs(chunk)
        else:
            sent = self.sending(chunk.requests)
            self.sent += sent
            self.work.n_tokens += sent.n_tokens
        self.n_tokens_run += self.work.n_tokens - n_before
        n_rows = sum(len(request.prompts) * len(request.rows) for request in chunk.requests)
        self.work.n_rows += n_rows
        if self.size is not None:
            self.work.n_slices += -(-n_rows * self.size.n_vocab // self.size.n_slice_logits)
        return [self._answer(request, token) for request, token in zip(chunk.requests, self._free, strict=False)]

    @override
    def draw(self, requests: Sequence[DrawRequest]) -> list[Responses]:
        n_tokens = sum(len(request.seeds) * len(request.prompt.ids) for request in requests)
        self.n_tokens_run += n_tokens
        self.work.n_tokens += n_tokens
        self.sent += Sent(sum(len(request.seeds) for request in requests), n_tokens)
        return [
            Responses(tuple((next(self._free),) * request.max_new_tokens for _ in request.seeds))
            for request in requests
        ]

    @override
    def differentiate(self, requests: Sequence[GradientRequest], contexts: Chunk) -> list[Gradients]:
        if not self.differentiates:
            raise no_gradients(self.name)
        if self.size is not None:
            for request in requests:
                request.place.check(self.size.n_layers, self.name)
        work = self.work
        n_before = work.n_tokens
        self._count_runs(contexts)
        for request in requests:
            n_prompt, n_passes = len(request.prompt.ids), 1 + request.directions.n_passes
            work.n_tokens += request.n_tokens
            work.n_seen += n_passes * n_seen(0, n_prompt)
            work.n_rows += n_passes
            # Going back, tokens of many directions share a pass.
            at_once = self.size.n_pass_tokens if self.size is not None else n_prompt
            work.n_passes += 1 + -(-(request.n_tokens - n_prompt) // at_once)
            work.n_slices += n_passes
        self.n_tokens_run += work.n_tokens - n_before
        n_numbers = [request.directions.n_exact + request.directions.n_probes for request in requests]
        return [
            Gradients(np.zeros((n, len(request.sigmas), 2)), entropy=0.0, log_mass=0.0)
            for n, request in zip(n_numbers, requests, strict=True)
        ]

    def _count_runs(self, chunk: Chunk) -> None:
        work = self.work
        if self.sharing == "nothing":
            work.n_tokens += chunk.n_full_pass_tokens
            return
        continued = {int(s) for r, slots in chunk.answers() if r.reduction.continues for s in slots[:, -1]}
        kept = [not continued.isdisjoint(run.row_slots.tolist()) for run in chunk.runs]
        for level in _generations(chunk):
            starts = [self._start(run) for run in level]
            n_new = sum(len(run.ids) - start for run, start in zip(level, starts, strict=True))
            work.n_tokens += n_new
            work.n_seen += sum(n_seen(start, len(run.ids)) for run, start in zip(level, starts, strict=True))
            # Long sequences have a pass each, short ones share passes.
            n_apart = sum(run.apart for run in level)
            full = -(-n_new // self.size.n_pass_tokens) if self.size is not None else len(level)
            work.n_passes += min(full + n_apart, len(level)) if self.sharing == "prefixes" else len(level)
        self._kept = {_key(run): run for run, is_kept in zip(chunk.runs, kept, strict=True) if is_kept}

    def _start(self, run: Run) -> int:
        """Leading tokens that need not be run: the parent's, or those of a sequence that the last round kept."""
        if self.sharing != "prefixes":
            return 0
        if run.hidden:
            return run.fork
        # At least the first wanted row has to be run again.
        most = int(run.row_tokens.min()) if len(run.row_tokens) else len(run.ids) - 1
        # A response that was drawn further begins with all of what was kept: no need to compare with each.
        if _key(run, most) in self._kept:
            return most
        return max([run.fork, *(_n_shared(run, kept, most) for kept in self._kept.values())])

    def _answer(self, request: Request, token: int) -> Scores:
        """Zeros, which are log-probabilities; for a reduction that draws, the token drawn, whatever the entry means."""
        draws = _draws(request)
        n_prompts, n_entries = self._shape(request, draws=draws)
        shape = (1 if n_prompts == 1 else len(request.prompts), len(request.rows), *n_entries)
        return Scores(np.full(shape, float(token) if draws else 0.0))

    def _shape(self, request: Request, *, draws: bool) -> Shape:
        reduction: Any = request.reduction
        # A reduction may rule out all stop tokens.
        least = max(self.tokenizer.stop_ids, default=0) + 2
        n_vocab = max(least, _ANY_VOCAB if self.size is None else self.size.n_vocab)
        parameters = repr(reduction)
        if draws:
            # They differ in their randomness at each step.
            names = (field.name for field in fields(reduction) if field.name not in _RANDOMNESS)
            parameters = repr([(name, getattr(reduction, name)) for name in names])
        key = (type(reduction), parameters, draws, least, n_vocab)
        if key not in _SHAPES:
            if len(_SHAPES) >= 4096:
                _SHAPES.clear()
            try:
                _SHAPES[key] = _shape_of(request, least if draws else n_vocab)
            except IndexError:
                # Most draws name no token beside those that stop; this one does.
                _SHAPES[key] = _shape_of(request, n_vocab)
        return _SHAPES[key]

    def _free_tokens(self) -> Iterator[int]:
        # Each is drawn once in a trial: responses part at once, also from those of earlier rounds.
        return (token for token in itertools.count() if token not in self.tokenizer.stop_ids)


def predict(backend: PlanningBackend, trial: Trial[Any]) -> Prediction:
    backend.work, backend.sent = Work(), Sent()
    n_token_pass_tokens, is_upper_bound = 0, False

    def look(chunk: Chunk) -> None:
        nonlocal n_token_pass_tokens, is_upper_bound
        n_token_pass_tokens += chunk.n_token_pass_tokens
        is_upper_bound |= any(_draws(request) for request in chunk.requests)

    _, cost = drive(backend, [trial], on_plan=look)
    return Prediction(
        n_prompts=cost.n_prompts,
        n_tokens_run=cost.n_tokens_run,
        n_full_pass_tokens=cost.n_full_pass_tokens,
        n_token_pass_tokens=n_token_pass_tokens + cost.n_gradient_tokens,
        is_upper_bound=is_upper_bound or cost.n_drawn > 0 or backend.sent.is_upper_bound,
        work=backend.work,
        sent=None if backend.sending is None else backend.sent,
    )


def planning_backend(backend: Backend, size: ModelSize | None) -> PlanningBackend:
    capabilities = backend.capabilities
    return PlanningBackend(
        name=backend.name,
        tokenizer=backend.tokenizer,
        dtype=backend.dtype,
        window=backend.window,
        sharing=capabilities.shares,
        size=size,
        most_rows=capabilities.most_rows,
        sending=backend.to_be_sent if capabilities.is_remote else None,
        hides_pieces=capabilities.hides_pieces,
        draws_responses=capabilities.draws_responses,
        refuse=backend.refusal,
        differentiates=capabilities.differentiates or backend.refusal is None,
    )


def _shape_of(request: Request, n_vocab: int) -> Shape:
    with np.errstate(all="ignore"):
        # One row of two prompts.
        kept = request.reduction.reduce(np.zeros((2, 1, n_vocab), dtype=np.float32), np.asarray([n_vocab - 1]))
    return kept.shape[0], tuple(kept.shape[2:])


def _draws(request: Request) -> bool:
    """Whether a token is drawn: the response goes on, and the row behind it is wanted."""
    n_response = len(request.response)
    return request.reduction.continues and request.reduction.rows(n_response).start == n_response


def _generations(chunk: Chunk) -> list[list[Run]]:
    """Runs by their depth: a back end runs parents before children."""
    levels: list[list[Run]] = []
    level_of: list[int] = []
    for run in chunk.runs:
        level_of.append(level_of[run.parent] + 1 if run.parent >= 0 else 0)
        if level_of[-1] == len(levels):
            levels.append([])
        levels[level_of[-1]].append(run)
    return levels


def _n_shared(run: Run, other: Run, most: int) -> int:
    if run.apart != other.apart:
        return 0
    n = min(len(other.ids), most)
    same = (other.ids[:n] == run.ids[:n]) & (other.positions[:n] == run.positions[:n])
    return n if same.all() else int(np.argmin(same))


def _key(run: Run, most: int | None = None) -> bytes:
    return bytes([run.apart]) + run.ids[:most].tobytes() + run.positions[:most].tobytes()
