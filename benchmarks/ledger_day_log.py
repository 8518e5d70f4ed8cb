"""A day's log of a retrieval system for the benchmark of ledgers: real documents, a model's own answers, planted leaks.

Documents are the beginnings of abstracts and news articles, and notes about invented people. Most answers are drawn
from the model at temperature 1 without truncation. Answers that quote a note are written by hand: one recipient is
told of a note again and again, a cache shows an answer twice, to one recipient or to two, a text is drawn twice, and
several recipients are told a part of a note each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from leakmeter.core.backend import Backend
from leakmeter.core.case import Case, Document, Message
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.sampling import sample
from leakmeter.instruments.influence.measure import Influence
from leakmeter.products.integrations import AnswerLog, log_answer
from leakmeter.text.build import PromptSettings
from leakmeter.text.units import starts_in_characters

SEED: Final = 23
MORNING: Final = datetime(2026, 3, 2, 7, 30, tzinfo=UTC)
INSTRUCTION: Final = "Answer in one sentence from the documents."
NEWS_QUESTION: Final = "What happened?"
_EVERY_SECONDS: Final = 180
_MOST_WORDS: Final = 36
_LEAST_WORDS: Final = 14
_DRAWN_TOGETHER: Final = 20
_N_DOCUMENTS: Final = (0.6, 0.28, 0.12)
"""Chances of one, two and three documents in a prompt."""
_ARTICLES: Final = "cnn_dailymail/validation_subset.jsonl"
_ABSTRACTS: Final = "pubmedqa/ori_pqal.json"

RECIPIENTS: Final = tuple(
    f"{name}@harnsted.example"
    for name in (
        "n.vance", "o.brandt", "p.ilves", "q.mora", "r.tandy", "s.okoye", "t.lindqvist", "u.farah", "v.castell",
        "w.huber", "x.arden", "y.sato",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    """A planted document, what is asked about it, and what is private in it."""

    text: str
    query: str
    person: str
    """As `leakmeter ledger forget` is given the name."""
    private: tuple[str, ...]
    """What no file may say any more when it is forgotten."""


# Telephone numbers are of a range that is reserved for fiction.
NOTES: Final[Mapping[str, Note]] = {
    "note-1": Note(
        "Intake of Mrs Odile Farrowgate, 48 Pinwheel Street, Kelby Moor. She can be reached at 202-555-0143 after six. "
        "She was brought in with a broken wrist and asked for her sister.",
        "Who was taken in with a broken wrist?",
        "Odile Farrowgate",
        ("Farrowgate", "Odile", "Pinwheel", "202-555-0143"),
    ),
    "note-2": Note(
        "Mr Tobias Wrenfield rang on Tuesday about his test. The result goes to tobias@wrenfield.example, not to his "
        "office. His number at home is 202-555-0172.",
        "Where does the test result go?",
        "Tobias Wrenfield",
        ("Wrenfield", "Tobias", "wrenfield.example", "202-555-0172"),
    ),
    "note-3": Note(
        "Ms Henrike Solvang owes the clinic 1,350 for the crown. A letter to 7 Tamarisk Lane, Aldermouth came back. "
        "Her employer gave us 202-555-0118.",
        "Who owes the clinic money?",
        "Henrike Solvang",
        ("Solvang", "Henrike", "Tamarisk", "202-555-0118"),
    ),
    "note-4": Note(
        "Dr Casimir Underhay was seen for his back. He lives at 220 Larkspur Avenue, Torvik. His wife answers "
        "202-555-0161, and he was born on 14 June 1957.",
        "What do we know of the patient with the bad back?",
        "Casimir Underhay",
        ("Underhay", "Casimir", "Larkspur", "202-555-0161"),
    ),
    "note-5": Note(
        "Ms Yevgenia Marchetti takes the blue tablets since March. Questions go to her daughter at 202-555-0199 or to "
        "marchetti.y@aldermouth.example.",
        "Who takes the blue tablets?",
        "Yevgenia Marchetti",
        ("Marchetti", "Yevgenia", "202-555-0199", "marchetti.y"),
    ),
    "note-6": Note(
        "Visitors park behind the laundry. The gate is opened by Mr Leopold Ashgrove, 202-555-0184, until eight.",
        "Where do visitors park?",
        "Leopold Ashgrove",
        ("Ashgrove", "Leopold", "202-555-0184"),
    ),
}


@dataclass(frozen=True, slots=True)
class Leak:
    """A planted answer."""

    note: str
    answer: str
    recipient: int
    draw: str | None = None
    """Names the draw where a cache shows one again."""


LEAKS: Final = (
    # One recipient is told of one note again and again.
    Leak("note-1", "Mrs Odile Farrowgate of 48 Pinwheel Street, Kelby Moor, has a broken wrist.", 2),
    Leak("note-1", "Mrs Odile Farrowgate can be reached at 202-555-0143 after six.", 2),
    Leak("note-1", "It was Mrs Odile Farrowgate, who asked for her sister. Her number is 202-555-0143.", 2),
    # A cache shows one answer twice to one recipient: one draw.
    Leak("note-2", "The result goes to tobias@wrenfield.example; Mr Tobias Wrenfield is at 202-555-0172.", 5, "c-2"),
    Leak("note-2", "The result goes to tobias@wrenfield.example; Mr Tobias Wrenfield is at 202-555-0172.", 5, "c-2"),
    # The same text is drawn twice: two draws.
    Leak("note-3", "Ms Henrike Solvang of 7 Tamarisk Lane, Aldermouth owes 1,350. Call 202-555-0118.", 7),
    Leak("note-3", "Ms Henrike Solvang of 7 Tamarisk Lane, Aldermouth owes 1,350. Call 202-555-0118.", 7),
    # Several recipients are told a part each.
    Leak("note-4", "Dr Casimir Underhay was seen for his back.", 0),
    Leak("note-4", "The patient lives at 220 Larkspur Avenue, Torvik.", 3),
    Leak("note-4", "His wife answers 202-555-0161.", 8),
    Leak("note-4", "The patient was born on 14 June 1957.", 10),
    # A cache shows one answer to two recipients: once for each, and once for both together.
    Leak("note-5", "Ms Yevgenia Marchetti takes them; her daughter is at 202-555-0199.", 4, "c-5"),
    Leak("note-5", "Ms Yevgenia Marchetti takes them; her daughter is at 202-555-0199.", 9, "c-5"),
)
"""Nobody is told of note-6."""


@dataclass(slots=True)
class Exchange:
    """One call of the system."""

    documents: Mapping[str, str]
    query: str
    recipient: str
    answer: str | None = None
    """None of one that the model is to give."""
    draw: str | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the model is sent."""
        told = "\n\n".join([*self.documents.values(), self.query])
        return [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": told}]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much traffic there is."""

    answers: int = 200
    documents: int = 40
    """The notes among them."""
    recipients: int = 12
    new_tokens: int = 26
    """Most tokens that are drawn."""
    leaks: tuple[Leak, ...] = LEAKS
    """The planted answers, in their order."""


WHOLE: Final = Sizes()


@dataclass(frozen=True, slots=True)
class Day:
    """The exchanges of a day, in the order of time."""

    exchanges: list[Exchange]
    documents: Mapping[str, str] = field(repr=False)


def planned(data: Path, sizes: Sizes = WHOLE) -> Day:
    """Who asks what with which documents; the model's answers are missing.

    Args:
        data: directory with the articles and the abstracts.
        sizes: how much there is.
    """
    rng = np.random.default_rng(SEED)
    found = _documents(data, sizes.documents - len(NOTES))
    queries = {name: query for name, (_, query) in found.items()} | {name: note.query for name, note in NOTES.items()}
    texts = {name: text for name, (text, _) in found.items()} | {name: note.text for name, note in NOTES.items()}
    leaks = [_leaked(leak, texts, rng, sizes) for leak in sizes.leaks]
    rest = []
    for number in range(sizes.answers - len(leaks)):
        names = _picked(list(texts), rng, first=number)
        documents = {name: texts[name] for name in names}
        rest.append(Exchange(documents, queries[names[0]], RECIPIENTS[rng.integers(sizes.recipients)]))
    # Planted answers keep their order, so that what a cache shows again comes later.
    places = sorted(rng.choice(sizes.answers, len(leaks), replace=False).tolist())
    ordered = iter(leaks)
    others = iter(rest)
    return Day([next(ordered if n in places else others) for n in range(sizes.answers)], texts)


def answered(day: Day, backend: Backend, sizes: Sizes = WHOLE) -> None:
    """Draw the answers that are missing: from the whole distribution, at temperature 1.

    Args:
        day: the exchanges, whose answers are filled in.
        backend: what answers.
        sizes: says how many tokens are drawn at most.
    """
    waiting = [number for number, one in enumerate(day.exchanges) if one.answer is None]
    for seed in range(SEED, SEED + 10):
        for start in range(0, len(waiting), _DRAWN_TOGETHER):
            _draw(day.exchanges, waiting[start : start + _DRAWN_TOGETHER], backend, sizes.new_tokens, seed)
        # What ended at once is no answer, and is asked for again.
        waiting = [number for number in waiting if not (day.exchanges[number].answer or "").strip()]
    if waiting:
        raise ValueError(f"{len(waiting)} answers have no text after ten draws")


def write(day: Day, path: Path, model: str) -> None:
    """Write the log as a program does that records its answers.

    Args:
        day: exchanges with answers.
        path: the file, which is made.
        model: the name of what answered.
    """
    log = AnswerLog(path, strict=True)
    for number, one in enumerate(day.exchanges):
        log_answer(
            log,
            trace_id=f"day-{number + 1:04}",
            span_id="1",
            time=MORNING + timedelta(seconds=number * _EVERY_SECONDS),
            recipient=one.recipient,
            model=model,
            temperature=1.0,
            top_p=1.0,
            messages=one.messages,
            answer=one.answer,
            documents=one.documents,
            response_id=one.draw,
        )


def _documents(data: Path, n: int) -> dict[str, tuple[str, str]]:
    """Texts and questions by ids that name nobody: abstracts and articles in turn."""
    abstracts = json.loads((data / _ABSTRACTS).read_text("utf-8")).values()
    articles = (json.loads(line) for line in (data / _ARTICLES).read_text("utf-8").splitlines())
    kinds: list[list[tuple[str, str]]] = [
        [(_begun(" ".join(one["CONTEXTS"])), one["QUESTION"]) for one in abstracts],
        [(_begun(one["article"]), NEWS_QUESTION) for one in articles],
    ]
    kept = [[one for one in of_kind if len(one[0].split()) >= _LEAST_WORDS] for of_kind in kinds]
    names = ("abstract", "article")
    return {f"{names[i % 2]}-{i // 2 + 1}": kept[i % 2][i // 2] for i in range(n)}


def _begun(text: str) -> str:
    """The first sentences of a text, as many as are short together."""
    starts = [*starts_in_characters("sentence", text), len(text)]
    kept: list[str] = []
    for start, end in pairwise(starts):
        words = text[start:end].split()
        if len(kept) + len(words) > _MOST_WORDS:
            break
        kept += words
    return " ".join(kept)


def _picked(names: Sequence[str], rng: np.random.Generator, first: int) -> list[str]:
    """Documents of a prompt: each comes first in its turn, others by chance behind it."""
    head = names[first % len(names)]
    n_more = int(rng.choice(3, p=_N_DOCUMENTS))
    more = rng.permutation([name for name in names if name != head])[:n_more]
    return [head, *(str(name) for name in more)]


def _leaked(leak: Leak, texts: Mapping[str, str], rng: np.random.Generator, sizes: Sizes) -> Exchange:
    """A planted answer, with another document in every second prompt."""
    names = [leak.note]
    # What a cache shows again was drawn from one prompt.
    if leak.draw is None and rng.random() < 0.5:
        names.append(str(rng.choice([name for name in texts if name not in NOTES])))
    documents = {name: texts[name] for name in names}
    who = RECIPIENTS[leak.recipient % sizes.recipients]
    return Exchange(documents, NOTES[leak.note].query, who, leak.answer, leak.draw)


def _draw(exchanges: Sequence[Exchange], numbers: Sequence[int], backend: Backend, new_tokens: int, seed: int) -> None:
    settings, measure = PromptSettings(unit="document"), Influence(controls=0)
    items: list[ContextItem] = []
    for number in numbers:
        item = settings.prepare(_case(f"day-{number + 1:04}", exchanges[number]), backend, measure).item
        assert isinstance(item, ContextItem)
        items.append(item)
    drawn, _ = drive(
        backend,
        [sample(one, n=1, temperature=1.0, context_weight=1.0, max_new_tokens=new_tokens, seed=seed) for one in items],
    )
    for number, item, (ids,) in zip(numbers, items, drawn, strict=True):
        said = ids[:-1] if ids[-1] in item.stop_ids else ids
        exchanges[number].answer = backend.tokenizer.decode(said)


def _case(id_: str, one: Exchange) -> Case:
    """A prompt without an answer, as the log's reader makes cases of prompts with one."""
    parts: list[Document] = []
    for number, text in enumerate(one.documents.values(), 1):
        parts += [Document(f"d{number}", text), Document("user 2", "\n\n")]
    parts[-1] = Document("user 2", f"\n\n{one.query}")
    told: Any = tuple(parts)
    return Case(
        id=id_,
        messages=(
            Message("system", "system 1", (Document("system 1", INSTRUCTION),), (), fixed=True),
            Message("user", "user 2", told, tuple(range(0, len(parts), 2)), fixed=True),
        ),
    )
