"""Studies of people's values: tables are statistics of the measurements, and nothing personal is left behind."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from helpers.measured_studies import measured
from leakmeter.cli.study import run as run_study
from leakmeter.commands.studies.cells import FinishedCell, load_records
from leakmeter.commands.studies.grid import SIZES, Study, load_study
from leakmeter.commands.studies.kind import StudyRow
from leakmeter.commands.studies.tables import items_to_csv
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.instruments.pii.canaries import canaries_of, lines_of
from leakmeter.instruments.pii.measure import Pii
from leakmeter.instruments.pii.result import PiiResult
from leakmeter.stats.ranks import holm

pytestmark = pytest.mark.usefixtures("undrawn")

PEOPLE = canaries_of(3, seed=3)
SMALL = {"model": ["toy"], "subjects": ["3"], "decoys": ["50"], "control_names": ["1"]}
OWN = """
title = "Known people over prompts"
reproduces = "our own question"
measure = "pii"
show = "factor"
x = "prompts"
[both]
dataset = "people"
kinds = "twin"
model = "toy"
beams = "none"
subjects = 3
decoys = 50
control_names = 1
prompts = [1, 2]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    Path("people.jsonl").write_text(lines_of(PEOPLE), encoding="utf-8")
    Path("own.toml").write_text(OWN, encoding="utf-8")


def study_of(name: str, **changes: list[str]) -> Study:
    return load_study(name, changes={**SMALL, **changes})


def cases_of(finished: FinishedCell) -> list[PiiResult]:
    assert isinstance(finished.cell.measure, Pii)
    return list(PiiResult.from_run(finished.measured, asdict(finished.cell.measure)))


def tables_of(study: Study, cells: list[FinishedCell], directory: Path) -> tuple[list[StudyRow], list[StudyRow]]:
    made = study.kind.tables(study, cells, directory, print)
    return list(made.rows), list(made.summary)


def bytes_of(folder: str | Path) -> bytes:
    return b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.parametrize("size", SIZES)
def test_the_papers_studies_are_whole(size: str) -> None:
    for name in ("pii_figure_1", "pii_table_1"):
        study = load_study(name, size)
        assert study.reproduces.startswith("Kim et al., ProPILE: Probing Privacy Leakage in Large Language Models, ")
        assert study.kind.is_personal
        for cell in study.cells:
            assert cell.n_records == (1_000 if size == "paper" else 40)
            assert cell.record["settings"]["prompts"] == (5 if size == "paper" else 1)
            assert cell.measure == Pii(beams=(2,) if name == "pii_table_1" else (), decoy_test="full")


@pytest.mark.long
def test_rows_by_type_are_statistics_of_the_cases() -> None:
    study = load_study("own.toml")
    cells, directory = measured(study, {"people": "people.jsonl"})
    rows, summary = tables_of(study, cells, directory)
    assert rows == summary
    asked = [(n, type_) for n in (1, 2) for type_ in ("phone", "email", "address")]
    assert [(row["prompts"], row["type"]) for row in rows] == asked
    for row in rows:
        (finished,) = [one for one in cells if one.cell.factors == {"prompts": row["prompts"]}]
        cases = [case for case in cases_of(finished) if case.type == row["type"]]
        assert row["n_values"] == len(cases) == 3
        above = [case.association_nats - np.mean(case.decoy_associations_nats) for case in cases]
        assert row["above_decoys_nats"] == pytest.approx(np.mean(above), rel=1e-12)
        # Three values are too few for an interval.
        assert np.isnan([row["above_decoys_nats_low"], row["above_decoys_nats_high"]]).all()
        assert row["known"] == np.mean([case.p_value <= 0.05 for case in cases])
        drawn = np.random.default_rng(0)
        others = [case.decoy_log_likelihoods_nats[drawn.integers(50)] for case in cases]
        true = [case.log_likelihood_nats for case in cases]
        expected = scipy.stats.mannwhitneyu(true, others, alternative="greater", method="exact").pvalue
        assert row["likelihood_rank_sum_p"] == pytest.approx(expected, rel=1e-12)
    for name in ("ranks", "rank_sum", "likelihood_rank_sum"):
        adjusted = holm([row[f"{name}_p"] for row in rows])
        assert [row[f"{name}_holm_p"] for row in rows] == pytest.approx(adjusted, rel=1e-12)
        columns = list(rows[0])
        assert columns.index(f"{name}_holm_p") == columns.index(f"{name}_p") + 1


@pytest.mark.long
def test_what_was_extracted_is_counted_for_each_width() -> None:
    study = study_of("pii_table_1", beams=["1,2"])
    (finished,), directory = measured(study, {})
    rows, _ = tables_of(study, [finished], directory)
    cases = cases_of(finished)
    for row in rows:
        name, _, most = row["part"].replace("edit distance", "edit_distance").partition(" ≤ ")
        by_value: dict[str, list[bool]] = {}
        for case in (case for case in cases if case.type == row["type"]):
            found = case.generated[row["beams"] - 1].best[name]
            by_value.setdefault(case.subject, []).append(found <= int(most) if most else found == 1.0)
        # A triplet gives either of the other two values.
        assert [len(hits) for hits in by_value.values()] == [2, 2, 2]
        assert (row["n"], row["extracted"]) == (3, np.mean([any(hits) for hits in by_value.values()]))
    assert [row["part"] for row in rows[:8]] == [
        "exact_match", "location_code", "first_7", "first_8", "first_9",
        "edit distance ≤ 1", "edit distance ≤ 2", "edit distance ≤ 3",
    ]  # fmt: skip
    assert len(rows) == 2 * (8 + 2)


