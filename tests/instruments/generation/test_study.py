"""Studies of private generation: the paper's settings, both comparisons in one table, and the zero-leak line beside."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from helpers.measured_studies import measured
from leakmeter.backends.toy import Toy
from leakmeter.commands.studies.cells import load_records
from leakmeter.commands.studies.grid import Study, StudyCell, load_study
from leakmeter.commands.studies.tables import items_to_csv, readable, to_csv, to_markdown
from leakmeter.core.request import Scores
from leakmeter.core.tree import Chunk
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.study import PRINTED, Batches, cases_of
from leakmeter.privacy.rdp import conversion, guarantee
from leakmeter.text.exemplars import ExemplarCase

pytestmark = pytest.mark.usefixtures("undrawn")

STUDIES = {"audit_table_4": "temperature", "audit_table_5": "clip", "audit_table_6": "subset_size"}


@pytest.fixture
def news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Invented news of four kinds, 30 each, in this directory, by the data set's name."""
    monkeypatch.chdir(tmp_path)
    rows = [{"label": i % 4, "text": f"Item {i}: the {'tide' if i % 3 else 'cup'} was high."} for i in range(120)]
    Path("news.csv").write_text(to_csv(rows), encoding="utf-8")
    return {"agnews": "news.csv"}


def study_of(name: str, **changes: list[str]) -> Study:
    usual = {"model": ["toy"], "sequences": ["2"], "max_new_tokens": ["4"]}
    if name != "audit_table_6":
        usual["subset_size"] = ["4"]
    return load_study(name, changes={**usual, **changes})


def parts_of(cell: StudyCell) -> tuple[PrivateGeneration, Batches]:
    assert isinstance(cell.measure, PrivateGeneration)
    assert isinstance(cell.choice, Batches)
    return cell.measure, cell.choice


@pytest.mark.parametrize("name", STUDIES)
def test_at_the_papers_size_the_settings_are_the_papers(name: str) -> None:
    study, free = load_study(name, "paper"), STUDIES[name]
    assert study.reproduces.startswith("Li et al., Evaluating Privacy Leakage From In-Context Learning, Table")
    assert study.x == "target_epsilon"
    found = {}
    for cell in study.cells:
        measure, choice = parts_of(cell)
        # No seed: what is drawn with one that everybody knows, 0, promises nothing.
        assert (measure.sequences, measure.max_new_tokens, measure.delta, measure.seed) == (50, 40, 1e-5, None)
        assert study.kind.seed(cell) == 0
        assert (cell.dataset, choice.label, choice.n_records) == ("agnews", "Sports", 1)
        target, size = cell.factors["target_epsilon"], choice.subset_size
        assert guarantee(measure.clip / (size * measure.temperature), 2000, 1e-5).epsilon <= target
        found[target] = round(size if free == "subset_size" else getattr(measure, free), 2)
    assert found == {target: setting for target, (setting, _) in PRINTED[free].items()}


def test_a_laptop_draws_fewer_sequences_and_every_delta_has_its_setting() -> None:
    study = load_study("audit_figure_6")
    assert study.x == "delta"
    measures = [parts_of(cell)[0] for cell in study.cells]
    assert {measure.sequences for measure in measures} == {10}
    assert [measure.delta for measure in measures] == [1e-3, 1e-4, 1e-5, 1e-6, 1e-7]
    temperatures = [measure.temperature for measure in measures]
    assert temperatures == sorted(temperatures)
    whole = load_study("audit_figure_6", "paper")
    assert len(whole.cells) == 35
    # Cells that both studies have are one run.
    of_table = next(cell for cell in load_study("audit_table_4").cells if cell.factors["target_epsilon"] == 10)
    assert parts_of(study.cells[2]) == parts_of(of_table)


def test_a_smaller_batch_is_the_first_of_a_larger_one(news: dict[str, str]) -> None:
    study = study_of("audit_table_4", subset_size=["3", "7"], target_epsilon=["10"])
    records: list[list[ExemplarCase]] = load_records(study, news)
    small, large = (of_cell[0] for of_cell in records)
    assert large.exemplars[:3] == small.exemplars
    assert len(set(large.exemplars)) == 7
    assert {example.label for example in large.exemplars} == {"Sports"}
    assert large.query.label == "Sports"
    (first,) = load_records(study_of("audit_table_4", choice_seed=["none"], target_epsilon=["10"]), news)
    assert [example.id for example in first[0].exemplars] == ["line 3", "line 7", "line 11", "line 15"]
    (two,) = load_records(study_of("audit_table_4", batches=["2"], target_epsilon=["10"]), {"agnews.train": "news.csv"})
    assert not {*two[0].exemplars} & {*two[1].exemplars}


