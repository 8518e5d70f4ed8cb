"""`python -m benchmarks SCENARIO [--json] [--device cuda] [--model NAME]`: ours and each peer in turn, in one process.

A pair counts only if the matrix-product rate measured before and after it differs by under 10 %; medians of the pairs
that count are printed, one JSON object a peer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import scenarios
from benchmarks.machine import forget_peak_rss, matrix_rate, operations, peak_rss_mib
from leakmeter.api import load_backend
from leakmeter.backends.hf import HfBackend

_STEADY = 0.10
_TRIES_A_PAIR = 4


def main() -> None:
    """Run one scenario."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenario", choices=scenarios.NAMES)
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--model", default="smollm2-135m", help="a name, or random:llama-8b for random weights")
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="only our peak memory over the loaded model, MiB")
    options = parser.parse_args()
    backend = _backend(options.model, options.device, options.dtype)
    scenario = scenarios.build(options.scenario, backend)
    if options.memory:
        loaded = forget_peak_rss()
        scenario.ours()
        sys.stdout.write(f"{peak_rss_mib() - loaded}\n")
        return
    warm = scenario.ours()
    for name, make in scenario.peers.items():
        peer = make(warm)
        reference = peer.run()
        ours = warm[peer.rows]
        ours = ours[:, 1, : reference.shape[-1]] if ours.ndim == 3 else ours
        pairs = [pair for pair in (_pair(backend, scenario, peer) for _ in range(options.pairs)) if pair is not None]
        if not pairs:
            sys.stderr.write(f"{options.scenario} against {name}: no pair was steady; the machine is too busy\n")
            continue
        ours_s, peer_s, rate = (statistics.median(pair[i] for pair in pairs) for i in range(3))
        ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
        _print(
            {
                "scenario": options.scenario,
                "peer": name,
                "ours_s": ours_s,
                "peer_s": peer_s,
                "ratio": ratio,
                "max_abs_diff_nats": float(np.abs(ours - reference).max()),
                "tree_tokens": scenario.chunk.n_tree_tokens,
                "peer_tokens": peer.n_tokens,
                "peer_part_timed": peer.part,
                "fraction_of_limit": operations(backend.model, scenario.chunk) / rate / ours_s,
                "matrix_gflops": rate / 1e9,
                "peak_rss_mib": _memory(),
                "steady_pairs": len(pairs),
            },
            options.json,
        )


def _backend(model: str, device: str | None, dtype: str | None) -> HfBackend:
    if not model.startswith("random:"):
        backend = load_backend(model, device=device, dtype=dtype)
        assert isinstance(backend, HfBackend)
        return backend
    from benchmarks.random_models import random_backend

    return random_backend(model.removeprefix("random:"), device or "cuda", dtype or "bfloat16")


def _pair(backend: HfBackend, scenario: scenarios.Scenario, peer: scenarios.Peer) -> tuple[float, float, float] | None:
    """Seconds of ours and of the peer (all of its work), and the matrix rate; None if the machine was never steady."""
    device, dtype = backend.model.device, backend.model.dtype
    for _ in range(_TRIES_A_PAIR):
        before = matrix_rate(device, dtype)
        ours_s, peer_s = _seconds(scenario.ours, device), _seconds(peer.run, device) / peer.part
        after = matrix_rate(device, dtype)
        if abs(after - before) <= _STEADY * before:
            return ours_s, peer_s, max(before, after)
    return None


def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def _memory() -> float:
    """Peak memory of our way over the loaded model, MiB, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks", *sys.argv[1:], "--memory"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def _print(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(row) + "\n")
    else:
        sys.stdout.write(
            "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()) + "\n"
        )
    sys.stdout.flush()


main()
