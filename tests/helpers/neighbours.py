"""The distributions that a vote is compared with, written out."""

from __future__ import annotations

from typing import Any

from leakmeter.privacy.clipped_logits import Vote
from leakmeter.stats import logspace


def without_each(vote: Vote) -> Any:
    """Log-probabilities of the next token without each exemplar, nats, (exemplar, vocab), normalised."""
    return logspace.log_softmax(vote.log_probs - vote.tilts)
