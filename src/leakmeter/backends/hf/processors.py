"""Context influence decoding inside `model.generate(...)` of the transformers library.

    bare = tokenizer("Document: . Who sang?", return_tensors="pt")
    processor = BoundedContextInfluenceProcessor(model, bare.input_ids, epsilon=0.1)
    sequences = model.generate(**inputs, **processor.arguments(max_new_tokens=30))
    processor.public_receipts(sequences)

The prompt given to `generate` has the context; the processor runs the bare one beside it, with a cache of its own.
What it returns are log-probabilities in float64, from which `generate` samples in float64. Under a bound that would
not do, since such a draw is not exact: there the processor draws the token, with exactly the probability that was
certified, and leaves `generate` no other. Nothing may come after it, which is checked.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

from leakmeter.backends.hf.generate_settings import (
    SAMPLERS_OFF,
    Surroundings,
    check_arguments,
    stop_ids_of,
    surroundings,
)
from leakmeter.backends.hf.lengths import original_lengths
from leakmeter.errors import UsageError
from leakmeter.privacy.decoding import Decoding
from leakmeter.stats import exact_draw
from leakmeter.stats.arrays import FloatArray, IntArray
from leakmeter.stats.exact_draw import SystemBits


@dataclass(frozen=True, slots=True)
class PublicReceipt:
    """What may be shown beside a bounded response: nothing of it depends on the context but through the tokens."""

    tokens: IntArray
    """Token ids, the one that ended the response included, (token,)."""
    bare_log_probs: FloatArray
    """log p(y_t | ∅), nats, (token,)."""
    promised_epsilon: float | None
    """Bound for each token between any two contexts, nats; None where nothing is promised."""


@dataclass(frozen=True, slots=True)
class PrivateReceipt:
    """What each token of a response told of the context; functions of the context themselves, to be kept private."""

    public: PublicReceipt
    weights: FloatArray
    """λ_t, (token,)."""
    log_probs: FloatArray
    """log p̄(y_t | D), nats, (token,)."""
    max_losses: FloatArray
    """max_v |log p̄(v | D) − log p(v | ∅)|, nats, (token,); at most half the promised ε."""

    @property
    def losses(self) -> FloatArray:
        """|log p̄(y_t | D) − log p(y_t | ∅)|, nats, (token,)."""
        losses: FloatArray = np.abs(self.log_probs - self.public.bare_log_probs)
        return losses


class _TwoBranchProcessor(LogitsProcessor):  # type: ignore[misc]  # the library is untyped
    """Mixes the scores it is given with those of a bare prompt that it runs itself; good for one call of `generate`."""

    supports_continuous_batching = False

    def __init__(
        self,
        model: Any,
        bare_ids: Tensor,
        bare_attention_mask: Tensor | None,
        decoding: Decoding,
        promised_epsilon: float | None,
    ) -> None:
        if bare_ids.ndim != 2 or not bare_ids.shape[1]:
            raise UsageError(f"bare_ids has the shape {tuple(bare_ids.shape)}; give (row, token) with a token or more")
        mask = torch.ones_like(bare_ids) if bare_attention_mask is None else bare_attention_mask
        if mask.shape != bare_ids.shape or not bool(mask[:, -1].all()):
            raise UsageError("bare_attention_mask has to be of the shape of bare_ids, with padding on the left only")
        self._model = model
        self._ids, self._mask = bare_ids.to(model.device), mask.to(model.device)
        self._decoding, self._promised = decoding, promised_epsilon
        self._turns = original_lengths(model.config.get_text_config())
        self._inputs = inspect.signature(model.forward).parameters
        self._cache: Any = None
        self._seen: Tensor | None = None
        self._prompt_length = 0
        self._around = Surroundings()
        self._steps: list[dict[str, Tensor]] = []
        self._pending: dict[str, Tensor] | None = None

    def arguments(self, **others: Any) -> dict[str, Any]:
        """Arguments for `model.generate` under which the processor has the last word, itself among them.

        Args:
            **others: those that you need besides, such as max_new_tokens, min_new_tokens, return_dict_in_generate.

        Raises:
            UsageError: one of them, or of the model's generation_config, would change the distribution; names it.
        """
        if "logits_processor" in others:
            raise UsageError("arguments() sets logits_processor; leave it out")
        settings = {**SAMPLERS_OFF, **others}
        check_arguments(self._model, settings)
        return {**settings, "logits_processor": LogitsProcessorList([self])}

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores under the context (row, vocab) to log p̄, float64, nats, (row, vocab).

        Under a bound, and called by `generate`: 0 for the token that was drawn and −∞ for every other. Called by hand
        it gives log p̄ there too; whoever draws from that in floating point draws up to that alone.

        Raises:
            UsageError: beams, a second generation, another number of rows; or what `generate` would do afterwards.
        """
        self._follow(input_ids)
        bare = self._bare_logits(input_ids).to(scores.device)
        for mask in self._around.masks:
            bare = mask(input_ids, bare)
        mixed = self._decoding.mix(scores, bare)
        self._pending = {
            "weights": mixed.weight,
            "max_losses": mixed.max_loss,
            "log_probs": mixed.log_probs,
            "bare_log_probs": mixed.bare_log_probs,
        }
        log_probs: Tensor = mixed.log_probs
        # What is not a number is left for `generate` to refuse.
        if mixed.weights is None or not self._around.is_generate or bool(torch.isnan(mixed.weights).any()):
            return log_probs
        drawn = exact_draw.draw(mixed.weights, SystemBits())
        return torch.full_like(log_probs, -torch.inf).scatter(1, drawn, 0.0)

    def receipts(self, sequences: Any) -> list[PrivateReceipt]:
        """A receipt for each row, up to the token that ended it. Private.

        Args:
            sequences: what `generate` returned.

        Raises:
            UsageError: something else than what was generated with this processor.
        """
        ids: Tensor = getattr(sequences, "sequences", sequences)
        seen, n = self._seen, ids.shape[1] - self._prompt_length
        is_own = seen is not None and torch.equal(ids[:, : seen.shape[1]], seen[:, : ids.shape[1]])
        if not is_own or not 0 < n <= len(self._steps) + 1:
            raise UsageError(
                "these sequences were not generated with this processor; give the sequences that generate returned"
            )
        steps = self._steps[:n]
        if len(steps) < n and self._pending is not None:
            steps = [*steps, _chosen(self._pending, ids[:, -1])]
        columns = {name: torch.stack([step[name] for step in steps], dim=1).cpu().numpy() for name in steps[0]}
        stops = self._around.stop_ids
        stops = stop_ids_of(self._model.generation_config) if stops is None else stops
        receipts = []
        for row, tokens in enumerate(ids[:, self._prompt_length :].cpu().numpy()):
            ends = np.flatnonzero(np.isin(tokens, stops))
            n = int(ends[0]) + 1 if len(ends) else len(tokens)
            values = {name: column[row, :n] for name, column in columns.items()}
            public = PublicReceipt(tokens[:n], values.pop("bare_log_probs"), self._promised)
            receipts.append(PrivateReceipt(public, **values))
        return receipts

    def public_receipts(self, sequences: Any) -> list[PublicReceipt]:
        """What of each receipt may be shown beside the response; see `receipts`."""
        return [receipt.public for receipt in self.receipts(sequences)]

    def _follow(self, input_ids: Tensor) -> None:
        """Take note of the step: the same rows as before, each a token longer."""
        if self._seen is None:
            if self._ids.shape[0] not in (1, input_ids.shape[0]):
                raise UsageError(
                    f"there are {input_ids.shape[0]} rows and {self._ids.shape[0]} bare prompts; give one, or one a row"
                )
            self._prompt_length = input_ids.shape[1]
            self._around = surroundings(self, self._prompt_length)
            self._ids = self._ids.expand(input_ids.shape[0], -1)
            self._mask = self._mask.expand(input_ids.shape[0], -1)
        else:
            if input_ids.shape[1] != self._seen.shape[1] + 1 or not torch.equal(input_ids[:, :-1], self._seen):
                raise UsageError(
                    "the sequences do not continue the previous step: beams and assisted decoding are refused, and "
                    "every call of generate needs a new processor"
                )
            assert self._pending is not None
            self._steps.append(_chosen(self._pending, input_ids[:, -1]))
        self._seen = input_ids

    def _bare_logits(self, input_ids: Tensor) -> Tensor:
        """Logits of what follows the bare prompt and the tokens drawn so far, (row, vocab)."""
        if input_ids.shape[1] > self._prompt_length:
            last = input_ids[:, -1:].to(self._ids.device)
            self._ids = torch.cat([self._ids, last], dim=1)
            self._mask = torch.cat([self._mask, torch.ones_like(last)], dim=1)
        positions = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
        if int(positions.max()) in self._turns:
            # From here on the model may rotate all tokens by other factors: states so far have the old ones.
            self._cache = None
        n_fed = self._ids.shape[1] if self._cache is None else 1
        extra: dict[str, object] = {"position_ids": positions[:, -n_fed:]} if "position_ids" in self._inputs else {}
        if "logits_to_keep" in self._inputs:
            extra["logits_to_keep"] = 1
        if self._cache is not None:
            extra["past_key_values"] = self._cache
        out = self._model(input_ids=self._ids[:, -n_fed:], attention_mask=self._mask, use_cache=True, **extra)
        # A model without such a cache is run anew at every step.
        self._cache = getattr(out, "past_key_values", None)
        logits: Tensor = out.logits[:, -1]
        return logits


