"""Where things lie: the checkout, its tests, and data beside it that not every machine has."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
SAMPLES = ROOT / "src" / "leakmeter" / "samples"
SHARED = ROOT.parent / "shared"
