"""Whether a run is what was written: every file is read and hashed again, and the id made anew.

What this finds is accidents and edits. It is no seal: who edits a part and writes its new hash into `spec.json` is not
found out, unless the id, which hashes the cases and settings, or a hash of the run that was kept elsewhere says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from leakmeter.core.written import store_errors
from leakmeter.errors import StoreError
from leakmeter.runs.catalogue import spec_of
from leakmeter.runs.rundir import PREFIXES, RunDirectory

_OURS: Final = (".lock", "begun.json", "sliced.json", "spec.json")
"""Files of a run beside its parts."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found of one run."""

    path: Path
    state: Literal["whole", "unfinished", "wrong"]
    n_files: int
    """Files of parts that were read."""
    findings: tuple[str, ...] = ()
    """What is wrong, each with the file's name."""


def verify(path: Path) -> Verified:
    """Read all of a run, and hold it against its spec.

    An unfinished run has no hashes yet: of it, the finished parts can be read or not.

    Raises:
        StoreError: the directory cannot be listed.
    """
    run = RunDirectory(path)
    with store_errors(f"run '{path}' cannot be read"):
        names = sorted(entry.name for entry in path.iterdir())
    if not run.is_complete:
        # Every run says what it measures before anything else, and until it is complete.
        findings = [*_unreadable(run), *_foreign(names, _part_files(run, run.parts), unfinished=True)]
        if "begun.json" not in names:
            findings.insert(0, "spec.json: missing")
        return Verified(path, "wrong" if findings else "unfinished", 2 * len(run.parts), tuple(findings))
    try:
        spec, record = spec_of(run), run.read_spec()
        n_parts, hashes = record["n_parts"], record["files_sha256"]
    except StoreError as error:
        return Verified(path, "wrong", 0, (f"spec.json: {error}",))
    findings = []
    if record["id"] != spec.id:
        findings.append(f"spec.json: edited: its id is {record['id']}, and what it holds makes {spec.id}")
    if path.resolve().name != record["id"]:
        findings.append(f"spec.json: its id is {record['id']}, and the directory has another name")
    expected = _part_files(run, range(n_parts))
    if sorted(hashes) != sorted(expected):
        findings.append(f"spec.json: edited: its hashes are not those of {n_parts} parts")
    broken = [f"{name}: {what}" for name in expected if (what := _broken(path / name, hashes.get(name)))]
    findings += [*broken, *_foreign(names, expected)]
    if not broken:
        findings += _unlike(run, [case.get("id") for case in spec.cases], n_parts)
    return Verified(path, "wrong" if findings else "whole", len(expected), tuple(findings))


def _broken(path: Path, sha256: object) -> str | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if hashlib.sha256(content).hexdigest() == sha256:
        return None
    return "edited" if _is_readable(path, content) else "truncated or damaged"


def _is_readable(path: Path, content: bytes) -> bool:
    if path.suffix == ".parquet":
        # Whole files begin and end with these letters.
        return content.startswith(b"PAR1") and content.endswith(b"PAR1")
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _unreadable(run: RunDirectory) -> Iterator[str]:
    for number in run.parts:
        for name, read in zip(_part_files(run, [number]), (run.read_texts, run.read_measurements), strict=True):
            try:
                read(number)
            except StoreError:
                yield f"{name}: {'truncated or damaged' if (run.path / name).exists() else 'missing'}"


def _unlike(run: RunDirectory, ids: list[Any], n_parts: int) -> Iterator[str]:
    """Parts that are whole, and not of the cases that the spec names."""
    found: list[Any] = []
    for number in range(n_parts):
        try:
            cases, measurements = run.read_part(number)
        except StoreError as error:
            yield f"{run.numbers_of(number).name}: {error}"
            return
        of_part = [case.get("id") for case in cases]
        found += of_part
        if not {measurement.item for measurement in measurements} <= set(of_part):
            yield f"{run.numbers_of(number).name}: has measurements of other cases than cases-{number:05}.json"
    if found != ids:
        yield "spec.json: its cases are not those of the parts"


def _foreign(names: list[str], expected: list[str], *, unfinished: bool = False) -> Iterator[str]:
    ours = {*expected, *_OURS}
    for name in names:
        if name in ours or (name.startswith(".slice-") and name.endswith(".lock")):
            continue
        begun = name.startswith(("cases-", *PREFIXES, "spec.json", "begun.json"))
        if unfinished and begun and (name.endswith(".partial") or name.startswith("cases-")):
            # Texts are written before their numbers: a kill, or work under way, leaves them alone.
            continue
        yield f"{name}: foreign"


def _part_files(run: RunDirectory, numbers: Iterable[int]) -> list[str]:
    return [name for n in numbers for name in (f"cases-{n:05}.json", run.numbers_of(n).name)]
