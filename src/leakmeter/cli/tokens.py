"""`leakmeter tokens`: the prompt that a model reads, token by token."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.command_line import command_line
from leakmeter.commands.given import read_cases
from leakmeter.commands.options import Flag, Source, Text
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.models import DEFAULT_MODEL
from leakmeter.text.build import PromptSettings

if TYPE_CHECKING:
    from leakmeter.core.tokenizer import Tokenizer


def tokens(
    *,
    source: Source | None = None,
    response: Text | None = None,
    prompts: Annotated[PromptSettings | None, Parameter(name="*", negative="")] = None,
    without: list[str] | None = None,
    model: str = DEFAULT_MODEL,
    tokenizer: str | None = None,
    report: Annotated[Path | None, Parameter(name=("--report", "--html"))] = None,
    json: Flag = False,
) -> None:
    """Show the prompt that a model reads: rendered, its token ids, and the piece that each token belongs to.

    Takes the cases and prompt settings of `leakmeter influence`. Nothing is measured: only the tokenizer is loaded, and
    no server is asked.

    Parameters
    ----------
    response
        What it answered.
    without
        Also show the prompt without this piece, as --removal makes it; again for each further piece.
    model
        Whose tokenizer it is: a known name (see `leakmeter models`), hf:ORG/NAME, a directory or a .gguf file; of a
        served model give --tokenizer.
    tokenizer
        A known name, hf:ORG/NAME, a directory with a tokenizer.json, or a .gguf file; the model's own by default.
    report
        Also write a page to this file.
    json
        Print one JSON object a case instead.
    """
    from leakmeter.commands.shown_tokens import TokensResult, shown
    from leakmeter.core.forecast import PlanningBackend

    given = read_cases(source or Source(), response)
    settings = (prompts or PromptSettings()).resolved()
    if report is not None:
        output.check_writable(report, "report", settings, model, Path(model), source)
    for note in given.notes:
        output.tell(note)
    name = tokenizer or model
    read, window = _tokenizer(model, tokenizer)
    if settings.truncate and window is None:
        output.tell(f"the window of '{name}' is not known here; no context is cut")
    backend = PlanningBackend(name=name, tokenizer=read, dtype="", window=window, sharing="sequences")
    prepared, kept = given.prepared(backend, settings, Influence())
    for note in kept.notes:
        output.tell(note)
    results = [shown(one, read, name, without or ()) for one in prepared]
    if report is not None:
        page = TokensResult.render_page(results, command=command_line(sys.argv[1:]), run=None)
        output.save_page(report, page)
    if json:
        for result in results:
            output.print_json(result.to_dict())
    else:
        output.print_results(results)
    if report is not None:
        output.tell_page(report, public=False)
    if kept.problems:
        output.tell(output.left_out(kept.problems))


def _tokenizer(model: str, tokenizer: str | None) -> tuple[Tokenizer, int | None]:
    """A tokenizer, and the window of its model where its files say it."""
    from leakmeter.core import registry
    from leakmeter.runs.loading import load_backend, names_a_backend

    name = tokenizer or model
    if name == "toy":
        toy = registry.backend("toy")()
        return toy.tokenizer, toy.window
    if names_a_backend(name):
        from leakmeter.backends.served import names_a_server

        if names_a_server(name):
            raise UsageError(
                "of a served model the tokenizer is needed; give --tokenizer hf:ORG/NAME, or a directory with its "
                "tokenizer.json"
            )
        backend = load_backend(name)
        return backend.tokenizer, backend.window
    from leakmeter.backends.hf.local_tokenizer import load_tokenizer, window_of
    from leakmeter.models.tokenizers import tokenizer_folder

    folder = tokenizer_folder(name, notify=output.tell)
    return load_tokenizer(folder, name), window_of(folder)
