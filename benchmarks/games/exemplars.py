"""An exemplar in the prompt or not: a label is drawn from what the model says with it or without it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch

from benchmarks.games.outcomes import Game
from leakmeter.backends.hf import HfBackend
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Prompt
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings, prepare_exemplars
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.logspace import log_softmax
from leakmeter.text.exemplars import ExemplarCase, LabelledText, Task

KIND: Final = "exemplar in or out"
_TASK: Final = Task(
    "reviews",
    "Say whether each review is good or bad.",
    (("review", "Review"),),
    "Sentiment",
    (("good", "good"), ("bad", "bad")),
)
_N_EXEMPLARS: Final = 4
_PARTS: Final = ("plot", "music", "first act", "ending", "cast", "dialogue", "camera work", "stage set", "pace")
_SAID: Final = {
    "good": ("is a delight", "moved me", "stays with you", "is worth the ticket", "shines", "made us laugh"),
    "bad": ("is a bore", "put me to sleep", "makes no sense", "wastes two hours", "falls flat", "annoyed us"),
}


def played(backend: HfBackend, *, seed: int, n_worlds: int, n_draws: int) -> Iterator[Game]:
    """Games of exemplars of invented reviews; the referee's distributions of labels are those of plain passes."""
    drawn, coin = random.Random(f"exemplars {seed}"), np.random.default_rng([seed, 7])
    for number in range(n_worlds):
        chosen = [_review(drawn) for _ in range(_N_EXEMPLARS)]
        exemplars = tuple(LabelledText(f"s{i}", (text,), sentiment) for i, (text, sentiment) in enumerate(chosen))
        case = ExemplarCase(f"game {number}", exemplars, LabelledText("query", (_review(drawn)[0],), None))
        item = prepare_exemplars(case, backend.tokenizer, ExemplarSettings(_TASK), window=backend.window).item
        name = drawn.choice(exemplars).id
        ((measured,), _) = drive(backend, [Icl(label_scoring="whole-sequence").trial(item)])
        (loss,) = (m.values for m in measured if m.statistic == "label_loss" and m.piece == name)
        for is_in, prompt in ((True, item.prompt), (False, item.cuts[name])):
            shares = np.exp(_log_shares(backend, prompt, item.label_ids))
            for label in coin.choice(len(shares), size=n_draws, p=shares):
                is_swapped = bool(coin.integers(2))
                nats = float(loss[label])
                yield Game("drawn", is_in != is_swapped, -nats if is_swapped else nats)


def _review(drawn: random.Random) -> tuple[str, str]:
    """Words, and what they say."""
    sentiment = drawn.choice(("good", "bad"))
    first, second = drawn.sample(_SAID[sentiment], 2)
    return f"The {drawn.choice(_PARTS)} {first}, and the {drawn.choice(_PARTS)} {second}.", sentiment


@torch.inference_mode()
def _log_shares(backend: HfBackend, prompt: Prompt, labels: tuple[tuple[int, ...], ...]) -> FloatArray:
    """Log of each label's share of what all labels have, by all its tokens."""
    model: Any = backend.model
    of_labels = []
    for label in labels:
        ids = torch.tensor([[*map(int, prompt.ids), *label]], device=next(model.parameters()).device)
        logits = model(input_ids=ids, use_cache=False).logits[0].double().cpu().numpy()
        rows = log_softmax(logits[len(prompt.ids) - 1 : -1])
        of_labels.append(rows[np.arange(len(label)), list(label)].sum())
    shares: FloatArray = log_softmax(np.asarray(of_labels))
    return shares
