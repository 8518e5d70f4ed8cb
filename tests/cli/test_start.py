"""Asking for help costs nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import leakmeter

Call = Callable[..., Any]
HEAVY = ("torch", "transformers", "pandas", "pyarrow", "tokenizers", "gguf", "rich.progress", "safetensors", "duckdb")
MOST_MODULES = 500
"""There were 418 when this was written."""


@pytest.mark.parametrize(
    "line", ["--help", "influence --help", "models", "models cache", "study regurgitation --csv x.csv"]
)
def test_nothing_heavy_is_imported_without_need(line: str, tmp_path: Path) -> None:
    """By what is loaded, most of the time: a clock says more of the machine than of the program."""
    words = line.split()
    (tmp_path / "x.csv").write_text("generations,contexts\na,b\n", encoding="utf-8")
    code = (
        "import sys\nfrom leakmeter.cli import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        f"print(len(sys.modules), *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    n_modules, *heavy = ended.stdout.splitlines()[-1].split()
    assert heavy == []
    assert words != ["--help"] or int(n_modules) < MOST_MODULES


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    from leakmeter.cli import _COMMANDS, program

    for name, (_, text) in _COMMANDS.items():
        command = program([name])[name]
        own = command.help or command.default_command.__doc__
        assert own.strip().splitlines()[0] == text, name
        assert program()[name].help == text


def test_importing_the_package_imports_nothing_of_it_and_every_public_name_is_there() -> None:
    code = (
        "import sys, leakmeter\n"
        "ours = {'leakmeter', 'leakmeter.instruments'}\n"
        "print([m for m in sys.modules if m.startswith(('leakmeter', 'numpy')) and m not in ours], dir(leakmeter))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith(f"[] {sorted(leakmeter.__all__)}")
    for name in leakmeter.__all__:
        assert name == "__version__" or getattr(leakmeter, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        leakmeter.nosuch  # noqa: B018


def test_version_and_entry_point(cli: Call) -> None:
    version = metadata.version("leakmeter")
    assert cli("--version").out == f"{version}\n"
    assert leakmeter.__version__ == version
    (point,) = [p for p in metadata.entry_points(group="console_scripts") if p.name == "leakmeter"]
    assert point.value == "leakmeter.cli:main"
