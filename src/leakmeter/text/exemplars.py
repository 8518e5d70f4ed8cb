"""Labelled texts, and prompts of them and a query: each exemplar comes and goes with its headings, its label and the
blank line before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Final

from leakmeter.core.backend import Tokenizer
from leakmeter.core.item import Span
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY, Piece, Prompt
from leakmeter.core.record import JsonObject
from leakmeter.text import repeats
from leakmeter.text.joined import START, TextStretch, prompt_of
from leakmeter.text.templates import user_turn
from leakmeter.text.turns import SEPARATOR

EXEMPLAR: Final = "exemplar"
"""Ablation unit of prompts with exemplars."""


@dataclass(frozen=True, slots=True)
class Task:
    """A classification task: what its prompt says, and how its data are read."""

    name: str
    instruction: str
    """The prompt's first lines; may be empty."""
    fields: tuple[tuple[str, str], ...]
    """Of each input its column in the data and its heading in the prompt, such as ('text', 'Article')."""
    answer: str
    """Heading of the label in the prompt, such as 'Answer'."""
    labels: tuple[tuple[str, str], ...]
    """Of each label what the data call it and what the prompt calls it, such as ('ABBR', 'Abbreviation')."""
    label_column: str = "label"

    @property
    def words(self) -> tuple[str, ...]:
        """The labels as the prompt has them, each once, in order."""
        return tuple(dict.fromkeys(word for _, word in self.labels))


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text with its label."""

    id: str
    """What it is called everywhere."""
    texts: tuple[str, ...]
    """One for each field of the task, in order, as given: white space around a text is part of it."""
    label: str | None
    """A word of the task; None for a query whose label is not known."""
    answer: str | None = None
    """Of a query: the label that was answered, a word of the task; None where that is not known."""

    @property
    def compared(self) -> tuple[str, ...]:
        """The texts without white space around them: two examples for which it is equal say the same."""
        return tuple(text.strip() for text in self.texts)


@dataclass(frozen=True, slots=True)
class ExemplarCase:
    """A query, and the exemplars that stand before it in order, no two of one id."""

    id: str
    exemplars: tuple[LabelledText, ...]
    query: LabelledText

    def record(self) -> JsonObject:
        """All of it, but for an answer that is not known."""
        return asdict(self, dict_factory=lambda pairs: {k: v for k, v in pairs if (k, v) != ("answer", None)})


class Writer:
    """Writes the prompts of a case, with any of its exemplars and any texts in the query's place."""

    def __init__(self, task: Task, exemplars: Sequence[LabelledText], tokenizer: Tokenizer, *, chat: bool) -> None:
        self._task = task
        self._tokenizer = tokenizer
        self._chat = chat
        self._exemplars = [written_texts(task, example.texts, example.label) for example in exemplars]
        _, self._after = user_turn(tokenizer) if chat else ("", "")

    def prompt(self, numbers: Iterable[int], texts: tuple[str, ...]) -> Prompt:
        """The prompt with these exemplars, counted from 1, and these texts to be classified."""
        stretches = [TextStretch("opening", FRAME, self._task.instruction, True)]
        # A blank line stands before all but what opens the text.
        before = SEPARATOR if self._task.instruction else ""
        for number in numbers:
            for text, is_template in self._exemplars[number - 1]:
                stretches.append(TextStretch(f"e{number}", CONTEXT, before + text, is_template))
                before = ""
            before = SEPARATOR
        *inputs, (answer, _) = written_texts(self._task, texts)
        for text, is_template in inputs:
            name, role = ("heading", FRAME) if is_template else ("query", QUERY)
            stretches.append(TextStretch(name, role, before + text, is_template))
            before = ""
        stretches.append(TextStretch("answer", FRAME, before + answer, True))
        return prompt_of(stretches, self._tokenizer, chat=self._chat)

    def prompt_around(self, piece: Piece, texts: tuple[str, ...]) -> Prompt:
        bare = self.prompt((), texts)
        at = next(i for i, bare_piece in enumerate(bare.pieces) if bare_piece.name not in (START, "opening"))
        return bare.with_inserted(at, piece)

    def text(self, number: int) -> str:
        return "".join(text for text, _ in self._exemplars[number - 1])

    def label_ids(self, word: str) -> tuple[int, ...]:
        """A label as the model would write it: behind a space, unless the prompt ends in white space."""
        end = self._after or self._task.answer + ":"
        return self._tokenizer.encode_data(word if end[-1].isspace() else f" {word}", first=False).ids


def written(
    writer: Writer, exemplars: Sequence[LabelledText], names: Sequence[str], texts: tuple[str, ...]
) -> tuple[dict[str, Any], str, tuple[tuple[str, int, int], ...]]:
    """A case whose exemplars, the spans, come and go: what its `ContextItem` has of them, the exemplars as people would
    read them, joined by blank lines, and the id and characters of each."""
    numbers = {name: i for i, name in enumerate(names, 1)}

    def without(absent: Collection[str]) -> Prompt:
        return writer.prompt([i for name, i in numbers.items() if name not in absent], texts)

    prompt, shown = without(()), [writer.text(i) for i in numbers.values()]
    pieces = [piece for piece in prompt.pieces if piece.role == CONTEXT]
    ends = list(accumulate(shown, lambda end, text: end + len(SEPARATOR) + len(text), initial=-len(SEPARATOR)))[1:]
    spans = tuple(
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
    parts = {
        "prompt": prompt,
        "spans": spans,
        "cuts": {name: without((name,)) for name in names},
        "alone": {name: writer.prompt((i,), texts) for name, i in numbers.items()},
        "blank": writer.prompt((), texts),
        "cut_together": without,
    }
    documents = tuple((example.id, *span.ranges[0]) for example, span in zip(exemplars, spans, strict=True))
    return parts, SEPARATOR.join(shown), documents


def written_texts(task: Task, texts: Sequence[str], label: str | None = None) -> list[tuple[str, bool]]:
    """An exemplar, or a query without a label, as the model reads it, and whether each text is the template's."""
    out: list[tuple[str, bool]] = []
    for (_, heading), text in zip(task.fields, texts, strict=True):
        out.append((f"\n{heading}:" if out else f"{heading}:", True))
        if text:
            # Most tokenizers write a space as part of the word after it: without a text it is not there either.
            out.append((f" {text}", False))
    out.append((f"\n{task.answer}:" if out else f"{task.answer}:", True))
    if label is not None:
        out.append((f" {label}", False))
    return out


def _repeats(exemplars: Sequence[LabelledText]) -> list[list[int]]:
    """For each exemplar, by number from 0, the others that say a value which it says, or the very same texts."""
    texts = ["\n".join(example.texts) for example in exemplars]
    starts = list(accumulate((len(text) + len(SEPARATOR) for text in texts[:-1]), initial=0))
    groups = [
        {bisect_right(starts, start) - 1 for start, _ in value.mentions}
        for value in repeats.find(SEPARATOR.join(texts))
    ]
    compared = [example.compared for example in exemplars]
    groups += [{i for i, other in enumerate(compared) if other == distinct} for distinct in dict.fromkeys(compared)]
    return [sorted({i for group in groups if n in group for i in group} - {n}) for n in range(len(texts))]
