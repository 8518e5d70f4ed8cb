"""What every dialect checks of a server's answer, in the same words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from leakmeter.backends.served.dialect import TopRow
from leakmeter.core.plain import visible
from leakmeter.core.request import FloatArray
from leakmeter.errors import ScoreError, UnknownNameError, UsageError

_TOLERANCE: Final = 0.01
_ROUNDING: Final = 1e-9
"""Nats above 0 that a log-probability may be: rows of llama.cpp sum to e^1.2e-4."""
_NO_PROBABILITY: Final = -9999.0  # what vLLM writes for −∞, of which JSON has no number
_LOWEST: Final = -1e30  # above what llama.cpp writes for it
_LONGEST_WORD: Final = 300
_LARGEST_WINDOW: Final = 1 << 31
MOST_VOCAB: Final = 1 << 19
"""Tokens of a vocabulary, more than any has."""


class AnswerError(ScoreError):
    """An answer that cannot be right, with the server's fault (a name of `checkup.report.FAULTS`), and what was seen of
    it as a sentence."""

    def __init__(self, fault: str, host: str, problem: str, seen: str = "") -> None:
        super().__init__(f"the server {host} {problem}")
        self.fault, self.seen = fault, seen


def log_probs_of(values: Sequence[Any], n: int, host: str) -> FloatArray:
    """`n` log-probabilities from an answer's JSON; refused if there are more or fewer, or they cannot be right."""
    with reading(host):
        check_n_rows(len(values), n, host)
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        raise AnswerError("no_numbers", host, "omits log-probabilities, or returns values that are not numbers")
    return _checked(values, host)


def _checked(numbers: Any, host: str) -> FloatArray:
    with reading(host):
        values = np.asarray(numbers, dtype=np.float64)
    log_probs: FloatArray = np.where((values == _NO_PROBABILITY) | (values < _LOWEST), -np.inf, values)
    check_log_probs(log_probs, host)
    return log_probs


def check_log_probs(values: FloatArray, host: str) -> None:
    """Refuse NaN, and what is above 0; −∞ is the log of a probability of 0."""
    if np.isnan(values).any():
        raise AnswerError("nan", host, "returns NaN for a log-probability; check its log and its precision")
    if (values > _TOLERANCE).any():
        raise AnswerError("above_zero", host, "returns log-probabilities above 0, so they are not log-probabilities")


def check_ids(sent: Sequence[int], echoed: Sequence[Any] | None, host: str) -> None:
    """Refuse an answer about other token ids than were sent, or without any; the message does not contain ids."""
    if echoed is None:
        raise AnswerError("no_ids", host, "does not report which token ids it read; its version may be too old")
    if list(echoed) == list(sent):
        return
    if len(echoed) == len(sent) + 1 and list(echoed[1:]) == list(sent):
        raise AnswerError("start_token", host, "adds a start token to the token ids it receives")
    raise AnswerError(
        "other_ids",
        host,
        f"returns other token ids than it was sent ({len(sent)} sent, {len(echoed)} returned)",
    )


def check_texts(sent: Sequence[str], echoed: Sequence[str], host: str) -> None:
    """Refuse an answer about other tokens than were sent, where a server returns tokens as texts; the message does not
    contain them. Letters and digits are compared: servers differ in how they write spaces and parts of characters."""
    pairs = (
        ["".join(filter(str.isalnum, token_text)) for token_text in pair] for pair in zip(sent, echoed, strict=False)
    )
    if len(echoed) < len(sent) or any(ours and theirs and ours != theirs for ours, theirs in pairs):
        raise AnswerError("other_ids", host, "returns other tokens than it was sent; check --tokenizer")


def check_model(name: str, answered_name: Any, host: str) -> None:
    if answered_name != name:
        raise AnswerError(
            "another_model",
            host,
            "now serves another model than at the start of the run; start a new run for that model",
        )


