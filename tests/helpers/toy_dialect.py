"""A dialect without HTTP over the toy model, which gives as much as a test says; it writes down what it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import Abilities, Dialect, DrawnResponse, SequenceToScore, Served, TopRow
from leakmeter.backends.served.in_order import in_order
from leakmeter.backends.toy import Toy
from leakmeter.stats import logspace

TARGETS = Abilities(targets=True, most_top=0, whole_rows=False, samples=True, token_ids=True)
TOP = Abilities(targets=True, most_top=20, whole_rows=False, samples=True, token_ids=True)
ROWS = Abilities(targets=True, most_top=None, whole_rows=True, samples=True, token_ids=True, fresh_rows=True)


class ToyDialect(Dialect):
    """See `leakmeter.backends.served.dialect.Dialect`."""

    name = "toydialect"

    def __init__(self, has: Abilities) -> None:
        self.toy, self._has = Toy(), has
        self.asked: list[tuple[str, SequenceToScore]] = []

    def describe(self) -> Served:
        return Served("toy", None, "1", None, 257)

    def abilities(self) -> Abilities:
        return self._has

    def target_log_probs(self, scored: SequenceToScore) -> np.ndarray:
        self.asked.append(("targets", scored))
        rows = self._rows(scored, range(len(scored.response)))
        return np.asarray([row[token] for row, token in zip(rows, scored.response, strict=True)])

    def top_rows(self, scored: SequenceToScore, rows: range, k: int) -> list[TopRow]:
        assert self._has.most_top is None or k <= self._has.most_top
        self.asked.append(("top", scored))
        found = []
        for place, row in zip(rows, self._rows(scored, rows), strict=True):
            likeliest = np.argsort(-row, kind="stable")[:k].tolist()
            ids = tuple(dict.fromkeys([*likeliest, *scored.response[place : place + 1]]))
            found.append(dict(zip(ids, row[list(ids)].tolist(), strict=True)))
        return found

    def whole_rows(self, scored: SequenceToScore, rows: range) -> np.ndarray:
        assert self._has.whole_rows
        self.asked.append(("rows", scored))
        return self._rows(scored, rows)

    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> DrawnResponse:
        self.asked.append(("generate", SequenceToScore(tuple(prompt), ())))
        rng, ids = np.random.default_rng(seed), []
        while len(ids) < n_tokens and not (ids and ids[-1] in stop_ids):
            row = self._rows(SequenceToScore(tuple(prompt), tuple(ids)), range(len(ids), len(ids) + 1))[0]
            ids.append(int(rng.choice(len(row), p=np.exp(logspace.log_softmax(row, temperature)))))
        return DrawnResponse(tuple(ids), ())

    def _rows(self, scored: SequenceToScore, rows: range) -> np.ndarray:
        ids = np.asarray([*scored.prompt, *scored.response])
        ends = [len(scored.prompt) + row for row in rows]
        return logspace.log_softmax(np.stack([self.toy.logits(ids[:end], np.arange(end)) for end in ends]))


class NoConnection:
    """What a back end needs of a connection, one request after another."""

    host = "nowhere"
    n_requests = 0

    def in_order(self, work: Any, items: Sequence[Any], after: Sequence[int] | None = None) -> list[Any]:
        return in_order(work, items, after, n_threads=1)


def toy_served(has: Abilities) -> ServedBackend:
    dialect = ToyDialect(has)
    connection: Any = NoConnection()
    return ServedBackend(dialect, connection, dialect.describe(), dialect.toy.tokenizer, {})
