"""What a user can set of finding people, of fine-tuning a model and of tuning a soft prompt; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from cyclopts import Parameter

from leakmeter.core.limits import refuse_bad

_T = TypeVar("_T")
Unasked = Annotated[_T, Parameter(parse=False)]
"""A setting that is no option of a command."""
Finds = Literal["structured", "relationships", "universities"]
MentionScope = Literal["sentence", "document"]
"""Where a person's name and a university have to stand together."""


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """How a copy of a model is fine-tuned: by AdamW, whose other settings are torch's defaults."""

    epochs: int = 1
    """Passes of the fine-tuning over all documents."""
    learning_rate: float = 3e-4
    """Learning rate of the fine-tuning, by AdamW."""
    batch_tokens: int = 256
    """Most tokens in a step of the fine-tuning, padding included."""
    warmup_steps: Unasked[int] = 10
    """Steps of the fine-tuning over which the learning rate rises linearly."""
    max_norm: Unasked[float] = 1.0
    """Gradients of the fine-tuning that are longer are cut to it."""

    def __post_init__(self) -> None:
        refuse_bad(
            (self.epochs >= 1, "epochs", self.epochs, "1 or more"),
            (0 < self.learning_rate <= 1, "learning-rate", self.learning_rate, "above 0 and at most 1"),
            (self.warmup_steps >= 0, "warmup-steps", self.warmup_steps, "0 or more"),
            (self.max_norm > 0, "max-norm", self.max_norm, "above 0"),
            (self.batch_tokens >= 2, "batch-tokens", self.batch_tokens, "2 or more"),
        )


@dataclass(frozen=True, kw_only=True)
class SoftPromptTuning:
    """How a soft prompt is tuned (Kim et al., Appendix A.4): by AdamW, whose other settings are torch's defaults."""

    length: int = 20
    """Number of vectors of the soft prompt."""
    init: str | None = None
    """Text whose embeddings, repeated or cut to length, are the first vectors; those of random words by default."""
    learning_rate: float = 0.005
    """Learning rate of AdamW."""
    epochs: int = 700
    """Most passes over the subjects."""
    batch_size: int = 8
    """Subjects in a step; those with texts of similar length are grouped."""
    seed: int = 0
    """Seed of the first vectors, of the order, and of the choice of held-out subjects."""
    exact_match_every: Unasked[int] = 10
    """Epochs between two looks at the subjects that the epoch is chosen by."""
    patience: int = 100
    """Epochs without progress after which tuning ends."""

    def __post_init__(self) -> None:
        counts = (("length", self.length), ("batch-size", self.batch_size), ("patience", self.patience))
        refuse_bad(
            (0 < self.learning_rate <= 1, "learning-rate", self.learning_rate, "above 0 and at most 1"),
            (self.epochs >= 0, "epochs", self.epochs, "0 or more"),
            (self.seed >= 0, "seed", self.seed, "0 or more"),
            *((n >= 1, name, n, "1 or more") for name, n in counts),
            (self.exact_match_every >= 1, "exact-match-every", self.exact_match_every, "1 or more"),
        )
