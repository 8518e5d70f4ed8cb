"""Distinguishing games: who reads an answer guesses which of two contexts it was written from; is the posterior right?

`python -m benchmarks games` lets a referee toss a coin for each game, put one of two texts into a prompt, and have the
answer written from it. The adversary is given the answer and both texts, and says how sure it is by leakmeter's nats,
1 / (1 + e^−(log p(y | one) − log p(y | other))). The referee is no part of leakmeter: it runs the model's own
transformers class, token by token, and draws by NumPy. Answers are drawn at temperature 1; the likeliest tokens; by
another model (`--writer`); or drawn from a text without what the two differ in, so that nobody can know. `--data` names
a directory with PubMedQA's `ori_pqal.json` and CNN/DailyMail's `validation_subset.jsonl`, or a run that was measured
with `--controls`: there each answer was written from its own context, and the others are those of other cases. Last
come tokens that bounded decoding and private generation draw, held against the ε that these promise (`bounds`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.games import bounds, exemplars, referee, worlds
from benchmarks.games.outcomes import Game, summary
from leakmeter.backends.hf import HfBackend

NAME: Final = "games"
TINY: Final[dict[str, Any]] = {"n_worlds": 2, "n_draws": 2, "n_tokens": 4}
Row = dict[str, Any]


def rows(
    backend: HfBackend,
    writer: HfBackend | None = None,
    data: Path | None = None,
    out: Path | None = None,
    *,
    seed: int = 0,
    n_worlds: int = 10,
    n_draws: int = 16,
    n_tokens: int = 24,
) -> Iterator[Row]:
    """One of each kind of game and way of answering.

    Args:
        backend: the scoring model.
        writer: another one, which writes answers too.
        data: texts for more games, or a run.
        out: a CSV file to which each game is added, a row.
        seed: of the texts, the coins and the draws.
        n_worlds: pairs of texts of each kind.
        n_draws: answers that are drawn of each of the two.
        n_tokens: of an answer, at most.
    """
    if data is not None and (data / "spec.json").exists():
        yield _told("this record or another's", list(referee.of_run(data, seed)), out)
        return
    # A label is a word: many prompts cost less than many long answers, which are drawn together.
    of_exemplars = exemplars.played(backend, seed=seed, n_worlds=3 * n_worlds, n_draws=max(1, n_draws // 4))
    yield _told(exemplars.KIND, list(of_exemplars), out)
    for kind, made in worlds.kinds(seed, n_worlds, data).items():
        played: dict[str, list[Game]] = {}
        for number, world in enumerate(made):
            for game in referee.played(
                *(backend, writer, world), seed=(seed, number), n_draws=n_draws, n_tokens=n_tokens
            ):
                played.setdefault(game.way, []).append(game)
        for games in played.values():
            yield _told(kind, games, out)
    yield from bounds.rows(backend, seed=seed, n_worlds=max(1, n_worlds // 2), n_draws=6 * n_draws)


def _told(kind: str, games: list[Game], out: Path | None) -> Row:
    if out is not None:
        is_new = not out.exists()
        with out.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(("kind", "way", "is_one", "nats"))
            writer.writerows((kind, game.way, int(game.is_one), f"{game.nats:.6g}") for game in games)
    return summary(kind, games)
