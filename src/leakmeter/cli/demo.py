"""`leakmeter demo`: the main job on a sample that ships with the package."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Final

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import Explain, FlagOption, RemoteOption, RunOptions
from leakmeter.core.case import Case, Document
from leakmeter.core.files import write_whole
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine.options import RemoteOptions
from leakmeter.errors import StoreError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.models import DEFAULT_MODEL
from leakmeter.text.build import PromptSettings

_ELSEWHERE: Final = {
    "note.txt": "clinic_note.txt",
    "questions.jsonl": "queries.jsonl",
    "contexts.jsonl": "contexts.jsonl",
    "tickets.csv": "tickets.csv",
}
"""Samples that commands use by themselves, by the names that they have among the written ones."""


def demo(
    *,
    html: Path = Path("report.html"),
    model: str = DEFAULT_MODEL,
    served: RemoteOption = None,
    out: Path = Path("runs"),
    no_cache: FlagOption = False,
    explain: Explain = False,
    dry_run: FlagOption = False,
    write_samples: Path | None = None,
) -> None:
    """Measure an invented clinic note: how much does each sentence influence an answer?

    Parameters
    ----------
    html
        The report to write.
    model
        See `leakmeter influence`.
    served.allow_remote
        Send the sample to a served model that runs on another machine.
    out
        Directory of runs.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter models cache`).
    dry_run
        Only predict tokens, memory and time; run and write nothing.
    write_samples
        Write invented logs and tables into this directory instead: the files that help texts and tutorials use.
    """
    if write_samples is not None:
        _write_samples(write_samples)
        return
    folder = resources.files("leakmeter.data.samples")
    note = folder.joinpath("clinic_note.txt").read_text(encoding="utf-8")
    sample = json.loads(folder.joinpath("clinic_note.json").read_text(encoding="utf-8"))
    case = Case("clinic note", (Document("clinic_note.txt", note),), sample["query"], sample["response"])
    run = RunOptions(
        model=model,
        **asdict(served or RemoteOptions()),
        out=out,
        name="demo",
        html=html,
        no_cache=no_cache,
        explain=explain,
        dry_run=dry_run,
    )
    run_cases(Plan("influence", Influence(), PromptSettings(unit="sentence", group=True), LoadedCases((case,))), run)


def _write_samples(directory: Path) -> None:
    """Write every sample, and say what was written; a file that is there and differs is left alone."""
    folder = resources.files("leakmeter.data.samples")
    shipped = {entry.name: entry for entry in folder.joinpath("files").iterdir()}
    shipped |= {name: folder.joinpath(source) for name, source in _ELSEWHERE.items()}
    texts = {directory / name: entry.read_bytes() for name, entry in sorted(shipped.items())}
    for path, text in texts.items():
        if path.exists() and path.read_bytes() != text:
            raise StoreError(f"'{path}' exists and is not a sample; give --write-samples another directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            write_whole(path, text)
    except OSError as error:
        raise StoreError(f"samples '{directory}' cannot be written: {error.strerror or error}") from None
    output.tell(f"samples: {len(texts)} files in {directory}; start with: leakmeter {directory / 'log.jsonl'}")
