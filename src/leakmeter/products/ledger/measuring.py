"""Logged answers to rows of the ledger: what is new is measured in runs, a batch at a time, and then committed.

A run holds texts. It lies within the ledger while it is under way, so that a killed `add` goes on from its last answer,
and goes when its numbers are committed, unless texts are kept. The score cache is left out of it, so that nothing of a
person is in a file that `forget` does not reach.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from leakmeter.core.case import Recipient, ToolCall
from leakmeter.core.item import Origin
from leakmeter.core.loaded import LoadedCases, Plan, Preparations
from leakmeter.core.measure import Texts
from leakmeter.core.plain import several
from leakmeter.core.record import JsonObject
from leakmeter.core.self_check import carried, with_noise_of
from leakmeter.data.traces import LoggedAnswer, Refused, TraceReader, as_case
from leakmeter.data.traces.answer import Whose
from leakmeter.data.traces.places import normalised
from leakmeter.errors import DamagedError, LeakmeterError, UsageError, WindowError
from leakmeter.instruments.influence.disclosures import Disclosure, disclosures
from leakmeter.instruments.influence.math import InfluenceStatistics
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.sources import Source
from leakmeter.products.ledger import flags
from leakmeter.products.ledger.keys import ANSWER, RECIPIENT, SUBJECT
from leakmeter.products.ledger.store import Ledger, kept_texts, other_model
from leakmeter.products.ledger.tables import KEYS, LISTED, TEXTS
from leakmeter.products.ledger.turns import Turns, turn_rows
from leakmeter.text import permissions
from leakmeter.text.build import PromptSettings
from leakmeter.text.matching import Folded

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.measure import Measurement
    from leakmeter.engine.loading import KeptModel
    from leakmeter.engine.measure import Callbacks
    from leakmeter.engine.ready import ReadyPlan
    from leakmeter.results.result import PartContent

BATCH: Final = 20
"""Answers whose numbers are committed together, at most."""
_MOST_CHARACTERS: Final = 2**25
"""Of a batch's prompts and documents, from which on no further answer is taken."""
DOCUMENT, ENTITY = "document", "entity"
UNITS: Final = (ENTITY, DOCUMENT)
"""Personal data first: a disclosure of a document is stored with the personal data that it may tell of."""
_NOT_OF_MODEL: Final = {
    # What moves last digits alone,
    *("dtype", "device", "memory_bytes", "processor", "threads"),
    # and what is of the settings.
    *("recogniser", "sensitive_sha256"),
}
"""Of a model's record, what does not decide whether numbers add up."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """How what is new is measured."""

    search: str | None = None
    """Search long prompts for their strongest pieces instead of measuring all, as in top:5."""
    region: str = "US"
    """ISO code of the country whose telephone numbers, addresses and dates are expected."""
    entity_patterns: str | None = None
    """File of further patterns to recognise, one line TYPE = REGEX each."""
    ner: str | None = None
    """A recogniser of names and dates on this machine, a directory with a token-classification model of transformers
    or a spaCy pipeline."""
    sensitive: str | None = None
    """File of values that are personal or secret to you: a .csv table with a column for each type of value, or lines
    TYPE = REGEX."""
    allowed: str | None = None
    """File of who may know what, .toml or .csv: budgets then count what recipients may not know."""
    pack: tuple[str, ...] | None = None
    """Files of further recognisers, TOML packs."""
    keep_texts: bool = False
    """Keep texts and names too, in the ledger's directory: pages then open each answer's heat map."""
    answered_by: str | tuple[str, ...] = ()
    """Names that the log has for the scoring model; its own name by default."""
    conditions_hold: bool = False
    """State what no log shows: that later queries depend on a document only through what their recipient saw, and that
    the recipient knows all other documents of each prompt. Posteriors are shown only then."""
    plain_draws: bool = False
    """State of servers what their logs do not: that limits and penalties which are not logged were off."""

    def settings(self, unit: str) -> PromptSettings:
        settings = PromptSettings(unit=unit, region=self.region, sensitive=self.sensitive, pack=self.pack)
        return settings if unit == DOCUMENT else replace(settings, entity_patterns=self.entity_patterns, ner=self.ner)


@dataclass(slots=True)
class Added:
    """What became of logged answers: each that was read was added, known, refused, or is among the problems."""

    n_read: int = 0
    """Answers and refused calls of the logs."""
    n_added: int = 0
    """Events that are new in the ledger."""
    n_known: int = 0
    """Events that it had."""
    n_measured: int = 0
    """Answers that were scored; the others of those added were scored before."""
    n_disclosures: int = 0
    """Spans of these that a document gave away."""
    refused: Counter[str] = field(default_factory=Counter)
    """Calls that cannot be measured, by reason."""
    flagged: Counter[str] = field(default_factory=Counter)
    """New events by why they take part in no posterior."""
    problems: list[str] = field(default_factory=list)
    """Why answers could not be scored, a line each, without what they say."""


@dataclass(frozen=True, slots=True)
class Setup:
    unit: str
    settings: PromptSettings
    measure: Influence
    id: str

    def key(self, ledger: Ledger, answer: LoggedAnswer) -> str:
        places = {
            document.content_hash: sorted((place.message, place.start, place.end) for place in document.places)
            for document in answer.documents
        }
        messages, begun = _sent(answer)
        return ledger.keys.scored(self.id, messages, places, answer.answer, *begun)


def _sent(answer: LoggedAnswer) -> tuple[list[list[Any]], list[list[Any]]]:
    """What the model was sent, and what it had begun to say."""
    begun = [] if answer.begun is None else [_written("assistant", answer.begun.text, answer.begun.calls)]
    return [_written(message.role, message.content, message.calls) for message in answer.messages], begun


def _written(role: str, text: str, calls: Iterable[ToolCall]) -> list[Any]:
    return [role, text, *([call.name, call.arguments] for call in calls)]


Score = Callable[["ReadyPlan"], Iterable["PartContent"]]
"""Measures cases, whose ids are the names of their scores."""


class ProgressWatch(Protocol):
    """Who shows how the work goes on."""

    def expect(self, n: int, *, goes_on: bool) -> None:
        """So many measurements more are to be made, fewer where negative; and whether the logs may have more."""

    def pass_of(self, backend: Backend, n_cases: int) -> AbstractContextManager[Callbacks]:
        """Watch some of these, which are made one after the other."""

    def show(self, findings: Mapping[str, float]) -> None:
        """Show what was found so far, numbers by their words."""


def add(
    ledger: Ledger,
    answers: Iterable[LoggedAnswer | Refused],
    model: KeptModel,
    how: Measuring | None = None,
    *,
    notify: Callable[[str], None] = lambda line: None,
    watch: ProgressWatch | None = None,
    added: Added | None = None,
) -> Added:
    """Add logged answers, as `traces.TraceReader` yields them, to a ledger: those that it has not are measured, and
    committed a batch at a time, and counted in `added`. `StoreError` where the ledger is of another model."""
    how = how or Measuring()
    outcome = Added() if added is None else added
    repeats: dict[str, list[str]] = {}
    turns = Turns(ledger.keys)
    # A log may have the later turns of a chat first.
    for answer in _looked_over(answers):
        if isinstance(answer, LoggedAnswer):
            turns.look(answer)
    new = _new(ledger, answers, outcome, repeats, turns)
    while batch := _batch(new):
        with model.lock, model.without_cache() as backend:
            _check_chat(backend)
            with ledger.measuring(notify):
                _add_batch(ledger, batch, backend, how, outcome, watch, turns)
    if ledger.runs.exists():
        # One that was killed after its last answer was committed has left its texts.
        with ledger.measuring(notify):
            ledger.remove_runs()
    known = _known(ledger) if repeats else {}
    for event, places in repeats.items():
        if event in known:
            outcome.n_known += len(places)
        else:
            outcome.problems += [f"{place}: the same answer was left out before" for place in places]
    return outcome


def _looked_over(answers: Iterable[LoggedAnswer | Refused]) -> Iterable[LoggedAnswer | Refused]:
    """The same answers, to be read before they are added; nothing of what can be read only once."""
    if isinstance(answers, TraceReader):
        return answers.anew() if answers.is_repeatable else ()
    return answers if isinstance(answers, Sequence) else ()


def _batch(answers: Iterator[LoggedAnswer]) -> list[LoggedAnswer]:
    """The next answers, fewer where they are long: all of them are in memory."""
    batch: list[LoggedAnswer] = []
    while not _is_full(batch) and (answer := next(answers, None)) is not None:
        batch.append(answer)
    return batch


def _is_full(batch: Sequence[LoggedAnswer]) -> bool:
    n_characters = sum(
        sum(len(message.content) for message in answer.messages) + sum(len(part.text) for part in answer.documents)
        for answer in batch
    )
    return len(batch) >= BATCH or n_characters >= _MOST_CHARACTERS


@dataclass(slots=True)
class _Work:
    """The work of one batch, as it is shown."""

    watch: ProgressWatch
    outcome: Added
    """Of the batches before."""
    goes_on: bool
    """Whether the logs may have more."""

    def expect(self, n: int) -> None:
        self.watch.expect(n, goes_on=self.goes_on)
        self.show()

    def show(self, n_measured: int = 0, spans: Sequence[JsonObject] = ()) -> None:
        """Show how many answers of this batch are measured, and their spans, with those of the batches before."""
        n_disclosures = self.outcome.n_disclosures + _n_spans(spans)
        n_measured += self.outcome.n_measured
        self.watch.show({"{:,.0f} answer{s} measured": n_measured, "{:,.0f} disclosure{s}": n_disclosures})


def _n_spans(disclosures: Sequence[JsonObject]) -> int:
    """Spans of answers; one that came from several documents is one."""
    return len({(row["score"], row["first_character"], row["last_character"]) for row in disclosures})


def _new(
    ledger: Ledger,
    answers: Iterable[LoggedAnswer | Refused],
    outcome: Added,
    repeats: dict[str, list[str]],
    turns: Turns,
) -> Iterator[LoggedAnswer]:
    """Answers that the ledger has not; where those stand that are in the logs again goes to `repeats`, by event."""
    stored, seen = _known(ledger), dict[str, _Shown]()
    known = ChainMap(seen, stored)
    for answer in answers:
        outcome.n_read += 1
        if isinstance(answer, Refused):
            outcome.refused[answer.reason.value] += 1
            continue
        # Of an answer that is known too: later turns repeat its documents.
        turns.look(answer)
        event, shown = ledger.keys.event(answer.trace_id, answer.span_id), _Shown.of(ledger, answer)
        if seen.get(event) == shown:
            repeats.setdefault(event, []).append(answer.where)
        elif not _is_known(ledger, answer, known, outcome):
            seen[event] = shown
            yield answer


class _Shown(NamedTuple):
    """What was shown, to whom, and of what; keyed hashes."""

    answer: str
    recipient: str | None
    prompt: str | None
    """None of an event of an earlier version."""

    @classmethod
    def of(cls, ledger: Ledger, answer: LoggedAnswer) -> _Shown:
        keys = ledger.keys
        recipient = keys.recipient(answer.recipient, answer.channel)
        return cls(keys.answer(answer.answer), recipient, _prompt(ledger, answer))

    def is_same(self, other: _Shown) -> bool:
        return self[:2] == other[:2] and (None in (self.prompt, other.prompt) or self.prompt == other.prompt)


def _prompt(ledger: Ledger, answer: LoggedAnswer) -> str:
    messages, begun = _sent(answer)
    return ledger.keys.prompt([*messages, *begun], sorted(document.content_hash for document in answer.documents))


def _known(ledger: Ledger) -> dict[str, _Shown]:
    _, rows = ledger.read("events", "prompts")
    prompts = {row["event"]: row["prompt"] for row in rows["prompts"]}
    return {row["event"]: _Shown(row["answer"], row["recipient"], prompts.get(row["event"])) for row in rows["events"]}


def _is_known(ledger: Ledger, answer: LoggedAnswer, known: Mapping[str, _Shown], outcome: Added) -> bool:
    """Whether the event is known; if it is one of another answer, or of the same to another recipient or prompt, that
    is a problem, or answers would get lost."""
    event = ledger.keys.event(answer.trace_id, answer.span_id)
    if event not in known:
        return False
    if known[event].is_same(_Shown.of(ledger, answer)):
        outcome.n_known += 1
    else:
        outcome.problems.append(
            f"{answer.where}: another answer has the same trace and span; give each answer ids of its own"
        )
    return True


def _add_batch(
    ledger: Ledger,
    answers: Sequence[LoggedAnswer],
    backend: Backend,
    how: Measuring,
    outcome: Added,
    watch: ProgressWatch | None,
    turns: Turns,
) -> None:
    # Another process may have added them while this one waited.
    known = _known(ledger)
    turns.take_up(ledger, answers)
    new, prompts = list[LoggedAnswer](), dict[str, str]()
    for answer in answers:
        if _is_known(ledger, answer, known, outcome):
            continue
        if turns.is_late(answer):
            outcome.problems.append(
                f"{answer.where}: the ledger has a later turn of this chat, measured without this turn's documents; "
                "add all logs to a new ledger, in one command"
            )
        else:
            new.append(turns.whole(answer))
            # What earlier turns add depends on what else was added.
            prompts[ledger.keys.event(answer.trace_id, answer.span_id)] = _prompt(ledger, answer)
    work = None if watch is None else _Work(watch, outcome, goes_on=_is_full(answers))
    batch = measured(ledger, new, backend, how, partial(_in_runs, ledger, watch), work)
    batch.rows["prompts"] += [{"event": row["event"], "prompt": prompts[row["event"]]} for row in batch.rows["events"]]
    if batch.rows["events"]:
        ledger.commit(batch.rows, model=batch.model)
    outcome.n_added += len(batch.rows["events"])
    outcome.n_measured += batch.n_measured
    outcome.n_disclosures += _n_spans(batch.rows["disclosures"])
    outcome.problems += batch.problems
    outcome.flagged.update(flag for event in batch.rows["events"] for flag in event["flags"])
    ledger.remove_runs()


@dataclass(slots=True)
class MeasuredAnswers:
    """Answers as rows that are not committed yet."""

    rows: dict[str, list[JsonObject]]
    model: JsonObject | None = None
    n_measured: int = 0
    """Answers of which something was scored."""
    problems: list[str] = field(default_factory=list)
    """Why others cannot be scored, a line each."""


def measured(
    ledger: Ledger,
    answers: Sequence[LoggedAnswer],
    backend: Backend,
    how: Measuring,
    score: Score,
    work: _Work | None = None,
) -> MeasuredAnswers:
    """Score what the ledger has no numbers of, and make rows of all answers that can be scored. Writes no table."""
    if answers:
        _check_chat(backend)
    policy = None if how.allowed is None else permissions.read(how.allowed)
    rows: dict[str, list[JsonObject]] = {table: [] for table in KEYS}
    result = MeasuredAnswers(rows)
    of_event: dict[int, dict[str, str]] = {number: {} for number in range(len(answers))}
    new: set[int] = set()
    n_done = 0
    at: dict[float, list[int]] = {}
    for number, answer in enumerate(answers):
        at.setdefault(flags.scored_at(answer), []).append(number)
    setups_at: list[tuple[list[Setup], dict[str, dict[int, str]]]] = []
    # A model that gives other temperatures than 1 to nobody refuses them before it has scored anything.
    for temperature, numbers in sorted(at.items(), key=lambda item: item[0] == 1.0):
        setups, result.model = _setups(backend, how, temperature)
        names_of = {setup.unit: {number: setup.key(ledger, answers[number]) for number in numbers} for setup in setups}
        setups_at.append((setups, names_of))
    asked = {key for _, names_of in setups_at for names in names_of.values() for key in names.values()}
    messages = {ledger.keys.message(message.content) for answer in answers for message in answer.messages}
    with ledger.reading() as view:
        if result.model is not None and view.state.model not in (None, result.model):
            raise other_model(ledger.path, view.state.model or {}, result.model)
        scored = {row["score"]: row["n_tokens"] for row in view.rows("measured", f"score IN {LISTED}", asked)}
        disclosed = view.rows("disclosures", f"score IN {LISTED}", asked)
        bare = {row["message"] for row in view.rows("turns", f"message IN {LISTED} AND document IS NULL", messages)}
    for setups, names_of in setups_at:
        # Of an answer both units are scored or none, since disclosures are made of both.
        missing = {number for names in names_of.values() for number, key in names.items() if key not in scored}
        if work is not None:
            work.expect(sum(len({names[number] for number in missing}) for names in names_of.values()))
        entities: dict[int, list[JsonObject]] = {}
        for n_passes, setup in zip(range(len(setups), 0, -1), setups, strict=True):
            unit = setup.unit
            keys = {number: key for number, key in names_of[unit].items() if number in of_event}
            first = {key: number for number, key in reversed(keys.items())}
            todo = {key: answers[number] for key, number in first.items() if number in missing}
            prepared, problems = _usable(todo, setup, backend)
            if work is not None and problems:
                # What cannot be measured by one unit is left out of those that follow.
                work.expect(-n_passes * len(problems))
            for texts, measurements in carried(score(_ready(prepared, setup, backend))) if prepared else ():
                part = texts, with_noise_of(texts, measurements)
                key = str(texts["id"])
                _take(ledger, rows, key, part, todo[key], setup, keeps_texts=how.keep_texts)
                if unit == ENTITY:
                    entities[first[key]] = [span for span in texts["spans"] if span["entity"] is not None]
                else:
                    rows["disclosures"] += _disclosures(ledger, key, part, todo[key], entities[first[key]])
                    # The other unit was measured before.
                    n_done += 1
                    if work is not None:
                        work.show(n_done, rows["disclosures"])
                scored[key] = _n_tokens(part)
            new |= {first[key] for key in prepared.ids}
            for number, key in keys.items():
                if key in problems:
                    # Answers that say the same of the same prompt have one score, and are left out one by one.
                    result.problems.append(f"{answers[number].where}: {problems[key]}")
                    del of_event[number]
                else:
                    of_event[number][unit] = key
    kinds: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in (*disclosed, *rows["disclosures"]):
        kinds[row["score"]].append((row["content"], row["kind"]))
    for number, names in of_event.items():
        answer = answers[number]
        event = _event(ledger, answer, names, scored[names[DOCUMENT]], how, backend.name)
        rows["events"].append(event)
        rows["looks"] += _looks(ledger, answer, event["event"])
        rows["turns"] += turn_rows(ledger.keys, answer, event["event"], bare)
        rows["permissions"] += _permissions(ledger, answer, event["event"], policy, kinds.get(names[DOCUMENT], ()))
        rows["names"] += _document_names(ledger, answer)
        if how.keep_texts and answer.recipient is not None and answer.channel == ANSWER:
            rows["names"].append({"pseudonym": event["recipient"], "kind": RECIPIENT, "name": answer.recipient})
    result.n_measured = len(new & of_event.keys())
    return result


def _check_chat(backend: Backend) -> None:
    if not backend.tokenizer.has_chat_template:
        raise UsageError(
            f"model '{backend.name}' has no chat template, and logged messages need one; choose another model with "
            "--model, or give the Guard another meter"
        )


def _setups(backend: Backend, how: Measuring, temperature: float) -> tuple[list[Setup], JsonObject]:
    from leakmeter.engine.storage.spec import spec_of

    measure = Influence(temperature=temperature, search=how.search)
    # What decides what personal data is decides too whom disclosures of documents may tell of.
    spec = spec_of(measure, "influence", how.settings(ENTITY).resolved(), backend, ())
    model = {name: value for name, value in spec.model.items() if name not in _NOT_OF_MODEL}
    # Disclosures are those of documents: nothing of personal data alone is held against other contexts.
    measures = {DOCUMENT: measure, ENTITY: replace(measure, controls=0)}
    return [Setup(unit, how.settings(unit).resolved(), measures[unit], f"{unit}-{spec.id}") for unit in UNITS], model


def _usable(todo: Mapping[str, LoggedAnswer], setup: Setup, backend: Backend) -> tuple[Preparations, dict[str, str]]:
    """The cases that can be measured, whose ids name their scores, and why the others cannot."""
    usable = Preparations(backend)
    problems: dict[str, str] = {}
    for key, answer in todo.items():
        try:
            usable.append(Origin(replace(as_case(answer), id=key), setup.settings, setup.measure))
        except LeakmeterError as error:
            # Of a logged answer nothing can be cut off.
            problem = (
                f"{error.problem}; give a model with a larger one" if isinstance(error, WindowError) else str(error)
            )
            problems[key] = problem.replace(f"case '{key}'", "the answer")
    return usable, problems


def _in_runs(ledger: Ledger, watch: ProgressWatch | None, ready: ReadyPlan) -> Iterator[PartContent]:
    """Measure into a run of the ledger's, so that a killed command goes on."""
    from leakmeter.engine.measure import Callbacks

    n_done = 0

    def parts() -> Iterator[PartContent]:
        nonlocal n_done
        with (
            watch.pass_of(ready.backend, len(ready.prepared)) if watch else nullcontext(Callbacks()) as callbacks,
            # It is removed in a moment: to wait for the disk would take longer than a small model does.
            ready.measure_into(ledger.runs, callbacks=callbacks, lasting=False) as run,
        ):
            for part in islice(run.parts, n_done, None):
                n_done += 1
                yield part

    try:
        yield from parts()
    except DamagedError:
        # The machine stopped while it was written.
        ledger.remove_runs()
        yield from parts()


