"""Classification tasks: the paper's three by name, one module each with a `TASK`, and a user's own from a TOML file.

A task says, beside its prompt, where its records are published and which of their columns say what.

A user's own is a TOML file that says what the prompt says and what the data call it:

    name = "tickets"
    instruction = "Classify the tickets by whom they are for."
    answer = "For"
    label_column = "team"

    [fields]
    body = "Ticket"

    [labels]
    1 = "Billing"
    2 = "Repairs"

A table `[fields]` names each column and its heading, `[labels]` what the data call a label and what the prompt calls
it; `labels = ["Billing", "Repairs"]` where that is the same. White space around the instruction, the headings and the
labels is left out; the texts of the data are kept as they are. Of data with one column of texts and one of labels,
`task_of_columns` makes a task without a file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.folder import module_in, names_in
from leakmeter.data.foreign import fields_of
from leakmeter.data.mapping import Fields, checked_text
from leakmeter.data.records import records_of_hub
from leakmeter.data.rows import read_rows
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.text.exemplars import LabelledText, Task

Split = Literal["train", "test"]
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_LONGEST_NAME = 40
_MOST_SPACES = 3
_ANSWER = "response"
"""Column of the label that was answered to a query."""
_KEYS = ("name", "instruction", "answer", "label_column", "fields", "labels")


class TaskRecord(NamedTuple):
    id: str
    """Its own, or its place in the data: all that it is called by."""
    fields: Fields
    """Values by column, in lower case."""
    where: str


def read_examples(
    data: Any,
    source: str | None,
    *,
    mapping: Mapping[str, str] | None = None,
    needed: Collection[str] = (),
    text_field: str | None = None,
) -> Iterator[TaskRecord]:
    """Records of exemplars or queries, of what `data.rows.read_rows` reads, in order; no two have one id. Columns that
    are not `needed` are mapped where they are there; `text_field` is the column of a record that is a text."""
    seen: set[str] = set()
    for row in read_rows(data, mapping=mapping, text_field=text_field):
        # A text is the column itself.
        held, paths = fields_of(row.content) or {}, {} if isinstance(row.content, str) else row.mapping or {}
        names = {
            name: path
            for name, path in paths.items()
            if not path or name in needed or path in held or re.split(r"[.\[]", path)[0] in held
        }
        fields = {name.lower(): value for name, value in replace(row, mapping=names).fields.items()}
        place = row.place or "record 1"
        where = row.where if source is None else f"{source}, {place}"
        own_id = fields.get("id")
        id_ = ("" if own_id is None else str(own_id).strip()) or place
        if id_ in seen:
            raise DataError(f"{where}: id {_shown(id_)} is used by two records; make ids unique")
        seen.add(id_)
        yield TaskRecord(id_, fields, where)
    if not seen:
        name = f"'{data}'" if isinstance(data, str | Path) else "the data"
        raise DataError(f"{source or name}: it has no record")


@dataclass(frozen=True, slots=True)
class Hub:
    """Where records are published, in splits of the names in `Split`."""

    repository: str
    subset: str


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """A column that may hold the labels: by name, and by number where the numbers are known."""

    name: str
    order: tuple[str, ...] = ()
    """What the data call the labels, in the order of their numbers; empty where a number means nothing."""
    first: int = 0
    """The first of the numbers."""


@dataclass(frozen=True, slots=True)
class TaskData:
    """A task, and how its records are read; names of columns in lower case."""

    task: Task
    texts: tuple[tuple[tuple[str, ...], ...], ...]
    """For each field of the task the columns it may stand in: the first choice of which all are there, joined by a
    space, without those that are empty. What stands in a column is kept as given, white space around it too."""
    labels: tuple[LabelColumn, ...]
    """Columns the label may stand in; the first that is there."""
    synonyms: tuple[tuple[str, str], ...] = ()
    """Further names that data have for a label, and the prompt's word for it."""
    hub: Hub | None = None
    """None for a user's own task."""

    @property
    def columns(self) -> tuple[str, ...]:
        texts = (name for choices in self.texts for choice in choices for name in choice)
        return ("id", *dict.fromkeys((*texts, *(column.name for column in self.labels))), _ANSWER)

    def load(
        self,
        path: str | None,
        split: Split,
        *,
        labelled: bool = True,
        answered: bool = False,
        mapping: Mapping[str, str] | None = None,
    ) -> list[LabelledText]:
        """Records, in the order of the file; without a path from the hub, through the `datasets` library: train for
        exemplars, test for queries. All else is as for `examples`."""
        if path is not None:
            return self.examples(path, labelled=labelled, answered=answered, mapping=mapping)
        if self.hub is None:
            raise UsageError(f"task '{self.task.name}' is not published; give a file of its {split} records")
        name = self.task.name if split == "test" else f"{self.task.name}.{split}"
        rows = records_of_hub(name, self.hub.repository, self.hub.subset, split)
        return self.examples(rows, f"{self.hub.repository} ({split})", labelled=labelled)

    def examples(
        self,
        data: Any,
        source: str | None = None,
        *,
        labelled: bool = True,
        answered: bool = False,
        mapping: Mapping[str, str] | None = None,
    ) -> list[LabelledText]:
        """Records of anything that `data.rows.read_rows` reads, in order; columns may be named in any case. Unless
        `labelled`, a record without a label, or without the column, has none. `answered`: the column `response` says
        which label was answered, where there is such a column. `mapping` says at which paths columns stand; of what is
        not needed, where it is there."""
        words = [self._words(column) for column in self.labels]
        columns = [name for choices in self.texts for choice in choices for name in choice]
        alone = columns[0] if len(columns) == 1 and not labelled else None
        needed = {*columns, *(column.name for column in self.labels if labelled)}
        examples: list[LabelledText] = []
        for record in read_examples(data, source, mapping=mapping, needed=needed, text_field=alone):
            label = self._label(record.fields, words, labelled, record.where)
            answer = self._answer(record.fields, words, record.where) if answered else None
            examples.append(LabelledText(record.id, self._texts(record.fields, record.where), label, answer))
        return examples

    def _texts(self, fields: Fields, where: str) -> tuple[str, ...]:
        out = []
        for choices in self.texts:
            columns = next((choice for choice in choices if all(name in fields for name in choice)), None)
            if columns is None:
                raise missing_column(fields, [" with ".join(map(repr, choice)) for choice in choices], where)
            parts = (checked_text(fields[name], name, where) for name in columns)
            out.append(" ".join(part for part in parts if part))
        if not any(text.strip() for text in out):
            raise DataError(f"{where} has no text to classify")
        return tuple(out)

    def _words(self, column: LabelColumn) -> dict[str, str]:
        """The prompt's word for each way a column may say a label; names also in lower case."""
        pairs = [*self.task.labels, *((word, word) for word in self.task.words), *self.synonyms]
        words: dict[str, str] = {}
        for name, word in (*pairs, *((name.casefold(), word) for name, word in pairs)):
            words.setdefault(name, word)
        for number, name in enumerate(column.order, column.first):
            words.setdefault(str(number), words[name])
        return words

    def _label(
        self, fields: Fields, words_of_columns: Sequence[Mapping[str, str]], labelled: bool, where: str
    ) -> str | None:
        for column, words in zip(self.labels, words_of_columns, strict=True):
            if column.name not in fields:
                continue
            text = _text_of_label(fields[column.name])
            return self._word(text, column, words, where) if text or labelled else None
        if labelled:
            raise missing_column(fields, [repr(column.name) for column in self.labels], where)
        return None

    def _answer(self, fields: Fields, words_of_columns: Sequence[Mapping[str, str]], where: str) -> str | None:
        columns = [*(column.name for column in self.labels), *(name for name, _ in self.task.fields)]
        text = "" if _ANSWER in columns else _text_of_label(fields.get(_ANSWER))
        return self._word(text, LabelColumn(_ANSWER), words_of_columns[0], where) if text else None

    def _word(self, text: str, column: LabelColumn, words: Mapping[str, str], where: str) -> str:
        for form in (text, text.casefold(), _without_fraction(text)):
            if form in words:
                return words[form]
        expected = [repr(name) for name, _ in self.task.labels]
        if column.order:
            expected.append(f"a number from {column.first} to {column.first + len(column.order) - 1}")
        raise DataError(
            f"{where}: '{column.name}' is {_shown(text) if text else 'empty'}, expected one of {', '.join(expected)}"
        )


