"""A user's own task: a TOML file that says what the prompt says and what the data call it.

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
labels is left out; the texts of the data are kept as they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from leakmeter.core.files import read_text
from leakmeter.data.records import Fields
from leakmeter.data.tasks.base import LabelColumn, TaskData
from leakmeter.data.text import checked_text
from leakmeter.errors import DataError
from leakmeter.text.exemplar import Task

_KEYS = ("name", "instruction", "answer", "label_column", "fields", "labels")


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

    Args:
        given: keys and values of the file.
        where: they stand, for errors.

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
