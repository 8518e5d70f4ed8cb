"""What is wrong with a file of a run."""

from __future__ import annotations


class FieldError(ValueError):
    """A field of a file that holds what leakmeter did not write; told without what it holds, which is private, by
    its name and where it stands, and a clause that goes on from the name."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why
