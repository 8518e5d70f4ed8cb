"""Beam search against `generate` of transformers, against sums over the whole vocabulary, and against enumeration."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from helpers import tiny_models as tiny
from helpers.examples import few
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import Cost, drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.pii.beam import Beam, beam_search
from leakmeter.stats.logspace import log_softmax

N_VOCAB, N_NEW, EOS = 11, 9, 2


def prompts_of(rng: np.random.Generator, n: int, n_vocab: int) -> list[Prompt]:
    return [prompt_of(rng, int(n_tokens), n_vocab) for n_tokens in rng.integers(1, 14, size=n)]


def prompt_of(rng: np.random.Generator, n_tokens: int, n_vocab: int) -> Prompt:
    return Prompt((Piece("all", "frame", tuple(int(i) for i in rng.integers(3, n_vocab, size=n_tokens))),))


def searched(backend: Any, prompts: Sequence[Prompt], **settings: Any) -> tuple[list[list[Beam]], Cost]:
    (found,), cost = drive(backend, [beam_search(prompts, **settings)])
    return found, cost


def generated(
    model: Any, prompts: Sequence[Prompt], width: int, stops: Collection[int]
) -> tuple[list[list[tuple[int, ...]]], np.ndarray | None]:
    """What transformers finds behind prompts of one length: tokens before a stop token; scores where it has any."""
    given = torch.tensor(np.stack([prompt.ids for prompt in prompts]))
    with torch.inference_mode():
        out = model.generate(
            input_ids=given, attention_mask=torch.ones_like(given), num_beams=width, num_return_sequences=width,
            do_sample=False, early_stopping=False, length_penalty=1.0 if width > 1 else None,
            max_new_tokens=N_NEW, eos_token_id=list(stops), pad_token_id=0, return_dict_in_generate=True,
            output_scores=True,
        )  # fmt: skip
    new = out.sequences[:, len(prompts[0].ids) :].tolist()
    ids = [tuple(itertools.takewhile(lambda token: token not in stops, row)) for row in new]
    scores = out.sequences_scores.numpy().reshape(-1, width) if width > 1 else None
    return [ids[i : i + width] for i in range(0, len(ids), width)], scores


def common_tokens(kind: str, prompts: Sequence[Prompt]) -> tuple[int, ...]:
    """Some that the model often says, so that beams stop at many lengths."""
    found, _ = searched(tiny.tiny_backend(kind), prompts, width=5, max_new_tokens=N_NEW, stop_ids=())
    said = Counter(token for beams in found for beam in beams for token in set(beam.tokens))
    return tuple(token for token, _ in said.most_common(8))[2:]


@pytest.mark.parametrize("width", few([2, 1, 5]))
@pytest.mark.parametrize("kind", ["llama", pytest.param("mistral", marks=pytest.mark.long)])
def test_it_finds_what_transformers_finds(kind: str, width: int) -> None:
    rng = np.random.default_rng(width)
    by_length = [[prompt_of(rng, n, tiny.N_VOCAB) for _ in range(8)] for n in (1, 12)]
    prompts = [prompt for group in by_length for prompt in group]
    for stops in ((EOS,), common_tokens(kind, prompts)):
        found, _ = searched(tiny.tiny_backend(kind), prompts, width=width, max_new_tokens=N_NEW, stop_ids=stops)
        at = iter(found)
        for group in by_length:
            ids, scores = generated(tiny.tiny_model(kind), group, width, stops)
            for i, beams in enumerate(itertools.islice(at, len(group))):
                assert [beam.tokens for beam in beams] == ids[i]
                if scores is not None:
                    # Sums in float32 there; worst measured: 9e-7.
                    np.testing.assert_allclose([beam.score for beam in beams], scores[i], rtol=0, atol=1e-5)
        finished = [beam for beams in found for beam in beams if beam.finished]
        if len(stops) > 1:
            assert len({len(beam.tokens) for beam in finished}) >= 4
            assert sum(all(beam.finished for beam in beams) for beams in found) >= 3


@pytest.mark.parametrize("width", [1, 2, 5])
def test_it_finds_what_a_search_of_all_continuations_finds(width: int) -> None:
    toy = Toy(N_VOCAB, seed=2)
    prompts = prompts_of(np.random.default_rng(3), 12, N_VOCAB)
    stops = (1, 6)
    found, _ = searched(toy, prompts, width=width, max_new_tokens=7, stop_ids=stops)
    for prompt, beams in zip(prompts, found, strict=True):
        expected = by_hand(toy, prompt, width, 7, stops)
        assert [beam.tokens for beam in beams] == [ids[:-1] if ids[-1] in stops else ids for _, ids in expected]
        assert [beam.finished for beam in beams] == [ids[-1] in stops for _, ids in expected]
        # The same sums; the toy's rows are found by another order of additions.
        np.testing.assert_allclose([beam.score for beam in beams], [score for score, _ in expected], rtol=1e-12)
        # The stop token counts in the likelihood and in the length.
        for beam, (score, ids) in zip(beams, expected, strict=True):
            assert beam.log_prob == pytest.approx(score * len(ids), rel=1e-12)


def test_tokens_ruled_out_are_never_found() -> None:
    class Strict(Toy):
        def logits(self, ids: Any, positions: Any) -> Any:
            row = super().logits(ids, positions)
            row[3:] = -np.inf
            return row

    (prompt,) = prompts_of(np.random.default_rng(0), 1, 5)
    ((beams,), _) = searched(Strict(N_VOCAB), [prompt], width=5, max_new_tokens=1, stop_ids=())
    assert sorted(beam.tokens for beam in beams) == [(0,), (1,), (2,)]
    assert all(np.isfinite(beam.score) for beam in beams)


def by_hand(
    toy: Toy, prompt: Prompt, width: int, n_new: int, stops: Collection[int]
) -> list[tuple[float, tuple[int, ...]]]:
    """Scores and tokens, stop token included, from every continuation of every beam by every token."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    done: list[tuple[float, tuple[int, ...]]] = []
    for n in range(1, n_new + 1):
        every = []
        for total, ids in live:
            tokens = np.asarray([*prompt.ids, *ids])
            row = log_softmax(toy.logits(tokens, np.arange(len(tokens))))
            every += [(total + row[token], (*ids, token)) for token in range(len(row))]
        every.sort(reverse=True)
        every = every[: max(2, 1 + len(stops)) * width]
        best = every[:width]
        done += [(total / n, ids) for total, ids in best if ids[-1] in stops or n == n_new]
        done = sorted(done, reverse=True)[:width]
        live = [(total, ids) for total, ids in every if ids[-1] not in stops][:width]
        if len(done) == width and live[0][0] / n <= done[-1][0]:
            break
    return done


def test_prompts_searched_together_or_alone_find_the_same() -> None:
    toy = Toy(N_VOCAB, seed=4)
    prompts = prompts_of(np.random.default_rng(6), 6, N_VOCAB)
    settings: dict[str, Any] = {"width": 3, "max_new_tokens": 6, "stop_ids": (1, 6)}
    together, _ = searched(toy, prompts, **settings)
    assert together == [searched(toy, [prompt], **settings)[0][0] for prompt in prompts]
    assert searched(toy, [], **settings)[0] == []


def test_each_round_runs_one_token_a_beam_and_no_more_than_predicted() -> None:
    backend = tiny.tiny_backend()
    prompts = prompts_of(np.random.default_rng(9), 4, tiny.N_VOCAB)
    settings: dict[str, Any] = {"width": 3, "max_new_tokens": N_NEW}
    _, cost = searched(backend, prompts, stop_ids=(), **settings)
    assert cost.n_tokens_run == sum(len(prompt.ids) for prompt in prompts) + 4 * 3 * (N_NEW - 1)
    _, less = searched(backend, prompts, stop_ids=common_tokens("llama", prompts), **settings)
    assert less.n_tokens_run < cost.n_tokens_run
