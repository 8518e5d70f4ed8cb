"""The scenarios: each a pile of nearly identical prompts, from its own seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from benchmarks import answers, fisher, peers, published, texts
from benchmarks.base import Peer, Scenario, scored
from benchmarks.estimates import Estimates
from benchmarks.random_ids import QuerySet, ids, pieces
from leakmeter.backends.hf import HfBackend
from leakmeter.core import reductions
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import NextToken, NextTokenSample, TargetLogProbs
from leakmeter.core.request import Request, Trial
from leakmeter.core.tree import chunk_of


def build(name: str, backend: HfBackend, data: Path | None = None, *, tiny: bool = False) -> Scenario | Estimates:
    """A scenario by name.

    Args:
        name: one of `NAMES`.
        backend: what it runs on.
        data: the file of those that run on text.
        tiny: as small as it can be and still do all that it does, to see that it runs: times of it say nothing.
    """
    if name == _ESTIMATED:
        if tiny:
            return fisher.scenario(backend, _TINY_QUERIES, ("sketch 4", "deflated 8 + 8", "top-k 16"))
        return fisher.scenario(backend, QuerySet.drawn())
    if name in _ON_TEXT:
        return _ON_TEXT[name](backend, data, tiny)
    return (_TINY if tiny else _SCENARIOS)[name](backend)


def _ngram(n_context: int, n: int, n_query: int, n_response: int, *, short: bool) -> Callable[..., Scenario]:
    def make(backend: HfBackend) -> Scenario:
        rng = np.random.default_rng(1)
        context = pieces(rng, n_context // n, n)
        whole = Prompt((*context, Piece("q", "query", ids(rng, n_query))))
        prompts = [whole, *(whole.without(piece.name) for piece in context)]
        response = ids(rng, n_response)
        requests = [Request(tuple(prompts), response, TargetLogProbs())]
        n_tokens = sum(len(p.ids) + n_response for p in prompts)

        def full(_: np.ndarray) -> Peer:
            part = prompts if short else prompts[::3]
            share = sum(len(p.ids) + n_response for p in part) / n_tokens
            return Peer(
                lambda: peers.full_pass(backend.model, part, [response] * len(part)),
                share,
                of=lambda ours: ours if short else ours[::3],
                n_tokens=n_tokens,
            )

        def naive(_: np.ndarray) -> Peer:
            part = prompts[:2]
            count = sum(len(p.ids) + t for p in prompts for t in range(n_response))
            share = sum(len(p.ids) + t for p in part for t in range(n_response)) / count
            return Peer(
                lambda: peers.naive(backend.model, part, [response] * 2),
                share,
                of=lambda ours: ours[:2],
                n_tokens=count,
            )

        def captum(_: np.ndarray) -> Peer:
            run = published.captum(backend, [piece.ids for piece in context], whole.pieces[-1].ids, response)
            return Peer(run, of=lambda ours: ours[0] - ours[1:], n_tokens=n_tokens)

        others: dict[str, Callable[[np.ndarray], Peer]] = {
            "full-pass": full,
            **({"naive": naive, "captum": captum} if short else {}),
        }
        return Scenario(lambda: scored(backend, requests), others, chunk_of(requests))

    return make


def _susceptibility(backend: HfBackend, asked: QuerySet | None = None) -> Scenario:
    asked = asked or QuerySet.drawn()
    prompts = [prompt for query in asked.queries for prompt in asked.behind(query)]
    token = 1000
    part = prompts[: len(prompts) // 4]
    requests = [Request(tuple(prompts), (token,), TargetLogProbs())]
    return Scenario(
        lambda: scored(backend, requests),
        {
            "padded-batches": lambda _: Peer(
                lambda: peers.padded_batches(backend.model, part, token),
                len(part) / len(prompts),
                of=lambda ours: ours[: len(part)],
                n_tokens=36 * len(prompts),
            )
        },
        chunk_of(requests),
    )


def _icl(redrawn: bool, n_queries: int = 32) -> Callable[..., Scenario]:
    def make(backend: HfBackend) -> Scenario:
        rng = np.random.default_rng(3)
        fixed = pieces(rng, 8, 60)
        requests = []
        for _ in range(n_queries):
            exemplars = pieces(rng, 8, 60) if redrawn else fixed
            whole = Prompt((*exemplars, Piece("q", "query", ids(rng, 60))))
            requests.append(Request((whole, *(whole.without(e.name) for e in exemplars)), (1000,), TargetLogProbs()))
        prompts = [prompt for request in requests for prompt in request.prompts]
        part = prompts[: len(prompts) // 16]
        return Scenario(
            lambda: scored(backend, requests),
            {
                "full-pass": lambda _: Peer(
                    lambda: peers.full_pass(backend.model, part, [(1000,)] * len(part)),
                    len(part) / len(prompts),
                    of=lambda ours: ours[: len(part)],
                    n_tokens=sum(len(p.ids) + 1 for p in prompts),
                )
            },
            chunk_of(requests),
        )

    return make


def _decode(backend: HfBackend, n: int = 16, n_new: int = 50, n_context: int = 280) -> Scenario:
    rng = np.random.default_rng(4)
    uniforms = rng.random((n, n_new))
    wholes = [Prompt((Piece("c", "context", ids(rng, n_context)), Piece("q", "query", ids(rng, 20)))) for _ in range(n)]
    bares = [whole.blank() for whole in wholes]

    def trial(i: int) -> Trial[np.ndarray]:
        drawn: list[int] = []
        receipts: list[float] = []
        for step in range(n_new):
            reduction = NextTokenSample(float(uniforms[i, step]), context_weight=1.5)
            (scores,) = yield [Request((bares[i], wholes[i]), tuple(drawn), reduction)]
            token, log_prob = scores.values[1, 0]
            drawn.append(int(token))
            receipts.append(float(log_prob))
        return np.asarray([drawn, receipts])

    def ours() -> np.ndarray:
        return np.stack(drive(backend, [trial(i) for i in range(n)])[0])

    def naive(out: np.ndarray) -> Peer:
        responses = out[:1, 0].astype(int).tolist()
        count = n * sum(len(wholes[0].ids) + len(bares[0].ids) + 2 * t for t in range(n_new))
        return Peer(
            lambda: peers.naive(backend.model, wholes[:1], responses, bare=bares[:1]),
            1 / n,
            of=lambda ours: ours[:1, 1],
            n_tokens=count,
        )

    response = ids(rng, n_new)
    # What decoding needs at least is what scoring its responses does: every token once.
    least = chunk_of([Request((b, w), response, TargetLogProbs()) for b, w in zip(bares, wholes, strict=True)])
    return Scenario(ours, {"naive": naive}, least)


@dataclass(frozen=True, slots=True)
class Vote(NextToken):
    """One token drawn from the average of clipped logits over a temperature: (1, 1, 2), as `NextTokenSample`."""

    uniform: float
    clip: float
    temperature: float
    rows_together: ClassVar[bool] = True
    continues: ClassVar[bool] = True

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, 1, vocab) to (1, 1, 2)."""
        xp = array_namespace(rows)
        centred = rows - xp.max(rows, axis=-1, keepdims=True) + self.clip
        votes = xp.mean(xp.clip(centred, min=-self.clip), axis=0, keepdims=True)
        return reductions.draw(votes, self.uniform, self.temperature)