def _text_of_label(value: object) -> str:
    return "" if value is None else str(value).strip()


def _without_fraction(text: str) -> str:
    """A number that passed through a table of floats has a fraction of nothing."""
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def missing_column(fields: Fields, expected: Sequence[str], where: str) -> DataError:
    """What to raise where a record has none of some columns."""
    has = f"it has {', '.join(map(repr, fields)) or 'nothing'}"
    if any(len(name) > _LONGEST_NAME or name.count(" ") > _MOST_SPACES for name in fields):
        # What stands there is a text then, and is not repeated.
        has = "the first line of the file does not look like a heading"
    return DataError(f"{where} has no column {' or '.join(expected)}; {has}")


def _shown(text: str) -> str:
    """A text for an error: on one line, and no more of it than is needed to find it."""
    return repr(text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…")


def task_of(table: Fields, where: str) -> TaskData:
    for key in table:
        if key not in _KEYS:
            raise DataError(f"{where}: unknown key {_shown(key)}; known: {', '.join(_KEYS)}")
    for key, example in (("fields", '[fields] and lines COLUMN = "Heading"'), ("labels", 'labels = ["One", "Two"]')):
        if not table.get(key):
            raise DataError(f"{where} has no '{key}', or an empty one; expected, for example, {example}")
    fields = tuple((name.lower(), heading) for name, heading in _pairs(table["fields"], "fields", where))
    if isinstance(table["labels"], list | tuple):
        words = [_word(word, "labels", where) for word in table["labels"]]
        labels = list(zip(words, words, strict=True))
    else:
        labels = _pairs(table["labels"], "labels", where)
    task = Task(
        name=_word(table.get("name", "own"), "name", where),
        instruction=checked_text(table.get("instruction", ""), "instruction", where).strip(),
        fields=fields,
        answer=_word(table.get("answer", "Answer"), "answer", where),
        labels=tuple(labels),
        label_column=_word(table.get("label_column", "label"), "label_column", where).lower(),
    )
    _refuse_doubles([*(name for name, _ in fields), task.label_column], "column", where)
    _refuse_doubles([name.casefold() for name, _ in task.labels], "label", where)
    return TaskData(task, tuple(((name,),) for name, _ in fields), (LabelColumn(task.label_column),))


def task_of_columns(
    sources: Sequence[Any],
    *,
    text: str = "text",
    label: str = "label",
    instruction: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> TaskData:
    """The task of data with one column of texts and one of labels, which are those that occur, in their order. The
    prompt's headings are the columns' names. Labels that differ in case alone are one. Sources are read twice, the
    labelled examples first; a record without any label is passed over. Without an instruction the labels are listed."""
    column = _word(label, "label column", "the options").lower()
    words: dict[str, str] = {}
    for number, source in enumerate(sources):
        for _, fields, where in read_examples(source, None, mapping=mapping, text_field=text):
            for name in (column, text.lower()) if number == 0 else ():
                if name not in fields:
                    hint = "name the columns of texts and labels (--text-column, --label-column)"
                    raise DataError(f"{missing_column(fields, [repr(name)], where)}; {hint}")
            if label_text := _without_fraction(_text_of_label(fields.get(column))):
                words.setdefault(label_text.casefold(), label_text)
    *others, last = words.values() or ("",)
    listed = f"{', '.join(others)}{',' if len(others) > 1 else ''} or {last}" if others else last
    definition = {
        "name": column,
        "instruction": f"Classify each text as {listed}." if instruction is None else instruction,
        "fields": {text: heading_of(text)},
        "answer": heading_of(label),
        "labels": list(words.values()),
        "label_column": label,
    }
    return task_of(definition, "the options")


def heading_of(column: str) -> str:
    """A column's name for people: 'user_input' to 'User input'."""
    words = " ".join(column.replace("_", " ").split())
    return words[:1].upper() + words[1:]


def _pairs(value: Any, key: str, where: str) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: '{key}' has to be a table of names and words")
    return [(_word(name, key, where), _word(words, f"{key}.{name}", where)) for name, words in value.items()]


def _word(value: Any, key: str, where: str) -> str:
    text = checked_text(value, key, where).strip()
    if not text or "\n" in text:
        raise DataError(f"{where}: '{key}' has to be a word or a few on one line")
    return text


def _refuse_doubles(names: Iterable[str], noun: str, where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{where}: {noun} '{name}' is named twice; names must differ in more than case")
        seen.add(name)


def names() -> list[str]:
    return names_in(sys.modules[__name__])


def find(name: str) -> TaskData:
    if name not in names():
        raise UnknownNameError("task", name, names())
    task: TaskData = module_in(sys.modules[__name__], name).TASK
    return task


def load_task(source: str) -> TaskData:
    """A published task by its name, or a user's own from a file whose path ends in '.toml'."""
    if source.lower().endswith(".toml"):
        path = Path(source)
        where = f"task file '{path}'"
        return task_of({"name": path.stem, **parsed_toml(read_text(path, "task file"), where)}, where)
    return find(source)
