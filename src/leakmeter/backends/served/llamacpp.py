"""llama.cpp's own server: a grammar of token ids forces the response, and each forced token comes with its row.

Rows are raw: T = 1, before penalties and grammar. A grammar forces tokens whose bytes are whole characters. The server
leaves out the rows of other tokens, and no grammar has those that end a response: both are looked up in whole rows, a
request each. `echo`, which would score the prompt, is ignored by this server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import PureWindowsPath
from typing import Any, Final

from leakmeter.backends.served import answered
from leakmeter.backends.served.connection import Connection
from leakmeter.backends.served.dialect import Capabilities, Drawn, Scored, Served, TopRow
from leakmeter.core.request import FloatArray
from leakmeter.errors import ScoreError

_SYMBOL: Final = "<[{}]>".format
_SEEDS: Final = 2**32 - 1  # the last one stands for a random seed
_NOT_QUANTISED: Final = ("all F32", "F16", "BF16")
_FIELDS: Final = ("completion_probabilities", "model", "tokens", "tokens_evaluated", "truncated")
# Pieces of the cache would be moved to other positions by `n_cache_reuse`, which servers may have turned on.
_ALWAYS: Final = {"response_fields": _FIELDS, "return_tokens": True, "n_cache_reuse": 0} | {
    "samplers": ["temperature"],
    "temperature": 0.0,
    "dynatemp_range": 0.0,
    "mirostat": 0,
}


class LlamaCpp:
    """A llama.cpp server.

    Args:
        connection: to it.
        model: the file's name or the alias under which it is served; None for whatever is.
    """

    name = "llamacpp"
    reads_prefix_cache = False
    """True once `describe` finds weights that are not quantised; with others it moves numbers by 0.2 to 0.3 nats."""

    def __init__(self, connection: Connection, model: str | None) -> None:
        self._connection, self._host, self._asked = connection, connection.host, model
        self._told, self._n_vocab = "", 0
        self._unforced: frozenset[int] = frozenset()

    def describe(self) -> Served:
        """Ask for the properties of server and model, and for one whole row, which has every token's bytes."""
        props, models = self._connection.get("props"), self._connection.get("v1/models")
        with answered.reading(self._host):
            told = {_file_name(one["id"]): one for one in models["data"]}
            name = answered.one_model(self._asked and _file_name(self._asked), list(told), self._host)
            self._told, meta, kind = told[name]["id"], told[name]["meta"], props["model_ftype"]
            self._n_vocab, window = int(meta["n_vocab"]), int(props["default_generation_settings"]["n_ctx"])
            (row,) = self._completion([0], self._any_row())["completion_probabilities"]
            self._unforced = frozenset(one["id"] for one in row["top_logprobs"] if not _is_text(one["bytes"]))
            # No hash of the weights is told; the whole path would be private.
            revision = f"{_file_name(props['model_path'])}, {kind}, {meta['size']} bytes"
        self.reads_prefix_cache = kind in _NOT_QUANTISED
        # A token is drawn where the row behind the response is asked for.
        return Served(name, answered.word(revision), answered.word(props.get("build_info")), window - 1, self._n_vocab)

    def capabilities(self) -> Capabilities:
        """Everything that rows give."""
        return Capabilities(targets=True, most_top=None, whole_rows=True, samples=True, token_ids=True)

    def target_log_probs(self, scored: Scored) -> FloatArray:
        """One request, and one for each token that no grammar can force."""
        rows, tokens, host = self._rows(scored, range(len(scored.response)), 1), scored.response, self._host
        values = [answered.log_prob_of(row, token, host) for row, token in zip(rows, tokens, strict=True)]
        return answered.log_probs_of(values, len(tokens), host)

    def top_rows(self, scored: Scored, rows: range, k: int) -> list[TopRow]:
        """The same requests, `n_probs` k."""
        return [answered.top_row_of(row, k, self._host) for row in self._rows(scored, rows, k)]

    def whole_rows(self, scored: Scored, rows: range, **how: Any) -> FloatArray:
        """The same requests, `n_probs` the whole vocabulary; sums of 1.0002, the server's rounding, are made 1."""
        found = self._rows(scored, rows, self._n_vocab, **how)
        return answered.normalised(answered.whole_rows_of(found, self._n_vocab, self._host), self._host)

    def fresh_rows(self, scored: Scored, rows: range) -> FloatArray:
        """Whole rows without the prefix cache."""
        return self.whole_rows(scored, rows, cache_prompt=False)

    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> Drawn:
        """One request; the server ends a response with its own tokens for that too."""
        asked = {"n_predict": n_tokens, "n_probs": 1, "temperature": temperature, "seed": seed % _SEEDS}
        answer = self._completion(prompt, asked)
        with answered.reading(self._host):
            drawn, rows = [int(token) for token in answer["tokens"]], answer["completion_probabilities"] or ()
            n = next((i for i, token in enumerate(drawn, 1) if token in stop_ids), len(drawn))
            # The rows of parts of characters are left out, and nothing says which these are.
            values = [row["logprob"] for row in rows[:n]] if len(rows) == len(drawn) else []
        return Drawn(tuple(drawn[:n]), tuple(answered.log_probs_of(values, len(values), self._host).tolist()))

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Ask `/tokenize`."""
        found = self._connection.post("tokenize", {"content": text, "add_special": False, "parse_special": False})
        with answered.reading(self._host):
            return tuple(int(token) for token in found["tokens"])

    def _rows(self, scored: Scored, rows: range, k: int, **also: Any) -> list[dict[int, float]]:
        """The k likeliest tokens of each row, and the token given there."""
        found: list[dict[int, float]] = []
        for first, forced in self._stretches(scored.response, rows):
            how = self._any_row()
            if forced:
                how = {"n_predict": len(forced), "n_probs": k, "grammar": "root ::= " + " ".join(map(_SYMBOL, forced))}
            answer = self._completion((*scored.prompt, *scored.response[:first]), how | also)
            told = answer["completion_probabilities"] or ()
            answered.check_n_rows(len(told), len(forced) or 1, self._host)
            with answered.reading(self._host):
                answered.check_ids(forced, [row["id"] for row in told if forced], self._host)
                for t, row in enumerate(told, first):
                    answered.check_n_top(len(row["top_logprobs"]), how["n_probs"], self._host)
                    every = {int(one["id"]): one["logprob"] for one in (*row["top_logprobs"], row)}
                    kept = (*islice(every, k), *scored.response[t : t + 1])
                    found.append({token: every[token] for token in kept})
        return found

    def _stretches(self, response: Sequence[int], rows: range) -> Iterator[tuple[int, Sequence[int]]]:
        """First row of what one request can ask for, and the tokens that it forces."""
        for is_alone, group in groupby(rows, lambda t: t == len(response) or response[t] in self._unforced):
            places = list(group)
            yield from ((t, ()) for t in places) if is_alone else [(places[0], response[places[0] : places[-1] + 1])]

    def _any_row(self) -> dict[str, Any]:
        """What asks for a whole row, whatever token is put there."""
        return {"n_predict": 1, "n_probs": self._n_vocab, "grammar": "root ::= [ -~]+"}

    def _completion(self, ids: Sequence[int], asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to token ids, all of which were read."""
        body = {"prompt": list(ids), **_ALWAYS, "cache_prompt": self.reads_prefix_cache, **asked}
        answer = self._connection.post("completion", body)
        with answered.reading(self._host):
            answered.check_model(self._told, answer["model"], self._host)
            if answer["tokens_evaluated"] != len(ids) or answer["truncated"]:
                raise ScoreError(f"the server {self._host} puts a start token before what it is sent, or cuts it")
        return answer


DIALECT = LlamaCpp


def _file_name(path: str) -> str:
    return PureWindowsPath(path).name


def _is_text(data: Sequence[int]) -> bool:
    return "\ufffd" not in (bytes(data).decode(errors="replace") or "\ufffd")
