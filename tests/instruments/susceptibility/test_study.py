"""Studies of susceptibility: tables are statistics of the measurements, and Fisher is held against the same queries."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from helpers.differentiable_toy import DifferentiableToy
from helpers.measured_studies import measured
from helpers.mortal_toy import Mortal
from helpers.query_studies import N_QUERIES, SMALL, chi_of, study_of
from leakmeter.cli.study import run as run_study
from leakmeter.commands.studies.cells import FinishedCell, load_records
from leakmeter.commands.studies.grid import SIZES, Study, load_study, shipped
from leakmeter.commands.studies.kind import StudyRow, Tables
from leakmeter.commands.studies.tables import items_to_csv, readable, to_markdown
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.instruments.susceptibility.case import Context, Query, QueryCase
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.stats.ranks import holm
from leakmeter.stats.stats import interval_of_mean

pytestmark = pytest.mark.usefixtures("undrawn")

OF_SUSCEPTIBILITY = [name for name in shipped() if name.startswith("susceptibility_")]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OF_SUSCEPTIBILITY)
def test_the_papers_studies_are_whole(name: str, size: str) -> None:
    study = load_study(name, size)
    assert study.kind.records == "queries"
    assert study.reproduces.startswith(
        "Liu et al., Efficiently Computing Susceptibility to Context in Language Models, "
    )
    for cell in study.cells:
        assert cell.n_records == (60 if size == "paper" else 20)
        on_a_laptop = 2 if name == "susceptibility_contexts" else 6
        assert (cell.record["entities"], cell.record["choice_seed"]) == ((60 if size == "paper" else on_a_laptop), 0)
        assert cell.record["mentioning"] == cell.record["contexts"] // 32
        assert size == "paper" or cell.model == "smollm2-135m"


def test_what_the_studies_vary() -> None:
    of_contexts = load_study("susceptibility_contexts", "paper").cells
    assert [cell.factors["contexts"] for cell in of_contexts] == [8, 16, 32, 64, 128, 256]
    *variants, reference = load_study("susceptibility_table_1").cells
    assert [cell.measure.sigma for cell in variants] == [  # type: ignore[attr-defined]
        ("identity", "embedding"), ("identity", "embedding", "empirical"), *[("identity", "empirical")] * 2,
    ]  # fmt: skip
    assert isinstance(reference.measure, Susceptibility)
    assert (reference.number, reference.stem, reference.label) == (4, "cell-04", "susceptibility")
    two = load_study("susceptibility_table_1", changes={"model": ["toy", "smollm2-135m"], "contexts": ["8", "9"]})
    assert [cell.label for cell in two.cells if cell.measure_name] == [
        f"susceptibility, model {model}, contexts {n}" for model in ("toy", "smollm2-135m") for n in (8, 9)
    ]
    said = load_study("susceptibility_table_1", changes={"place": ["slot"], "sigma": ["identity, empirical"]})
    assert said.cells[0].measure == Fisher(place="slot", sigma=("identity", "empirical"), probes=8, directions=8)


@pytest.mark.parametrize(
    ("changes", "data", "kind", "told"),
    [
        ({"relations": ["0"]}, {}, UsageError, "relations is 0; it has to be 1 or more"),
        ({"relations": ["1000"]}, {}, UsageError, "relations is 1,000; it has to be from 1 to 60"),
        ({"entities": ["1000"]}, {}, UsageError, "entities and 500 are asked for; give fewer entities"),
        ({"queries": ["9"]}, {}, UnknownNameError, "no setting of a study named 'queries'"),
        ({"dataset": ["yago"]}, {}, UnknownNameError, "no set of relations named 'yago'"),
        ({"template": ["document"]}, {}, UnknownNameError, "no template for queries named 'document'"),
        ({}, {"relations": "own.json"}, UsageError, "templates 'own.json' contain no names"),
        ({}, {"relations": "own.json", "relations.names": "x.json"}, DataError, "'own.json' cannot be read"),
        ({"dataset": ["own.toml"]}, {}, DataError, "relation file 'own.toml' cannot be read"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    changes: dict[str, list[str]], data: dict[str, str], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind) as ended:
        load_records(study_of("susceptibility_table_2", **changes), data)
    assert told in str(ended.value)


def test_a_study_is_known_by_its_queries_and_contexts() -> None:
    query = Query("a", "Who?", factors=(("form", "question"),))
    case = QueryCase("a", query, (Context("c", "Emma is by Poe."),))
    record = json.loads(json.dumps(study_of("susceptibility_contexts").kind.record(case)))
    asked = {"id": "a", "text": "Who?", "answers": [], "answer": None, "factors": [["form", "question"]]}
    assert record["query"] == asked
    assert record["contexts"] == [{"id": "c", "text": "Emma is by Poe.", "weight": 1.0, "answer": None}]


@dataclass(frozen=True)
class Measured:
    """A study of gradients, the Monte Carlo cell last, and where it was run."""

    study: Study
    cells: list[FinishedCell]
    where: Path

    def tables(self) -> Tables:
        return self.study.kind.tables(self.study, self.cells, self.where, print)


def differentiated(where: Path, name: str, **changes: list[str]) -> Measured:
    study = study_of(name, **changes)
    with pytest.MonkeyPatch.context() as there:
        there.chdir(where)
        cells, _ = measured(study, {}, DifferentiableToy(scale=0.3))
    return Measured(study, cells, where)


@pytest.fixture(scope="module")
def agreement(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return differentiated(tmp_path_factory.mktemp("agreement"), "susceptibility_table_1")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return differentiated(tmp_path_factory.mktemp("both"), "susceptibility_figure_3", answer_tokens=["2"])


def test_items_hold_every_query() -> None:
    study = study_of("susceptibility_table_2")
    (finished,), _ = measured(study, {})
    rows = list(csv.DictReader(io.StringIO(items_to_csv(study.kind.items(finished)), newline="")))
    assert [float(row["susceptibility_nats"]) for row in rows] == chi_of(finished)
    assert [row["query"] for row in rows] == [record.query.text for record in finished.records]
    assert {row["familiarity"] for row in rows} == {"real", "invented"}


def test_cells_have_the_same_queries_behind_more_contexts() -> None:
    fewer, more = load_records(study_of("susceptibility_contexts", contexts=["5", "9"]), {})
    assert [record.query for record in fewer] == [record.query for record in more]
    for few, many in zip(fewer, more, strict=True):
        assert len(many.contexts) == 9
        assert set(few.contexts) < set(many.contexts)
    named = fewer[0].id.split("/")[0]
    (chosen,) = load_records(study_of("susceptibility_contexts", contexts=["5"], relation_names=[named]), {})
    assert {record.known["relation"] for record in chosen} == {named}


def values_of(finished: FinishedCell, sigma: str, statistic: str) -> list[float]:
    return [
        next(float(r.values[0]) for r in measurements if (r.piece, r.statistic) == (sigma, statistic))
        for _, measurements in finished.measured
    ]


@pytest.mark.long
def test_every_variant_is_held_against_the_same_queries(agreement: Measured) -> None:
    study, cells, made = agreement.study, agreement.cells, agreement.tables()
    chi = np.asarray(chi_of(cells[-1]))
    names = list(dict.fromkeys(row["predictor"] for row in made.rows))
    assert names == [
        *("query, identity", "query, embedding", "query, embedding, spread"),
        *("slot, identity", "slot, embedding", "slot, embedding, spread", "slot, empirical", "slot, empirical, spread"),
        *("query length in tokens", "entropy of the bare answer", "query is closed"),
    ]
    values = np.asarray(values_of(cells[1], "empirical", "spread"))
    known = [record.known for record in cells[-1].records]
    for which in ("all", "open", "closed"):
        (row,) = [r for r in made.rows if (r["predictor"], r["queries"]) == ("slot, empirical, spread", which)]
        chosen = np.asarray([which in ("all", of["openness"]) for of in known])
        assert (row["n"], row["n_relations"]) == (chosen.sum(), 4)
        assert row["pearson"] == pytest.approx(scipy.stats.pearsonr(values[chosen], chi[chosen]).statistic)
        assert row["spearman"] == pytest.approx(scipy.stats.spearmanr(values[chosen], chi[chosen]).statistic)
        # Four relations are too few for an interval.
        assert np.isnan([row["spearman_low"], row["spearman_high"]]).all()
        assert row["partial_spearman"] is not None
    relations = np.asarray([of["relation"] for of in known])
    means = [[of[relations == name].mean() for name in dict.fromkeys(relations)] for of in (values, chi)]
    (row,) = [r for r in made.rows if r["predictor"] == "slot, empirical, spread" and r["queries"].startswith("means")]
    assert (row["n"], row["spearman"]) == (4, pytest.approx(scipy.stats.spearmanr(*means).statistic))
    # Openness says nothing of open queries.
    (none,) = [r for r in made.rows if (r["predictor"], r["queries"]) == ("query is closed", "open")]
    assert (none["pearson"], none["spearman"]) == (None, None)
    page = to_markdown(readable(study.title, study.kind.about(study), made.summary, study.kind.columns))
    assert "| query is closed | open | 16 | 4 | – | – | – |" in page


@pytest.mark.long
def test_the_best_variant_is_reported_where_it_was_not_chosen(agreement: Measured) -> None:
    made = agreement.tables()
    (row,) = made.comparisons
    assert (row["of"], row["n"], row["n_relations"]) == (8, N_QUERIES // 2, 2)
    assert row["chosen"] in {r["predictor"] for r in made.rows}
    by = row["spearman"] - row["eq_10_spearman"]
    assert row["spearman_difference"] == pytest.approx(by, abs=1e-12)
    assert replace(agreement, cells=agreement.cells[1:]).tables().comparisons == []
    # Of a study that is interrupted, the Monte Carlo cell may stand alone.
    assert replace(agreement, cells=agreement.cells[-1:]).tables().summary == []


@pytest.mark.long
def test_items_have_both_values(agreement: Measured) -> None:
    study, cells, made = agreement.study, agreement.cells, agreement.tables()
    (page,) = study.kind.pages(study, cells, []).items()
    assert page[0] == "agreement-02.csv"
    rows = list(csv.DictReader(io.StringIO(page[1], newline="")))
    assert [float(row["susceptibility"]) for row in rows] == chi_of(cells[-1])
    assert {row["predictor"] for row in made.rows} <= rows[0].keys()
    for finished in cells:
        assert len(items_to_csv(study.kind.items(finished)).splitlines()) > N_QUERIES
    pytest.importorskip("matplotlib")
    Path(page[0]).write_text(page[1], encoding="utf-8")
    study.kind.draw(study, made.rows, footer="f", stem=Path("figure"))
    for name in ("figure.svg", "figure.png", "agreement-02.svg", "agreement-02.png"):
        assert Path(name).stat().st_size > 0


@pytest.mark.long
def test_the_yardstick_is_the_run_of_the_study_of_monte_carlo_susceptibility(
    agreement: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(agreement.where)
    # A back end that does nothing: the run is there.
    (finished,), _ = measured(study_of("susceptibility_table_2"), {}, Mortal(0))
    assert (finished.run, chi_of(finished)) == (agreement.cells[-1].run, chi_of(agreement.cells[-1]))


def test_a_study_whose_back_end_dies_goes_on_without_repeating_or_losing_a_query() -> None:
    study = study_of("susceptibility_table_2", relations=["2"])
    n_deaths, seen = 0, dict[Path, bytes]()
    while True:
        try:
            (finished,), _ = measured(study, {}, Mortal(3))
            break
        except KeyboardInterrupt:
            n_deaths += 1
        now = {path: path.read_bytes() for path in Path("runs").glob("susceptibility-*/*-0*")}
        assert {path: now[path] for path in seen} == seen
        seen = now
        assert n_deaths < 10
    assert n_deaths > 0
    assert len(finished.measured) == len({texts["id"] for texts, _ in finished.measured}) == 16
    again, _ = measured(study, {}, Mortal(0))
    chi = chi_of(finished)
    assert chi_of(again[0]) == chi
    Path("runs").rename("killed")
    (calm,), _ = measured(study, {})
    assert chi_of(calm) == chi


def test_the_command_predicts_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    changes = [f"{name}={value}" for name, values in SMALL.items() for value in values]
    run_study("susceptibility_table_1", set=[*changes, "place=slot"], dry_run=True)
    assert "susceptibility" in capsys.readouterr().out
    assert not list(Path().iterdir())
    run_study("susceptibility_table_2", set=changes, out=Path("runs"))
    assert "Susceptibility over models" in capsys.readouterr().out
    (directory,) = Path("runs").glob("study-*")
    assert {"table.md", "table.csv", "comparisons.csv", "cell-00.csv"} <= {path.name for path in directory.iterdir()}


def by_relation(
    finished: FinishedCell, values: Sequence[float], chosen: Callable[[dict[str, str]], bool]
) -> np.ndarray:
    """Means over the chosen queries of each relation."""
    groups: dict[str, list[float]] = {}
    for record, value in zip(finished.records, values, strict=True):
        known = record.known
        if chosen(known):
            groups.setdefault(known["relation"], []).append(value)
    return np.asarray([statistics.fmean(group) for group in groups.values()])


def interval_over(means: np.ndarray) -> tuple[float, float]:
    """That of relations which have as many queries each: of their means; NaN of few."""
    return interval_of_mean(means, seed=0) or (np.nan, np.nan)


def interval_of(row: StudyRow, name: str) -> tuple[float, float]:
    return (row[f"{name}_low"], row[f"{name}_high"])


def test_a_table_is_the_statistics_of_its_queries() -> None:
    study = study_of("susceptibility_contexts", contexts=["5", "9"], relations=["8"])
    cells, directory = measured(study, {})
    n_queries = 2 * N_QUERIES
    made = study.kind.tables(study, cells, directory, print)
    assert [(row["contexts"], row["openness"], row["n"], row["n_relations"]) for row in made.rows] == [
        (n, openness, n_queries // (1 if openness == "all" else 2), 8)
        for n in (5, 9)
        for openness in ("all", "open", "closed")
    ]
    chi = chi_of(cells[0])
    row = made.rows[1]
    of_open = by_relation(cells[0], chi, lambda known: known["openness"] == "open")
    assert row["susceptibility_nats"] == pytest.approx(of_open.mean(), abs=1e-12)
    assert interval_of(row, "susceptibility_nats") == pytest.approx(interval_over(of_open), rel=1e-9)
    assert row["ceiling_share"] == pytest.approx(of_open.mean() / np.log(5))
    assert row["from_bare_nats"] > row["susceptibility_nats"]
    assert "| 5 | all | 64 | 8 |" in to_markdown(readable("T", [], made.summary, study.kind.columns))
    (found,) = [row for row in made.comparisons if row["compared"] == "contexts"]
    assert (found["level"], found["less"], found["n"], found["n_relations"]) == (9, 5, n_queries, 8)
    more = by_relation(cells[0], np.subtract(chi_of(cells[1]), chi).tolist(), lambda known: True)
    assert found["paired_nats"] == pytest.approx(more.mean(), abs=1e-12)
    assert interval_of(found, "paired_nats") == pytest.approx(interval_over(more), rel=1e-9)
    assert found["wilcoxon_p"] == pytest.approx(scipy.stats.wilcoxon(more).pvalue)
    page = to_markdown(readable(made.compared_title, made.compared_by, made.comparisons, study.kind.columns), level=2)
    assert page.startswith("## Pairs\n")


@pytest.mark.long
def test_pairs_are_of_the_same_entity_or_relation(both: Measured) -> None:
    made = replace(both, study=study_of("susceptibility_figure_4")).tables()
    finished = both.cells[-1]
    # The closed queries that ship are questions all.
    assert [(row["openness"], row["form"], row["n"]) for row in made.rows[:5]] == [
        ("all", "question", 24), ("all", "completion", 8), ("open", "question", 8), ("open", "completion", 8),
        ("closed", "question", 16),
    ]  # fmt: skip
    chi = chi_of(finished)
    open_questions = {"openness": "open", "form": "question"}
    expected = (
        ("openness", 8, ({"openness": "closed"}, open_questions)),
        ("form", 8, ({"openness": "open", "form": "completion"}, open_questions)),
        ("familiarity", 4, ({"familiarity": "invented"}, {"familiarity": "real"})),
    )
    for found, (name, n, of_both) in zip(made.comparisons[:3], expected, strict=True):
        levels = (of[name] for of in of_both)
        assert (found["estimator"], found["compared"], found["level"], found["less"]) == ("Monte Carlo", name, *levels)
        after, before = (by_relation(finished, chi, lambda known, of=of: of.items() <= known.items()) for of in of_both)
        assert (found["n"], found["n_relations"]) == (n, 4)
        assert found["paired_nats"] == pytest.approx((after - before).mean(), abs=1e-12)
        assert interval_of(found, "paired_nats") == pytest.approx(interval_over(after - before), abs=1e-12, nan_ok=True)
        assert found["wilcoxon_p"] == pytest.approx(scipy.stats.wilcoxon(after - before).pvalue)
    assert [row["holm_p"] for row in made.comparisons] == holm([row["wilcoxon_p"] for row in made.comparisons])


def test_one_relation_has_no_interval_and_no_p_and_openness_can_be_what_is_shown() -> None:
    study = replace(study_of("susceptibility_contexts", contexts=["5", "9"], relations=["1"]), show="openness")
    cells, directory = measured(study, {})
    made = study.kind.tables(study, cells, directory, print)
    assert [row["openness"] for row in made.rows[:3]] == ["all", "open", "closed"]
    for row in made.rows:
        assert row["n_relations"] == 1
        assert np.isnan(interval_of(row, "susceptibility_nats")).all()
    for row in made.comparisons:
        assert np.isnan([*interval_of(row, "paired_nats"), row["wilcoxon_p"], row["holm_p"]]).all()
    assert "fewer than eight relations have none" in study.kind.about(study)[1]
    pytest.importorskip("matplotlib")
    study.kind.draw(study, made.rows, footer="f", stem=Path("figure"))


@pytest.mark.long
def test_fisher_has_rows_for_each_place_and_sigma_beside_monte_carlo(both: Measured) -> None:
    cells, made = both.cells, both.tables()
    groups = [("Monte Carlo", None, None)]
    groups += [("Fisher", "query", sigma) for sigma in ("identity", "embedding")]
    groups += [("Fisher", "slot", sigma) for sigma in ("identity", "embedding", "empirical")]
    for rows, n in ((made.rows, 6), (made.comparisons, 3)):
        found = [(row["estimator"], row["place"], row["sigma"]) for row in rows]
        assert found == [group for group in groups for _ in range(n)]
    values = values_of(cells[1], "embedding", "fisher")
    (row,) = [
        row
        for row in made.rows
        if (row["place"], row["sigma"], row["openness"], row["familiarity"]) == ("slot", "embedding", "open", "real")
    ]
    means = by_relation(cells[1], values, lambda known: (known["openness"], known["familiarity"]) == ("open", "real"))
    assert row["susceptibility_nats"] == pytest.approx(means.mean(), abs=1e-12)
    assert interval_of(row, "susceptibility_nats") == pytest.approx(interval_over(means), abs=1e-12, nan_ok=True)
    assert "from_bare_nats" not in row
    assert both.study.kind.pages(both.study, cells, []) == {}
    pytest.importorskip("matplotlib")
    both.study.kind.draw(both.study, made.rows, footer="f", stem=Path("figure"))
    assert Path("figure.svg").stat().st_size > 0


@pytest.mark.long
def test_cells_of_other_units_are_not_compared() -> None:
    Path("mine.toml").write_text(
        'title = "t"\nreproduces = "r"\nmeasure = "fisher"\nshow = "factor"\nx = "place"\n'
        '[both]\ndataset = "relations"\nmodel = "toy"\nrelations = 2\nentities = 2\ncontexts = 3\n'
        'probes = 2\ndirections = 1\nplace = ["query", "slot"]\n'
    )
    study = load_study("mine.toml")
    cells, directory = measured(study, {}, DifferentiableToy(scale=0.3))
    made = study.kind.tables(study, cells, directory, print)
    found = [(row["sigma"], row["level"], row["less"]) for row in made.comparisons if row["compared"] == "place"]
    assert found == [("embedding", "slot", "query")]
    pytest.importorskip("matplotlib")
    study.kind.draw(study, made.rows, footer="f", stem=Path("figure"))


def answered(finished: FinishedCell) -> FinishedCell:
    """With right answers, and answers that contexts state.

    The right answer to every third query is what the model says without a context. Every other context of an open
    query states what the model says there, or of every second query what it never says.
    """
    parts = []
    for i, (texts, measurements) in enumerate(finished.measured):
        alone, *behind = (response["text"] for response in texts["responses"])
        is_open = texts["factors"]["openness"] == "open"
        contexts = [
            {**context, "answer": None if j % 2 or not is_open else said if i % 2 else "Elsewhere"}
            for j, (context, said) in enumerate(zip(texts["contexts"], behind, strict=True))
        ]
        parts.append(({**texts, "answer": "Nowhere" if i % 3 else alone, "contexts": contexts}, measurements))
    return replace(finished, measured=parts)


@pytest.mark.long
def test_memorisation_ratios_are_of_all_contexts_of_known_answers(both: Measured) -> None:
    *fisher, reference = both.cells
    assert reference.cell.measure == Susceptibility(answer_tokens=2)
    reference = answered(reference)
    made = replace(both, cells=[*fisher, reference]).tables()
    counts: dict[str, list[int]] = {}
    n_known = 0
    for texts, _ in reference.measured:
        alone, *behind = (response["text"] for response in texts["responses"])
        of_relation = counts.setdefault(texts["factors"]["relation"], [0, 0])
        if texts["factors"]["familiarity"] == "real" and texts["answer"] == alone:
            n_known += 1
            for context, said in zip(texts["contexts"], behind, strict=True):
                if context["answer"] not in (None, alone):
                    of_relation[0] += said == alone
                    of_relation[1] += said == context["answer"]
    of_monte_carlo = {(row["familiarity"], row["openness"]): row for row in made.rows[:6]}
    row = of_monte_carlo["real", "all"]
    original, context = np.asarray(list(counts.values())).T
    assert min(original.sum(), context.sum()) > 0
    assert (row["n_known_answers"], row["n_original"], row["n_context"]) == (n_known, original.sum(), context.sum())
    assert row["memorisation_ratio"] == pytest.approx(original.sum() / (original + context).sum())
    assert np.isnan(interval_of(row, "memorisation_ratio")).all()
    # A context says no yes and no no.
    assert of_monte_carlo["real", "closed"]["memorisation_ratio"] is None
    assert "memorisation_ratio" not in made.rows[-1]


@pytest.mark.long
def test_without_right_answers_there_is_no_ratio(both: Measured) -> None:
    *fisher, reference = both.cells
    parts = [({**texts, "answer": None}, measurements) for texts, measurements in reference.measured]
    made = replace(both, cells=[*fisher, replace(reference, measured=parts)]).tables()
    assert all("memorisation_ratio" not in row for row in made.rows)
