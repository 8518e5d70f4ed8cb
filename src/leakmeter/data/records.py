"""Records of a data set from a local file, or from the hub through the `datasets` library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from leakmeter.core.files import read_text
from leakmeter.data.mapping import Fields, checked_text
from leakmeter.data.rows import read_rows
from leakmeter.errors import DataError

__all__ = ["Fields", "load_names", "load_records", "read_csv", "records_of_hub", "text_of"]


def load_records(path: str | Path) -> list[Fields]:
    """All records of a file, or of another source that `rows.read_rows` knows; names of fields in lower case. A JSON
    file is a list of objects, or one object whose keys are the records' ids (as PubMedQA's are)."""
    records: list[Fields] = [{name.lower(): value for name, value in row.fields.items()} for row in read_rows(path)]
    if not records:
        raise DataError(f"data file '{path}' holds no record")
    return records


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file with a heading; fields may hold line breaks."""
    rows = [row.fields for row in read_rows(path, kind="csv", noun="CSV file")]
    return [{name: str(value) for name, value in row.items()} for row in rows]


def load_names(path: str | Path) -> tuple[str, ...]:
    """A CSV file's column 'name', or the lines of any other file; each once, in order."""
    path = Path(path)
    if path.suffix.lower() == ".csv":
        rows = read_csv(path)
        if "name" not in rows[0]:
            raise DataError(f"CSV file '{path}' has no column 'name'; it has {', '.join(map(repr, rows[0]))}")
        entries = [row["name"] for row in rows]
    else:
        entries = read_text(path, "list of names").splitlines()
    names = tuple(dict.fromkeys(name for entry in entries if (name := " ".join(entry.split()))))
    if not names:
        raise DataError(f"list of names '{path}' holds no name; expected one a line")
    return names


def records_of_hub(name: str, repository: str, subset: str, split: str) -> Sequence[Fields]:
    instead = "give a local file with --data"
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"'{name}' comes from the hub through the datasets library: pip install 'leakmeter[datasets]', or {instead}"
        ) from None
    from huggingface_hub import HfApi, errors

    failures: tuple[type[Exception], ...] = (OSError, ValueError, getattr(errors, "HTTPError", OSError))
    try:
        # The library tries for half a minute to reach a hub that is not there; this asks once.
        if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("0", "FALSE", "NO", "OFF", ""):
            HfApi().dataset_info(repository, timeout=3.0)
        records: Sequence[Fields] = datasets.load_dataset(repository, subset, split=split)
    except failures as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"'{name}' could not be fetched from the hub ({lines[0][:120]}); {instead}") from None
    return records


def text_of(fields: Fields, names: Sequence[str], where: str) -> str:
    """The text of the first of these fields that is there; `DataError` where none is, it is no text, or it is empty."""
    for name in names:
        if name in fields:
            text = checked_text(fields[name], name, where)
            if not text.strip():
                raise DataError(f"{where}: '{name}' is empty")
            return text
    raise DataError(f"{where} has no '{names[0]}'; it has {', '.join(map(repr, fields)) or 'nothing'}")
