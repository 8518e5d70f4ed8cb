"""Rows of data from anything: a file or standard input of any known kind, a table in memory, objects, records.

Every reader of data goes through `read_rows`, which says of each row its number and where it stands, renames its fields
by `--map`, and keeps to the limits.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, Literal, cast, get_args

from leakmeter.core.files import MOST_BYTES
from leakmeter.data.foreign import fields_of, plain
from leakmeter.data.mapping import listed, mapped, parsed_json
from leakmeter.data.opened import STDIN, ZIP, Opened, named, open_data
from leakmeter.data.zipped import files_within
from leakmeter.errors import DataError, UnknownNameError

FileKind = Literal["jsonl", "json", "csv", "tsv", "parquet"]
_SUFFIXES: dict[str, FileKind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_PACKED = (".gz", ".gzip", ".zst", ".zstd")
_HOLDERS = ("data", "rows", "records", "examples", "samples", "items", "cases", "testCases", "test_cases")
# What has one of these is a record itself, whatever else it holds.
_OF_A_CASE = {"query", "question", "context", "messages"}
_MOST_ROWS: Final = 2_000_000
_MOST_COLUMNS: Final = 10_000
"""Of a table of text."""
_SAMPLE: Final = re.compile(r"(?:.*/)?samples/[^/]+\.json")
"""What the files of samples are called within a log of inspect_ai."""
PARQUET: Final = b"PAR1"
"""What a Parquet file begins with."""
_Records = Callable[[Mapping[Any, Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row of data, or what is wrong with it."""

    number: int
    """From 1: of the line in JSON lines, of the record elsewhere."""
    place: str
    """Such as 'line 3' or 'record 3'; empty where there is one row alone."""
    source: str
    """The file, or what else the row is of."""
    content: Any = None
    """What stood there, with fields by their names in the data."""
    problem: DataError | None = None
    is_table: bool = False
    """Whether an empty cell says that there is nothing, as in CSV, Parquet and data frames."""
    mapping: Mapping[str, str] | None = None
    """Fields and where they stand in the data, where that is not the same."""
    text_field: str | None = None
    """The field that a row which is a text stands for."""
    end: int = 0
    """Where it was streamed: bytes up to the end of it, unpacked; of Parquet and of tables of text, rows."""
    is_too_long: bool = False
    follows_bad: bool = False
    """Whether the row before it could not be read, and was left out."""

    @property
    def where(self) -> str:
        """The row for errors, such as 'cases.jsonl, line 3'."""
        return f"{self.source}, {self.place}" if self.place else self.source

    @property
    def reason(self) -> str:
        """What the problem is, without saying where it is."""
        rest = str(self.problem or "").removeprefix(self.where)
        return rest.removeprefix(": ") if rest.startswith(":") else f"it{rest}"

    @property
    def fields(self) -> dict[str, object]:
        if self.problem is not None:
            raise self.problem
        value = self.content
        if isinstance(value, str) and self.text_field is not None:
            value = {self.text_field: value}
        elif isinstance(value, list) and self.text_field is not None and _is_chat(value):
            value = {"messages": value}
        held = fields_of(value)
        if held is None:
            raise DataError(f"{self.where} is not a JSON object, or another record with fields")
        plainly: dict[str, object] = plain(value, self.where)
        return plainly if not self.mapping else mapped(plainly, self.mapping, self.where)


def read_rows(
    source: Any,
    *,
    mapping: Mapping[str, str] | None = None,
    text_field: str | None = None,
    kind: FileKind | None = None,
    keys_are_ids: bool = True,
    whole: str = "",
    noun: str = "data file",
) -> Iterator[DataRow]:
    """Rows of a file, of standard input, or of what a caller holds, one after another.

    Files are JSON lines, JSON (a list of objects; an object of objects by id, of columns, or with such a list as
    `data`, `rows`, `records` …; a single object), CSV, TSV and Parquet, each also packed with gzip or Zstandard; by
    their suffix, and where that says nothing by their content. In Python: paths, dicts, dataclasses, frames of pandas
    and Polars, tables of Arrow, data sets of the `datasets` library, documents of LangChain and LlamaIndex, and any
    iterable of records.

    Args:
        mapping: fields and the paths at which they stand (see `mapping.value_at`), before all else.
        text_field: what a row that is a text, not a record, stands for; None to refuse it.
        kind: of a file, where neither its suffix nor its content should say.
        keys_are_ids: whether keys of a JSON object of objects become the field `id`.
        whole: a name; a JSON object that has it is one record, whatever it holds.

    Raises:
        DataError: the source cannot be read. What is wrong with a single row is raised by `DataRow.fields`.
    """
    if kind is not None and kind not in get_args(FileKind):
        raise UnknownNameError("kind of file", str(kind), get_args(FileKind))
    records_of = partial(_records, keys_are_ids=keys_are_ids, whole=whole)
    if isinstance(source, str | Path):
        if "\n" in str(source):
            raise DataError("the data are one text of several lines; give a path, or records")
        rows = _of_file(source, kind, records_of, noun)
    else:
        rows = _of_object(source, records_of)
    for count, row in enumerate(rows, 1):
        if count > _MOST_ROWS:
            raise DataError(
                f"{row.source} has more than {_MOST_ROWS:,} rows; {_MOST_ROWS:,} are read at most, split it"
            )
        yield replace(row, mapping=mapping or None, text_field=text_field)


