"""Sweeps: what is compared, what keeps its place and its nonce, and which setting to ship."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any, cast

import numpy as np
import pytest

from leakmeter.commands.studies.tables import StudyColumn
from leakmeter.core.case import Case, Document
from leakmeter.data.named import DatasetRecord
from leakmeter.engine.storage.pseudonym import kept_nonce
from leakmeter.errors import StoreError
from leakmeter.instruments.decoding.frontier import COLUMNS, ResampledMeans, SettingChoice, choose, sentence
from leakmeter.instruments.decoding.sweep import DEFAULTS, EPSILON, LAMBDA, sweep_directory, sweep_of
from leakmeter.stats.frontier import resampled_means
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
        ((), None, None, False, (0, None)), ((), None, 7, False, (7, None)),
        (None, (), None, True, (None, 99)), (None, (), 7, False, (7, None)),
    ):  # fmt: skip
        sweep = sweep_of(lambdas, epsilons, {"seed": given})
        assert (sweep.given_seed, sweep.needs_nonce) == (given, needs)
        assert {(measure.seed, measure.nonce) for measure in sweep.seeded(99).measures} == {seeds}


def test_the_directory_is_told_by_all_but_the_values_and_references(tmp_path: Path) -> None:
    def directory(
        lambdas: Any = (1.0,), epsilons: Any = None, text: str = "a", reference: str = "r", **how: Any
    ) -> str:
        drawing = {"temperature": how.pop("temperature", 1.0), "seed": how.pop("seed", None)}
        records = [DatasetRecord(Case("1", (Document("d", text),), "q"), reference)]
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
    together = Barrier(8)
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(lambda _: together.wait() < 0 or kept_nonce(tmp_path), range(8))]
    assert set(found) == {kept_nonce(tmp_path)}
    assert found[0] > 2**64  # save with chance 2^-64
    other = tmp_path / "other"
    other.mkdir()
    assert kept_nonce(other) != found[0]
    (other / "secret.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError, match="holds no nonce; remove that directory"):
        kept_nonce(other)


LEAKS = np.array([0.0, 1.0, 2.0, 4.0])


def evidence(means: Any, *, noise: float = 0.01, n_cases: int = 30, seed: int = 0) -> ResampledMeans:
    rng = np.random.default_rng(seed)
    # Cases differ more than settings do, as they do in life: what counts is within each.
    values = np.asarray(means) + 0.3 * rng.normal(size=(n_cases, 1)) + noise * rng.normal(size=(n_cases, len(means)))
    return ResampledMeans(values, resampled_means(values, seed=0))


def said(choice: SettingChoice, leaks: ResampledMeans, uses: ResampledMeans, kind: str = "cid_lambda") -> str:
    rows: list[dict[str, Any]] = []
    for number in range(len(leaks.means)):
        less = (uses.values[:, number] - uses.values[:, choice.best]).mean()
        row = {kind: 0.5 * number, "nats": leaks.means[number], "nats_low": 1.0, "nats_high": 2.0}
        rows.append({**row, "u_less_best": less, "u_less_best_low": less - 0.01, "u_less_best_high": less + 0.01})
    return sentence(choice, "u", kind, rows, len(leaks.values))


@pytest.fixture(autouse=True)
def _a_utility_called_u(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(Any, COLUMNS), "u", StudyColumn("Use"))


RISING = [0.10, 0.30, 0.32, 0.33]
LEAST = (
    "Use: no knee: utility does not rise by more than its interval.", "the least leaking, λ = 0,",
    "nothing in 30 cases favours leaking more.",
)  # fmt: skip
KNEE = (
    "Use: ship λ = 0.5, the knee in 100 % of resamples of 30 cases. λ = 0.5 leaks 0.98 nats a", "points [",
    "below the best, λ = 1.5.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("leaks", "uses", "verdict", "ship", "words"),
    [
        (evidence(LEAKS, seed=1), evidence(RISING), "knee", 1, KNEE),
        *((evidence(LEAKS, seed=1), evidence(means, noise=noise), "same utility", 0, LEAST)
          for means, noise in (([0.2] * 4, 0.05), ([0.2] * 4, 0.0), ([0.4, 0.3, 0.2, 0.1], 0.01))),
        *((evidence([1.0] * 4, noise=noise, seed=1), evidence(RISING), "same leakage", None,
           ("leakage does not differ by more than its interval",)) for noise in (0.0, 0.05)),
        (evidence(LEAKS, noise=0.0, seed=1), evidence([0.1, 0.11, 0.13, 0.5]), "no knee", None,
         ("no setting in between gains more utility than its share of the leakage",)),
        *((evidence(LEAKS[:n], n_cases=cases, seed=1), evidence(RISING[:n], n_cases=cases), verdict, None, (word,))
          for cases, n, verdict, word in (
              (1, 4, "too few cases", "1 case cannot tell"), (7, 4, "too few cases", "7 cases cannot tell"),
              (5, 1, "one setting", "one setting"), (1, 1, "one setting", "one setting"))),
    ],
)  # fmt: skip
def test_what_to_ship_and_why(
    leaks: ResampledMeans, uses: ResampledMeans, verdict: str, ship: int | None, words: Any
) -> None:
    choice = choose(leaks, uses)
    assert (choice.verdict, choice.ship) == (verdict, ship)
    assert not [part for part in words if part not in said(choice, leaks, uses)]
    assert (choice.shares is None) == (verdict in ("too few cases", "one setting"))
    if verdict == "knee":
        assert (choice.least, choice.best) == (0, 3)
        assert choice.shares is not None
        assert choice.shares.of_setting[1] == 1.0
    if verdict == "no knee":
        assert choice.efficient == (0, 3)
        assert choice.shares is not None
        assert choice.shares.none == 1.0


@pytest.mark.parametrize("n_cases", [8, 50])
def test_settings_that_are_the_same_seldom_have_a_knee(n_cases: int) -> None:
    n_found, n_sweeps = 0, 200
    for seed in range(n_sweeps):
        leaks, uses = (evidence([1.0] * 7, noise=0.3, n_cases=n_cases, seed=2 * seed + of) for of in (0, 1))
        n_found += choose(leaks, uses).verdict != "same leakage"
    assert n_found <= 0.05 * n_sweeps + 2.0 * (0.05 * 0.95 * n_sweeps) ** 0.5


def test_an_unsettled_knee_is_said_to_be_one() -> None:
    leaks, uses = evidence([0.0, 1.0, 2.0, 3.0, 4.0], seed=1), evidence([0.1, 0.25, 0.4, 0.41, 0.42], noise=0.15)
    choice = choose(leaks, uses)
    assert choice.shares is not None
    assert choice.verdict == "knee"
    share = choice.shares.of_setting[choice.ship or 0]
    words = said(choice, leaks, uses)
    assert choice.is_settled == (share >= 0.5)
    fewer = replace(choice.shares, of_setting=(0.49,) * 5)
    assert not replace(choice, shares=fewer).is_settled
    assert ("which is not conclusive" in words) == (share < 0.5)
    assert ("Use: ship" in words) == (share >= 0.5)
    # Whoever else is the knee in some resample is named.
    assert ";" in words


def test_a_promise_is_told_beside_what_was_told() -> None:
    row = {"epsilon": 1.0, "nats": 2.0, "nats_low": np.nan, "nats_high": np.nan, "guaranteed_nats_most": 8.0}
    row |= {"u_less_best": -0.02, "u_less_best_low": -0.03, "u_less_best_high": 0.0}
    words = sentence(choose(evidence(LEAKS, seed=1), evidence(RISING)), "u", "epsilon", [row] * 4, 30)
    assert "ε = 1 leaks 2.00 nats a response, where at most 8 were guaranteed" in words
    assert "2.0 points [0.0, 3.0] below the best" in words
