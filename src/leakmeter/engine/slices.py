"""A run measured in slices: several processes, each of its own parts, and who puts them together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leakmeter.engine.storage.parts import PartReader
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.stored import fetched, run_directory
from leakmeter.errors import StoreError, UsageError
from leakmeter.overriding import override

_SLICE: Final = re.compile(r"([1-9]\d{0,8})/([1-9]\d{0,8})")


@dataclass(frozen=True, slots=True)
class Slice:
    """One of so many stretches of a run's parts, which differ in length by one at most.

    >>> [list(Slice(i, 3).parts(7)) for i in (1, 2, 3)]
    [[0, 1], [2, 3], [4, 5, 6]]
    """

    number: int
    """From 1."""
    n_slices: int

    @classmethod
    def parsed(cls, text: str) -> Slice:
        """I/N with 1 ≤ I ≤ N."""
        match = _SLICE.fullmatch(text)
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(f"part is '{text}'; give I/N, from 1/N to N/N, such as 3/16")
        return cls(int(match[1]), int(match[2]))

    @override
    def __str__(self) -> str:
        return f"{self.number}/{self.n_slices}"

    def parts(self, n_parts: int) -> range:
        if self.n_slices > n_parts:
            raise UsageError(
                f"part is '{self}', and the run has {n_parts:,} part{'s' * (n_parts != 1)}; give N of {n_parts} at most"
            )
        return range((self.number - 1) * n_parts // self.n_slices, self.number * n_parts // self.n_slices)

    def n_cases(self, groups: Sequence[range]) -> int:
        return sum(len(groups[number]) for number in self.parts(len(groups)))


def complete(paths: Sequence[Path]) -> RunDirectory:
    """Put the slices of a run together: parts are copied to the first directory, which is then complete. Slices that
    were written to one directory are given once."""
    target, paths = paths[0], [fetched(path) for path in paths]
    if RunDirectory(paths[0]).is_complete and len(paths) == 1:
        whole = run_directory(target.parent, target.name)
        whole.confirm()
        return whole
    for path in paths:
        if not RunDirectory(path).sliced:
            fault = "is complete" if RunDirectory(path).is_complete else "holds no slices of a run (see --part)"
            raise StoreError(f"'{path}' {fault}")
    names = {path.resolve().name for path in paths}
    if len(names) > 1:
        raise StoreError(
            f"these are different runs: {', '.join(sorted(names))}; slices of one run have its name, and are measured "
            "with the same options and data"
        )
    first = run_directory(target.parent, target.name)
    with first.reopened() as (spec, n_parts, n_slices):
        for other in map(RunDirectory, paths[1:]):
            if twice := sorted(set(other.parts) & set(first.parts)):
                raise StoreError(
                    f"part {twice[0]} of the run is in '{first.path}' and in '{other.path}'; slices must not overlap"
                )
            for number in other.parts:
                first.write_part(number, *other.read_part(number))
        missing = sorted(set(range(n_parts)) - set(first.parts))
        if missing:
            slices = [Slice(i, n_slices) for i in range(1, n_slices + 1)]
            left = [str(part) for part in slices if not set(missing).isdisjoint(part.parts(n_parts))]
            raise StoreError(
                f"{len(missing):,} of {n_parts:,} parts are missing; run the command again with --part "
                f"{', '.join(left[:8])}{' …' * (len(left) > 8)}"
            )
        reader = PartReader.of_run(first)
        for number in first.parts:
            reader.cases(number)
        first.finish(spec, n_parts)
    return first
