"""`leakmeter demo`: the main job on a sample that ships with the package."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import Explain, Flag, RunOptions
from leakmeter.core.case import Case, Document
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.instruments.influence.measure import Influence
from leakmeter.models import DEFAULT_MODEL
from leakmeter.text.build import PromptSettings


def demo(
    *,
    html: Path = Path("report.html"),
    model: str = DEFAULT_MODEL,
    tokenizer: str | None = None,
    allow_remote: Flag = False,
    out: Path = Path("runs"),
    no_cache: Flag = False,
    explain: Explain = False,
    dry_run: Flag = False,
) -> None:
    """Measure an invented clinic note: how much does each sentence influence an answer?

    Parameters
    ----------
    html
        The report to write.
    model
        See `leakmeter influence`.
    tokenizer
        Of a served model: a known name, hf:ORG/NAME, a directory with its tokenizer.json, or a .gguf file.
    allow_remote
        Send the sample to a served model that runs on another machine.
    out
        Directory of runs.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter cache`).
    dry_run
        Predict tokens, memory and time instead; nothing is run or written.
    """
    folder = resources.files("leakmeter.samples")
    note = folder.joinpath("clinic_note.txt").read_text(encoding="utf-8")
    sample = json.loads(folder.joinpath("clinic_note.json").read_text(encoding="utf-8"))
    case = Case("clinic note", (Document("clinic_note.txt", note),), sample["query"], sample["response"])
    run = RunOptions(
        model=model,
        tokenizer=tokenizer,
        allow_remote=allow_remote,
        out=out,
        name="demo",
        html=html,
        no_cache=no_cache,
        explain=explain,
        dry_run=dry_run,
    )
    run_cases(Plan("influence", Influence(), PromptSettings(unit="sentence", group=True), LoadedCases((case,))), run)