class ContextInfluenceProcessor(_TwoBranchProcessor):
    """Context influence decoding: log softmax((λ z(D) + (1 − λ) z(∅)) / T), nats (Flemings et al., Eq. 6).

    λ = 1 + β is context-aware decoding with weight β, or classifier-free guidance of that scale at T = 1. It promises
    no bound; the receipts say what each token told.

    Args:
        model: runs the bare branch; the one whose `generate` is called.
        bare_ids: the prompt without its context, (1, token) or (row, token), padded on the left.
        bare_attention_mask: 0 at padding; none by default.
        cid_lambda: λ ≥ 0.
        temperature: T > 0; leave the one of `generate` at 1.
    """

    def __init__(
        self,
        model: Any,
        bare_ids: Tensor,
        bare_attention_mask: Tensor | None = None,
        *,
        cid_lambda: float = 1.0,
        temperature: float = 1.0,
    ) -> None:
        _check_range("cid_lambda", cid_lambda, above=False)
        _check_range("temperature", temperature, above=True)
        super().__init__(model, bare_ids, bare_attention_mask, Decoding(temperature, cid_lambda), None)


class BoundedContextInfluenceProcessor(_TwoBranchProcessor):
    """ε-bounded context influence decoding: a step is ε-DP for the context (Flemings et al., Algorithm 1, Theorem B.1).

    At each step the largest λ ≤ λ_max at which no token of the vocabulary is more than ε / 2 nats from what the bare
    prompt gives it: two contexts, whatever they are, are at most ε from each other. For the promise to hold, the bare
    prompt depends on nothing of the context (not its length, the number of documents, or where it was cut), and of the
    receipts only the public ones are shown. Inside `generate` tokens are drawn by the operating system's random
    numbers, not by torch's, so that no seed repeats them.

    Args:
        model: runs the bare branch; the one whose `generate` is called.
        bare_ids: the prompt without its context, (1, token) or (row, token), padded on the left.
        bare_attention_mask: 0 at padding; none by default.
        epsilon: bound for each token, nats, above 0.
        lambda_max: largest λ, 0 or more.
        temperature: T > 0; leave the one of `generate` at 1.
    """

    def __init__(
        self,
        model: Any,
        bare_ids: Tensor,
        bare_attention_mask: Tensor | None = None,
        *,
        epsilon: float,
        lambda_max: float = 1.0,
        temperature: float = 1.0,
    ) -> None:
        _check_range("epsilon", epsilon, above=True)
        _check_range("lambda_max", lambda_max, above=False)
        _check_range("temperature", temperature, above=True)
        super().__init__(
            model, bare_ids, bare_attention_mask, Decoding(temperature, lambda_max, epsilon / 2.0), epsilon
        )


def _check_range(name: str, number: float, *, above: bool) -> None:
    if not (np.isfinite(number) and (number > 0 if above else number >= 0)):
        raise UsageError(f"{name} is {number}; it has to be {'above 0' if above else '0 or more'}")


def _chosen(step: dict[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
    """A step's numbers at the tokens that were drawn, (row,)."""
    index = tokens.to(step["log_probs"].device)[:, None]
    return {name: values.gather(1, index)[:, 0] if values.ndim == 2 else values for name, values in step.items()}
