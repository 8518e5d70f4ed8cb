"""Records of a file of people, each with where it stands, and what is wrong with it where something is."""

from __future__ import annotations

import csv
import io
import json
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from leakmeter.core.files import read_text
from leakmeter.data.records import Fields, load_records
from leakmeter.errors import DataError

_SUFFIXES = (".csv", ".jsonl", ".json", ".parquet", ".toml")
_TABLE = "subject"


class RecordError(Exception):
    """What is wrong with one record, in words to be read behind where it stands: 'is not JSON'."""


def rows_of(path: Path) -> Iterator[tuple[str, Fields | RecordError]]:
    """Where each record stands and what it says, or what is wrong with it.

    Raises:
        DataError: no such file, one of no known kind, or one of which no record can be told.
    """
    kind = path.suffix.lower()
    if kind not in _SUFFIXES:
        raise DataError(f"file of people '{path}' is of no known kind; expected one of {', '.join(_SUFFIXES)}")
    if kind == ".jsonl":
        return _of_lines(path)
    if kind == ".csv":
        return _of_csv(path)
    return _numbered(_of_toml(path) if kind == ".toml" else load_records(path, keys_are_ids=False))


def _numbered(records: Iterable[Fields]) -> Iterator[tuple[str, Fields | RecordError]]:
    for number, record in enumerate(records, 1):
        yield f"record {number}", record


def _of_lines(path: Path) -> Iterator[tuple[str, Fields | RecordError]]:
    for number, line in enumerate(read_text(path, "file of people").split("\n"), 1):
        if line.strip():
            yield f"line {number}", _of_line(line)


def _of_line(line: str) -> Fields | RecordError:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return RecordError(f"is not JSON: {error.msg} at character {error.pos + 1:,}")
    except (RecursionError, ValueError):
        return RecordError("is JSON nested too deep, or with a number too long, to be read")
    return value if isinstance(value, dict) else RecordError("is not a JSON object")


def _of_csv(path: Path) -> Iterator[tuple[str, Fields | RecordError]]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader(io.StringIO(read_text(path, "file of people"), newline=""), strict=True)
    heading: list[str] | None = None
    while True:
        where = f"line {reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield where, RecordError(f"is not CSV: {error}")
            continue
        if heading is None:
            heading = [cell.strip().lower() for cell in cells]
            if len({cell for cell in heading if cell}) < sum(map(bool, heading)):
                raise DataError(f"'{path}', {where}: a column of the heading is there twice; name each once")
        elif len(cells) == len(heading):
            yield where, dict(zip(heading, cells, strict=True))
        elif cells:
            yield (
                where,
                RecordError(
                    f"has {len(cells)} cells under a heading of {len(heading)}; is a quote or a comma missing?"
                ),
            )


def _of_toml(path: Path) -> list[Fields]:
    try:
        told = tomllib.loads(read_text(path, "file of people"))
    except tomllib.TOMLDecodeError as error:
        # The message may repeat what it could not read.
        place = str(error).rpartition("(")[2].rstrip(")")
        raise DataError(f"'{path}' is not TOML ({place})") from None
    except (RecursionError, ValueError):
        raise DataError(f"'{path}' is TOML nested too deep, or with a number too long, to be read") from None
    records = told.get(_TABLE)
    if set(told) != {_TABLE} or not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise DataError(f"'{path}' has to hold a table [[{_TABLE}]] for each person, and nothing else")
    return records
