"""Exemplars and queries as a user has them: a published task, a task file, or the columns of any table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from leakmeter.commands.options import RowOptions, Text
from leakmeter.core.files import sample_path
from leakmeter.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from leakmeter.data.rows import Row
    from leakmeter.data.tasks.base import Split, TaskData
    from leakmeter.text.exemplar import Example

InputFile = Annotated[Path, Parameter(allow_leading_hyphen=True)]
"""A file, or '-' for standard input."""
SAMPLE: Final = "tickets"
"""The task whose texts ship with the package."""


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class TaskOptions(RowOptions):
    """What the prompt says, and which columns of the data say what."""

    task: str | None = None
    """Task: agnews, dbpedia14, trec, a file NAME.toml that describes your own, or tickets (the invented sample).
    Without a task, the columns of the data define it."""
    text_column: str | None = None
    """Without a task: column of the texts, 'text' by default; its name is their heading in the prompt."""
    label_column: str | None = None
    """Without a task: column of the labels, 'label' by default; the labels are those that occur in it."""
    instruction: Text | None = None
    """Without a task: first lines of the prompt; by default they list the labels."""


class Sources:
    """A task, and the exemplars, pool and queries, files or tables of examples, that were given for it.

    `task` is in the place of the one that `options` names, `map` of its mapping.
    """

    def __init__(
        self,
        options: TaskOptions,
        *,
        exemplars: Any,
        pool: Any,
        queries: Any,
        task: TaskData | None = None,
        map: str | Mapping[str, str] | None = None,
    ) -> None:
        from leakmeter.data import tasks
        from leakmeter.data.mapping import mapping_of
        from leakmeter.data.rows import read_rows, with_class_names

        names = options.map if map is None else map
        by_column = any(
            column is not None for column in (options.text_column, options.label_column, options.instruction)
        )
        has_task = task is not None or options.task is not None
        # Standard input and iterators can be read once.
        self._rows: list[tuple[Any, list[Row]]] = []
        for name, source in (("exemplars", exemplars), ("pool", pool), ("queries", queries)):
            if source is not None:
                # A task says what numbers of classes mean.
                rows = list(read_rows(source if has_task else with_class_names(source)))
                if not isinstance(source, str | Path):
                    rows = [replace(row, source=name) for row in rows]
                self._rows.append((source, rows))
        self._is_sample = False
        if has_task:
            if by_column:
                raise UsageError(
                    "a task defines its columns and instruction; leave out either the task, or text-column, "
                    "label-column and instruction"
                )
            self.task: TaskData = task or _task_of(str(options.task))
            self._is_sample = options.task == SAMPLE
        elif by_column or exemplars is not None or pool is not None:
            if not self._rows:
                raise UsageError("columns are for labelled examples; give some, with --exemplars or --pool")
            text, label = options.text_column or "text", options.label_column or "label"
            self.task = tasks.task_of_columns(
                [rows for _, rows in self._rows],
                text=text,
                label=label,
                instruction=options.instruction,
                mapping=mapping_of(names, ("id", text, label, "response")),
            )
        else:
            self.task, self._is_sample = _task_of(SAMPLE), True
        self._mapping = mapping_of(names, self.task.columns)

    def examples(
        self, source: Any, split: Split, instead: str, *, labelled: bool = True, answered: bool = False
    ) -> list[Example]:
        """The examples of one of the sources; of None, those published with the task, or `instead` is advised."""
        how: dict[str, Any] = {"labelled": labelled, "answered": answered, "mapping": self._mapping}
        if source is not None:
            return self.task.examples(next(rows for own_source, rows in self._rows if own_source is source), **how)
        if self._is_sample:
            return self.task.load(str(sample_path(f"{SAMPLE}.csv")), split, **how)
        if self.task.hub is None:
            raise UsageError(f"task '{self.task.task.name}' has no texts of its own; give {instead}")
        return self.task.load(None, split, **how)


def _task_of(task: str) -> TaskData:
    from leakmeter.data import tasks

    if task == SAMPLE:
        return tasks.load_task(str(sample_path(f"{SAMPLE}.toml")))
    if task not in tasks.names() and not task.lower().endswith(".toml"):
        raise UnknownNameError("task", task, [*tasks.names(), SAMPLE])
    return tasks.load_task(task)
