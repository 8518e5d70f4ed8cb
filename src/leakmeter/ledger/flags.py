"""What a log says against a posterior: conditions of `docs/ledger.md` that an answer does not meet."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leakmeter.traces import LoggedAnswer

HIDDEN_CALLS: Final = "hidden calls"
SENTENCES: Final = {
    "greedy": "The answer was chosen greedily: it was no draw.",
    "beam": "The answer was chosen by a beam search: it was no draw.",
    "top-k": "The answer was drawn from the likeliest tokens alone (top-k).",
    "top-p": "The answer was drawn from the likeliest tokens alone (top-p or min-p).",
    "decoding not logged": "The log does not say how the answer was drawn; it was scored at temperature 1.",
    "changed distribution": "Penalties, a bias of logits or a grammar changed the distribution that was drawn from.",
    "other model": "The model that answered has another name than the one that scored.",
    HIDDEN_CALLS: "The trace has calls of models or tools that the recipient did not see.",
    "tools": "Tools were described to the model: its prompt was longer than the messages show.",
    "rebuilt prompt": "The log has no prompt: it was made of the retrieved texts and the question.",
    "interrupted": "The answer broke off.",
    "no recipient": "The log does not say whom the answer went to.",
    "no time": "The log does not say when the answer was finished: it counts in the order in which it was added.",
    "conditions not stated": "Nobody has stated (--conditions-hold) that queries depend on documents only through what "
    "their recipient saw, and that recipients know the other documents.",
}
"""Every flag, and what it means."""


def scored_at(answer: LoggedAnswer) -> float:
    """The temperature at which an answer is scored: its own, or 1 where it was none, or is not known."""
    if answer.sampling.decoding in ("greedy", "beam"):
        return 1.0
    return answer.sampling.temperature or 1.0


def of(answer: LoggedAnswer, models: Collection[str], *, conditions_hold: bool) -> list[str]:
    """Flags of an answer.

    Args:
        answer: as it was logged.
        models: names of the model that scores.
        conditions_hold: whether the user states what no log shows.
    """
    decoding = answer.sampling.decoding
    told = {
        "decoding not logged": decoding is None,
        "changed distribution": decoding == "sampling" and answer.sampling.is_plain is False,
        "other model": answer.model not in models,
        HIDDEN_CALLS: answer.n_hidden_calls > 0,
        "tools": answer.n_tools > 0,
        "rebuilt prompt": answer.is_rebuilt,
        "interrupted": answer.is_interrupted,
        "no recipient": answer.recipient is None,
        "no time": answer.time is None,
        "conditions not stated": not conditions_hold,
    }
    chosen = [] if decoding in (None, "sampling") else [decoding]
    return [*chosen, *(name for name, holds in told.items() if holds)]
