"""A request of a measure to what a server is asked about each of its prompts, and the answers to scores.

A request is answered by a generator: it yields questions, is sent what the server said to each, and returns scores; it
may ask again, knowing the first answers. The rows that a question names are those of `core.request`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leakmeter.backends.served.dialect import Capabilities, Scored, TopRow
from leakmeter.core.reductions import Labels, MixtureLogProbs, Stretch, TargetLogProbs, Top
from leakmeter.core.request import FloatArray, Request, Scores
from leakmeter.errors import CapabilityError

Kind = Literal["targets", "top", "rows"]
"""Log-probabilities of the response's tokens, a row's likeliest tokens, or whole rows."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a server is asked about one sequence."""

    scored: Scored
    kind: Kind
    rows: range
    """Of `targets`, each row's own token is asked for."""
    k: int = 0
    """Of `top`: how many tokens of a row."""


Answering = Generator[list[Question], list[Any], Scores]
"""What answers a request. To a question it is sent (row,) for `targets`, a list of `TopRow` for `top`, and (row,
vocab) for `rows`."""


def kind_of(request: Request, has: Capabilities) -> Kind:
    """What a request is answered from: the least that does.

    Raises:
        CapabilityError: the server gives nothing that answers it.
    """
    reduction = request.reduction
    if isinstance(reduction, Stretch):
        reduction = reduction.reduction
    raw = getattr(reduction, "temperature", 1.0) == 1.0
    if isinstance(reduction, TargetLogProbs) and raw and has.targets:
        return "targets"
    if isinstance(reduction, Top) and (has.most_top is None or has.most_top >= reduction.k):
        return "top"
    if has.whole_rows:
        return "rows"
    if isinstance(reduction, Labels) and raw and has.most_top != 0:
        return "top"
    if isinstance(reduction, Labels) and raw and has.targets:
        return "targets"
    raise CapabilityError(
        f"the server gives nothing that answers {_words(reduction)}; load the model here (--model hf:… or a directory)"
    )


def answering(request: Request, has: Capabilities) -> Answering:
    """What answers a request on a server.

    Raises:
        CapabilityError: the server gives nothing that answers it.
        ScoreError: what it gives does not hold what was asked.
    """
    kind = kind_of(request, has)
    if kind == "rows":
        return _from_rows(request)
    if isinstance(request.reduction, Labels):
        return _labels(request, request.reduction, has)
    if isinstance(request.reduction, Top):
        return _top(request, request.reduction)
    return _targets(request)


def sequences(request: Request) -> list[Scored]:
    """Each of a request's prompts with as much of the response as its rows need."""
    rows = request.reduction.rows(len(request.response))
    fed = request.response[: rows.stop]
    return [Scored(tuple(prompt.ids.tolist()), fed) for prompt in request.prompts]


def targets_of(request: Request) -> Any:
    """The response token of each row; any where the row is behind the response, (row,)."""
    rows = request.reduction.rows(len(request.response))
    return np.asarray([*request.response, 0], dtype=np.int64)[rows.start : rows.stop]


def _targets(request: Request) -> Answering:
    rows = request.reduction.rows(len(request.response))
    values = yield [Question(scored, "targets", rows) for scored in sequences(request)]
    return Scores(np.stack(values))


def _from_rows(request: Request) -> Answering:
    """Reduce the server's rows as a model's own are reduced: log-probabilities are logits."""
    rows = request.reduction.rows(len(request.response))
    values = yield [Question(scored, "rows", rows) for scored in sequences(request)]
    reduced = request.reduction.reduce(np.stack(values), targets_of(request))
    return Scores(np.asarray(reduced, dtype=np.float64))


def _top(request: Request, reduction: Top) -> Answering:
    rows = reduction.rows(len(request.response))
    found: list[list[TopRow]] = yield [Question(s, "top", rows, reduction.k) for s in sequences(request)]
    return Scores(np.stack([[_pairs(row, reduction.k) for row in one] for one in found]))


def _pairs(row: TopRow, k: int) -> FloatArray:
    return np.asarray([row.ids[:k], row.log_probs[:k]], dtype=np.float64).T


def _labels(request: Request, reduction: Labels, has: Capabilities) -> Answering:
    """Labels out of the likeliest tokens; those that do not stand there are scored as if they were given."""
    prompts, labels = sequences(request), reduction.token_ids
    known: list[dict[int, float]] = [{} for _ in prompts]
    if has.most_top != 0:
        rows = reduction.rows(len(request.response))
        found: list[list[TopRow]] = yield [Question(s, "top", rows, has.most_top or 1) for s in prompts]
        known = [dict(zip(row.ids, row.log_probs, strict=True)) for (row,) in found]
    missing = [(i, label) for i, row in enumerate(known) for label in dict.fromkeys(labels) if label not in row]
    if missing and not has.targets:
        raise CapabilityError(
            f"a label is not among the {has.most_top} likeliest tokens, which are all that the server gives; give "
            "labels that the model is more likely to answer with"
        )
    if missing:
        n = len(request.response)
        asked = [(prompts[i], label) for i, label in missing]
        values: Sequence[FloatArray] = yield [
            Question(Scored(one.prompt, (*one.response, label)), "targets", range(n, n + 1)) for one, label in asked
        ]
        for (i, label), value in zip(missing, values, strict=True):
            known[i][label] = float(value[0])
    return Scores(np.asarray([[[row[label] for label in labels]] for row in known], dtype=np.float64))


def _words(reduction: Any) -> str:
    temperature = getattr(reduction, "temperature", 1.0)
    if isinstance(reduction, MixtureLogProbs):
        return "a mixture of two prompts' distributions"
    if temperature != 1.0:
        return f"T = {temperature:g}"
    return "questions about the whole vocabulary"
