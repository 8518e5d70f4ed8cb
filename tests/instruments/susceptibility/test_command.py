"""`leakmeter susceptibility`: queries behind contexts, measured with the toy model, and by gradients of a small one."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import as_options, assert_refused, objects_of, without_seconds
from leakmeter.backends.toy import Toy
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.fisher.result import FisherResult
from leakmeter.instruments.susceptibility.result import SusceptibilityResult

Call = Callable[..., Any]
QUERIES = [
    {"id": f"q{i}", "query": f"Q: {asked}\nA:", "entity": entity, "form": form}
    for i, (asked, entity, form) in enumerate(
        [("Who wrote Emma?", "Emma", "open"), ("Who wrote Ulla?", "Ulla", "open"), ("Is it late?", "", "closed")] * 4
    )
]
CONTEXTS = [
    {"id": f"c{i}", "context": text}
    for i, text in enumerate(["Emma is by Poe.", "It rains.", "Two goats slept on the roof.", "Ha!"])
]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Files of queries and contexts."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, rows in (("queries", QUERIES), ("contexts", CONTEXTS)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


@pytest.fixture
def susceptibility(cli: Call, mine: Path) -> Call:
    """`leakmeter susceptibility` of one's own files with the toy model; options win, None drops one."""

    def call(*more: object, **options: object) -> Any:
        files = {name: mine / f"{name}.jsonl" for name in ("queries", "contexts")}
        return cli("susceptibility", *as_options({**files, "model": "toy", **options}), *more)

    return call


def test_every_query_is_asked_behind_every_context_and_summed_up(susceptibility: Call) -> None:
    dry = json.loads(susceptibility("--dry-run", "--json").out)
    assert not Path("runs").exists()
    cases, told = objects_of(susceptibility("--json"))
    for name in ("requests", "tree_tokens"):
        assert dry[name] == sum(case["cost"][name] for case in cases)
    assert told == SusceptibilityResult.summary([SusceptibilityResult.from_dict(case) for case in cases]).to_dict()
    assert [case["id"] for case in cases] == [row["id"] for row in QUERIES]
    for case, row in zip(cases, QUERIES, strict=True):
        assert case["query"] == row["query"]
        assert [context["id"] for context in case["contexts"]] == ["c0", "c1", "c2", "c3"]
        assert 0 < case["susceptibility_nats"] < case["ceiling_nats"]
    assert set(told["factors"]) == {"entity", "form"}
    assert {case["cost"]["scored_together"] for case in cases} == {8, 4}
    assert [row["id"] for row in told["queries"]] == [
        case["id"] for case in sorted(cases, key=lambda case: -case["susceptibility_nats"])
    ]
    (run,) = Path("runs").iterdir()
    spec = (run / "spec.json").read_text(encoding="utf-8")
    assert ("goats" in spec, "Who wrote Emma" in spec) == (False, True)
    # From Python it is the same.
    measured = leakmeter.susceptibility("toy", QUERIES, contexts=CONTEXTS)
    assert list(map(without_seconds, (result.to_dict() for result in measured))) == list(map(without_seconds, cases))
    assert measured.summary.mean_nats == told["mean_nats"]
    frame = measured.to_frame(detail=True)
    assert (len(frame), list(frame.columns[:3])) == (12 * 4, ["case", "id", "text"])
    assert frame.groupby("case")["persuasion_nats"].mean()["q0"] == pytest.approx(cases[0]["susceptibility_nats"])


def test_python_takes_texts_and_refuses_in_one_line() -> None:
    plain = leakmeter.susceptibility("toy", ["Who?"], contexts=["Emma is by Poe.", "It rains."])
    assert plain[0].contexts[1].text == "It rains."
    with pytest.raises(DataError, match="queries, record 1 has none of the columns"):
        leakmeter.susceptibility("toy", [{"ask": "Who?"}], contexts=CONTEXTS)
    with pytest.raises(UsageError, match="case '1' has fewer than two contexts"):
        leakmeter.susceptibility("toy", ["Who?"], contexts=CONTEXTS[:1])


