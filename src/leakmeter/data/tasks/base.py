"""What a task is beside its prompt: where its records are published, and which of their columns say what.

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
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leakmeter.core.files import read_text
from leakmeter.data.records import Fields, load_records, records_of_hub
from leakmeter.data.text import checked_text
from leakmeter.errors import DataError, UsageError
from leakmeter.text.exemplar import Example, Task

Split = Literal["train", "test"]
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_LONGEST_NAME = 40
_MOST_SPACES = 3
_ANSWER = "response"
"""Column of the label that was answered to a query."""
_KEYS = ("name", "instruction", "answer", "label_column", "fields", "labels")


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

    def load(self, path: str | None, split: Split, *, labelled: bool = True) -> list[Example]:
        """Records, in the order of the file.

        Args:
            path: a JSON, JSON lines, CSV or Parquet file; None to take them from the hub, through the `datasets`
                library.
            split: train for exemplars, test for queries.
            labelled: whether every record needs a label; if not, one without it, or without the column, has none, and
                the column `response` may say which label was answered.

        Raises:
            DataError: no such file, the hub cannot be reached, a record that lacks a column, or an unknown label.
            UsageError: a user's own task without a file.
        """
        if path is not None:
            return self.examples(load_records(path), f"'{path}'", labelled=labelled)
        if self.hub is None:
            raise UsageError(f"task '{self.task.name}' is published nowhere; give a file of its {split} records")
        name = self.task.name if split == "test" else f"{self.task.name}.{split}"
        rows = records_of_hub(name, self.hub.repository, self.hub.subset, split)
        return self.examples(rows, f"{self.hub.repository} ({split})", labelled=labelled)

    def examples(self, records: Iterable[Fields], source: str, *, labelled: bool = True) -> list[Example]:
        """Records that are at hand, in order.

        Args:
            records: values by column, whose name may be in any case.
            source: where they stand, for errors.
            labelled: as for `load`.

        Raises:
            DataError: no record, one that lacks a column, or an unknown label.
        """
        words = [self._words(column) for column in self.labels]
        examples: list[Example] = []
        seen: set[str] = set()
        for number, record in enumerate(records):
            where = f"{source}, record {number + 1}"
            fields = {name.lower(): value for name, value in record.items()}
            given = fields.get("id")
            id_ = ("" if given is None else str(given).strip()) or f"record {number + 1}"
            if id_ in seen:
                raise DataError(f"{source}: id {_shown(id_)} stands for two of the records; make ids unique")
            seen.add(id_)
            label = self._label(fields, words, labelled, where)
            answer = None if labelled else self._answer(fields, words, where)
            examples.append(Example(id_, self._texts(fields, where), label, answer))
        if not examples:
            raise DataError(f"{source}: there is no record")
        return examples

    def _texts(self, fields: Fields, where: str) -> tuple[str, ...]:
        out = []
        for choices in self.texts:
            columns = next((choice for choice in choices if all(name in fields for name in choice)), None)
            if columns is None:
                raise _missing(fields, [" with ".join(map(repr, choice)) for choice in choices], where)
            parts = (checked_text(fields[name], name, where) for name in columns)
            out.append(" ".join(part for part in parts if part))
        if not any(text.strip() for text in out):
            raise DataError(f"{where} has no text; what there is to classify is empty")
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
            raise _missing(fields, [repr(column.name) for column in self.labels], where)
        return None

    def _answer(self, fields: Fields, words_of_columns: Sequence[Mapping[str, str]], where: str) -> str | None:
        columns = [*(column.name for column in self.labels), *(name for name, _ in self.task.fields)]
        text = "" if _ANSWER in columns else _text_of_label(fields.get(_ANSWER))
        return self._word(text, LabelColumn(_ANSWER), words_of_columns[0], where) if text else None

    def _word(self, text: str, column: LabelColumn, words: Mapping[str, str], where: str) -> str:
        """The prompt's word for what a column says."""
        for form in (text, text.casefold(), _without_fraction(text)):
            if form in words:
                return words[form]
        known = [repr(name) for name, _ in self.task.labels]
        if column.order:
            known.append(f"a number from {column.first} to {column.first + len(column.order) - 1}")
        raise DataError(
            f"{where}: '{column.name}' is {_shown(text) if text else 'empty'}, expected one of {', '.join(known)}"
        )


