"""Studies of what contexts do to questions: which are drawn, and how prompts are made of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from leakmeter.core.measure import Measure
from leakmeter.errors import UnknownNameError
from leakmeter.instruments.susceptibility.prompts import QuestionSettings
from leakmeter.instruments.susceptibility.question import QuestionCase
from leakmeter.instruments.susceptibility.relations import Relation, choose_relations, draw_questions, load_relations
from leakmeter.studies.grid import Cell
from leakmeter.studies.kind import Choice, Kind, at_least_one, field_types

TOGETHER: Final = 8
"""Queries that are scored together: each context that stands before all of them is run once for the eight."""
SHIPPED: Final = "relations"
"""Name of the set of relations that comes with leakmeter."""
LEVELS: Final[Mapping[str, tuple[str, str]]] = {
    "openness": ("open", "closed"),
    "form": ("question", "completion"),
    "familiarity": ("real", "invented"),
}
"""What is known of every query, and its levels in the order of tables."""
_NAMES: Final = ".names"
_CONTEXTS_A_MENTION: Final = 32
"""Of the paper: 8 of 256, and 4 of 128."""


@dataclass(frozen=True, slots=True)
class Drawn(Choice):
    """Which queries a cell measures, and behind what."""

    entities: int
    """Of each relation, half of them invented."""
    contexts: int
    """Of each query."""
    mentioning: int
    """Of these, how many say an answer of the query's entity."""
    relation_names: tuple[str, ...]
    """To choose among; empty for all."""


class Questions(Kind):
    """Every form of query about drawn entities of drawn relations, behind drawn contexts."""

    records = "queries"
    counted = "relations"
    replicated: ClassVar = "draw_seed"
    settings: ClassVar = {
        "relation_names": "tuple[str, ...]",
        "entities": "int",
        "contexts": "int",
        "mentioning": "int",
        "draw_seed": "int",
        **field_types(QuestionSettings),
    }

    def group_size(self, measure: Measure) -> int:
        """They share contexts."""
        return TOGETHER

    def choice(self, given: Mapping[str, Any]) -> Drawn:
        """Six entities a relation behind 64 contexts, one in 32 of which mentions them, where nothing says else."""
        contexts = at_least_one("contexts", given.get("contexts", 64))
        return Drawn(
            at_least_one("relations", given["relations"]),
            given.get("draw_seed", 0),
            at_least_one("entities", given.get("entities", 6)),
            contexts,
            given.get("mentioning", contexts // _CONTEXTS_A_MENTION),
            given.get("relation_names", ()),
        )

    def prompts(self, given: Mapping[str, Any]) -> QuestionSettings:
        """Template and separator; the data set has to be one that can be read."""
        name = given["dataset"]
        if name != SHIPPED and not name.lower().endswith((".toml", ".json")):
            raise UnknownNameError("set of relations", name, [SHIPPED, "FILE.toml", "FILE.json"])
        return QuestionSettings(**{key: given[key] for key in field_types(QuestionSettings) if key in given})

    def datasets(self) -> list[str]:
        """The set that ships."""
        return [SHIPPED]

    def sources(self, datasets: Sequence[str]) -> list[str]:
        """Of each set the relations, under its name, and for published templates the names they are filled with."""
        return [source for name in datasets for source in (name, name + _NAMES)]

    def load(self, cells: Sequence[Cell], paths: Mapping[str, str]) -> list[list[QuestionCase]]:
        """The queries of each cell: of the same entities, behind contexts of which fewer are among more."""
        known: dict[str, tuple[Relation, ...]] = {}
        drawn: dict[tuple[str, Drawn], list[QuestionCase]] = {}
        for cell in cells:
            name, choice = cell.dataset, drawn_of(cell)
            if name not in known:
                path = paths.get(name, None if name == SHIPPED else name)
                known[name] = load_relations(path, names=paths.get(name + _NAMES))
            if (name, choice) not in drawn:
                drawn[name, choice] = _draw(known[name], choice)
        return [drawn[cell.dataset, drawn_of(cell)] for cell in cells]

    def case(self, record: QuestionCase) -> QuestionCase:
        """The record."""
        return record

    def seed(self, cell: Cell) -> int:
        """That of the draws of entities and contexts."""
        return drawn_of(cell).choice_seed or 0


def drawn_of(cell: Cell) -> Drawn:
    """What a cell draws."""
    if not isinstance(cell.choice, Drawn):
        raise TypeError(f"a {type(cell.choice).__name__} draws no queries")
    return cell.choice


def known_of(case: QuestionCase) -> dict[str, str]:
    """What is known of a query, by name."""
    return dict(case.question.factors)


def queries_csv(records: Sequence[QuestionCase], columns: Mapping[str, Sequence[float]]) -> str:
    """One row a query: what is known of it, numbers, and its text.

    Args:
        records: the queries.
        columns: numbers of each, by name.
    """
    sink = io.StringIO(newline="")
    # All texts are quoted: a lone carriage return would otherwise stand bare, and end a row for who reads it.
    writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    names = ("relation", "entity", *LEVELS)
    writer.writerow(["id", *names, *columns, "query"])
    for record, *values in zip(records, *columns.values(), strict=True):
        known = known_of(record)
        writer.writerow([record.id, *(known[name] for name in names), *values, record.question.text])
    return sink.getvalue()


def _draw(relations: Sequence[Relation], choice: Drawn) -> list[QuestionCase]:
    seed, names = choice.choice_seed or 0, choice.relation_names
    n = min(choice.n_records, len(names)) if names else choice.n_records
    return draw_questions(
        choose_relations(relations, names=names, n=n, seed=seed),
        entities=choice.entities,
        contexts=choice.contexts,
        mentioning=choice.mentioning,
        seed=seed,
    )
