"""The page on which a leak is seen while it is typed: its requests, each a job whose events the page shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import islice
from typing import Any, Final

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from leakmeter import DecodeResult, InfluenceResult, RedactionResult
from leakmeter.core.backend import response_texts
from leakmeter.core.case import Case, Recipient
from leakmeter.core.item import Prepared
from leakmeter.core.measure import LOSS, RESPONSE, Measure, Texts
from leakmeter.core.plain import visible
from leakmeter.core.record import JsonObject
from leakmeter.data.recipients import RECIPIENT, recipient_said
from leakmeter.data.rows import rows_of_text
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.influence import context as wording
from leakmeter.instruments.influence import disclosure_report, findings
from leakmeter.instruments.influence.disclosures import Disclosure, disclosures
from leakmeter.instruments.influence.math import InfluenceStatistics
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.search import Search, SearchScores
from leakmeter.instruments.influence.sources import ContextPiece
from leakmeter.instruments.redaction.measure import Redaction
from leakmeter.overriding import override
from leakmeter.products.serve import bodies, edits, mixtures
from leakmeter.products.serve.controls import here
from leakmeter.products.serve.pages import show
from leakmeter.products.serve.queue import Job
from leakmeter.products.serve.serving import Serving, serving_of, streamed
from leakmeter.products.serve.watching import JobWatch, cancellable, measured, prepared_case
from leakmeter.report import blocks as b
from leakmeter.report import html, scale
from leakmeter.stats.arrays import FloatArray
from leakmeter.text.build import PromptSettings
from leakmeter.text.templates import NAMED

UNITS: Final = ("sentence", "line", "paragraph", "document", "word", "ngram:5", "entity", "whole")
"""Of the page's list; another can be typed where `leakmeter influence` is."""
TEMPLATES: Final = ("chat", *NAMED)
MOST_CHARACTERS: Final = 400_000
SEARCH: Final = "top:5"
GOALS: Final = ("influence", "disclosures")
"""What a redaction is for: an influence of at most so many nats, or nothing personal or secret disclosed."""
_CASE: Final = "live"
_BETWEEN: Final = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_DEFAULT_LIMIT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Typed:
    model: str
    context: str
    query: str
    response: str | None
    unit: str = "sentence"
    template: str | None = None
    max_new_tokens: int = 40
    seed: int = 0
    search: str | None = None
    """How many pieces are scored exactly, as `top:K`; None for all."""
    turn: int = 0
    """Of a conversation, the model's turn to be measured, from 1; 0 for the last."""

    @classmethod
    def from_json(cls, body: JsonObject, serving: Serving) -> Typed:
        names = ("context", "query", "response", "unit", "template", "model", "search")
        texts = bodies.texts(body, *names, most=MOST_CHARACTERS)
        template = bodies.choice(texts["template"], "template", TEMPLATES) or None
        unit = bodies.choice(texts["unit"], "unit on this page", UNITS) or UNITS[0]
        n_tokens, seed = bodies.new_tokens(body), bodies.whole(body, "seed", 0)
        if seed < 0:
            raise UsageError(f"seed is {seed}; it has to be 0 or more")
        search = texts["search"] or None
        if search is not None:
            Search.parse(search)
        response = texts["response"] if texts["response"].strip() else None
        model = serving.models.checked(texts["model"])
        turn = bodies.whole(body, "turn", 0)
        if turn < 0:
            raise UsageError(f"turn is {turn}; it has to be 0 or more")
        typed = cls(model, texts["context"], texts["query"], response, unit, template, n_tokens, seed, search, turn)
        said = typed.case.response if typed.conversation is not None else None
        if said is not None and response is not None and response.strip() != said.strip():
            raise UsageError("the conversation has the answer of that turn; leave the answer empty")
        return typed if said is None else replace(typed, response=said)

    @property
    def _held(self) -> Any:
        """What the context is as JSON; None where it is text."""
        text = self.context.strip()
        if not text.startswith(("[", "{")):
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None

    @property
    def recipient(self) -> Recipient | None:
        """Who is answered, where the context is a row of a log in JSON that says so."""
        return recipient_said({RECIPIENT: self.said_recipient})

    @property
    def said_recipient(self) -> Any:
        """The same as the row says it."""
        held = self._held
        return held.get(RECIPIENT) if isinstance(held, dict) else None

    @property
    def conversation(self) -> list[Any] | None:
        """The messages, where the context is a conversation in JSON."""
        held = self._held
        messages = held.get("messages") if isinstance(held, dict) else held
        if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
            return None
        return messages if any("role" in each for each in messages) else None

    @property
    def case(self) -> Case:
        from leakmeter.data.cases import case_of

        if self.conversation is None:
            case = case_of(self.documents, self.query, self.response)
            return replace(case, id=_CASE, recipient=self.recipient)
        case = _turn_of(self.conversation, self.query, self.turn)
        response = self.response if case.response is None else case.response
        return replace(case, id=_CASE, response=response, recipient=self.recipient)

    @property
    def documents(self) -> str | list[Any]:
        """The context, or its documents: where lines of dashes divide it, or where it is a row of a log in JSON, whose
        documents say whose they are."""
        if (of_row := self._documents_of_row) is not None:
            return of_row
        texts = [text.strip("\n") for text in _BETWEEN.split(self.context) if text.strip()]
        return texts if len(texts) > 1 else self.context

    @property
    def _documents_of_row(self) -> str | list[Any] | None:
        held = self._held
        context = held.get("context") if isinstance(held, dict) else None
        several = [context] if isinstance(context, str) else context
        is_read = isinstance(several, list) and bool(several) and all(isinstance(each, dict | str) for each in several)
        return context if is_read else None

    def with_texts(self, texts: Mapping[str, str]) -> Typed:
        """The same with other texts of its documents, by name, without those of which nothing is left; whose they are
        and who is answered stay."""
        left = [replace(each, text=text) for each in self.case.documents if (text := texts[each.name]).strip()]
        if self._documents_of_row is None:
            # As the page reads it: a line of dashes between documents.
            return replace(self, context="\n---\n".join(document.text for document in left))
        listed = [{name: held for name, held in asdict(each).items() if held not in (None, ())} for each in left]
        return replace(self, context=json.dumps({**self._held, "context": listed}, ensure_ascii=False))

    @property
    def prompts(self) -> PromptSettings:
        return PromptSettings(unit=self.unit, template=self.template, group=self.unit != "whole")

    @property
    def influence(self) -> Influence:
        return Influence(max_new_tokens=self.max_new_tokens, seed=self.seed, search=self.search)


