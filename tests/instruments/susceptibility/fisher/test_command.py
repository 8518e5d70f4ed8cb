"""`leakmeter susceptibility --estimator fisher`, with a transformers model of one layer."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import as_options, assert_refused, objects_of
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.fisher.result import FisherResult

Call = Callable[..., Any]
QUERIES = [
    {"id": f"q{i}", "query": asked, "form": form}
    for i, (asked, form) in enumerate(
        [("Who wrote it?", "open"), ("Emma was by", "open"), ("Is it late?", "closed")] * 4
    )
]
CONTEXTS = ["Emma is by Poe.", "It rains.", "Two goats slept on the roof."]


@pytest.fixture(scope="module")
def model(byte_model: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model and its tokenizer as files."""
    path = tmp_path_factory.mktemp("model")
    for part in byte_model:
        part.save_pretrained(path)
    return path


@pytest.fixture
def fisher(cli: Call, model: Path, tmp_path: Path) -> Call:
    """`leakmeter susceptibility --estimator fisher` of one's own queries; options win, None drops one."""
    rows = {"QUERIES": QUERIES, "ONE": QUERIES[:1], "CONTEXTS": [{"context": text} for text in CONTEXTS]}
    files = {name: tmp_path / f"{name}.jsonl" for name in rows}
    for name, path in files.items():
        path.write_text("\n".join(map(json.dumps, rows[name])), encoding="utf-8")

    def call(*more: object, **options: Any) -> Any:
        given = {"estimator": "fisher", "queries": "QUERIES", "model": model, "device": "cpu", **options}
        return cli("susceptibility", *as_options({name: files.get(of, of) for name, of in given.items()}), *more)

    return call


def without_cost(case: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name != "cost"}


def test_queries_are_ranked_without_any_context(fisher: Call) -> None:
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


def test_contexts_say_what_changes_there_are_and_how_long_a_slot_is(fisher: Call) -> None:
    for place in ("slot", "layer:0"):
        how = {"queries": "ONE", "contexts": "CONTEXTS", "sigma": "empirical", "probes": 2}
        (case,), _ = objects_of(fisher("--json", place=place, **how))
        assert case["n_contexts"] == 3
        (value,) = case["values"]
        assert value["fisher_nats"] == pytest.approx(value["spread_nats"] + value["drift_nats"])
    (bare,), _ = objects_of(fisher("--json", queries="ONE", place="slot", probes=2))
    (longer,), _ = objects_of(fisher("--json", queries="ONE", place="slot", probes=2, contexts="CONTEXTS"))
    n_more = len(CONTEXTS[2]) - 16 + 1  # and the separator
    assert longer["cost"]["tree_tokens"] - bare["cost"]["tree_tokens"] == n_more * (1 + 2 + 2 * 8)


def test_it_takes_what_was_predicted_goes_on_and_is_the_same_from_python(fisher: Call, model: Path) -> None:
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


def test_without_files_the_sample_is_measured(fisher: Call) -> None:
    cases, told = objects_of(fisher("--json", queries=None, probes=2, directions=1))
    assert told["n"] == 12
    assert {case["n_contexts"] for case in cases} == {16}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"temperature": 2},
            "not for this estimator but for --estimator monte-carlo: --temperature; give that one, or",
        ),
        ({"answer_tokens": 0}, "for --estimator monte-carlo: an option that is given"),
        ({"estimator": "monte-carlo", "contexts": "CONTEXTS", "probes": 4, "top_k": 3}, ": --probes, --top-k; give"),
        ({"estimator": "monte-carlo"}, "--queries comes without --contexts"),
        ({"queries": None, "contexts": "CONTEXTS"}, "--contexts comes without --queries"),
        ({"sigma": "empirical"}, "sigma 'empirical' is zero at place query"),
        ({"sigma": "empirical", "place": "slot"}, "case 'q0' has no contexts, which sigma 'empirical' needs"),
        ({"place": "layer:1"}, "has layers 0 to 0"),
        ({"method": "exact"}, "exact"),
    ],
)
def test_what_cannot_be_used_is_one_line(fisher: Call, options: dict[str, Any], said: str) -> None:
    assert_refused(fisher(**options), said)
    assert list(Path.cwd().iterdir()) == []


def test_a_model_without_gradients_is_refused_before_it_is_loaded(
    fisher: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("leakmeter.engine.loading.load_backend", load)
    assert_refused(fisher(model="toy"), "'toy' gives no gradients, which Fisher susceptibility needs")


def test_every_field_of_the_measure_is_an_option_that_has_no_negative(cli: Call) -> None:
    told = " ".join(cli("susceptibility", "--help-all").out.replace("│", " ").split())
    for field in dataclasses.fields(Fisher):
        assert f" --{field.name.replace('_', '-')} " in told
    assert "--empty-" not in told
