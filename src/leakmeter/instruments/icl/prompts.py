"""A query behind its exemplars, each of which comes and goes with its headings, its label and the blank line before it.

opening           Classify the news articles …
e1                ⏎⏎Article: Wall St. Bears …⏎Answer: Business
e2                ⏎⏎Article: …⏎Answer: World
heading, query    ⏎⏎Article: Rescuing an Old Saver …
answer            ⏎Answer:

Instruction and headings are frame, texts and labels are data, and each is tokenised on its own: an exemplar has the
same tokens wherever it stands, and cutting it gives the prompt that was never given it. Only where there is no
instruction, whatever comes first has no blank line before it. The default model's tokenizer makes the same ids of the
whole text at once; those of Llama 3 and Qwen would join a full stop with the line break behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

from leakmeter.core.item import Answers, Item, Span
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY, Piece, Prompt
from leakmeter.core.tokenizer import Tokenizer
from leakmeter.data.exemplar import Example, ExemplarCase, Task
from leakmeter.errors import UnknownNameError, UsageError, WindowError
from leakmeter.text import repeats, templates
from leakmeter.text.build import Prepared, check_unicode
from leakmeter.text.layout import SEPARATOR
from leakmeter.text.templates import Segment

_TEMPLATES = ("plain", "chat")
_CONTENT_FREE = {"blank": "", "n/a": "N/A"}
"""Inputs that say nothing: blank as in Appendix B, and one of Zhao et al. 2021, whose calibration it is."""


@dataclass(frozen=True, slots=True)
class ExemplarSettings:
    """How prompts of a task are made; the formats are those of Table 2."""

    task: Task
    template: str | None = "plain"
    """plain, or chat for all of it in one user message; None for chat where the model has it. The paper does not say
    which it took."""

    def __post_init__(self) -> None:
        """Refuse another template."""
        if self.template is not None and self.template not in _TEMPLATES:
            raise UnknownNameError("template for exemplars", self.template, _TEMPLATES)


def prepare_exemplars(
    case: ExemplarCase, tokenizer: Tokenizer, settings: ExemplarSettings, *, window: int | None
) -> Prepared:
    """Tokenise a query and its exemplars; the exemplars are the spans, named e1, e2 and so on.

    Args:
        case: the texts.
        tokenizer: the model's.
        settings: task and template.
        window: most tokens a sequence may have.

    Raises:
        UsageError: no exemplars, an empty text, a label that is none of the task's, or labels that the model cannot
            tell apart.
        WindowError: exemplars, query and the longest label do not fit.
    """
    task, exemplars, query = settings.task, case.exemplars, case.query.texts
    _check_texts(case, task)
    template = settings.template or ("chat" if tokenizer.has_chat_template else "plain")
    writer = Writer(task, exemplars, tokenizer, templates.user_turn(tokenizer) if template == "chat" else ("", ""))
    labels = tuple(map(writer.label_ids, task.words))
    _check_labels(task, labels)

    numbers = {f"e{i}": i for i in range(1, len(exemplars) + 1)}

    def without(gone: Collection[str], texts: tuple[str, ...] = query) -> Prompt:
        return writer.prompt([i for name, i in numbers.items() if name not in gone], texts)

    content_free: dict[str, Mapping[str, Prompt]] = {}
    for kind, text in _CONTENT_FREE.items():
        texts = (text,) * len(task.fields)
        content_free[kind] = {name: without((name,), texts) for name in ("", *numbers)}
    prompt = without(())
    _check_window(case.id, (prompt, *(prompts[""] for prompts in content_free.values())), labels, window)
    shown = [writer.text(i) for i in numbers.values()]
    spans = spans_of(exemplars, prompt, shown)
    item = Item(
        id=case.id,
        prompt=prompt,
        spans=spans,
        cuts={name: without((name,)) for name in numbers},
        alone={name: writer.prompt((i,), query) for name, i in numbers.items()},
        blank=writer.prompt((), query),
        placebos=(),
        response=None,
        stop_ids=tokenizer.stop_ids,
        cut_together=without,
        window=window,
        answers=Answers(
            labels=task.words,
            ids=labels,
            gold=None if case.query.label is None else task.words.index(case.query.label),
            content_free=content_free,
        ),
    )
    documents = tuple((example.id, *span.ranges[0]) for example, span in zip(exemplars, spans, strict=True))
    asked = query[0] if len(query) == 1 else _joined(_segments(task, query)[:-1])
    return Prepared(item, SEPARATOR.join(shown), documents, asked, template, "exemplar", 0)


class Writer:
    """Writes the prompts of a case, with any of its exemplars and any texts in the query's place."""

    def __init__(self, task: Task, exemplars: Sequence[Example], tokenizer: Tokenizer, turn: tuple[str, str]) -> None:
        self._task = task
        self._tokenizer = tokenizer
        self._exemplars = [_segments(task, example.texts, example.label) for example in exemplars]
        before, self._after = turn
        self._opening = before + task.instruction
        ids = tokenizer.encode_frame(self._opening, first=True) if self._opening else ()
        start = tokenizer.start_ids
        # A chat template may write them itself.
        pieces = (Piece("start", FRAME, () if ids[: len(start)] == start else start), Piece("opening", FRAME, ids))
        self._frame = tuple(piece for piece in pieces if piece.ids)
        # A piece is made once, and is the same object in every prompt.
        self._exemplar_pieces: dict[tuple[int, bool], Piece] = {}
        self._query_pieces: dict[tuple[tuple[str, ...], bool], tuple[Piece, ...]] = {}

    def prompt(self, numbers: Iterable[int], texts: tuple[str, ...]) -> Prompt:
        """The prompt with these exemplars, counted from 1, and these texts to be classified."""
        opens = not self._task.instruction
        pieces = list(self._frame)
        for number in numbers:
            pieces.append(self._exemplar(number, opens))
            opens = False
        return Prompt((*pieces, *self._query(texts, opens)))

    def text(self, number: int) -> str:
        """An exemplar as people would read it."""
        return _joined(self._exemplars[number - 1])

    def label_ids(self, word: str) -> tuple[int, ...]:
        """A label as the model would write it: behind a space, unless the prompt ends in white space."""
        end = self._after or self._task.answer + ":"
        return self._tokenizer.encode_data(word if end[-1].isspace() else f" {word}", first=False).ids

    def _exemplar(self, number: int, opens: bool) -> Piece:
        key = (number, opens)
        if key not in self._exemplar_pieces:
            ids = [token for part in self._ids(self._exemplars[number - 1], opens) for token in part]
            self._exemplar_pieces[key] = Piece(f"e{number}", CONTEXT, tuple(ids))
        return self._exemplar_pieces[key]

    def _query(self, texts: tuple[str, ...], opens: bool) -> tuple[Piece, ...]:
        key = (texts, opens)
        if key not in self._query_pieces:
            segments = _segments(self._task, texts, after=self._after)
            names = ["query" if segment.role == QUERY else "heading" for segment in segments[:-1]] + ["answer"]
            self._query_pieces[key] = tuple(
                Piece(name, segment.role, ids)
                for name, segment, ids in zip(names, segments, self._ids(segments, opens), strict=True)
            )
        return self._query_pieces[key]

    def _ids(self, segments: Sequence[Segment], opens: bool) -> Iterator[tuple[int, ...]]:
        """Token ids of each segment of an exemplar or query, which opens the text or stands behind a blank line."""
        for i, segment in enumerate(segments):
            lead = SEPARATOR if i == 0 and not opens else ""
            first = i == 0 and opens and not self._opening
            if segment.role == QUERY:
                yield self._tokenizer.encode_data(segment.text, first=first).ids
            else:
                yield self._tokenizer.encode_frame(lead + segment.text, first=first)