def _turn_of(messages: list[Any], query: str, turn: int) -> Case:
    """What the model emitted in a turn: its answer, or its first call if it has none."""
    from leakmeter.data.chat import cases_of_chat

    if query.strip():
        messages = [*messages, {"role": "user", "content": query}]
    found = [each.case for each in cases_of_chat(_CASE, messages, None, "the conversation").cases]
    turns = [case for case in found if case.emission is None or turn in (0, case.emission.turn)]
    if not turns:
        known = sorted({case.emission.turn for case in found if case.emission is not None})
        raise UsageError(
            f"turn is {turn}; the model had read something before its turns {', '.join(map(str, known))}"
            if known
            else "nothing was read before the model's turns, so there is nothing to measure"
        )
    last = turns[-1].emission
    same = [case for case in turns if case.emission is None or last is None or case.emission.turn == last.turn]
    return same[0]


class Seen(JobWatch):
    @override
    def on_whole(self, nats: float) -> None:
        self.job.tell("whole", nats=scale.nats_text(nats))

    @override
    def on_piece(self, name: str, nats: float, *, exact: bool) -> None:
        """The influence of a piece; its colour is without a floor, which is not known yet."""
        self.job.tell("piece", name=name, nats=scale.nats_text(nats), heat=scale.heat(nats, 0.0), exact=exact)

    @override
    def on_calibration(self, step: int, of: int, what: str) -> None:
        self.job.tell("calibrating", step=step, of=of, what=what)

    @override
    def on_token(self, text: str, ledger: Mapping[str, float]) -> None:
        loss = ledger[LOSS]
        self.job.tell("token", text=visible(text), nats=scale.nats_text(loss), heat=scale.heat(loss, 0.0))

    @override
    def on_round(self, n_prompts: int) -> None:
        self.job.tell("round", n_prompts=n_prompts)


