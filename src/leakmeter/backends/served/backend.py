"""A chunk of requests to questions for a server, siblings of one prefix together, and the answers to scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, Final

from leakmeter.backends.served import capabilities
from leakmeter.backends.served.answer import Answering, Question, answering, n_tokens, to_be_sent
from leakmeter.backends.served.capabilities import kind_of
from leakmeter.backends.served.dialect import Dialect, Served
from leakmeter.backends.served.fingerprint import SAME_NATS, Fingerprint, fingerprint, probes, settled
from leakmeter.backends.served.noise import Noise, measured_noise, noise_requests, sequences_of
from leakmeter.core.backend import Backend, Capabilities, Tokenizer
from leakmeter.core.cost import Sent
from leakmeter.core.drive import in_parts, joined
from leakmeter.core.item import Item
from leakmeter.core.request import DrawRequest, Request, Responses, Scores
from leakmeter.core.tree import Chunk
from leakmeter.errors import ModelError, ScoreError
from leakmeter.overriding import override

if TYPE_CHECKING:
    # What a command line imports in any case is not to wait for a library of HTTP.
    from leakmeter.backends.served.connection import Connection

_WORTH_WAITING: Final = 16
"""Tokens that have to be shared for a server to keep them: it keeps blocks of tokens, not single ones."""
_MUCH_NATS: Final = 0.02
"""Noise of a token that is worth a line: bfloat16's."""
_ROW_BYTES: Final = 1 << 29
_ANY_VOCAB: Final = 2**18