def _segments(task: Task, texts: Sequence[str], label: str | None = None, *, after: str = "") -> tuple[Segment, ...]:
    """An exemplar, or a query without a label, in the order that the model reads it; texts and labels as QUERY."""
    out: list[Segment] = []
    for (_, heading), text in zip(task.fields, texts, strict=True):
        out.append(Segment(FRAME, f"\n{heading}:" if out else f"{heading}:"))
        if text:
            # Most tokenizers write a space as part of the word after it: without a text it is not there either.
            out.append(Segment(QUERY, f" {text}"))
    line = "\n" if out else ""
    out.append(Segment(FRAME, f"{line}{task.answer}:{after}"))
    if label is not None:
        out.append(Segment(QUERY, f" {label}"))
    return tuple(out)


def _joined(segments: Iterable[Segment]) -> str:
    return "".join(segment.text for segment in segments)


def spans_of(exemplars: Sequence[Example], prompt: Prompt, shown: Sequence[str]) -> tuple[Span, ...]:
    """The exemplars as spans of a prompt that has them all, and of their texts as shown, joined by blank lines."""
    sizes = {piece.name: len(piece.ids) for piece in prompt.pieces if piece.role == CONTEXT}
    ends = list(accumulate(shown, lambda end, text: end + len(SEPARATOR) + len(text), initial=-len(SEPARATOR)))[1:]
    return tuple(
        Span(
            name=name,
            kind="unit",
            ranges=((end - len(text), end),),
            pieces=(name,),
            document=example.id,
            n_tokens=size,
            repeats=tuple(f"e{i + 1}" for i in others),
        )
        for (name, size), example, text, end, others in zip(
            sizes.items(), exemplars, shown, ends, _repeats(exemplars), strict=True
        )
    )


def _repeats(exemplars: Sequence[Example]) -> list[list[int]]:
    """For each exemplar, by number from 0, the others that say a value which it says, or the very same texts."""
    texts = ["\n".join(example.texts) for example in exemplars]
    starts = list(accumulate((len(text) + len(SEPARATOR) for text in texts[:-1]), initial=0))
    groups = [
        {bisect_right(starts, start) - 1 for start, _ in value.mentions}
        for value in repeats.find(SEPARATOR.join(texts))
    ]
    said = [example.compared for example in exemplars]
    groups += [{i for i, other in enumerate(said) if other == one} for one in dict.fromkeys(said)]
    return [sorted({i for group in groups if n in group for i in group} - {n}) for n in range(len(texts))]


def _check_texts(case: ExemplarCase, task: Task) -> None:
    if len(task.words) < 2:
        given = ", ".join(map(repr, task.words)) or "none"
        raise UsageError(f"task '{task.name}' leaves no choice, its labels being {given}; give it two or more")
    if not case.exemplars:
        raise UsageError(f"case '{case.id}' has no exemplars; there is nothing whose influence could be measured")
    labels = (*task.words, None)
    for what, example, allowed in (
        ("query", case.query, labels),
        *((f"exemplar '{example.id}'", example, labels[:-1]) for example in case.exemplars),
    ):
        if len(example.texts) != len(task.fields):
            raise UsageError(
                f"case '{case.id}': the {what} has {len(example.texts)} texts, expected {len(task.fields)}: "
                + ", ".join(f"'{column}'" for column, _ in task.fields)
            )
        if not any(text.strip() for text in example.texts):
            raise UsageError(f"case '{case.id}': the {what} is empty; there is nothing to classify")
        for text in example.texts:
            check_unicode(case.id, what, text)
        if example.label not in allowed:
            raise UsageError(
                f"case '{case.id}': the {what} has label {example.label!r}, expected one of "
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
