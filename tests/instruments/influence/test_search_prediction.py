"""What a search takes is never more than was predicted of it, and not much less."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from helpers import tiny_models as tiny
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.forecast import planning_backend, predict
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings, prepare

WORDS = ("the", "a", "boat", "lake", "house", "tree", "river", "dog", "cat", "sun", "moon", "rain")


def measure(rng: Random) -> Influence:
    k = rng.choice((1, 2, 3))
    audit: dict[str, Any] = {
        "audit": rng.choice(("0.95:0", "0.9:20%", "0.5:1", "0.95:2")),
        "audit_rounds": rng.choice((1, 2, 3)),
    }
    mixed = rng.random() < 0.3
    return Influence(
        search=f"top:{k}{rng.choice(('', f':{k}', f':{k + 2}'))}",
        cid_lambda=1.5 if mixed else 1.0,
        seed=rng.randrange(1000),
        **(audit if rng.random() < 0.6 else {}),
    )


def documents(rng: Random) -> tuple[Document, ...]:
    """Some of one sentence, and sentences that are said again."""

    def sentence() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.choice((1, 2, 5)))).capitalize() + "."

    texts = [" ".join(sentence() for _ in range(rng.randint(1, 6))) for _ in range(rng.randint(1, 3))]
    again = [f"{text} The boat." if rng.random() < 0.5 else text for text in texts]
    return tuple(Document(f"d{number}", text) for number, text in enumerate(again))


class Blind(Toy):
    """A toy that hides nothing, as a served model: it is screened by removal."""

    def __init__(self) -> None:
        super().__init__()
        self.hides_pieces = False


@pytest.mark.parametrize(("kind", "n"), [("toy", 8), pytest.param("blind", 40, marks=pytest.mark.long), ("tiny", 3)])
def test_no_search_takes_more_than_predicted(kind: str, n: int) -> None:
    backend: Any = {"toy": Toy, "blind": Blind, "tiny": tiny.tiny_backend}[kind]()
    shares = []
    for seed in range(n):
        rng = Random(seed)
        searching = measure(rng)
        case = Case(f"case {seed}", documents(rng), "who writes?", "the clinic")
        settings = PromptSettings(unit=rng.choice(("sentence", "sentence", "word", "document")), template="plain")
        item = prepare(case, backend.tokenizer, settings, window=None, n_reserved=8, levels=True).item
        if rng.random() < 0.4:
            item = replace(item, model_noise_nats=0.0)
        told = predict(planning_backend(backend, None), searching.longest_trial(item))
        _, taken = drive(backend, [searching.trial(item)])
        assert taken.n_tokens_run <= told.n_tokens_run, seed
        assert taken.n_prompts <= told.n_prompts, seed
        shares.append(taken.n_tokens_run / told.n_tokens_run)
    assert min(shares) > 0.3
    assert sum(shares) / n > 0.6
