"""Whether a run is what was written: every file is read and hashed again, and the id made anew.

What this finds is accidents and edits. It is no seal: who edits a part and writes its new hash into `spec.json` is not
found out, unless the id, which hashes the cases and settings, or a hash of the run that was kept elsewhere says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leakmeter.core.files import read_whole, store_errors
from leakmeter.engine.storage.parts import PartReader
from leakmeter.engine.storage.rundir import CONFIRMED, RunDirectory
from leakmeter.engine.storage.schema import NUMBERS, TEXTS, names_of, parts_in
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.errors import DamagedError, StoreError


@dataclass(frozen=True, slots=True)
class Verified:
    path: Path
    state: Literal["whole", "unfinished", "wrong"]
    n_files: int
    """Files of parts that were read."""
    findings: tuple[str, ...] = ()
    """What is wrong, each with the file's name."""


def verify(path: Path) -> Verified:
    """Read all of a run, and hold it against its spec.

    An unfinished run has no hashes yet: of it, the finished parts can be read or not.
    """
    run = RunDirectory(path)
    with store_errors(f"run '{path}' cannot be read"):
        names = sorted(entry.name for entry in path.iterdir())
    if not run.is_complete:
        # Every run says what it measures before anything else, and until it is complete.
        findings = [
            *(list(_unreadable(run)) or _damaged(run)),
            *_foreign(names, [name for parts in run.files for name in names_of(parts)], unfinished=True),
        ]
        if "begun.json" not in names:
            findings.insert(0, "spec.json: missing")
        return Verified(path, "wrong" if findings else "unfinished", 2 * len(run.files), tuple(findings))
    try:
        record = run.read_spec()
    except DamagedError as error:
        return Verified(path, "wrong", 0, (error.finding,))
    spec, hashes = RunSpec.from_record(record), record["files_sha256"]
    findings = []
    if record["id"] != spec.id:
        findings.append(f"spec.json: edited: its id is {record['id']}, and what it holds makes {spec.id}")
    if path.resolve().name != record["id"]:
        findings.append(f"spec.json: its id is {record['id']}, and the directory has another name")
    expected = list(hashes)
    broken = [f"{name}: {fault}" for name in expected if (fault := _broken(path / name, hashes[name]))]
    findings += [*broken, *_foreign(names, expected)]
    if not broken and record["id"] == spec.id:
        findings += _damaged(run)
    return Verified(path, "wrong" if findings else "whole", len(expected), tuple(findings))


def _broken(path: Path, sha256: object) -> str | None:
    try:
        content = read_whole(path)
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
    for parts in run.files:
        for name, read in zip(names_of(parts), (run.read_texts, run.read_measurements), strict=True):
            try:
                read(parts.start)
            except StoreError:
                yield f"{name}: {'truncated or damaged' if (run.path / name).exists() else 'missing'}"


def _damaged(run: RunDirectory) -> Iterator[str]:
    try:
        reader = PartReader.of_run(run)
        for _ in reader.all_cases() if run.is_complete else map(reader.cases, run.parts):
            pass
    except DamagedError as error:
        yield error.finding


def _foreign(names: list[str], expected: list[str], *, unfinished: bool = False) -> Iterator[str]:
    ours = {*expected, ".lock", CONFIRMED, "begun.json", "sliced.json", "spec.json"}
    for name in names:
        if name in ours or (name.startswith(".slice-") and name.endswith(".lock")):
            continue
        begun = name.startswith((TEXTS, NUMBERS, "spec.json", "begun.json"))
        if unfinished and begun and (name.endswith(".partial") or parts_in(name) or name.startswith(TEXTS)):
            # Texts are written before their numbers, and parts are removed once they are in a group: a kill, or work
            # under way, leaves either.
            continue
        yield f"{name}: foreign"
