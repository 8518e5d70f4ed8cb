"""Published packages that compute numbers we compute too, called as their users call them (extra `bench`).

Imported only when asked for: one that is missing or broken is a peer less, not an error. Versions these were written
against: context-cite 0.0.4, captum 0.9.0, inseq 0.7.1.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.base import UnavailableError
from leakmeter.backends.hf import HfBackend

Run = Callable[[], np.ndarray]


@dataclass(frozen=True)
class _Partition:
    """What context-cite asks of a partitioner: sentences joined by spaces, those of a mask kept."""

    parts: tuple[str, ...]
    between: str = " "

    @property
    def context(self) -> str:
        return self.get_context()

    @property
    def num_sources(self) -> int:
        return len(self.parts)

    def get_context(self, mask: np.ndarray | None = None) -> str:
        return self.between.join(part for i, part in enumerate(self.parts) if mask is None or mask[i])


def context_cite(
    backend: HfBackend,
    sentences: tuple[str, ...],
    question: str,
    answer: str,
    masks: np.ndarray,
    prompts: Sequence[list[int]],
    response: Sequence[int],
    *,
    batch_size: int,
) -> Run:
    """ContextCite's log-probability of the answer under each of its masks, nats: (mask,).

    `prompts` and `response` are ours, in token ids; an error if context-cite feeds the model anything else.
    """
    citer = _citer(backend, _Partition(sentences), question, num_ablations=len(masks), batch_size=batch_size)
    # The response is given instead of generated: it is the text after the prompt.
    citer._cache["output"] = citer._get_prompt_ids(return_prompt=True)[1] + answer
    if [citer._get_prompt_ids(mask) for mask in masks] != list(prompts) or citer._response_ids != list(response):
        raise ValueError("context-cite feeds the model other token ids than ours")

    def run() -> np.ndarray:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # a progress bar
            warnings.simplefilter("ignore")  # torch.cuda.amp.autocast: old, and without a GPU
            citer._compute_masks_and_logit_probs()
        if not np.array_equal(citer._masks, masks):
            raise ValueError("context-cite draws other masks than ours")
        log_odds = citer._logit_probs.astype(np.float64)
        summed: np.ndarray = -np.logaddexp(0.0, -log_odds).sum(axis=1)  # log p = −log(1 + exp(−log-odds))
        return summed

    return run


def regression(
    backend: HfBackend,
    parts: tuple[str, ...],
    question: str,
    answer: str,
    n_tokens: int,
    fed: tuple[list[int], Sequence[int]],
) -> tuple[np.ndarray, list[int]]:
    """ContextCite's weight of each part, (part,), and the lengths of the sequences that it ran for them.

    It has as many of its masks as have `n_tokens` tokens, and two at least. `fed` is prompt and response in ids of
    ours; an error if context-cite feeds the model anything else.
    """
    template = "{context}\n\n{query}"  # the chat's message as we write it
    citer = _citer(backend, _Partition(parts, ""), question, batch_size=1, prompt_template=template)
    citer._cache["output"] = citer._get_prompt_ids(return_prompt=True)[1] + answer
    if (citer._get_prompt_ids(), citer._response_ids) != (fed[0], list(fed[1])):
        raise ValueError("context-cite feeds the model other token ids than ours")
    lengths: list[int] = []
    while sum(lengths) < n_tokens or len(lengths) < 2:
        mask = _module("context_cite.utils")._create_mask(len(parts), citer.ablation_keep_prob, len(lengths))
        lengths.append(len(citer._get_prompt_ids(mask)) + len(fed[1]))
    citer.num_ablations = len(lengths)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return np.asarray(citer.get_attributions(verbose=False)), lengths


def _citer(backend: HfBackend, partition: Any, question: str, **options: Any) -> Any:
    """A `ContextCiter` of a context in parts."""
    # Imported, it fetches a sentence splitter, which is not used here: the sentences are given.
    with mock.patch.object(_module("nltk"), "download", return_value=True):
        package = _module("context_cite")
    tokenizer = _tokenizer(backend)
    tokenizer.padding_side = "left"
    return package.ContextCiter(backend.model, tokenizer, partition.context, question, partitioner=partition, **options)


def captum(backend: HfBackend, blocks: Sequence[Sequence[int]], rest: Sequence[int], response: Sequence[int]) -> Run:
    """Captum's feature ablation, each block of ids left out once: log-probability drops, nats, (block, response).

    In one pass a prompt, its quickest way. The one it takes by default, token by token over its own cache, gives
    other numbers under transformers 5, which no longer cuts the ids already cached.
    """
    attr: Any = _module("captum.attr")

    def fill(*kept: str) -> torch.Tensor:
        ids = [token for block in kept if block for token in blocks[int(block)]]
        return torch.tensor([[*ids, *rest]], device=backend.model.device)

    method = attr.LLMAttribution(attr.FeatureAblation(backend.model), _tokenizer(backend))
    features = attr.TextTemplateInput(fill, [str(i) for i in range(len(blocks))])  # absent: the empty string
    target = torch.tensor(list(response))

    def run() -> np.ndarray:
        result = method.attribute(features, target=target, forward_in_tokens=False)
        drops: np.ndarray = result.token_attr.T.double().cpu().numpy()
        return drops

    return run


def inseq_occlusion(backend: HfBackend, prompt: str, response: str, fed: Sequence[int]) -> Run:
    """Inseq's occlusion: each earlier token made the unknown one, |Δ log-probability|, nats, (token, response).

    `fed` is prompt and response ids of ours; an error if inseq feeds the model anything else.
    """
    package = _module("inseq")
    model = package.load_model(backend.model, "occlusion", tokenizer=_tokenizer(backend))

    def run() -> np.ndarray:
        out = model.attribute(
            prompt, prompt + response, attributed_fn="probability", logprob=True, show_progress=False
        ).sequence_attributions[0]
        if [token.id for token in out.target] != list(fed):
            raise ValueError("inseq feeds the model other token ids than ours")
        changes: np.ndarray = np.nan_to_num(out.target_attributions.double().cpu().numpy())  # nan: what comes later
        return changes

    return run


def unknown_id(backend: HfBackend) -> int:
    """The token that inseq puts in the place of another."""
    tokenizer = _tokenizer(backend)
    return int(tokenizer.pad_token_id if tokenizer.unk_token_id is None else tokenizer.unk_token_id)


def _tokenizer(backend: HfBackend) -> Any:
    """A copy of the model's own tokenizer: the packages change its settings."""
    return copy.deepcopy(backend.tokenizer.library)


def _module(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        # What an import raises that meets versions it was not written for.
        except (ImportError, AttributeError, RuntimeError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise UnavailableError(f"{reason} (pip install -e '.[bench]')") from error
