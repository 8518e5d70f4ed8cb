"""Data sets by name: one module each, with a `DATASET`. A module's name is the data set's name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from leakmeter.core.case import Case
from leakmeter.core.folder import module_in, names_in
from leakmeter.data.records import Fields, load_records, records_of_hub
from leakmeter.errors import DataError, UnknownNameError


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """A case without a response, and the response that people wrote."""

    case: Case
    reference: str


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    repository: str
    """On the hub."""
    subset: str
    split: str
    template: str
    """Of the prompt; see `text.templates`."""
    max_context_tokens: int
    """Where Flemings et al. cut a context, Section 4.1."""
    to_record: Callable[[Fields, str, str], DatasetRecord]
    """Fields, the id to take where they have none, and where they stand (for errors) to a record."""

    def load(self, path: str | None, *, n: int | None = None, seed: int | None = None) -> list[DatasetRecord]:
        """Records, in the order of the file; without a path from the hub, through the `datasets` library. `n` are
        chosen by the seed, all by default and where there are fewer; without a seed the first, as the paper's code
        takes them."""
        if path is None:
            source = f"{self.repository} ({self.split})"
            rows = records_of_hub(self.name, self.repository, self.subset, self.split)
        else:
            source = path
            rows = load_records(path)
        chosen = chosen_numbers(len(rows), n, seed)
        records = [self.to_record(rows[i], str(i), f"{source}, record {i + 1}") for i in chosen]
        seen: set[str] = set()
        for record in records:
            # Random numbers and measurements are known by a case's id.
            if record.case.id in seen:
                raise DataError(f"{source}: id '{record.case.id}' is used by two records; make ids unique")
            seen.add(record.case.id)
        return records


def chosen_numbers(n_records: int, n: int | None, seed: int | None) -> list[int]:
    """Which of `n_records` records to take, ascending: the first `n`, or with a seed `n` at random."""
    if n is None or n >= n_records:
        return list(range(n_records))
    if seed is None:
        return list(range(n))
    import numpy as np

    return sorted(int(i) for i in np.random.default_rng(seed).choice(n_records, size=n, replace=False))


def names() -> list[str]:
    return names_in(sys.modules[__name__])


def find(name: str) -> Dataset:
    if name not in names():
        raise UnknownNameError("data set", name, names())
    dataset: Dataset = module_in(sys.modules[__name__], name).DATASET
    return dataset
