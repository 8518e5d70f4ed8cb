"""`leakmeter runs show`: what one run measured, how, and what it took."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.core.plain import visible

if TYPE_CHECKING:
    from leakmeter.runs.catalogue import Summary

_GROUPS: Final = {"parameters": "params", "prompts": "prompts", "model": "model", "versions": "environment"}
"""Headings, and what stands under them in a spec."""


def show(run: str, /, *, runs: Path = Path("runs"), json: Flag = False) -> None:
    """Show what a run measured, with which settings, model and versions, and what it took.

    Parameters
    ----------
    run
        The run.
    runs
        Directory of runs, where the run is given by name.
    json
        Write one JSON object instead.
    """
    from leakmeter.runs.catalogue import find_run, summary

    path = find_run(run, runs)
    told = _told(path, summary(path))
    if json:
        output.print_plain(json_format.dumps(told, indent=2) + "\n")
        return
    # A line of what was given, such as a command, does not pass for one of this.
    sys.stdout.write("".join(visible(line).replace("\n", "␊") + "\n" for line in _lines(told)))


def _told(path: Path, found: Summary) -> dict[str, Any]:
    entry, told = found.entry, found.told
    return {
        "run": entry.name,
        "directory": str(path),
        "state": entry.state,
        "finished": entry.finished,
        "measure": entry.measure,
        "cases": entry.n_cases,
        "cases_finished": entry.n_cases_finished,
        "measurements": found.n_measurements,
        **{heading: dict(told.get(name) or {}) for heading, name in _GROUPS.items()},
        "version": entry.version,
        "command": told.get("command"),
        "cost": asdict(found.cost),
        "warnings": list(_warnings(found)),
    }


def _warnings(found: Summary) -> Iterator[str]:
    entry = found.entry
    if entry.outdated:
        yield entry.outdated
    if entry.state == "unfinished":
        yield "not complete: the same command goes on with it"
    if found.cost.halvings:
        yield f"memory ran out {found.cost.halvings} times; last digits may differ from a run with less --memory"
    problems = found.told.get("problems") or []
    if problems:
        yield f"left out {len(problems)} bad case{'s' if len(problems) > 1 else ''}; the first: {problems[0]}"


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    n_cases, n_done = told["cases"], told["cases_finished"]
    when = f", {told['finished']}" if told["finished"] else ""
    yield told["run"]
    yield f"  directory   {told['directory']}"
    yield f"  state       {told['state']}{when}"
    yield f"  measure     {told['measure']}"
    yield f"  cases       {n_cases:,}" if n_cases == n_done else f"  cases       {n_done:,} of {n_cases or '?'}"
    yield f"  measurements  {told['measurements']:,} numbers"
    cost = told["cost"]
    yield (
        f"  cost        {cost['seconds']:,.1f} s; {cost['requests']:,} prompts; {cost['tree_tokens']:,} tokens run, "
        f"where full passes take {cost['naive_tokens']:,}"
    )
    yield f"  leakmeter   {told['version']}"
    yield f"  command     {told['command'] or 'none: made in Python'}"
    for heading in _GROUPS:
        yield f"  {heading}"
        for name, value in told[heading].items():
            yield f"    {name} = {json_format.dumps(value, ensure_ascii=False)}"
    for warning in told["warnings"]:
        yield f"  warning: {warning}"
