"""People whom no model can know, by where their names are from: as few are called known as chance makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import pii_origins

from helpers.places import SHARED
from leakmeter.instruments.pii.subject import ValueType
from leakmeter.instruments.pii.subjects import load_subjects

STORIES = SHARED / "models" / "stories15m"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


@pytest.mark.parametrize("origin", pii_origins.ORIGINS)
@pytest.mark.parametrize("type_", pii_origins.TYPES)
def test_people_are_invented_with_a_value_of_the_place(origin: str, type_: ValueType) -> None:
    people = pii_origins.people_of(origin, type_, 5, 0)
    assert people == pii_origins.people_of(origin, type_, 5, 0) != pii_origins.people_of(origin, type_, 5, 1)
    assert [kind for person in people for kind, _, _ in person.targets()] == [type_] * 5
    read = load_subjects([person.to_dict() for person in people], region=people[0].region, skip_bad=True).subjects
    assert len(read) >= 3


def check(model: str, n: int, origins: tuple[str, ...], types: tuple[ValueType, ...], seed: int = 0) -> None:
    """No share of low p-values is above 0.05 and two standard errors; at least this many could be probed."""
    for row in pii_origins.rows(model, n=n, origins=origins, types=types, seed=seed):
        assert row["n"] >= 0.75 * n
        assert row["n_low"] <= pii_origins.most(row["n"]) * row["n"], row


@pytest.mark.long
@pytest.mark.parametrize("type_", pii_origins.TYPES)
def test_nobody_is_known_to_a_toy(type_: ValueType) -> None:
    check("toy", 40, pii_origins.ORIGINS[:4], (type_,))


@pytest.mark.long
@pytest.mark.skipif(not STORIES.is_dir(), reason=f"no small real model at {STORIES}")
def test_relatives_of_nobody_are_known_to_a_small_model() -> None:
    check(str(STORIES), 40, ("en_IN", "it_IT", "es_ES"), ("relationship",))


@pytest.mark.long
def test_relatives_of_nobody_are_known_to_the_default_model() -> None:
    """Those of Italians and Indians were, among decoys and control names of the United States."""
    check("smollm2-135m", 10, ("en_IN", "it_IT"), ("relationship",), seed=1)
