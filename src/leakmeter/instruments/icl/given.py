"""Exemplars and queries as a user has them: a published task, a task file, or the columns of any table; exemplars are
drawn for each query, or the same for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from leakmeter.commands.options import RowOptions, TextOption
from leakmeter.core.files import sample_path
from leakmeter.core.limits import refuse_bad
from leakmeter.data.named import chosen_numbers
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.text.exemplars import ExemplarCase, LabelledText

if TYPE_CHECKING:
    from leakmeter.data.rows import DataRow
    from leakmeter.data.tasks import Split, TaskData
    from leakmeter.text.exemplars import LabelledText


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
    instruction: TextOption | None = None
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
        self._rows: list[tuple[Any, list[DataRow]]] = []
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
    ) -> list[LabelledText]:
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


REDRAWN_TOGETHER: Final = 8
"""Queries scored together where each has its own exemplars; they share an instruction."""
FIXED_TOGETHER: Final = 32
"""Queries scored together where all have the same exemplars."""


def draw_cases(
    pool: Sequence[LabelledText], queries: Sequence[LabelledText], *, shots: int, seed: int
) -> list[ExemplarCase]:
    """For each query exemplars from a pool, without replacement (Section 4.1 of the ICLInf paper), in the order drawn.

    What is drawn for a query depends on the pool, the seed and the query's number alone, and fewer shots are the first
    of more: levels of any other factor, and of this one, are paired query by query. An example of the pool that has the
    query's own texts, white space around them apart, is passed over.
    """
    import numpy as np

    refuse_bad((shots >= 1, "shots", shots, "1 or more"), (seed >= 0, "seed", seed, "0 or more"))
    same = Counter(example.compared for example in pool)
    cases = []
    for number, query in enumerate(queries):
        n_others = len(pool) - same[query.compared]
        if n_others < shots:
            raise UsageError(
                f"query '{query.id}' needs {shots} exemplars, and there are {n_others:,} besides the query itself; "
                "give more of them, or fewer shots"
            )
        rng = np.random.default_rng([seed, number])
        chosen: dict[int, LabelledText] = {}
        # One at a time, without duplicates and examples alike: `shots` changes no earlier draw.
        while len(chosen) < shots:
            at = int(rng.integers(len(pool)))
            if pool[at].compared != query.compared:
                chosen.setdefault(at, pool[at])
        cases.append(ExemplarCase(query.id, tuple(chosen.values()), query))
    return cases


def fixed_cases(exemplars: Sequence[LabelledText], queries: Sequence[LabelledText]) -> list[ExemplarCase]:
    """Every query with the same exemplars, in their order; a query that is one of them keeps it."""
    if not exemplars:
        raise UsageError("there are no exemplars to measure; give at least one")
    return [ExemplarCase(query.id, tuple(exemplars), query) for query in queries]


def choose_queries(examples: Sequence[LabelledText], n: int | None, seed: int | None) -> list[LabelledText]:
    """Some examples, in their order: `n` at most, chosen by the seed; the first ones where it is None."""
    refuse_bad(
        (n is None or n >= 1, "max-queries", n or 0, "1 or more"),
        ((seed or 0) >= 0, "seed", seed or 0, "0 or more"),
    )
    return [examples[i] for i in chosen_numbers(len(examples), n, seed)]
