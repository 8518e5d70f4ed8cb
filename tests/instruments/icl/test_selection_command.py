"""`leakmeter icl select` with the toy model: its files, the same bytes again, nothing lost or done twice."""

from __future__ import annotations

import html
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.command_line import assert_refused
from leakmeter.engine.loading import load_run
from leakmeter.stats.ranks import signed_rank_p

Call = Callable[..., Any]
TASK = 'name = "mood"\nlabel_column = "mood"\nlabels = ["Glad", "Sad"]\n[fields]\nsaid = "Said"\n'
SAID = ("Ha!", "Oh.", "Hm, well.", "Yes.", "A 2nd?", "Gone.", "[b]No[/b]", "Soup?", "4.", "Late.", "Up!", "Up.", "Q?")


def write_csv(path: Path, texts: list[str]) -> Path:
    rows = [f'n{i},"{text}",{("Glad", "Sad")[i % 2]}' for i, text in enumerate(texts)]
    path.write_text("\n".join(["id,said,mood", *rows]), encoding="utf-8")
    return path


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    """A search of a few short texts, six of which choose."""
    (tmp_path / "mood.toml").write_text(TASK, encoding="utf-8")
    exemplars = [json.dumps({"id": f"x{i}", "said": text, "mood": "Sad"}) for i, text in enumerate(SAID[:2])]
    (tmp_path / "prompts.jsonl").write_text("\n".join(exemplars), encoding="utf-8")
    data = write_csv(tmp_path / "data.csv", [f"{i} {text}" for i, text in enumerate(SAID)])
    pool = write_csv(tmp_path / "pool.csv", [*SAID[:2], "New\x1b[31m!", "Newer?"])
    return [
        *("icl", "select", "--task", tmp_path / "mood.toml", "--exemplars", tmp_path / "prompts.jsonl", "--data", data),
        *("--pool", pool, "--model", "toy", "--label-scoring", "whole-sequence", "--max-steps", 2),
    ]


def without(words: list[object], option: str) -> list[object]:
    at = words.index(option)
    return [*words[:at], *words[at + 2 :]]


def contents(out: Path) -> dict[str, bytes]:
    """What is told of a selection; parts of runs say how long they took."""
    (directory,) = out.glob("icl-select-*")
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def parts(out: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in out.rglob("measurements-*.parquet")}


