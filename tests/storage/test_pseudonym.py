"""What stands for people's data in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakmeter.errors import StoreError
from leakmeter.storage.pseudonym import pseudonym, subject_key


def test_equal_is_equal_and_different_is_different() -> None:
    key = b"k" * 32
    parts = ((key, "phone", "1"), (key, "phone1", ""), (key, "", "phone1"), (key, "phone"), (b"o" * 32, "phone", "1"))
    made = [pseudonym(*some) for some in parts]
    assert made == [pseudonym(*some) for some in parts]
    assert len(set(made)) == len(made)
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in made)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    with pytest.raises(StoreError, match="LEAKMETER_CONFIG"):
        subject_key(tmp_path / "config")