class Disclosing(Seen):
    """Tells the page what the answer gives away too, as far as is known."""

    def __init__(self, job: Job, prepared: Prepared, kept: KeptModel) -> None:
        super().__init__(job)
        self._stretches = _stretches(prepared)
        self._names = [span.name for span in prepared.item.spans]
        self._units = {span.name for span in prepared.item.spans if span.kind == "unit"}
        self._several = len(prepared.documents) > 1
        self._shown: dict[tuple[int, int], list[int]] = {}
        self._texts: Texts = {
            "context": prepared.context,
            "query": prepared.query,
            "spans": [asdict(span) for span in prepared.item.spans],
            "responses": [response_texts(prepared.item.response, kept.backend.tokenizer)],
            **prepared.texts(),
        }

    @override
    def on_scored(self, scored: SearchScores) -> None:
        """Noise, placebo and controls are measured last: until then, what is above the least nats is shown."""
        whole = scored.whole - scored.bare
        rows = {name: scored.whole - row for name, row in scored.cuts.items()}
        if not all(np.isfinite(values).all() for values in (whole, *rows.values())):
            return
        told = InfluenceStatistics
        series: dict[tuple[int, str, str], FloatArray] = {(0, told.log_prob, ""): scored.whole}
        series |= {(0, told.whole, ""): whole, (0, told.noise, ""): 0 * whole}
        series |= {(0, told.without_this, name): values for name, values in rows.items()}
        found = disclosures(self._texts, series)
        disclosed = [row for row in found if row.evidence is not None and row.says_something]
        tokens = list(zip(self._texts["responses"][0]["tokens"], np.abs(whole).tolist(), strict=True))
        is_complete = self._units <= {*rows}
        self.job.tell("disclosed", **self.marked(disclosed, tokens, is_complete=is_complete, is_final=False))

    def marked(
        self,
        disclosed: Sequence[Disclosure],
        tokens: Sequence[tuple[str, float]],
        floor_nats: float = 0.0,
        *,
        is_complete: bool = True,
        is_final: bool = True,
    ) -> JsonObject:
        """The answer's tokens with the influence of the whole context, marks upon them, a list, and the words of the
        context that they came from. Until all pieces are scored, only one that says the words is shown as a source;
        until noise and placebo are known too, nothing is final, and what is final says what it changed."""
        numbers = {name: number for number, name in enumerate(self._names)}
        if not is_complete:
            disclosed = [row if row.relation == "copied" else replace(row, sources=()) for row in disclosed]
        spans = [disclosure_report.disclosed_span(row, numbers, several=self._several) for row in disclosed]
        if not is_complete:
            spans = [replace(span, origin=self._origin_so_far(row)) for span, row in zip(spans, disclosed, strict=True)]
        so_far = "" if is_final else " so far"
        before, self._shown = self._shown, {span.tokens: sorted(span.pieces) for span in spans}
        return {
            "tokens": [
                {"text": visible(text), "nats": scale.nats_text(nats), "heat": scale.heat(nats, floor_nats)}
                for text, nats in tokens
            ],
            "list": html.fragment(
                [
                    b.Disclosures(spans, f"What the answer gives away{so_far}")
                    if spans
                    else b.Text(f"Nothing is disclosed{so_far}.", "soft")
                ]
            ),
            "marks": [
                {
                    "tokens": span.tokens,
                    "label": b.plain((*b.parts(span.kind), f", {scale.nats_text(span.nats)}\u00a0nats")),
                    "sensitive": span.is_sensitive,
                    "pieces": [self._names[number] for number in span.pieces],
                }
                for span in spans
            ],
            "sources": self._sources(disclosed),
            "changed": _changed(before, self._shown) if is_final else "",
        }

    def _origin_so_far(self, disclosure: Disclosure) -> b.Phrase:
        """Documents or pieces that say the words, of which nobody knows yet how much each of them did."""
        if not disclosure.sources:
            return "the context; its pieces are being scored"
        in_order = sorted(disclosure.sources, key=lambda source: source.start)
        names = dict.fromkeys((source.document if self._several else None) or source.piece for source in in_order)
        return ("said in ", *b.joined(b.Untrusted(name, 40) for name in names), "; pieces are being scored")

    def _sources(self, disclosed: Sequence[Disclosure]) -> JsonObject:
        """Of each stretch of the context with words that were given away, by its place: its parts."""
        parts = ((place, disclosure_report.parts(stretch, disclosed)) for place, stretch in enumerate(self._stretches))
        return {
            str(place): [
                {"text": words.text.shown, "of": words.disclosures, "sensitive": words.is_sensitive} for words in some
            ]
            for place, some in parts
            if some
        }


