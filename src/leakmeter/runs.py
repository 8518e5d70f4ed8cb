"""What programs ask of finished runs: a question in SQL, bounds, a comparison, a list, an export and a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.plain import several
from leakmeter.errors import StoreError, UsageError
from leakmeter.overriding import override

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.core.quantity import Check
    from leakmeter.engine.storage.catalogue import Entry
    from leakmeter.engine.storage.verify import Verified
    from leakmeter.products.gate.baseline import Held
    from leakmeter.products.gate.bounds import Bound
    from leakmeter.products.gate.compare import Comparison
    from leakmeter.results.results import MeasuredCases

_DOCTOR: Final = "doctor"
AnyRun = Any
"""A `Run`, its directory, or as much of its name as tells it from others."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """Runs held against bounds and a baseline."""

    checks: tuple[Check, ...]
    """One a bound and run, and one a quantity of the baseline."""
    held: tuple[Held, ...] = ()
    """Of each run, how it compares with the baseline."""
    notes: tuple[str, ...] = ()
    """What the checks are not about: responses that were drawn, answers that were not measured, cases left out."""

    @property
    def holds(self) -> bool:
        """Whether nothing is broken, and nothing undecided."""
        return all(check.holds for check in self.checks)

    @property
    def undecided(self) -> tuple[Check, ...]:
        """Checks that neither hold nor are broken, since of some cases only a lower bound is known."""
        return tuple(check for check in self.checks if check.undecided)

    @override
    def __str__(self) -> str:
        from leakmeter.products.gate.gate_words import check_lines

        return "\n".join([*check_lines(self.checks), *(f"note    {line}" for line in self.notes)])


def query(sql: str, runs: str | Path = "runs", *, memory: str = "4GiB", max_seconds: float = 600.0) -> pd.DataFrame:
    """Query finished runs in SQL.

    Args:
        sql: one SELECT over the views that `leakmeter runs query --schema` lists. DuckDB answers; it reads the runs and
            nothing else, and changes nothing.
        runs: directory of runs, or one run.
        memory: most that the query may take, such as '512MiB' or '8GiB'; see docs/runs.md for systems other than Linux.
        max_seconds: most time that the query may take, seconds.

    Returns:
        The rows as a frame.

    Raises:
        StoreError: no finished run is there.
        UsageError: the query cannot be answered, or takes too much; says why.

    Examples:
        >>> import leakmeter, tempfile
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     frame = leakmeter.query("select measure, n_cases from runs", runs)
        >>> frame["measure"].tolist()
        ['influence']
    """
    import pandas as pd

    from leakmeter.engine.storage.catalogue import complete_runs
    from leakmeter.results.limits import QueryLimits
    from leakmeter.results.query import ask

    finished, _ = complete_runs(Path(runs))
    if not finished:
        raise StoreError(f"no finished run under '{runs}'; give their directory as runs")
    answer = ask(sql, finished, QueryLimits(memory=memory, max_seconds=max_seconds))
    return pd.DataFrame(list(answer.rows), columns=list(answer.columns))


def gate(
    *run: AnyRun,
    max: str | Sequence[str] = (),
    min: str | Sequence[str] = (),
    confident: bool = False,
    allow_drawn: bool = False,
    against: str | Path | None = None,
    runs: str | Path = "runs",
) -> GateResult:
    """Hold finished runs against bounds and a baseline.

    Args:
        run: runs: objects, directories or names.
        max: what may be at most so much, such as 'influence.disclosures.personal <= 0'; one or several.
        min: what has to be at least so much, such as 'icl.accuracy >= 0.8'; likewise.
        confident: let a bound hold only where the whole 95 % interval over the cases is within it.
        allow_drawn: let responses count that were drawn from the scoring model; without it, a run of influence or
            redaction with any is broken.
        against: a baseline of `write_baseline`; a run is broken that is worse than it by more than chance and noise.
        runs: directory of runs, where one is given by name.

    Returns:
        The checks, and whether all hold. Of a context that was searched only a lower bound of some quantities is known:
        a bound that this does not decide does not hold.

    Raises:
        UsageError: no run, nothing to hold it against, or a bound of a quantity that there is not.
        StoreError: no such run, or it is damaged.

    Examples:
        >>> import leakmeter, tempfile
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     found = leakmeter.gate(one, max="influence.disclosures.personal <= 0")
        >>> found.holds
        True
    """
    from leakmeter.products.gate.answers import given_checks, notes
    from leakmeter.products.gate.baseline import hold_against, read_baseline
    from leakmeter.products.gate.bounds import check_bounds

    bounds = _bounds(max, "max") + _bounds(min, "min")
    if not run:
        raise UsageError("no run is given; give one, or its directory")
    if not bounds and against is None:
        raise UsageError("nothing to check the run against; give max, min or against")
    measured = [_measured(any_run, runs) for any_run in run]
    checks, held = check_bounds(measured, bounds, confident=confident), list[Any]()
    if against is not None:
        baseline, key = read_baseline(Path(against)), _key()
        if len(baseline.runs) > len(measured):
            raise UsageError(f"the baseline has {len(baseline.runs)} runs, and you gave {len(run)}; give all of them")
        held = [hold_against(measured_run, number, baseline, key) for number, measured_run in enumerate(measured, 1)]
        checks += [check for held_run in held for check in held_run.checks]
    checks += [] if allow_drawn else given_checks(measured)
    return GateResult(tuple(checks), tuple(held), tuple(notes(measured, allow_drawn=allow_drawn)))


def write_baseline(
    path: str | Path, *run: AnyRun, quantities: str | Sequence[str] = (), runs: str | Path = "runs"
) -> Path:
    """Write quantities of runs, case by case, to a file that `gate` holds later runs against; it holds no text.

    Args:
        path: the file; one that is there is replaced.
        run: runs: objects, directories or names.
        quantities: such as 'influence'; each run's main one by default.
        runs: directory of runs, where one is given by name.

    Returns:
        The file's path.

    Raises:
        StoreError: no such run, it is damaged, or the file lies in a run.

    Examples:
        >>> import leakmeter, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     kept = leakmeter.write_baseline(Path(runs) / "baseline.json", one)
        ...     found = leakmeter.gate(one, against=kept)
        >>> found.holds
        True
    """
    import json

    from leakmeter.core.files import check_outside_runs, write_whole
    from leakmeter.products.gate.baseline import baseline_of

    where = Path(path)
    check_outside_runs(where, "baseline")
    kept = baseline_of([_measured(any_run, runs) for any_run in run], set(several(quantities)), _key()).to_dict()
    write_whole(where, json.dumps(kept, indent=1, allow_nan=False).encode() + b"\n", public=True)
    return where


def list_runs(runs: str | Path = "runs") -> list[Entry]:
    """List runs, complete or not, and the directories of studies beside them; no model is loaded.

    Args:
        runs: directory of runs.

    Returns:
        One entry a run or study.

    Examples:
        >>> import leakmeter
        >>> leakmeter.list_runs(".")
        []
    """
    from leakmeter.engine.storage.catalogue import entries

    return entries(Path(runs))


def compare_runs(
    first: AnyRun, second: AnyRun, *, quantities: str | Sequence[str] = (), runs: str | Path = "runs"
) -> Comparison:
    """Compare two runs of one measure case by case: differences, intervals and tests.

    Differences are second − first, means over pairs of cases with the same id, with 95 % intervals; p is of
    Wilcoxon's signed-rank test, by Holm's rule among the quantities.

    Args:
        first: a run: an object, a directory or a name.
        second: another run of the same measure.
        quantities: such as 'influence'; all by default.
        runs: directory of runs, where they are given by name.

    Returns:
        What was set otherwise, and how far each quantity moved; there is no verdict where settings change its meaning.

    Raises:
        UsageError: the runs are of two measures, or share no case.
        StoreError: no such run, or it is damaged.

    Examples:
        >>> import leakmeter, tempfile
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     other = leakmeter.influence("toy", [told], unit="word", out=runs)
        ...     found = leakmeter.compare_runs(one, other, quantities=["influence"])
        >>> found.n_pairs, [setting.name for setting in found.incomparable]
        (1, ['prompts.unit'])
    """
    from leakmeter.products.gate.compare import compare

    return compare(_measured(first, runs), _measured(second, runs), several(quantities))


def verify_run(run: AnyRun, *, runs: str | Path = "runs") -> Verified:
    """Read all of a run again, and say which files are truncated, edited, missing or foreign.

    Args:
        run: an object, a directory or a name.
        runs: directory of runs, where it is given by name.

    Returns:
        Whether it is whole, and what is wrong with which file.

    Raises:
        StoreError: no such run.

    Examples:
        >>> import leakmeter, tempfile
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     found = leakmeter.verify_run(one)
        >>> found.state, found.findings
        ('whole', ())
    """
    from leakmeter.engine.storage.verify import verify

    return verify(_path(run, runs))


def rename_run(run: AnyRun, name: str | None, *, runs: str | Path = "runs") -> None:
    """Rename a run in lists and on pages; its id and its numbers stay the same.

    Args:
        run: an object, a directory or a name.
        name: one line; None takes the name away.
        runs: directory of runs, where it is given by name.

    Raises:
        StoreError: no such run, or another process writes it.
        UsageError: the name is no line of its length, or the run lies in an object store.

    Examples:
        >>> import leakmeter, tempfile
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     leakmeter.rename_run(one, "first try")
        ...     leakmeter.list_runs(runs)[0].given_name
        'first try'
    """
    from leakmeter.core.urls import url_of
    from leakmeter.engine.storage.rundir import RunDirectory
    from leakmeter.engine.storage.spec import checked_name

    if any(url_of(Path(place)) is not None for place in (run, runs) if isinstance(place, str | Path)):
        raise UsageError("a run of an object store keeps its name; rename is for directories")
    RunDirectory(_path(run, runs)).rename(checked_name(name))


def export_run(run: AnyRun, out: str | Path, *, redact: bool = False, runs: str | Path = "runs") -> Path:
    """Write a run as measurements.parquet, cases.jsonl and spec.json, or its measurements alone as CSV.

    Args:
        run: an object, a directory or a name.
        out: a directory that is not there yet, or a file NAME.csv.
        redact: leave out all texts and what texts can be read from; keyed hashes stand for names.
        runs: directory of runs, where it is given by name.

    Returns:
        What was written.

    Raises:
        StoreError: no such run, or it cannot be written.

    Examples:
        >>> import leakmeter, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     written = leakmeter.export_run(one, Path(runs) / "out", redact=True)
        ...     names = sorted(path.name for path in written.iterdir())
        >>> names
        ['cases.jsonl', 'measurements.parquet', 'spec.json']
    """
    from leakmeter.engine.storage.export import Redacted, write

    write(_path(run, runs), Path(out), Redacted(_key()) if redact else None)
    return Path(out)


def save_report(path: str | Path, *run: AnyRun, runs: str | Path = "runs") -> Path:
    """Write one page of several runs: what each found, paired differences, and each run's own page.

    Args:
        path: the file; one that is there is replaced.
        run: runs: objects, directories or names.
        runs: directory of runs, where one is given by name.

    Returns:
        The file's path.

    Raises:
        StoreError: no such run, or the file lies in a run.

    Examples:
        >>> import leakmeter, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     one = leakmeter.influence("toy", [told], out=runs)
        ...     other = leakmeter.influence("toy", [told], temperature=0.7, out=runs)
        ...     page = leakmeter.save_report(Path(runs) / "both.html", one, other)
        ...     text = page.read_text()
        >>> text.startswith("<!doctype html>")
        True
    """
    from leakmeter.products.pages.render import page_of_runs
    from leakmeter.results.result import saved
    from leakmeter.results.run import Run

    opened = [any_run if isinstance(any_run, Run) else Run.read(_path(any_run, runs)) for any_run in run]
    return saved(path, page_of_runs(opened))


def schema(instrument: str) -> dict[str, Any]:
    """The JSON schema of a result of an instrument, which `to_dict` follows.

    Args:
        instrument: its name, such as 'influence', or 'doctor', or 'installation'.

    Returns:
        The schema as a plain object.

    Raises:
        UnknownNameError: there is none of that name.

    Examples:
        >>> import leakmeter
        >>> leakmeter.schema("influence")["properties"]["schema"]
        {'const': 'influence-1'}
    """
    from leakmeter.core import record

    kind = printed(instrument)
    content = record.schema(kind, kind.schema)
    # What `to_dict` puts in front.
    content["required"] = ["schema", *content["required"]]
    content["properties"] = {"schema": {"const": kind.schema}, **content["properties"]}
    return content


def printed(name: str) -> Any:
    """The class that `--json` prints of an instrument or of the doctor."""
    from leakmeter.core import registry

    if name == _DOCTOR:
        from leakmeter.products.doctor.result import DoctorResult

        return DoctorResult
    return registry.instrument(name).result


def all_printed() -> list[str]:
    from leakmeter.core import registry

    return sorted((*registry.instruments(), _DOCTOR))


def _bounds(bounds: str | Sequence[str], option: str) -> list[Bound]:
    from leakmeter.products.gate.bounds import parse_bound

    return [parse_bound(text, option) for text in several(bounds)]


def _path(run: AnyRun, runs: str | Path) -> Path:
    from leakmeter.engine.storage.catalogue import find_run
    from leakmeter.results.run import Run

    return run.path if isinstance(run, Run) else find_run(str(run), Path(runs))


def _measured(run: AnyRun, runs: str | Path) -> MeasuredCases:
    from leakmeter.results.results import read_measured

    return read_measured(_path(run, runs))


def _key() -> bytes:
    from leakmeter.engine.storage.pseudonym import subject_key
    from leakmeter.models import config_dir

    return subject_key(config_dir())
