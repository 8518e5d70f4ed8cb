"""Texts and raw numbers behind scores, a pair of files each, where the user keeps them: what heat maps are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakmeter.core.plain import one_line
from leakmeter.core.written import PARTIAL, make_private, store_errors, write_whole
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

    def has(self, score: str) -> bool:
        """Whether the texts of a score are there."""
        return (self.path / f"{score}.json").exists() and (self.path / f"{score}.parquet").exists()

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

    def all_texts(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Each score's texts; None where they cannot be read."""
        for path in sorted(self.path.glob("*.json")):
            try:
                yield path.stem, json.loads(path.read_bytes())["texts"]
            except (OSError, ValueError, RecursionError, KeyError, TypeError):
                yield path.stem, None

    def remove(self, scores: Collection[str]) -> None:
        """Remove the texts of some scores.

        Raises:
            StoreError: a file cannot be removed.
        """
        self._remove(lambda score: score in scores)

    def remove_all_but(self, scores: Collection[str]) -> int:
        """Remove the texts of all other scores, and what is half written; returns of how many scores.

        Raises:
            StoreError: a file cannot be removed.
        """
        return len(self._remove(lambda score: score not in scores))

    def _remove(self, is_gone: Callable[[str], bool]) -> set[str]:
        gone: set[str] = set()
        with store_errors(f"kept texts in '{self.path}' cannot be removed"):
            for path in self.path.glob("*"):
                score = path.name.split(".")[0]
                if is_gone(score) or path.name.endswith(PARTIAL):
                    path.unlink(missing_ok=True)
                    gone.add(score)
        return gone
