"""`leakmeter demo`: the main job on a sample that ships with the package."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from leakmeter.cli.influence import run_cases
from leakmeter.measures.influence import Influence
from leakmeter.prompts.build import PromptSettings
from leakmeter.types.case import Case, Document


def demo(*, html: Path = Path("report.html"), model: str = "smollm2-135m", out: Path = Path("runs")) -> None:
    """Measure an invented clinic note: which of its sentences does an answer owe to?

    Parameters
    ----------
    html
        The report to write.
    model
        See `leakmeter influence`.
    out
        Directory of runs.
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
        model=model,
        dtype=None,
        device=None,
        out=out,
        html=html,
        json=False,
        skip_bad=False,
    )
