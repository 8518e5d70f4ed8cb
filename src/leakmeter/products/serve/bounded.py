"""Answers under a bound for other programs: `/v1/chat/completions`, drawn by bounded decoding over private documents.

A request's documents are charged for all tokens that it may draw, on the disk, before the first is drawn. Tokens are
drawn with the operating system's random numbers. What is answered is public; what is a function of the documents is
kept in a file of the user's alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from leakmeter import DecodeResult
from leakmeter.core.backend import Tokenizer
from leakmeter.core.files import store_errors, write_whole
from leakmeter.core.item import ContextItem
from leakmeter.core.measure import Measure, Measurement
from leakmeter.core.record import JsonObject
from leakmeter.core.request import Trial
from leakmeter.engine.storage.pseudonym import made_directory
from leakmeter.errors import UsageError, WindowError
from leakmeter.instruments.decoding.measure import DELTA, Decode, check_guarantee, check_precision
from leakmeter.overriding import override
from leakmeter.products.serve.bodies import error_of, without_paths
from leakmeter.products.serve.completions import (
    END,
    CompletionRequest,
    Envelope,
    RequestFieldError,
    data,
    parsed,
    refused,
)
from leakmeter.products.serve.queue import BusyError, Job
from leakmeter.products.serve.serving import Serving, serving_of
from leakmeter.products.serve.spent import NANO, Spent, SpentError, nano
from leakmeter.products.serve.watching import JobWatch, measured, prepared_case
from leakmeter.text.build import PromptSettings

KEY: Final = "LEAKMETER_SERVE_API_KEY"
_LEAST_KEY: Final = 16
_LOST: Final = "the answer could not be completed; its documents remain charged for all of it"
_TOO_LONG: Final = "documents and messages do not fit the model's window with max_tokens; give fewer or shorter ones"
_COMPOSED_NATS: Final = 8.0
"""Up to which receipts have compositions by privacy loss distributions, which take seconds of long answers."""
_NEIGHBOURS: Final = "replace one document's text by any other, in every request that has it"


@dataclass(frozen=True, slots=True)
class BoundedCompletions:
    epsilon: float
    """ε of a token between any two contexts, nats."""
    spent: Spent
    receipts: Path
    """Directory of the private receipts."""
    lambda_max: float = 1.0
    max_tokens: int = 64
    """Of an answer, where a request does not say."""

    @classmethod
    def kept_in(
        cls, folder: Path, epsilon: float, total: float, *, lambda_max: float = 1.0, max_tokens: int = 64
    ) -> BoundedCompletions:
        """What is spent, and the private receipts, in a directory for its owner alone."""
        check_guarantee(Decode(epsilon=epsilon, lambda_max=lambda_max, max_new_tokens=max_tokens), (), DELTA)
        nano(epsilon, up=True)
        spent = Spent(folder, total)
        return cls(epsilon, spent, made_directory(folder / "receipts"), lambda_max, max_tokens)

    def measure(self, body: CompletionRequest) -> Decode:
        return Decode(
            temperature=body.temperature,
            epsilon=self.epsilon,
            lambda_max=self.lambda_max,
            max_new_tokens=body.max_tokens,
        ).seeded()


def api_key() -> tuple[str, bool]:
    """The key of programs: that of the environment variable, or a new one; and whether it is new, and to be told."""
    key = os.environ.get(KEY)
    if key is None:
        return f"lm-{secrets.token_urlsafe(32)}", True
    if len(key) < _LEAST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{KEY} has to hold a key of {_LEAST_KEY} characters or more, in ASCII and without spaces")
    return key, False


def routes(bounded: BoundedCompletions) -> Sequence[BaseRoute]:
    """The routes of `/v1/`; the guard of the server asks for the key."""
    return (
        Route("/v1/chat/completions", partial(_completions, bounded=bounded), methods=["POST"]),
        Route("/v1/models", _models, methods=["GET"]),
        Route("/v1/models/{name:path}", _model, methods=["GET"]),
    )


async def _models(request: Request) -> Response:
    names = serving_of(request).models.names
    return JSONResponse({"object": "list", "data": [_described(name) for name in names]})


async def _model(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in serving_of(request).models.names:
        return refused(404, "this server has no such model", "model", "model_not_found")
    return JSONResponse(_described(name))


def _described(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": 0, "owned_by": "leakmeter"}


async def _completions(request: Request, bounded: BoundedCompletions) -> Response:
    serving = serving_of(request)
    try:
        completion = parsed(await request.body(), serving.models.names, bounded.max_tokens)
    except RequestFieldError as error:
        return refused(error.status, str(error), error.param, error.code)
    envelope = Envelope(f"chatcmpl-{secrets.token_hex(16)}", completion.model)
    try:
        job = serving.queue.submit(lambda job: _answered(serving, bounded, completion, envelope, job), envelope.id)
    except BusyError as error:
        return refused(503, str(error), retry=True)
    watcher = asyncio.create_task(_cancelled_when_gone(request, job))
    events = job.listen()
    is_charged, last = False, JsonObject()
    try:
        async for event in events:
            if event is None:
                continue
            last = event.data
            if event.name == "refused":
                return refused(last["status"], last["error"], last["param"], last["code"])
            if event.name == "failed":
                return refused(500, _LOST if is_charged else last["error"])
            if event.name == "cancelled":
                return Response(status_code=499)
            is_charged = is_charged or event.name == "charged"
            if is_charged and completion.is_streamed:
                return StreamingResponse(_chunks(job, completion, envelope), media_type="text/event-stream")
    finally:
        watcher.cancel()
        await events.aclose()  # type: ignore[attr-defined]
    return JSONResponse(envelope.whole(**last))


async def _cancelled_when_gone(request: Request, job: Job) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()


async def _chunks(job: Job, body: CompletionRequest, envelope: Envelope) -> AsyncIterator[bytes]:
    """The answer's pieces as they come; the last choice's end comes with the receipt."""
    events = job.listen(and_cancel=True)
    begun: set[int] = set()
    reason = ""
    try:
        async for event in events:
            if event is None:
                yield b": alive\n\n"
                continue
            payload = event.data
            if event.name in ("text", "finished") and payload["index"] not in begun:
                begun.add(payload["index"])
                yield envelope.chunk(payload["index"], first=True)
            if event.name == "text":
                yield envelope.chunk(payload["index"], payload["text"])
            elif event.name == "finished" and payload["index"] < body.n - 1:
                yield envelope.chunk(payload["index"], reason=payload["reason"])
            elif event.name == "finished":
                reason = payload["reason"]
            elif event.name == "failed":
                yield data(error_of(500, _LOST))
            elif event.name == "done":
                yield envelope.chunk(body.n - 1, reason=reason, leakmeter=payload["receipt"])
                if body.wants_usage:
                    yield envelope.usage_chunk(payload["usage"])
        yield END
    finally:
        await events.aclose()  # type: ignore[attr-defined]


def _answered(
    serving: Serving, bounded: BoundedCompletions, body: CompletionRequest, envelope: Envelope, job: Job
) -> JsonObject:
    """Check, charge, draw, and keep what is private; in the worker's thread."""

    def refuse(status: int, why: str, param: str | None, code: str | None = None) -> JsonObject:
        job.tell("refused", status=status, error=why, param=param, code=code)
        return {}

    kept = serving.models.use(body.model)
    measure = bounded.measure(body)
    check_precision(measure, kept.backend.dtype)
    if len(body.messages) > 1 and not kept.backend.tokenizer.has_chat_template:
        return refuse(400, "this model has no chat template: give a single message, of the user", "messages")
    try:
        check_guarantee(measure, [body.case], DELTA)
        prepared = prepared_case(kept, measure, PromptSettings(unit="whole"), body.case)
    except WindowError:
        return refuse(400, _TOO_LONG, "documents", "context_length_exceeded")
    except UsageError as error:
        return refuse(400, without_paths(str(error)), "messages")
    names = [name for document in body.documents for name in bounded.spent.names_of(document.text, document.id)]
    unit = nano(bounded.epsilon, up=True)
    amount = unit * body.n * body.max_tokens
    job.check()
    try:
        bounded.spent.charge(names, amount)
    except SpentError as error:
        return refuse(429, str(error), "documents", "insufficient_quota")
    job.tell("charged")
    parts, ends = [], []
    for index in range(body.n):
        drawing = _Drawing(measure, kept.backend.tokenizer, body.stop, index, job)
        parts.append(measured(kept, drawing, prepared, JobWatch(job)))
        ends.append(drawing.end)
        job.tell("finished", index=index, reason=drawing.end["finish_reason"])
    results = list(DecodeResult.from_run(parts, asdict(measure), composed_nats=_COMPOSED_NATS))
    n_drawn = sum(len(result.published().token_ids) for result in results)
    whole = {
        "id": envelope.id,
        "created": envelope.created,
        "documents": sorted(set(names)),
        "charged_nats": n_drawn * unit / NANO,
        "responses": [{"ledger": row.ledger.to_dict(), "public": row.published().to_dict()} for row in results],
    }
    path = bounded.receipts / f"{envelope.id}.json"
    with store_errors(f"the private receipt '{path}' cannot be written"):
        write_whole(path, json.dumps(whole, allow_nan=False, indent=1).encode())
    # The number of tokens follows from the answers, which are public: what was not drawn has told nothing.
    bounded.spent.give_back(names, amount - n_drawn * unit)
    n_prompt = len(prepared.item.blank.ids)
    return {
        "choices": ends,
        # Tokens of the documents would tell how long they are.
        "usage": {"prompt_tokens": n_prompt, "completion_tokens": n_drawn, "total_tokens": n_prompt + n_drawn},
        "receipt": {
            "epsilon_nats": bounded.epsilon,
            "epsilon_total_nats": bounded.spent.total,
            "charged_nats": n_drawn * unit / NANO,
            "neighbours": _NEIGHBOURS,
            "responses": [result.published().to_dict() for result in results],
        },
    }


