"""`leakmeter doctor tokens`: the prompt of a case as the model reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import read_cases
from leakmeter.commands.options import CaseSource, FlagOption, TextOption, TokenizerOption
from leakmeter.core.plain import excerpt, visible
from leakmeter.core.prompt import FRAME
from leakmeter.models import DEFAULT_MODEL
from leakmeter.text.build import PromptSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text as Painted

    from leakmeter.text.tokens import LeftTokens, PromptToken, TokensResult

_PAPERS: Final = (
    *(("#ffd8a8", "#ffe8cc"), ("#b2f2bb", "#d3f9d8"), ("#a5d8ff", "#d0ebff"), ("#fcc2d7", "#ffdeeb")),
    *(("#ffec99", "#fff3bf"), ("#d0bfff", "#e5dbff"), ("#99e9f2", "#c5f6fa")),
)
"""Two shades for the tokens of a piece, which take turns; black letters are readable on all."""
_FRAME: Final = ("#ced4da", "#e9ecef")
"""For the template."""
_MARKS: Final = str.maketrans({"\n": "↵", "\t": "⇥"})


def tokens(
    *,
    source: CaseSource | None = None,
    response: TextOption | None = None,
    without: list[str] | None = None,
    prompts: Annotated[PromptSettings | None, Parameter(name="*", negative="")] = None,
    model: str = DEFAULT_MODEL,
    tokenizer: TokenizerOption = None,
    json: FlagOption = False,
) -> None:
    """Show the prompts that cases are measured with: text, token ids, and the piece of each token.

    Loads only the model's tokenizer, and sends nothing to a served model. Cases are given as to `leakmeter
    influence`. --truncate, which needs the model's window, and --swap are refused.

    Parameters
    ----------
    response
        The response; its ids follow those of the prompt.
    without
        Show the prompt without this piece, such as s2; repeat to remove several together.
    model
        A known name (see `leakmeter models`), hf:ORG/NAME, a directory, a .gguf file, or a served model.
    json
        Print one JSON object a case instead.
    """
    from leakmeter.commands.tokens import tokenised
    from leakmeter.engine.loading import load_tokenizer

    loaded = read_cases(source or CaseSource(), response)
    for note in loaded.notes:
        output.tell(note)
    settings = (prompts or PromptSettings()).resolved()
    read = load_tokenizer(model, tokenizer=None if tokenizer is None else tokenizer.tokenizer, notify=output.tell)
    results, kept = tokenised(loaded, settings, read, model=model, without=without or ())
    for note in kept.notes:
        output.tell(note)
    console = output.console()
    for number, result in enumerate(results):
        if json:
            output.print_json(result.to_dict())
            continue
        if number:
            console.print()
        _print(result, console)
    if kept.problems:
        output.tell(output.left_out(kept.problems))


def _print(result: TokensResult, console: Console) -> None:
    from rich.text import Text as Painted

    coloured = console.color_system is not None and not console.no_color
    pieces = dict.fromkeys(token.piece for token in result.tokens if token.role != FRAME)
    palette = {piece: _PAPERS[number % len(_PAPERS)] for number, piece in enumerate(pieces)}
    n_response = len(result.response_ids or ())
    counts = f"{len(result.prompt_ids):,} tokens" + (f" and {n_response:,} of the response" if n_response else "")
    named = f"{excerpt(result.id, 40)}: {excerpt(result.model, 60)}, template {result.template}, "
    console.print(Painted(named + counts, style="bold"))
    if result.truncated_tokens:
        console.print(Painted(f"{result.truncated_tokens:,} tokens of the context are cut off"))
    console.print()
    console.print(_text(result, palette))
    console.print()
    console.print(_table(result.tokens, palette, coloured=coloured))
    if result.without is not None:
        console.print()
        console.print(_left(result.without))


def _painted(text: str, paper: str) -> Painted:
    from rich.text import Text as Painted

    return Painted(visible(text), style=f"black on {paper}")


def _text(result: TokensResult, palette: dict[str, tuple[str, str]]) -> Painted:
    """The prompt and the response, each character in the colour of its token's piece."""
    from rich.text import Text as Painted

    out, at = Painted(), 0
    whole = result.rendered + (result.response or "")
    for number, token in enumerate(result.tokens):
        if token.end > at:
            out.append_text(Painted(visible(whole[at : max(at, token.start)])))
            own = whole[max(at, token.start) : token.end]
            out.append_text(_painted(own, palette.get(token.piece, _FRAME)[number % 2]))
            at = token.end
    out.append_text(Painted(visible(whole[at:])))
    return out


def _table(tokens: Iterable[PromptToken], palette: dict[str, tuple[str, str]], *, coloured: bool) -> Table:
    """A row for each stretch of tokens of one piece."""
    from rich.table import Table
    from rich.text import Text as Painted

    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    table.add_column("piece", no_wrap=True, max_width=16)
    table.add_column("tokens", ratio=3, overflow="fold")
    table.add_column("ids", ratio=2, overflow="fold")
    numbered = enumerate(_shown(tokens))
    for piece, run in groupby(numbered, key=lambda pair: pair[1][0].piece):
        cell, ids = Painted(), []
        for number, (token, text) in run:
            if cell and not coloured:
                cell.append("|")
            paper = palette.get(piece, _FRAME)[number % 2]
            cell.append_text(_painted(text, paper) if coloured else Painted(visible(text)))
            ids.append(str(token.id))
        table.add_row(Painted(excerpt(piece, 40)), cell, Painted(" ".join(ids)))
    return table


def _shown(tokens: Iterable[PromptToken]) -> Iterator[tuple[PromptToken, str]]:
    """Tokens and what is shown of them: a character of several tokens once, white space by a mark."""
    last = None
    for token in tokens:
        is_again = last is not None and token.text == last.text and (token.start, token.end) == (last.start, last.end)
        yield token, "·" if is_again or not token.text else token.text.translate(_MARKS)
        last = token


def _left(left: LeftTokens) -> Painted:
    from rich.text import Text as Painted

    names = ", ".join(excerpt(name, 40) for name in left.pieces)
    how = "rendered and tokenised again" if left.retokenised is None else "in brackets: tokenised on its own"
    head = f"without {names} ({left.removal}): {len(left.prompt_ids):,} tokens; {how}"
    marked = set(left.retokenised or ())
    shown_ids: list[str] = []
    for number, token in enumerate(left.prompt_ids):
        if gap := left.positions[number] - (left.positions[number - 1] if number else -1) - 1:
            shown_ids.append(f"({gap:,} empty)")
        shown_ids.append(f"[{token}]" if number in marked else str(token))
    return Painted.assemble((head, "bold"), "\n", " ".join(shown_ids))