def _ready(prepared: Preparations, setup: Setup, backend: Backend) -> ReadyPlan:
    from leakmeter.engine.ready import ready_of

    cases = LoadedCases(tuple(origin.case for origin in prepared.origins if origin is not None))
    return ready_of(Plan("influence", setup.measure, setup.settings, cases), backend, prepared)


def _take(
    ledger: Ledger,
    rows: dict[str, list[JsonObject]],
    key: str,
    part: PartContent,
    answer: LoggedAnswer,
    setup: Setup,
    *,
    keeps_texts: bool,
) -> None:
    texts, measurements = part
    contents = _contents(ledger, answer)
    rows["measured"].append({"score": key, "unit": setup.unit, "n_tokens": _n_tokens(part), "kept": keeps_texts})
    if keeps_texts:
        rows[TEXTS].append(kept_texts(key, part, setup.measure.record()))
    units = [span["name"] for span in texts["spans"] if span["kind"] == "unit"]
    numbers = _numbers(measurements, units)
    for span in texts["spans"]:
        if span["kind"] != "unit":
            continue
        entity = span["entity"]
        target = contents[span["document"]] if entity is None else ledger.keys.entity(entity["type"], entity["value"])
        row = {"score": key, "unit": setup.unit, "target": target, "n_mentions": len(span["ranges"])}
        rows["scores"].append({**row, **numbers[span["name"]]})
        if entity is not None:
            rows["mentions"] += _mentions(ledger, texts, span, contents)
            if keeps_texts:
                rows["names"].append({"pseudonym": target, "kind": SUBJECT, "name": entity["text"]})


