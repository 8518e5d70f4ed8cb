"""Prompts of labelled exemplars and a query: each exemplar comes and goes with its headings, its label and the blank
line before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from leakmeter.core.item import Span
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY, Piece, Prompt
from leakmeter.core.tokenizer import Tokenizer
from leakmeter.text import repeats
from leakmeter.text.exemplar import Example, Task
from leakmeter.text.layout import SEPARATOR
from leakmeter.text.templates import Segment


class Writer:
    """Writes the prompts of a case, with any of its exemplars and any texts in the query's place."""

    def __init__(self, task: Task, exemplars: Sequence[Example], tokenizer: Tokenizer, turn: tuple[str, str]) -> None:
        self._task = task
        self._tokenizer = tokenizer
        self._exemplars = [segments(task, example.texts, example.label) for example in exemplars]
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
        return joined(self._exemplars[number - 1])

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
            parts = segments(self._task, texts, after=self._after)
            names = ["query" if segment.role == QUERY else "heading" for segment in parts[:-1]] + ["answer"]
            self._query_pieces[key] = tuple(
                Piece(name, segment.role, ids)
                for name, segment, ids in zip(names, parts, self._ids(parts, opens), strict=True)
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


def segments(task: Task, texts: Sequence[str], label: str | None = None, *, after: str = "") -> tuple[Segment, ...]:
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


def joined(segments: Iterable[Segment]) -> str:
    """The text of segments."""
    return "".join(segment.text for segment in segments)


def spans_of(
    exemplars: Sequence[Example], names: Sequence[str], prompt: Prompt, shown: Sequence[str]
) -> tuple[Span, ...]:
    """The exemplars as spans, so named, of a prompt that has them all, and of their texts as shown, joined by blank
    lines.
    """
    pieces = [piece for piece in prompt.pieces if piece.role == CONTEXT]
    ends = list(accumulate(shown, lambda end, text: end + len(SEPARATOR) + len(text), initial=-len(SEPARATOR)))[1:]
    return tuple(
        Span(
            name=name,
            kind="unit",
            ranges=((end - len(text), end),),
            pieces=(piece.name,),
            document=example.id,
            n_tokens=len(piece.ids),
            repeats=tuple(names[i] for i in others),
        )
        for name, piece, example, text, end, others in zip(
            names, pieces, exemplars, shown, ends, _repeats(exemplars), strict=True
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
