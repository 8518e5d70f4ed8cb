"""Requests that servers are tested with."""

from __future__ import annotations

from collections.abc import Sequence

from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Reduction, Request
from leakmeter.core.tree import Chunk, chunk_of

SECRET = "Quixana Vellmore"
"""Stands in every text that is sent."""
TEXTS = (f"The patient {SECRET} has a cough.", f"The patient {SECRET} has", f"A patient {SECRET} has a cough.")


def asked(reduction: Reduction | None = None, response: str = "yes.", texts: Sequence[str] = TEXTS) -> Chunk:
    """Some prompts that share a response, and the first of them alone with another."""
    prompts = tuple(Prompt((Piece("frame", "frame", tuple(text.encode())),)) for text in texts)
    kept = reduction or TargetLogProbs()
    other = response[::-1].encode()
    return chunk_of([Request(prompts, tuple(response.encode()), kept), Request(prompts[:1], tuple(other), kept)])