def _of_object(data: Any, records_of: _Records) -> Iterator[DataRow]:
    if isinstance(data, DataRow):
        return iter((data,))
    rows: Iterable[Any]
    if callable(getattr(data, "collect_schema", None)) and callable(collect := getattr(data, "collect", None)):
        data = collect()  # a lazy frame of Polars
    headings = getattr(data, "column_names", getattr(data, "columns", None))
    if not isinstance(data, Mapping) and isinstance(headings, Iterable):
        _check_headings(list(map(str, headings)), "the data")
    if callable(iterrows := getattr(data, "iter_rows", None)):
        return _numbered(iterrows(named=True), "data frame", "row", is_table=True)
    if callable(getattr(data, "to_dict", None)) and hasattr(data, "iloc") and hasattr(data, "columns"):
        return _numbered(data.to_dict("records"), "data frame", "row", is_table=True)
    if callable(to_pylist := getattr(data, "to_pylist", None)):
        return _numbered(to_pylist(), "table", "row", is_table=True)
    if isinstance(data, Mapping) and any(hasattr(value, "features") for value in data.values()):
        if len(data) > 1:
            raise DataError(f"the data are several splits ({', '.join(map(str, data))}); give one of them")
        (data,) = data.values()
    if _is_dataset(data):
        return _numbered(data.with_format(None), "the data", "record", is_table=True)
    if not isinstance(data, Mapping) and isinstance(getattr(data, "samples", None), list):
        data = data.samples
    held = fields_of(data)
    if held is not None:
        rows = records_of(held) if isinstance(data, Mapping) else [data]
        if len(rows) == 1 and (rows[0] is held or rows[0] is data):
            return iter((DataRow(1, "", "the record", rows[0]),))
        return _numbered(rows, "the data", "record")
    if isinstance(data, Iterable) and not isinstance(data, bytes | bytearray):
        return _numbered(data, "the data", "record")
    raise DataError(f"an object of type {type(data).__name__} is not data; give a path, a table, or records")


def _is_dataset(data: Any) -> bool:
    # What a data set of the `datasets` library gives depends on the format that it was set to.
    return callable(getattr(data, "with_format", None)) and hasattr(data, "features")


def with_class_names(data: Any) -> Any:
    """Records of a data set of the `datasets` library, with names in the place of numbers of classes; anything else
    comes back as it is."""
    classes = {
        name: feature
        for name, feature in (getattr(data, "features", None) or {}).items()
        if hasattr(feature, "int2str")
    }
    if not (_is_dataset(data) and classes):
        return data
    # A number below 0 says that there is no label.
    return [
        {
            **record,
            **{
                name: None if (n := record[name]) is None or n < 0 else feature.int2str(n)
                for name, feature in classes.items()
            },
        }
        for record in data.with_format(None)
    ]


def _numbered(values: Iterable[Any], source: str, name: str, *, is_table: bool = False) -> Iterator[DataRow]:
    for number, value in enumerate(values, 1):
        yield (
            value
            if isinstance(value, DataRow)
            else DataRow(number, f"{name} {number}", source, value, is_table=is_table)
        )


def _of_file(source: str | Path, kind: FileKind | None, records_of: _Records, noun: str) -> Iterator[DataRow]:
    where = named(source, noun)
    with open_data(source, noun, archives=True) as opened:
        if opened.starts_with(ZIP):
            yield from _of_archive(source, opened, where)
            return
        kind = kind or kind_of_name(source) or ("parquet" if opened.starts_with(PARQUET) else None)
        source = where if str(source) == STDIN else source
        if kind == "parquet":
            yield from _of_parquet(source, opened, where)
        elif kind in ("csv", "tsv"):
            yield from _of_table(source, text_lines(opened, where, ""), where, None if kind == "csv" else "\t")
        elif kind == "jsonl":
            yield from _of_lines(source, text_lines(opened, where, "\n"))
        else:
            yield from _of_unknown(source, text_lines(opened, where, "\n"), where, kind, records_of)


