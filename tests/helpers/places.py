"""Where things lie: the checkout, its tests, and data beside it that not every machine has."""

import os
import sys
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
SAMPLES = ROOT / "src" / "leakmeter" / "data" / "samples"
SHARED = ROOT.parent / "shared"


def later(name: str) -> Any:
    """A library that is imported when it is first used, and not by whoever collects the file; skips it without it."""
    found = sys.modules.get(name)
    if found is None:
        spec = util.find_spec(name)
        if spec is None or spec.loader is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
        spec.loader = util.LazyLoader(spec.loader)
        sys.modules[name] = found = util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return found


def script(path: Path) -> ModuleType:
    """A module by its file, of no package."""
    spec = util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[path.stem] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _any_text_names_a_file() -> bool:
    try:
        os.fsencode("ń 🙂")
    except UnicodeEncodeError:
        return False
    return True


any_name = pytest.mark.skipif(not _any_text_names_a_file(), reason="this locale names files in few characters")
