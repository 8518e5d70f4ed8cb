"""Questions about relations, such as a book's author: drawn from templates and names, with contexts that say an answer.

The set that ships is 60 relations between things of 35 kinds; people add their own in TOML, or in the published form of
Du et al. 2024.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from pathlib import Path

from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.susceptibility.relations.base import Names, Relation
from leakmeter.instruments.susceptibility.relations.draw import YES_NO, choose_relations, draw_questions
from leakmeter.instruments.susceptibility.relations.own import kinds_of, read_toml, relations_of
from leakmeter.instruments.susceptibility.relations.published import published_relations

__all__ = [
    "YES_NO",
    "Names",
    "Relation",
    "choose_relations",
    "draw_questions",
    "load_relations",
    "relations_of",
]


def load_relations(path: str | None = None, *, names: str | None = None) -> tuple[Relation, ...]:
    """Relations of a file, in its order.

    Args:
        path: a TOML file, whose relations may be between kinds of the set that ships; a JSON file of templates in the
            published form; None for the set that ships.
        names: for a JSON file of templates the file of names to fill them with.

    Raises:
        DataError: a file that cannot be read, or something in it that is missing or not understood.
        UsageError: templates without names, or names without templates.
    """
    if path is not None and path.lower().endswith(".json"):
        if names is None:
            raise UsageError(f"templates '{path}' come without names; give the JSON file of names by relation too")
        return published_relations(Path(path), Path(names))
    if names is not None:
        raise UsageError(f"file of names '{names}' is for JSON templates; a TOML file brings its own names as kinds")
    if path is None:
        return _shipped()[1]
    if not path.lower().endswith(".toml"):
        raise DataError(f"relation file '{path}' is of no known kind; expected .toml, or .json for published templates")
    return relations_of(read_toml(Path(path)), f"relation file '{path}'", _shipped()[0])


@functools.cache
def _shipped() -> tuple[dict[str, Names], tuple[Relation, ...]]:
    folder = resources.files("leakmeter.samples") / "relations"
    files = {file.name: tomllib.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()}
    kinds: dict[str, Names] = {}
    relations: list[Relation] = []
    for name in sorted(files):
        kinds |= kinds_of(files[name], name)
    for name in sorted(files):
        relations += relations_of(files[name], name, kinds)
    return kinds, tuple(relations)
