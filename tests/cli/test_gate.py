"""`leakmeter gate`: exit codes, files, baselines, and contexts that were searched.

What bounds and baselines say of numbers is in `tests/products/gate`.
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
from helpers.command_line import assert_refused
from leakmeter.errors import UsageError
from leakmeter.products.pages.render import page_of_runs
from leakmeter.results.results import read_measured
from leakmeter.testing import assert_leakage

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
    assert "worst: note of " in broken.out
    suite = ElementTree.parse("junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    # Neither texts nor ids, which the terminal has, and no run's name, which is made of both.
    junit = Path("junit.xml").read_text(encoding="utf-8")
    assert not any(name in junit for name in (*NAMES, "Graz", run.name))
    assert not any(name in broken.out for name in ("Graz", run.name))
    assert not list(Path().glob("*.partial"))
    told = json.loads(cli("gate", run, "--max", "influence.p95 <= 1e6", "--json").out)
    assert (told["holds"], told["baseline"]) == (True, [])
    (check,) = told["checks"]
    assert (check["claim"], check["holds"], check["found"]["n"]) == ("influence.p95 <= 1000000", True, 6)
    # Six cases do not bound a 95th percentile.
    assert check["found"]["interval"][1] == "Infinity"
    unsure = cli("gate", run, "--max", "influence.p95 <= 1e6", "--confident")
    assert (unsure.code, "but not all of its interval" in unsure.out) == (1, True)


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
    assert_refused(ended, why)
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


def test_a_baseline_of_other_numbers_is_refused(cli: Call, run: Path, measured: Call) -> None:
    assert cli("gate", run, "--write-baseline", "b.json").code == 0
    for options in (("--temperature", "0.5"), ("--unit", "word"), ("--removal", "mask")):
        ended = cli("gate", measured(*options), "--against", "b.json")
        assert_refused(ended, "run 1 and the baseline have numbers that mean different things (")


def test_the_latest_run(cli: Call, measured: Call, data: Path) -> None:
    """By the time when it was finished; it is told which, without its name, which is made of texts."""
    first, second = measured(), measured("--unit", "word", "--name", "after")
    for run, when in ((first, 2_000_000_000), (second, 1_000_000_000)):
        os.utime(run / "spec.json", (when, when))
    ended = cli("gate", "--latest", "--max", "influence.max <= 1e6")
    told = f"run 1: influence, 6 cases, {data}, unit auto, 2033-05-18 03:33 UTC: the last of 2 under 'runs'\n"
    assert (ended.code, ended.err) == (0, told)
    os.utime(second / "spec.json", (2_000_000_001, 2_000_000_001))
    assert (
        f"influence, 6 cases, after, {data}, unit word" in cli("gate", "--latest", "--max", "influence.max <= 1e6").err
    )


def test_a_run_that_a_command_finds_finished_is_the_latest(cli: Call, measured: Call) -> None:
    first, second = measured(), measured("--unit", "word")
    for number, run in enumerate((first, second)):
        os.utime(run / "spec.json", (1_000_000_000 + number,) * 2)
    bounds = ("--max", "influence.max <= 1e6")
    assert "unit word" in cli("gate", "--latest", *bounds).err
    before = (first / "spec.json").read_bytes()
    # Measured again, the first is found finished: it is the one that the last command told about.
    assert measured() == first
    told = cli("gate", "--latest", *bounds).err
    assert re.search(
        r"unit auto, 2001-09-09 01:46 UTC, found finished again \d{4}-\d\d-\d\d \d\d:\d\d UTC: the last of 2", told
    )
    # Nothing else about it is another: its spec, when it was finished, and that it is whole.
    assert (first / "spec.json").read_bytes() == before
    assert (first / "spec.json").stat().st_mtime == 1_000_000_000
    assert cli("runs", "verify", first).out.split()[0] == "whole"
    assert cli("runs", "rename", first, "again").code == 0
    assert "again, " in cli("gate", "--latest", *bounds).err
    # A run of an earlier version has nothing of the kind; the last word of any command counts.
    os.utime(second / "spec.json", (2_000_000_000, 2_000_000_000))
    assert "unit word" in cli("gate", "--latest", *bounds).err


def test_a_build_whose_measurement_ended_early_does_not_pass_by_an_older_run(cli: Call, measured: Call) -> None:
    passing, broken = measured(), measured("--unit", "word")
    bounds = ("--latest", "--max", "influence.max <= 1e6")
    os.utime(passing / "spec.json", (1_000_000_000,) * 2)
    os.utime(broken / "spec.json", (2_000_000_000,) * 2)
    (broken / "spec.json").rename(broken / "begun.json")
    refused = cli("gate", *bounds)
    assert_refused(
        refused, "a later run of influence is not finished (6 of 6 cases, 2033-05-18 03:33 UTC), and --latest"
    )
    assert "give its command again, remove it, or name the run" in refused.err
    # One that is older than the last is nobody's build.
    for file in (broken / "begun.json", *broken.glob("measurements-*")):
        os.utime(file, (999_999_999,) * 2)
    told = cli("gate", *bounds)
    assert (told.code, "the last of 1 under 'runs'" in told.err) == (0, True)
    assert cli("gate", passing, *bounds[1:]).code == 0


def without_a_part(run: Path) -> None:
    (run / "measurements-00003.parquet").unlink()


def with_a_cut_spec(run: Path) -> None:
    (run / "spec.json").write_bytes((run / "spec.json").read_bytes()[:-40])


def under_another_name(run: Path) -> None:
    run.rename(run.with_name("moved"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without_a_part, "measurements-00003.parquet, all of it: is missing; remove that directory and run again"),
        (with_a_cut_spec, "spec.json, all of it: is no JSON that can be read; remove that directory and run again"),
        (under_another_name, "as what its spec says; give it that name, or remove it"),
    ],
)
def test_a_gate_does_not_leave_out_a_damaged_run(
    cli: Call, measured: Call, damage: Callable[[Path], None], said: str
) -> None:
    older, newer = measured(), measured("--unit", "word")
    bound = ("--max", "influence.max <= 1e6")
    os.utime(older / "spec.json", (1_000_000_000,) * 2)
    damage(newer)
    for words in (("--latest",), ("--runs", "runs"), ("--runs", older, "--runs", "runs")):
        ended = cli("gate", *words, *bound)
        assert_refused(ended, said)
        assert ended.out == ""
    assert cli("gate", older, *bound).code == 0
    # The latest is whole where it was finished after the damaged one.
    os.utime(older / "spec.json", (4_000_000_000,) * 2)
    assert cli("gate", "--latest", *bound).code == 0


def test_a_later_run_that_lost_its_spec_is_not_left_out(cli: Call, measured: Call) -> None:
    older, newer = measured(), measured("--unit", "word")
    os.utime(older / "spec.json", (1_000_000_000,) * 2)
    (newer / "spec.json").unlink()
    ended = cli("gate", "--latest", "--max", "influence.max <= 1e6")
    assert_refused(ended, "a later run of what cannot be read is not finished (6 of ? cases")


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
    assert f"run 1: influence, 6 cases, {data}, unit auto" in ended.err
    assert "the last of 2 with these quantities under 'runs'" in ended.err
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


WORST = "influence.worst_piece.max"
SAID = "{0} Ek lives in Graz. Call +43 316 555 0100. It rains. The boat is red. Ask {0}. Mail ek@ek.example."
LONG = [
    {"id": f"note of {name}", "context": SAID.format(name), "query": "Who?", "response": f"{name} Ek, +43 316 555 0100"}
    for name in NAMES[:2]
]


def worst(run: leakmeter.Run) -> float:
    return float(max(piece.nats for one in run for piece in one.pieces))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, leakmeter.Run]:
    """By how the context was measured: all pieces; some; a search that came to all of them."""
    out = tmp_path_factory.mktemp("runs")
    how: dict[str, Any] = {"all": {}, "some": {"search": "top:1:1"}, "complete": {"search": "top:9"}}
    return {name: leakmeter.influence("toy", LONG, out=out / name, **more) for name, more in how.items()}


def test_exit_codes_of_searched_contexts(cli: Call, runs: dict[str, leakmeter.Run]) -> None:
    limit = worst(runs["some"])
    within, beyond = f"{WORST} <= {limit + 1}", f"{WORST} <= {limit - 0.1}"
    for name, code in {"all": 0, "some": 2, "complete": 0}.items():
        assert name == "all" or all(one.search.is_complete == (name == "complete") for one in runs[name])
        ended = cli("gate", runs[name].path, "--max", f"{WORST} <= {worst(runs['all']) + 1}")
        assert (ended.code, ended.err, ended.out.count("\n")) == (code, "", 1)
        assert cli("gate", runs[name].path, "--max", beyond).code == 1
        assert cli("gate", runs[name].path, "--max", "influence.max <= 1e6").code == 0
    some = runs["some"].path
    ended = cli("gate", some, "--max", within)
    assert ended.out.startswith(f"UNDECIDED  {WORST} is at least ")
    assert "is undecided: for 2 cases only a lower bound is known (a search did not score all pieces, or " in ended.out
    assert ended.out.endswith(
        "measure with --complete and without --search, or look at 'influence', which is of the whole context.\n"
    )
    # What is broken is broken whatever else is undecided, and the other way round the undecided is said too.
    ended = cli("gate", some, "--max", within, "--max", "influence.max < 0", "--write-baseline", "b.json")
    assert [line.split()[0] for line in ended.out.splitlines()] == ["UNDECIDED", "BROKEN", "worst:"]
    assert (ended.code, Path("b.json").exists()) == (1, False)
    for least, code in ((limit, 0), (limit + 1, 2)):
        assert cli("gate", some, "--min", f"{WORST} >= {least}").code == code
    # An assertion does not pass on pieces that were not scored.
    most = worst(runs["all"]) + 1
    for name in ("all", "complete"):
        assert_leakage(runs[name], max_nats=most)
    with pytest.raises(UsageError, match=r"did not score \d+ pieces of 2 cases; leave search out"):
        assert_leakage(runs["some"], max_nats=most)
    with pytest.raises(AssertionError, match="more than the bound allows"):
        assert_leakage(runs["some"], max_nats=limit - 0.01)


def test_files_and_json_of_searched_contexts(cli: Call, runs: dict[str, leakmeter.Run]) -> None:
    words = ("gate", runs["some"].path, "--max", f"{WORST} <= 1e6", "--max", "influence.max <= 1e6")
    ended = cli(*words, "--junit", "junit.xml", "--json")
    told = json.loads(ended.out)
    assert (ended.code, told["holds"], told["undecided"]) == (2, False, True)
    first, second = told["checks"]
    assert (first["holds"], first["undecided"], first["n_lower_bounds"]) == (False, True, 2)
    assert (first["found"]["is_lower_bound"], second["found"]["is_lower_bound"]) == (True, False)
    suite = ElementTree.parse("junit.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["2", "0", "1"]
    (error,) = suite.iter("error")
    assert (error.get("type"), error.get("message")) == ("undecided", first["explained"])


def test_values_that_a_response_repeats_are_counted_whether_scored_or_not() -> None:
    full, some = (leakmeter.influence("toy", LONG, unit="entity", **more) for more in ({}, {"search": "top:1:1"}))
    for one, other in zip(full, some, strict=True):
        left = [piece.repeated for piece in other.search.pieces if piece.entity_type is not None]
        assert left
        assert len(left) + len(other.pieces) == len(one.pieces)
    found = [of.quantities()["influence.repeated.mean"] for of in (full, some)]
    assert found[0] == found[1]
    assert found[0].value >= 1.0


def test_numbers_of_a_run_say_at_least_or_are_left_out(cli: Call, runs: dict[str, leakmeter.Run]) -> None:
    name = "influence.worst_piece.mean"
    some, complete = runs["some"], runs["complete"]
    assert some.quantities()[name].is_lower_bound
    assert some.quantities()[name].interval is None
    assert complete.quantities()[name] == runs["all"].quantities()[name]
    assert some.to_frame()["influence.worst_piece"].isna().all()
    assert complete.to_frame()["influence.worst_piece"].notna().all()
    asked = leakmeter.query("select influence, influence_worst_piece w from results", some.path)
    assert asked["influence"].notna().all()
    assert asked["w"].isna().all()
    named = leakmeter.query("select quantity from quantities", some.path)["quantity"].tolist()
    assert "influence.mean" in named
    assert name not in named
    told = json.loads(cli("runs", "compare", runs["all"].path, some.path, "--json").out)
    (left_out,) = [one for one in told["left_out"] if one["quantity"] == "influence.worst_piece"]
    assert left_out["n_pairs"] == 2
    assert left_out["why"].startswith(
        "a search did not score all pieces, or a log was measured step by step, or another version of leakmeter kept"
    )
    assert "influence.worst_piece" not in [row["quantity"] for row in told["quantities"]]
    page = page_of_runs([some, complete])
    assert re.search(r"<td[^>]*>at least [\d.]+<", page)
    assert "influence.worst_piece: 2 pairs are left out: only a lower bound is known" in page
