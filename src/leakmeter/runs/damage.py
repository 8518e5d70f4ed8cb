"""What goes wrong when a run holds what leakmeter did not write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakmeter.errors import StoreError
from leakmeter.runs.verify import verify


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Tells a run that was changed from an error of our own, where its numbers or texts are made into something.

    Args:
        path: the run's directory.

    Raises:
        StoreError: something went wrong, and the run is not what was written; says what was changed. Of a run that is
            what was written, the error goes on its way.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        found = verify(path)
        if found.state == "whole":
            raise
        raise StoreError(f"run '{path}' is not what was written: {found.findings[0]}") from None
