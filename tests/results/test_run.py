"""`leakmeter.load_run`: a run of every measure as an object, with the toy model."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

import leakmeter
from leakmeter.commands import call
from leakmeter.core.quantity import Quantity
from leakmeter.engine.storage.parts import PartReader
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import StoreError, UsageError
from leakmeter.products.pages.render import page_of_runs, write_figures
from leakmeter.results.results import Results
from leakmeter.results.run import Run

MARKUP = "<img src=x onerror=alert(1)> $x$ \x1b[31m"
CASES = [
    {"id": f"note {name} {MARKUP}", "context": f"{name} Ek lives in Graz. {MARKUP} {name} left.", "query": "Who?"}
    for name in ("Anna", "Bo", "Cora")
]
WORDS = {
    "influence": ["influence", "--samples", "2", "--max-new-tokens", "4"],
    "decode": ["decode", "--epsilon", "0.5", "--max-new-tokens", "4"],
    "icl": ["icl", "--label-scoring", "whole-sequence", "--shots", "2"],
    "susceptibility": ["susceptibility"],
    "private_generation": ["generate"],
    "pii": ["pii", "probe", "--decoys", "50", "--prompts", "1", "--beams", "0"],
    "redact": ["redact", "--max-loss", "1", "--samples", "1", "--max-new-tokens", "4"],
}
matplotlib.use("agg")

FIGURES = {
    "influence": ["pieces", "tokens"],
    "decode": ["loss"],
    "icl": ["queries", "positions"],
    "susceptibility": ["queries", "contexts"],
    "private_generation": ["orders", "exemplars"],
    "pii": ["people", "p_values"],
    "redact": ["left"],
}
OF_CASES = ("influence", "decode", "redact")


def measured(measure: str, *more: str) -> Run:
    """A run in the present directory."""
    from leakmeter.cli import main

    given = []
    if measure in OF_CASES:
        Path("cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
        given = ["--data", "cases.jsonl"]
    before = set(Path("runs").glob("*/spec.json"))
    with pytest.raises(SystemExit) as ended:
        main([*WORDS[measure], *given, "--model", "toy", "--json", *more])
    assert not ended.value.code
    (spec,) = set(Path("runs").glob("*/spec.json")) - before
    return leakmeter.load_run(spec.parent)


def texts_in(value: Any) -> Iterator[str]:
    """All texts of a case object."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)


def check_reprs(run: Run, results: list[Any]) -> None:
    """Ids, sizes and headline, and no other text: what is logged tells nothing private."""
    assert repr(run) == f"<Run '{run.path.name}': {run.measure}, {len(results)} case{'s' * (len(results) != 1)}>"
    for result in results:
        said = repr(result)
        headline = type(result).findings([result]).headline
        id_ = result.id
        assert said.startswith(f"<{type(result).__name__} {id_[:40]!r}"[:-1])
        assert said.endswith(f": {headline}>" if headline else ">")
        assert "\x1b" not in said
        rest = said.removesuffix(f"{headline}>").replace(f"{id_[:40]!r}"[:-1], "")
        assert [text for text in texts_in(result.to_dict()) if len(text) > 3 and text in rest] == []
        assert len(said) < 600
        for name in ("pieces", "exemplars", "contexts"):
            for one in getattr(result, name, ()):
                assert one.text not in repr(one)
        if hasattr(result, "public"):
            assert not any(text in repr(result.public) for text in texts_in(result.public.to_dict()) if len(text) > 9)
    together = Results(results)
    ids = ", ".join(repr(result.id)[:20] for result in results[:1])
    assert repr(together).startswith(f"<Results of {len(results)}: {ids}")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


