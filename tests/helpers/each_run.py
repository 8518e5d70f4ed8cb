"""Runs of every measure, with a model that takes no time: what reads runs is shown these."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from leakmeter.core import registry
from leakmeter.core.loaded import LoadedCases, Plan

NOTE: Final = {
    "id": "note",
    "context": "Anna Ek lives in Graz. Her phone is 555-010-7788. Bo asked twice.\nCall 555-010-7788 after four.",
    "query": "Whom to call?",
    "response": "Anna, 555-010-7788.",
}
ASK: Final = {name: value for name, value in NOTE.items() if name != "response"}
TWO: Final = {
    "id": "two documents",
    "context": {"mail": "The ferry leaves at nine.", "d2": "It was late on Monday."},
    "query": "When does it leave?",
}
NOTES: Final = [NOTE, TWO]
_ANSWERS: Final = {"answers": ["Mara", "Tove"]}
QUERIES: Final = [
    {"id": "q1", "query": "Q: Who wrote the almanac?\nA:", **_ANSWERS, "answer": "Mara", "form": "question"},
    {"id": "q2", "query": "The almanac was written by", **_ANSWERS, "form": "completion"},
]
CONTEXTS: Final = [
    {"id": "c1", "context": "Mara wrote the almanac."},
    {"id": "c2", "context": "Tove wrote the almanac in a winter.", "weight": 2.0},
    {"id": "c3", "context": "It rained."},
]


MOODS: Final = {"name": "mood", "fields": {"said": "Said"}, "labels": ["Up", "Low"], "label_column": "mood"}
ROWS: Final = [
    {"id": f"n{i}", "said": f"The boat no. {i} {said} at {i + 3}.", "mood": mood}
    for i, (said, mood) in enumerate([("sank", "Low"), ("arrived", "Up")] * 3)
]
PEOPLE: Final = [
    {"id": "p1", "name": "Mara Ellgard", "phone": "617-555-0134", "email": "mara.ellgard@example.com"},
    {"id": "p2", "name": "Tove Lindqvar", "phone": "617-555-0178"},
]


@cache
def runs_by_name() -> dict[str, Path]:
    """Directories of runs, all in one, by what tells them apart; nobody writes to them."""
    folder = Path(tempfile.mkdtemp(prefix="leakmeter-runs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {name: run.path for name, run in _measured(folder).items()}


def runs_of_each() -> Path:
    return next(iter(runs_by_name().values())).parent


def copied(name: str, folder: Path) -> Path:
    """A copy of a run, in `folder`."""
    run = runs_by_name()[name]
    return Path(shutil.copytree(run, folder / run.name))


def _measured(out: Path) -> dict[str, Any]:
    import leakmeter
    from helpers.differentiable_toy import DifferentiableToy

    told: dict[str, Any] = {"out": out}
    six: dict[str, Any] = {"max_new_tokens": 6, **told}
    one: dict[str, Any] = {"samples": 1, **six}
    whole: dict[str, Any] = {"task": MOODS, "exemplars": ROWS[3:], "label_scoring": "whole-sequence", **told}
    runs = {
        "influence": leakmeter.influence("toy", NOTES, **one),
        "influence of entities": leakmeter.influence("toy", NOTES, unit="entity", swap=True, group=True, **one),
        "influence of documents": leakmeter.influence("toy", [TWO], samples=2, unit="document", **six),
        "decode": leakmeter.decode("toy", [ASK], cid_lambda=1.5, samples=2, **six),
        "decode bounded": leakmeter.decode("toy", [ASK], epsilon=1.0, seed=7, **six),
        "redact": leakmeter.redact("toy", NOTES, max_loss=0.05, **one),
        "icl": leakmeter.icl("toy", ROWS[:3], **whole),
        "icl calibrated": leakmeter.icl("toy", ROWS[:2], calibration="average", **whole),
        "susceptibility": leakmeter.susceptibility("toy", QUERIES, contexts=CONTEXTS, answer_tokens=3, **told),
        "fisher": leakmeter.fisher_susceptibility(
            DifferentiableToy(), QUERIES, contexts=CONTEXTS, sigma=("identity", "embedding"), **told
        ),
        "pii": leakmeter.pii("toy", PEOPLE, decoys=50, prompts=2, **told),
        "private_generation": leakmeter.generate(
            "toy", [row["said"] for row in ROWS], instruction="Write a notice.", subset_size=3, epsilon=8.0, samples=4,
            max_new_tokens=5, seed=5, **told,
        ),
    }  # fmt: skip
    others = set(registry.instruments()) - {run.measure for run in runs.values()}
    return runs | {name: run_of_example(name, out) for name in others}


def run_of_example(name: str, out: Path) -> Any:
    """A run of an instrument's own example, where there are none of it."""
    from helpers.differentiable_toy import DifferentiableToy
    from leakmeter.commands.call import CallOptions, measured
    from leakmeter.engine.loading import KeptModel

    instrument = registry.instrument(name)
    example = instrument.example("one", "the clinic.")
    plan = Plan(name, instrument.measure(**example.parameters), example.settings, LoadedCases((example.case,)))
    return measured(KeptModel(DifferentiableToy()), plan, CallOptions(out=out))
