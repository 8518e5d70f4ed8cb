"""Sentences that several instruments share."""

from __future__ import annotations

import pytest

from leakmeter.report import words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "under 1 s"), (1.2, "about 1 s"), (11.7, "about 12 s"), (99.4, "about 99 s"), (150, "about 2.5 min"),
        (1500, "about 25 min"), (9000, "about 2.5 h"), (90_000, "about 25 h"),
    ],
)  # fmt: skip
def test_a_predicted_time_has_two_digits_at_most(seconds: float, said: str) -> None:
    assert words.about_seconds(seconds) == said