def _changed(before: Mapping[tuple[int, int], list[int]], after: Mapping[tuple[int, int], list[int]]) -> str:
    """What the calibration changed of disclosures that were shown, and of the pieces that they came from; both by the
    tokens of each."""
    now = {
        tokens: [pieces for (start, end), pieces in after.items() if start < tokens[1] and tokens[0] < end]
        for tokens in before
    }
    n_gone = sum(not pieces for pieces in now.values())
    n_moved = sum(bool(pieces) and before[tokens] not in pieces for tokens, pieces in now.items())
    gone = f"{n_gone:,} listed before {'is' if n_gone == 1 else 'are'} no finding after all. " if n_gone else ""
    return gone + (f"The sources of {n_moved:,} span{'s' * (n_moved != 1)} changed. " if n_moved else "")


async def page(request: Request) -> Response:
    models = serving_of(request).models
    return show(
        request,
        "live.html.j2",
        models=models.names,
        units=UNITS,
        templates=TEMPLATES,
        samples=[(name, example["title"]) for name, example in _samples().items()],
        limit=_DEFAULT_LIMIT,
        search=SEARCH,
        goals=GOALS,
        n_tokens=40,
    )


async def sample(request: Request) -> Response:
    example = _samples().get(request.path_params["name"])
    return JSONResponse(example or {}, 200 if example else 404)


def _streamed(work: Callable[[Serving, Typed, JsonObject, Job], JsonObject], *, to_the_end: bool = False) -> Any:
    """A handler that does work on what was typed and streams its events; `to_the_end` if it goes on without a
    browser."""

    async def handler(request: Request) -> Response:
        serving, body = serving_of(request), await bodies.json_object(request)
        typed = Typed.from_json(body, serving)
        return streamed(request, lambda job: work(serving, typed, body, job), and_cancel=not to_the_end)

    return handler


def _measure(serving: Serving, typed: Typed, body: JsonObject, job: Job) -> JsonObject:
    kept = serving.use(typed.model, job)
    drawn = typed.response is None
    if drawn:
        result, ids = _drawn(kept, typed, Seen(job))
        if not result.response.text.strip():
            raise UsageError("the model's answer is empty; type one, or change the query")
        source = typed
        typed = replace(typed, response=result.response.text)
        serving.answers.put(_key(typed, job), (ids, source))
    measure = typed.influence
    prepared = _prepared(serving, kept, measure, typed, job)
    names = [span.name for span in prepared.item.spans]
    segments = [{"text": part.text, "pieces": [names[i] for i in part.units]} for part in _stretches(prepared)]
    job.tell("pieces", response=typed.response, segments=segments, values=_values(prepared))
    watch = Disclosing(job, prepared, kept)
    texts, measurements = measured(kept, measure, prepared, watch)
    texts = {**texts, "sampled": _was_drawn(serving, typed, job)}
    (result_,) = InfluenceResult.from_run([(texts, measurements)], asdict(measure))
    serving.wholes.put((job.owner, _whole_of(typed)), result_.whole_nats)
    section = InfluenceResult.report([result_]).sections[0]
    order = b.arranged(section.blocks)
    return {
        "response": typed.response,
        "drawn": drawn,
        "found": html.fragment(here([block for block in order.lead if isinstance(block, b.Headline | b.Text)])),
        "advice": html.fragment(here([block for block in order.lead if not isinstance(block, b.Headline | b.Text)])),
        "rest": html.fragment(here(order.rest), level=3),
        "pieces": [_piece(result_, number) for number in range(len(result_.pieces))],
        **watch.marked(
            disclosure_report.marked(result_),
            list(zip(result_.response.tokens, result_.whole_per_token_nats, strict=True)),
            result_.noise_floor_per_token_nats,
        ),
        "floor": scale.nats_text(result_.noise_floor_nats),
        "findings": _findings_text(result_),
    }


def _findings_text(result: InfluenceResult) -> str:
    n, of = sum(findings.is_finding(result, piece) for piece in result.pieces), len(result.pieces)
    return f"{n:,} of {of:,} pieces moved the answer by more than noise and an irrelevant text."


def _piece(result: InfluenceResult, number: int) -> JsonObject:
    piece = result.pieces[number]
    heat = scale.heat(piece.nats, findings.floor_nats(result, piece)) if findings.is_finding(result, piece) else 0
    return {
        "name": piece.name,
        "nats": scale.nats_text(piece.nats),
        "heat": heat,
        "posterior": "" if piece.posterior is None else scale.percent(piece.posterior),
    }


def _key(typed: Typed, job: Job) -> tuple[str, ...]:
    return (job.owner, typed.model, typed.template or "", typed.query, typed.response or "")