class _Drawing(Measure):
    """A measure that draws one answer up to a stop text, and tells its text as it comes. All that it tells follows from
    the tokens that were drawn."""

    def __init__(self, measure: Decode, tokenizer: Tokenizer, stops: Sequence[str], index: int, job: Job) -> None:
        self._measure, self._tokenizer, self._stops, self._index, self._job = measure, tokenizer, stops, index, job
        self._sent = ""
        self.end: JsonObject = {"index": index, "text": "", "finish_reason": "length"}

    @override
    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        """The measure's own, until a stop text came."""
        trial = self._measure.trial(item)
        rows: list[Any] = []
        try:
            requests = next(trial)
            while True:
                answers = yield requests
                rows.append(answers[0].values[-1, 0])
                ids = [int(row[0]) for row in rows]
                if self._is_over(ids, item, is_last=len(ids) == self._measure.max_new_tokens):
                    return list(self._measure.readings(item.id, 0, np.stack(rows)))
                requests = trial.send(answers)
        except StopIteration as end:
            measurements: list[Measurement] = end.value
            return measurements

    def _is_over(self, ids: Sequence[int], item: ContextItem, *, is_last: bool) -> bool:
        has_ended = ids[-1] in item.stop_ids
        text = self._tokenizer.decode(ids[:-1] if has_ended else ids)
        places = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if places:
            text = text[: min(places)]
        is_stopped = has_ended or bool(places)
        is_over = is_stopped or is_last
        n_known = len(text) if is_over else len(text) - _n_held(text, self._stops)
        if more := text[len(self._sent) : n_known]:
            self._job.tell("text", index=self._index, text=more)
            self._sent += more
        if is_over:
            self.end["text"], self.end["finish_reason"] = self._sent, "stop" if is_stopped else "length"
        return is_over


def _n_held(text: str, stops: Sequence[str]) -> int:
    """Characters at the end that may yet become another one, or the beginning of a stop text."""
    whole = text.rstrip("\ufffd")
    begun = (n for stop in stops for n in range(1, len(stop)) if whole.endswith(stop[:n]))
    return len(text) - len(whole) + max(begun, default=0)
