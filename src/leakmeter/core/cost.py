from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from leakmeter.core.measure import Texts
from leakmeter.core.plan import Chunk
from leakmeter.core.record import Record

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
    n_passes: float = 0
    """Times that all layers are gone through; a share where others go through them too."""
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
    predicted_tree_tokens: int | None
    """Tokens that were predicted, or most of them where what is run depends on the scores."""
    predicted_seconds: float | None
    out_of_memory_retries: int
    """How often memory ran out, and the work went on in smaller parts."""
    scored_together: int | None
    """Cases of the part; None where each was scored alone."""

    @classmethod
    def from_texts(cls, texts: Texts) -> Self:
        cost = texts["cost"]
        predicted = cost.get("predicted") or {}
        return cls(
            **{name: cost[name] for name in ("requests", "tree_tokens", "naive_tokens", "seconds")},
            predicted_tree_tokens=predicted.get("tree_tokens"),
            predicted_seconds=predicted.get("seconds"),
            out_of_memory_retries=cost["out_of_memory_retries"],
            scored_together=cost.get("scored_together"),
        )