def _private_generation(backend: HfBackend, n: int = 50, n_new: int = 40) -> Scenario:
    rng = np.random.default_rng(5)
    clip, temperature = 10.0, 1.0
    uniforms = rng.random(n_new)
    prompts = tuple(Prompt((Piece("e", "context", ids(rng, 80)),)) for _ in range(n))

    def trial() -> Trial[np.ndarray]:
        drawn: list[int] = []
        receipts: list[float] = []
        for step in range(n_new):
            (scores,) = yield [Request(prompts, tuple(drawn), Vote(float(uniforms[step]), clip, temperature))]
            token, log_prob = scores.values[0, 0]
            drawn.append(int(token))
            receipts.append(float(log_prob))
        return np.asarray([[drawn, receipts]])

    def naive(out: np.ndarray) -> Peer:
        response = out[0, 0].astype(int).tolist()[:4]
        count = n * sum(80 + t for t in range(n_new))
        share = n * sum(80 + t for t in range(4)) / count
        return Peer(
            lambda: peers.naive_votes(backend.model, prompts, response, clip, temperature)[None],
            share,
            of=lambda ours: ours[:, 1, : len(response)],
            n_tokens=count,
        )

    least = chunk_of([Request(prompts, ids(rng, n_new), TargetLogProbs())])
    return Scenario(lambda: drive(backend, [trial()])[0][0], {"naive": naive}, least)


_SCENARIOS: dict[str, Callable[[HfBackend], Scenario]] = {
    "ngram": _ngram(256, 32, 20, 16, short=True),
    "ngram-long": _ngram(1024, 32, 20, 50, short=False),
    "susceptibility": _susceptibility,
    "icl-redrawn": _icl(redrawn=True),
    "icl-fixed": _icl(redrawn=False),
    "decode": _decode,
    "private-generation": _private_generation,
}
_TINY_QUERIES = QuerySet.drawn(n_contexts=8, n_queries=2)
_TINY: dict[str, Callable[[HfBackend], Scenario]] = {
    "ngram": _ngram(24, 8, 4, 3, short=True),
    "ngram-long": _ngram(40, 8, 4, 3, short=False),
    "susceptibility": partial(_susceptibility, asked=_TINY_QUERIES),
    "icl-redrawn": _icl(redrawn=True, n_queries=2),
    "icl-fixed": _icl(redrawn=False, n_queries=2),
    "decode": partial(_decode, n=2, n_new=3, n_context=20),
    "private-generation": partial(_private_generation, n=3, n_new=5),
}
_ON_TEXT: dict[str, Callable[[HfBackend, Path | None, bool], Scenario]] = {
    "sentences": texts.sentences,
    "occlusion": texts.occlusion,
    "answers": answers.answers,
}
_ESTIMATED = "fisher"
NAMES = (*_SCENARIOS, _ESTIMATED, *_ON_TEXT)
