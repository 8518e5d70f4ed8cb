"""vLLM's own extensions of the completions API: token ids in and out, log-probabilities of the prompt's tokens.

`prompt_logprobs` are raw: T = 1, before penalties. vLLM reads no prefix cache for requests that ask for them, so that
nothing is gained by their order. It always generates a token too, which nobody looks at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.backends.served import dialect
from leakmeter.backends.served.connection import Connection, StatusError
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
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray

_COMPLETIONS: Final = "v1/completions"
_DEFAULT_TOP: Final = 20
SERVERS: Final = {
    "vllm": Abilities.of_targets(_DEFAULT_TOP),
    "vllm with --max-logprobs -1": Abilities.everything(),
}


class Vllm(RowsDialect):
    name = "vllm"

    def __init__(self, connection: Connection, model: str | None) -> None:
        super().__init__(connection, model)
        self._most_top: int | None = _DEFAULT_TOP
        self._n_vocab: int | None = None

    @override
    def describe(self) -> Served:
        with dialect.reading(self._host):
            models: dict[str, JsonObject] = {model["id"]: model for model in self._connection.get("v1/models")["data"]}
            self._model = dialect.one_model(self._asked, list(models), self._host)
            version, model_info = self._version(), models[self._model]
            self._probe()
        return Served(
            model=self._model,
            revision=dialect.word(model_info.get("root")),
            server_version=version,
            # Two tokens are put behind those that are scored: one for the last row, and one is generated.
            window=dialect.window(model_info.get("max_model_len"), 2),
            n_vocab=self._n_vocab,
        )

    @override
    def abilities(self) -> Abilities:
        return Abilities.everything() if self._most_top is None else Abilities.of_targets(self._most_top)

    @override
    def whole_rows(self, scored: SequenceToScore, rows: range) -> FloatArray:
        return dialect.whole_rows_of(self._rows(scored, rows, -1)[0], self._n_vocab, self._host)

    @override
    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> DrawnResponse:
        options = {"max_tokens": n_tokens, "seed": seed, "stop_token_ids": list(stop_ids), "logprobs": 0}
        choice = self._choice(prompt, {**UNTRUNCATED, **RequestSetting(temperature).sampling, **options})
        with dialect.reading(self._host):
            ids = dialect.token_ids(choice["token_ids"])
            values = choice["logprobs"]["token_logprobs"]
        return DrawnResponse(ids, tuple(dialect.log_probs_of(values, len(ids), self._host).tolist()))

    @override
    def _rows(
        self, scored: SequenceToScore, rows: range, k: int, setting: RequestSetting = SCORING
    ) -> tuple[list[dict[int, float]], None]:
        """One request, `prompt_logprobs` k; with k −1, the whole vocabulary."""
        ids = ids_for(scored, rows)
        choice = self._choice(ids, {"max_tokens": 1, "prompt_logprobs": k, **setting.sampling})
        with dialect.reading(self._host):
            prompt_rows = choice["prompt_logprobs"] or ()
            dialect.check_n_rows(len(prompt_rows), len(ids), self._host)
            row_entries = [prompt_rows[len(scored.prompt) + row] for row in rows]
            for row in row_entries:
                # The token that was put there stands in its row too, and is not to pass for a likely one.
                dialect.check_n_top(sum((entry.get("rank") or 1) <= k for entry in row.values()), k, self._host)
            by_id = ({dialect.token_id(token): entry["logprob"] for token, entry in row.items()} for row in row_entries)
            return list(by_id), None

    def _choice(self, ids: Sequence[int], options: Mapping[str, Any]) -> JsonObject:
        body = {"model": self._model, "prompt": [list(ids)], "return_token_ids": True, **options}
        n_top = options.get("prompt_logprobs", 0) % dialect.MOST_VOCAB  # −1 asks for all
        reply = self._connection.post(_COMPLETIONS, body, len(ids) * (2 + n_top) + options["max_tokens"])
        with dialect.reading(self._host):
            dialect.check_model(self._model, reply["model"], self._host)
            (choice,) = reply["choices"]
            dialect.check_ids(ids, choice.get("prompt_token_ids"), self._host)
        return dict(choice)

    def _version(self) -> str | None:
        """None where all but the completions is closed to us, as behind a gateway."""
        try:
            return dialect.word(self._connection.get("version")["version"])
        except StatusError as error:
            if error.status not in (403, 404, 405):
                raise
            return None

    def _probe(self) -> None:
        """Ask for a whole row; a server that does not give it says how many entries it does."""
        body = {"model": self._model, "prompt": [[0, 0]], "max_tokens": 1, "temperature": 0, "prompt_logprobs": -1}
        status, reply = self._connection.post_or_refusal(_COMPLETIONS, body, 2 * dialect.MOST_VOCAB)
        if status == 200:
            self._most_top, self._n_vocab = None, len(reply["choices"][0]["prompt_logprobs"][1])
        elif allowed := re.search(r"max allowed: (\d+)", json.dumps(reply)):
            self._most_top = int(allowed[1])


DIALECT = Vllm
