"""OpenAI's API as many speak it: completions with `echo` score token ids; chat gives labels and responses only.

Neither tells token ids: of an echo the number of tokens is checked, and their texts against this machine's tokenizer.
Chat reads text: a prompt, best made by the plain template, is one message of the user's in the server's own template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final

from leakmeter.backends.served import dialect
from leakmeter.backends.served.connection import Connection
from leakmeter.backends.served.dialect import Abilities, Dialect, DrawnResponse, SequenceToScore, Served, TopRow
from leakmeter.core.backend import Tokenizer
from leakmeter.core.record import JsonObject
from leakmeter.errors import CapabilityError
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray

_COMPLETIONS: Final = "v1/completions"
_CHAT: Final = "v1/chat/completions"
_TOPS: Final = (20, 5)  # most of the likeliest tokens that chat gives, of OpenAI itself and of others
_PROBE: Final = "One two three."
_BY_CHAT: Final = Abilities(targets=False, most_top=20, whole_rows=False, samples=True, token_ids=False)
SERVERS: Final = {"openai with echo": Abilities.of_targets(0), "openai by chat": _BY_CHAT}


class OpenAi(Dialect):
    """A server that speaks OpenAI's API; made with the model's tokenizer beside what others are made with."""

    name = "openai"
    translates = True
    reads_prefix_cache = True

    def __init__(self, connection: Connection, model: str | None, tokenizer: Tokenizer) -> None:
        self._connection, self._host, self._tokenizer = connection, connection.host, tokenizer
        self._model, self._served_name = model or "", ""
        self._echoes, self._n_more, self._most_top = False, 0, 0
        self._lock = Lock()

    @override
    def describe(self) -> Served:
        """Find out whether the server echoes a prompt's log-probabilities, or else what its chat returns."""
        with dialect.reading(self._host):
            if not self._model:
                names = [model["id"] for model in self._connection.get("v1/models")["data"]]
                self._model = dialect.one_model(None, names, self._host)
            ids = self._tokenizer.encode_data(_PROBE, first=True).ids
            status, reply = self._connection.post_or_refusal(_COMPLETIONS, self._echo(ids))
            n_rows = _n_echoed(reply) if status == 200 else 0
            self._echoes = n_rows >= len(ids)
            # The one token that is generated may stand behind the prompt's.
            self._n_more = int(n_rows == len(ids) + 1)
            if not self._echoes:
                reply, self._most_top = self._probe_chat()
            self._served_name = dialect.word(reply["model"]) or self._model
        return Served(self._model, self._served_name, None, None, None)

    @override
    def abilities(self) -> Abilities:
        return Abilities.of_targets(0) if self._echoes else replace(_BY_CHAT, most_top=self._most_top)

    @override
    def target_log_probs(self, scored: SequenceToScore) -> FloatArray:
        ids, n_prompt = (*scored.prompt, *scored.response), len(scored.prompt)
        choice = self._choice(_COMPLETIONS, self._echo(ids), 2 * len(ids))
        with dialect.reading(self._host):
            values, texts = choice["logprobs"]["token_logprobs"], choice["logprobs"]["tokens"]
            dialect.check_n_rows(len(values), len(ids) + self._n_more, self._host)
            dialect.check_texts([self._tokenizer.decode([token]) for token in ids], texts, self._host)
            dialect.check_echo(values, self._host)
            return dialect.log_probs_of(values[n_prompt : len(ids)], len(scored.response), self._host)

    @override
    def top_rows(self, scored: SequenceToScore, rows: range, k: int) -> list[TopRow]:
        """One request to chat, about the first token of its answer; tokens without an id are left out."""
        if scored.response or rows != range(1):
            raise CapabilityError(
                f"the server {self._host} returns log-probabilities by chat only, and only those of the first token"
            )
        choice = self._choice(_CHAT, self._chat(self._text(scored.prompt), k))
        log_probs: dict[int, float] = {}
        with dialect.reading(self._host):
            for entry in choice["logprobs"]["content"][0]["top_logprobs"]:
                ids = self._ids(entry["token"])
                if len(ids) == 1 and self._tokenizer.decode(ids) == entry["token"]:
                    log_probs.setdefault(ids[0], entry["logprob"])
        return [dialect.top_row_of(log_probs, 0, self._host)]

    @override
    def whole_rows(self, scored: SequenceToScore, rows: range) -> FloatArray:
        raise CapabilityError(f"the server {self._host} does not return rows of the whole vocabulary")

    @override
    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> DrawnResponse:
        options = {"max_tokens": n_tokens, "temperature": temperature, "top_p": 1.0, "seed": seed}
        if self._echoes:
            choice = self._choice(_COMPLETIONS, {"model": self._model, "prompt": [list(prompt)], **options}, n_tokens)
        else:
            choice = self._choice(_CHAT, self._chat(self._text(prompt)) | options, n_tokens)
        with dialect.reading(self._host):
            return DrawnResponse(self._ids(choice["text"] if self._echoes else choice["message"]["content"]), ())

    def _probe_chat(self) -> tuple[Any, int]:
        for k in _TOPS:
            if (answer := self._connection.post_or_refusal(_CHAT, self._chat(_PROBE, k)))[0] == 200:
                return answer[1], k
        # Raises where chat does not answer either, and says what to do.
        return self._connection.post(_CHAT, self._chat(_PROBE)), 0

    def _text(self, prompt: Sequence[int]) -> str:
        """A prompt without the start tokens, which the server's template has."""
        n = len(self._tokenizer.start_ids)
        return self._tokenizer.decode(prompt[n:] if tuple(prompt[:n]) == self._tokenizer.start_ids else prompt)

    def _ids(self, text: Any) -> tuple[int, ...]:
        """Token ids of a text of an answer; `TypeError` where it is none (see `dialect.reading`)."""
        if not isinstance(text, str):
            raise TypeError("no text")
        # Tokenizers of the transformers library cannot encode for two threads at a time.
        with self._lock:
            return self._tokenizer.encode_data(text, first=False).ids

    # At T = 1 it does not matter whether log-probabilities are told before or after the temperature.
    def _echo(self, ids: Sequence[int]) -> JsonObject:
        options = {"max_tokens": 1, "temperature": 1.0, "logprobs": 1, "echo": True}
        return {"model": self._model, "prompt": [list(ids)], **options}

    def _chat(self, text: str, k: int = 0) -> JsonObject:
        options = {"max_tokens": 1, "temperature": 1.0, **({"logprobs": True, "top_logprobs": k} if k else {})}
        return {"model": self._model, "messages": [{"role": "user", "content": text}], **options}

    def _choice(self, path: str, body: Mapping[str, object], n_values: int = 0) -> JsonObject:
        """The only choice of an answer; a server may call its model by a longer name, but always by the same."""
        reply = self._connection.post(path, body, n_values)
        with dialect.reading(self._host):
            dialect.check_model(self._served_name, reply["model"], self._host)
            (choice,) = reply["choices"]
            return dict(choice)


DIALECT = OpenAi


def _n_echoed(answer: Any) -> int:
    try:
        return len(answer["choices"][0]["logprobs"]["token_logprobs"])
    except (LookupError, TypeError):
        return 0