def _of_archive(source: str | Path, opened: Opened, where: str) -> Iterator[DataRow]:
    """Samples of a log of inspect_ai, which is an archive of a JSON file for each."""
    number = 0
    for name, content in files_within(opened.whole, where):
        if _SAMPLE.fullmatch(name):
            number += 1
            yield parsed_row(DataRow(number, f"sample {number}", str(source)), content)
    if not number:
        raise DataError(f"{where} is a ZIP archive without samples of inspect_ai; unpack it and give a file within")


def rows_of_text(text: str, name: str) -> Iterator[DataRow]:
    """Rows of a file that somebody else has read, by its name and its content."""
    lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
    kind = kind_of_name(name)
    if kind in ("csv", "tsv"):
        return _of_table("the file", iter(lines), "the file", None if kind == "csv" else "\t")
    return _of_unknown("the file", iter(lines), "the file", kind or "json", _records)


def kind_of_name(source: str | Path) -> FileKind | None:
    return _SUFFIXES.get(suffix_of(source))


def suffix_of(source: str | Path) -> str:
    """A file's suffix in lower case, without that of its packing."""
    path = Path(source)
    return (path.with_suffix("") if path.suffix.lower() in _PACKED else path).suffix.lower()


def text_lines(opened: Opened, where: str, newline: str) -> Iterator[str]:
    """A file's lines as text, read as they are wanted; `newline` as of `io.TextIOWrapper`."""
    n_blank = 0
    try:
        for line in io.TextIOWrapper(cast(IO[bytes], opened), encoding="utf-8-sig", newline=newline):
            if line.isspace() and (n_blank := n_blank + 1) > _MOST_ROWS:
                # A packed file of some kilobytes may have hundreds of millions.
                raise DataError(f"{where} has more than {_MOST_ROWS:,} blank lines; remove them")
            yield line
    except UnicodeDecodeError as error:
        # The decoder had all bytes up to the end of what it was given last.
        offset = opened.n_bytes - len(error.object) + error.start
        raise DataError(
            f"{where} is not UTF-8: byte {error.object[error.start]:#04x} at offset {offset:,}; "
            "save it as UTF-8 and try again"
        ) from None


def _of_lines(source: object, lines: Iterable[str]) -> Iterator[DataRow]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield parsed_row(DataRow(number, f"line {number}", str(source)), line.removesuffix("\n"))


def parsed_row(row: DataRow, line: str | bytes) -> DataRow:
    try:
        return replace(row, content=parsed_json(line, row.where))
    except DataError as error:
        return replace(row, problem=error)


def _of_unknown(
    source: object, lines: Iterator[str], where: str, kind: FileKind | None, records_of: _Records
) -> Iterator[DataRow]:
    """JSON, which may be lines of it; or a table, where nothing says that it is JSON."""
    start = list(_up_to_text(lines))
    first = start[-1] if start else ""
    if kind is None and first.strip() and first.strip()[0] not in "{[":
        delimiter = "\t" if "\t" in first else None
        yield from _of_table(source, chain(start, lines), where, delimiter)
        return
    if kind is None and not first.strip():
        return
    following = list(_up_to_text(lines))
    if following and first.lstrip().startswith("{") and (_is_object(first) or _is_object(following[-1])):
        yield from _of_lines(source, chain(start, following, lines))
        return
    value = parsed_json("".join(chain(start, following, lines)), where)
    rows = records_of(value) if isinstance(value, Mapping) else value
    if not isinstance(rows, list):
        raise DataError(f"{where} is neither a list of objects nor an object of objects by id")
    if len(rows) == 1 and rows[0] is value:
        yield DataRow(1, "", str(source), value)
    else:
        yield from _numbered(rows, str(source), "record")


def _is_chat(value: list[Any]) -> bool:
    return bool(value) and all(
        isinstance(message, Mapping) and ("role" in message or "type" in message) for message in value
    )


