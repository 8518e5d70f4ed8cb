"""`python -m benchmarks SCENARIO [--json] [--device cuda] [--model NAME]`: ours and each peer in turn, in one process.

A pair counts only if the matrix-product rate measured before and after it differs by under 10 %; medians of the pairs
that count are printed, one JSON object a peer. A peer that is not installed is left out with a line on stderr. `fisher`
times all its ways in turn instead of pairs, and prints one object a setting, with its error of chance beside its time.
`disclosures` says how many planted leaks each method finds, and which of what it finds are leaks.
`store`, `extraction` and `traces` need no model: they write ten million measurements and ask for them, find people in
80 MB of documents, and read logged traffic. `ledger-day` puts a day of logged answers into a ledger. `scale` simulates
fleets of workers; `many` writes very large runs, and very many. `jobs` times the main commands from start to end.
`games` lets a referee have answers written from one of two texts, and says how often leakmeter's posterior is right.
`gpu` asks a lent card everything in five minutes.
`int8` says what weights in eight bits save and change. `log` measures a large log of answers step by step.
`pii-origins` counts people whom no model can know and whose
values are called known. `pages` asks a server for its pages. `architectures` holds every measure on tiny models of many
architectures against plain passes. `intervals` simulates what intervals cover. `--tiny` makes any of them as small as
it can be and still do all that it does, to see that it runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import (
    architectures,
    base,
    extraction,
    games,
    gpu,
    int8,
    intervals,
    jobs,
    ledger_day,
    log,
    many,
    pages,
    pii_origins,
    scale,
    scenarios,
    store,
    traces,
)
from benchmarks.disclosures import run as disclosures
from benchmarks.estimates import Estimates, rows
from benchmarks.machine import forget_peak_rss, operations, peak_rss_mib
from leakmeter.cli.process import keep_freed_memory

_TINY_RUN = (8, 4, 5)  # cases, pieces, tokens
_TINY_TEXT = 20_000  # bytes
_TINY_TRAFFIC = (5, 20)  # traces, words
_OWN = (
    architectures.NAME,
    gpu.NAME,
    int8.NAME,
    intervals.NAME,
    jobs.NAME,
    log.NAME,
    store.NAME,
    extraction.NAME,
    traces.NAME,
    ledger_day.NAME,
    scale.NAME,
    many.NAME,
    pages.NAME,
    pii_origins.NAME,
)


def main() -> None:
    """Run one scenario."""
    options = _options()
    if options.scenario in _OWN:
        for row in _without_a_model(options):
            _print({"scenario": options.scenario, **row}, options.json)
        return
    # As the command line does for itself; the peers profit too.
    keep_freed_memory()
    backend = base.load(options.model, options.device, options.dtype)
    if options.scenario == disclosures.NAME:
        half = {"seed": options.seed, "part": options.part, "run": options.data, "tiny": options.tiny}
        for row in disclosures.rows(backend, **half):
            _print({"scenario": options.scenario, **row}, options.json)
        return
    if options.scenario == games.NAME:
        writer = base.load(options.writer, options.device, options.dtype) if options.writer else None
        for row in games.rows(
            *(backend, writer, options.data, options.out), seed=options.seed, **games.TINY if options.tiny else {}
        ):
            _print({"scenario": options.scenario, **row}, options.json)
        return
    scenario = scenarios.build(options.scenario, backend, options.data, tiny=options.tiny)
    if isinstance(scenario, Estimates):
        if options.memory or options.peer:
            raise SystemExit(f"{options.scenario} is one table; give it neither --memory nor --peer")
        for row in rows(scenario, backend, 0 if options.check else options.pairs):
            _print({"scenario": options.scenario, **row}, options.json)
        return
    if options.memory:
        loaded = forget_peak_rss()
        scenario.ours()
        sys.stdout.write(f"{peak_rss_mib() - loaded}\n")
        return
    warm = scenario.ours()
    for name, make in scenario.peers.items():
        if options.peer not in (None, name):
            continue
        try:
            peer = make(warm)
        except base.UnavailableError as why:
            sys.stderr.write(f"{options.scenario} against {name}: left out: {why}\n")
            continue
        row = {
            "scenario": options.scenario,
            "peer": name,
            "data": scenario.data,
            "max_abs_diff_nats": float(np.abs(peer.of(warm) - peer.run()).max()),
            "tree_tokens": scenario.chunk.n_tree_tokens,
            "peer_tokens": peer.n_tokens,
            "peer_part_timed": peer.part,
        }
        if options.check:
            _print(row, options.json)
            continue
        tried = [base.steady((scenario.ours, peer.run), backend) for _ in range(options.pairs)]
        pairs = [(ours, theirs / peer.part, rate) for (ours, theirs), rate in filter(None, tried)]
        if not pairs:
            sys.stderr.write(f"{options.scenario} against {name}: no pair was steady; the machine is too busy\n")
            continue
        ours_s, peer_s, rate = (statistics.median(pair[i] for pair in pairs) for i in range(3))
        row |= {
            "ours_s": ours_s,
            "peer_s": peer_s,
            "ratio": statistics.median(pair[1] / pair[0] for pair in pairs),
            "fraction_of_limit": operations(backend.model, scenario.chunk) / rate / ours_s,
            "matrix_gflops": rate / 1e9,
            "peak_rss_mib": _memory(),
            "steady_pairs": len(pairs),
        }
        _print(row, options.json)


def _without_a_model(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if options.scenario == jobs.NAME:
        return jobs.rows(**jobs.TINY) if options.tiny else jobs.rows(options.model)
    if options.scenario == log.NAME:
        if options.data is not None:
            return log.compared(options.model, options.data)
        of_log = log.TINY if options.tiny else {"n": options.answers, "model": options.model}
        return log.rows(seed=options.seed, complete=options.check or options.tiny, **of_log)
    if options.scenario == gpu.NAME:
        of_card = {"model": options.model, "device": options.device, "dtype": options.dtype}
        return gpu.rows(**gpu.TINY) if options.tiny else gpu.rows(**of_card)
    if options.scenario == int8.NAME:
        return int8.rows(**int8.TINY) if options.tiny else int8.rows(options.model)
    if options.scenario == intervals.NAME:
        return intervals.rows(options.out, **intervals.TINY if options.tiny else {})
    if options.scenario == pii_origins.NAME:
        return pii_origins.rows(**pii_origins.TINY) if options.tiny else pii_origins.rows(options.model)
    if options.scenario == store.NAME:
        return store.rows(*_TINY_RUN) if options.tiny else store.rows()
    if options.scenario == many.NAME:
        return many.rows(**many.TINY) if options.tiny else many.rows()
    if options.scenario == traces.NAME:
        return traces.rows(*_TINY_TRAFFIC) if options.tiny else traces.rows()
    if options.scenario == pages.NAME:
        return pages.rows(*pages.TINY) if options.tiny else pages.rows()
    if options.scenario == ledger_day.NAME:
        if options.data is None or options.out is None:
            raise SystemExit(f"{options.scenario} needs --data, a directory of texts, and --out, where its files go")
        sizes = ledger_day.TINY if options.tiny else ledger_day.WHOLE
        return ledger_day.rows(options.data, options.out, model=options.model, sizes=sizes)
    if options.scenario == architectures.NAME:
        return architectures.rows(out=options.out, **architectures.TINY if options.tiny else {})
    if options.scenario == scale.NAME:
        if options.out is None:
            raise SystemExit(f"{options.scenario} needs --out, where its files go, and --data, a complete run, or none")
        return scale.rows(options.data, options.out, **scale.TINY if options.tiny else {})
    return extraction.rows(options.data, _TINY_TEXT) if options.tiny else extraction.rows(options.data)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenario", choices=(*scenarios.NAMES, disclosures.NAME, games.NAME, *_OWN))
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--model", default="smollm2-135m", help="a name, or random:llama-8b for random weights")
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--peer", default=None, help="only this one")
    parser.add_argument(
        "--data",
        type=Path,
        default=None,
        help="`sentences`: a file of PubMedQA's form; `extraction`: prose; `ledger-day`: a directory; `scale` and "
        "`disclosures`: a run; `log`: records that `leakmeter influence --data` reads; `games`: a directory of texts, "
        "or a run with controls",
    )
    parser.add_argument("--seed", type=int, default=0, help="`disclosures`, `games`, `log`: of the values in its cases")
    parser.add_argument("--answers", type=int, default=1000, help="`log`: how many")
    parser.add_argument("--writer", default=None, help="`games`: another model, which writes answers too")
    parser.add_argument("--part", choices=disclosures.PARTS, default="tuning", help="`disclosures`: of its cases")
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        help="`architectures`, `intervals`, `ledger-day`, `scale`: where its files go; `games`: a CSV file, a row each",
    )
    parser.add_argument(
        "--check", action="store_true", help="compare the numbers, time nothing; `log`: by --complete too"
    )
    parser.add_argument("--memory", action="store_true", help="only our peak memory over the loaded model, MiB")
    parser.add_argument("--tiny", action="store_true", help="as small as it can be, to see that it runs")
    return parser.parse_args()


@cache
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


if __name__ == "__main__":
    main()
