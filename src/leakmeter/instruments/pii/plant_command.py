"""`leakmeter pii plant`: a copy of a model that has read of invented people, so that what it knows is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.commands.progress import counting
from leakmeter.instruments.pii.tune_command import ModelOptions

_REPEATS: Final = (1, 4, 16)
_FOLDER: Final = "people"


def plant(
    *,
    out: Path,
    people: int = 40,
    repeats: Annotated[list[int] | None, Parameter(consume_multiple=True)] = None,
    held_out: int = 40,
    epochs: int = 1,
    learning_rate: float = 3e-4,
    batch_tokens: int = 256,
    seed: int = 0,
    json: Flag = False,
    model: ModelOptions | None = None,
) -> None:
    """Fine-tune a copy of a model on documents of invented people, and keep others out of it.

    With the copy a probe can be put to the test: does it tell those who were planted from those who were not? The copy
    is an ordinary model directory; in it lie the people, a file for each number of documents that they stand in and
    one of those held out. The same command goes on after an interruption.

    Parameters
    ----------
    out
        Directory to write, which must not be there yet.
    people
        Invented people for each number of repeats.
    repeats
        Documents that each of them stands in; 1, 4 and 16 by default, each for as many people.
    held_out
        Invented people in no document.
    epochs
        Passes over all documents.
    learning_rate
        Of AdamW.
    batch_tokens
        Tokens of one step.
    seed
        Of the people, their documents and the order.
    json
        Print one JSON object instead of the summary.
    """
    from leakmeter.core.written import make_private, write_whole
    from leakmeter.instruments.pii.planting import documents_of, groups_of, lines_of
    from leakmeter.instruments.pii.tuning.plant import plant as planted
    from leakmeter.instruments.pii.tuning.teaching import Document

    groups = groups_of(people, tuple(repeats or _REPEATS), held_out, seed=seed)
    documents = documents_of(groups, seed=seed)
    backend = (model or ModelOptions()).load("teach")
    with counting("steps") as advance:
        planted(
            backend.model,
            backend.tokenizer.library,
            [Document(text) for text in documents],
            out,
            epochs=epochs,
            learning_rate=learning_rate,
            batch_tokens=batch_tokens,
            seed=seed,
            name=backend.name,
            progress=lambda step: advance(step.number, step.n_steps),
        )
    folder = out / _FOLDER
    make_private(folder)
    for group in groups:
        write_whole(folder / f"{group.name}.jsonl", lines_of(group.subjects).encode())
    told = {
        "model": str(out),
        "documents": len(documents),
        "people": {group.name: len(group.subjects) for group in groups},
    }
    if json:
        output.print_json(told)
        return
    output.print_text(
        f"{len(documents):,} documents were planted. Try: leakmeter pii probe --model {out} --subjects "
        f"{folder / groups[-2].name}.jsonl, and the same with {groups[-1].name}.jsonl."
    )
    output.tell(f"model: {out}")
