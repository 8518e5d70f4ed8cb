"""A part that was edited, and its hash with it, is named by file and field: to those who read it, and by `verify`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.each_run import copied
from leakmeter.core import registry
from leakmeter.engine.loading import load_run
from leakmeter.engine.storage.parts import cases_of_run
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.engine.storage.verify import verify
from leakmeter.errors import DamagedError

TEXTS, NUMBERS, SPEC = "cases-00000.json", "measurements-00000.parquet", "spec.json"
SECRET = "Dora Haas lives in Graz"
Cases = list[dict[str, Any]]
Rows = list[dict[str, Any]]
Spec = dict[str, Any]


def rehashed(run: Path, name: str) -> Path:
    spec = json.loads((run / SPEC).read_bytes())
    spec["files_sha256"][name] = hashlib.sha256((run / name).read_bytes()).hexdigest()
    (run / SPEC).write_text(json.dumps(spec), "utf-8")
    return run


def in_texts(run: Path, change: Callable[[Cases], object]) -> Path:
    cases = json.loads((run / TEXTS).read_bytes())
    change(cases)
    (run / TEXTS).write_text(json.dumps(cases), "utf-8")
    return rehashed(run, TEXTS)


def in_numbers(run: Path, change: Callable[[Rows], object]) -> Path:
    table = pq.read_table(run / NUMBERS)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), run / NUMBERS)
    return rehashed(run, NUMBERS)


def in_spec(run: Path, change: Callable[[Spec], object], *, renamed: bool = True) -> Path:
    """With the id that it makes then, as the run's own and its directory's, unless it stays as it was."""
    spec = json.loads((run / SPEC).read_bytes())
    change(spec)
    if renamed:
        spec["id"] = RunSpec.from_record(spec).id
    (run / SPEC).write_text(json.dumps(spec), "utf-8")
    return run.rename(run.with_name(spec["id"])) if renamed else run


def refused(run: Path, name: str, field: str) -> None:
    """Whoever reads the run is told the file and the field on one line, and so is who verifies it."""
    with pytest.raises(DamagedError) as caught:
        load_run(run).report()
    said = str(caught.value)
    assert said.startswith(f"run '{run}' is damaged: {name}, {field}: "), said
    assert said.endswith("; remove that directory and run again")
    assert "\n" not in said
    assert SECRET not in said
    found = verify(run)
    assert (found.state, len(found.findings)) == ("wrong", 1)
    assert found.findings[0].startswith(f"{name}: damaged: {field}: ")


def test_whole_runs_are_read(tmp_path: Path) -> None:
    for measure in registry.instruments():
        run = copied(measure, tmp_path / measure)
        assert list(cases_of_run(RunDirectory(run)))
        assert verify(run).state == "whole"


def spans(cases: Cases) -> Any:
    return cases[0]["spans"][0]


def phone(cases: Cases) -> Any:
    return cases[0]["spans"][1]["entity"]


@pytest.mark.parametrize(
    ("measure", "change", "field"),
    [
        ("influence", lambda cases: cases[0].update(context=SECRET[:3]), "0.documents.0"),
        ("influence", lambda cases: cases[0].update(id=7), "0.id"),
        ("influence", lambda cases: spans(cases).update(ranges=[[0, 10**6]]), "0.spans.0.ranges"),
        ("influence", lambda cases: cases[0].pop("context"), "0.context"),
        ("influence", lambda cases: cases[0]["documents"][0].update(end=10**400), "0.documents.0.end"),
        ("influence", lambda cases: cases[0]["responses"][0].update(tokens=[SECRET, None]), "0.responses.0.tokens.1"),
        ("influence", lambda cases: cases[0]["cost"].update(seconds=float("nan")), "0.cost.seconds"),
        ("influence", lambda cases: spans(cases).update(kind=SECRET), "0.spans.0.kind"),
        ("influence", lambda cases: spans(cases).update(ranges=[[5, 2]]), "0.spans.0.ranges"),
        ("influence", lambda cases: spans(cases).update(repeats=[SECRET]), "0.spans.0.repeats"),
        ("influence", lambda cases: cases[0].update(spans=cases[0]["spans"] * 2), "0.spans"),
        ("influence", lambda cases: cases.append(cases[0]), "id"),
        ("influence of entities", lambda cases: phone(cases).update(value=SECRET), "0.spans.1.entity.value"),
        ("icl", lambda cases: cases[1].update(labels=[SECRET]), "1.labels"),
        ("icl", lambda cases: spans(cases).update(document=None), "0.spans.0"),
        ("susceptibility", lambda cases: cases[0]["contexts"][1].update(weight=0.0), "0.contexts.1.weight"),
        ("susceptibility", lambda cases: cases[0].update(factors={SECRET: 1}), "0.factors"),
        ("private_generation", lambda cases: cases[0].update(spans=[]), "0.spans"),
    ],
)
def test_texts_that_were_edited(measure: str, change: Callable[[Cases], object], field: str, tmp_path: Path) -> None:
    refused(in_texts(copied(measure, tmp_path), change), TEXTS, field)


def series(rows: Rows, statistic: str) -> Rows:
    """All rows of the first series of a statistic."""
    first = next(row for row in rows if row["statistic"] == statistic)
    keys = ("item", "sample", "piece", "statistic")
    return [row for row in rows if all(row[key] == first[key] for key in keys)]


def of_series(statistic: str, /, **cells: Any) -> Callable[[Rows], object]:
    return lambda rows: [row.update(cells) for row in series(rows, statistic)]


def without(statistic: str) -> Callable[[Rows], object]:
    def change(rows: Rows) -> None:
        gone = series(rows, statistic)
        rows[:] = [row for row in rows if row not in gone]

    return change


@pytest.mark.parametrize(
    ("measure", "change", "field"),
    [
        ("influence", lambda rows: rows[0].update(item=None), "item"),
        ("influence", lambda rows: rows[1].update(piece=SECRET), "piece"),
        ("influence", of_series("whole", item=SECRET), "item"),
        ("influence", of_series("whole", sample=-1), "sample"),
        ("influence", of_series("whole", unit=SECRET), "unit of whole"),
        ("influence", of_series("whole", statistic=SECRET), "statistic whole"),
        ("influence", lambda rows: rows[1].update(position=7), "position"),
        ("influence", of_series("whole", sample=9), "sample of whole"),
        ("influence", of_series("whole", value=1e200), "value"),
        ("influence", of_series("without_this", piece=SECRET), "piece of without_this"),
        ("influence", of_series("token", value=0.5), "value of token"),
        ("influence", lambda rows: rows.append({**series(rows, "noise")[0], "position": 0}), "position of noise"),
        ("influence", without("only_this"), "statistic only_this"),
        ("icl", of_series("prediction", value=9.0), "value of prediction"),
        ("pii", without("reference_log_likelihood"), "statistic reference_log_likelihood"),
        ("fisher", of_series("n_probes", value=float("nan")), "value of n_probes"),
        ("icl", lambda rows: rows.append({**rows[0], "position": 0, "statistic": SECRET}), "statistic"),
        ("influence", of_series("whole", value=float("nan")), "value of whole"),
        ("redact", of_series("left", value=float("nan")), "value of left"),
        ("susceptibility", of_series("persuasion", value=float("nan")), "value of persuasion"),
        ("susceptibility", lambda rows: rows.append({**rows[0], "statistic": SECRET}), "statistic"),
        ("icl", of_series("label_mass", statistic="half_width"), "statistic label_mass"),
        ("private_generation", of_series("renyi_2", statistic="renyi_x"), "statistic"),
        ("private_generation", of_series("order", value=1.5), "value of order"),
        ("private_generation", of_series("promised_order", value=2.0), "value of promised_order"),
    ],
)
def test_numbers_that_were_edited(measure: str, change: Callable[[Rows], object], field: str, tmp_path: Path) -> None:
    refused(in_numbers(copied(measure, tmp_path), change), NUMBERS, field)


@pytest.mark.parametrize("measure", ["influence", "redact"])
def test_of_a_case_whose_run_keeps_more_it_is_said_that_it_is_read_in_part(measure: str, tmp_path: Path) -> None:
    run = copied(measure, tmp_path)
    assert not any(case.is_partly_read for case in load_run(run))
    in_numbers(run, lambda rows: rows.extend({**row, "statistic": SECRET} for row in series(rows, "whole")))
    (case, *_) = load_run(run)
    assert case.is_partly_read
    assert any("kept more of its numbers" in warning for warning in case.warnings)
    assert SECRET not in case.to_json()


@pytest.mark.parametrize(("column", "type_"), [("value", pa.string()), ("sample", pa.float64()), ("unit", None)])
def test_columns_of_another_type(column: str, type_: Any, tmp_path: Path) -> None:
    run = copied("influence", tmp_path)
    table = pq.read_table(run / NUMBERS)
    at = table.schema.get_field_index(column)
    changed = table.drop([column]) if type_ is None else table.set_column(at, column, table[column].cast(type_))
    pq.write_table(changed, run / NUMBERS)
    refused(rehashed(run, NUMBERS), NUMBERS, column)


@pytest.mark.parametrize(
    ("measure", "change", "field"),
    [
        ("influence", lambda spec: spec["params"].update(seed=None), "params.seed"),
        ("influence", lambda spec: spec["params"].update(temperature=-1.0), "params"),
        ("influence", lambda spec: spec["params"].update({SECRET: 1}), "params"),
        ("influence", lambda spec: spec["params"].pop("samples"), "params.samples"),
        ("fisher", lambda spec: spec["params"].update(sigma=["identity", SECRET]), "params.sigma.1"),
        ("private_generation", lambda spec: spec["params"].update(mechanism=SECRET), "params.mechanism"),
        ("influence", lambda spec: spec["cases"].pop(), "cases"),
        # Of these no id can be made.
        ("influence", lambda spec: spec["model"].update(name=7), "model.name"),
        ("influence", lambda spec: spec["prompts"].update(unit=[SECRET]), "prompts.unit"),
        ("influence", lambda spec: spec["environment"].update(numpy=10**400), "a number"),
        ("influence", lambda spec: spec.update(problems=[None]), "problems"),
        ("influence", lambda spec: spec.update(measure=SECRET), "measure"),
    ],
)
def test_a_spec_that_was_edited(measure: str, change: Callable[[Spec], object], field: str, tmp_path: Path) -> None:
    """And its id with it, unless what it says cannot be true of any run."""
    renamed = field not in ("model.name", "prompts.unit", "a number", "problems", "measure")
    refused(in_spec(copied(measure, tmp_path), change, renamed=renamed), SPEC, field)


def test_what_is_left_is_above_a_limit_that_was_met(tmp_path: Path) -> None:
    """Any number may have been measured: such a plan is shown as one that does not reach its limit."""
    run = in_numbers(copied("redact", tmp_path), of_series("left", value=7.0))
    loaded = load_run(run)
    assert not loaded[0].reached
    assert loaded.report()


def test_settings_under_an_id_that_they_do_not_make(tmp_path: Path) -> None:
    run = in_spec(copied("influence", tmp_path), lambda spec: spec["params"].update(temperature=0.5), renamed=False)
    with pytest.raises(DamagedError, match=r"is damaged: spec\.json, id: "):
        load_run(run)
    assert verify(run).findings[0].startswith("spec.json: edited: its id is ")


def test_a_measure_that_is_not_installed_has_its_texts_looked_at(tmp_path: Path) -> None:
    run = in_spec(copied("influence", tmp_path), lambda spec: spec.update(measure="of_another_package"))
    in_numbers(run, without("whole"))
    assert verify(run).state == "whole"
    in_texts(run, lambda cases: cases[0].update(query=None))
    assert verify(run).findings[0].startswith(f"{TEXTS}: damaged: 0.query: ")