def _contents(ledger: Ledger, answer: LoggedAnswer) -> dict[str, str]:
    """By the names that documents have in a case."""
    return {f"d{n}": ledger.keys.content(document.content_hash) for n, document in enumerate(answer.documents, 1)}


def _disclosures(
    ledger: Ledger, key: str, part: PartContent, answer: LoggedAnswer, entities: Sequence[JsonObject]
) -> Iterator[JsonObject]:
    texts, measurements = part
    contents = _contents(ledger, answer)
    series = {
        (measurement.sample, measurement.statistic, measurement.piece): measurement.values
        for measurement in measurements
    }
    for disclosure in disclosures(texts, series):
        if disclosure.evidence is None:
            continue
        start, end = _place(disclosure, answer.answer)
        for source in {source.document: source for source in reversed(disclosure.sources)}.values():
            yield {
                "score": key,
                "content": contents[str(source.document)],
                "kind": disclosure.kind,
                "relation": disclosure.relation,
                "evidence": disclosure.evidence,
                "nats": disclosure.nats,
                "posterior": None,
                "first_character": start,
                "last_character": end - 1,
                "entities": _told_of(ledger, texts, disclosure, source, entities),
            }


def _place(disclosure: Disclosure, answer: str) -> tuple[int, int]:
    """Characters of a disclosure in the answer as it was logged, which its tokens may spell with other spaces."""
    places = [match.span() for match in re.finditer(re.escape(disclosure.text), answer)]
    # Where it is not found, all of the answer is the safe place.
    return min(places, key=lambda place: abs(place[0] - disclosure.start), default=(0, len(answer)))


