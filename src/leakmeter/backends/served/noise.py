"""How far a served model's log-probabilities move when nothing but the way of asking changes.

A server computes a sequence in batches of whatever comes at the time, and takes up states that it kept of earlier
requests. With quantised weights either moves a log-probability by more than 0.1 nats. The same sequences are asked for
in every way that a run asks: again, in the other order, together, token by token, and without kept states where these
are read. A run and the doctor both measure it here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leakmeter.backends.served.dialect import UNCACHED, Dialect, SequenceToScore

if TYPE_CHECKING:
    from leakmeter.backends.served.connection import Connection
    from leakmeter.core.item import Item

_ONE_BY_ONE: Final = 3
"""Times that each sequence is asked for alone: first, again, in the other order."""
_TOGETHER: Final = 2
"""Times that each sequence is asked for while the others are."""
_SINGLE_TOKENS: Final = 4
"""Last tokens of a response that are scored one by one too."""
_TAIL: Final = 16
"""Tokens of a prompt that stand for a response where there is none yet."""

_Values = Mapping[int, float]
"""Log-probabilities by the number of the token in the response; by its id where only likeliest tokens are given."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Largest differences of one log-probability, nats, between two ways to ask for the same."""

    repeat_nats: float
    """Asked for a second time."""
    order_nats: float
    """In the other order."""
    company_nats: float
    """With others at the same time, against alone."""
    cache_nats: float | None
    """Without states that the server kept, against as usual; None where these are not read, or that cannot be asked
    for."""
    split_nats: float | None
    """A token alone, behind those before it, against within its response; None where given tokens have no
    log-probability, or responses one token."""
    nats: float
    """Between any two of these ways: the noise floor of one log-probability."""
    response_nats: float | None
    """Between any two ways that score a whole response, of its sum; None where given tokens have no log-probability."""
    concurrency: int
    """Most requests at a time: with more of them the company is another."""


def measured_noise(dialect: Dialect, connection: Connection, sequences: Sequence[SequenceToScore]) -> Noise:
    """Measure the noise on some sequences, best ones like those of a run: as long, and with a common beginning."""

    values_of = partial(_values, dialect)
    first, again = ([values_of(scored) for scored in sequences] for _ in range(2))
    other = [values_of(scored) for scored in reversed(sequences)][::-1]
    n = len(sequences)
    together = connection.in_order(values_of, [*sequences] * _TOGETHER)
    ways: list[Sequence[_Values]] = [first, again, other, *(together[i * n : (i + 1) * n] for i in range(_TOGETHER))]
    cache: float | None = None
    if _skips_kept_states(dialect):
        uncached = [dict(enumerate(dialect.probed_log_probs(s, UNCACHED).log_probs.tolist())) for s in sequences]
        cache = _largest([uncached, first, again], lambda values: max(abs(values[0] - v) for v in values[1:]))
        ways.append(uncached)
    single = [{token: values_of(alone)[0] for token, alone in parts.items()} for parts in _split(dialect, sequences)]
    has_targets = dialect.abilities().targets
    return Noise(
        repeat_nats=_spread([first, again]),
        order_nats=_spread([again, other]),
        company_nats=max(_spread([again, ways[3 + i]]) for i in range(_TOGETHER)),
        cache_nats=cache,
        split_nats=_spread([again, single]) if any(single) else None,
        nats=max(_spread(ways), _spread([*ways, single])),
        response_nats=_spread([[{0: math.fsum(v.values())} for v in way] for way in ways]) if has_targets else None,
        concurrency=connection.concurrency,
    )


def noise_requests(dialect: Dialect, sequences: Sequence[SequenceToScore]) -> list[SequenceToScore]:
    single = [alone for parts in _split(dialect, sequences) for alone in parts.values()]
    return [*sequences] * (_ONE_BY_ONE + _TOGETHER + int(_skips_kept_states(dialect))) + single


def sequences_of(item: Item) -> list[SequenceToScore]:
    """Sequences to measure the noise of a case on: a few of its own prompts, each with its response. Where there is no
    response yet, the last tokens of the prompt stand for it."""
    sequences: dict[SequenceToScore, None] = {}
    for prompt in item.typical_prompts:
        ids = tuple(prompt.ids.tolist())
        if item.response:
            sequences[SequenceToScore(ids, item.response)] = None
        else:
            cut = max(1, len(ids) - _TAIL)
            sequences[SequenceToScore(ids[:cut], ids[cut:])] = None
    return list(sequences)


def _skips_kept_states(dialect: Dialect) -> bool:
    """Whether it reads states that were kept, and a request can forbid that."""
    return dialect.reads_prefix_cache and "cache" in dialect.controls


def _split(dialect: Dialect, sequences: Sequence[SequenceToScore]) -> list[dict[int, SequenceToScore]]:
    """For each sequence its response's last tokens by their index, each alone behind those before it."""
    if not dialect.abilities().targets:
        return [{} for _ in sequences]
    parts: list[dict[int, SequenceToScore]] = []
    for prompt, response in ((sequence.prompt, sequence.response) for sequence in sequences):
        n = len(response)
        last = range(max(0, n - _SINGLE_TOKENS), n) if n > 1 else ()
        parts.append({t: SequenceToScore((*prompt, *response[:t]), response[t : t + 1]) for t in last})
    return parts


def _values(dialect: Dialect, scored: SequenceToScore) -> _Values:
    has = dialect.abilities()
    if has.targets:
        return dict(enumerate(dialect.target_log_probs(scored).tolist()))
    (row,) = dialect.top_rows(SequenceToScore(scored.prompt, ()), range(1), has.most_top or 1)
    return row


def _spread(ways: Sequence[Sequence[_Values]]) -> float:
    return _largest(ways, lambda values: max(values) - min(values))


def _largest(ways: Sequence[Sequence[_Values]], statistic: Callable[[list[float]], Any]) -> float:
    """The largest `statistic` of the log-probabilities that all ways have; equal infinities do not differ."""
    largest = 0.0
    for alike in zip(*ways, strict=True):
        for key in set.intersection(*(set(way_values) for way_values in alike)):
            values = [way_values[key] for way_values in alike]
            if len(set(values)) > 1:
                largest = max(largest, float(statistic(values)))
    return largest
