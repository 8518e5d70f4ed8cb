"""Work is ended at its checkpoints by whoever runs it, in its own thread."""

from __future__ import annotations

import threading

import pytest

from leakmeter.core.long_work import checked_by, checkpoint


class Unwanted(BaseException):
    """Raised by a check."""


def ending() -> None:
    raise Unwanted


def test_a_checkpoint_calls_the_check_of_its_own_thread_while_it_stands() -> None:
    checkpoint()
    with checked_by(ending):
        with pytest.raises(Unwanted):
            checkpoint()
        with checked_by(lambda: None):
            checkpoint()
        with pytest.raises(Unwanted):
            checkpoint()
        other = threading.Thread(target=checkpoint)
        other.start()
        other.join()
    checkpoint()
