"""People found in documents by `leakmeter pii extract`: megabytes a second, its start included, without a recogniser.

Two texts, each of about 40 MB as JSON lines: `people`, documents that each tell all of a person, which is the most
work; and `mail`, where one in ten does and the others are prose, paragraphs of this project's pages or of `--data`.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

from leakmeter.instruments.pii.canaries import canaries_of, document_of

NAME: Final = "extraction"
_UNIVERSITIES: Final = Path(str(resources.files("leakmeter.text.surrogates").joinpath("universities.txt")))
_PROSE: Final = Path(__file__).parents[1] / "docs"
_N_BYTES: Final = 40_000_000
_N_PEOPLE: Final = 2_000


def rows(data: Path | None = None, n_bytes: int = _N_BYTES) -> Iterator[dict[str, Any]]:
    """What each way took.

    Args:
        data: a file of prose, paragraphs apart by empty lines; this project's pages by default.
        n_bytes: of each text, about.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for text, share in (("people", 1.0), ("mail", 0.1)):
            plain = _written(place / f"{text}.jsonl", share, data, n_bytes)
            packed = plain.with_suffix(".jsonl.gz")
            packed.write_bytes(gzip.compress(plain.read_bytes(), 6))
            yield _timed(text, plain, "structured")
            yield _timed(text, packed, "structured", n_bytes=plain.stat().st_size)
            yield _timed(text, plain, "relationships")
            yield _timed(text, plain, "universities", "--universities", str(_UNIVERSITIES))


def _written(path: Path, share_of_people: float, data: Path | None, n_bytes: int) -> Path:
    rng = random.Random(0)
    people = canaries_of(_N_PEOPLE, seed=0)
    pages = [data] if data else sorted(_PROSE.rglob("*.md"))
    prose = [part for page in pages for part in page.read_text(encoding="utf-8").split("\n\n") if len(part) > 200]
    n_written = 0
    with path.open("w", encoding="utf-8") as file:
        while n_written < n_bytes:
            if rng.random() < share_of_people:
                text = document_of(rng.choice(people), seed=0, number=rng.randrange(1_000))
            else:
                text = "\n\n".join(rng.sample(prose, 3))
            n_written += file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    return path


def _timed(text: str, path: Path, find: str, *more: str, n_bytes: int | None = None) -> dict[str, Any]:
    out = path.with_name("found.jsonl")
    command = [sys.executable, "-m", "leakmeter", "pii", "extract", str(path), "--out", str(out), "--json"]
    started = time.perf_counter()
    done = subprocess.run([*command, "--find", find, *more], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    told = json.loads(done.stdout)
    out.unlink()
    return {
        "text": text,
        "file": "".join(path.suffixes),
        "find": find,
        "s": seconds,
        "mb_per_s": (n_bytes or path.stat().st_size) / 1e6 / seconds,
        "documents": told["n_documents"],
        "people": told["n_subjects"],
    }
