"""Where things lie: the checkout, its tests, and data beside it that not every machine has."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
SAMPLES = ROOT / "src" / "leakmeter" / "samples"
SHARED = ROOT.parent / "shared"


def _any_text_names_a_file() -> bool:
    try:
        os.fsencode("ń 🙂")
    except UnicodeEncodeError:
        return False
    return True


any_name = pytest.mark.skipif(not _any_text_names_a_file(), reason="this locale names files in few characters")