def _text_of_label(value: object) -> str:
    return "" if value is None else str(value).strip()


def _without_fraction(text: str) -> str:
    """A number that passed through a table of floats has a fraction of nothing."""
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _missing(fields: Fields, expected: Sequence[str], where: str) -> DataError:
    has = f"it has {', '.join(map(repr, fields)) or 'nothing'}"
    if any(len(name) > _LONGEST_NAME or name.count(" ") > _MOST_SPACES for name in fields):
        # What stands there is a text then, and is not repeated.
        has = "the first line of the file does not look like a heading"
    return DataError(f"{where} has no column {' or '.join(expected)}; {has}")


def _shown(text: str) -> str:
    """A text for an error: on one line, and no more of it than is needed to find it."""
    return repr(text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…")


def read_own(path: Path) -> TaskData:
    """A task from a TOML file; without a `name` it has the file's.

    Raises:
        DataError: it cannot be read, lacks something, or says something that is not understood.
    """
    where = f"task file '{path}'"
    try:
        given = tomllib.loads(read_text(path, "task file"))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is not TOML: {error}") from None
    return task_of({"name": path.stem, **given}, where)


def task_of(given: Fields, where: str) -> TaskData:
    """A task from what such a file says.

    Raises:
        DataError: something is missing, or not understood.
    """
    for key in given:
        if key not in _KEYS:
            raise DataError(f"{where}: unknown key '{key}'; known: {', '.join(_KEYS)}")
    for key, example in (("fields", '[fields] and lines COLUMN = "Heading"'), ("labels", 'labels = ["One", "Two"]')):
        if not given.get(key):
            raise DataError(f"{where} has no '{key}', or none in it; expected some, such as {example}")
    fields = tuple((name.lower(), heading) for name, heading in _pairs(given["fields"], "fields", where))
    if isinstance(given["labels"], list | tuple):
        words = [_word(word, "labels", where) for word in given["labels"]]
        labels = list(zip(words, words, strict=True))
    else:
        labels = _pairs(given["labels"], "labels", where)
    task = Task(
        name=_word(given.get("name", "own"), "name", where),
        instruction=checked_text(given.get("instruction", ""), "instruction", where).strip(),
        fields=fields,
        answer=_word(given.get("answer", "Answer"), "answer", where),
        labels=tuple(labels),
        label_column=_word(given.get("label_column", "label"), "label_column", where).lower(),
    )
    _refuse_doubles([*(name for name, _ in fields), task.label_column], "column", where)
    _refuse_doubles([name.casefold() for name, _ in task.labels], "label", where)
    return TaskData(task, tuple(((name,),) for name, _ in fields), (LabelColumn(task.label_column),))


def task_of_columns(
    records: Iterable[Fields], text: str, label: str, instruction: str | None, *, source: str
) -> TaskData:
    """The task of data with one column of texts and one of labels, which are those that occur, in their order.

    The prompt's headings are the columns' names. Labels that differ in case alone are one.

    Args:
        records: values by column.
        text: the column of texts.
        label: that of labels; a record without any is passed over.
        instruction: the prompt's first lines; None to list the labels.
        source: where the records stand, for errors.

    Raises:
        DataError: no label, or columns that cannot be told apart.
    """
    column = _word(label, "label column", source).lower()
    words: dict[str, str] = {}
    for record in records:
        fields = {name.lower(): value for name, value in record.items()}
        if found := _without_fraction(_text_of_label(fields.get(column))):
            words.setdefault(found.casefold(), found)
    if not words:
        fields = {name: value for record in records for name, value in record.items()}
        raise _missing(fields, [repr(label)], source)
    *others, last = words.values()
    listed = f"{', '.join(others)}{',' if len(others) > 1 else ''} or {last}" if others else last
    given = {
        "name": column,
        "instruction": f"Classify each text as {listed}." if instruction is None else instruction,
        "fields": {text: _heading(text)},
        "answer": _heading(label),
        "labels": list(words.values()),
        "label_column": label,
    }
    return task_of(given, source)


def _heading(column: str) -> str:
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


def _refuse_doubles(names: Iterable[str], what: str, where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{where}: {what} '{name}' is named twice; each has one use, whatever its case")
        seen.add(name)
