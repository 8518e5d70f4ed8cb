"""`python -m benchmarks.linear --out FILE.png`: seconds against tree tokens, for contexts of 128 to 2048 tokens.

From every context the same number of blocks is removed, evenly spread from its start to its end, so that the tree grows
linearly with the context. Printed: one JSON object a length, then one with the straight-line fit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import base, peers
from leakmeter.backends.hf import HfBackend
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of

_BLOCK, _N_BLOCKS, _N_QUERY, _N_RESPONSE = 32, 8, 20, 16


def main() -> None:
    """Measure every length, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linear", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the plot, a .png")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024, 2048])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--full-pass", action="store_true", help="time one full pass a prompt as well")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default=None)
    options = parser.parse_args()
    backend = base.load(options.model, options.device, options.dtype)
    base.scored(backend, [_request(min(options.lengths))])  # warm
    rows = []
    for length in options.lengths:
        row = _measured(backend, length, options.repeats, options.full_pass)
        if row is None:
            sys.stderr.write(f"{length} context tokens: never steady; the machine is too busy\n")
            continue
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        rows.append(row)
    if len(rows) < 2:
        raise SystemExit("fewer than two lengths were measured: nothing to fit")
    sys.stdout.write(json.dumps(_fit(rows)) + "\n")
    _draw(rows, options.out, backend.name)


def _request(n_context: int) -> Request:
    """Whole context, then the context without each of the blocks."""
    rng = np.random.default_rng(6)
    context, query, response = (
        tuple(int(i) for i in rng.integers(100, 30_000, size=n)) for n in (n_context, _N_QUERY, _N_RESPONSE)
    )
    starts = np.linspace(0, n_context - _BLOCK, _N_BLOCKS).round().astype(int)
    kept = [context, *(context[:start] + context[start + _BLOCK :] for start in starts)]
    prompts = tuple(Prompt((Piece("c", "context", ids), Piece("q", "query", query))) for ids in kept)
    return Request(prompts, response, TargetLogProbs())


def _measured(backend: HfBackend, n_context: int, repeats: int, with_full_pass: bool) -> dict[str, Any] | None:
    request = _request(n_context)
    works: list[Any] = [lambda: base.scored(backend, [request])]
    if with_full_pass:
        responses = [request.response] * len(request.prompts)
        works.append(lambda: peers.full_pass(backend.model, request.prompts, responses))
    taken = [found[0] for found in (base.steady(works, backend) for _ in range(repeats)) if found is not None]
    if not taken:
        return None
    chunk = chunk_of([request])
    row = {
        "context_tokens": n_context,
        "tree_tokens": chunk.n_tree_tokens,
        "full_pass_tokens": chunk.n_full_pass_tokens,
        "seconds": statistics.median(times[0] for times in taken),
        "steady_repeats": len(taken),
    }
    if with_full_pass:
        row["full_pass_seconds"] = statistics.median(times[1] for times in taken)
    return row


def _fit(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds = start + slope × tree tokens by least squares, and how far the measurements lie from it."""
    tokens, taken = (np.asarray([row[key] for row in rows], dtype=float) for key in ("tree_tokens", "seconds"))
    slope, start = np.polyfit(tokens, taken, 1)
    line = start + slope * tokens
    return {
        "seconds_per_1000_tree_tokens": float(1000 * slope),
        "seconds_at_none": float(start),
        "r_squared": float(1 - ((taken - line) ** 2).sum() / ((taken - taken.mean()) ** 2).sum()),
        "largest_relative_residual": float(np.abs(taken / line - 1).max()),
    }


def _draw(rows: Sequence[dict[str, Any]], out: Path, model: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    fit = _fit(rows)
    figure, axes = plt.subplots(figsize=(6.4, 4.2), dpi=150)
    tokens = np.asarray([row["tree_tokens"] for row in rows])
    axes.plot(tokens, [row["seconds"] for row in rows], "o", color="#1f5fa8", label="leakmeter, against tree tokens")
    ends = np.asarray([0, tokens.max()])
    axes.plot(
        ends,
        fit["seconds_at_none"] + fit["seconds_per_1000_tree_tokens"] * ends / 1000,
        color="#1f5fa8",
        linewidth=1,
        label=f"straight line, R² = {fit['r_squared']:.4f}",
    )
    for row in rows:
        axes.annotate(
            f"{row['context_tokens']}",
            (row["tree_tokens"], row["seconds"]),
            textcoords="offset points",
            xytext=(4, -11),
            fontsize=8,
        )
    if all("full_pass_seconds" in row for row in rows):
        axes.plot(
            [row["full_pass_tokens"] for row in rows],
            [row["full_pass_seconds"] for row in rows],
            "s",
            color="#b3541e",
            label="one full pass a prompt, against all its tokens",
        )
    axes.set_xlabel("tokens run (beside a point: context tokens)")
    axes.set_ylabel("seconds")
    axes.set_title(f"{_N_BLOCKS} blocks of {_BLOCK} tokens left out in turn, {model}", fontsize=10)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    main()
