"""Invented logged answers, and a toy model that reads chats."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from helpers.mortal_toy import Mortal
from helpers.toy_chat import ChatByteTokenizer
from leakmeter.data.traces import LoggedAnswer
from leakmeter.data.traces.answer import DocumentPlace, LoggedDocument, LoggedMessage, Sampling

MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


class ChatToy(Mortal):
    """The toy model with a chat template; it dies after so many rounds of scores."""

    def __init__(self, n_rounds: int | None = None, **options: Any) -> None:
        super().__init__(n_rounds, **options)
        self.tokenizer = ChatByteTokenizer()


class Echo(ChatToy):
    """A model that repeats: what followed a byte before is likelier behind it."""

    def logits(self, ids: Any, positions: Any) -> Any:
        """Even, but for what followed the last byte before."""
        out = np.zeros(257)
        followers = ids[1:][ids[:-1] == ids[-1]]
        np.add.at(out, followers, 4.0 / max(1, len(followers)))
        return out


def logged(
    number: int,
    documents: Mapping[str, str],
    answer: str,
    *,
    recipient: str | None = "reader-1",
    query: str = "What is new?",
    sampling: Sampling | None = None,
    **fields: Any,
) -> LoggedAnswer:
    """One call of an invented system: documents one after the other in the user's turn, and a question."""
    content, found = "", []
    for id_, text in documents.items():
        start = len(content)
        content += f"{text}\n\n"
        digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
        found.append(LoggedDocument(id_, digest, text, (DocumentPlace(1, start, start + len(text)),)))
    told: dict[str, Any] = {
        "trace_id": f"trace-{number:03}", "span_id": "1", "response_id": None,
        "time": MORNING + timedelta(minutes=number), "recipient": recipient, "model": "toy",
        "sampling": sampling or Sampling(temperature=1.0, logged_decoding="sampling"),
        "messages": (LoggedMessage("system", "Be brief."), LoggedMessage("user", f"{content}{query}")),
        "answer": answer, "documents": tuple(found), "where": f"log.jsonl, line {number + 1}",
    }  # fmt: skip
    return LoggedAnswer(**{**told, **fields})