def _told_of(
    ledger: Ledger, texts: Texts, disclosure: Disclosure, source: Source, entities: Sequence[JsonObject]
) -> list[str]:
    """Pseudonyms of a document's personal data that a disclosure may reveal: what stands at its source or shares its
    letters. The source of what is not copied is the whole document."""
    letters = Folded(disclosure.text).letters
    parts = [(part["start"], part["end"]) for part in texts["documents"] if part["name"] == source.document]

    def may_tell(start: int, end: int) -> bool:
        if not any(first <= start < last for first, last in parts):
            return False
        letters_of_span = Folded(texts["context"][start:end]).letters
        return (start < source.end and source.start < end) or letters_of_span in letters or letters in letters_of_span

    return [
        ledger.keys.entity(span["entity"]["type"], span["entity"]["value"])
        for span in entities
        if any(may_tell(start, end) for start, end in span["ranges"])
    ]


def _n_tokens(part: PartContent) -> int:
    return len(part[0]["responses"][0]["tokens"])


def _numbers(measurements: Sequence[Measurement], pieces: Sequence[str]) -> dict[str, JsonObject]:
    told = InfluenceStatistics
    series = {
        (measurement.statistic, measurement.piece): measurement.values
        for measurement in measurements
        if measurement.sample == 0
    }
    whole, noise = series[told.whole, ""], _size(series[told.noise, ""])
    added = [values for (statistic, _), values in series.items() if statistic == told.placebo]
    # An irrelevant piece is put in at several places: their mean stands for one.
    placebo = (
        (float(np.mean([_sum(values) for values in added])), float(np.mean([_size(values) for values in added])))
        if added
        else None
    )
    alone = series.get((told.placebo_alone, ""))
    numbers: dict[str, JsonObject] = {}
    for name in pieces:
        cut, screened = series.get((told.without_this, name)), series.get((told.screened, name))
        # A piece that is all of the context is held against an irrelevant text as the only context.
        is_whole = cut is not None and np.array_equal(cut, whole)
        beside = (_sum(alone), _size(alone)) if is_whole and alone is not None else placebo
        numbers[name] = {
            "signed_nats": None if cut is None else _sum(cut),
            "size_nats": None if cut is None else _size(cut),
            "noise_nats": noise,
            "placebo_nats": None if beside is None else beside[0],
            "placebo_size_nats": None if beside is None else beside[1],
            "screened_nats": None if screened is None else _size(screened),
        }
    return numbers


