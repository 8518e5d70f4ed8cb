"""Files that commands read, by name: written into the directory where a command is called."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from leakmeter.instruments.pii.canaries import canaries_of, lines_of

TASK = """
name = "mood"
label_column = "mood"
labels = ["Glad", "Sad"]
[fields]
said = "Said"
"""
ROWS = "id,said,mood\n" + "".join(f"n{i},text {i},{('Glad', 'Sad')[i % 2]}\n" for i in range(6))
CASE = {"id": "one", "context": "Anna Ek lives in Graz.", "query": "Who?", "response": "Anna"}
AUDIT = 'model = "toy"\nexemplars = "texts.csv"\ncolumn = "said"\nepsilon = 8\nsamples = 1\nmax_new_tokens = 2\n'
FILES = {
    "note.txt": "Anna Ek lives in Graz.",
    "cases.jsonl": json.dumps(CASE) + "\n",
    "chat.json": json.dumps(
        [{"role": "user", "content": "Anna Ek lives in Graz."}, {"role": "user", "content": "Who?"}]
    ),
    "asked.jsonl": json.dumps({"id": "one", "context": "Anna.", "query": "Who?", "reference": "Anna"}) + "\n",
    "bad.jsonl": '{"text": "Jane Roe, jane.roe@example.org"}\nnot json\n',
    "frame.txt": "{context}\n{query}",
    "patterns.txt": "case = [A-Z]{2}-\\d+",
    "mood.toml": TASK,
    "data.csv": ROWS,
    "pool.csv": ROWS.replace("n", "m"),
    "exemplars.csv": ROWS.replace("n", "x"),
    "queries.jsonl": '{"id": "q", "query": "Who?"}\n',
    "contexts.jsonl": '{"id": "a", "context": "Anna."}\n{"id": "b", "context": "Bo."}\n',
    "probes.toml": 'twin = ["Call {name} at"]\n',
    "generate.toml": AUDIT,
    "texts.csv": ROWS,
    "documents.jsonl": '{"text": "Jane Roe, jane.roe@example.org"}\n',
}
CHAT = ("influence", "--messages", "chat.json", "--model", "toy", "--template", "plain")
ASKED = ("susceptibility", "--queries", "queries.jsonl", "--contexts", "contexts.jsonl", "--model", "toy")
PLAN = ("icl", "select", "--task", "mood.toml", "--exemplars", "exemplars.csv", "--data", "data.csv", "--model", "toy")
NOTE = ("--context-file", "note.txt", "--query", "Who?", "--model", "toy")
ICL = ("icl", "--task", "mood.toml", "--data", "data.csv", "--model", "toy", "--label-scoring", "whole-sequence")


@cache
def _people() -> str:
    return lines_of(canaries_of(4, seed=11))


def write_files() -> None:
    """All of them, into the current directory."""
    for name, text in {**FILES, "people.jsonl": _people()}.items():
        Path(name).write_text(text, encoding="utf-8")


def contents(folder: Path) -> dict[str, bytes | None]:
    """Files and directories under a directory, by their paths."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
