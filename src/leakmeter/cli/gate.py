"""`leakmeter gate`: finished runs held against bounds and a baseline, for continuous integration."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Container, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import FlagOption
from leakmeter.errors import StoreError, UsageError

if TYPE_CHECKING:
    from leakmeter.core.quantity import Check
    from leakmeter.products.gate.baseline import Held
    from leakmeter.products.gate.bounds import Bound
    from leakmeter.results.results import MeasuredCases


def gate(
    *run: str,
    runs: Annotated[list[Path] | None, Parameter(negative="")] = None,
    latest: FlagOption = False,
    upper: Annotated[list[str] | None, Parameter(name="--max", negative="")] = None,
    lower: Annotated[list[str] | None, Parameter(name="--min", negative="")] = None,
    confident: FlagOption = False,
    allow_drawn: FlagOption = False,
    against: Path | None = None,
    write_baseline: Path | None = None,
    junit: Path | None = None,
    json: FlagOption = False,
) -> None:
    """Check finished runs against bounds and a baseline; exit with 1 if one is broken.

    Name the runs, or give --latest, or give only --runs for all finished runs of a directory, of which none may be
    damaged. A bound applies to every run that has its quantity, and is broken if any of them breaks it.

    After a search (--search), a number may be a lower bound, as influence.worst_piece is. If it exceeds an upper bound,
    the bound is broken; otherwise the bound is undecided, and the command exits with 2.

    A bound names QUANTITY.AGGREGATE: influence.p95, influence.max, icl.accuracy, generate.ratio. Aggregates over the
    cases are mean, median, min, max and p1 to p99; per-case quantities need one, except where one is obvious. An
    unknown name prints the list of quantities.

    Parameters
    ----------
    run
        A run, by its directory or its name.
    runs
        Directory of runs, or its URL in an object store; runs by default. Repeat for further directories; a single run
        is allowed too.
    latest
        Of the directory's runs that have the quantities of all bounds and of the baseline, take the one that a command
        finished last, or found finished, and print which one it is. If a later run of these is not finished
        or is damaged, refuse.
    upper
        Upper bound, such as "influence.disclosures.personal <= 0"; repeat for further bounds.
    lower
        Lower bound, such as "icl.accuracy >= 0.8"; repeat for further bounds.
    confident
        Require the whole 95 % interval over the cases to be within the bound, not only the value.
    allow_drawn
        Let responses count that were drawn from the scoring model; without it, a run of influence or redact with any
        fails.
    against
        Baseline file. A run fails if it is worse than the baseline by more than chance and noise.
    write_baseline
        Write the quantities that bounds name, or each run's main quantity, case by case, to this file, if all bounds
        hold.
    junit
        Write JUnit XML to this file.
    json
        Print one JSON object instead; null means that a value is missing.
    """
    from leakmeter.core.files import write_whole
    from leakmeter.products.gate.answers import given_checks, notes
    from leakmeter.products.gate.bounds import check_bounds, parse_bound
    from leakmeter.products.gate.gate_words import to_junit
    from leakmeter.results.results import read_measured

    bounds = [parse_bound(text, "max") for text in upper or ()] + [parse_bound(text, "min") for text in lower or ()]
    if latest and run:
        raise UsageError("--latest selects the run itself; leave the names of runs out")
    if not (run or latest or runs):
        raise UsageError("no run is given; give the directory of one, such as runs/influence-…, or --latest")
    if not bounds and against is None and write_baseline is None:
        raise UsageError("nothing to check the run against; give --max, --min or --against, or --write-baseline")
    written = {"baseline": write_baseline, "JUnit file": junit}
    roots = runs or [Path("runs")]
    names = [bound.name for bound in bounds]
    run_paths = [_latest(roots, names, against)] if latest else _directories(run, roots)
    for noun, path in written.items():
        if path is not None:
            output.check_writable(path, noun, run_paths, against)
    output.check_apart(write_baseline=write_baseline, junit=junit)
    measured = [read_measured(path) for path in run_paths]
    checks = check_bounds(measured, bounds, confident=confident)
    held = [] if against is None else _held(measured, against)
    checks += [check for held_run in held for check in held_run.checks]
    checks += [] if allow_drawn else given_checks(measured)
    not_about = list(notes(measured, allow_drawn=allow_drawn))
    holds = all(check.holds for check in checks)
    if junit is not None:
        write_whole(junit, to_junit(checks), public=True)
    if write_baseline is not None and holds:
        _write_baseline(measured, bounds, write_baseline)
        output.tell(f"baseline: {write_baseline}")
    if json:
        against_baseline = [
            {name: value for name, value in asdict(held_run).items() if name != "checks"} for held_run in held
        ]
        undecided = any(check.undecided for check in checks)
        record = {"holds": holds, "undecided": undecided, "checks": list(map(asdict, checks)), "notes": not_about}
        output.print_json({**record, "baseline": against_baseline})
    else:
        _print(checks, held)
        for line in not_about:
            output.print_text(f"note    {line}")
    if write_baseline is not None and not holds:
        output.tell(f"leakmeter: baseline '{write_baseline}' is not written, since not all bounds hold")
    if not holds:
        sys.exit(1 if any(check.verdict == "broken" for check in checks) else 2)


def _directories(names: Sequence[str], roots: Sequence[Path]) -> list[Path]:
    from leakmeter.engine.storage.catalogue import find_run

    if names:
        return [find_run(name, *roots) for name in names]
    paths, damaged = _finished(roots)
    # What it would leave out might break a bound.
    for problem in damaged.values():
        raise problem
    return paths


def _finished(roots: Sequence[Path]) -> tuple[list[Path], dict[Path, StoreError]]:
    """Complete runs, and damaged ones with what is wrong with them."""
    from leakmeter.engine.storage.catalogue import complete_runs

    paths, damaged = list[Path](), dict[Path, StoreError]()
    for root in roots:
        complete, problems = complete_runs(root)
        paths += complete
        damaged |= problems
    if not (paths or damaged):
        raise StoreError(f"no finished run under {_places(roots)}; name their directory with --runs")
    return paths, damaged


def _latest(roots: Sequence[Path], names: Sequence[str], against: Path | None) -> Path:
    """The run that a command finished last, or found finished, of those that have the quantities of these names and are
    of an instrument that the baseline is of."""
    from leakmeter.core import registry
    from leakmeter.engine.storage.catalogue import entry_of, label, moment
    from leakmeter.engine.storage.rundir import RunDirectory
    from leakmeter.products.gate.baseline import read_baseline
    from leakmeter.products.gate.bounds import unknown_quantity
    from leakmeter.results.results import named_quantity

    paths, damaged = _finished(roots)
    if not paths:
        raise next(iter(damaged.values()))
    entries = {path: entry_of(path) for path in (*paths, *damaged)}
    quantities = {
        measure: registry.instrument(measure).result.quantities
        for measure in {entry.measure for entry in entries.values()}
        if measure in registry.instruments()
    }
    for name in names:
        if all(named_quantity(known, name) is None for known in quantities.values()):
            raise unknown_quantity(name, {quantity.name for known in quantities.values() for quantity in known})
    measures = set(quantities) if against is None else {kept.measure for kept in read_baseline(against).runs}
    having = {
        measure
        for measure, known in quantities.items()
        if measure in measures and all(named_quantity(known, name) is not None for name in names)
    }
    fitting = [path for path in paths if entries[path].measure in having]
    ended = max((RunDirectory(path).last_ended for path in fitting), default=0.0)
    for path, problem in damaged.items():
        # Of what nothing can be read it is not known that it has not these quantities.
        if entries[path].measure in {None, *having} and RunDirectory(path).last_ended >= ended:
            raise StoreError(f"a later run cannot be checked, and --latest would check an older one: {problem}")
    if not fitting:
        scope = f"has all of {', '.join(names)}" if names else "has the measures of the baseline"
        besides = " and has the measures of the baseline" if names and against is not None else ""
        raise UsageError(
            f"no finished run under {_places(roots)} {scope}{besides}; give the bounds of each instrument a command of "
            "their own, or name the run"
        )
    last = max(fitting, key=lambda path: RunDirectory(path).last_ended)
    _refuse_older(last, roots, {None, *having})
    entry = entries[last]
    # Not by its name, which is a hash of private texts.
    n = "1 case" if entry.n_cases == 1 else f"{entry.n_cases:,} cases"
    about = ", ".join(filter(None, (entry.measure, n, label(entry))))
    confirmed = moment(RunDirectory(last).last_ended)
    again = "" if confirmed == entry.finished else f", found finished again {confirmed[:16].replace('T', ' ')} UTC"
    scope = "" if len(fitting) == len(paths) else " with these quantities"
    output.tell(f"run 1: {about}{again}: the last of {len(fitting)}{scope} under {_places(roots)}")
    return last


def _refuse_older(last: Path, roots: Sequence[Path], measures: Container[str | None]) -> None:
    """`UsageError` where a later run of one of the measures is not finished: a build whose measurement ended early
    would pass by the run of an earlier build."""
    from leakmeter.engine.storage.catalogue import entry_of, moment, unfinished_runs
    from leakmeter.engine.storage.rundir import RunDirectory

    ended = RunDirectory(last).last_ended
    for path in (path for root in roots for path in unfinished_runs(root)):
        entry, written = entry_of(path), RunDirectory(path).last_written
        if entry.measure in measures and written > ended:
            n, n_all = entry.n_cases_finished or 0, "?" if entry.n_cases is None else f"{entry.n_cases:,}"
            raise UsageError(
                f"a later run of {entry.measure or 'what cannot be read'} is not finished ({n:,} of {n_all} cases, "
                f"{moment(written)[:16].replace('T', ' ')} UTC), and --latest would check an older one; give its "
                "command again, remove it, or name the run to check"
            )


def _places(roots: Sequence[Path]) -> str:
    return " and ".join(f"'{root}'" for root in roots)


def _held(runs: Sequence[MeasuredCases], path: Path) -> list[Held]:
    from leakmeter.products.gate.baseline import hold_against, read_baseline

    baseline, key = read_baseline(path), _key()
    if len(baseline.runs) > len(runs):
        raise UsageError(f"the baseline has {len(baseline.runs)} runs, and you gave {len(runs)}; give all of them")
    return [hold_against(run, number, baseline, key) for number, run in enumerate(runs, 1)]


def _write_baseline(runs: Sequence[MeasuredCases], bounds: Sequence[Bound], path: Path) -> None:
    from leakmeter.core.files import write_whole
    from leakmeter.products.gate.baseline import baseline_of, left_out_lines

    bounded = {named[0].name for run in runs for bound in bounds if (named := run.named(bound.name))}
    baseline = baseline_of(runs, bounded, _key())
    for number, run in enumerate(runs, 1):
        for line in left_out_lines(run, baseline.runs[number - 1].quantities):
            output.tell(f"run {number}: {line}")
    kept = baseline.to_dict()
    # It holds no text, and is kept with a project's sources.
    write_whole(path, json_format.dumps(kept, indent=1, allow_nan=False).encode() + b"\n", public=True)


def _key() -> bytes:
    from leakmeter.engine.storage.pseudonym import subject_key
    from leakmeter.models import config_dir

    return subject_key(config_dir())


def _print(checks: Sequence[Check], held: Sequence[Held]) -> None:
    from leakmeter.products.gate.gate_words import check_lines, setting_line

    lines = check_lines(checks)
    for number, held_run in enumerate(held, 1):
        run = f"run {number}: " if len(held) > 1 else ""
        lines += [f"note    {run}differs: {setting_line(s.name, s.first, s.second)}" for s in held_run.settings]
        if held_run.n_unknown_settings:
            lines.append(
                f"note    {run}{held_run.n_unknown_settings} settings were hashed with another key and cannot be "
                "compared"
            )
        if held_run.by_order:
            lines.append(f"note    {run}ids of the baseline were hashed with another key, so cases are paired by order")
        if held_run.n_only_now or held_run.n_only_then:
            lines.append(
                f"note    {run}{held_run.n_only_now} cases are new, {held_run.n_only_then} of the baseline's are gone"
            )
    for line in lines:
        output.print_text(line)
