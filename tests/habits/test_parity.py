"""What the command line can, the library can; and what it says of itself runs."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import leakmeter
from leakmeter import testing
from leakmeter.cli import program
from leakmeter.errors import LeakmeterError

OTHERWISE = {
    "generate calibrate": "calibrate", "decode frontier": "frontier", "models": "list_models",
    "models pull": "pull_model", "pii probe": "pii", "runs query": "query", "report": "save_report",
    "runs compare": "compare_runs", "runs export": "export_run", "runs list": "list_runs",
    "runs rename": "rename_run", "runs show": "load_run", "runs verify": "verify_run", "runs schema": "schema",
    "study list": "list_studies", "study run": "study", "doctor tokens": "tokens",
}  # fmt: skip
"""Commands whose function has another name than 'icl_select' of 'icl select'."""
COMMAND_LINE_ONLY = {
    "models cache": "the cache of the user, which a program sets with cache= and LEAKMETER_SCORES",
    "models cache clear": "likewise",
    "demo": "a first look",
    **{
        f"ledger {name}": "a directory that belongs to an installation; programs ask it by `Guard`"
        for name in ("add", "check", "forget", "query", "report", "show", "verify")
    },
    "runs complete": "ends jobs of an array, each a command with --part",
    "study regurgitation": "counts over a CSV file of another program's responses",
    "serve": "pages for browsers; programs have the library",
}
# The model, or its tuning, is more than an example may take.
WITHOUT_EXAMPLE = {"pull_model", "pii_check", "pii_insert", "pii_tune"}


def commands() -> set[str]:
    """Every command, with its group's name in front."""
    found: set[str] = set()
    left = [(name, program([name])[name]) for name in program() if not name.startswith("-")]
    for name, app in left:
        shown = [one for one in app if not one.startswith("-") and app[one].show]
        left += [(f"{name} {one}", app[one]) for one in shown]
        found |= {name} if not shown or app.default_command is not None else set()
    return found


def test_what_the_command_line_can_the_library_can() -> None:
    found = commands()
    assert OTHERWISE.keys() | COMMAND_LINE_ONLY.keys() <= found
    functions = {OTHERWISE.get(command, command.replace(" ", "_")) for command in found - COMMAND_LINE_ONLY.keys()}
    assert functions <= set(leakmeter.__all__)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if name == "check_installation" else name
        for name in (*(name for name in leakmeter.__all__ if not name.startswith("__")), "assert_leakage")
    ],
)
def test_what_is_public_is_told_and_its_example_runs(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = getattr(testing if name == "assert_leakage" else leakmeter, name)
    told = inspect.getdoc(found) or ""
    assert told.splitlines()[0].endswith("."), "no summary"
    if inspect.isfunction(found):
        named = [one for one in inspect.signature(found).parameters if one not in getattr(found, "parts", {})]
        assert ("Args:" in told) == bool(named)
        assert "Returns:" in told or inspect.signature(found).return_annotation in (None, "None")
    tests = doctest.DocTestFinder(recurse=False).find(found, name, module=False, globs={})
    is_result = inspect.isclass(found) and name.endswith("Result")
    exempt = name in WITHOUT_EXAMPLE or is_result or (inspect.isclass(found) and issubclass(found, LeakmeterError))
    assert bool(tests and tests[0].examples) != exempt
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    if tests and not exempt:
        if name == "Meter":
            tests[0].globs["Meter"] = leakmeter.Meter
        assert runner.run(tests[0]).failed == 0
