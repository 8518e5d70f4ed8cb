"""What people wait for: the main jobs as commands, at several numbers of cases, each from start to end.

`python -m benchmarks jobs` repeats the shipped samples under other ids until there are enough cases, runs each command
without the score cache, and reads what its results say of their cost. Larger numbers of cases are predicted by
`--dry-run`, with the time that the prediction itself takes.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

NAME: Final = "jobs"
CASES: Final = (1, 20, 200)
MOST_MEASURED: Final = {"pii probe": 1}
"""Cases up to which a job is run and not predicted, where that is not 20."""
TINY: Final = {"sizes": (1, 2), "model": "toy"}
_SAMPLES: Final = Path("samples")
_SHOTS: Final = ("--exemplars", "samples/shots.csv", "--text-column", "review", "--label-column", "sentiment")
JOBS: Final = {
    "influence": ("influence", "--data", "log.jsonl", "--controls", "0"),
    "redact": ("redact", "--data", "log.jsonl", "--unit", "document", "--disclosures"),
    "decode": ("decode", "--data", "asked.jsonl", "--max-new-tokens", "30"),
    "icl": ("icl", *_SHOTS, "--data", "reviews.csv", "--label-scoring", "whole-sequence"),
    "pii probe": ("pii", "probe", "--subjects", "people.jsonl"),
    "susceptibility": ("susceptibility", "--queries", "queries.jsonl", "--contexts", "samples/contexts.jsonl"),
}


def rows(model: str, *, sizes: Sequence[int] = CASES, threads: int | None = None) -> Iterator[dict[str, Any]]:
    """Seconds, tokens and the share of time inside the model of each job at each number of cases.

    Args:
        model: that measures.
        sizes: numbers of cases; of `pii probe` people, each with three values.
        threads: of the commands; all cores by default.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _call(["demo", "--write-samples", "samples"], folder)
        for job, words in JOBS.items():
            for size in sizes:
                _write_cases(folder, size)
                more = [] if threads is None else ["--threads", str(threads)]
                command = [*words, "--model", model, "--json", "--out", f"out-{size}", *more]
                if job == "icl":
                    command += ["--max-queries", str(size)]
                dry_run = size > MOST_MEASURED.get(job, 20)
                printed, wall, processor = _call([*command, *(["--dry-run"] if dry_run else ["--no-cache"])], folder)
                row = {"job": job, "cases": size, "seconds": wall, "processor_seconds": processor}
                yield {**row, **(_predicted(printed) if dry_run else _measured(printed, wall)), "measured": not dry_run}


def _call(words: Sequence[str], folder: Path) -> tuple[str, float, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "LEAKMETER_CONFIG": str(folder / "config")}
    command = [sys.executable, "-m", "leakmeter", *words]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)}: {ended.stderr.splitlines()[-1]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended.stdout, time.perf_counter() - started, processor


def _measured(printed: str, wall: float) -> dict[str, Any]:
    costs = [record["cost"] for record in map(json.loads, printed.splitlines()) if "cost" in record]
    inside = sum(cost["seconds"] for cost in costs)
    return {"tokens": sum(cost["tree_tokens"] for cost in costs), "share_inside_model": inside / wall}


def _predicted(printed: str) -> dict[str, Any]:
    prediction = json.loads(printed)
    return {"tokens": prediction["tree_tokens"], "predicted_seconds": prediction["seconds"]}


def _write_cases(folder: Path, n: int) -> None:
    """Files of n cases, people and queries, made of the samples in turn."""
    samples = folder / _SAMPLES

    def repeated(name: str) -> list[dict[str, Any]]:
        lines = (samples / name).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return [{**row, "id": f"{i}"} for i, row in enumerate(islice(cycle(rows), n))]

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    write("log.jsonl", repeated("log.jsonl"))
    asked = repeated("answers.jsonl")
    write("asked.jsonl", [{name: row[name] for name in ("id", "context", "query")} for row in asked])
    write("queries.jsonl", repeated("questions.jsonl"))
    first, last = ("Mara", "Anselm", "Ines", "Tobias", "Odile"), ("Ellsworth", "Dorrick", "Valtorp", "Quillmere")
    people = [
        {
            "id": str(i),
            "name": f"{first[i % 5]} {last[i // 5 % 4]}",
            "phone": f"617-555-{100 + i:04d}",
            "email": f"{first[i % 5].lower()}.{last[i // 5 % 4].lower()}{i}@example.org",
            "address": f"{12 + i} Harbour Street, Boston, MA 02110",
        }
        for i in range(n)
    ]
    write("people.jsonl", people)
    with (samples / "reviews.csv").open(encoding="utf-8", newline="") as file:
        reviews = list(csv.DictReader(file))
    with (folder / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "review", "sentiment"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**row, "id": str(i)} for i, row in enumerate(islice(cycle(reviews), n)))
