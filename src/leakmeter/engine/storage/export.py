"""A run in a form that depends on what was measured alone.

    DIRECTORY/
      measurements.parquet  the columns of `storage.schema`, names as plain text; cases in order, series as written
      cases.jsonl           one case a line, without what it cost
      spec.json             what determines the numbers: all that the run's id is the hash of

Times, costs, the cut into parts, versions of libraries and the command line are left out: they differ between two runs
of one spec, as does the order of codes within a part's Parquet file. The bytes are those of one version of pyarrow.

A redacted export has keyed hashes, which tell equal from different, in the place of texts. Drawn tokens are texts by
number, and are left out. What stays are numbers that were computed from texts: under a public model, log-probabilities
of single tokens are evidence of what the tokens were.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from leakmeter.core.files import PRIVATE, check_place, store_errors
from leakmeter.core.measure import TOKEN_ID, Measurement
from leakmeter.core.plain import csv_writer
from leakmeter.core.record import JsonObject
from leakmeter.engine.storage.catalogue import spec_of
from leakmeter.engine.storage.parts import cases_of_run
from leakmeter.engine.storage.pseudonym import pseudonym
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.schema import REPEATED, SCHEMA, stored_type, to_table
from leakmeter.engine.storage.spec import RunSpec
from leakmeter.errors import StoreError

_ROWS_A_GROUP: Final = 2**20
_RANDOM: Final = ("seed", "nonce")
_KEPT_OF_MODEL: Final = (
    *("weights_sha256", "config_sha256", "tokenizer_sha256", "chat_template_sha256"),
    *("dtype", "device", "memory_bytes", "processor", "threads"),
)
_PLAIN: Final = pa.schema([pa.field(f.name, stored_type(f.type), metadata=f.metadata) for f in SCHEMA])


@dataclass(frozen=True, slots=True)
class Redacted:
    """What may be said of a run without its texts."""

    key: bytes = field(repr=False)
    """The user's; see `storage.pseudonym`."""

    def spec(self, spec: RunSpec) -> JsonObject:
        """Numbers among the settings, and hashes of the rest; not a seed, which a promise may rest on, nor a nonce."""
        return {
            "redacted": True,
            "id_hmac": pseudonym(self.key, "run", spec.id),
            "measure": spec.measure,
            "version": spec.version,
            "model": {name: spec.model.get(name) for name in _KEPT_OF_MODEL},
            "params": {name: self._number(value) for name, value in spec.params.items() if name not in _RANDOM},
            "prompts": {name: self._number(value) for name, value in spec.prompts.items() if name not in _RANDOM},
            "n_cases": len(spec.cases),
        }

    def case(self, case: JsonObject) -> JsonObject:
        return {"id": self._name("item", case["id"]), "texts_hmac": self._hash(case)}

    def measurements(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        return [
            replace(r, item=self._name("item", r.item), piece=self._name("piece", r.piece))
            for r in measurements
            if r.unit != TOKEN_ID
        ]

    def _name(self, kind: str, name: str) -> str:
        # An empty name is the response as a whole, and nobody's.
        return pseudonym(self.key, kind, name) if name else ""

    def _number(self, value: object) -> object:
        return value if value is None or isinstance(value, (bool, int, float)) else self._hash(value)

    def _hash(self, value: object) -> str:
        return pseudonym(self.key, "told", json.dumps(value, sort_keys=True, ensure_ascii=True))


def write(run: Path, out: Path, redacted: Redacted | None = None) -> None:
    """Write the export of a complete run, whole or not at all: to a new or empty directory, or the measurements to a
    .csv file."""
    directory = RunDirectory(run)
    spec = spec_of(directory)
    check_place(out, "export", [run])
    is_csv = out.suffix == ".csv"
    if is_csv and out.is_dir():
        raise StoreError(f"'{out}' is a directory; give the name of a file, or of a directory without .csv")
    if not is_csv and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise StoreError(f"'{out}' exists already; give the name of a new directory, or of a file NAME.csv")
    if not out.parent.is_dir():
        raise StoreError(f"'{out}' is in a directory that does not exist")
    # Mode 0700: what is written may be private.
    with (
        store_errors(f"export '{out}' cannot be written"),
        tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent, ignore_cleanup_errors=True) as scratch,
    ):
        draft = Path(scratch) / out.name
        if is_csv:
            _write_csv(directory, redacted, draft)
            draft.chmod(PRIVATE)
        else:
            draft.mkdir(mode=0o700)
            _write_parquet(directory, redacted, draft)
            record = redacted.spec(spec) if redacted is not None else {"id": spec.id, **spec.deciding()}
            (draft / "spec.json").write_text(_canonical(record) + "\n", encoding="utf-8")
        os.replace(draft, out)


def _write_parquet(run: RunDirectory, redacted: Redacted | None, out: Path) -> None:
    pending = _PLAIN.empty_table()
    with (
        (out / "cases.jsonl").open("w", encoding="utf-8", newline="\n") as cases,
        pq.ParquetWriter(out / "measurements.parquet", _PLAIN, compression="zstd", use_dictionary=REPEATED) as writer,
    ):
        for case, measurements in _cases(run, redacted):
            cases.write(_canonical(case) + "\n")
            if measurements:
                pending = pa.concat_tables([pending, to_table(measurements).cast(_PLAIN)])
            # Groups of rows are of one size, wherever parts end.
            while pending.num_rows >= _ROWS_A_GROUP:
                writer.write_table(pending.slice(0, _ROWS_A_GROUP).combine_chunks(), _ROWS_A_GROUP)
                pending = pending.slice(_ROWS_A_GROUP)
        writer.write_table(pending.combine_chunks(), _ROWS_A_GROUP)


def _write_csv(run: RunDirectory, redacted: Redacted | None, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv_writer(file)
        writer.writerow(_PLAIN.names)
        for _, measurements in _cases(run, redacted):
            for r in measurements:
                for position, value in enumerate(r.values.tolist()):
                    writer.writerow([r.item, r.sample, r.piece, r.statistic, position, value, r.unit])


def _cases(run: RunDirectory, redacted: Redacted | None) -> Iterator[tuple[JsonObject, list[Measurement]]]:
    for case, measurements in cases_of_run(run):
        texts = {name: value for name, value in case.items() if name != "cost"}
        if redacted is None:
            yield texts, measurements
        else:
            yield redacted.case(texts), redacted.measurements(measurements)


def _canonical(record: JsonObject) -> str:
    return json.dumps(record, sort_keys=True, ensure_ascii=False)
