"""Statistics of many cases against computations by hand, and a study's cells as records of its page of generations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leakmeter.commands.studies import contexts
from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.expected import (
    by_position,
    early_and_late,
    estimate,
    nats_by_piece,
    whole_context_nats,
)
from leakmeter.commands.studies.generations_report import Generations
from leakmeter.commands.studies.grid import Study, load_study
from leakmeter.core.case import Case, Document
from leakmeter.core.measure import NATS, Measurement
from leakmeter.data.named import DatasetRecord
from leakmeter.errors import UsageError
from leakmeter.report import blocks as b
from leakmeter.stats.stats import interval_of_mean


def measurement(statistic: str, values: list[float], piece: str = "", sample: int = 0) -> Measurement:
    return Measurement("one", sample, piece, statistic, NATS, np.asarray(values))


def test_an_estimate_by_hand() -> None:
    found = estimate([1.0, 2.0, 6.0], seed=3)
    assert (found.mean, found.n) == (3.0, 3)
    assert found.interval is None
    of_nine = interval_of_mean(range(1, 10), seed=3)
    assert of_nine is not None
    assert estimate(range(1, 10), seed=3).interval == of_nine
    assert found.quantiles == pytest.approx((1.1, 1.5, 2.0, 4.0, 5.6))
    one = estimate([2.0], seed=0)
    assert one.mean == 2.0
    assert one.interval is None
    for of in (estimate, by_position):
        with pytest.raises(UsageError, match="no measurements"):
            of([], seed=0)


def test_whole_context_is_the_mean_over_responses_of_sums_of_absolute_values() -> None:
    one, two = measurement("whole", [1.0, -2.0]), measurement("whole", [0.5], sample=1)
    assert whole_context_nats([one, two, measurement("log_prob", [9.0])]) == (3.0 + 0.5) / 2
    with pytest.raises(UsageError, match="measure 'decode' or 'influence'"):
        whole_context_nats([measurement("token", [1.0])])


def test_pieces_are_in_order_and_summed_without_sign() -> None:
    measurements = [
        *(measurement("without_this", values, piece) for piece, values in (("b", [1.0, -1.0]), ("a", [0.25, 0.0]))),
        *(measurement("without_this", values, piece, 1) for piece, values in (("b", [4.0]), ("a", [-0.75]))),
        measurement("only_this", [9.0], "b"),
    ]
    assert nats_by_piece(measurements) == [3.0, 0.5]
    with pytest.raises(UsageError, match="no pieces"):
        nats_by_piece([measurement("loss", [1.0])])


def test_positions_rest_on_those_who_reach_them() -> None:
    found = by_position([[1.0, 2.0, 9.0], [3.0], [5.0, 4.0]], seed=0)
    assert [(at.mean, at.n) for at in found] == [(3.0, 3), (3.0, 2), (9.0, 1)]
    # Halves.
    found = early_and_late([[4.0, 2.0, 100.0, 1.0, 0.0], [2.0, 1.0], [7.0]], seed=0)
    assert (found["early"].mean, found["late"].mean) == ((3.0 + 2.0) / 2, (0.5 + 1.0) / 2)
    assert found["early_less_late"].mean == (2.5 + 1.0) / 2
    assert found["early_less_late"].n == 2
    assert early_and_late([[1.0]], seed=0) == {}


CONTEXT = "Anna called at nine and asked for the report."


def finished(study: Study, n: int) -> list[FinishedCell]:
    """Cells as if they had been measured: two responses a record, each token's loss its place times λ."""
    said = [
        {"text": "Anna called at nine.", "tokens": ["Anna called", " at nine."]},
        {"text": "Bo", "tokens": ["Bo", "<end>"]},
    ]
    cells = []
    for cell in study.cells:
        weight = cell.factors["cid_lambda"]
        records, measured = [], []
        for number in range(n):
            case = Case(f"{cell.dataset} {number}", (Document("a", CONTEXT),), f"Who called? {number}")
            records.append(DatasetRecord(case, "Anna called at nine."))
            texts: dict[str, Any] = {"query": case.query, "context": CONTEXT, "truncated_tokens": 0, "responses": said}
            losses = [Measurement(case.id, i, "", "loss", NATS, np.array([0.0, weight * (i + 1)])) for i in range(2)]
            measured.append((texts, losses))
        model = {"name": cell.model, "weights_sha256": None, "dtype": "float64", "device": "cpu"}
        cells.append(FinishedCell(cell, model, "decode-x", records, measured))
    return cells


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the page was asked to show."""
    kept: list[Any] = []

    def keep(records: list[Generations], **more: Any) -> b.Report:
        kept.extend([records, more])
        return b.Report("a title", "decode")

    monkeypatch.setattr(contexts, "generations_report", keep)
    return kept


def test_the_axis_stands_side_by_side_and_data_sets_take_turns(shown: list[Any]) -> None:
    study = load_study("tables_2_3", changes={"model": ["toy", "other"], "cid_lambda": ["0.5", "1"]})
    assert "<h1>a title</h1>" in contexts.generations_page(study, finished(study, 3), ["seed: 0"])
    records, more = shown
    assert [one.id for one in records[:4]] == ["pubmedqa 0", "cnn_dm 0", "pubmedqa 1", "cnn_dm 1"]
    assert more == {"title": study.title, "about": ["seed: 0"], "n_records": 6}
    columns = [(one.line, one.name) for one in records[0].columns]
    assert columns == [(f"model {m}", f"λ = {w}") for m in ("toy", "other") for w in ("0.5", "1")] or columns == [
        (f"model {m}", f"λ = {w}") for w in ("0.5", "1") for m in ("toy", "other")
    ]
    for one in records:
        assert (one.reference, one.query) == ("Anna called at nine.", f"Who called? {one.id[-1]}")
        for column in one.columns:
            weight = float(column.name.removeprefix("λ = "))
            quoted, other = column.generations
            assert (quoted.nats, other.nats) == ([0.0, weight], [0.0, 2 * weight])
            assert (quoted.rouge_l_f1, other.rouge_l_f1) == (1.0, 0.0)
            assert quoted.verdicts["repeat_stated"]
            assert not any(other.verdicts.values())


def test_only_so_many_records_are_put_together(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MOST_RECORDS", 2)
    study = load_study("figure_8", changes={"model": ["toy"], "cid_lambda": ["1"]})
    contexts.generations_page(study, finished(study, 5), [])
    assert [one.id for one in shown[0]] == ["pubmedqa 0", "pubmedqa 1"]
    assert shown[1]["n_records"] == 5
    assert [(one.line, one.name) for one in shown[0][0].columns] == [("", "λ = 1")]


def test_without_an_axis_all_cells_stand_side_by_side(shown: list[Any]) -> None:
    study = load_study("figure_2c", changes={"model": ["toy"], "cid_lambda": ["0.5", "2"]})
    assert study.x is None
    contexts.generations_page(study, finished(study, 1), [])
    assert [(one.line, one.name) for one in shown[0][0].columns] == [("", "λ = 0.5"), ("", "λ = 2")]