def _sum(values: Any) -> float:
    """Σ with signs; NaN where it is not defined."""
    with np.errstate(invalid="ignore"):
        return float(np.sum(values))


def _size(values: Any) -> float:
    """Σ without signs; infinite where it is not defined."""
    total = _sum(np.abs(values))
    return np.inf if np.isnan(total) else total


def _mentions(ledger: Ledger, texts: Texts, span: JsonObject, contents: Mapping[str, str]) -> Iterator[JsonObject]:
    entity = span["entity"]
    is_person = entity["type"] == "person"
    counts: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    for document in texts["documents"]:
        start, end = document["start"], document["end"]
        # Of a document's places those that say the same count once.
        said = document["name"], normalised(texts["context"][start:end])
        if said not in seen:
            seen.add(said)
            counts[document["name"]] += sum(start <= first < end for first, _ in span["ranges"])
    for name, n in counts.items():
        if n:
            yield {
                "content": contents[name],
                "entity": ledger.keys.entity(entity["type"], entity["value"]),
                "kind": entity["type"],
                "n_mentions": n,
                "words": ledger.keys.words(entity["value"]) if is_person else [],
                "initials": ledger.keys.initials(entity["value"]) if is_person else [],
            }


def _event(
    ledger: Ledger, answer: LoggedAnswer, names: Mapping[str, str], n_tokens: int, how: Measuring, model: str
) -> JsonObject:
    keys = ledger.keys
    event = keys.event(answer.trace_id, answer.span_id)
    return {
        "event": event,
        "trace": answer.trace_id,
        "span": answer.span_id,
        "draw": event if answer.response_id is None else keys.draw(answer.response_id),
        "time": answer.time,
        "day": None if answer.time is None else answer.time.date(),
        "recipient": keys.recipient(answer.recipient, answer.channel),
        "answer": keys.answer(answer.answer),
        "by_document": names[DOCUMENT],
        "by_entity": names[ENTITY],
        "n_tokens": n_tokens,
        "temperature": flags.scored_at(answer),
        "decoding": answer.sampling.decoding,
        "flags": flags.flags_of(
            answer, (model, *several(how.answered_by)), conditions_hold=how.conditions_hold, plain_draws=how.plain_draws
        ),
    }


