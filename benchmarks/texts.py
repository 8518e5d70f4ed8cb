"""Scenarios on text, for peers that take text: what the model is fed is compared id by id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import abstracts, peers, published
from benchmarks.base import Peer, Scenario, scored
from leakmeter.backends.hf import HfBackend
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of

_N_MASKS = 64
_N_MASKS_TINY = 3


def sentences(backend: HfBackend, data: Path | None, tiny: bool = False) -> Scenario:
    """An abstract's sentences kept or dropped by 64 random masks; the answer's log-probability under each.

    Masks, prompt and chat template are those of ContextCite. Ours is timed from text to log-probabilities, as it is.
    With `tiny` there are three masks, over the built-in text.
    """
    abstract = abstracts.OWN if tiny else abstracts.read(data)
    n_masks = _N_MASKS_TINY if tiny else _N_MASKS
    # Its mask number s: every source is kept with probability ½, by numpy's old generator with seed s.
    masks = np.stack([np.random.RandomState(s).random_sample(len(abstract.sentences)) >= 0.5 for s in range(n_masks)])

    def text(mask: np.ndarray) -> str:
        context = " ".join(s for s, kept in zip(abstract.sentences, mask, strict=True) if kept)
        message = {"role": "user", "content": f"Context: {context}\n\nQuery: {abstract.question}"}
        return backend.tokenizer.render_chat([message], answer=True)

    def request() -> Request:
        prompts = tuple(_prompt(backend.tokenizer.encode_joined([(text(mask), True)]).ids) for mask in masks)
        return Request(prompts, response, TargetLogProbs())

    whole = text(np.ones(len(abstract.sentences), dtype=bool))
    n_whole = len(backend.tokenizer.encode_joined([(whole, True)]).ids)
    response = backend.tokenizer.encode_joined([(whole + abstract.answer, True)]).ids[n_whole:]
    prompts = request().prompts
    n_tokens = sum(len(prompt.ids) + len(response) for prompt in prompts)

    def summed(ours: np.ndarray) -> np.ndarray:
        total: np.ndarray = ours.sum(axis=1)
        return total

    def context_cite(batch_size: int) -> Callable[[np.ndarray], Peer]:
        def make(_: np.ndarray) -> Peer:
            run = published.context_cite(
                backend,
                abstract.sentences,
                abstract.question,
                abstract.answer,
                masks,
                [prompt.ids.tolist() for prompt in prompts],
                response,
                batch_size=batch_size,
            )
            return Peer(run, of=summed, n_tokens=n_tokens)

        return make

    def full(_: np.ndarray) -> Peer:
        return Peer(lambda: peers.full_pass(backend.model, prompts, [response] * len(prompts)), n_tokens=n_tokens)

    others = {"context-cite": context_cite(1), "context-cite-batch-8": context_cite(8), "full-pass": full}
    return Scenario(lambda: scored(backend, [request()]), others, chunk_of([request()]), abstract.source)


def occlusion(backend: HfBackend, _: Path | None, tiny: bool = False) -> Scenario:
    """Every token before a response token made the unknown one: what inseq's occlusion does, token by token."""
    prompt_text = "The nurses slept for twenty minutes at three in the morning, and the pharmacists then counted"
    response_text = " fewer errors in the doses."
    if tiny:
        prompt_text, response_text = "A nap", " helps"
    prompt = backend.tokenizer.encode_joined([(prompt_text, True)]).ids
    whole = backend.tokenizer.encode_joined([(prompt_text + response_text, True)]).ids
    response = whole[len(prompt) :]
    n, n_response = len(prompt), len(response)
    unknown = published.unknown_id(backend)

    hidden = [_prompt((*prompt[:i], unknown, *prompt[i + 1 :])) for i in range(n)]
    requests = [Request((_prompt(prompt), *hidden), response, TargetLogProbs())]
    # A response token is hidden from those after it.
    requests += [
        Request((_prompt((*prompt, *response[:i], unknown)),), response[i + 1 :], TargetLogProbs())
        for i in range(n_response - 1)
    ]

    def ours() -> np.ndarray:
        first, *later = [scores.values for scores in backend.score(chunk_of(requests))]
        out = np.zeros((len(whole), n_response))
        out[:n] = first[1:]
        for i, values in enumerate(later):
            out[n + i, i + 1 :] = values[0]
        earlier = np.arange(len(whole))[:, None] < n + np.arange(n_response)
        return np.where(earlier, np.abs(first[0] - out), 0.0)

    n_tokens = sum((n + t) * (n + t + 1) for t in range(n_response))
    return Scenario(
        ours,
        {
            "inseq": lambda _: Peer(
                published.inseq_occlusion(backend, prompt_text, response_text, whole), n_tokens=n_tokens
            )
        },
        chunk_of(requests),
        "a sentence of our own",
    )


def _prompt(ids: tuple[int, ...]) -> Prompt:
    return Prompt((Piece("all", "context", tuple(ids)),))