def _prepared(serving: Serving, kept: KeptModel, measure: Measure, typed: Typed, job: Job) -> Prepared:
    """The case tokenised and cut; an answer that was drawn has the tokens that were drawn."""
    answer = serving.answers.get(_key(typed, job))
    if answer is None:
        return prepared_case(kept, measure, typed.prompts, typed.case)
    ids, _ = answer
    prepared = prepared_case(kept, measure, typed.prompts, replace(typed.case, response=None))
    return replace(prepared, item=replace(prepared.item, response=ids))


def _was_drawn(serving: Serving, typed: Typed, job: Job) -> bool:
    answer = serving.answers.get(_key(typed, job))
    if answer is None:
        return False
    _, source = answer
    return _whole_of(replace(typed, response=None)) == _whole_of(source)


def _whole_of(typed: Typed) -> Typed:
    """The same without what says how the context is cut."""
    return replace(typed, unit="whole", search=None)


def _drawn(kept: KeptModel, typed: Typed, watch: JobWatch) -> tuple[DecodeResult, tuple[int, ...]]:
    """An answer of the model's, with the loss of each of its tokens; and their ids."""
    measure = Decode(max_new_tokens=typed.max_new_tokens, seed=typed.seed).seeded()
    settings = PromptSettings(unit="whole", template=typed.template)
    prepared = prepared_case(kept, measure, settings, replace(typed.case, response=None))
    part = measured(kept, measure, prepared, watch)
    (result,) = DecodeResult.from_run([part], asdict(measure))
    ids = next(measurement.values for measurement in part[1] if measurement.statistic == RESPONSE)
    return result, tuple(ids.astype(int).tolist())


def _stretches(prepared: Prepared) -> list[wording.ContextStretch]:
    pieces = [
        ContextPiece(
            name=span.name,
            kind=span.kind,
            text="",
            start=span.ranges[0][0],
            end=span.ranges[-1][1],
            spans=span.ranges,
            document=span.document,
            n_tokens=span.n_tokens,
            n_mentions=len(span.ranges),
            entity_type=None,
            entity_value=None,
            repeated=None,
        )
        for span in prepared.item.spans
    ]
    return wording.stretches(prepared.context, (), pieces)


def _values(prepared: Prepared) -> list[JsonObject]:
    """Values that the context says several times, which are cut with all their mentions."""
    values = [span for span in prepared.item.spans if span.kind == "value"]
    return [
        {
            "name": value.name,
            "text": b.Untrusted(prepared.context[slice(*value.ranges[0])], 60).shown,
            "n": len(value.ranges),
        }
        for value in values
    ]


def _cut(serving: Serving, typed: Typed, body: JsonObject, job: Job) -> JsonObject:
    if typed.response is None:
        raise UsageError("measure an answer first, or type one")
    if typed.conversation is not None:
        raise UsageError("nothing can be cut out of a conversation here; give what was read as context, and a query")
    cut, swap = _names(body, "cut"), _names(body, "swap")
    kept = serving.use(typed.model, job)
    prepared = _prepared(serving, kept, typed.influence, typed, job)
    edit = edits.edited(prepared, cut, swap)
    if not any(map(str.strip, edit.texts.values())):
        raise UsageError("nothing is left of the context, so there is no influence; put a piece back")
    whole = _whole_of(typed)
    before_nats = serving.wholes.get((job.owner, whole))
    if before_nats is None:
        before_nats = _whole_result(serving, kept, whole, job, controls=0).whole_nats
        serving.wholes.put((job.owner, whole), before_nats)
    left = whole.with_texts(edit.texts)
    after = _whole_result(serving, kept, left, job, controls=0)
    job.tell("left", nats=scale.nats_text(after.whole_nats), before=scale.nats_text(before_nats))
    answer, ids = _drawn(kept, left, Seen(job))
    searched = None
    if answer.response.text.strip():
        # It is searched as a response is: held against noise and an irrelevant text.
        job.tell("searching")
        drawn = replace(left, response=answer.response.text)
        serving.answers.put(_key(drawn, job), (ids, left))
        searched = _whole_result(serving, kept, drawn, job, controls=typed.influence.controls)
    return {"html": html.fragment(list(edits.blocks(edit, before_nats, after, answer, searched))), "text": left.context}


def _whole_result(serving: Serving, kept: KeptModel, typed: Typed, job: Job, *, controls: int) -> InfluenceResult:
    """Controls are for what an answer discloses, and do nothing to how far the context moves it."""
    measure = replace(typed.influence, controls=controls)
    prepared = _prepared(serving, kept, measure, typed, job)
    (result,) = InfluenceResult.from_run([measured(kept, measure, prepared, JobWatch(job))], asdict(measure))
    return result


