"""Every scenario of `python -m benchmarks` runs, at its smallest size, with every peer that is installed."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import __main__ as program
from benchmarks import (
    architectures,
    base,
    estimates,
    extraction,
    fisher,
    int8,
    intervals,
    jobs,
    linear,
    machine,
    many,
    pages,
    pii_origins,
    scale,
    scenarios,
    store,
    traces,
    vllm_engine,
)
from benchmarks.disclosures import corpus
from benchmarks.disclosures import run as disclosures
from benchmarks.random_models import random_backend

import leakmeter
from leakmeter.backends.hf import HfBackend

PEERS = {
    "ngram": ("full-pass", "naive", "captum"), "ngram-long": ("full-pass",), "susceptibility": ("padded-batches",),
    "icl-redrawn": ("full-pass",), "icl-fixed": ("full-pass",), "decode": ("naive",), "private-generation": ("naive",),
    "sentences": ("context-cite", "context-cite-batch-8", "full-pass"), "occlusion": ("inseq",),
    "answers": ("padded-case", "leakmeter-same-prompts", "vllm"),
}  # fmt: skip
PACKAGES = {"captum": "captum", "inseq": "inseq", **dict.fromkeys(PEERS["sentences"][:2], "context_cite")}
# Context-cite keeps log-odds in half the digits; measured: 8.2e-5. The others: at most 7.4e-6.
TOLERANCE = dict.fromkeys(PEERS["sentences"][:2], 3e-4)

Rows = list[dict[str, Any]]
Call = Callable[..., Rows]


@pytest.fixture(scope="module")
def tiny() -> HfBackend:
    return random_backend("llama-tiny", "cpu", "float32")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny: HfBackend) -> Call:
    """`python -m benchmarks` within this process; the machine's rate is always the same."""
    monkeypatch.setattr(base, "load", lambda *_: tiny)
    monkeypatch.setattr(base, "matrix_rate", lambda *_: 1e9)
    monkeypatch.setattr(program, "keep_freed_memory", lambda: None)

    def call(*words: str) -> Rows:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["benchmarks", *words, "--tiny", "--json"])
        program.main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return call


def test_every_scenario_is_run_here(tiny: HfBackend) -> None:
    made = {name: scenarios.build(name, tiny, tiny=True) for name in scenarios.NAMES}
    assert {name: tuple(one.peers) for name, one in made.items() if isinstance(one, base.Scenario)} == PEERS
    assert {name for name, one in made.items() if isinstance(one, estimates.Estimates)} == {"fisher"}


