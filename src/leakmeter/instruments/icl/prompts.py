"""A query behind its exemplars, each of which comes and goes with its headings, its label and the blank line before it.

opening           Classify the news articles …
exemplar          ⏎⏎Article: Wall St. Bears …⏎Answer: Business
exemplar          ⏎⏎Article: …⏎Answer: World
heading, query    ⏎⏎Article: Rescuing an Old Saver …
answer            ⏎Answer:

Instruction and headings are frame, texts and labels are data. Every prompt is written and tokenised as one string:
without an exemplar it is the prompt that was never given it. Only where there is no instruction, whatever comes first
has no blank line before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from leakmeter.core import registry
from leakmeter.core.backend import Backend, Tokenizer
from leakmeter.core.item import Prepared
from leakmeter.core.measure import Measure
from leakmeter.core.prompt import CONTEXT, QUERY, Prompt
from leakmeter.core.record import JsonObject
from leakmeter.core.registry import PlainSettings
from leakmeter.errors import UsageError, WindowError
from leakmeter.instruments.icl.measure import ExemplarItem
from leakmeter.overriding import override
from leakmeter.text.build import check_unicode
from leakmeter.text.exemplars import EXEMPLAR, ExemplarCase, LabelledText, Task, Writer, written, written_texts
from leakmeter.text.templates import check_plain_or_chat, plain_or_chat

_CONTENT_FREE = {"blank": "", "n/a": "N/A"}
"""Inputs that say nothing: blank as in Appendix B, and one of Zhao et al. 2021, whose calibration it is."""


@dataclass(frozen=True, slots=True)
class ExemplarSettings(PlainSettings):
    """How prompts of a task are made; the formats are those of Table 2."""

    task: Task
    template: str | None = "plain"
    """plain, or chat for all of it in one user message; None for chat where the model has it. The paper does not say
    which it took."""

    def __post_init__(self) -> None:
        check_plain_or_chat(self.template, "exemplars")

    def prepare(self, case: ExemplarCase, backend: Backend, measure: Measure) -> PreparedExemplars:
        prepared = prepare_exemplars(case, backend.tokenizer, self, window=backend.window)
        # Labels that the measure cannot tell apart are refused before anything is written.
        measure.check(prepared.item)
        return prepared


@dataclass(frozen=True, slots=True)
class PreparedExemplars(Prepared):
    @override
    def texts(self) -> JsonObject:
        return {"labels": list(self.item.labels), "label_tokens": max(map(len, self.item.label_ids))}


def prepare_exemplars(
    case: ExemplarCase, tokenizer: Tokenizer, settings: ExemplarSettings, *, window: int | None
) -> PreparedExemplars:
    """Tokenise a query and its exemplars; the exemplars are the spans, named by their ids."""
    task, exemplars, query = settings.task, case.exemplars, case.query.texts
    _check_texts(case, task)
    template = plain_or_chat(settings.template, tokenizer)
    writer = Writer(task, exemplars, tokenizer, chat=template == "chat")
    labels = tuple(map(writer.label_ids, task.words))
    _check_labels(task, labels)

    names = [example.id for example in exemplars]
    content_free: dict[str, Mapping[str, Prompt]] = {}
    for kind, text in _CONTENT_FREE.items():
        content_free[kind] = {
            absent: writer.prompt([i for i, name in enumerate(names, 1) if name != absent], (text,) * len(task.fields))
            for absent in ("", *names)
        }
    parts, context, documents = written(writer, exemplars, names, query)
    whole = (parts["prompt"], *(prompts[""] for prompts in content_free.values()))
    _check_window(case.id, whole, labels, window)
    item = ExemplarItem(
        id=case.id,
        **parts,
        placebos=(),
        response=None,
        stop_ids=tokenizer.stop_ids,
        window=window,
        labels=task.words,
        label_ids=labels,
        gold=None if case.query.label is None else task.words.index(case.query.label),
        answer=None if case.query.answer is None else task.words.index(case.query.answer),
        content_free=content_free,
    )
    query_text = query[0] if len(query) == 1 else "".join(text for text, _ in written_texts(task, query)[:-1])
    return PreparedExemplars(item, context, documents, query_text, template, EXEMPLAR, 0)


def check_exemplars(case: ExemplarCase) -> None:
    if not case.exemplars:
        raise UsageError(f"case '{case.id}' has no exemplars, so there is no influence to measure")
    ids = [example.id for example in case.exemplars]
    for id_ in ids:
        check_unicode(case.id, "id of an exemplar", id_)
        # A piece without a name is the prompt as a whole.
        if not id_ or ids.count(id_) > 1:
            raise UsageError(f"case '{case.id}': id '{id_}' is used by {ids.count(id_)} exemplars; give each its own")


def _check_texts(case: ExemplarCase, task: Task) -> None:
    if len(task.words) < 2:
        label_list = ", ".join(map(repr, task.words)) or "none"
        raise UsageError(f"task '{task.name}' has only the labels {label_list}; give it two or more")
    check_exemplars(case)
    labels = (*task.words, None)
    if case.query.answer not in labels:
        raise UsageError(
            f"case '{case.id}': the answer is {case.query.answer!r}, expected one of "
            + ", ".join(map(repr, task.words))
        )
    for noun, example, allowed in (
        ("query", case.query, labels),
        *((f"exemplar '{example.id}'", example, labels[:-1]) for example in case.exemplars),
    ):
        if len(example.texts) != len(task.fields):
            raise UsageError(
                f"case '{case.id}': the {noun} has {len(example.texts)} texts, expected {len(task.fields)}: "
                + ", ".join(f"'{column}'" for column, _ in task.fields)
            )
        if not any(text.strip() for text in example.texts):
            raise UsageError(f"case '{case.id}': the {noun} is empty, so there is nothing to classify")
        for text in example.texts:
            check_unicode(case.id, noun, text)
        if example.label not in allowed:
            raise UsageError(
                f"case '{case.id}': the {noun} has label {example.label!r}, expected one of "
                + ", ".join(map(repr, task.words))
            )


def _check_labels(task: Task, labels: Sequence[tuple[int, ...]]) -> None:
    for word, ids in zip(task.words, labels, strict=True):
        if not ids:
            raise UsageError(f"the model's tokenizer knows none of the characters of label '{word}'")
    for (word, ids), (other, others) in combinations(zip(task.words, labels, strict=True), 2):
        if ids == others:
            raise UsageError(
                f"labels '{word}' and '{other}' are the same tokens to this model; give one of them another word"
            )


def _check_window(
    case_id: str, prompts: Iterable[Prompt], labels: Iterable[tuple[int, ...]], window: int | None
) -> None:
    longest = max(prompts, key=lambda prompt: len(prompt.ids))
    n_label = max(map(len, labels))
    n_tokens = len(longest.ids) + n_label
    if window is not None and n_tokens > window:
        raise WindowError(
            f"case '{case_id}' needs {n_tokens:,} tokens ({longest.n_tokens(CONTEXT):,} of exemplars, "
            f"{longest.n_tokens(QUERY):,} of its query, {n_label} of a label) and {window:,} fit the model's window; "
            "give fewer shots or shorter texts"
        )


def example(id_: str, response: str | None) -> registry.Example:
    labels = (("p", "patient"), ("c", "clinic"))
    task = Task("sender", "Say who writes.", (("text", "Note"),), "Sender", labels)
    exemplars = (
        LabelledText("first", ("the patient writes to the clinic.",), "patient"),
        LabelledText("second", ("the clinic writes back.",), "clinic"),
    )
    case = ExemplarCase(id_, exemplars, LabelledText(id_, (f"the clinic writes to {id_}.",), "clinic"))
    return registry.Example(ExemplarSettings(task), case, {"label_scoring": "whole-sequence"})
