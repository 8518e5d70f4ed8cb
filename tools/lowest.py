"""Run the quick tests with the lowest versions that pyproject.toml allows, in an environment of its own.

    python tools/lowest.py                  # needs uv (pip install uv) and Python 3.11
    python tools/lowest.py tests/backends   # some of the tests

Direct dependencies are the oldest that pyproject.toml allows, what they need in turn is the newest. Warnings of old
libraries about still older ones are no failure.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = "3.11"
"""The oldest: what is newest there is oldest elsewhere."""
LEFT_OUT: Final = ("tests/habits", "tests/golden")
"""The first test the checkout and its documents, the second last digits, which are those of the locked versions."""


def main() -> None:
    """Resolve, install, test."""
    with tempfile.TemporaryDirectory(prefix="leakmeter-lowest-") as folder:
        pins, venv = f"{folder}/lowest.txt", Path(folder) / "venv"
        compiled = ["uv", "pip", "compile", "pyproject.toml", "--extra", "test", "--resolution", "lowest-direct"]
        run(*compiled, "--python-version", PYTHON, "-q", "-o", pins)
        run("uv", "venv", "-q", "--python", PYTHON, str(venv))
        python = str(venv / "bin" / "python")
        run("uv", "pip", "install", "-q", "--python", python, "-r", pins)
        run("uv", "pip", "install", "-q", "--python", python, "--no-deps", ".")
        words = sys.argv[1:] or ["tests", *(f"--ignore={path}" for path in LEFT_OUT)]
        run(python, "-m", "pytest", "-n", "2", "-W", "default", "-m", "not long and not hub", *words)


def run(*words: str) -> None:
    """A command, in the checkout; where it fails, this ends with its code."""
    print("+", *words, flush=True)
    code = subprocess.run(words, cwd=ROOT, check=False).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
