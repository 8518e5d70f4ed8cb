"""Amounts of memory as users write them."""

from __future__ import annotations

import pytest

from leakmeter.core.limits import parse_memory
from leakmeter.errors import UsageError

AMOUNTS = (
    *(("64MiB", 2**26), ("2GiB", 2**31), ("1.5 GB", 1_500_000_000), (" 512MiB ", 2**29)),
    *(("65536KiB", 2**26), ("100 MB", 10**8), ("100000kB", 10**8)),
)


def test_amounts_have_units_and_anything_else_is_refused_with_what_to_give() -> None:
    for text, n_bytes in AMOUNTS:
        assert parse_memory(text) == n_bytes
    for text in ("", "2", "2G", "-1GiB", "1e3MiB", "GiB", "2 GiB please", "nan GiB", "٢GiB"):
        with pytest.raises(UsageError, match="give a number with its unit"):
            parse_memory(text)
    with pytest.raises(UsageError, match="at least 64MiB"):
        parse_memory("1KiB")
