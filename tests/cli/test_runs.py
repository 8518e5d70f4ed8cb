"""`leakmeter runs`: listed, shown, checked, exported, compared, and the schemas of what is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import leakmeter
from leakmeter.cli.runs import compare
from leakmeter.core.record import Record
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import LeakmeterError
from leakmeter.runs import all_printed, printed

Call = Callable[..., Any]
TEXTS = ("Anna sang. Bo ate.", "Cid left. Dora came.", "Ek slept. Finn ran.")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three cases."""
    path = tmp_path / "cases.jsonl"
    lines = [json.dumps({"id": f"c{i}", "context": text, "query": "Who?"}) for i, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def run(cli: Call, data: Path) -> Path:
    """A complete run of the three cases."""
    assert cli("influence", *options(data)).code == 0
    (path,) = Path("runs").iterdir()
    return path


def options(data: Path, out: str = "runs") -> list[str]:
    drawn = ("--samples", "1", "--max-new-tokens", "6")
    return ["--model", "toy", "--data", str(data), "--unit", "sentence", *drawn, "--out", out]


@pytest.fixture
def interrupt(cli: Call, data: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Makes the same run and ends it once `n` parts were written: what the command left, and the run."""
    write = RunDirectory.write_part

    def make(n: int, out: str, *more: str) -> tuple[Any, Path]:
        def write_and_end(self: RunDirectory, number: int, *part: Any) -> None:
            if number == n:
                raise KeyboardInterrupt
            write(self, number, *part)

        with monkeypatch.context() as patched:
            patched.setattr(RunDirectory, "write_part", write_and_end)
            ended = cli("influence", *options(data, out), *more)
        assert ended.code == 130
        (path,) = Path(out).iterdir()
        return ended, path

    return make


def test_runs_are_listed(cli: Call, interrupt: Call, run: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Path("runs") / "study-figure_8-laptop-0123456789abcdef"
    study.mkdir()
    monkeypatch.setenv("COLUMNS", "200")
    ended = cli("runs", "list", "--json")
    assert (ended.code, ended.err) == (0, "")
    found = {entry["name"]: entry for entry in map(json.loads, ended.out.splitlines())}
    assert set(found) == {run.name, study.name}
    assert (found[study.name]["kind"], found[study.name]["state"]) == ("study", None)
    entry = found[run.name]
    told = {"kind": "run", "state": "complete", "measure": "influence", "model": "toy", "unit": "sentence"}
    told |= {"data": str(data), "given_name": None, "n_cases": 3, "n_cases_finished": 3, "dtype": "float64"}
    assert {name: entry[name] for name in told} == told
    shown = cli("runs", "list").out.splitlines()
    assert shown[0].split() == ["name", "state", "cases", "finished,", "UTC"]
    assert shown[1].split()[:2] == [run.name, "complete"]
    assert entry["finished"][:16].replace("T", " ") in shown[1]
    assert shown[2].strip() == f"toy, {data}, sentence"
    assert shown[3].split() == [study.name, "study"]
    interrupt(1, "others")
    assert "1 of 3" in cli("runs", "list", "--runs", "others").out
    Path("empty").mkdir()
    assert cli("runs", "list", "--runs", "empty").err == "no runs under 'empty'\n"
    # A unit that was not named is that of the first part; runs with a damaged part are listed.
    words = [word for word in options(data, "third") if word not in ("--unit", "sentence")]
    path = Path(cli("influence", *words).err.splitlines()[-1].removeprefix("run: "))
    assert json.loads(cli("runs", "list", "--runs", "third", "--json").out)["unit"] == "auto"
    (path / "cases-00000.json").write_text("[]", encoding="utf-8")
    ended = cli("runs", "list", "--runs", "third", "--json")
    assert (ended.code, json.loads(ended.out)["unit"]) == (0, None)


def test_an_interrupted_run_shows_what_is_measured(cli: Call, interrupt: Call, data: Path) -> None:
    whole = cli("influence", *options(data, "whole"), "--html", "whole.html").out
    ended, _ = interrupt(2, "runs", "--html", "page.html")
    for shown in (ended.out, Path("page.html").read_text(encoding="utf-8")):
        assert "Interrupted: 2 of 3 cases are measured" in shown
    assert "report: page.html" in ended.err
    finished = cli("influence", *options(data), "--html", "page.html")
    assert (finished.code, finished.out) == (0, whole)
    assert "Interrupted" not in Path("page.html").read_text(encoding="utf-8")


def test_a_unit_that_was_left_to_the_kind_of_case_is_shown_as_the_one_that_was_used(cli: Call) -> None:
    path = leakmeter.influence("toy", [{"context": "Anna sang. Bo ate.", "query": "Who?"}], samples=1, out="left").path
    shown = cli("runs", "show", path).out
    assert "  unit          auto\n" in shown
    assert '    unit = "auto"\n' in shown


def test_a_run_has_a_name(cli: Call, run: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no part of the run's identity, and is in no export."""
    named = cli("influence", *options(data, "named"), "--name", "before the change")
    path = Path(named.err.splitlines()[-1].removeprefix("run: "))
    assert path.name == run.name
    (entry,) = map(json.loads, cli("runs", "list", "--runs", "named", "--json").out.splitlines())
    assert entry["given_name"] == "before the change"
    monkeypatch.setenv("COLUMNS", "300")
    assert "toy, before the change, " in cli("runs", "list", "--runs", "named").out
    assert json.loads(cli("runs", "show", path, "--json").out)["name"] == "before the change"
    assert "  name          before the change\n" in cli("runs", "show", path).out
    asked = cli("runs", "query", "select name, data from runs", "--runs", "named", "--json").out
    assert json.loads(asked) == {"name": "before the change", "data": str(data)}
    again = cli("influence", *options(data, "named"), "--name", "another")
    assert "the run was finished before and keeps its name; 'another' is ignored" in again.err
    for out, one in (("a", run), ("b", path)):
        assert cli("runs", "export", one, "--out", out, "--redact").code == 0
    assert contents("a") == contents("b")
    assert cli("runs", "verify", path).code == 0
    for name in ("", " ", "x" * 81, "a\nb", "\x1b[31m"):
        ended = cli("influence", *options(data, "bad"), "--name", name)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == "leakmeter: a run's name is one line of 1 to 80 characters; give another name\n"
    assert not Path("bad").exists()


def test_what_names_people_is_not_told(cli: Call, tmp_path: Path) -> None:
    people = tmp_path / "Anna_Ek.jsonl"
    people.write_text('{"name": "Anna Ek", "phone": "+1 212 555 0123"}\n', encoding="utf-8")
    assert cli("pii", "probe", "--subjects", people, "--model", "toy", "--decoys", 50).code == 0
    (entry,) = map(json.loads, cli("runs", "list", "--json").out.splitlines())
    assert entry["data"] is None
    (path,) = Path("runs").iterdir()
    for told in (cli("runs", "list").out, cli("runs", "show", path).out, (path / "spec.json").read_text("utf-8")):
        assert "Anna_Ek" not in told


def test_a_run_is_shown(cli: Call, interrupt: Call, run: Path, data: Path) -> None:
    told = json.loads(cli("runs", "show", run, "--json").out)
    assert (told["run"], told["state"], told["measure"], told["cases"]) == (run.name, "complete", "influence", 3)
    assert (told["parameters"]["max_new_tokens"], told["prompts"]["unit"], told["warnings"]) == (6, "sentence", [])
    assert (told["model"]["name"], "numpy" in told["versions"]) == ("toy", True)
    costs = [RunDirectory(run).read_texts(number)[0]["cost"] for number in range(3)]
    assert told["cost"]["tree_tokens"] == sum(cost["tree_tokens"] for cost in costs)
    assert told["cost"]["seconds"] == pytest.approx(sum(cost["seconds"] for cost in costs), rel=1e-12)
    # By name, and by as much of it as tells it from others.
    for given in (run.name, run.name[:14]):
        shown = cli("runs", "show", given).out
        assert shown.splitlines()[0] == run.name
        for said in ("max_new_tokens = 6", 'unit = "sentence"', "cases         3", "state         complete, 20"):
            assert said in shown
        assert "    ner = not set\n" in shown
        assert "= null" not in shown
    _, unfinished = interrupt(2, "others")
    shown = cli("runs", "show", unfinished).out
    assert "  state         unfinished\n  " in shown
    assert "  cases         2 of 3\n" in shown
    assert "  warning: not complete: the same command continues it\n" in shown
    assert json.loads(cli("runs", "show", unfinished, "--json").out)["prompts"]["unit"] == "sentence"
    # What it warns of.
    with data.open("a", encoding="utf-8") as file:
        file.write("\nno JSON\x1b")
    assert cli("influence", *options(data, "third"), "--skip-bad").code == 0
    ended = cli("runs", "show", next(Path("third").iterdir()))
    assert "  warning: left out 1 bad case; the first: " in ended.out
    assert "\x1b" not in ended.out


def test_verify_names_what_is_wrong(cli: Call, interrupt: Call, run: Path) -> None:
    ended = cli("runs", "verify")
    assert (ended.code, ended.out, ended.err) == (0, f"whole       {run.name}  6 files\n", "")
    assert cli("runs", "verify", run, run.name).code == 0
    part = run / "measurements-00002.parquet"
    part.write_bytes(part.read_bytes()[:-30])
    texts = run / "cases-00000.json"
    texts.write_text(texts.read_text(encoding="utf-8").replace("Anna", "Ines"), encoding="utf-8")
    (run / "note\x1b\n.txt").write_text("x", encoding="utf-8")
    ended = cli("runs", "verify")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        f"wrong       {run.name}  6 files",
        "    cases-00000.json: edited",
        "    measurements-00002.parquet: truncated or damaged",
        "    note␛␊.txt: foreign",
    ]
    _, unfinished = interrupt(1, "others")
    ended = cli("runs", "verify", "--runs", "others")
    assert (ended.code, ended.out) == (0, f"unfinished  {unfinished.name}  2 files\n")
    assert cli("runs", "verify", unfinished).code == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["list", "--runs", "nowhere"], "no directory of runs 'nowhere' (No such file or directory); name one"),
        (["verify", "--runs", "nowhere"], "no directory of runs 'nowhere'"),
        (["verify", "nothing"], "no run 'nothing', neither as a directory nor under 'runs'"),
        (["show", "."], "'.' is not a run; `leakmeter runs list` shows the runs"),
        (["export", "nothing", "--out", "x"], "no run 'nothing'"),
        (["show"], 'Command "runs show" parameter RUN requires an argument'),
        (["export", "."], 'Command "runs export" parameter --out requires an argument'),
    ],
)
def test_bad_input_is_one_line(cli: Call, words: list[str], reason: str) -> None:
    Path("runs").mkdir()
    ended = cli("runs", *words)
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line.startswith(f"leakmeter: {reason}")
    assert sorted(path.name for path in Path().iterdir()) == ["runs"]


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_an_interrupted_run_exports_like_an_undisturbed_one(cli: Call, interrupt: Call, run: Path, data: Path) -> None:
    interrupt(1, "others")
    _, again = interrupt(2, "others")
    assert cli("runs", "export", again, "--out", "early").err.startswith("leakmeter: 'others/influence-")
    assert not Path("early").exists()
    assert cli("influence", *options(data, "others")).code == 0
    for path, out in ((run, "a"), (again, "b")):
        ended = cli("runs", "export", path, "--out", out)
        assert (ended.code, ended.out, ended.err) == (0, "", f"export: {out}\n")
        assert cli("runs", "export", path, "--out", f"{out}.csv").code == 0
    assert contents("a") == contents("b")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_a_redacted_export(cli: Call, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    # The user's key makes the hashes, so that the same comes out again.
    for out in ("out", "again", "out.csv"):
        assert cli("runs", "export", run, "--out", out, "--redact").code == 0
    assert contents("again") == contents("out")
    everything = b"".join([*contents("out").values(), Path("out.csv").read_bytes()])
    for word in ("Anna", "Who", "sentence", '"c0"', run.name):
        assert word.encode() not in everything, word


NAMES = [name for name in all_printed() if issubclass(printed(name), Record)]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_that_of_the_results(name: str, cli: Callable[..., Any]) -> None:
    schema = json.loads(cli("runs", "schema", name).out)
    assert schema == leakmeter.schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": printed(name).schema}
    assert set(schema["properties"]) == {"schema", *(field.name for field in fields(printed(name)))}


def parts_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The records of a schema."""
    yield schema
    yield from schema.get("$defs", {}).values()


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_says_what_each_field_is(name: str) -> None:
    """A record in a field says it itself."""
    silent = [
        f"{part['title']}.{field}"
        for part in parts_of(leakmeter.schema(name))
        for field, about in part["properties"].items()
        if not ({"description", "$ref", "const"} & about.keys())
    ]
    assert silent == []
    assert all(part["description"] for part in parts_of(leakmeter.schema(name)))


UNITS = re.compile(r"(?:^|_)(?:nats|bits|seconds|share|ratio|per_second)(?:_|$)")
PLAIN = re.compile(
    r"(?:\w+_)?(?:posterior|confidence|p_value\w*|epsilon|probabilities|mass|weight|order|perplexity|distinct_[123]|"
    r"lambda|lambda_max|temperature|clip|delta|relative_error)"
)
"""Names of numbers without a unit: probabilities, and parameters as papers call them."""


def is_number(about: dict[str, Any]) -> bool:
    within = (*about.get("anyOf", ()), *about.get("prefixItems", ()), *filter(None, [about.get("items")]))
    return about.get("type") == "number" or any(map(is_number, within))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_have_their_unit_in_their_name(name: str) -> None:
    numbers = {
        field
        for part in parts_of(leakmeter.schema(name))
        for field, about in part["properties"].items()
        if is_number(about)
    }
    assert {field for field in numbers if not (UNITS.search(field) or PLAIN.fullmatch(field))} == set()


MEASURED = ("influence", "--data", "cases.jsonl", "--model", "toy", "--json", "--max-new-tokens")


@pytest.fixture
def runs(cli: Call) -> tuple[Path, Path]:
    """Of five notes and of four of them with another limit, one with another text."""
    found = []
    for number, limit in enumerate((6, 7)):
        with Path("cases.jsonl").open("w", encoding="utf-8") as file:
            for name in ("Anna", "Bo", "Cora", "Dan", "Eve")[: 5 - number]:
                context = f"{name} sang.{' Often.' * (number and name == 'Bo')}"
                file.write(json.dumps({"id": name, "context": context, "query": "Who?", "response": "Bo"}) + "\n")
        found.append(Path(cli(*MEASURED, limit).err.splitlines()[-1].removeprefix("run: ")))
    return found[0], found[1]


def test_two_runs_are_compared(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    compare(*map(str, runs))
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert re.fullmatch(r"A: influence-[0-9a-f]{16}, .*cases\.jsonl, unit auto, 20.* UTC", lines[0])
    assert lines[1].startswith("B: influence-")
    shown = " ".join(said.split())
    for words in (
        "1 of 4 cases changed; on average, B is not shown to leak more or less than A: no "
        "difference beyond chance in 6 of 6 numbers. 4 cases: more can show smaller differences.",
        "4 cases are in both, 1 only in A and 0 only in B; 1 of them with other texts: the same id, but not the same "
        "case. Set otherwise: params.max_new_tokens: 6, then 7",
        "Cases that changed",
        "p of Wilcoxon’s signed-rank test, by Holm’s rule among these numbers, is below 0.05.",
    ):
        assert words in shown
    assert all(len(line) <= 100 for line in lines)
    compared = said[said.index("Means over cases") :]
    for name in ("influence, nats", "influence.per_token,", "influence.false_"):
        assert f"\n{name}" in compared
    compare(*(run.name for run in runs), runs=runs[0].parent)
    assert capsys.readouterr().out == said
    compare(*map(str, runs), quantity=["influence"], json=True)
    told = json.loads(capsys.readouterr().out)
    (row,) = told["quantities"]
    assert (told["n_pairs"], row["quantity"], row["n_pairs"]) == (4, "influence", 4)
    assert row["difference"] == pytest.approx(row["second"] - row["first"], rel=1e-12)
    assert (row["interval"], row["verdict"]) == (None, "no finding")
    with pytest.raises(LeakmeterError, match="no quantity named 'lake'"):
        compare(*map(str, runs), quantity=["lake"])
    with pytest.raises(LeakmeterError, match="no run 'nosuch'"):
        compare(str(runs[0]), "nosuch")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        (("--unit", "word"), "prompts.unit: auto, then word"),
        (("--removal", "mask"), "prompts.removal: drop, then mask"),
        (("--temperature", "0.5"), "params.temperature: 1, then 0.5"),
        (("--cid-lambda", "0.5"), "params.cid_lambda: 1, then 0.5"),
        (("--group",), "prompts.group: False, then True"),
    ],
)
def test_incomparable_runs(runs: tuple[Path, Path], cli: Call, options: tuple[str, ...], setting: str) -> None:
    other = cli(*MEASURED, 7, *options).err.splitlines()[-1].removeprefix("run: ")
    ended = cli("runs", "compare", runs[1], other)
    assert f"No verdict: the numbers mean different things ({setting})" in " ".join(ended.out.split())
    assert not any(word in ended.out for word in ("worse", "better", "no difference", "leaks", " by "))
    told = json.loads(cli("runs", "compare", runs[1], other, "--json").out)
    assert [one["name"] for one in told["incomparable"]] == [setting.partition(":")[0]]
    assert {(row["verdict"], row["difference"], row["interval"]) for row in told["quantities"]} == {("", None, None)}
    cli("report", runs[1], other, "--html", "both.html")
    page = Path("both.html").read_text(encoding="utf-8")
    assert "No verdict: the numbers mean different things" in page
    assert "All else is no difference beyond chance" not in page
    if options[0] == "--unit":  # a unit that was named and the same by default are one
        same = cli(*MEASURED, 7, "--unit", "auto", "--out", "same").err.splitlines()[-1].removeprefix("run: ")
        out = cli("runs", "compare", runs[1], same).out
        assert "set otherwise" not in out
        assert "No verdict" not in out
