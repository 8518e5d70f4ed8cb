"""Records of a data set from a local file, or from the hub through the `datasets` library."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakmeter.core.files import MOST_BYTES, check_readable, read_text
from leakmeter.data.text import checked_text, parsed_json
from leakmeter.errors import DataError

Fields = Mapping[str, object]
"""A record: values by the names of their fields, as a file or the hub has them."""
_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")
_HUB_SECONDS = 3.0
_MOST_ROWS = 2_000_000
_ROWS_AT_ONCE = 256


def load_records(path: str | Path, *, keys_are_ids: bool = True) -> list[Fields]:
    """Records of a JSON, JSON lines, CSV or Parquet file, by its suffix; names of fields in lower case.

    A JSON file is a list of objects, or one object whose keys are the records' ids (as PubMedQA's are).

    Args:
        path: the file.
        keys_are_ids: False to drop such keys.

    Raises:
        DataError: no such file, another kind, damaged, or empty.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        rows = _of_json(path, keys_are_ids)
    elif suffix == ".jsonl":
        rows = _of_lines(path)
    elif suffix == ".csv":
        rows = list(read_csv(path))
    elif suffix == ".parquet":
        rows = _of_parquet(path)
    else:
        raise DataError(f"data file '{path}' is of no known kind; expected one of {', '.join(_SUFFIXES)}")
    if not rows:
        raise DataError(f"data file '{path}' holds no record")
    return [{name.lower(): value for name, value in row.items()} for row in rows]


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file with a heading; fields may hold line breaks.

    Raises:
        DataError: not readable, no rows, or a row with more or fewer cells than the heading.
    """
    text = read_text(path, "CSV file")
    if not text.strip():
        raise DataError(f"CSV file '{path}' is empty; expected a heading and rows")
    # A context is longer than the library's default limit of 131,072 characters.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[dict[str, str]] = []
    try:
        heading = next(reader)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(heading):
                raise DataError(
                    f"CSV file '{path}', line {reader.line_num}: a row of {len(cells)} cells under a heading of "
                    f"{len(heading)}; is a quote or a comma missing?"
                )
            rows.append(dict(zip(heading, cells, strict=True)))
    except csv.Error as error:
        raise DataError(f"CSV file '{path}', line {reader.line_num}: {error}") from None
    if not rows:
        raise DataError(f"CSV file '{path}' has a heading and no rows")
    return rows


def records_of_hub(name: str, repository: str, subset: str, split: str) -> Sequence[Fields]:
    """Records of a data set of the hub.

    Raises:
        DataError: the library is not installed, or the hub cannot be reached or has no such data.
    """
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
            HfApi().dataset_info(repository, timeout=_HUB_SECONDS)
        found: Sequence[Fields] = datasets.load_dataset(repository, subset, split=split)
    except failures as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"'{name}' could not be fetched from the hub ({lines[0][:120]}); {instead}") from None
    return found


def text_of(fields: Fields, names: Sequence[str], where: str) -> str:
    """The text of the first of these fields that is there.

    Raises:
        DataError: none is there, it is no text, or it is empty.
    """
    for name in names:
        if name in fields:
            text = checked_text(fields[name], name, where)
            if not text.strip():
                raise DataError(f"{where}: '{name}' is empty")
            return text
    raise DataError(f"{where} has no '{names[0]}'; it has {', '.join(map(repr, fields)) or 'nothing'}")


def _of_json(path: Path, keys_are_ids: bool) -> list[Fields]:
    value = parsed_json(read_text(path, "data file"), f"data file '{path}'")
    if isinstance(value, dict) and value and all(isinstance(record, dict) for record in value.values()):
        value = [{**({"id": key} if keys_are_ids else {}), **record} for key, record in value.items()]
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise DataError(f"data file '{path}' is no list of objects, and no object of objects by their ids")
    return value


def _of_lines(path: Path) -> list[Fields]:
    rows: list[Fields] = []
    for number, line in enumerate(read_text(path, "data file").split("\n"), 1):
        if line.strip():
            where = f"data file '{path}', line {number}"
            value = parsed_json(line, where)
            if not isinstance(value, dict):
                raise DataError(f"{where} is not a JSON object")
            rows.append(value)
    return rows


def _of_parquet(path: Path) -> list[Fields]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_readable(path, "data file")
    rows: list[Fields] = []
    n_bytes = 0
    try:
        with pq.ParquetFile(path) as file:
            # A small file may hold many rows, and a short row a long text many times.
            if file.metadata.num_rows > _MOST_ROWS:
                raise DataError(
                    f"data file '{path}' has {file.metadata.num_rows:,} rows; {_MOST_ROWS:,} are read at most"
                )
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                n_bytes += batch.nbytes
                if n_bytes > MOST_BYTES:
                    raise DataError(f"data file '{path}' holds more than {MOST_BYTES:,} bytes; split it")
                rows += batch.to_pylist()
    except UnicodeDecodeError as error:
        raise DataError(f"data file '{path}' holds text that is no UTF-8: {error.reason}") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"data file '{path}' cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    return rows
