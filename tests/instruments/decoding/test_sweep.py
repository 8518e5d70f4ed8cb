"""Sweeps: what is compared, and what keeps its place and its nonce."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from leakmeter.core.case import Case, Document
from leakmeter.data.named.base import Record
from leakmeter.errors import StoreError, UsageError
from leakmeter.instruments.decoding.sweep import DEFAULTS, EPSILON, LAMBDA, sweep_directory, sweep_of
from leakmeter.storage.nonce import kept_nonce
from leakmeter.text.build import PromptSettings


def test_a_sweep_is_its_values_in_order_each_once() -> None:
    sweep = sweep_of([2, 0.5, -0.0, 0.50], None, {"temperature": 0.8, "samples": 3})
    assert (sweep.kind, sweep.values) == (LAMBDA, (0.0, 0.5, 2.0))
    assert str(sweep.values[0]) == "0.0"
    assert [(one.cid_lambda, one.temperature, one.samples, one.epsilon) for one in sweep.measures] == [
        (value, 0.8, 3, None) for value in (0.0, 0.5, 2.0)
    ]
    bounded = sweep_of(None, (), {"lambda_max": 1.5})
    assert (bounded.kind, bounded.values) == (EPSILON, DEFAULTS[EPSILON])
    assert {(one.lambda_max, one.cid_lambda) for one in bounded.measures} == {(1.5, 1.0)}


def test_one_seed_for_all_settings_or_one_nonce() -> None:
    for lambdas, epsilons, given, needs, seeds in (
        ((), None, None, False, (0, None)),
        ((), None, 7, False, (7, None)),
        (None, (), None, True, (None, 99)),
        (None, (), 7, False, (7, None)),
    ):
        sweep = sweep_of(lambdas, epsilons, {"seed": given})
        assert (sweep.given_seed, sweep.needs_nonce) == (given, needs)
        assert {(measure.seed, measure.nonce) for measure in sweep.seeded(99).measures} == {seeds}


@pytest.mark.parametrize(("lambdas", "epsilons"), [(None, None), ((), ()), ([1.0], [1.0])])
def test_one_kind_is_swept(lambdas: Any, epsilons: Any) -> None:
    with pytest.raises(UsageError, match="give one of lambda and epsilon"):
        sweep_of(lambdas, epsilons)


def test_the_directory_is_told_by_all_but_the_values_and_references(tmp_path: Path) -> None:
    def directory(
        lambdas: Any = (1.0,), epsilons: Any = None, text: str = "a", reference: str = "r", **how: Any
    ) -> str:
        drawing = {"temperature": how.pop("temperature", 1.0), "seed": how.pop("seed", None)}
        records = [Record(Case("1", (Document("d", text),), "q"), reference)]
        settings = PromptSettings(unit="whole", template=how.pop("template", None))
        machine = {"dtype": None, "device": None, "memory": None, **how}
        sweep = sweep_of(lambdas, epsilons, drawing)
        path = sweep_directory(sweep, machine.pop("model", "toy"), settings, records, tmp_path / "runs", **machine)
        # Nothing is made before there is something to keep.
        assert not path.parent.exists()
        return path.name

    first = directory()
    assert first == directory(lambdas=(0.0, 1.0, 5.0)) == directory(reference="s") == directory()
    bounded = directory(lambdas=None, epsilons=(1.0,))
    assert bounded == directory(lambdas=None, epsilons=(2.0, 3.0))
    others = [bounded, directory(text="b"), directory(temperature=0.5), directory(seed=1), directory(template="plain")]
    others += [directory(model="other"), directory(dtype="float32"), directory(memory="1GiB"), first]
    assert len(set(others)) == len(others)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        kept_nonce(tmp_path / "file" / first)
    kept_nonce(tmp_path / bounded)
    assert (tmp_path / bounded).stat().st_mode & 0o777 == 0o700


def test_a_nonce_is_drawn_once_also_by_many_at_once(tmp_path: Path) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(kept_nonce(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {kept_nonce(tmp_path)}
    assert found[0] > 2**64  # save with chance 2^-64
    other = tmp_path / "other"
    other.mkdir()
    assert kept_nonce(other) != found[0]
    (other / "secret.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError, match="holds no nonce; remove that directory"):
        kept_nonce(other)
