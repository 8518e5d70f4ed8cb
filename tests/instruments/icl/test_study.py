"""Studies of exemplars: levels have the same queries and exemplars, and tables are statistics of the measurements."""

from __future__ import annotations

import csv
import io
import math
import statistics
from pathlib import Path

import pytest
import scipy.stats

from helpers.measured_studies import measured
from leakmeter.commands.studies.cells import FinishedCell, load_records
from leakmeter.commands.studies.grid import Study, load_study
from leakmeter.commands.studies.tables import items_to_csv, readable, to_csv, to_markdown
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.icl.study import KIND, compared
from leakmeter.stats.stats import interval_of_mean, interval_of_mean_difference
from leakmeter.text.exemplars import ExemplarCase

pytestmark = pytest.mark.usefixtures("undrawn")

TASK = 'instruction = "How?"\nanswer = "Mood"\nlabels = ["Glad", "Sad", "Odd"]\n[fields]\nsaid = "Said"\n'
N_QUERIES, N_POOL = 11, 9


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A task of one's own in this directory, and the paths of its files."""
    monkeypatch.chdir(tmp_path)
    Path("mood.toml").write_text(TASK, encoding="utf-8")
    words = ("Glad", "Sad", "Odd")
    for name, n in (("new", N_QUERIES), ("old", N_POOL)):
        rows = [{"said": f"{name} {'ha' * (i % 4)} {i}, oh", "label": words[i % 3]} for i in range(n)]
        Path(f"{name}.csv").write_text(to_csv(rows), encoding="utf-8")
    return {"mood.toml": "new.csv", "mood.toml.train": "old.csv"}


def study_of(name: str, **changes: list[str]) -> Study:
    usual = {"model": ["toy"], "dataset": ["mood.toml"], "label_scoring": ["whole-sequence"]}
    return load_study(name, changes={**usual, **changes})


def losses_by_hand(finished: FinishedCell) -> list[list[float]]:
    """Of each query max over labels of the absolute log-ratio, for each exemplar: Eq. 4 before its second maximum."""
    return [
        [max(abs(value) for value in r.values) for r in measurements if r.statistic == "label_loss"]
        for _, measurements in finished.measured
    ]


def test_all_levels_have_the_same_queries_behind_the_same_exemplars(task: dict[str, str]) -> None:
    study = study_of("icl_figure_3", shots=["1", "2", "4"], calibration=["none", "blank"])
    records: list[list[ExemplarCase]] = load_records(study, task)
    by_shots: dict[int, list[ExemplarCase]] = {}
    for cell, of_cell in zip(study.cells, records, strict=True):
        assert len(of_cell) == N_QUERIES
        assert by_shots.setdefault(cell.factors["shots"], of_cell) == of_cell
    for one, two, four in zip(*(by_shots[n] for n in (1, 2, 4)), strict=True):
        assert one.query == two.query == four.query
        assert one.exemplars + two.exemplars[1:] + four.exemplars[2:] == four.exemplars
        assert len(set(four.exemplars)) == 4
    again, *_ = load_records(study_of("icl_figure_3", shots=["1", "2", "4"], draw_seed=["1"]), task)
    assert [case.query for case in again] == [case.query for case in records[0]]
    assert [case.exemplars for case in again] != [case.exemplars for case in records[0]]


def test_queries_are_chosen_by_their_seed(task: dict[str, str]) -> None:
    def ids(**changes: list[str]) -> list[str]:
        (of_cell,) = load_records(study_of("icl_figure_1", queries=["4"], **changes), task)
        return [case.id for case in of_cell]

    assert ids(choice_seed=["none"]) == ["line 2", "line 3", "line 4", "line 5"]
    assert ids() == ids(choice_seed=["0"]) != ids(choice_seed=["1"])


def test_files_that_are_missing_or_unused_are_told_in_one_line(task: dict[str, str]) -> None:
    study = study_of("icl_figure_1")
    for of, files, told in (
        (study, {"mood.toml": "new.csv"}, "give a file of its train records"),
        (study, {**task, "trec": "new.csv"}, r"--data names 'trec', .* it uses mood\.toml, mood\.toml\.train"),
        (study_of("icl_figure_1", shots=["10"]), task, "shots"),
    ):
        with pytest.raises(UsageError, match=told):
            load_records(of, files)
    Path("mood.toml").write_text(TASK.replace('"Sad", ', ""), encoding="utf-8")
    with pytest.raises(DataError, match=r"'label' is 'Sad', expected one of"):
        load_records(study, task)


