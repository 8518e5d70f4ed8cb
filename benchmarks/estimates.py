"""Guesses at a number that can also be had exactly: how far off they are, and their time beside slower ways'.

The error of a guess is one of chance, not of rounding: the root mean square, over queries and seeds, of what it is off,
as a share of the exact number.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.base import Peer, steady
from leakmeter.backends.hf import HfBackend

N_SEEDS = 4
OURS = "forked"
"""What rows call our own slow way."""


@dataclass(frozen=True)
class Estimate:
    """One way to guess."""

    run: Callable[[int], np.ndarray]
    """Seed to what is guessed of each query, (query,)."""
    n_passes: int
    """Backward passes for each query."""
    is_random: bool = True


@dataclass(frozen=True)
class Estimates:
    """Ways to guess, what they guess at, and slow ways to what that stands for."""

    settings: Mapping[str, Estimate]
    exact: Callable[[], np.ndarray]
    """What is guessed at, (query,)."""
    measured: Callable[[], np.ndarray]
    """What it stands for, as we measure it, nats: (query,)."""
    peers: Mapping[str, Peer]
    """Other ways to the same."""
    n_queries: int
    data: str = "random token ids"


def rows(made: Estimates, backend: HfBackend, n_rounds: int) -> Iterator[dict[str, Any]]:
    """What is known of our slow way, then of each setting.

    Args:
        made: the ways.
        backend: what they run on.
        n_rounds: how often all of them are timed, one after the other; 0 to time nothing.
    """
    measured, exact = made.measured(), made.exact()
    found: dict[str, dict[str, Any]] = {OURS: {}}
    for name, peer in made.peers.items():
        found[OURS] |= {
            f"max_abs_diff_nats_{name}": float(np.abs(peer.of(measured) - peer.run()).max()),
            f"part_timed_{name}": peer.part,
        }
    for setting, estimate in made.settings.items():
        # What is not drawn is the same with any seed.
        guesses = np.stack([estimate.run(seed) for seed in range(N_SEEDS if estimate.is_random else 1)])
        found[setting] = {
            "backward_passes": estimate.n_passes,
            "relative_rms_error": float(np.sqrt(np.mean((guesses / exact - 1.0) ** 2))),
            "n_guesses": guesses.size,
        }
    times = _times(made, backend, n_rounds)
    for setting, row in found.items():
        yield {"setting": setting, "data": made.data, **row, **_beside(setting, made, times)}


def _times(made: Estimates, backend: HfBackend, n_rounds: int) -> list[dict[str, float]]:
    """Of each steady round, every way's seconds for a query, and the matrix rate under ''."""
    works: list[tuple[str, Callable[[], np.ndarray], float]] = [
        *((setting, partial(estimate.run, 0), 1.0) for setting, estimate in made.settings.items()),
        (OURS, made.measured, 1.0),
        *((name, peer.run, peer.part) for name, peer in made.peers.items()),
    ]
    tried = [steady([work for _, work, _ in works], backend) for _ in range(n_rounds)]
    times = [
        {"": rate} | {name: s / part / made.n_queries for (name, _, part), s in zip(works, taken, strict=True)}
        for taken, rate in filter(None, tried)
    ]
    if n_rounds and not times:
        sys.stderr.write("no round was steady; the machine is too busy\n")
    return times


def _beside(setting: str, made: Estimates, times: list[dict[str, float]]) -> dict[str, Any]:
    """Seconds for a query, and how many times as long the slow ways take, medians over rounds."""
    if not times:
        return {}
    slow = [name for name in (*made.peers, OURS) if name != setting]
    return {
        "s_per_query": statistics.median(one[setting] for one in times),
        **{f"s_per_query_{name}": statistics.median(one[name] for one in times) for name in slow},
        **{f"ratio_{name}": statistics.median(one[name] / one[setting] for one in times) for name in slow},
        "matrix_gflops": statistics.median(one[""] for one in times) / 1e9,
        "steady_rounds": len(times),
    }
