"""A back end that dies at work."""

from __future__ import annotations

from leakmeter.backends.toy import Toy
from leakmeter.core.plan import Chunk
from leakmeter.core.request import Scores


class Mortal(Toy):
    """The toy model, which dies after so many rounds."""

    def __init__(self, n_rounds: int) -> None:
        super().__init__()
        self.n_left = n_rounds

    def score(self, chunk: Chunk) -> list[Scores]:
        """Answer, or die."""
        if not self.n_left:
            raise KeyboardInterrupt
        self.n_left -= 1
        return super().score(chunk)
