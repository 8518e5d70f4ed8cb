"""`leakmeter demo`: the main job on a sample that ships with the package."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leakmeter.cli.cases import run_cases
from leakmeter.measures.influence import Influence
from leakmeter.prompts.build import PromptSettings
from leakmeter.types.case import Case, Document


def demo(
    *,
    html: Path = Path("report.html"),
    model: str = "smollm2-135m",
    out: Path = Path("runs"),
    no_cache: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measure an invented clinic note: which of its sentences does an answer owe to?

    Parameters
    ----------
    html
        The report to write.
    model
        See `leakmeter influence`.
    out
        Directory of runs.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter cache`).
    dry_run
        Predict tokens, memory and time instead; nothing is run or written.
    """
    folder = resources.files("leakmeter.samples")
    note = folder.joinpath("clinic_note.txt").read_text(encoding="utf-8")
    asked = json.loads(folder.joinpath("clinic_note.json").read_text(encoding="utf-8"))
    case = Case("clinic note", (Document("clinic_note.txt", note),), asked["query"], asked["response"])
    run_cases(
        [case],
        [],
        PromptSettings(unit="sentence", group=True),
        Influence(),
        "influence",
        model=model,
        dtype=None,
        device=None,
        memory=None,
        out=out,
        html=html,
        json=False,
        skip_bad=False,
        cache=not no_cache,
        dry_run=dry_run,
    )
