"""A run goes on where it was stopped: nothing is lost, nothing is done twice, the numbers are the same."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.backend import response_texts
from leakmeter.engine.loading import load_run
from leakmeter.engine.storage.rundir import RunDirectory

N_CASES = 12

SLOWLY = """
import time
from leakmeter.backends.toy import Toy
score = Toy.score
Toy.score = lambda self, chunk: (time.sleep(0.01), score(self, chunk))[1]
"""
"""So that a busy machine still finds the moment to kill."""


def command(data: Path, out: Path, *more: str, before: str = "") -> list[str]:
    program = before + "from leakmeter.cli import main; main()"
    options = ("--model", "toy", "--data", str(data), "--out", str(out), "--max-new-tokens", "12", "--json")
    return [sys.executable, "-c", program, "influence", *options, "--samples", "1", *more]


def the_run(out: Path) -> Path:
    (path,) = out.iterdir()
    return path


def numbers(run: Path) -> dict[str, list[Any]]:
    spec = json.loads((run / "spec.json").read_text(encoding="utf-8"))
    return {
        f"part {number}": [
            (r.item, r.sample, r.piece, r.statistic, r.unit, r.values.tobytes())
            for r in RunDirectory(run).read_part(number)[1]
        ]
        for number in range(spec["n_parts"])
    }


def stamps(run: Path) -> dict[str, tuple[int, int]]:
    return {p.name: (p.stat().st_mtime_ns, p.stat().st_ino) for p in run.glob("measurements-*.parquet")}


@pytest.mark.long
def test_a_run_killed_again_and_again_ends_like_one_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    rng = random.Random(0)
    words = "the a cat sat on mat Anna Ek called 555-010-7788 and 🙂 rain fell. Bo Graz in".split()  # noqa: SIM905
    texts = [" ".join(rng.choices(words, k=120)) for _ in range(N_CASES)]
    cases = [{"id": f"case {n}", "context": text, "query": "Who called?"} for n, text in enumerate(texts)]
    given = [{**case, "response": "Anna Ek called from Graz."} if n % 2 else case for n, case in enumerate(cases)]
    data.write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    undisturbed = subprocess.run(command(data, tmp_path / "calm"), capture_output=True, text=True, check=True)
    rng = random.Random(1)
    out = tmp_path / "killed"
    seen: dict[str, tuple[int, int]] = {}
    n_kills = 0
    while True:
        # To files, which never fill up as pipes do.
        with (tmp_path / "stdout").open("w") as stdout, (tmp_path / "stderr").open("w") as stderr:
            process = subprocess.Popen(command(data, out, before=SLOWLY), stdout=stdout, stderr=stderr, text=True)
        # Killed after another part or two, a random moment later: while computing, writing or renaming.
        target = len(seen) + rng.randint(0, 3)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if out.exists() and (runs := list(out.iterdir())) and len(stamps(runs[0])) >= target:
                time.sleep(rng.uniform(0, 0.06))
                break
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        run = the_run(out)
        now = stamps(run)
        assert {name: now[name] for name in seen} == seen
        for name in now:
            RunDirectory(run).read_part(int(name.partition("-")[2][:5]))
        seen = now
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, (tmp_path / "stderr").read_text()
        n_kills += 1
        assert n_kills < 40
    assert n_kills >= 3
    calm = the_run(tmp_path / "calm")
    assert (numbers(run), run.name) == (numbers(calm), calm.name)
    names = {p.name for p in run.iterdir()}
    assert names == {p.name for p in calm.iterdir()}
    assert len(names) == 2 * N_CASES + 2
    # The last attempt prints every case, measured now or before; only the seconds differ.
    told, expected = (
        [json.loads(line) for line in text.splitlines()]
        for text in ((tmp_path / "stdout").read_text(), undisturbed.stdout)
    )
    for case in (*told, *expected):
        del case["cost"]
    assert told == expected


def limited() -> None:
    """Files of at most 4500 bytes, as on a disk that is full; the signal would end the process unheard."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4500, 4500))


@pytest.mark.long
def test_a_full_disk_ends_the_run_in_one_line_and_it_goes_on_later(tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    contexts = ("Anna sang.", "Bo ate.", "A long one. " * 400, "Cid left.")
    lines = (json.dumps({"context": context, "query": "Who?", "response": "Anna"}) for context in contexts)
    data.write_text("\n".join(lines))
    out = tmp_path / "runs"
    asked = command(data, out, "--unit", "whole")
    full = subprocess.run(asked, capture_output=True, text=True, preexec_fn=limited, check=False)
    assert full.returncode == 2
    assert full.stderr == f"leakmeter: run directory '{the_run(out)}' cannot be written: File too large\n"
    assert len(full.stdout.splitlines()) == 2
    run = the_run(out)
    before = stamps(run)
    assert sorted(before) == ["measurements-00000.parquet", "measurements-00001.parquet"]
    assert not list(run.glob("*.partial"))
    assert not (run / "spec.json").exists()
    again = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert len(again.stdout.splitlines()) == 4
    assert again.stdout.startswith(full.stdout)
    after = stamps(run)
    assert {name: after[name] for name in before} == before
    assert len(list(load_run(run))) == 4


def test_the_tokens_texts_make_up_the_response() -> None:
    tokenizer = Toy().tokenizer
    texts = ["Anna Ek", "naïve 🙂 ende", "🙂", "a\ufffdb", "ends in \ufffd", "\ufffd", "x" * 200 + "é" * 100]
    ids = [[*text.encode(), *end] for text in [*texts, "日本語" * 40] for end in ([], [256])]
    # Bytes that are no text are shown all the same.
    ids += [[0xC3], [0xF0, 0x9F], [65, 0xE2, 0x82], [0x80, 65, 0x80], [0x80] * 200, [256], [65, 256]]
    for some in ids:
        told = response_texts(some, tokenizer)
        assert "".join(told["tokens"]) == told["text"] == tokenizer.decode(some)
        assert len(told["tokens"]) == len(some)
    for text in texts:
        assert response_texts([*text.encode(), 256], tokenizer)["text"] == text