class ServedBackend(Backend):
    """Scores requests with a model behind a server, with a tokenizer of this machine."""

    dtype = "served"

    def __init__(
        self,
        dialect: Dialect,
        connection: Connection,
        served: Served,
        tokenizer: Tokenizer,
        identity: Mapping[str, str | None],
    ) -> None:
        self.dialect, self.connection, self.served = dialect, connection, served
        self.tokenizer = tokenizer
        self.name = f"{dialect.name}:{served.model}"
        self._identity = dict(identity)
        self._fingerprint: Fingerprint | None = None
        self._n_troubles = 0
        self.window = served.window
        self.abilities = dialect.abilities()

    @property
    @override
    def capabilities(self) -> Capabilities:
        # A sequence that is asked for twice is sent once; what sequences share is sent with each.
        return Capabilities(
            masks=False,
            draws_responses=capabilities.draws_responses(self.abilities),
            is_remote=True,
            shares="sequences",
        )

    @property
    @override
    def refusal(self) -> Callable[[Chunk], None]:
        return partial(capabilities.check, has=self.abilities)

    @property
    @override
    def identity(self) -> dict[str, str | None]:
        """What is known of the model, in place of a hash of its weights, without host and port. The first time, a few
        requests take the model's fingerprint."""
        if self._fingerprint is None and self.abilities.targets:
            new_fingerprint = fingerprint(self.dialect, self.tokenizer)
            self._fingerprint = settled(new_fingerprint, {**_identity(self.dialect, self.served), **self._identity})
        return {
            **_identity(self.dialect, self.served),
            "fingerprint": None if self._fingerprint is None else self._fingerprint.sha256,
            **self._identity,
        }

    @override
    def confirm(self) -> None:
        first_identity, changed = self.identity, []
        n_troubles = sum(self.connection.faults.values())
        # A server that was started anew had to be waited for.
        if n_troubles != self._n_troubles:
            identity = _identity(self.dialect, self.dialect.describe())
            changed = [name for name, value in identity.items() if first_identity[name] != value]
            self._n_troubles = n_troubles
        if self._fingerprint is not None and not changed:
            new_fingerprint = fingerprint(self.dialect, self.tokenizer)
            changed = [] if new_fingerprint.agrees(self._fingerprint, SAME_NATS) else ["log-probabilities"]
        if changed:
            names = ", ".join(name.replace("_", " ") for name in changed)
            raise ModelError(
                f"the server {self.connection.host} does not serve the model that the run began with (another "
                f"{names}), so the current case is not kept; serve the first model again and repeat the command, or "
                "start a new run"
            )

    @override
    def to_be_sent(self, requests: Sequence[Request]) -> Sent:
        return to_be_sent(requests, self.abilities)

    @override
    def to_be_sent_beside(self, items: Sequence[Item], n_parts: int) -> Sent:
        """What a run asks the server beside its cases: the model's noise, and whether it is still the same model."""
        scored = noise_requests(self.dialect, sequences_of(items[0]))
        if self.abilities.targets:
            scored += [*probes(self.tokenizer)] * (n_parts + 1)
        return Sent(len(scored), sum(map(n_tokens, scored)))

    @override
    def measured_noise(self, items: Sequence[Item]) -> Noise:
        noise = measured_noise(self.dialect, self.connection, sequences_of(items[0]))
        others = max(2.0 * noise.repeat_nats, 2.0 * noise.order_nats, noise.split_nats or 0.0)
        if noise.company_nats >= max(_MUCH_NATS, others):
            self.connection.notify(
                f"log-probabilities of the server {self.connection.host} vary by up to {noise.company_nats:.2g} nats "
                "with the other requests in the batch; --concurrency 1 lowers the noise floor"
            )
        return noise

    @property
    @override
    def concurrency(self) -> int:
        return self.connection.concurrency

    @override
    def score(self, chunk: Chunk) -> list[Scores]:
        self.check(chunk)
        kinds = [kind_of(request, self.abilities) for request in chunk.requests]
        answers: dict[int, Scores] = {}
        # Whole rows are many bytes, and are asked for in parts.
        for is_whole in (False, True):
            numbers = [i for i, kind in enumerate(kinds) if (kind == "rows") == is_whole]
            requests = [chunk.requests[i] for i in numbers]
            most = _ROW_BYTES // (8 * (self.served.n_vocab or _ANY_VOCAB)) if is_whole else None
            numbered_scores: list[tuple[int, Scores]] = []
            for part in in_parts(requests, most) if requests else []:
                places, some = zip(*part, strict=True)
                numbered_scores += zip(places, self._answered(some), strict=True)
            answers.update(zip(numbers, joined(numbered_scores, requests), strict=True))
        return [answers[i] for i in range(len(chunk.requests))]

    def _answered(self, requests: Sequence[Request]) -> list[Scores]:
        """Answers of requests that are asked for side by side, round by round."""
        live = {i: answering(request, self.abilities) for i, request in enumerate(requests)}
        scores: dict[int, Scores] = {}
        open_questions = {i: _next(generator, None, i, scores) for i, generator in live.items()}
        while len(scores) < len(requests):
            todo = list(dict.fromkeys(chain.from_iterable(open_questions.values())))
            replies: dict[Question, Any] = {question: self.ask([question])[0] for question in todo if question.is_alone}
            rest = [question for question in todo if not question.is_alone]
            replies.update(zip(rest, self.ask(rest) if rest else [], strict=True))
            open_questions = {
                i: _next(live[i], [replies[question] for question in some], i, scores)
                for i, some in open_questions.items()
                if i not in scores
            }
        return [scores[i] for i in range(len(requests))]

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Answers to distinct questions, in their order. Of questions whose sequences begin alike the first is asked
        alone, so that the server has read what they share before the others come."""
        order, after = _in_prefix_order(questions, waits=self.dialect.reads_prefix_cache)
        answers = self.connection.in_order(self._answer_to, [questions[index] for index in order], after)
        self.n_tokens_run += sum(n_tokens(question.scored) for question in questions)
        by_index = dict(zip(order, answers, strict=True))
        return [by_index[index] for index in range(len(questions))]

    @override
    def draw(self, requests: Sequence[DrawRequest]) -> list[Responses]:
        pairs = [(request, seed) for request in requests for seed in request.seeds]
        drawn = iter(self.connection.in_order(lambda pair: self._draw(*pair), pairs))
        self.n_tokens_run += sum(len(request.prompt.ids) for request, _ in pairs)
        return [Responses(tuple(next(drawn) for _ in request.seeds)) for request in requests]

    def _draw(self, request: DrawRequest, seed: int) -> tuple[int, ...]:
        """One response: what a server writes behind a stop token is none of it."""
        n, stops = request.max_new_tokens, sorted(request.stop_ids)
        prompt, temperature = request.prompt.ids.tolist(), request.temperature
        drawn = self.dialect.generate(prompt, n_tokens=n, temperature=temperature, seed=seed, stop_ids=stops)
        ids = drawn.ids[:n]
        end = next((i for i, token in enumerate(ids, 1) if token in request.stop_ids), len(ids))
        if not end:
            raise ScoreError(f"the server {self.connection.host} drew a response without tokens; give a response")
        return ids[:end]

    def _answer_to(self, question: Question) -> Any:
        scored, rows = question.scored, question.rows
        if question.kind == "targets":
            return self.dialect.target_log_probs(scored)[rows.start : rows.stop]
        if question.kind == "rows":
            return self.dialect.whole_rows(scored, rows)
        return self.dialect.top_rows(scored, rows, min(question.k, self.served.n_vocab or question.k))


def _identity(dialect: Dialect, served: Served) -> dict[str, str | None]:
    return {
        "served_model": served.model,
        "served_revision": served.revision,
        "dialect": dialect.name,
        "server_version": served.server_version,
    }


def _next(answering: Answering, replies: list[Any] | None, number: int, scores: dict[int, Scores]) -> list[Question]:
    """The next questions of a generator; none once it has returned its scores, which are put into `scores`."""
    try:
        return next(answering) if replies is None else answering.send(replies)
    except StopIteration as end:
        scores[number] = end.value
        return []


def _in_prefix_order(questions: Sequence[Question], *, waits: bool) -> tuple[list[int], list[int]]:
    """Indices of questions in the order of their token ids, so that those which begin alike stand together; for each
    the place in that order of what has to be answered first, −1 for none.

    Of sorted sequences, none before shares more of a sequence's beginning than the one right before it. What it shares
    with that one, it waits for: for the first sequence that has it.
    """
    keys = [(*question.scored.prompt, *question.scored.response) for question in questions]
    order = sorted(range(len(keys)), key=lambda i: keys[i])
    after: list[int] = []
    open_groups: list[tuple[int, int]] = []  # (tokens shared, place of the first that has them), nested
    for place, index in enumerate(order):
        pairs = zip(keys[order[place - 1]], keys[index], strict=False) if place else ()
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        first = place - 1
        while open_groups and open_groups[-1][0] >= shared:
            first = open_groups.pop()[1]
        open_groups.append((shared, first))
        after.append(first if waits and shared >= _WORTH_WAITING else -1)
    return order, after
