"""The library is typed: options come from the dataclasses, for editors and type checkers as for `help`."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from helpers.places import ROOT
from helpers.typed_surface import functions, stub
from leakmeter.engine.loading import LOAD_OPTIONS

STUB = ROOT / "src" / "leakmeter" / "_typed.pyi"
PROGRAM = """
import leakmeter
from leakmeter.testing import assert_leakage

meter = leakmeter.Meter("toy", dtype="float64")
one = meter.influence(context="Ana is 41.", query="How old?", response="41", unit="word")
reveal_type(one)
reveal_type(one.pieces[0].nats)
many = meter.influence([{"context": "Ana is 41."}], max_new_tokens=2, progress=True)
reveal_type(many)
reveal_type(many[0])
reveal_type(many["1"].whole_nats)
reveal_type(meter.icl([{"said": "Hail."}], task="agnews", exemplars=[])[0].loss_nats)
reveal_type(leakmeter.decode("toy", context="Ana is 41.", epsilon=1.0))
reveal_type(leakmeter.generate("toy", ["a", "b"], epsilon=14.0, seed=None))
assert_leakage({"context": "Ana is 41."}, max_nats=3.0, meter=meter)
meter.influence(context="Ana is 41.", unti="word")
meter.influence(context="Ana is 41.", samples="two")
"""
RESULT = "leakmeter.instruments.influence.result.InfluenceResult"
REVEALED = [
    *(RESULT, "float", f"leakmeter.results.results.Results[{RESULT}]", RESULT, "float", "float"),
    "leakmeter.instruments.decoding.result.DecodeResult",
    "leakmeter.results.results.Results[leakmeter.instruments.generation.result.PrivateGenerationResult]",
]
OVERRIDING = """
class Base:
    def record(self) -> int:
        return 1


class Marked(Base):
    @override
    def record(self) -> int:
        return 2


class Renamed(Base):
    @override
    def told(self) -> int:
        return 3


class Unmarked(Base):
    def record(self) -> int:
        return 4
"""
NEEDS_MYPY = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")


def test_the_stub_is_made_of_the_signatures() -> None:
    if os.environ.get("LEAKMETER_SNAPSHOTS") == "1":
        STUB.write_text(stub(), encoding="utf-8")
    assert STUB.read_text(encoding="utf-8") == stub(), "run this test with LEAKMETER_SNAPSHOTS=1"


def test_every_option_is_that_of_its_dataclass() -> None:
    for function in functions().values():
        shown = inspect.signature(function).parameters
        for part in function.parts.values():
            defaults = {field.name: field for field in fields(part.kind)}
            for option in part.names:
                assert shown[option].annotation == defaults[option].type
                if shown[option].default not in (..., inspect.Parameter.empty):
                    assert shown[option].default == defaults[option].default
        if hasattr(function, "on"):
            own = [one for one in shown if one not in LOAD_OPTIONS]
            assert list(inspect.signature(function.on).parameters) == own


def checked(program: str, directory: Path, *words: str) -> list[str]:
    """What mypy says of a program."""
    (directory / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, "--cache-dir", "cache", "--no-error-summary", "program.py"],
        cwd=directory,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=1200,
    )
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
    lines = checked(PROGRAM, tmp_path, "--strict")
    # Releases of mypy differ in how they call what is built in.
    assert [line.split('"')[1].removeprefix("builtins.") for line in lines if "Revealed" in line] == REVEALED
    errors = [line for line in lines if ": error:" in line]
    # Of an unknown keyword mypy may say two things: that it is unknown, and that no overload has it.
    assert {line.split(":")[1] for line in errors} == {"17", "18"}, lines
    assert all("[call-overload]" in line for line in errors)
