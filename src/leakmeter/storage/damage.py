"""What is wrong with a file of a run."""

from __future__ import annotations


class FieldError(ValueError):
    """A field of a file with what leakmeter did not write: its name and place, and why it is wrong, a clause that
    follows the name. The value is private, and not shown."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why
