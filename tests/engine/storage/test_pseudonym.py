"""What stands for people's data in a run."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from leakmeter.engine.storage.pseudonym import FILE, pseudonym, subject_key
from leakmeter.errors import StoreError


def test_equal_is_equal_and_different_is_different() -> None:
    key = b"k" * 32
    parts = ((key, "phone", "1"), (key, "phone1", ""), (key, "", "phone1"), (key, "phone"), (b"o" * 32, "phone", "1"))
    made = [pseudonym(*some) for some in parts]
    assert made == [pseudonym(*some) for some in parts]
    assert len(set(made)) == len(made)
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in made)


def test_the_key_stays_and_is_the_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    key = subject_key(folder)
    assert subject_key(folder) == key
    assert len(key) == 32
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    with pytest.raises(StoreError, match="LEAKMETER_CONFIG"):
        subject_key(tmp_path / "config")
