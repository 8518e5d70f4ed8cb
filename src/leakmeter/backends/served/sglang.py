"""SGLang's own `/generate`: token ids in, log-probabilities of the input's tokens from the prompt's last one on.

Rows of the input are raw: T = 1. What stands before `logprob_start_len` may come from the cache. The first row of an
answer has no value, since nothing is scored before it. Rows of drawn tokens are taken after the temperature.
Written from the documentation and the released sources of SGLang 0.5.23, and not run against a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.backends.served import dialect
from leakmeter.backends.served.dialect import (
    SCORING,
    UNTRUNCATED,
    Abilities,
    DrawnResponse,
    RequestSetting,
    RowsDialect,
    SequenceToScore,
    Served,
    ids_for,
)
from leakmeter.core.record import JsonObject
from leakmeter.errors import CapabilityError
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray

_MOST_TOP: Final = 100
"""No limit is documented; every entry is a line of JSON."""
_RAW_AT: Final = (0.0, 1.0)
"""Temperatures at which rows of drawn tokens are raw: the greedy one counts as 1."""
SERVERS: Final = {"sglang": Abilities.of_targets(_MOST_TOP)}


class SGLang(RowsDialect):
    name = "sglang"
    reads_prefix_cache = True
    _weights: Any = None

    @override
    def describe(self) -> Served:
        models, weights = self._connection.get("v1/models"), self._connection.get("get_model_info")
        version = self._connection.get("get_server_info")
        with dialect.reading(self._host):
            windows = {model["id"]: model.get("max_model_len") for model in models["data"]}
            self._model = dialect.one_model(self._asked, list(windows), self._host)
            window, self._weights = windows[self._model], weights.get("weight_version")
            path, server_version = dialect.word(weights["model_path"]), dialect.word(version.get("version"))
        return Served(
            model=self._model,
            revision=path if self._weights is None else f"{path}, {dialect.word(self._weights)}",
            server_version=server_version,
            # Two tokens are put behind those that are scored: one for the last row, and one is generated.
            window=dialect.window(window, 2),
            n_vocab=None,
        )

    @override
    def abilities(self) -> Abilities:
        """No whole rows: the server does not tell the size of its vocabulary."""
        return SERVERS["sglang"]

    @override
    def whole_rows(self, scored: SequenceToScore, rows: range) -> FloatArray:
        raise CapabilityError(f"the server {self._host} gives no whole rows")

    @override
    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> DrawnResponse:
        options = {"max_new_tokens": n_tokens, "sampling_seed": seed, "stop_token_ids": list(stop_ids)}
        meta = self._generated(prompt, {**RequestSetting(temperature).sampling, **options}, {})
        with dialect.reading(self._host):
            drawn = meta["output_token_logprobs"]
            ids = dialect.token_ids(token for _, token, *_ in drawn)
            values = [value for value, *_ in drawn] if temperature in _RAW_AT else []
        return DrawnResponse(ids, tuple(dialect.log_probs_of(values, len(values), self._host).tolist()))

    @override
    def _rows(
        self, scored: SequenceToScore, rows: range, k: int, setting: RequestSetting = SCORING
    ) -> tuple[list[dict[int, float]], int | None]:
        ids, start = ids_for(scored, rows), len(scored.prompt) - 1 + rows.start
        options = {"logprob_start_len": start, "top_logprobs_num": k}
        meta = self._generated(ids, {"max_new_tokens": 1, **setting.sampling}, options)
        with dialect.reading(self._host):
            input_rows = meta["input_token_logprobs"] or ()
            dialect.check_n_rows(len(input_rows), len(ids) - start, self._host)
            dialect.check_ids(ids[start:], [token for _, token, *_ in input_rows], self._host)
            tops = meta["input_top_logprobs"] if k else [()] * len(input_rows)
            dialect.check_n_rows(len(tops), len(input_rows), self._host)
            token_rows: list[dict[int, float]] = []
            for place, top, own in zip(range(rows.start, rows.stop), tops[1:], input_rows[1:], strict=False):
                dialect.check_n_top(len(top), k, self._host)
                entries = [*top, own] if place < len(scored.response) else top
                token_rows.append({dialect.token_id(token): value for value, token, *_ in entries})
        return token_rows, meta.get("cached_tokens")

    def _generated(self, ids: Sequence[int], sampling: Mapping[str, Any], options: Mapping[str, Any]) -> JsonObject:
        """What the server says of token ids, all of which it read, and of what follows them."""
        body = {
            "input_ids": list(ids),
            "sampling_params": {**UNTRUNCATED, **sampling},
            "return_logprob": True,
            **options,
        }
        n_values = len(ids) * (2 + options.get("top_logprobs_num", 0)) + sampling["max_new_tokens"]
        answer = self._connection.post("generate", body, n_values)
        with dialect.reading(self._host):
            meta: JsonObject = answer["meta_info"]
            dialect.check_n_read(meta["prompt_tokens"], len(ids), self._host)
            dialect.check_model(self._weights, meta.get("weight_version", self._weights), self._host)
        return meta


DIALECT = SGLang