def test_weights_answers_and_separators_are_heeded_and_each_is_another_run(susceptibility: Call, mine: Path) -> None:
    one, _ = objects_of(susceptibility("--json"))
    (mine / "weighted.csv").write_text(
        "id,context,weight\n" + "\n".join(f"{row['id']},{row['context']},{i + 1}" for i, row in enumerate(CONTEXTS)),
        encoding="utf-8",
    )
    two, _ = objects_of(susceptibility("--json", contexts=mine / "weighted.csv"))
    assert [context["weight"] for context in two[0]["contexts"]] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert two[0]["ceiling_nats"] < one[0]["ceiling_nats"]
    assert two[0]["susceptibility_nats"] != one[0]["susceptibility_nats"]
    answered = [row | {"answers": {"Yes": ["Yes", "yes"], "No": ["No"]}} for row in QUERIES[:2]]
    (mine / "answers.jsonl").write_text("\n".join(map(json.dumps, answered)), encoding="utf-8")
    three, _ = objects_of(susceptibility("--json", queries=mine / "answers.jsonl"))
    assert three[0]["answers"] == ["Yes", "No"]
    # What is told apart less finely tells less.
    assert three[0]["susceptibility_nats"] < one[0]["susceptibility_nats"]
    susceptibility("--json", "--separator", " ")
    assert len(list(Path("runs").iterdir())) == 4


def test_a_finished_run_is_read_and_an_unfinished_one_goes_on(susceptibility: Call) -> None:
    first = susceptibility("--json", "--answer-tokens", 2)
    (run,) = Path("runs").iterdir()
    assert run.name.startswith("susceptibility-")
    stamps = {path.name: path.stat().st_mtime_ns for path in run.glob("measurements-*")}
    # Twelve queries, of which eight are scored together.
    assert len(stamps) == 2
    assert susceptibility("--json", "--answer-tokens", 2).out == first.out
    assert {path.name: path.stat().st_mtime_ns for path in run.glob("measurements-*")} == stamps
    # As if it had been killed after its first part.
    for name in ("spec.json", "measurements-00001.parquet"):
        (run / name).unlink()
    again = susceptibility("--json", "--answer-tokens", 2)
    told, expected = (list(map(without_seconds, objects_of(ended)[0])) for ended in (again, first))
    assert told == expected
    assert (run / "measurements-00000.parquet").stat().st_mtime_ns == stamps["measurements-00000.parquet"]
    results = list(leakmeter.load_run(run))
    assert [result.id for result in results] == [case["id"] for case in expected]
    assert all(isinstance(result, leakmeter.SusceptibilityResult) for result in results)


