"""What a request is answered from on a server, and a refusal in one line, before anything is sent, where nothing does.

Each reduction says what it needs (`needs`), each dialect what it has (`dialect.Abilities`):

    needs      answered from
    targets    log-probabilities of the given tokens; else whole rows
    labels     whole rows; else the likeliest tokens, and those labels scored as given that are not among them
    top        the likeliest tokens; else whole rows
    rows       whole rows

Whole rows under a bound (ε) have to be computed without what the server has read before. No server has gaps between
positions, reads vectors in place of tokens, or gives gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from leakmeter.backends import served as folder
from leakmeter.backends.served import DIALECTS
from leakmeter.backends.served.dialect import Abilities
from leakmeter.core.folder import module_in
from leakmeter.core.prompt import VIRTUAL
from leakmeter.core.reductions import MixtureLogProbs, NextTokenSample, PartialRows, TargetLogProbs, Top
from leakmeter.core.request import Request
from leakmeter.core.tree import Chunk
from leakmeter.errors import CapabilityError

AnswerKind = Literal["targets", "top", "rows"]
"""Log-probabilities of the response's tokens, a row's likeliest tokens, or whole rows."""

_HERE: Final = "a model loaded here (--model hf:… or a directory)"


def kind_of(request: Request, has: Abilities) -> AnswerKind:
    kind = _kind(request, has)
    if kind is None:
        able = [name for name, other in servers().items() if _kind(request, other) is not None]
        raise CapabilityError(
            f"{request.reduction.words} cannot be had from this server, which offers {', '.join(_abilities(has))}; "
            f"{', '.join([*able, _HERE])} can{_plainer(request, has)}"
        )
    return kind


def _plainer(request: Request, has: Abilities) -> str:
    """What a server can measure in place of a response under another λ or T, as the end of a sentence."""
    reduction = request.reduction.reduction if isinstance(request.reduction, PartialRows) else request.reduction
    if not isinstance(reduction, TargetLogProbs | MixtureLogProbs | NextTokenSample):
        return ""
    is_plain = reduction.context_weight == reduction.temperature == 1.0
    is_able = has.targets and (has.samples or not isinstance(reduction, NextTokenSample))
    return "; with λ = 1 and T = 1 this server can" if is_able and not is_plain else ""


def servers() -> dict[str, Abilities]:
    of_dialects = (module_in(folder, name).SERVERS for name in DIALECTS)
    return {name: has for of_dialect in of_dialects for name, has in of_dialect.items()}


def check(chunk: Chunk, has: Abilities) -> None:
    for branch in chunk.branches:
        if len(branch.ids) and int(branch.positions[-1]) != len(branch.positions) - 1:
            raise CapabilityError(
                "a served model allows no gaps between positions, so nothing can be masked in place; give --removal "
                "drop, or " + _HERE
            )
        if branch.hidden:
            raise CapabilityError(f"a served model cannot hide a piece of a prompt from later tokens; give {_HERE}")
        if len(branch.ids) and int(branch.ids.max()) >= VIRTUAL:
            raise CapabilityError(f"a served model reads tokens, not the vectors of a soft prompt; give {_HERE}")
    for request in chunk.requests:
        kind_of(request, has)


def draws_responses(has: Abilities) -> bool:
    """Whether responses are drawn by the server: where its rows do not let them be drawn here."""
    return has.samples and not has.whole_rows


def _kind(request: Request, has: Abilities) -> AnswerKind | None:
    reduction = request.reduction
    need = reduction.needs
    if need == "targets" and has.targets:
        return "targets"
    k = reduction.k if isinstance(reduction, Top) else 1
    if need == "top" and has.token_ids and (has.most_top is None or has.most_top >= k):
        return "top"
    if has.whole_rows and (has.fresh_rows or not reduction.bare_first):
        return "rows"
    # Chat tells the likeliest first tokens of its answer, and nothing behind a response.
    if need == "labels" and has.most_top != 0 and (has.token_ids or not request.response):
        return "top"
    return "targets" if need == "labels" and has.targets else None


def _abilities(has: Abilities) -> Iterator[str]:
    if has.targets:
        yield "log-probabilities of given tokens"
    if has.most_top != 0:
        yield "the likeliest tokens of a row" if has.most_top is None else f"the {has.most_top} likeliest tokens"
    if has.whole_rows:
        yield "whole rows" if has.fresh_rows else "whole rows that may come from its prefix cache"
    if has.samples:
        yield "responses that it draws"
