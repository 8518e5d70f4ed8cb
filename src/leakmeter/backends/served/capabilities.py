"""What a request is answered from on a server, and a refusal in one line, before anything is sent, where nothing does.

Each reduction says what it needs (`core.request.needs`), each dialect what it has (`dialect.Capabilities`):

    needs      answered from
    targets    log-probabilities of the given tokens; else whole rows
    labels     whole rows; else the likeliest tokens, and those labels scored as given that are not among them
    top        the likeliest tokens; else whole rows
    rows       whole rows; else, where an interval will do, 0 ≤ λ ≤ 1 and T ≤ 1, the likeliest tokens (see `mixture`)

Whole rows under a bound (ε) have to be computed without what the server has read before. No server has gaps between
positions, reads vectors in place of tokens, or gives gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from leakmeter.backends import served as folder
from leakmeter.backends.served import DIALECTS
from leakmeter.backends.served.dialect import Capabilities
from leakmeter.core.folder import module_in
from leakmeter.core.plan import Chunk
from leakmeter.core.prompt import VIRTUAL
from leakmeter.core.reductions import Labels, Stretch, Top
from leakmeter.core.request import Request, bare_first, bounded_by_top, needs
from leakmeter.errors import CapabilityError

Kind = Literal["targets", "top", "interval", "rows"]
"""Log-probabilities of the response's tokens, a row's likeliest tokens, an interval from them, or whole rows."""

_HERE: Final = "a model loaded here (--model hf:… or a directory)"


def kind_of(request: Request, has: Capabilities) -> Kind:
    kind = _kind(request, has)
    if kind is None:
        able = [name for name, other in servers().items() if _kind(request, other) is not None]
        raise CapabilityError(
            f"{_words(request)} cannot be had from this server, which offers {', '.join(_abilities(has))}; "
            f"{', '.join([*able, _HERE])} can"
        )
    return kind


def servers() -> dict[str, Capabilities]:
    of_dialects = (module_in(folder, name).SERVERS for name in DIALECTS)
    return {name: has for of_dialect in of_dialects for name, has in of_dialect.items()}


def check(chunk: Chunk, has: Capabilities) -> None:
    for run in chunk.runs:
        if len(run.ids) and int(run.positions[-1]) != len(run.positions) - 1:
            raise CapabilityError(
                "a served model allows no gaps between positions, so nothing can be masked in place; give --removal "
                "drop, or " + _HERE
            )
        if run.hidden:
            raise CapabilityError(f"a served model cannot hide a piece of a prompt from later tokens; give {_HERE}")
        if len(run.ids) and int(run.ids.max()) >= VIRTUAL:
            raise CapabilityError(f"a served model reads tokens, not the vectors of a soft prompt; give {_HERE}")
    for request in chunk.requests:
        kind_of(request, has)


def draws_responses(has: Capabilities) -> bool:
    """Whether responses are drawn by the server: where its rows do not let them be drawn here."""
    return has.samples and not has.whole_rows


def _kind(request: Request, has: Capabilities) -> Kind | None:
    reduction = request.reduction
    need = needs(reduction)
    if need == "targets" and has.targets:
        return "targets"
    k = reduction.k if isinstance(reduction, Top) else 1
    if need == "top" and has.token_ids and (has.most_top is None or has.most_top >= k):
        return "top"
    if has.whole_rows and (has.fresh_rows or not bare_first(reduction)):
        return "rows"
    # Chat tells the likeliest first tokens of its answer, and nothing behind a response.
    if need == "labels" and has.most_top != 0 and (has.token_ids or not request.response):
        return "top"
    if need == "labels" and has.targets:
        return "targets"
    within = request.interval_noise_nats is not None and bounded_by_top(reduction)
    return "interval" if within and has.token_ids and has.targets and has.most_top != 0 else None


def _abilities(has: Capabilities) -> Iterator[str]:
    if has.targets:
        yield "log-probabilities of given tokens"
    if has.most_top != 0:
        yield "the likeliest tokens of a row" if has.most_top is None else f"the {has.most_top} likeliest tokens"
    if has.whole_rows:
        yield "whole rows" if has.fresh_rows else "whole rows that may come from its prefix cache"
    if has.samples:
        yield "responses that it draws"


def _words(request: Request) -> str:
    reduction = request.reduction
    if isinstance(reduction, Stretch):
        reduction = reduction.reduction
    temperature = getattr(reduction, "temperature", 1.0)
    if bare_first(reduction):
        return "a response bounded by epsilon"
    weight = getattr(reduction, "context_weight", 1.0)
    if weight != 1.0:
        return f"λ = {weight:g} at T = {temperature:g}"
    if isinstance(reduction, Top):
        return f"the {reduction.k} likeliest tokens of a row"
    if temperature != 1.0:
        return f"T = {temperature:g}"
    if isinstance(reduction, Labels):
        return "log-probabilities of labels"
    if needs(reduction) == "targets":
        return "the log-probability of a given response"
    return "a distribution over the whole vocabulary"
