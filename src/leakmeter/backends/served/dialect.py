"""What a dialect of a model server has to answer, what it says beforehand that it cannot, and what dialects share.

Those of vLLM, SGLang and llama.cpp read token ids, and give rows of log-probabilities by id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np

from leakmeter.backends.served.connection import Connection
from leakmeter.core.plain import visible
from leakmeter.errors import CapabilityError, ScoreError, UnknownNameError, UsageError
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a server gives of a model."""

    targets: bool
    """Log-probabilities of given response tokens."""
    most_top: int | None
    """Largest K of the likeliest tokens of a row; 0 for none, None for the whole vocabulary."""
    whole_rows: bool
    """Log-probabilities of the whole vocabulary, of as many rows as are asked."""
    samples: bool
    """Whole responses drawn by the server."""
    token_ids: bool
    """Prompts as token ids; without them nothing but text can be sent."""
    fresh_rows: bool = False
    """Whole rows that nothing has a part in which the server has read before."""

    @classmethod
    def everything(cls) -> Self:
        return cls(targets=True, most_top=None, whole_rows=True, samples=True, token_ids=True, fresh_rows=True)

    @classmethod
    def of_targets(cls, most_top: int | None) -> Self:
        """Log-probabilities of given tokens, so many of the likeliest, and drawn responses."""
        return cls(targets=True, most_top=most_top, whole_rows=False, samples=True, token_ids=True)


@dataclass(frozen=True, slots=True)
class Served:
    """What a server says of itself and its model."""

    model: str
    revision: str | None
    """Of the weights, or a hash or path that the server tells; None where it tells none."""
    server_version: str | None
    window: int | None
    """Most tokens of prompt and response."""
    n_vocab: int | None


@dataclass(frozen=True, slots=True)
class SequenceToScore:
    """Token ids to be scored: a prompt, and the response after it."""

    prompt: tuple[int, ...]
    response: tuple[int, ...]


TopRow = dict[int, float]
"""Raw log-probabilities (T = 1), nats, by token id: of a row's likeliest tokens, in order, and of the token given."""


@dataclass(frozen=True, slots=True)
class DrawnResponse:
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Raw (T = 1), nats; empty where the server gives none."""


@dataclass(frozen=True, slots=True)
class RequestSetting:
    """Options of a request on which raw log-probabilities do not depend."""

    temperature: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    reads_cache: bool | None = None
    """Whether states that were kept of earlier requests may be used; None as in a measurement."""

    @property
    def sampling(self) -> dict[str, float]:
        """The options of drawing, by the names that most servers use."""
        return {name: getattr(self, name) for name in ("temperature", "repetition_penalty", "presence_penalty")}


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    log_probs: FloatArray
    """(response,), nats."""
    n_cached: int | None
    """Tokens whose states the server says it had kept; None where it says nothing."""


SamplingControl = Literal["temperature", "repetition_penalty", "presence_penalty", "cache"]


class Dialect(ABC):
    """A server's requests and answers; made with a `connection.Connection` and the name of the model, or none."""

    name: ClassVar[str]
    translates: ClassVar[bool] = False
    """Whether it is made with the model's tokenizer too: the server takes text instead of ids, or names tokens by their
    text."""
    reads_prefix_cache: bool = False
    """Whether what a server has read before spares it work on the requests that are made here."""
    controls: ClassVar[frozenset[SamplingControl]] = frozenset()
    """What of a `RequestSetting` a request can be given."""

    @abstractmethod
    def describe(self) -> Served:
        """Ask the server what it serves."""

    @abstractmethod
    def abilities(self) -> Abilities:
        """What it gives; known before any request of a measurement."""

    @abstractmethod
    def target_log_probs(self, scored: SequenceToScore) -> FloatArray:
        """Raw log-probabilities of the response's tokens, nats, (response,)."""

    @abstractmethod
    def top_rows(self, scored: SequenceToScore, rows: range, k: int) -> list[TopRow]:
        """The k likeliest tokens of rows, and the response's token there, wherever it ranks. Row t predicts token t of
        the response; the last row predicts what comes next."""

    @abstractmethod
    def whole_rows(self, scored: SequenceToScore, rows: range) -> FloatArray:
        """Log-probabilities over the whole vocabulary, nats, (row, vocab)."""

    @abstractmethod
    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> DrawnResponse:
        """A response drawn by the server without truncation of its distribution; temperature 0 is greedy."""

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Ids of a text as the server makes them, without start tokens; None where it does not say."""
        return None

    def probed_log_probs(self, scored: SequenceToScore, setting: RequestSetting) -> ProbeAnswer:
        """As `target_log_probs`, by the same request under a setting; asked of a dialect with the `controls` for it."""
        raise CapabilityError(f"requests of {self.name} have no such settings")


SCORING: Final = RequestSetting(temperature=0.0)
UNCACHED: Final = RequestSetting(temperature=0.0, reads_cache=False)


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
    """An answer that cannot be right, with the server's fault (a name of `doctor.report.FAULTS`), and what was seen of
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


def check_echo(values: Sequence[Any], host: str) -> None:
    """Refuse log-probabilities of an echo that are moved: exactly its first token, which follows nothing, has none."""
    if [place for place, value in enumerate(values) if value is None] != [0]:
        raise AnswerError(
            "other_places",
            host,
            "returns log-probabilities that belong to other positions: of an echo, exactly the first has to be null",
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


UNTRUNCATED: Final = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "frequency_penalty": 0.0}
"""Where these are left out, vLLM and SGLang take them from the model's generation_config.json."""


def ids_for(scored: SequenceToScore, rows: range) -> tuple[int, ...]:
    """Token ids whose own rows are the wanted ones: for the row of what comes next, any token is put there."""
    ids = (*scored.prompt, *scored.response)
    return (*ids, ids[-1]) if len(scored.response) in rows else ids


class RowsDialect(Dialect):
    """What dialects share whose servers give rows by token id."""

    controls = frozenset[SamplingControl](("temperature", "repetition_penalty", "presence_penalty"))

    def __init__(self, connection: Connection, model: str | None) -> None:
        """`model` is None for the only one that the server has."""
        self._connection, self._host, self._asked = connection, connection.host, model
        self._model = model or ""
        self._excess = 0.0  # nats that log-probabilities are too large by, all alike

    @abstractmethod
    def _rows(
        self, scored: SequenceToScore, rows: range, k: int, setting: RequestSetting = SCORING
    ) -> tuple[list[dict[int, float]], int | None]:
        """Log-probabilities by token id of the k likeliest tokens of each row and of the token given there; how many
        tokens the server says it had cached."""

    @override
    def target_log_probs(self, scored: SequenceToScore) -> FloatArray:
        return self.probed_log_probs(scored, SCORING).log_probs

    @override
    def probed_log_probs(self, scored: SequenceToScore, setting: RequestSetting) -> ProbeAnswer:
        rows, n_cached = self._rows(scored, range(len(scored.response)), 0, setting)
        return ProbeAnswer(response_log_probs(rows, scored.response, self._host) - self._excess, n_cached)

    @override
    def top_rows(self, scored: SequenceToScore, rows: range, k: int) -> list[TopRow]:
        return [top_row_of(row, k, self._host, self._excess) for row in self._rows(scored, rows, k)[0]]

    @override
    def tokenize(self, text: str) -> tuple[int, ...] | None:
        reply = self._connection.post("tokenize", {"model": self._model, "prompt": text, "add_special_tokens": False})
        with reading(self._host):
            return token_ids(reply["tokens"])
