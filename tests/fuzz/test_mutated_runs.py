"""One field of a run is changed, and its hash with it: every command gives a result, or names file and field.

A few changes by `make test`, each tried by some of the commands; by `make fuzz` as many as there is time for, by all.
"""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from helpers import mutated_runs
from helpers.fuzzing import FIRST_SEED, SECONDS

_SHARE: Final = 1 / 8
"""Of the time of all fuzzers."""
_FEWEST: Final = 8
_COMMANDS_AT_LEAST: Final = 3


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory for runs; key and logs of errors go to others of this test alone."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LEAKMETER_CONFIG", "LEAKMETER_CACHE"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield tmp_path_factory.mktemp("mutated")


@pytest.fixture(scope="module")
def whole(environment: Path) -> dict[str, mutated_runs.Whole]:
    return mutated_runs.made_runs(environment)


def test_every_instrument_has_a_run(whole: dict[str, mutated_runs.Whole]) -> None:
    from leakmeter.core import registry

    assert {one.measure for one in whole.values()} == set(registry.instruments())


def test_a_changed_field_is_named_or_does_no_harm(whole: dict[str, mutated_runs.Whole], environment: Path) -> None:
    end = time.monotonic() + SECONDS * _SHARE
    for number in itertools.takewhile(lambda n: n < _FEWEST or time.monotonic() < end, itertools.count()):
        folder = environment / str(number)
        folder.mkdir()
        _attack(mutated_runs.mutated(whole, FIRST_SEED, number, folder), folder, number)
        shutil.rmtree(folder)


def _attack(run: mutated_runs.Mutated, folder: Path, number: int) -> None:
    calls = list(mutated_runs.calls(run, folder))
    if SECONDS * _SHARE < _FEWEST:
        calls = random.Random(f"{FIRST_SEED} {number} calls").sample(calls, _COMMANDS_AT_LEAST)
    is_damaged = False
    for name, call in calls:
        ended = call()
        why = mutated_runs.fell(ended, run.file)
        assert why is None, f"{run.change}: {name}: {why}: {ended.err}"
        is_damaged |= "damaged: " in ended.err
    verified = mutated_runs.run_command(["runs", "verify", run.path])
    assert "internal error" not in verified.err, f"{run.change}: verify: {verified.err}"
    assert verified.code == 1 or not is_damaged, f"{run.change}: verify finds nothing: {verified.out}"
