"""What tests share: models, small cases, and the slow, obvious way to every number."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from helpers.examples import QUICK, examples

# Thousands of collected tests are no garbage, and to look for it among them takes longer than to collect them.
gc.disable()

_LONGEST = (
    *("[provider]", "test_ten_thousand_cases_fit", "test_a_node_goes", "test_a_day_is_killed", "test_planted_leaks"),
    *("[README]", "[pii]", "[decoding]", "test_an_audit_of_100_000", "[served]", "test_from_a_clone", "[ledger]"),
    *("[traces]", "test_docs_output.py"),
)
"""Parts of the names of long tests, the longest first."""

pytest_plugins = ("helpers.command_line", "helpers.prepared_cases")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tests of the score cache give it a directory of their own; all others see what the model does, and the user's stays
# as it was.
os.environ["LEAKMETER_SCORES"] = "off"
if "PYTEST_XDIST_WORKER" in os.environ:
    # One thread a worker: two workers of two threads each take twice as long on two cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Width, colours and file modes are those that the tests expect, whatever shell they are started from.
os.environ |= {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
for _name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE"):
    os.environ.pop(_name, None)
os.umask(0o022)
# What a power failure would leave is not tested, and to wait for the disk thousands of times takes half a minute.
os.fsync = lambda handle: None


def pytest_configure(config: pytest.Config) -> None:
    """Say how many examples properties have: the same each time, and without a stopwatch, on shared cores."""
    if "not long" in config.option.markexpr:
        os.environ[QUICK] = "1"
    settings.register_profile("leakmeter", deadline=None, max_examples=examples(100), derandomize=True)
    settings.load_profile("leakmeter")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests: a worker that has nothing left takes over what another would do last."""

    def rank(item: pytest.Item) -> int:
        if item.get_closest_marker("long") is None:
            return len(_LONGEST) + 1
        return next((i for i, part in enumerate(_LONGEST) if part in item.nodeid), len(_LONGEST))

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """From here on garbage is looked for again, in what the tests make only."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Short tests leave their garbage for after: at the bottom of data nested too deep, which many of them read, the
    finalizers of what earlier tests left would find no stack to run on, and this test would fail for it."""
    if item.get_closest_marker("long") is None:
        gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session")
def real_backend() -> Any:
    """The default model; skipped, visibly, where it is neither cached nor to be fetched."""
    from leakmeter.engine.loading import load_backend
    from leakmeter.errors import ModelError

    try:
        return load_backend("smollm2-135m", device="cpu")
    except ModelError as error:
        pytest.skip(f"the default model is not at hand: {error}")