def _looks(ledger: Ledger, answer: LoggedAnswer, event: str) -> Iterator[JsonObject]:
    keys = ledger.keys
    present = [(name, part.content_hash) for part in answer.documents for name in (part.id, *part.other_ids)]
    absent = [(part.id, part.content_hash) for part in answer.absent]
    for documents, is_present in ((present, True), (absent, False)):
        for id_, sha256 in documents:
            names = {"document": keys.document(id_), "content": keys.content(sha256)}
            yield {"event": event, **names, "present": is_present}


def _permissions(
    ledger: Ledger,
    answer: LoggedAnswer,
    event: str,
    policy: permissions.Policy | None,
    told: Sequence[tuple[str, str]],
) -> Iterator[JsonObject]:
    """Whether the recipient may know each document in the prompt, and what the answer discloses of it: `told` are
    contents of documents, and kinds. Nothing where neither a policy nor the log says it of any."""
    keys = ledger.keys
    kinds: dict[str, list[str]] = {}
    for content, kind in told:
        kinds.setdefault(content, []).append(kind)
    # What was retrieved is called by its id, or, where that says nothing, by its name.
    named = [(id_, part.name if part.name and id_ == part.id else id_, part) for part in answer.documents
             for id_ in (part.id, *part.other_ids)]  # fmt: skip
    by_name = _Facts((called, whose) for _, called, part in named for whose in part.whose or (Whose(),))
    decided = by_name.decided(answer, policy)
    if not decided:
        return
    for id_, called, part in named:
        content = keys.content(part.content_hash)
        among = [decided[at] for whose in part.whose or (Whose(),) if (at := by_name.at[called, whose]) in decided]
        allowed = (_best(each.may(called, kind=None).allowed for each in among)) if among else "unknown"
        yield {
            "event": event,
            "document": keys.document(id_),
            "content": content,
            "allowed": allowed,
            "kinds": [
                kind
                for kind in dict.fromkeys(kinds.get(content, ()))
                if any(each.may(called, kind=kind).allowed == "yes" for each in among)
            ],
        }


