"""`leakmeter gate`: exit codes, files, baselines.

What bounds and baselines say of numbers is in `tests/gating`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import leakmeter
from leakmeter.results.measured import read_measured

Call = Callable[..., Any]
NAMES = ("Anna", "Bo", "Cora", "Dan", "Eve", "Fay")


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cases") / "cases.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, name in enumerate(NAMES):
            case = {"id": f"note of {name}", "query": "Who?", "response": f"{name} Ek"}
            case["context"] = f"{name} Ek lives in Graz. {name} asked {number} times."
            file.write(json.dumps(case) + "\n")
    return path


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the cases; not to be written to."""
    return leakmeter.influence("toy", data, out=tmp_path_factory.mktemp("elsewhere")).path


@pytest.fixture(scope="module")
def worse(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that lets through more, of another template."""
    return leakmeter.influence("toy", data, template="{context} {query}", out=tmp_path_factory.mktemp("worse")).path


@pytest.fixture
def measured(cli: Call, data: Path) -> Callable[..., Path]:
    """Makes `leakmeter influence` of the cases with the toy model; its run."""

    def make(*more: object) -> Path:
        ended = cli("influence", "--data", data, "--model", "toy", "--json", *more)
        assert ended.code == 0, ended.err
        return Path(ended.err.splitlines()[-1].removeprefix("run: "))

    return make


def test_exit_codes_files_and_json(cli: Call, run: Path) -> None:
    above = float(max(case.whole_nats for case in read_measured(run).cases)) + 1
    held = cli("gate", run, "--max", f"influence.max <= {above}", "--min", "influence.min >= 0")
    assert (held.code, held.err) == (0, "")
    assert [line.split()[:2] for line in held.out.splitlines()] == [
        ["holds", f"influence.{of}"] for of in ("max", "min")
    ]
    words = ("--max", f"influence.max <= {above}", "--max", "influence.max < 0", "--min", "influence.min >= 0")
    broken = cli("gate", run.name, "--runs", run.parent, *words, "--junit", "junit.xml")
    assert (broken.code, broken.err) == (1, "")
    assert "BROKEN  influence.max" in broken.out
    assert "worst: case " in broken.out
    suite = ElementTree.parse("junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    for shown in (broken.out, Path("junit.xml").read_text(encoding="utf-8")):
        # Neither texts nor ids, and no run's name, which is made of both.
        assert not any(name in shown for name in (*NAMES, "Graz", run.name))
    assert not list(Path().glob("*.partial"))
    told = json.loads(cli("gate", run, "--max", "influence.p95 <= 1e6", "--json").out)
    assert (told["holds"], told["baseline"]) == (True, [])
    (check,) = told["checks"]
    assert (check["claim"], check["holds"], check["found"]["n"]) == ("influence.p95 <= 1000000", True, 6)
    # Six cases do not bound a 95th percentile.
    assert check["found"]["interval"][1] == "Infinity"
    unsure = cli("gate", run, "--max", "influence.p95 <= 1e6", "--confident")
    assert (unsure.code, "but its interval is not entirely" in unsure.out) == (1, True)


BELOW = ("--max", "influence.max <= 5")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["RUN"], "nothing to check the run against"),
        (["RUN", "--max", "influence.p95 >= 5"], "has the wrong direction"),
        (["RUN", "--max", "influence.p95"], "is not a bound; --max takes QUANTITY.AGGREGATE <= or < NUMBER, such as"),
        (["RUN", "--max", "icl.mean <= 5"], "no quantity named 'icl.mean'; known: 'influence', 'influence.disclosures"),
        (["RUN", "--max", "influence.repeated.max <= 5"], "none of the 6 cases of run 1 has influence.repeated"),
        (["RUN", *BELOW, "--junit", "no/x.xml"], "is in a directory that does not exist"),
        (["RUN", *BELOW, "--junit", "."], "JUnit file '.' is a directory"),
        (["RUN", *BELOW, "--latest"], "--latest selects the run itself"),
        (["RUN", "--against", "none.json"], "there is no baseline 'none.json'"),
        (["NAME", *BELOW], "no directory of runs 'runs'"),
        (["nosuch", *BELOW, "--runs", "."], "no run 'nosuch'"),
        (BELOW, "no run is given"),
        (["--latest", *BELOW], "no directory of runs 'runs'"),
        (["--latest", *BELOW, "--runs", "."], "no finished run under '.'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(cli: Call, run: Path, words: list[str], why: str) -> None:
    given = [{"RUN": run, "NAME": run.name}.get(word, word) for word in words]
    ended = cli("gate", *given, *(("--write-baseline", "b.json") if len(words) > 1 else ()))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert why in ended.err
    assert ended.err.startswith("leakmeter: ")
    assert os.listdir() == []


def test_a_baseline_and_a_regression(cli: Call, run: Path, worse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = cli("gate", run, "--max", "influence.p95 <= 1e6", "--write-baseline", "b.json")
    assert (written.code, written.err) == (0, "baseline: b.json\n")
    kept = Path("b.json").read_bytes()
    assert not any(name.encode() in kept for name in (*NAMES, "Graz", "Who", run.name))
    same = cli("gate", run, "--against", "b.json")
    assert (same.code, same.out.count("\n")) == (0, 1)
    Path("new.json").write_bytes(b"{}")
    ended = cli("gate", worse, "--against", "b.json", "--junit", "junit.xml", "--write-baseline", "new.json")
    assert ended.code == 1
    assert "BROKEN  influence went from" in ended.out
    assert "note    differs: prompts.template: none, then not shown" in ended.out
    assert "influence is not worse than the baseline" in Path("junit.xml").read_text(encoding="utf-8")
    told = json.loads(cli("gate", worse, "--against", "b.json", "--json").out)
    assert told["baseline"][0]["settings"] == [{"name": "prompts.template", "first": None, "second": "not shown"}]
    # A broken gate writes no baseline over a good one.
    assert "baseline 'new.json' is not written, since not all bounds hold" in ended.err
    assert Path("new.json").read_bytes() == b"{}"
    # What is held against is not replaced by what holds against it: a little at a time would go unseen.
    for one in (run, worse):
        ended = cli("gate", one, "--against", "b.json", "--write-baseline", "b.json")
        assert ended.code == 2
        assert "baseline 'b.json' is 'b.json', which is an input of this command" in ended.err
    assert Path("b.json").read_bytes() == kept
    # On another machine.
    monkeypatch.setenv("LEAKMETER_CONFIG", "another")
    ended = cli("gate", run, "--against", "b.json")
    assert ended.code == 0
    assert "note    ids of the baseline were hashed with another key, so cases are paired by order" in ended.out
    assert "note    2 settings were hashed with another key and cannot be compared" in ended.out
    assert stat.S_IMODE(Path("another/subjects.secret").stat().st_mode) == 0o600


@pytest.mark.parametrize("options", [("--temperature", "0.5"), ("--unit", "word"), ("--removal", "mask")])
def test_a_baseline_of_other_numbers_is_refused(cli: Call, run: Path, measured: Call, options: tuple[str, ...]) -> None:
    assert cli("gate", run, "--write-baseline", "b.json").code == 0
    ended = cli("gate", measured(*options), "--against", "b.json")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "run 1 and the baseline have numbers that mean different things (" in ended.err


def test_the_latest_run(cli: Call, measured: Call) -> None:
    """By the time when it was finished; it is told which, without its name, which is made of texts."""
    first, second = measured(), measured("--unit", "word", "--name", "after")
    for run, when in ((first, 2_000_000_000), (second, 1_000_000_000)):
        os.utime(run / "spec.json", (when, when))
    ended = cli("gate", "--latest", "--max", "influence.max <= 1e6")
    told = "run 1: influence, 6 cases, unit auto, 2033-05-18 03:33 UTC: the newest of 2 under 'runs'\n"
    assert (ended.code, ended.err) == (0, told)
    os.utime(second / "spec.json", (2_000_000_001, 2_000_000_001))
    assert "influence, 6 cases, after, unit word" in cli("gate", "--latest", "--max", "influence.max <= 1e6").err


def test_the_latest_run_that_has_the_quantities(cli: Call, measured: Call, data: Path) -> None:
    """Not the newest of any instrument."""
    older, run = measured("--unit", "word"), measured()
    Path("one.jsonl").write_text(data.read_text(encoding="utf-8").splitlines()[0], encoding="utf-8")
    ended = cli("redact", "--data", "one.jsonl", "--model", "toy", "--max-loss", "0.5", "--max-new-tokens", "1")
    assert ended.code == 0, ended.err
    newest = Path(ended.err.splitlines()[-1].removeprefix("run: "))
    for number, one in enumerate((older, run, newest)):
        os.utime(one / "spec.json", (2_000_000_000 + number,) * 2)
    ended = cli("gate", "--latest", "--max", "influence.max <= 1e6", "--write-baseline", "b.json")
    assert ended.code == 0, ended.err
    assert "run 1: influence, 6 cases, unit auto" in ended.err
    assert "the newest of 2 with these quantities under 'runs'" in ended.err
    assert cli("gate", "--latest", "--against", "b.json").code == 0
    both = cli("gate", "--latest", "--max", "influence.max <= 1e6", "--max", "redact.max <= 1e6")
    assert (both.code, both.err.count("\n")) == (2, 1)
    assert "no finished run under 'runs' has all of influence.max, redact.max; give the bounds" in both.err
    unknown = cli("gate", "--latest", "--max", "icl.max <= 5").err
    assert all(name in unknown for name in ("no quantity named 'icl.max'", "'influence'", "'redact'"))


def test_all_runs_of_directories(cli: Call, run: Path, measured: Call) -> None:
    measured("--unit", "word")
    other = measured("--removal", "mask")
    words = ("--max", "influence.max <= 1e6", "--junit", "all.xml")
    ended = cli("gate", "--runs", "runs", "--runs", run.parent, *words)
    assert ended.code == 0
    assert [line.split()[:3] for line in ended.out.splitlines()] == [["holds", "run", f"{n}:"] for n in (1, 2, 3)]
    assert re.findall(r'classname="leakmeter.run-(\d)"', Path("all.xml").read_text(encoding="utf-8")) == ["1", "2", "3"]
    broken = cli("gate", "--runs", "runs", "--runs", run, "--max", "influence.max < 0")
    assert broken.code == 1
    assert re.findall(r"^BROKEN  run (\d):", broken.out, re.MULTILINE) == ["1", "2", "3"]
    # A run by its name may lie in any of them.
    assert cli("gate", other.name, "--runs", run.parent, "--runs", "runs", "--max", "influence.max <= 1e6").code == 0


def test_several_runs(cli: Call, run: Path, data: Path) -> None:
    ended = cli("redact", "--data", data, "--model", "toy", "--max-loss", "1", "--json")
    plan = ended.err.splitlines()[-1].removeprefix("run: ")
    bounds = ("--max", "influence.max <= 1e6", "--min", "redact.reached >= 0", "--max", "redact.max <= 1e6")
    ended = cli("gate", run, plan, *bounds, "--write-baseline", "b.json")
    assert ended.code == 0, ended.err
    assert [line.split()[:3] for line in ended.out.splitlines()] == [["holds", "run", f"{n}:"] for n in (1, 2, 2)]
    assert cli("gate", run, plan, "--against", "b.json").code == 0
    ended = cli("gate", run, "--against", "b.json")
    assert (ended.code, "the baseline has 2 runs, and you gave 1" in ended.err) == (2, True)
