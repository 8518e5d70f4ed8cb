"""Texts and raw numbers behind scores, a pair of files each, where the user keeps them: what heat maps are made of."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakmeter.core.plain import one_line
from leakmeter.core.written import make_private, store_errors, write_whole
from leakmeter.errors import StoreError
from leakmeter.runs.schema import from_table, to_table

if TYPE_CHECKING:
    from leakmeter.runs.result import Part


class KeptTexts:
    """A directory of texts by the name of their score.

    Args:
        path: the directory; it is made with the first text.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, score: str, part: Part, params: Mapping[str, Any]) -> None:
        """Keep the texts and measurements of one answer.

        Args:
            score: its name.
            part: what was measured.
            params: of the measure.

        Raises:
            StoreError: they cannot be written.
        """
        texts, measurements = part
        sink = pa.BufferOutputStream()
        pq.write_table(to_table(measurements), sink, compression="zstd")
        with store_errors(f"texts cannot be kept in '{self.path}'"):
            make_private(self.path)
            write_whole(self.path / f"{score}.parquet", sink.getvalue().to_pybytes())
            write_whole(
                self.path / f"{score}.json",
                json.dumps({"texts": texts, "params": dict(params)}, ensure_ascii=False).encode(),
            )

    def get(self, score: str) -> tuple[Part, dict[str, Any]]:
        """The texts and measurements of one answer, and the parameters of the measure.

        Raises:
            StoreError: they cannot be read.
        """
        try:
            told = json.loads((self.path / f"{score}.json").read_bytes())
            numbers = pq.read_table(pa.BufferReader((self.path / f"{score}.parquet").read_bytes()))
            return (told["texts"], from_table(numbers)), told["params"]
        except (OSError, ValueError, RecursionError, KeyError, TypeError, pa.ArrowException) as error:
            raise StoreError(f"kept texts '{self.path / score}' cannot be read: {one_line(error)}") from None

    def all_texts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each score's texts; those that cannot be read are left out."""
        for path in sorted(self.path.glob("*.json")):
            try:
                yield path.stem, json.loads(path.read_bytes())["texts"]
            except (OSError, ValueError, RecursionError, KeyError, TypeError):
                continue

    def remove_all_but(self, scores: Collection[str]) -> int:
        """Remove the texts of all other scores; returns of how many.

        Raises:
            StoreError: a file cannot be removed.
        """
        gone: set[str] = set()
        with store_errors(f"kept texts in '{self.path}' cannot be removed"):
            for path in self.path.glob("*"):
                if path.name.split(".")[0] not in scores:
                    path.unlink(missing_ok=True)
                    gone.add(path.name.split(".")[0])
        return len(gone)