@pytest.mark.parametrize(
    "measure", [pytest.param(one, marks=pytest.mark.long) if one != "influence" else one for one in WORDS]
)
def test_a_run_of_every_measure_is_an_object(measure: str) -> None:
    run = measured(measure)
    results = list(run)
    check_reprs(run, results)
    assert run.measure == measure
    assert run.spec == RunDirectory(run.path).read_spec()
    assert list(run.cases) == results
    assert (run.summary is None) == (measure in ("decode", "redact"))

    frame = run.to_frame()
    of_cases = [quantity for quantity in run.kind.quantities if isinstance(quantity, Quantity)]
    texts = [name for name in ("query", "response") if name in frame]
    labels = [name for name in run.kind.label_fields if name == "channel"]
    assert list(frame.columns) == ["id", *texts, "verdict", *labels, *(quantity.name for quantity in of_cases)]
    assert list(frame["verdict"]) == [run.kind.findings([case]).headline for case in run.cases]
    for quantity in of_cases:
        least = quantity.lower_bound
        slowly = [None if least and least.holds(case) else quantity.compute(case) for case in run.cases]
        np.testing.assert_array_equal(frame[quantity.name], [np.nan if value is None else value for value in slowly])

    measurements = run.measurements()
    slowly = [
        (r.item, r.sample, r.piece, r.statistic, position, value, r.unit)
        for number in RunDirectory(run.path).parts
        for r in RunDirectory(run.path).read_measurements(number)
        for position, value in enumerate(r.values.tolist())
    ]
    assert len(measurements) == len(slowly)
    assert [tuple(row) for row in measurements.head(40).itertuples(index=False)] == slowly[:40]

    assert [path.name for path in write_figures({Path("figures"): run})] == [
        f"{name}.{form}" for name in FIGURES[measure] for form in ("png", "svg")
    ]
    drawn = {path.name: path.read_bytes() for path in Path("figures").iterdir()}
    write_figures({Path("again"): leakmeter.load_run(run.path)})
    assert drawn == {path.name: path.read_bytes() for path in Path("again").iterdir()}
    assert list(run.figures()) == FIGURES[measure]
    for drawn_by in (run, results[0]):
        for name, figure in drawn_by.figures().items():
            n_panels = sum(axes.get_label() != "<colorbar>" for axes in figure.axes)
            assert np.size(drawn_by.plot(name)) == n_panels
    pyplot.close("all")

    shown = run._repr_html_()
    assert shown.startswith('<iframe src="data:text/html;charset=utf-8;base64,')
    assert shown.count("<") == 2  # the frame alone: nothing of the page stands beside its address
    html = base64.b64decode(shown.split("base64,")[1].split('"')[0]).decode()
    assert (run.path.name in html, "<img" in html, "\x1b" in html) == (True, False, False)
    assert run.quantities()
    page = run.save_html("page.html").read_text(encoding="utf-8")
    assert page == run.kind.render_page(results, command=run.spec["command"], run=run.path)


def test_usual_aggregates_are_those_of_the_cases() -> None:
    run = measured("decode")
    found = run.quantities()
    told = [case.ledger.whole_nats for case in run.cases]
    assert found["decode.mean"].value == pytest.approx(np.mean(told), rel=1e-12)
    assert found["decode.mean"].n == 3
    spent = max(nats for case in run.cases for nats in case.ledger.per_token.spent_nats)
    assert found["decode.ratio.max"].value == pytest.approx(spent / 0.5, rel=1e-12)
    assert "decode.worst_response.mean" not in found


def test_runs_of_one_measure_are_compared_and_others_only_shown() -> None:
    first, second, other = measured("influence"), measured("influence", "--truncate"), measured("decode")
    page = page_of_runs([first, other, second])
    rule = "All else is no difference beyond chance"
    assert (page.count("<iframe"), page.count(rule), page.count("<img")) == (3, 1, 0)
    assert "From run 1 to run 3" in page
    assert "prompts.truncate: False, then True" in page


def test_a_wrong_engine_a_missing_library_and_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = measured("influence")
    wrong: Any = "excel"
    with pytest.raises(UsageError, match="it has to be pandas or polars"):
        run.measurements(wrong)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match="leakmeter\\[polars\\]"):
        run.measurements("polars")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (run.figures, lambda: write_figures({Path("none"): run})):
        with pytest.raises(UsageError, match="pip install matplotlib"):
            draw()
    assert not Path("none").exists()
    with pytest.raises(StoreError, match="there is no 'nowhere'; give the directory of a run"):
        leakmeter.load_run("nowhere")
    Path("notes").mkdir()
    with pytest.raises(StoreError, match=r"'notes' is no run: it has neither spec.json nor begun.json; give the dir"):
        leakmeter.load_run("notes")


def test_polars_has_the_same_rows() -> None:
    pytest.importorskip("polars")
    run = measured("influence")
    assert run.measurements("polars").rows() == list(run.measurements().itertuples(index=False, name=None))


def test_a_call_into_a_run_has_its_results_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has just made them; those of very many cases are read again, since they would fill the memory."""
    data = [{"id": str(n), "context": f"Ana is {n}.", "query": "Age?", "response": "41"} for n in range(3)]
    read: list[str] = []
    usual = PartReader.all_cases
    monkeypatch.setattr(PartReader, "all_cases", lambda reader: (read.append("all"), usual(reader))[1])
    run = leakmeter.influence("toy", data, out=tmp_path)
    held = [*run, *run.cases, run["2"]]
    assert (len(held), read) == (7, [])
    again = leakmeter.load_run(run.path)
    assert (again.cases, read) == (run.cases, ["all"])
    monkeypatch.setattr(call, "HELD_RESULTS", 2)
    many = leakmeter.influence("toy", data, out=tmp_path)
    assert (many.cases, read) == (run.cases, ["all", "all"])