def test_a_table_is_the_statistics_of_its_queries(task: dict[str, str]) -> None:
    study = study_of("icl_figure_3", shots=["1", "2", "4"])
    cells, directory = measured(study, task)
    made = study.kind.tables(study, cells, directory, print)
    losses = [[max(of_query) for of_query in losses_by_hand(one)] for one in cells]
    for one, row, values in zip(cells, made.rows, losses, strict=True):
        assert (row["shots"], row["n"]) == (one.cell.factors["shots"], N_QUERIES)
        expected = [of(values) for of in (statistics.fmean, statistics.pstdev, statistics.median)]
        names = ("loss_nats", "loss_nats_std", "loss_nats_q50")
        assert [row[name] for name in names] == pytest.approx(expected, abs=1e-12)
        assert (row["loss_nats_low"], row["loss_nats_high"]) == interval_of_mean(values, seed=0)
        given = [{r.statistic: r.values[0] for r in measurements} for _, measurements in one.measured]
        assert row["accuracy"] == statistics.fmean(each["gold"] == each["prediction"] for each in given)
        assert row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"]
        assert 0.0 <= row["macro_f1"] <= 1.0
    pairs = [(one, other) for other in range(3) for one in range(other + 1, 3)]
    shots = [cell.factors["shots"] for cell in study.cells]
    assert [(row["shots"], row["less"]) for row in made.comparisons] == [(shots[a], shots[b]) for a, b in pairs]
    for (a, b), row in zip(pairs, made.comparisons, strict=True):
        interval = interval_of_mean_difference(losses[a], losses[b], seed=0)
        assert (row["paired_nats_low"], row["paired_nats_high"]) == interval
        assert row["paired_nats"] == pytest.approx(statistics.fmean(losses[a]) - statistics.fmean(losses[b]))
        assert row["wilcoxon_p"] == pytest.approx(scipy.stats.wilcoxon(losses[a], losses[b]).pvalue)
        assert row["wilcoxon_p"] <= row["holm_p"] <= min(1.0, 3 * row["wilcoxon_p"])
    shown = to_markdown(readable("Pairs", made.compared_by, made.comparisons, study.kind.columns), level=2)
    assert shown.startswith("## Pairs\n")
    cell_of = f"{made.rows[0]['loss_nats']:.2f} ± {made.rows[0]['loss_nats_std']:.2f} ["
    assert f"| 1 | 11 | {cell_of}" in to_markdown(readable("T", [], made.summary, study.kind.columns))


def test_positions_are_compared_within_each_query(task: dict[str, str]) -> None:
    study = study_of("icl_figure_1", shots=["3"])
    cells, directory = measured(study, task)
    made = study.kind.tables(study, cells, directory, print)
    by_position = list(zip(*losses_by_hand(cells[0]), strict=True))
    assert [row["exemplar_position"] for row in made.rows] == [1, 2, 3]
    for row, losses in zip(made.rows, by_position, strict=True):
        assert row["position_nats"] == pytest.approx(statistics.fmean(losses), abs=1e-12)
        assert row["n"] == N_QUERIES
    assert [(row["exemplar_position"], row["less"]) for row in made.comparisons] == [(2, 1), (3, 1), (3, 2)]
    by = made.comparisons[1]["paired_nats"]
    assert by == pytest.approx(statistics.fmean(by_position[2]) - statistics.fmean(by_position[0]))
    assert study.kind.axes(study, made.rows).x == "exemplar_position"


def test_only_what_has_the_same_queries_is_compared(task: dict[str, str]) -> None:
    study = study_of("icl_figure_4", choice_seed=["0", "1"], queries=["3"])
    cells, directory = measured(study, task)
    made = study.kind.tables(study, cells, directory, print)
    assert [(row["choice_seed"], row["calibration"], row["less"]) for row in made.comparisons] == [
        (0, "blank", "none"), (1, "blank", "none"),
    ]  # fmt: skip
    # The factor itself may be what changes the queries: then there are no pairs.
    assert study.kind.about(study)[0] == "seeds of queries and exemplars: 0 and 0, 1 and 0"


def test_infinite_losses_have_ranks_and_no_mean() -> None:
    levels = [("a", [1.0, 2.0, 3.0]), ("b", [2.0, math.inf, 5.0])]
    (row,) = compared("x", [({}, levels)], seed=0)
    assert (row["paired_nats"], row["wilcoxon_p"]) == (None, 0.25)
    assert compared("x", [({}, levels[:1])], seed=0) == []
    assert "| b | a | 3 | – | 0.25 | 0.25 |" in to_markdown(readable("", [], [row], KIND.columns))


def test_items_hold_every_query_and_exemplar(task: dict[str, str]) -> None:
    Path("new.csv").write_text('said,label\n"he said ""x"",\r\nthen | <b> {y}",Odd\n', encoding="utf-8", newline="")
    study = study_of("icl_figure_1", shots=["2"])
    (finished,), _ = measured(study, task)
    rows = list(csv.DictReader(io.StringIO(items_to_csv(study.kind.items(finished)), newline="")))
    assert [row["exemplar_position"] for row in rows] == ["1", "2"]
    ((first, second),) = losses_by_hand(finished)
    assert [float(row["exemplar_loss_nats"]) for row in rows] == [first, second]
    assert {float(row["loss_nats"]) for row in rows} == {max(first, second)}
    (record,) = finished.records
    assert rows[0]["query"] == record.query.texts[0]
    assert (rows[0]["gold"], rows[0]["id"]) == ("Odd", "line 2")
    assert [row["exemplar_id"] for row in rows] == [example.id for example in record.exemplars]
    assert [row["exemplar_label"] for row in rows] == [example.label for example in record.exemplars]


def test_labels_that_cannot_be_told_apart_are_refused_before_a_run_is_made(task: dict[str, str]) -> None:
    study = study_of("icl_figure_1", label_scoring=["first-token"])
    with pytest.raises(UsageError, match="labels 'Glad' and 'Sad' begin with the same token"):
        measured(study, task)
    assert not list(Path("runs").glob("icl-*"))
