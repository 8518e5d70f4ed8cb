"""A back end that dies at work."""

from __future__ import annotations

from typing import Any

from leakmeter.backends.toy import Toy
from leakmeter.core.request import Scores
from leakmeter.core.tree import Chunk


class Mortal(Toy):
    """The toy model, which dies after so many rounds of scores."""

    def __init__(self, n_rounds: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._most, self.n_rounds = n_rounds, 0

    def score(self, chunk: Chunk) -> list[Scores]:
        if self.n_rounds == self._most:
            raise KeyboardInterrupt
        self.n_rounds += 1
        return super().score(chunk)
