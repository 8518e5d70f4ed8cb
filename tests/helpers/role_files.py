"""Files as the people have them who measure: logs, exports and tables of other tools, with invented texts."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NOTE = "Patient: Tobias Quillmere, ferry mechanic. Phone 555-010-7788. He has taken lisinopril since January."
QUESTION = "How can I reach the patient?"
ANSWER = "Call Mr Quillmere at 555-010-7788."
REVIEWS = (
    ("r1", "The kettle leaked on the first day.", "negative"),
    ("r2", "Quiet, quick, and the lid fits.", "positive"),
    ("r3", "It arrived in pieces, twice.", "negative"),
)


def chat_log(path: Path) -> Path:
    """Chat completions as they were logged: the retrieved note is the system's, the answer the last message."""
    messages = [
        {"role": "system", "content": f"Answer from these notes.\n\n{NOTE}"},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": ANSWER},
    ]
    return _lines(path, [{"messages": messages}])


def completions_log(path: Path) -> Path:
    """Requests and responses of chat completions, compressed."""
    request = {"model": "gpt-invented", "messages": [
        {"role": "system", "content": NOTE}, {"role": "user", "content": QUESTION},
    ]}  # fmt: skip
    response = {"id": "chatcmpl-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}}]}
    line = {"custom_id": "request-1", "body": request, "response": {"status_code": 200, "body": response}}
    path.write_bytes(gzip.compress(f"{json.dumps(line)}\n".encode()))
    return path


def few_shots(path: Path) -> Path:
    return _table(path, ("review", "sentiment"), [row[1:] for row in REVIEWS])


def queries(path: Path) -> Path:
    rows = [("The cup is fine and the handle warm.", "positive"), ("The plug does not fit.", "negative")]
    return _table(path, ("review", "sentiment"), rows)


def crm_export(path: Path) -> Path:
    """Contacts, under the names that such systems give to columns."""
    heading = ("Contact ID", "First Name", "Last Name", "E-Mail Address", "Mobile Phone", "Mailing Street",
               "Mailing City", "Mailing State", "Mailing Zip", "Account Owner")  # fmt: skip
    rows = [
        ("C-01", "Mara", "Ellsworth", "mara.ellsworth@example.org", "617-555-0134", "12 Harbour Street", "Boston",
         "MA", "02110", "Ida"),
        ("C-02", "Anselm", "Dorrick", "a.dorrick@example.org", "617-555-0171", "4 Heron Quay", "Boston", "MA",
         "02109", "Ida"),
    ]  # fmt: skip
    return _table(path, heading, rows)


def cases(path: Path) -> Path:
    """Cases beside the code of a system, each with a response."""
    texts = ["Flat 3b pays 640 a month.", "Flat 4a pays 710 a month."]
    return _lines(path, [{"id": "rent", "context": texts, "query": "What does flat 3b pay?", "response": "640"}])


def _lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def _table(path: Path, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([heading, *rows])
    return path