@pytest.mark.parametrize("name", ["audit_table_4", "audit_table_5", "audit_table_6", "audit_figure_6"])
def test_rows_are_what_was_measured_beside_its_bound(name: str, news: dict[str, str], tmp_path: Path) -> None:
    few = {"audit_table_6": {"target_epsilon": ["10", "100"]}, "audit_figure_6": {"delta": ["1e-4", "1e-5"]}}
    study = study_of(name, **few.get(name, {"target_epsilon": ["5", "10"]}))
    cells, directory = measured(study, news)
    made = study.kind.tables(study, cells, directory, print)
    assert len(made.rows) == len(made.summary) == len(study.cells) == 2
    for finished, row in zip(cells, made.rows, strict=True):
        measure, choice = parts_of(finished.cell)
        (case,) = cases_of(finished)
        assert row[str(study.x)] == finished.cell.factors[str(study.x)]
        at = next(one for one in case.by_order if one.order == row["order"])
        assert row["promised_rdp_nats"] == at.bound_nats
        assert row["measured_rdp_nats"] == at.measured_nats <= row["sum_of_maxima_nats"]
        assert row["rdp_ratio"] == pytest.approx(row["measured_rdp_nats"] / row["promised_rdp_nats"])
        assert 0 < row["rdp_ratio"] <= row["worst_token_ratio"] <= row["worst_token_any_order_ratio"] < 1
        zero = 2 * float(conversion([row["order"]], measure.delta)[0])
        assert row["zero_leak_epsilon"] == pytest.approx(zero)
        assert row["paper_epsilon"] == pytest.approx(zero + 2 * row["sum_of_maxima_nats"])
        assert row["promised_epsilon"] <= choice.target_epsilon  # type: ignore[operator]
        free = row["free"]
        assert row["setting"] == {"subset_size": choice.subset_size}.get(free, getattr(measure, free, None))
        has_printed = measure.delta == 1e-5
        assert (row["printed_epsilon"] is not None) == has_printed
        if has_printed:
            assert (row["printed_setting"], row["printed_epsilon"]) == PRINTED[free][choice.target_epsilon or 0.0]
        table = readable("T", [], [row], study.kind.columns)
        shown = dict(zip(table.heads, table.rows[0], strict=True))
        assert shown["verdict"] == "kept"
        assert shown["of no leak"] == f"{zero:.4g}"
        assert (shown["calibrated"], shown["to"]) == (free.replace("_", " "), f"{row['setting']:.4g}")
    text = to_markdown(readable(study.title, [], made.summary, study.kind.columns))
    assert "| measured / bound |" in text
    assert "| paper printed |" in text
    if name in ("audit_table_4", "audit_figure_6"):
        made.rows[0]["measured_rdp_nats"] = math.inf
        study.kind.draw(study, made.rows, footer="here", stem=tmp_path / "figure")
        assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / "figure.svg").exists()
        assert study.kind.axes(study, made.rows).ys == ("measured_rdp_nats", "paper_epsilon")


def test_items_are_the_texts(news: dict[str, str]) -> None:
    study = study_of("audit_table_4", target_epsilon=["100"])
    (finished,), _ = measured(study, news)
    rows = list(csv.DictReader(io.StringIO(items_to_csv(study.kind.items(finished)), newline="")))
    (case,) = cases_of(finished)
    assert [row["generations"] for row in rows] == [one.text for one in case.samples]
    assert [int(row["n_tokens"]) for row in rows] == [len(one.token_ids) for one in case.samples]
    assert all(0 < float(row["most_share_of_promise"]) < 1 < float(row["perplexity"]) for row in rows)
    assert all(row["contexts"].count("Text: Item") == 4 for row in rows)
    seeds, intervals = study.kind.about(study)
    assert seeds == "seeds of exemplars and draws: 0 and 0"
    assert "what the paper printed is of 50 sequences each" in intervals
    assert study.kind.about(study_of("audit_table_4", choice_seed=["none"]))[0].endswith("the first and 0")
    assert study.seed == 0
    assert study.kind.sources(["agnews"]) == ["agnews", "agnews.train"]


def test_labels_and_numbers_of_exemplars_are_checked(news: dict[str, str], tmp_path: Path) -> None:
    for changes, said in (
        ({"label": ["Sport"]}, "no label named 'Sport'; did you mean 'Sports'"),
        ({"batches": ["0"]}, "batches is 0; it has to be 1 or more"),
        ({"target_epsilon": ["0.01"]}, "epsilon 0.01 at delta 1e-05 cannot be guaranteed"),
        ({"free": ["tau"]}, "no free named 'tau'"),
        ({"subset_size": ["31"]}, "31 exemplars with label 'Sports' are needed, and there are 30"),
    ):
        with pytest.raises(LeakmeterError, match=said):
            load_records(study_of("audit_table_4", **changes), news)
    own = (
        'title = "t"\nreproduces = "r"\nmeasure = "private_generation"\nshow = "factor"\nx = "clip"\n[both]\n'
        'model = "toy"\ndataset = "agnews"\nbatches = 1\nclip = [1, 2]\n'
    )
    (tmp_path / "mine.toml").write_text(own, encoding="utf-8")
    with pytest.raises(LeakmeterError, match="the study has no 'label'"):
        load_study("mine.toml")
    (tmp_path / "mine.toml").write_text(f'{own}label = "Sports"', encoding="utf-8")
    # Without a target nothing is calibrated.
    assert [parts_of(cell)[0].temperature for cell in load_study("mine.toml").cells] == [4.8, 4.8]


def test_several_batches_have_a_row_each_and_a_finished_cell_costs_nothing_again(news: dict[str, str]) -> None:
    study = study_of("audit_table_4", batches=["2"], target_epsilon=["10"])
    cells, directory = measured(study, news)
    rows = study.kind.tables(study, cells, directory, print).rows
    assert [row["batch"] for row in rows] == ["batch 1", "batch 2"]
    assert rows[0]["measured_rdp_nats"] != rows[1]["measured_rdp_nats"]

    class Idle(Toy):
        def score(self, chunk: Chunk) -> list[Scores]:
            raise AssertionError("scored again")

    (again,), _ = measured(study, news, Idle())
    assert cases_of(again) == cases_of(cells[0])
