"""What a server will be asked, before it is: requests, and tokens sent with them, for which some servers take money."""

from __future__ import annotations

from collections.abc import Sequence

from leakmeter.backends.served.answer import Question, answering, sequences
from leakmeter.backends.served.capabilities import kind_of
from leakmeter.backends.served.dialect import Capabilities, Scored
from leakmeter.core.forecast import Sent
from leakmeter.core.reductions import Labels
from leakmeter.core.request import Request, bare_first


def to_be_sent(requests: Sequence[Request], has: Capabilities) -> Sent:
    """What requests of a chunk have a server asked: what several of them ask for is sent once."""
    questions: dict[Question, None] = {}
    is_most = False
    for request in requests:
        questions.update(dict.fromkeys(next(answering(request, has), ())))
        if bare_first(request.reduction):
            rows = request.reduction.rows(len(request.response))
            questions.update((Question(scored, "rows", rows), None) for scored in sequences(request)[1:])
        if isinstance(request.reduction, Labels) and has.targets and kind_of(request, has) == "top":
            # Labels that turn out not to be among the likeliest tokens are asked for one by one.
            is_most = True
            n = len(request.response)
            questions.update(
                (Question(Scored(scored.prompt, (*scored.response, label)), "targets", range(n, n + 1)), None)
                for scored in sequences(request)
                for label in request.reduction.token_ids
            )
    return Sent(len(questions), sum(n_tokens(question.scored) for question in questions), is_most)


def n_tokens(scored: Scored) -> int:
    """Tokens that are sent to have a response scored."""
    return len(scored.prompt) + len(scored.response)