def _redact(serving: Serving, typed: Typed, body: JsonObject, job: Job) -> JsonObject:
    goal = bodies.choice(bodies.texts(body, "goal", most=40)["goal"], "goal", GOALS) or GOALS[0]
    limit = bodies.number(body, "max_loss", _DEFAULT_LIMIT)
    kept = serving.use(typed.model, job)
    measure = Redaction(
        max_loss=limit if goal == GOALS[0] else None,
        # A search may miss a source of a disclosure.
        search=typed.search if goal == GOALS[0] else None,
        max_new_tokens=typed.max_new_tokens,
        seed=typed.seed,
        disclosures=goal != GOALS[0],
    )
    prepared = _prepared(serving, kept, measure, typed, job)
    (result,) = RedactionResult.from_run([measured(kept, measure, prepared, Seen(job))], asdict(measure))
    report = RedactionResult.report([result])
    return {
        "html": html.fragment(here([*report.sections[0].blocks, b.Text(report.caveat, "soft")])),
        "cut": [piece.name for piece in result.redacted],
        "text": _context_left(typed, {document.name: document.text for document in result.redacted_documents}),
    }


def _context_left(typed: Typed, texts: Mapping[str, str]) -> str:
    return "\n---\n".join(texts.values()) if typed.conversation is not None else typed.with_texts(texts).context


def _mix(serving: Serving, typed: Typed, body: JsonObject, job: Job) -> JsonObject:
    at = bodies.whole(body, "at", 0)
    kept = serving.use(typed.model, job)
    typed = _whole_of(typed)
    prepared = _prepared(serving, kept, typed.influence, typed, job)
    return mixtures.table(kept, prepared, at, job)


def _keep(serving: Serving, typed: Typed, body: JsonObject, job: Job) -> JsonObject:
    """A run of the case, measured as `leakmeter influence` measures it: with its id, its numbers, its modes."""
    from leakmeter import influence

    if typed.response is None:
        raise UsageError("measure an answer first, or type one")
    name = body.get("name") or None
    if name is not None and not isinstance(name, str):
        raise UsageError("name has to be a text")
    kept = serving.use(typed.model, job)
    record = {"id": _CASE, "context": typed.documents, "query": typed.query}
    if typed.recipient is not None:
        record[RECIPIENT] = typed.said_recipient
    if not _was_drawn(serving, typed, job):
        record["response"] = typed.response
    with cancellable(kept, job):
        run: Any = influence.on(
            kept,
            [record],
            unit=typed.unit,
            template=typed.template,
            group=typed.prompts.group,
            samples=1,
            max_new_tokens=typed.max_new_tokens,
            seed=typed.seed,
            search=typed.search,
            out=serving.runs,
            name=name,
        )
    return {"id": run.path.name, "nats": scale.nats_text(run[0].whole_nats)}


def _names(body: JsonObject, name: str) -> Sequence[str]:
    value = body.get(name, [])
    if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
        raise UsageError(f"{name} has to be a list of names of pieces")
    return value


@lru_cache(maxsize=1)
def _samples() -> dict[str, dict[str, str]]:
    folder = resources.files("leakmeter.data.samples")
    note = json.loads(folder.joinpath("clinic_note.json").read_text(encoding="utf-8"))
    tickets = rows_of_text(folder.joinpath("tickets.csv").read_text(encoding="utf-8"), "tickets.csv")
    return {
        "note": {
            "title": "Clinic note",
            "context": folder.joinpath("clinic_note.txt").read_text(encoding="utf-8"),
            "query": note["query"],
            "response": note["response"],
        },
        "tickets": {
            "title": "Support tickets",
            "context": "\n".join(str(row.fields["body"]) for row in islice(tickets, 8)),
            "query": "Whose kettle stays cold, and how can we reach them?",
            "response": "It is the kettle of Ines Valtorp. Call 555-010-2231.",
        },
    }


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/", page),
    Route("/live/samples/{name}", sample),
    Route("/live/measure", _streamed(_measure), methods=["POST"]),
    Route("/live/cut", _streamed(_cut), methods=["POST"]),
    Route("/live/redact", _streamed(_redact), methods=["POST"]),
    Route("/live/mix", _streamed(_mix), methods=["POST"]),
    Route("/live/keep", _streamed(_keep, to_the_end=True), methods=["POST"]),
)