@contextmanager
def reading(host: str) -> Iterator[None]:
    """Say in one line that an answer has another form than was expected, where reading it fails."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise AnswerError("other_form", host, "returns a response that does not fit its dialect") from None


def check_n_rows(n_rows: int, n_asked: int, host: str) -> None:
    if n_rows != n_asked:
        raise AnswerError(
            "missing_rows" if n_rows else "no_rows",
            host,
            f"answers with {n_rows} rows of log-probabilities, {n_asked} expected",
        )


def check_n_top(n_tokens: int, k: int, host: str) -> None:
    if n_tokens < k:
        raise AnswerError("few_top", host, f"answers with {n_tokens} tokens of a row instead of the {k} likeliest")


def response_log_probs(rows: Sequence[Mapping[int, float]], tokens: Sequence[int], host: str) -> FloatArray:
    pairs = list(zip(rows, tokens, strict=True))
    if any(token not in row for row, token in pairs):
        raise AnswerError(
            "other_places", host, "returns rows without the given token, so they belong to other positions"
        )
    values = [row[token] for row, token in pairs]
    return log_probs_of(values, len(values), host)


def top_row_of(row: Mapping[int, float], k: int, host: str, excess: float = 0.0) -> TopRow:
    """A row's likeliest tokens, ties in order of ids; `excess` is subtracted from their log-probabilities."""
    check_n_top(len(row), k, host)
    log_probs = log_probs_of(list(row.values()), len(row), host)
    if np.logaddexp.reduce(log_probs) > _TOLERANCE:
        raise AnswerError("not_normalised", host, "returns likeliest tokens whose probabilities sum to more than 1")
    in_order = sorted(zip(row, log_probs.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))
    return {token: log_prob - excess for token, log_prob in in_order}


def whole_rows_of(rows: Sequence[Mapping[int, float]], n_vocab: int | None, host: str) -> FloatArray:
    """Rows of log-probabilities by token id, over the whole vocabulary and `normalised`: (row, vocab)."""
    n = n_vocab or max((len(row) for row in rows), default=0)
    if any(len(row) != n or min(row) != 0 or max(row) != n - 1 for row in rows):
        raise AnswerError("part_of_vocabulary", host, "returns rows that lack part of the vocabulary")
    return normalised(_checked([[row[token] for token in range(n)] for row in rows], host), host)


def token_id(value: Any) -> int:
    """A token's id, as JSON has it: a number, or its digits as a name; else a `ValueError` (see `reading`)."""
    number = int(value)
    if not 0 <= number < MOST_VOCAB or isinstance(value, (bool, float)):
        raise ValueError("no token's id")
    return number


def token_ids(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(token_id, values))


def word(value: Any) -> str | None:
    """A name or version from an answer, if it is printable and short."""
    return value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_WORD else None


def window(value: Any, n_beside: int) -> int | None:
    """Most tokens of prompt and response, less `n_beside` that are sent beside them; None where the server returns no
    number that a model can have."""
    is_length = isinstance(value, int) and not isinstance(value, bool) and n_beside < value < _LARGEST_WINDOW
    return value - n_beside if is_length else None


def one_model(model: str | None, names: Sequence[str], host: str) -> str:
    """Name of the model to ask for: the server's only one where `model` is None. Unprintable names are left out."""
    names = [name for name in names if word(name)]
    visible_names = list(map(visible, names))
    if model is None and len(names) == 1:
        return names[0]
    if model is None:
        listing = ", ".join(f"'{name}'" for name in visible_names[:20]) or "none"
        raise UsageError(f"the server {host} has several models, or none; name one after '#': {listing}")
    if model not in names:
        raise UnknownNameError(f"model of the server {host}", model, visible_names)
    return model


def normalised(rows: FloatArray, host: str) -> FloatArray:
    """Rows whose probabilities sum to exactly 1; refused where they do not sum to 1 but for the server's rounding."""
    sums = np.logaddexp.reduce(rows, axis=1, keepdims=True)
    wrong = sums[np.abs(sums) > _TOLERANCE]
    if wrong.size:
        total = sum_in_words(float(wrong[np.abs(wrong).argmax()]))
        raise AnswerError(
            "not_normalised",
            host,
            f"returns rows whose probabilities do not sum to 1 but to {total}",
            f"They sum to {total}.",
        )
    return np.asarray(rows - sums)


def sum_in_words(log_sum: float) -> str:
    return f"{'more' if log_sum > 0 else 'less'} than 1 (the log of the sum is {log_sum:.2g} nats)"


def excess(row: Sequence[Any], host: str) -> float:
    """Nats that all log-probabilities of a whole row are too large by; 0 for float64's rounding. Where a server sums
    over the vocabulary in float32, each is off by about 1e-4, and the sum of a long response by far more than noise."""
    rows = log_probs_of(row, len(row), host)[np.newaxis]
    normalised(rows, host)
    log_sum = float(np.logaddexp.reduce(rows[0]))
    return log_sum if abs(log_sum) > _ROUNDING else 0.0


def check_n_read(n_read: Any, n_sent: int, host: str) -> None:
    """Refuse an answer about more or fewer token ids than were sent, where a server returns only their number."""
    if n_read != n_sent:
        raise AnswerError(
            "start_token" if n_read == n_sent + 1 else "other_ids",
            host,
            "adds a start token to the token ids it receives, or cuts them",
        )
