"""llama.cpp's own server: a grammar of token ids forces the response, and each forced token comes with its row.

Rows are raw: T = 1, before penalties and grammar. They sum to 1.0001 or so, for a sum in float32; what that makes each
log-probability too large by is measured on one row and taken away. A grammar forces tokens whose bytes are whole
characters; others, NUL and what ends a response are looked up in whole rows, a request each. `echo` is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from ntpath import basename  # of either kind of path
from typing import Any, Final

from leakmeter.backends.served import dialect
from leakmeter.backends.served.dialect import (
    SCORING,
    UNCACHED,
    Abilities,
    DrawnResponse,
    RequestSetting,
    RowsDialect,
    SamplingControl,
    SequenceToScore,
    Served,
)
from leakmeter.core.record import JsonObject
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray

_NOT_QUANTISED: Final = ("all F32", "F16", "BF16")
_FIELDS: Final = ("completion_probabilities", "model", "timings", "tokens", "tokens_evaluated")
# `n_cache_reuse`, which a server may have turned on, would move parts of the cache to other positions.
_ALWAYS: Final = {"response_fields": _FIELDS, "return_tokens": True, "n_cache_reuse": 0, "mirostat": 0}
_DRAWING: Final = {"samplers": ["penalties", "temperature"], "dynatemp_range": 0.0, "frequency_penalty": 0.0}
SERVERS: Final = {"llamacpp": Abilities.everything()}


class LlamaCpp(RowsDialect):
    """It reads its prefix cache once `describe` finds weights that are not quantised; with others the cache moves
    numbers by 0.2 to 0.3 nats."""

    name = "llamacpp"
    controls = RowsDialect.controls | frozenset[SamplingControl](["cache"])
    _n_vocab = 0
    _unforced: frozenset[int] = frozenset()

    @override
    def describe(self) -> Served:
        props, models = self._connection.get("props"), self._connection.get("v1/models")
        with dialect.reading(self._host):
            by_name = {basename(entry["id"]): entry for entry in models["data"]}
            name = dialect.one_model(self._asked and basename(self._asked), list(by_name), self._host)
            self._model, meta, kind = by_name[name]["id"], by_name[name]["meta"], props["model_ftype"]
            self._n_vocab, n_ctx = int(meta["n_vocab"]), props["default_generation_settings"]["n_ctx"]
            (row,) = self._completion([0], UNCACHED, self._any_row())["completion_probabilities"]
            self._excess = dialect.excess([entry["logprob"] for entry in row["top_logprobs"]], self._host)
            texts = ((entry["id"], bytes(entry["bytes"]).decode(errors="replace")) for entry in row["top_logprobs"])
            self._unforced = frozenset(token for token, text in texts if text[:1] in ("", "\0") or "\ufffd" in text)
            revision = f"{basename(props['model_path'])}, {kind}, {meta['size']} bytes"
            window = dialect.window(n_ctx, 1)  # a token is drawn where the row behind the response is asked for
        self.reads_prefix_cache = kind in _NOT_QUANTISED
        return Served(name, dialect.word(revision), dialect.word(props.get("build_info")), window, self._n_vocab)

    @override
    def abilities(self) -> Abilities:
        return Abilities.everything()

    @override
    def whole_rows(self, scored: SequenceToScore, rows: range) -> FloatArray:
        """Sums of 1.0002, the server's rounding, are made 1."""
        row_values, _ = self._rows(scored, rows, self._n_vocab, UNCACHED)
        return dialect.whole_rows_of(row_values, self._n_vocab, self._host)

    @override
    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> DrawnResponse:
        """One request; the server ends a response with its own tokens for that too."""
        # The seed 2³² − 1 stands for a random one.
        how = {"n_predict": n_tokens, "n_probs": 1, "seed": seed % (2**32 - 1)}
        answer = self._completion(prompt, RequestSetting(temperature), how)
        with dialect.reading(self._host):
            drawn, rows = dialect.token_ids(answer["tokens"]), answer.get("completion_probabilities") or ()
            n = next((i for i, token in enumerate(drawn, 1) if token in stop_ids), len(drawn))
            # The rows of parts of characters are left out, and nothing says which these are.
            values = [row["logprob"] for row in rows[:n]] if len(rows) == len(drawn) else []
        return DrawnResponse(drawn[:n], tuple(dialect.log_probs_of(values, len(values), self._host).tolist()))

    @override
    def tokenize(self, text: str) -> tuple[int, ...] | None:
        reply = self._connection.post("tokenize", {"content": text, "add_special": False, "parse_special": False})
        with dialect.reading(self._host):
            return dialect.token_ids(reply["tokens"])

    @override
    def _rows(
        self, scored: SequenceToScore, rows: range, k: int, setting: RequestSetting = SCORING
    ) -> tuple[list[dict[int, float]], int]:
        """One request, and one for each token that no grammar can force; the first says how much was cached."""
        token_rows: list[dict[int, float]] = []
        n_cached = -1
        for first, forced in self._stretches(scored.response, rows):
            how = self._any_row()
            if forced:
                grammar = " ".join(f"<[{token}]>" for token in forced)
                how = {"n_predict": len(forced), "n_probs": max(k, 1), "grammar": f"root ::= {grammar}"}
            answer = self._completion((*scored.prompt, *scored.response[:first]), setting, how)
            answer_rows = answer.get("completion_probabilities") or ()
            with dialect.reading(self._host):
                dialect.check_n_rows(len(answer_rows), len(forced) or 1, self._host)
                n_cached = int(answer["timings"]["cache_n"]) if n_cached < 0 else n_cached
                dialect.check_ids(forced, [row["id"] for row in answer_rows if forced], self._host)
                for t, row in enumerate(answer_rows, first):
                    dialect.check_n_top(len(row["top_logprobs"]), how["n_probs"], self._host)
                    every = {dialect.token_id(entry["id"]): entry["logprob"] for entry in (*row["top_logprobs"], row)}
                    token_rows.append(
                        {token: every[token] for token in (*islice(every, k), *scored.response[t : t + 1])}
                    )
        return token_rows, n_cached

    def _stretches(self, response: Sequence[int], rows: range) -> Iterator[tuple[int, Sequence[int]]]:
        for is_alone, group in groupby(rows, lambda t: t == len(response) or response[t] in self._unforced):
            places = list(group)
            yield from ((t, ()) for t in places) if is_alone else [(places[0], response[places[0] : places[-1] + 1])]

    def _any_row(self) -> JsonObject:
        return {"n_predict": 1, "n_probs": self._n_vocab, "grammar": "root ::= [ -~]+"}

    def _completion(self, ids: Sequence[int], setting: RequestSetting, options: Mapping[str, Any]) -> JsonObject:
        caching = self.reads_prefix_cache if setting.reads_cache is None else setting.reads_cache
        how = {**_ALWAYS, **_DRAWING, **setting.sampling, "repeat_penalty": setting.repetition_penalty, **options}
        body = {"prompt": list(ids), "cache_prompt": caching, **how}
        answer: JsonObject = self._connection.post("completion", body, how["n_predict"] * how["n_probs"])
        with dialect.reading(self._host):
            dialect.check_model(self._model, answer["model"], self._host)
            dialect.check_n_read(answer["tokens_evaluated"], len(ids), self._host)
        return answer


DIALECT = LlamaCpp
