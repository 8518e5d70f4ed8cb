"""A limit of time: what looks most telling is measured first, and what is at random among it proves something."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from leakmeter.cli import main
from leakmeter.commands.options import RunOptions
from leakmeter.commands.time_limit import Order, TimeLimit
from leakmeter.core.backend import Backend
from leakmeter.core.case import Case, Document
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.telling import telling
from leakmeter.stats.hypergeometric import upper_limit


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0)])
def test_a_budget_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert TimeLimit.parsed(text).seconds == seconds


@pytest.mark.parametrize("text", ["10", "m", "0s", "-1m", "1d", "1e9s", "٣m", "10 m", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"such as 90s, 10m or 1\.5h"):
        TimeLimit.parsed(text)


def test_the_most_telling_come_first_and_random_ones_between() -> None:
    order = Order.of([0.0, 5.0, 1.0, 0.0, 3.0, 0.0], seed=0)
    assert sorted(order.parts) == sorted(order.drawn) == list(range(6))
    assert order.parts[0] == 1
    # At any moment about half of what is done is the beginning of a random order of all.
    many = Order.of(np.arange(1_000.0).tolist(), seed=0)
    begun = set(many.parts[:100])
    n_begun = next(i for i, part in enumerate(many.drawn) if part not in begun)
    assert 45 <= n_begun <= 60
    assert sum(part >= 940 for part in begun) >= 50


def test_what_is_proved_of_the_rest_holds() -> None:
    rng, wrong = np.random.default_rng(3), 0
    n = 300
    for trial in range(200):
        leaks = set(rng.choice(n, 15, replace=False).tolist())
        # Half of the leaks look telling.
        looks = [float(part in leaks and part % 2) for part in range(n)]
        order = Order.of(looks, seed=trial)
        done = order.parts[:120]
        said = order.proves(TimeLimit.parsed("1m"), leaks & set(done), done, "response")
        (most,) = re.findall(r"at most (\d+) of the", said.details)
        wrong += len(leaks - set(done)) > int(most)
    assert wrong <= 0.05 * 200 + 2 * (200 * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize("n_leaks", [15, 60])
@pytest.mark.parametrize(
    ("leaks_look", "others_look", "seconds", "limit"),
    [
        (0.5, 0.1, lambda leaks, looks: 4.0 if leaks else 1.0, 150.0),
        (0.5, 0.1, lambda leaks, looks: 0.1 if leaks else 1.0, 100.0),
        (0.0, 0.3, lambda leaks, looks: 4.0 if leaks else 1.0, 200.0),
        (1.0, 0.3, lambda leaks, looks: 0.1 if leaks else 5.0 if looks else 1.0, 200.0),
    ],
    ids=["leaks take long", "leaks take a moment", "only others look telling", "all leaks look telling"],
)
def test_it_holds_too_where_time_ends_sooner_or_later_for_what_is_found(
    n_leaks: int, leaks_look: float, others_look: float, seconds: Callable[[bool, bool], float], limit: float
) -> None:
    """How many are looked at depends on what they disclose, and which of the random ones were looked at before."""
    n, n_trials, wrong = 300, 250, 0
    rng = np.random.default_rng(8)
    for trial in range(n_trials):
        leaks = np.isin(np.arange(n), rng.choice(n, n_leaks, replace=False))
        looks = rng.random(n) < np.where(leaks, leaks_look, others_look)
        order = Order.of(looks.astype(float).tolist(), seed=trial)
        spent = np.cumsum([seconds(bool(leaks[part]), bool(looks[part])) for part in order.parts])
        done = order.parts[: int(np.searchsorted(spent, limit)) + 1]
        found = {part for part in done if leaks[part]}
        said = order.proves(TimeLimit.parsed("1m"), found, done, "response")
        (most,) = re.findall(r"at most (\d+) of the", said.details)
        wrong += n_leaks - len(found) > int(most)
    # Of 1,500 trials of each 0 to 3.8 % were wrong.
    assert wrong <= 0.05 * n_trials + 2 * (n_trials * 0.05 * 0.95) ** 0.5


def test_the_bound_counts_what_was_drawn_and_what_was_found() -> None:
    order = Order(parts=tuple(range(100)), drawn=tuple(range(100)))
    said = order.proves(TimeLimit.parsed("10m"), [0, 1], range(50), "response")
    most = upper_limit(100, 50, 2, 0.05) - 2
    assert said.only == "Only 50 of 100 responses were looked at within 10m."
    assert f"So at most {most} of the 50 that were not looked at do" in said.details
    assert said.details.startswith("50 of these were drawn at random, and 0 looked most telling.")


def test_telling_are_words_that_answer_and_documents_share() -> None:
    document = (Document("d", "Ana Berg, 555-0100, ana@berg.example. The shop opens at nine."),)
    cases = [
        Case("a", document, "Whom?", "Ana Berg, 555-0100"),
        Case("b", document, "When does the shop open?", "the shop opens at nine"),
        Case("c", document, "Is it Ana Berg?", "Yes, Ana Berg"),
        Case("d", document, "Whom?", None),
    ]
    assert telling(cases) == [3.0, 0.0, 0.0, 0.0]


def _log(path: Path, n: int) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "id": f"r{i}",
            "context": f"Ana Berg has the number 555-01{i:02}. The shop opens at nine.",
            "query": "When?",
            "response": f"Call 555-01{i:02}." if i == n - 1 else "At nine.",
        }
        for i in range(n)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["influence", "--model", "toy", *words])
    assert ended.value.code == 0
    told = capsys.readouterr()
    return told.out, told.err


def test_a_spent_budget_shows_the_worst_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    words = ("--data", str(_log(tmp_path / "log.jsonl", 44)), "--out", str(tmp_path / "runs"))
    out, err = _run(capsys, *words, "--budget", "0.001s")
    assert "Only 1 of 44 responses were looked at within 0.001s." in out
    assert "r43" in out or "555-0143" in out
    assert "the same command goes on with the other 43 cases" in err
    out, err = _run(capsys, *words, "--budget", "0.001s", "--json")
    assert [json.loads(line)["id"] for line in out.splitlines()] != ["r43"]
    assert "Only 2 of 44 responses were looked at" in err
    whole, err = _run(capsys, *words, "--budget", "1h", "--json")
    assert "goes on" not in err
    other, _ = _run(capsys, *words[:2], "--out", str(tmp_path / "other"), "--json")
    # Each case is scored alone under a limit of time, and with its neighbours without one.
    without_cost = [[json.loads(line) | {"cost": None} for line in text.splitlines()] for text in (whole, other)]
    assert without_cost[0] == without_cost[1]


def test_a_budget_is_for_logs_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["decode", "--model", "toy", "--data", str(_log(tmp_path / "log.jsonl", 2)), "--budget", "1m"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "--budget is for influence of a log" in capsys.readouterr().err


def test_time_is_counted_from_the_beginning_of_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that takes longer to load than the limit leaves time for one case."""
    usual = RunOptions.load_backend

    def slow(run: RunOptions) -> Backend:
        time.sleep(0.3)
        return usual(run)

    monkeypatch.setattr(RunOptions, "load_backend", slow)
    words = ("--data", str(_log(tmp_path / "log.jsonl", 44)), "--out", str(tmp_path / "runs"))
    out, _ = _run(capsys, *words, "--budget", "0.3s")
    assert "Only 1 of 44 responses were looked at within 0.3s." in " ".join(out.split())


