"""A request of a measure to what a server is asked about each of its prompts, and the answers to scores.

A request is answered by a generator: it yields questions, is sent what the server said to each, and returns scores; it
may ask again, knowing the first answers. The rows that a question names are those of `core.request`. What a server will
be asked is counted before it is: some servers take money for it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leakmeter.backends.served.capabilities import kind_of
from leakmeter.backends.served.dialect import Abilities, SequenceToScore, TopRow
from leakmeter.core.cost import Sent
from leakmeter.core.reductions import Labels, Top
from leakmeter.core.request import Request, Scores
from leakmeter.errors import CapabilityError
from leakmeter.stats.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Question:
    scored: SequenceToScore
    kind: Literal["targets", "top", "rows"]
    """Log-probabilities of the response's tokens, a row's likeliest tokens, or whole rows."""
    rows: range
    """Of `targets`, each row's own token is asked for."""
    k: int = 0
    """Of `top`: how many tokens of a row."""
    is_alone: bool = False
    """Whether it is asked before all others, with no other beside it."""


Answering = Generator[list[Question], list[Any], Scores]
"""What answers a request. To a question it is sent (row,) for `targets`, a list of `TopRow` for `top`, and (row,
vocab) for `rows`."""


def answering(request: Request, has: Abilities) -> Answering:
    kind = kind_of(request, has)
    if kind == "rows":
        return _from_rows(request)
    if isinstance(request.reduction, Labels):
        return _labels(request, request.reduction, has)
    if isinstance(request.reduction, Top):
        return _top(request, request.reduction)
    return _targets(request)


def sequences(request: Request) -> list[SequenceToScore]:
    """Each of a request's prompts with as much of the response as its rows need."""
    fed = request.response[: request.rows.stop]
    return [SequenceToScore(tuple(prompt.ids.tolist()), fed) for prompt in request.prompts]


def _targets(request: Request) -> Answering:
    values = yield [Question(scored, "targets", request.rows) for scored in sequences(request)]
    return Scores(np.stack(values))


def _from_rows(request: Request) -> Answering:
    """Reduce the server's rows as a model's own are reduced: log-probabilities are logits."""
    rest = sequences(request)
    values: list[FloatArray] = []
    if request.reduction.bare_first:
        # What is certified is held against these rows, which nothing of the context may have touched.
        values = yield [Question(rest.pop(0), "rows", request.rows, is_alone=True)]
    values += yield [Question(scored, "rows", request.rows) for scored in rest]
    reduced = request.reduction.reduce(np.stack(values), request.targets)
    return Scores(np.asarray(reduced, dtype=np.float64))


def _top(request: Request, reduction: Top) -> Answering:
    top_rows: list[list[TopRow]] = yield [Question(s, "top", request.rows, reduction.k) for s in sequences(request)]
    pairs = [[list(row.items())[: reduction.k] for row in rows] for rows in top_rows]
    return Scores(np.asarray(pairs, dtype=np.float64))


def _labels(request: Request, reduction: Labels, has: Abilities) -> Answering:
    """Labels out of the likeliest tokens; those that do not stand there are scored as if they were given."""
    prompts, labels = sequences(request), reduction.token_ids
    by_token: list[TopRow] = [{} for _ in prompts]
    if has.most_top != 0:
        top_rows: list[list[TopRow]] = yield [Question(s, "top", request.rows, has.most_top or 1) for s in prompts]
        by_token = [dict(row) for (row,) in top_rows]
    missing = [(i, label) for i, row in enumerate(by_token) for label in dict.fromkeys(labels) if label not in row]
    if missing and not has.targets:
        raise CapabilityError(
            f"a label is not among the {has.most_top} likeliest tokens, the most that the server returns; give labels "
            "that the model is more likely to answer with"
        )
    if missing:
        values: Sequence[FloatArray] = yield [_of_label(prompts[i], label) for i, label in missing]
        for (i, label), value in zip(missing, values, strict=True):
            by_token[i][label] = float(value[0])
    return Scores(np.asarray([[[row[label] for label in labels]] for row in by_token], dtype=np.float64))


def _of_label(scored: SequenceToScore, label: int) -> Question:
    n = len(scored.response)
    return Question(SequenceToScore(scored.prompt, (*scored.response, label)), "targets", range(n, n + 1))


def to_be_sent(requests: Sequence[Request], has: Abilities) -> Sent:
    """What requests of a chunk have a server asked: what several of them ask for is sent once."""
    questions: dict[Question, None] = {}
    is_most = False
    for request in requests:
        questions.update(dict.fromkeys(next(answering(request, has), ())))
        if request.reduction.bare_first:
            questions.update((Question(scored, "rows", request.rows), None) for scored in sequences(request)[1:])
        if isinstance(request.reduction, Labels) and has.targets and kind_of(request, has) == "top":
            # Labels that turn out not to be among the likeliest tokens are asked for one by one.
            is_most = True
            labels = request.reduction.token_ids
            questions.update((_of_label(scored, label), None) for scored in sequences(request) for label in labels)
    return Sent(len(questions), sum(n_tokens(question.scored) for question in questions), is_most)


def n_tokens(scored: SequenceToScore) -> int:
    return len(scored.prompt) + len(scored.response)