class _Facts:
    """What is known of documents, by their names. Of several with one name each has its own facts: they stand in
    groups, in each of which a name stands once."""

    def __init__(self, said: Iterable[tuple[str, Whose]]) -> None:
        self.at: dict[tuple[str, Whose], int] = {}
        """Number of its group."""
        self._groups: list[dict[str, permissions.DocumentFacts]] = []
        n_of_name: Counter[str] = Counter()
        for called, whose in said:
            if (called, whose) in self.at:
                continue
            number = self.at[called, whose] = n_of_name[called]
            n_of_name[called] += 1
            if number == len(self._groups):
                self._groups.append({})
            facts = permissions.DocumentFacts(owner=whose.owner, tenant=whose.tenant, readers=whose.readers)
            self._groups[number][called] = facts

    def decided(self, answer: LoggedAnswer, policy: permissions.Policy | None) -> dict[int, permissions.Permissions]:
        """What decides of the documents of each group, by its number; nothing of a group of which nothing does."""
        name = None if answer.channel == ANSWER else (answer.recipient or "").partition(":")[2]
        known = answer.known or Recipient()
        found = (permissions.permissions_for(answer.channel, name, known, group, policy) for group in self._groups)
        return {number: each for number, each in enumerate(found) if each is not None}


def _best(allowed: Iterable[permissions.MayKnow]) -> permissions.MayKnow:
    """Of one text in several documents: it may be known from any of them."""
    held = set(allowed)
    return "yes" if "yes" in held else "unknown" if "unknown" in held else "no"


def _document_names(ledger: Ledger, answer: LoggedAnswer) -> Iterator[JsonObject]:
    """Names of documents whose ids say nothing to a reader."""
    for part in answer.documents:
        if part.name and part.name != (id_ := ledger.keys.document(part.id)):
            yield {"pseudonym": id_, "kind": DOCUMENT, "name": part.name}
