"""What measuring an item asks of a model, said beforehand.

A measure says it by `Measure.needs`; nothing is driven to find it out, and nothing is asked or written before it is
compared with what the model can do (`core.backend.check_needs`).
"""

from __future__ import annotations

from dataclasses import dataclass

from leakmeter.core.request import GradientRequest, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemNeeds:
    """One request of each kind that a trial of the item makes: its reduction, and prompts of each kind."""

    requests: tuple[Request, ...] = ()
    """Scores that it cannot do without."""
    draws: Request | None = None
    """The first token of a response that is drawn here, unless the model draws whole responses; None where none is."""
    hides: Request | None = None
    """Scores of the longest prompt with pieces hidden; where a model hides none, the trial goes on without."""
    gradients: GradientRequest | None = None

    @property
    def masks(self) -> bool:
        """Whether a prompt has gaps between its positions."""
        return any(prompt.next_position != len(prompt.ids) for request in self.requests for prompt in request.prompts)

    def asked(self, *, draws: bool, hides: bool) -> tuple[Request, ...]:
        """What is asked of a model that draws whole responses or does not, and hides pieces or does not."""
        drawn = () if draws or self.draws is None else (self.draws,)
        hidden = (self.hides,) if hides and self.hides is not None else ()
        return (*drawn, *self.requests, *hidden)
