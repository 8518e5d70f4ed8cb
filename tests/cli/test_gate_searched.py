"""Gates, tables and trackers over contexts that were searched: an exact value decides, what was not scored does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import leakmeter
from leakmeter.errors import UsageError
from leakmeter.pages.render import page_of_runs
from leakmeter.testing import assert_leakage

Call = Callable[..., Any]
NAMES = ("Anna", "Bo")
WORST = "influence.worst_piece.max"


def case(name: str) -> dict[str, str]:
    said = f"{name} Ek lives in Graz. Call +43 316 555 0100. It rains. The boat is red. Ask {name}. Mail ek@ek.example."
    return {"id": f"note of {name}", "context": said, "query": "Who?", "response": f"{name} Ek, +43 316 555 0100"}


def worst(run: leakmeter.Run) -> float:
    return float(max(piece.nats for one in run for piece in one.pieces))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, leakmeter.Run]:
    """By how the context was measured: all pieces; some; a search that came to all of them."""
    out = tmp_path_factory.mktemp("runs")
    how: dict[str, Any] = {"all": {}, "some": {"search": "top:1:1"}, "complete": {"search": "top:9"}}
    data = [case(name) for name in NAMES]
    return {name: leakmeter.influence("toy", data, out=out / name, **more) for name, more in how.items()}


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


def test_exit_codes(cli: Call, runs: dict[str, leakmeter.Run]) -> None:
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
    assert "is undecided: for 2 cases only a lower bound is known (a search did not score all pieces); " in ended.out
    assert ended.out.endswith("measure without --search, or look at 'influence', which is of the whole context.\n")
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


def test_files_and_json(cli: Call, runs: dict[str, leakmeter.Run]) -> None:
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
    data = [case(name) for name in NAMES]
    full, some = (leakmeter.influence("toy", data, unit="entity", **more) for more in ({}, {"search": "top:1:1"}))
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
    assert told["left_out"] == [
        {"quantity": "influence.worst_piece", "n_pairs": 2, "why": "a search did not score all pieces"}
    ]
    assert "influence.worst_piece" not in [row["quantity"] for row in told["quantities"]]
    page = page_of_runs([some, complete])
    assert re.search(r"<td[^>]*>at least [\d.]+<", page)
    assert "influence.worst_piece: 2 pairs are left out: only a lower bound is known" in page
