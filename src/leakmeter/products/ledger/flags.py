"""What a log says against a posterior: conditions of `docs/ledger.md` that an answer does not meet."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leakmeter.data.traces import LoggedAnswer

HIDDEN_CALLS: Final = "hidden calls"
OTHER_PROMPT: Final = "cached for another prompt"
SENTENCES: Final = {
    "greedy": "The answer was chosen greedily, not drawn.",
    "beam": "The answer was chosen by a beam search, not drawn.",
    "top-k": "The answer was drawn from the likeliest tokens alone (top-k).",
    "top-p": "The answer was drawn from the likeliest tokens alone (top-p or min-p).",
    "decoding not logged": (
        "The log does not have temperature, top-p, top-k, min-p and the penalty of repetitions, and --plain-draws, "
        "which asserts that they were off, was not given. A missing temperature counts as 1."
    ),
    "changed distribution": "Penalties, a logit bias or a grammar changed the distribution that was sampled.",
    "other model": "The model that answered and the scoring model have different names.",
    HIDDEN_CALLS: "The trace has calls of models or tools, or reasoning, that the recipient did not see.",
    OTHER_PROMPT: "One draw was shown for different prompts, as by a cache; it was drawn from at most one of them.",
    "tools": "The model was given descriptions of tools, so its prompt was longer than the messages show.",
    "rebuilt prompt": "The log has no prompt; the prompt was rebuilt from the retrieved texts and the question.",
    "interrupted": "The answer broke off.",
    "no recipient": "The log does not name the recipient of the answer.",
    "no time": "The log does not say when the answer was finished; it counts in the order in which it was added.",
    "conditions not stated": (
        "--conditions-hold was not given. It asserts that queries depend on documents only through what their "
        "recipient saw, and that recipients know the other documents."
    ),
}


def scored_at(answer: LoggedAnswer) -> float:
    """The temperature at which an answer is scored: its own, or 1 where it was none, or is not known."""
    if answer.sampling.decoding in ("greedy", "beam"):
        return 1.0
    return answer.sampling.temperature or 1.0


def flags_of(
    answer: LoggedAnswer, models: Collection[str], *, conditions_hold: bool, plain_draws: bool = False
) -> list[str]:
    decoding, is_plain = answer.sampling.decoding, answer.sampling.is_plain
    flags = {
        "decoding not logged": decoding is None or (is_plain is None and not plain_draws),
        "changed distribution": decoding in (None, "sampling") and is_plain is False,
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
    return [*chosen, *(name for name, holds in flags.items() if holds)]
