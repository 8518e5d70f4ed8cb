"""Pages of runs: the list, one run, two compared; started, watched, cancelled and continued."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.made_runs import SPEC, written
from helpers.serving import HEADERS, client, events, serving_of
from leakmeter.backends.toy import Toy
from leakmeter.products.serve.queue import Cancelled

pytestmark = pytest.mark.usefixtures("undrawn")

HOSTILE = "<img src=x onerror=alert(1)>"
CASES = [
    {"id": f"c{i}", "context": f"Ana is {i}. She sings. {HOSTILE}", "query": "How old is Ana?", "response": f"{i}"}
    for i in range(4)
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("served")
    first = leakmeter.influence("toy", CASES, out=folder / "runs", name="first")
    second = leakmeter.influence("toy", CASES, unit="word", out=folder / "runs", name=HOSTILE)
    # Of what was finished in one second nobody can say which was first.
    finished = (first.path / "spec.json").stat().st_mtime
    os.utime(second.path / "spec.json", (finished + 5, finished + 5))
    return folder, first.path.name, second.path.name


@pytest.fixture
def made(runs: tuple[Path, str, str]) -> Iterator[Any]:
    with client(serving_of(runs[0])) as one:
        yield one


def test_the_list_has_every_run_and_what_it_found(made: Any, runs: tuple[Path, str, str]) -> None:
    page = made.get("/runs").text
    assert all(said in page for said in (f"/runs/{runs[1]}", "2 of 2 runs", "&lt;img src=x"))
    told = made.get(f"/runs/{runs[1]}/found").json()
    assert told["number"].startswith("influence.mean ")
    assert told["floor"].endswith(" nats")
    assert told["headline"] in made.get(f"/runs/{runs[1]}").text
    assert told["headline"] in made.get("/runs").text
    assert "No run matches." in made.get("/runs?measure=pii").text
    assert "0 of 2 runs" in made.get("/runs?text=%25%25").text


def test_the_list_is_sorted_and_filtered(made: Any, runs: tuple[Path, str, str]) -> None:
    firsts = {"sort=name": 2, "sort=-name": 1, "sort=unit": 1, "sort=-unit": 2, "text=WORD": 2, "sort=nothing": 2}
    for asked, first in firsts.items():
        page = made.get(f"/runs?{asked}").text
        assert min((page.find(f"/runs/{name}") % 10**9, name) for name in runs[1:])[1] == runs[first], asked


def test_a_run_has_its_facts_its_report_and_what_to_copy(made: Any, runs: tuple[Path, str, str]) -> None:
    page = made.get(f"/runs/{runs[2]}").text
    assert "leakmeter.load_run(" in page
    assert "select item, piece, nats from pieces" in page
    report = made.get(f"/runs/{runs[2]}/report")
    assert report.text == leakmeter.load_run(runs[0] / "runs" / runs[2]).render_page()
    assert "default-src 'none'" in report.headers["content-security-policy"]
    # SQL is left to the command line.
    for path in ("/sql", "/sql/rows", "/sql/csv"):
        assert made.get(path).status_code == 404
        assert made.post(path, json={"sql": "select 1"}, headers=HEADERS).status_code == 404
    for other in (made.get("/").text, made.get("/runs").text, page):
        assert "/sql" not in other


MEASURED: dict[str, tuple[Callable[..., Any], Any, dict[str, Any]]] = {
    "exemplars": (leakmeter.generate, ["It rains.", "It snows."], {"epsilon": 20.0, "samples": 1, "max_new_tokens": 1}),
    "contexts": (leakmeter.susceptibility, ["Who?"], {"contexts": ["Emma is by Poe.", "It rains."]}),
    "pieces": (leakmeter.influence, CASES[:1], {}),
    "": (leakmeter.redact, CASES[:1], {"max_loss": 0.2}),
}
"""A measure, by what its results have as pieces."""


@pytest.mark.parametrize("pieces", MEASURED)
def test_the_sql_of_a_run_lists_its_pieces_or_where_it_has_none_its_cases(pieces: str, tmp_path: Path) -> None:
    measure, data, options = MEASURED[pieces]
    run = measure("toy", data, **options, out=tmp_path / "runs")
    with client(serving_of(tmp_path)) as made:
        page = html.unescape(made.get(f"/runs/{run.path.name}").text)
    (command,) = re.findall(r"<pre[^>]*>leakmeter runs query ([^<]*)</pre>", page)
    sql, _, place = shlex.split(command)
    rows = leakmeter.query(sql, place)
    assert len(rows) == sum(len(getattr(case, pieces)) if pieces else 1 for case in run)
    assert set(rows.columns) == {"item", "piece", "nats"} if pieces else "id" in rows.columns


def test_what_is_no_run_is_refused(made: Any) -> None:
    names = ("influence-0000", "%2e%2e%2fruns", "..%2fledger", "a" * 300, "runs")
    for name, what in product(names, ("", "/report", "/progress")):
        answer = made.get(f"/runs/{name}{what}")
        assert answer.status_code in (400, 404)
        assert "Traceback" not in answer.text


def test_a_run_gets_another_name(made: Any, runs: tuple[Path, str, str]) -> None:
    path = f"/runs/{runs[1]}/rename"
    before = {entry.name: entry for entry in leakmeter.list_runs(runs[0] / "runs")}[runs[1]]
    assert made.post(path, json={"name": " new "}, headers=HEADERS).json() == {"name": "new"}
    after = {entry.name: entry for entry in leakmeter.list_runs(runs[0] / "runs")}[runs[1]]
    assert (after.given_name, after.finished) == ("new", before.finished)
    assert leakmeter.verify_run(runs[0] / "runs" / runs[1]).state == "whole"
    for bad in ("x" * 200, "a\nb", 5):
        assert made.post(path, json={"name": bad}, headers=HEADERS).status_code == 400
    assert made.post(path, json={"name": "first"}).status_code == 403
    assert made.post(path, json={"name": "first"}, headers=HEADERS).status_code == 200


def test_two_runs_are_compared(made: Any, runs: tuple[Path, str, str]) -> None:
    page = made.get(f"/runs/compare?run={runs[1]}&run={runs[2]}").text
    assert "4 cases are in both" in page
    assert "Set otherwise" in page
    for other in ("", "&run=other"):
        assert made.get(f"/runs/compare?run={runs[1]}{other}").status_code == 400


INSTRUCTED = json.dumps({"messages": [{"role": role, "content": "Who?"} for role in ("system", "user", "assistant")]})


def lines(cases: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, cases))


def begin(made: Any, text: str, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
    body = {"file": "cases.jsonl", "text": text, **fields}
    return events(made.post("/runs/measure", json=body, headers=HEADERS))


def test_a_file_of_cases_is_measured_as_the_command_line_does(tmp_path: Path) -> None:
    with client(serving_of(tmp_path)) as made:
        told = begin(made, lines(CASES), unit="sentence", name="of a file")
        assert [name for name, _ in told if name == "case"] == ["case"] * 4
        assert told[-1][0] == "done"
        name = told[-1][1]["run"]
    (tmp_path / "cases.jsonl").write_text(lines(CASES))
    how: dict[str, Any] = {"unit": "sentence", "group": True, "max_new_tokens": 40}
    alone = leakmeter.influence("toy", tmp_path / "cases.jsonl", **how, out=tmp_path / "alone")
    assert alone.path.name == name
    served = leakmeter.load_run(tmp_path / "runs" / name)
    assert [one.whole_nats for one in served] == [one.whole_nats for one in alone]
    assert (tmp_path / "runs").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": ""}, "no case"), ({"text": "{"}, "the file is not JSON"),
        ({"text": "[1]"}, "record 1 is not a JSON object"),
        ({"text": '{"a": 1}'}, ""), ({"unit": "moon"}, "unit on this page"), ({"model": "other"}, "model here"),
        ({"max_new_tokens": 0}, "max-new-tokens is 0"), ({"name": "a\nb"}, "a run's name"), ({"text": 4}, "text"),
        ({"text": INSTRUCTED}, "--context-from system"), ({"text": INSTRUCTED, "context_from": "("}, "missing )"),
        ({"text": INSTRUCTED, "context_from": "system"}, "no chat template"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(made: Any, fields: dict[str, Any], said: str) -> None:
    answer = made.post("/runs/measure", json={"file": "c.jsonl", "text": lines(CASES), **fields}, headers=HEADERS)
    assert said in answer.text
    assert answer.status_code == 400 or events(answer)[-1][0] == "failed"


@pytest.mark.parametrize("n_done", [0, 1])
def test_a_run_is_watched_cancelled_and_continued(n_done: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first or the second case waits, until the run was cancelled from another request."""
    asked_for, may_go = threading.Event(), threading.Event()
    awaited = "*/measurements-*" if n_done else "*/begun.json"
    score = Toy.score

    def slow(self: Toy, chunk: Any) -> Any:
        if list((tmp_path / "runs").glob(awaited)) and not may_go.is_set():
            asked_for.set()
            may_go.wait(20)
            if not n_done:
                raise Cancelled  # as a local model does before its next layer
        return score(self, chunk)

    monkeypatch.setattr(Toy, "score", slow)
    with client(serving_of(tmp_path)) as made:
        told: list[Any] = []
        thread = threading.Thread(target=lambda: told.extend(begin(made, lines(CASES), unit="sentence")))
        thread.start()
        assert asked_for.wait(20)
        (path,) = (tmp_path / "runs").glob("influence-*")

        def post(what: str) -> Any:
            return made.post(f"/runs/{path.name}/{what}", json={}, headers=HEADERS)

        def progress() -> Any:
            return made.get(f"/runs/{path.name}/progress").json()

        if n_done:
            assert progress() == {"state": "measuring", "done": 1, "of": 4}
            assert 'data-state="measuring"' in made.get(f"/runs/{path.name}").text
            assert post("continue").status_code == 400
        assert post("cancel").status_code == 200
        may_go.set()
        thread.join(20)
        assert told[-1][0] == "cancelled"
        left = progress()
        assert left["state"] == "unfinished" if n_done else left == {"state": "dropped", "done": 0, "of": None}
        assert post("cancel").status_code == 400
        assert events(post("continue"))[-1] == ("done", {"run": path.name})
        assert progress() == {"state": "complete", "done": 4, "of": 4}


def test_no_run_a_damaged_one_and_one_of_a_measure_that_is_not_installed(tmp_path: Path) -> None:
    with client(serving_of(tmp_path)) as made:
        assert "There is no run yet." in made.get("/runs").text
        path = written(tmp_path / "runs", replace(SPEC, measure="of_another_package"))
        answer = made.get(f"/runs/{path.name}")
        assert (answer.status_code, "select * from results" in answer.text) == (200, True)
        (path / "spec.json").write_text("{")
        assert "damaged" in made.get("/runs").text
        assert "The run is damaged" in made.get(f"/runs/{path.name}").text


def test_a_long_list_has_pages(tmp_path: Path) -> None:
    for number in range(120):
        folder = tmp_path / "runs" / f"influence-{number:016x}"
        folder.mkdir(parents=True)
        (folder / "begun.json").write_text('{"measure": "influence"}')
    with client(serving_of(tmp_path)) as made:
        assert made.get("/runs?page=3&sort=name").text.count('scope="row"') == 20
        for asked, page in (("3&sort=name", 3), ("99999", 3), ("x", 1)):
            assert f"Page {page} of 3" in made.get(f"/runs?page={asked}").text