def test_the_worst_comes_first_without_a_limit_too_and_results_are_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    log = _log(tmp_path / "log.jsonl", 120)
    words = ("influence", "--model", "toy", "--data", str(log))
    write, written = RunDirectory.write_part, list[list[str]]()

    def write_two(self: RunDirectory, number: int, cases: Any, measurements: Any) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        write(self, number, cases, measurements)
        written.append([case["id"] for case in cases])

    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, "write_part", write_two)
        with pytest.raises(SystemExit) as ended:
            main([*words, "--out", str(tmp_path / "worst")])
    assert ended.value.code == 130
    # The first part measures noise; then comes the answer that leaks, alone.
    assert written[0][0] == "r0"
    assert written[1] == ["r119"]
    shown = capsys.readouterr().out
    assert f"Interrupted: {len(written[0]) + 1} of 120 cases are measured" in " ".join(shown.split())
    assert "555-01119" in shown
    # The run goes on and is finished in another order than one whose lines are printed in the order of the data.
    first, _ = _run(capsys, *words[3:], "--out", str(tmp_path / "worst"))
    _run(capsys, *words[3:], "--out", str(tmp_path / "data"), "--json")
    again, _ = _run(capsys, *words[3:], "--out", str(tmp_path / "data"))
    assert first == again
    (worst,), (in_order,) = ([*(tmp_path / name).glob("influence-*")] for name in ("worst", "data"))
    assert worst.name == in_order.name
    for path in in_order.glob("measurements-*"):
        assert (worst / path.name).read_bytes() == path.read_bytes()
    by_order = [[case.to_dict() | {"cost": None} for case in leakmeter.load_run(run)] for run in (worst, in_order)]
    assert by_order[0] == by_order[1]