def _up_to_text(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip():
            return


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _records(value: Mapping[Any, Any], *, keys_are_ids: bool = True, whole: str = "") -> list[Any]:
    """The records that one object holds: a list of them, columns, records by id; or itself alone."""
    if whole and whole in value:
        return [value]
    for name in () if _OF_A_CASE & value.keys() else _HOLDERS:
        if isinstance(held := value.get(name), list) and held and all(fields_of(entry) is not None for entry in held):
            return held
    columns = list(value.values())
    if len(columns) > 1 and all(isinstance(column, list) for column in columns):
        is_chat = "messages" in value and bool(value["messages"]) and isinstance(value["messages"][0], Mapping)
        if len({len(column) for column in columns}) == 1 and not is_chat:
            return [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
    # A trace of MLflow is an object of two objects, and no object of records by id.
    if columns and all(isinstance(column, Mapping) for column in columns) and set(value) != {"info", "data"}:
        numbers = [str(number) for number in range(len(columns[0]))]
        if numbers and all(list(map(str, column)) == numbers for column in columns):
            # A data frame as pandas writes it: an object of columns.
            cells = zip(*(column.values() for column in columns), strict=True)
            return [dict(zip(value, row, strict=True)) for row in cells]
        return [{**({"id": str(key)} if keys_are_ids else {}), **record} for key, record in value.items()]
    return [value]


def _of_table(source: object, lines: Iterator[str], where: str, delimiter: str | None) -> Iterator[DataRow]:
    # A context is longer than the library's default limit of 131,072 characters.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    first = next(lines, "")
    if delimiter is None:
        # Spreadsheets write semicolons where a comma is part of a number.
        delimiter = ";" if "," not in first and ";" in first else ","
    reader = csv.reader(chain((first,), lines), strict=True, delimiter=delimiter)
    heading: list[str] | None = None
    twice: list[tuple[int, int]] = []
    number = 0
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            number += 1
            row = DataRow(number, f"line {start}", str(source), is_table=True)
            yield replace(row, problem=DataError(f"{row.where}: {error}"))
            continue
        if cells is None:
            break
        if not cells:
            continue
        if heading is None:
            heading = cells
            if len(heading) > _MOST_COLUMNS:
                raise DataError(
                    f"{where} has {len(heading):,} columns; {_MOST_COLUMNS:,} are read at most, leave out those that "
                    "are not needed"
                )
            twice = _twice(heading)
            continue
        number += 1
        row = DataRow(number, f"line {start}", str(source), is_table=True)
        if len(cells) == len(heading):
            # Phoenix's data frames have an index that is a column too.
            if differing := [heading[one] for one, other in twice if cells[one] != cells[other]]:
                raise _refused_headings(differing[0], where)
            yield replace(row, content=dict(zip(heading, cells, strict=True)))
        else:
            uneven = f"a row of {len(cells)} cells under a heading of {len(heading)}; is a quote or a comma missing?"
            yield replace(row, problem=DataError(f"{row.where}: {uneven}"))
    if not number:
        has = "is empty; expected a heading and rows" if heading is None else "has a heading and no rows"
        raise DataError(f"{where} {has}")


def _twice(names: Sequence[str]) -> list[tuple[int, int]]:
    """Columns that have the name of an earlier one, behind the number of that one."""
    first: dict[str, int] = {}
    return [
        (first[name], number)
        for number, name in enumerate(names)
        if name.strip() and first.setdefault(name, number) != number
    ]


def _check_headings(names: Sequence[str], where: str) -> None:
    """Refuse two columns of one name."""
    if twice := _twice(names):
        raise _refused_headings(names[twice[0][1]], where)


def _refused_headings(name: str, where: str) -> DataError:
    """Of two columns of one name a record would keep the last alone."""
    return DataError(f"{where}: the heading has two columns {listed([name])}; give each a name of its own")


def _of_parquet(source: str | Path, opened: Opened, where: str) -> Iterator[DataRow]:
    import pyarrow as pa

    n_bytes = 0
    # What is packed, or piped in, cannot be read from its end, where a Parquet file begins.
    held = pa.BufferReader(opened.read())
    # A small file may hold many rows, and a short row a long text many times.
    for n_before, _, records, n_more in parquet_rows(held, where, 256, most_rows=_MOST_ROWS):
        n_bytes += n_more
        if n_bytes > MOST_BYTES:
            raise DataError(f"{where} holds more than {MOST_BYTES:,} bytes; split it")
        for number, record in enumerate(records, n_before + 1):
            yield DataRow(number, f"record {number}", str(source), record, is_table=True)


def parquet_rows(
    source: Any, where: str, at_once: int, *, start: int = 0, most_rows: int | None = None
) -> Iterator[tuple[int, int, list[Any], int]]:
    """Rows of a Parquet file, `at_once` at a time: how many stand before them, and in the file; the rows; their bytes.
    As many as `start` may be left out, as far as nobody has to read them for it; `most_rows` are allowed in the
    file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_before = 0
    try:
        with pq.ParquetFile(source) as file:
            _check_headings(file.schema_arrow.names, where)
            n_rows = file.metadata.num_rows
            if most_rows is not None and n_rows > most_rows:
                raise DataError(f"{where} has {n_rows:,} rows; {most_rows:,} are read at most")
            for batch in file.iter_batches(at_once):
                if n_before + batch.num_rows > start:
                    yield n_before, n_rows, batch.to_pylist(), batch.nbytes
                n_before += batch.num_rows
    except UnicodeDecodeError as error:
        raise DataError(f"{where} holds text that is not UTF-8: {error.reason}") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{where} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