def test_terminal_page_and_report_agree(susceptibility: Call, cli: Call) -> None:
    ended = susceptibility("--html", "page.html")
    assert ended.code == 0, ended.err
    (run,) = Path("runs").iterdir()
    assert ended.err == f"run: {run}\nreport: page.html (private, readable by you alone)\n"
    assert cli("report", run, "--html", "again.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert Path("again.html").read_text(encoding="utf-8") == page
    (headline,) = re.findall(r'<h2 class="finding[^"]*">(.*?)</h2>', page)
    assert " ".join(ended.out.split()).startswith(" ".join(headline.split()))
    assert page.count('<details class="line"') == 12
    assert cli("report", run, "--public").code == 2


def test_a_query_that_does_not_fit_is_named_or_left_out(
    susceptibility: Call, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Toy()
    small.window = 60
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *_, **__: small)
    (mine / "long.csv").write_text(f"id,query\nshort,Who?\nlong,{'Who? ' * 20}\n", encoding="utf-8")
    assert_refused(susceptibility(queries=mine / "long.csv"), "case 'long' behind context 'c2' needs ")
    ended = susceptibility("--json", "--skip-bad", queries=mine / "long.csv")
    assert (objects_of(ended)[1]["n"], "left out 1 bad case" in ended.err) == (1, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queries": "missing.jsonl"}, "data file 'missing.jsonl' cannot be read"),
        ({"queries": None}, "--contexts comes without --queries; give both, or neither for the sample"),
        ({"contexts": None}, "--queries comes without --contexts"),
        ({"queries": "EMPTY"}, "it has no record"),
        ({"contexts": "OTHER"}, "has none of the columns"),
        ({"contexts": "WEIGHT"}, "'weight' has to be a number above 0"),
        ({"contexts": "ONE"}, "case 'q0' has fewer than two contexts"),
        ({"queries": "ALIKE"}, "case 'q0': a form of answer 2 begins with the tokens of one of answer 1"),
        ({"template": "chat"}, "the toy model has no chat template"),
        ({"estimator": "carlo"}, "carlo"),
    ],
)
def test_what_cannot_be_used_is_one_line(susceptibility: Call, mine: Path, options: dict[str, Any], said: str) -> None:
    records: dict[str, object] = {
        "OTHER": {"sentence": "It rains."}, "WEIGHT": {"context": "It rains.", "weight": -1}, "ONE": CONTEXTS[0],
        "ALIKE": {**QUERIES[0], "answers": ["Yes", "Yesterday"]},
    }  # fmt: skip
    for name, value in options.items():
        if value in ("EMPTY", *records):
            options = {name: mine / "bad.jsonl"}
            (mine / "bad.jsonl").write_text(json.dumps(records[value]) if value in records else "\n")
    assert_refused(susceptibility(**options), said)
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.long
def test_the_sample_with_the_default_model(real_backend: Any) -> None:
    """docs/susceptibility.md: float32 on a CPU; other processors differ in digits that are not told there."""
    folder = resources.files("leakmeter.data.samples")
    asked, before = (
        list(map(json.loads, folder.joinpath(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()))
        for name in ("queries", "contexts")
    )
    told = leakmeter.susceptibility(real_backend, asked, contexts=before).summary
    assert told.mean_nats == pytest.approx(0.20, abs=0.006)
    assert told.interval_nats == pytest.approx([0.09, 0.32], abs=0.006)
    means = {row.level: row.mean_nats for name in ("openness", "familiarity") for row in told.factors[name]}
    assert means == pytest.approx({"open": 0.28, "closed": 0.02, "real": 0.18, "invented": 0.22}, abs=0.006)


@pytest.mark.parametrize("estimator", ["monte-carlo", "fisher"])
def test_without_files_the_sample_is_measured(fisher: Call, estimator: str) -> None:
    how = {"model": "toy", "device": None} if estimator == "monte-carlo" else {"probes": 2, "directions": 1}
    cases, told = objects_of(fisher("--json", estimator=estimator, queries=None, **how))
    assert (told["n"], {case["n_contexts"] for case in cases}) == (12, {16})
    levels = [row["level"] for row in (told if "factors" in told else told["values"][0])["factors"]["familiarity"]]
    assert sorted(levels) == ["invented", "real"]


@pytest.fixture(scope="module")
def model(byte_model: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model and its tokenizer as files."""
    path = tmp_path_factory.mktemp("model")
    for part in byte_model:
        part.save_pretrained(path)
    return path


@pytest.fixture
def fisher(susceptibility: Call, model: Path) -> Call:
    """The same by gradients of a transformers model of one layer, without contexts."""
    usual = {"estimator": "fisher", "model": model, "device": "cpu", "contexts": None}
    return lambda *more, **options: susceptibility(*more, **{**usual, **options})


def without_cost(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "cost": None}


def test_gradients_rank_queries_without_any_context(fisher: Call) -> None:
    cases, told = objects_of(fisher("--json", "--sigma", "identity", "--sigma", "embedding", probes=4))
    assert told == FisherResult.summary([FisherResult.from_dict(case) for case in cases]).to_dict()
    assert [case["id"] for case in cases] == [row["id"] for row in QUERIES]
    for case in cases:
        assert (case["estimator"], case["method"], case["n_contexts"], case["n_probes"]) == ("fisher", "deflated", 0, 4)
        identity, embedding = case["values"]
        assert (identity["sigma"], embedding["sigma"]) == ("identity", "embedding")
        assert identity["trace_nats_per_square"] == pytest.approx(2 * identity["fisher_nats"])
        assert embedding["trace_nats_per_square"] is None
        assert identity["drift_nats"] == 0 < embedding["drift_nats"]
        assert case["n_query_tokens"] == len(case["query"])
    for row in told["values"]:
        values = [query["fisher_nats"] for query in row["queries"]]
        assert values == sorted(values, reverse=True)
        assert -1 <= row["spearman_with_length"] <= 1
        assert [level["n"] for level in row["factors"]["form"]] == [8, 4]
    # The same query again has other random directions, and the value is the same within its interval.
    (first, *_), (other, *_) = cases[0]["values"], cases[3]["values"]
    assert first["fisher_nats"] != other["fisher_nats"]
    assert first["fisher_nats"] == pytest.approx(other["fisher_nats"], rel=0.5)


def test_contexts_say_what_changes_there_are_and_how_long_a_slot_is(fisher: Call, mine: Path) -> None:
    (mine / "one.jsonl").write_text(json.dumps(QUERIES[0]), encoding="utf-8")

    def one(**how: object) -> dict[str, Any]:
        ((case,), _) = objects_of(fisher("--json", queries=mine / "one.jsonl", probes=2, **how))
        return case

    contexts = mine / "contexts.jsonl"
    for place in ("slot", "layer:0"):
        case = one(contexts=contexts, place=place, sigma="empirical")
        assert case["n_contexts"] == 4
        (value,) = case["values"]
        assert value["fisher_nats"] == pytest.approx(value["spread_nats"] + value["drift_nats"])
    bare, longer = one(place="slot"), one(place="slot", contexts=contexts)
    n_more = len(CONTEXTS[2]["context"]) - 16 + 1  # and the separator
    assert longer["cost"]["tree_tokens"] - bare["cost"]["tree_tokens"] == n_more * (1 + 2 + 2 * 8)


def test_gradients_take_what_was_predicted_go_on_and_are_the_same_from_python(fisher: Call, model: Path) -> None:
    dry = json.loads(fisher("--dry-run", "--json", probes=2).out)
    assert not Path("runs").exists()
    assert "has layers 0 to 0" in fisher("--dry-run", place="layer:1").err
    first, told = objects_of(fisher("--json", probes=2))
    assert dry["tree_tokens"] == sum(case["cost"]["tree_tokens"] for case in first)
    (run,) = Path("runs").iterdir()
    assert run.name.startswith("fisher-")
    for name in ("spec.json", "measurements-00001.parquet"):
        (run / name).unlink()
    again, _ = objects_of(fisher("--json", probes=2))
    assert list(map(without_cost, again)) == list(map(without_cost, first))
    results = list(leakmeter.load_run(run))
    assert all(isinstance(result, leakmeter.FisherResult) for result in results)
    assert [without_cost(result.to_dict()) for result in results] == list(map(without_cost, first))
    measured = leakmeter.fisher_susceptibility(str(model), QUERIES, probes=2, device="cpu")
    # The directory has a name, and the model in memory is the same.
    assert [result.to_dict()["values"] for result in measured] == [case["values"] for case in first]
    assert measured.summary.values[0].mean_nats == told["values"][0]["mean_nats"]
    frame = measured.to_frame(detail=True)
    assert list(frame["case"]) == [row["id"] for row in QUERIES]
    assert frame["fisher_nats"][0] == measured[0].values[0].fisher_nats
    with pytest.raises(leakmeter.LeakmeterError, match="'toy' gives no gradients"):
        leakmeter.fisher_susceptibility("toy", ["Who?"])
    with pytest.raises(leakmeter.LeakmeterError, match="case '1' has no contexts, which sigma 'empirical'"):
        leakmeter.fisher_susceptibility(str(model), ["Who?"], sigma="empirical", place="slot", device="cpu")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": 2}, "not for this estimator but for --estimator monte-carlo: --temperature; give that one"),
        ({"answer_tokens": 0}, "for --estimator monte-carlo: an option that is given"),
        ({"estimator": "monte-carlo", "contexts": "FILE", "probes": 4, "top_k": 3}, ": --probes, --top-k; give"),
        ({"estimator": "monte-carlo"}, "--queries comes without --contexts"),
        ({"queries": None, "contexts": "FILE"}, "--contexts comes without --queries"),
        ({"sigma": "empirical"}, "sigma 'empirical' is zero at place query"),
        ({"sigma": "empirical", "place": "slot"}, "case 'q0' has no contexts, which sigma 'empirical' needs"),
        ({"place": "layer:1"}, "has layers 0 to 0"),
        ({"method": "exact"}, "exact"),
    ],
)
def test_what_gradients_cannot_use_is_one_line(fisher: Call, mine: Path, options: dict[str, Any], said: str) -> None:
    assert_refused(
        fisher(**{name: mine / "contexts.jsonl" if of == "FILE" else of for name, of in options.items()}), said
    )
    assert list(Path.cwd().iterdir()) == []


def test_a_model_without_gradients_is_refused_before_it_is_loaded(
    fisher: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("leakmeter.engine.loading.load", load)
    assert_refused(fisher(model="toy"), "'toy' gives no gradients, which Fisher susceptibility needs")


def test_every_field_of_the_measure_is_an_option_that_has_no_negative(cli: Call) -> None:
    told = " ".join(cli("susceptibility", "--help-all").out.replace("│", " ").split())
    for field in dataclasses.fields(Fisher):
        assert f" --{field.name.replace('_', '-')} " in told
    assert "--empty-" not in told