def test_a_selection_is_what_its_runs_say(cli: Call, words: list[object]) -> None:
    ended = cli(*words, "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    (path,) = Path("runs").glob("icl-select-*")
    assert path.stat().st_mode & 0o777 == 0o700
    assert json.loads((path / "selection.json").read_bytes()) == told
    assert (told["n_choosing"], told["n_reporting"], told["task"], told["space"]) == (6, 7, "mood", "labels")
    assert told["candidates"] == ["n2", "n3"]
    by_list: dict[tuple[tuple[str, ...], int], list[dict[str, Any]]] = {}
    for run in path.glob("icl-*"):
        cases = [result.to_dict() for result in load_run(run)]
        by_list[tuple(one["id"] for one in cases[0]["exemplars"]), len(cases)] = cases
    assert len(by_list) == told["n_lists"] + 2
    assert not {case["id"] for (_, n), cases in by_list.items() if n == 6 for case in cases} & {
        case["id"] for (_, n), cases in by_list.items() if n == 7 for case in cases
    }
    for step in told["steps"]:
        cases = by_list[tuple(step["exemplars"]), 6]
        assert step["loss_nats"] == pytest.approx(np.mean([case["loss_nats"] for case in cases]))
        assert step["accuracy"] == pytest.approx(np.mean([case["is_right"] for case in cases]))
        assert step["largest_nats"] == max(case["loss_nats"] for case in cases)
    # Of all lists that were measured, none is lower than the last.
    assert told["steps"][-1]["loss_nats"] == pytest.approx(
        min(np.mean([case["loss_nats"] for case in cases]) for (_, n), cases in by_list.items() if n == 6)
    )
    ends = [by_list[tuple(told["steps"][i]["exemplars"]), 7] for i in (0, -1)]
    before, after = ([case["loss_nats"] for case in cases] for cases in ends)
    assert told["loss_difference_nats"] == pytest.approx(np.mean(after) - np.mean(before))
    assert told["wilcoxon_p"] == signed_rank_p(after, before)
    assert [one["id"] for one in told["exemplars"]] == told["steps"][-1]["exemplars"]
    assert ended.err.splitlines()[0].startswith("step 1: ")
    assert ended.err.splitlines()[-1] == f"selection: {path}"
    # What is shown fits 80 columns and is no markup.
    ended = cli(*words, "--explain")
    assert ended.code == 0, ended.err
    assert max(map(len, ended.out.splitlines())) <= 80
    for text in ("6 queries choose, 7 others report", "as given", "The other 7 queries", "add n", "macro-F1"):
        assert text in " ".join(ended.out.split())
    table = html.unescape(contents(Path("runs"))["table.md"].decode())
    assert "\x1b" not in table + ended.out
    assert "Run it again:\n\n<pre>leakmeter" in table
    # The first of what is said is what came of it, in both places.
    assert " ".join(ended.out.split()).startswith(" ".join(table.splitlines()[2].strip("*").split()))


def test_moves_and_labels_are_told_as_they_are_given(cli: Call, words: list[object]) -> None:
    few = without(without(words, "--pool"), "--max-steps")
    for moves in (("--moves", "reorder,drop"), ("--moves", "drop", "reorder"), ()):
        ended = cli(*few, "--max-queries", 4, *moves, "--json")
        assert ended.code == 0, ended.err
        told = json.loads(ended.out)
        assert (told["n_choosing"], told["n_reporting"], told["moves"]) == (2, 2, ["reorder", "drop"])
        assert told["verdict"] in ("too few", "unchanged")
    assert len(list(Path("runs").glob("icl-select-*"))) == 1


@pytest.mark.long
def test_a_finished_selection_measures_nothing_and_a_longer_one_what_is_new(cli: Call, words: list[object]) -> None:
    assert cli(*words, "--moves", "drop,add").code == 0
    before, said = parts(Path("runs")), contents(Path("runs"))
    assert cli(*words, "--moves", "drop,add").code == 0
    assert parts(Path("runs")) == before
    assert contents(Path("runs")) == said
    assert cli(*words).code == 0
    after = parts(Path("runs"))
    assert {path: after[path] for path in before} == before
    assert len(after) > len(before)


@pytest.mark.long
def test_a_selection_killed_again_and_again_ends_like_one_left_alone(words: list[object], tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from leakmeter.cli import main; main()", *map(str, words)]
    out, calm_out = tmp_path / "killed" / "runs", tmp_path / "calm" / "runs"
    for path in (out, calm_out):
        path.parent.mkdir()
    rng, n_kills = random.Random(1), 0
    seen: dict[Path, tuple[int, int]] = {}
    while True:
        process = subprocess.Popen(command, cwd=out.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        target = len(seen) + rng.randint(4, 10)
        deadline = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < deadline and len(parts(out)) < target:
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
        now = parts(out)
        assert {path: now[path] for path in seen} == seen
        seen = now
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err
        n_kills += 1
        assert n_kills < 40
    assert n_kills >= 2
    subprocess.run(command, cwd=calm_out.parent, check=True, capture_output=True)
    assert contents(out) == contents(calm_out)
    assert len(parts(out)) == len(parts(calm_out))


def test_a_prediction_writes_nothing(cli: Call, words: list[object]) -> None:
    ended = cli(*words, "--dry-run", "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert (told["n_choosing"], told["n_reporting"], told["at_most"]) == (6, 7, True)
    # As given; then 1 + 2 + 4 + 2 moves, then 3 + 3 + 6 + 2 where one was added.
    assert told["n_lists"] == 1 + 9 + 14
    ended = cli(*words, "--dry-run")
    assert "at most 24 lists of exemplars by 6 queries, 2 of them by 7 others" in ended.out
    # "about 3 s", or "under 1 s", as fast as the machine is.
    assert re.search(rf"at most {told['tree_tokens']:,} tokens, (about|under) .* once loaded", ended.out)
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("changed", "more", "told"),
    [
        ({}, ("--moves", "swap"), "no move named 'swap'"),
        ({}, ("--moves", "drop"), "--pool is for the moves replace and add"),
        ({"--pool": None}, ("--moves", "replace"), "move 'replace' needs a pool of exemplars"),
        ({"--max-steps": 0}, (), "max-steps is 0; it has to be 1 or more"),
        ({}, ("--candidates", 0), "candidates is 0; it has to be 1 or more"),
        ({}, ("--max-queries", 1), "there is 1 query; give two or more"),
        ({"--task": None}, (), "name the columns of texts and labels (--text-column, --label-column)"),
        ({"--exemplars": None}, (), "--exemplars"),
        ({"--exemplars": "nonesuch.jsonl"}, (), "'nonesuch.jsonl' cannot be read"),
        ({"--data": None}, (), "task 'mood' has no texts of its own; give labelled queries with --data FILE"),
        ({"--pool": "other.csv"}, (), "'mood' is 'Cross', expected one of 'Glad', 'Sad'"),
        ({}, ("--html", "page.html"), "--html"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    cli: Call, words: list[object], changed: dict[str, object], more: tuple[object, ...], told: str
) -> None:
    Path("other.csv").write_text("said,mood\nHa!,Cross\nOh.,Sad\n", encoding="utf-8")
    for option, value in changed.items():
        words = [*without(words, option), *(() if value is None else (option, value))]
    ended = cli(*words, *more)
    assert_refused(ended, told)
    assert not list(Path().glob("runs/*/icl-*"))
