"""Tables of susceptibility by factors: intervals and tests respect relations; rows of Fisher; memorisation ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from helpers.differentiable_toy import DifferentiableToy
from helpers.measured_studies import measured
from helpers.query_studies import N_QUERIES, chi_of, study_of
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.stats.clusters import Resamples
from leakmeter.stats.ranks import holm
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Study, load_study
from leakmeter.studies.kind import Row, Tables
from leakmeter.studies.tables import readable, to_markdown

pytestmark = pytest.mark.usefixtures("undrawn")

Known = dict[str, str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True)
class Measured:
    """A study of both estimators, the Monte Carlo cell last, and where it was run."""

    study: Study
    cells: list[FinishedCell]
    where: Path

    def tables(self) -> Tables:
        return self.study.kind.tables(self.study, self.cells, self.where, print)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    where = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as there:
        there.chdir(where)
        study = study_of("susceptibility_figure_3", answer_tokens=["2"])
        cells, _ = measured(study, {}, DifferentiableToy(scale=0.3))
    return Measured(study, cells, where)


def by_relation(finished: FinishedCell, values: Sequence[float], chosen: Callable[[Known], bool]) -> np.ndarray:
    """Means over the chosen queries of each relation."""
    groups: dict[str, list[float]] = {}
    for record, value in zip(finished.records, values, strict=True):
        known = record.known
        if chosen(known):
            groups.setdefault(known["relation"], []).append(value)
    return np.asarray([statistics.fmean(group) for group in groups.values()])


def interval_over(means: np.ndarray) -> tuple[float, float]:
    """That of relations which have as many queries each: of resamples of their means."""
    counts = Resamples(range(len(means)), seed=0).counts
    low, high = np.quantile([means[np.repeat(np.arange(len(means)), of)].mean() for of in counts], [0.025, 0.975])
    return (low, high)


def interval_of(row: Row, name: str) -> tuple[float, float]:
    return (row[f"{name}_low"], row[f"{name}_high"])


def test_a_table_is_the_statistics_of_its_queries() -> None:
    study = study_of("susceptibility_contexts", contexts=["5", "9"])
    cells, directory = measured(study, {})
    made = study.kind.tables(study, cells, directory, print)
    assert [(row["contexts"], row["openness"], row["n"], row["n_relations"]) for row in made.rows] == [
        (n, openness, N_QUERIES // (1 if openness == "all" else 2), 4)
        for n in (5, 9)
        for openness in ("all", "open", "closed")
    ]
    chi = chi_of(cells[0])
    row = made.rows[1]
    of_open = by_relation(cells[0], chi, lambda known: known["openness"] == "open")
    assert row["susceptibility_nats"] == pytest.approx(of_open.mean(), abs=1e-12)
    assert interval_of(row, "susceptibility_nats") == pytest.approx(interval_over(of_open), abs=1e-12)
    assert row["ceiling_share"] == pytest.approx(of_open.mean() / np.log(5))
    assert row["from_bare_nats"] > row["susceptibility_nats"]
    assert "| 5 | all | 32 | 4 |" in to_markdown(readable("T", [], made.summary, study.kind.columns))
    (found,) = [row for row in made.comparisons if row["compared"] == "contexts"]
    assert (found["level"], found["less"], found["n"], found["n_relations"]) == (9, 5, N_QUERIES, 4)
    more = by_relation(cells[0], np.subtract(chi_of(cells[1]), chi).tolist(), lambda known: True)
    assert found["paired_nats"] == pytest.approx(more.mean(), abs=1e-12)
    assert interval_of(found, "paired_nats") == pytest.approx(interval_over(more), abs=1e-12)
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
    for found, name, n, of_both in zip(
        made.comparisons[:3],
        ("openness", "form", "familiarity"),
        (8, 8, 4),
        (
            ({"openness": "closed"}, open_questions),
            ({"openness": "open", "form": "completion"}, open_questions),
            ({"familiarity": "invented"}, {"familiarity": "real"}),
        ),
        strict=True,
    ):
        assert (found["estimator"], found["compared"]) == ("Monte Carlo", name)
        assert (found["level"], found["less"]) == tuple(of[name] for of in of_both)
        after, before = (by_relation(finished, chi, lambda known, of=of: of.items() <= known.items()) for of in of_both)
        assert (found["n"], found["n_relations"]) == (n, 4)
        assert found["paired_nats"] == pytest.approx((after - before).mean(), abs=1e-12)
        assert interval_of(found, "paired_nats") == pytest.approx(interval_over(after - before), abs=1e-12)
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
    assert "a single one has none" in study.kind.about(study)[1]
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
    values = [
        next(float(r.values[0]) for r in measurements if (r.piece, r.statistic) == ("embedding", "fisher"))
        for _, measurements in cells[1].measured
    ]
    (row,) = [
        row
        for row in made.rows
        if (row["place"], row["sigma"], row["openness"], row["familiarity"]) == ("slot", "embedding", "open", "real")
    ]
    means = by_relation(cells[1], values, lambda known: (known["openness"], known["familiarity"]) == ("open", "real"))
    assert row["susceptibility_nats"] == pytest.approx(means.mean(), abs=1e-12)
    assert interval_of(row, "susceptibility_nats") == pytest.approx(interval_over(means), abs=1e-12)
    assert "from_bare_nats" not in row
    assert both.study.kind.pages(both.study, cells, []) == {}
    pytest.importorskip("matplotlib")
    both.study.kind.draw(both.study, made.rows, footer="f", stem=Path("figure"))
    assert Path("figure.svg").stat().st_size > 0


@pytest.mark.long
def test_cells_of_other_units_are_not_compared() -> None:
    source = Path("mine.toml")
    source.write_text(
        """
title = "t"
reproduces = "r"
measure = "fisher"
show = "factor"
x = "place"
[both]
dataset = "relations"
model = "toy"
relations = 2
entities = 2
contexts = 3
probes = 2
directions = 1
place = ["query", "slot"]
""",
        encoding="utf-8",
    )
    study = load_study(str(source))
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
    resampled = [(of @ original, of @ (original + context)) for of in Resamples(range(4), seed=0).counts]
    by_hand = np.quantile([one / both for one, both in resampled if both], [0.025, 0.975])
    assert interval_of(row, "memorisation_ratio") == pytest.approx(tuple(by_hand))
    # A context says no yes and no no.
    assert of_monte_carlo["real", "closed"]["memorisation_ratio"] is None
    assert "memorisation_ratio" not in made.rows[-1]


@pytest.mark.long
def test_without_right_answers_there_is_no_ratio(both: Measured) -> None:
    *fisher, reference = both.cells
    parts = [({**texts, "answer": None}, measurements) for texts, measurements in reference.measured]
    made = replace(both, cells=[*fisher, replace(reference, measured=parts)]).tables()
    assert all("memorisation_ratio" not in row for row in made.rows)
    with pytest.raises(UsageError, match="answer-tokens is -1"):
        study_of("susceptibility_figure_3", answer_tokens=["-1"])
