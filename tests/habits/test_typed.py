"""The library is typed: options come from the dataclasses, for editors and type checkers as for `help`."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import leakmeter
from helpers import public_names
from helpers.places import ROOT
from leakmeter.core.folder import imports_of
from leakmeter.engine.loading import load_backend
from leakmeter.engine.options import MODEL_OPTIONS

PROGRAM = ROOT / "tests" / "helpers" / "typed_program.py"
OVERRIDING = """
class Base:
    def record(self) -> int: return 1
class Marked(Base):
    @override
    def record(self) -> int: return 2
class Renamed(Base):
    @override
    def told(self) -> int: return 3
class Unmarked(Base):
    def record(self) -> int: return 4
"""
NEEDS_MYPY = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")


def test_options_of_a_model_are_those_of_load_backend() -> None:
    loading = inspect.signature(load_backend).parameters
    assert [*MODEL_OPTIONS, "notify"] == [name for name in loading if name != "model"]
    for function in (leakmeter.influence, leakmeter.frontier):
        shown = inspect.signature(function).parameters
        assert [shown[name] for name in MODEL_OPTIONS] == [loading[name] for name in MODEL_OPTIONS]
        others = [name for name in shown if name not in MODEL_OPTIONS]
        assert list(inspect.signature(function.on).parameters) == others


def test_a_function_shows_its_options_with_types_and_defaults() -> None:
    text = str(inspect.signature(leakmeter.redact)).replace("'", "")
    assert text.startswith(
        "(model: Any = smollm2-135m, data: Any = None, *, max_loss: float | None = None, samples: int = 0, "
    )
    assert text.endswith(" = False) -> RedactionResult | Results[RedactionResult]")
    assert "unit: str | None = None, removal: Removal = drop, " in text
    assert "swap" not in text
    assert "beams: tuple[int, ...] = (2,)" in str(inspect.signature(leakmeter.pii)).replace("'", "")
    assert str(inspect.getdoc(leakmeter.Meter("toy").redact.func)).startswith("Find few pieces")


def test_public_names_are_those_that_instruments_say() -> None:
    """For type checkers and lazy names; `LEAKMETER_SNAPSHOTS=1` writes them."""
    if os.environ.get("LEAKMETER_SNAPSHOTS"):
        public_names.PLACE.write_text(public_names.written(), encoding="utf-8")
    assert public_names.PLACE.read_text(encoding="utf-8") == public_names.written()
    assert set(imports_of("leakmeter.instruments", "public.py")) <= set(leakmeter.__all__)


def test_a_stub_is_read_as_type_checkers_read_it() -> None:
    nodes = ast.parse((ROOT / "src" / "leakmeter" / "__init__.pyi").read_text(encoding="utf-8")).body
    imported = {alias.name: node.module for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported.pop("*") == "leakmeter.instruments.public"
    assert imports_of("leakmeter") == {**imported, **imports_of("leakmeter.instruments", "public.py")}


def test_a_meter_has_every_function_of_a_model() -> None:
    shown = {name for name in dir(leakmeter.Meter("toy")) if not name.startswith("_")}
    functions = {name for name in leakmeter.__all__ if hasattr(getattr(leakmeter, name), "on")}
    assert shown - {"backend", "kept_model"} == functions - {"tokens"}


def checked(program: str, directory: Path, *words: str) -> list[str]:
    (directory / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", *words, "--cache-dir", "cache", "--no-error-summary", "program.py"]
    env = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=1200)
    return done.stdout.splitlines()


@pytest.mark.long
@NEEDS_MYPY
def test_a_method_that_overrides_has_its_mark_and_no_other_has_it(tmp_path: Path) -> None:
    module = (ROOT / "src" / "leakmeter" / "overriding.py").read_text(encoding="utf-8")
    said = checked(module + OVERRIDING, tmp_path, "--config-file", str(ROOT / "pyproject.toml"))
    assert len(said) == 2, said
    assert 'Method "told" is marked as an override, but no base method was found' in said[0]
    assert 'Method "record" is not using @override' in said[1]


@pytest.mark.long
@NEEDS_MYPY
def test_a_program_of_a_user_is_checked(tmp_path: Path) -> None:
    program = PROGRAM.read_text(encoding="utf-8")
    lines = {number: re.search(r"  # ([a-z-]+)$", line) for number, line in enumerate(program.splitlines(), 1)}
    refused = {(number, found[1]) for number, found in lines.items() if found}
    said = [line for line in checked(program, tmp_path, "--strict") if ": error:" in line]
    # Of an unknown keyword mypy may say two things: that it is unknown, and that no overload has it.
    assert {(int(line.split(":")[1]), line.split("[")[-1].rstrip("]")) for line in said} == refused, said


def test_a_package_whose_names_were_used_is_an_attribute_of_the_one_that_it_is_in() -> None:
    code = "import leakmeter; leakmeter.influence; import leakmeter.instruments; print(leakmeter.instruments.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "leakmeter.instruments\n"