def test_vllm_is_asked_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a stand-in for the package, whose log-probability of a token is its id over the number of prompts."""
    (tmp_path / "vllm.py").write_text(
        "import types\n"
        "print('what a library prints')\n"
        "SamplingParams = dict\n"
        "class LLM:\n"
        "    def __init__(self, **options): pass\n"
        "    def generate(self, asked, wanted, use_tqdm):\n"
        "        for one in asked:\n"
        "            at = [{i: types.SimpleNamespace(logprob=-i / len(asked))} for i in one['prompt_token_ids']]\n"
        "            yield types.SimpleNamespace(prompt_logprobs=at)\n",
        encoding="utf-8",
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o700)
    monkeypatch.delenv(vllm_engine.PYTHON, raising=False)
    with pytest.raises(base.UnavailableError, match=vllm_engine.PYTHON):
        vllm_engine.VllmEngine(tmp_path, window=9)
    monkeypatch.setenv(vllm_engine.PYTHON, str(python))
    engine = vllm_engine.VllmEngine(tmp_path, window=9)
    assert engine.log_probs([([1, 2], [3, 4]), ([5], [6])]) == [[-1.5, -2.0], [-3.0]]
    engine.close()


def test_every_format_of_logs_is_read(run: Call) -> None:
    rows = run(traces.NAME)
    assert len(rows) == 9
    assert all((row["answers"], row["refused"]) == (5, 0) for row in rows)


def test_planted_leaks_are_looked_for_by_every_method(run: Call) -> None:
    rows = run(disclosures.NAME, "--part", "late", "--seed", "7")
    assert [row["method"] for row in rows[1:4]] == ["leakmeter", "string overlap", "recognisers and shapes alone"]
    assert all(row["cases"] == disclosures.TINY for row in rows if "cases" in row)


def test_planted_cases_say_what_they_plant() -> None:
    """Every mark is in its text, every leak has a source, and no slot or mark is left; the parts do not overlap."""
    cases = corpus.examples(3)
    assert len({case.id for case in cases}) == len(cases) == 260
    for case in cases:
        texts = (*case.documents, case.query, case.answer)
        assert not any(sign in text for text in texts for sign in "{}⟦⟧|")
        leaks = [planted for planted in case.planted if planted.is_leak]
        assert bool(leaks) == (case.kind != "clean")
        n_sources = 2 if case.kind in ("inferred", "duplicate source") else 1
        assert all(len(leak.documents) >= n_sources for leak in leaks), case.id
    tuning, held_out = corpus.halves(cases, 1)
    late = [case for case in cases if corpus.is_late(case)]
    assert (len(tuning), len(held_out), len(late)) == (100, 100, 60)
    assert len({case.id for case in (*tuning, *held_out, *late)}) == 260
    assert corpus.examples(3) == cases


@pytest.mark.long
def test_fleets_of_workers_are_simulated(run: Call, tmp_path: Path) -> None:
    cases = [{"context": f"Anna ate {n}. Bo sang.", "query": "Who?", "response": "Anna"} for n in range(3)]
    complete = leakmeter.influence("toy", cases, out=tmp_path)
    rows = run(scale.NAME, "--data", str(complete.path), "--out", str(tmp_path))
    rates = {row.get("workers"): row["parts_per_s"] for row in rows if row.get("fleet") == "even"}
    # Parts of a second are the work of one worker and of four, and nothing that a driver does is as long.
    assert [rates[n] for n in scale.TINY["workers"]] == pytest.approx([1, 4], rel=0.2)
    assert (tmp_path / "scale.png").is_file()
    again = run(scale.NAME, "--out", str(tmp_path))
    assert again[0]["write_cpu_s"] == pytest.approx(rows[0]["write_cpu_s"], rel=1e-3)


@pytest.mark.long
def test_intervals_are_simulated(run: Call, tmp_path: Path) -> None:
    rows = run(intervals.NAME, "--out", str(tmp_path))
    with (tmp_path / "intervals.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [(row["shape"], row["rule"], str(row["n"])) for row in rows] == [
        (row["shape"], row["rule"], row["n"]) for row in written
    ]
    # The same seeds give the same rows.
    assert [{**row, "scenario": intervals.NAME} for row in intervals.rows(**intervals.TINY)] == rows
    rules = ("ours", "percentile", "BCa", "studentised", "Student", "Johnson")
    assert {row["rule"] for row in rows if row["shape"] == "lognormal"} == set(rules)
    assert {row["shape"] for row in rows} > set(intervals.SHAPES)
    for row in rows:
        if row["none"] < 1.0:
            assert row["covers"] + row["too_low"] + row["too_high"] == pytest.approx(1.0)


def test_exact_bounds_hold_for_all_values_within_them() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        values = rng.beta(0.3, 2.0, size=12)
        low, high = intervals.betting(values) or (1.0, 0.0)
        assert low <= values.mean() <= high
    # Values that are all 0 or all 1 leave a width on one side.
    for all_, (low, high) in ((0.0, (0.0, 0.5)), (1.0, (0.5, 1.0))):
        found = intervals.betting(np.full(12, all_))
        assert found is not None
        assert (found[0] == 0.0, found[1] == 1.0) == (low == 0.0, high == 1.0)
        assert low <= found[0] <= found[1] <= high


@pytest.mark.long
def test_very_many_cases_are_few_files_on_paper(run: Call) -> None:
    one, catalogue, *paper = run(many.NAME)
    assert (one["cases"], one["files"]) == (30, 60)
    assert catalogue["runs"] == 5
    assert [(row["cases"], row["runs"]) for row in paper] == [(10**n, 10 ** (n - 5)) for n in (6, 7, 8, 9)]


@pytest.mark.long
def test_the_main_jobs_are_timed(run: Call) -> None:
    rows = run(jobs.NAME)
    assert [(row["job"], row["cases"]) for row in rows] == [(job, n) for job in jobs.JOBS for n in jobs.TINY["sizes"]]
    assert all(row["tokens"] > 0 for row in rows)
    assert all(0 <= row["share_inside_model"] <= 1 for row in rows if row["measured"])
    assert {row["job"] for row in rows if not row["measured"]} == {"pii probe"}


def test_architectures(run: Call) -> None:
    measured, refused = run(architectures.NAME)
    assert measured["largest"] <= 1e-4
    assert measured["largest_in"] == "icl"
    assert "not a causal language model" in refused["refused"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # torch's own: its quantization moves to torchao
def test_weights_in_eight_bits_are_held_against_float32(run: Call) -> None:
    rows = run(int8.NAME)
    left_out = {row["way"]: row["left_out"] for row in rows if "left_out" in row}
    assert all(why.startswith("torchao is not installed") for why in left_out.values())
    ways = [way for way in int8.WAYS if way not in left_out]
    assert ways[:3] == ["float32", "bfloat16", "torch dynamic int8"]
    of_kind = {what: [row for row in rows if row.get("what") == what] for what in ("layer", "pass", "answers")}
    assert [row["way"] for row in of_kind["pass"]] == [row["way"] for row in of_kind["answers"]] == ways
    assert len(of_kind["layer"]) == len(ways) * len({row["shape"] for row in of_kind["layer"]})
    assert all(row["seconds"] > 0 for row in of_kind["layer"] + of_kind["pass"])
    exact, *others = of_kind["answers"]
    assert (exact["log_prob_largest_error_nats"], exact["findings_changed"], exact["disclosures_lost"]) == (0.0, 0, 0)
    assert all(row["log_prob_largest_error_nats"] > 0 for row in others)
    assert all(row["answers"] == 2 and row["documents"] == 4 for row in of_kind["answers"])
    assert all(("refused" in row) != ("engine_seconds" in row) for row in of_kind["answers"])


def test_people_of_several_origins_are_probed_for(run: Call) -> None:
    rows = run(pii_origins.NAME)
    origins, n = pii_origins.TINY["origins"], pii_origins.TINY["n"]
    assert [(row["origin"], row["type"]) for row in rows] == [
        (of, kind) for of in origins for kind in pii_origins.TYPES
    ]
    assert all(0 <= row["n_known"] <= row["n_low"] <= row["n_low_among_decoys"] <= row["n"] <= n for row in rows)


@pytest.mark.long
def test_pages_are_asked_for_under_load(run: Call) -> None:
    rows = run(pages.NAME)
    assert rows[-1]["requests"] == 2 * (len(rows) - 1)
    assert all(row["p50_ms"] <= row["p95_ms"] <= row["p100_ms"] for row in rows)


@pytest.mark.filterwarnings("ignore")  # the packages' own
@pytest.mark.parametrize(("scenario", "peer"), [(name, peer) for name, peers in PEERS.items() for peer in peers])
def test_ours_and_the_peers_numbers_agree(run: Call, scenario: str, peer: str) -> None:
    if peer == "vllm":
        pytest.skip("vLLM needs an environment and a model directory of its own (see benchmarks/vllm_engine.py)")
    if peer in PACKAGES and importlib.util.find_spec(PACKAGES[peer]) is None:
        pytest.skip(f"{PACKAGES[peer]} is not installed (pip install -e '.[bench]')")
    (row,) = run(scenario, "--peer", peer, "--check")
    assert (row["scenario"], row["peer"]) == (scenario, peer)
    assert row["max_abs_diff_nats"] < TOLERANCE.get(peer, 3e-5)
    assert 0 < row["peer_part_timed"] <= 1
    assert 0 < row["tree_tokens"] < row["peer_tokens"]


def test_a_peer_that_is_not_installed_is_left_out(
    run: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("captum", "captum.attr"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "ngram", "--tiny", "--check", "--json"])
    program.main()
    out, err = capsys.readouterr()
    assert [json.loads(line)["peer"] for line in out.splitlines()] == ["full-pass", "naive"]
    assert re.fullmatch("ngram against captum: left out: .*\n", err)


def within(main: Callable[[list[str]], None]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Stands for `subprocess.run`: programs are run in this process, since to start them would take the time."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main(command)
        return subprocess.CompletedProcess(command, 0, out.getvalue(), "")

    return run


def test_pairs_are_timed(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(command: list[str]) -> None:
        assert command[1:3] == ["-m", "benchmarks"]
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", command[2:])
            program.main()

    monkeypatch.setattr(subprocess, "run", within(main))
    (row,) = run("ngram", "--peer", "full-pass", "--pairs", "2")
    assert (row["steady_pairs"], row["matrix_gflops"]) == (2, 1.0)
    assert min(row["ours_s"], row["ratio"]) > 0
    assert row["peak_rss_mib"] >= 0


def test_estimates_are_timed(run: Call) -> None:
    rows = run("fisher", "--pairs", "1")
    assert [row["setting"] for row in rows] == ["forked", "sketch 4", "deflated 8 + 8", "top-k 16"]
    assert {row["setting"] for row in rows} <= {"forked", *fisher.SETTINGS}
    assert rows[0]["max_abs_diff_nats_padded"] < 1e-5
    assert all(row["steady_rounds"] == 1 and row["s_per_query"] > 0 for row in rows)


@pytest.mark.long
def test_a_run_is_written_and_asked_for(run: Call) -> None:
    write, *queries = run(store.NAME)
    assert write["rows"] == 8 * 4 * 5
    assert [row["rows_found"] for row in queries] == [4, 8 * 4, 4 * 5]


@pytest.mark.long
def test_people_are_found_in_documents(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without workers."""
    from leakmeter.cli import main, process

    def called(command: list[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(command[3:])
        assert not ended.value.code

    monkeypatch.setattr(process, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(subprocess, "run", within(called))
    rows = run(extraction.NAME)
    assert [row["text"] for row in rows] == ["people"] * 4 + ["mail"] * 4
    assert all(row["documents"] > 0 for row in rows)
    assert all(row["people"] > 0 for row in rows if row["text"] == "people" and row["find"] != "universities")


def test_seconds_grow_with_tokens(
    run: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "cost.png"
    words = ["linear", "--out", str(out), "--lengths", "40", "64", "--repeats", "1", "--full-pass"]
    monkeypatch.setattr(sys, "argv", words)
    linear.main()
    *rows, fit = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["context_tokens"] for row in rows] == [40, 64]
    assert {"seconds_per_1000_tree_tokens", "r_squared"} <= set(fit)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_the_machines_rate_is_measured(tiny: HfBackend) -> None:
    assert machine.matrix_rate(tiny.model.device, tiny.model.dtype, seconds=0.01) > 1e6