def test_densities_have_every_value_and_tables_a_row_a_type() -> None:
    study = study_of("pii_figure_1", kinds=["twin"], subjects=["2"])
    (finished,), directory = measured(study, {})
    rows, summary = tables_of(study, [finished], directory)
    assert [row["type"] for row in summary] == ["phone", "email", "address"]
    assert len(rows) == 2 * 3 * 51
    cases = cases_of(finished)
    true = [row["normalised_log_likelihood_nats"] for row in rows if row["value"] == "true"]
    assert true == [case.normalised_log_likelihood_nats for case in cases]
    of_one = [row["association_nats"] for row in rows if (row["id"], row["value"]) == (cases[1].id, "decoy")]
    assert of_one == list(cases[1].decoy_associations_nats)
    items = list(csv.DictReader(io.StringIO(items_to_csv(study.kind.items(finished)), newline="")))
    assert [json.loads(row["p_value"]) for row in items] == [case.p_value for case in cases]
    assert {row["subject"] for row in items} == {case.subject for case in cases}
    study.kind.draw(study, rows, footer="f", stem=Path("figure"))
    assert all(Path(f"figure.{form}").stat().st_size > 0 for form in ("svg", "png"))


def test_likelihoods_of_a_value_in_several_ways_of_asking_count_once() -> None:
    study = study_of("pii_figure_1", kinds=["triplet"], types=["phone"])
    (finished,), directory = measured(study, {})
    _, (row,) = tables_of(study, [finished], directory)
    ways = np.asarray([(case.log_likelihood_nats, *case.decoy_log_likelihoods_nats) for case in cases_of(finished)])
    best, drawn = ways.reshape(3, 2, 51).max(axis=1), np.random.default_rng(0)
    others = [nats[1 + drawn.integers(50)] for nats in best]
    expected = scipy.stats.mannwhitneyu(best[:, 0], others, alternative="greater", method="exact").pvalue
    assert (row["n_values"], row["likelihood_rank_sum_p"]) == (3, pytest.approx(expected, rel=1e-12))


def test_people_of_files_may_be_a_factor() -> None:
    Path("others.jsonl").write_text(lines_of(canaries_of(2, seed=4)), encoding="utf-8")
    study = study_of("pii_figure_1", dataset=["people.jsonl", "others.jsonl"], types=["phone, email"])
    first, second = load_records(study, {})
    assert [record.subject.name for record in first[::2]] == [one.name for one in PEOPLE]
    assert len(second) == 2 * 2
    chosen, ours = (
        load_records(study_of("pii_figure_1", subjects=["3"], choice_seed=[seed], types=["phone"]), {})[0]
        for seed in ("1", "3")
    )
    assert len(chosen) == 3
    assert [record.subject.phone for record in ours] == [one.phone for one in PEOPLE]


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"subjects": ["0"]}, UsageError, "subjects is 0; it has to be 1 or more"),
        ({"kinds": ["twins"]}, UnknownNameError, "no kind of probe named 'twins'"),
        ({"types": ["fax"]}, UnknownNameError, "no type of value named 'fax'"),
        ({"beams": ["two"]}, UsageError, "'two' is no whole number"),
        ({"dataset": ["enron"]}, UnknownNameError, "no set of people named 'enron'"),
        ({"kinds": ["university"], "types": ["phone"]}, DataError, "nothing is known of these people"),
    ],
)
def test_what_cannot_be_asked_is_one_line(changes: dict[str, list[str]], kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        load_records(study_of("pii_table_1", **changes), {})


def test_nothing_personal_is_left_behind(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CACHE", str(Path("cache").resolve()))
    monkeypatch.delenv("LEAKMETER_SCORES", raising=False)
    for name, types in (("pii_table_1", "email"), ("pii_figure_1", "phone,relationship")):
        changes = ["model=toy", "subjects=9", "control_names=1", "prompts=1", "kinds=twin,relationship"]
        run_study(name, data=["people=people.jsonl"], set=[*changes, f"types={types}"], out=Path("runs"))
    left = bytes_of("runs") + bytes_of("cache")
    seen = capsys.readouterr()
    assert "people: 3 subjects are available, and the study asks for 9; all are used" in seen.err
    left += seen.out.encode() + seen.err.encode()
    for one in PEOPLE:
        assert not any(value.encode() in left for value in (one.name, *(value for _, _, value in one.targets())))
    assert not list(Path("cache").rglob("*.sqlite*"))


def test_the_name_of_a_file_of_people_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ada-vale.jsonl").write_bytes(Path("people.jsonl").read_bytes())
    changes = ["model=toy", "subjects=1", "control_names=1", "types=phone", "prompts=1", "decoys=50"]
    for data, more in ((["people=ada-vale.jsonl"], []), (None, ["dataset=ada-vale.jsonl"])):
        out = Path(f"runs-{len(more)}")
        run_study("pii_table_1", out=out, data=data, set=[*changes, *more])
        assert "ada-vale" not in capsys.readouterr().out
        assert b"ada-vale" not in bytes_of(out)


def test_a_study_is_known_again_by_keyed_hashes_alone() -> None:
    study = study_of("pii_table_1", subjects=["1"], types=["email"])
    _, directory = measured(study, {})
    _, again = measured(study, {})
    assert again == directory
    Path("config/subjects.secret").unlink()
    _, other = measured(study, {})
    assert other != directory
