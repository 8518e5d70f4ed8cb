"""llama.cpp's own server: a grammar of token ids forces the response, and each forced token comes with its row.

Rows are raw: T = 1, before penalties and the grammar. A token is forced by a grammar where its bytes are whole characters,
and else by a bias that leaves no other choice; `describe` asks once which tokens are of which kind. `echo`, which would
score the prompt, is ignored by this server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from leakmeter.backends.served import answered
from leakmeter.backends.served.connection import Connection
from leakmeter.backends.served.dialect import Capabilities, Drawn, Scored, Served, TopRow
from leakmeter.core.request import FloatArray
from leakmeter.errors import ScoreError

_BIAS: Final = 1e4
_LEAST: Final = -1e30  # below it stands the smallest float, which is written for −∞
_ANY_VOCAB: Final = 2**20
_SEEDS: Final = 2**32 - 1  # the last one stands for a random seed
_SUM_TOLERANCE: Final = 0.01
_WHOLE: Final = ("all F32", "F16", "BF16")
_FIELDS: Final = ("completion_probabilities", "model", "stop_type", "tokens", "tokens_evaluated", "truncated")
_RAW: Final = {"samplers": ["temperature"], "dynatemp_range": 0.0, "mirostat": 0, "post_sampling_probs": False}


class LlamaCpp:
    """A llama.cpp server.

    Args:
        connection: to it.
        model: the file's name or the alias under which it is served; None for whatever is.
    """

    name = "llamacpp"
    reads_prefix_cache = False
    """Whether the server may use states of earlier requests. `describe` says yes for weights that are not quantised:
    with quantised ones it moves log-probabilities by 0.2 to 0.3 nats, depending on what was asked before."""

    def __init__(self, connection: Connection, model: str | None) -> None:
        self._connection, self._host = connection, connection.host
        self._asked = model
        self._told = ""
        self._n_vocab: int | None = None
        self._unforced: frozenset[int] = frozenset()

    def describe(self) -> Served:
        """Ask for the properties of the server and its model, and for one whole row, which has every token's bytes."""
        props, models = self._connection.get("props"), self._connection.get("v1/models")
        with answered.reading(self._host):
            told = {_file_name(one["id"]): one for one in models["data"]}
            name = answered.one_model(self._asked and _file_name(self._asked), list(told), self._host)
            self._told, meta = told[name]["id"], told[name].get("meta") or {}
            kind, window = str(props["model_ftype"]), props["default_generation_settings"]["n_ctx"]
            self._n_vocab = meta.get("n_vocab")
            (row,) = self._completion([0], {"n_predict": 1, "n_probs": self._n_vocab or _ANY_VOCAB})[1]
            self._n_vocab = self._n_vocab or len(row["top_logprobs"])
            self._unforced = frozenset(int(one["id"]) for one in row["top_logprobs"] if not _is_text(one["bytes"]))
        self.reads_prefix_cache = kind in _WHOLE
        return Served(
            model=name,
            # No hash of the weights is told; a path would be private.
            revision=f"{_file_name(str(props['model_path']))}, {kind}, {meta.get('size')} bytes",
            server_version=props.get("build_info"),
            # Room is left for the token that is drawn where the row behind the response is asked for.
            window=int(window) - 1,
            n_vocab=self._n_vocab,
        )

    def capabilities(self) -> Capabilities:
        """Everything that rows give."""
        return Capabilities(targets=True, most_top=None, whole_rows=True, samples=True, token_ids=True)

    def target_log_probs(self, scored: Scored) -> FloatArray:
        """One request, and another for each token that no grammar can force."""
        rows = self._rows(scored, range(len(scored.response)), 1)
        with answered.reading(self._host):
            values = [_from_json(row["logprob"]) for row in rows]
        return answered.log_probs_of(values, len(scored.response), self._host)

    def top_rows(self, scored: Scored, rows: range, k: int) -> list[TopRow]:
        """The same requests, `n_probs` k."""
        return [answered.top_row_of(row, k, self._host) for row in self._by_id(self._rows(scored, rows, k))]

    def whole_rows(self, scored: Scored, rows: range) -> FloatArray:
        """The same requests, `n_probs` the whole vocabulary; sums of 1.0001, rounding of the server, are made 1."""
        found = self._by_id(self._rows(scored, rows, self._n_vocab or _ANY_VOCAB))
        values = answered.whole_rows_of(found, self._n_vocab, self._host)
        sums = np.logaddexp.reduce(values, axis=1, keepdims=True)
        if (np.abs(sums) > _SUM_TOLERANCE).any():
            raise ScoreError(f"the server {self._host} answers with rows whose probabilities do not sum to 1")
        return np.asarray(values - sums)

    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> Drawn:
        """One request, and another wherever the server ends a response with a token that is no stop id."""
        ids: list[int] = []
        values: list[Any] = []
        while len(ids) < n_tokens:
            asked = {"n_predict": n_tokens - len(ids), "n_probs": 1, "temperature": temperature}
            answer, rows = self._completion([*prompt, *ids], {**asked, "seed": (seed + len(ids)) % _SEEDS})
            with answered.reading(self._host):
                drawn = [int(row["id"]) for row in rows]
                n = next((i + 1 for i, token in enumerate(drawn) if token in stop_ids), len(drawn))
                ids += drawn[:n]
                values += [_from_json(row["logprob"]) for row in rows[:n]]
                if n < len(drawn) or not drawn or drawn[n - 1] in stop_ids or answer["stop_type"] != "eos":
                    break
        return Drawn(tuple(ids), tuple(answered.log_probs_of(values, len(ids), self._host).tolist()))

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Ask `/tokenize`."""
        found = self._connection.post("tokenize", {"content": text, "add_special": False, "parse_special": False})
        with answered.reading(self._host):
            return tuple(int(token) for token in found["tokens"])

    def _rows(self, scored: Scored, rows: range, k: int) -> list[Mapping[str, Any]]:
        """Entries of `completion_probabilities` for a stretch of rows."""
        found: list[Mapping[str, Any]] = []
        for first, forced in self._stretches(scored.response, rows):
            how: dict[str, Any] = {"n_predict": len(forced) or 1, "n_probs": k, "temperature": 0.0}
            if len(forced) == 1 and forced[0] in self._unforced:
                how["logit_bias"] = [[forced[0], _BIAS]]
            elif forced:
                how["grammar"] = "root ::= " + " ".join(f"<[{token}]>" for token in forced)
            _, entries = self._completion([*scored.prompt, *scored.response[:first]], how)
            answered.check_n_rows(len(entries), len(forced) or 1, self._host)
            with answered.reading(self._host):
                drawn = [entry["id"] for entry in entries]
            if forced and drawn != forced:
                raise ScoreError(f"the server {self._host} answers about other response tokens than were asked for")
            found += entries
        return found

    def _stretches(self, response: Sequence[int], rows: range) -> Iterator[tuple[int, list[int]]]:
        """First row and tokens of what one request can force; no tokens for the row behind the response."""
        for one_by_one, places in groupby(rows, lambda t: t == len(response) or response[t] in self._unforced):
            stretch = list(places)
            for part in [[t] for t in stretch] if one_by_one else [stretch]:
                yield part[0], list(response[part[0] : part[-1] + 1])

    def _completion(self, ids: Sequence[int], asked: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Any]]:
        """The answer to token ids, and its rows."""
        body = {**_RAW, "cache_prompt": self.reads_prefix_cache, "n_cache_reuse": 0, "response_fields": _FIELDS, **asked}
        answer = self._connection.post("completion", {"prompt": list(ids), "return_tokens": True, **body})
        with answered.reading(self._host):
            answered.check_model(self._told, answer["model"], self._host)
            answered.check_n_read(int(answer["tokens_evaluated"]), len(ids), self._host)
            if answer["truncated"]:
                raise ScoreError(f"the server {self._host} cut the prompt; start it with a larger context")
            return answer, list(answer["completion_probabilities"])

    def _by_id(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[int, float]]:
        with answered.reading(self._host):
            return [{one["id"]: _from_json(one["logprob"]) for one in (*row["top_logprobs"], row)} for row in rows]


DIALECT = LlamaCpp


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _is_text(data: Sequence[int]) -> bool:
    try:
        return bool(bytes(data).decode())
    except UnicodeDecodeError:
        return False


def _from_json(value: Any) -> Any:
    return float("-inf") if isinstance(value, float) and value < _LEAST else value
