"""Which mentions are one person: names put together over all documents of a ledger, and the user's corrections.

The rule is that of `text.entities.find` within one text: a name whose words stand in exactly one fuller name is that
person's; where they stand in two, nobody can tell, and it stays apart. It works on keyed hashes of words, so that a
ledger needs no names. Values of other types are each their own, unless the user puts them with a person.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.core.files import parsed_toml, read_text, store_errors, write_whole
from leakmeter.core.plain import excerpt
from leakmeter.errors import UsageError
from leakmeter.products.ledger.store import SUBJECTS, Ledger

LEAST_DIGITS: Final = 8
_PSEUDONYM: Final = re.compile(rf"[0-9a-f]{{{LEAST_DIGITS},32}}")
_EXAMPLE: Final = 'such as [[same]] subjects = ["1f2e3d4c5b6a", "0a1b2c3d4e5f"]'


@dataclass(frozen=True, slots=True)
class Name:
    """A value or a person under one normal form, without it."""

    entity: str
    kind: str
    words: tuple[str, ...] = ()
    initials: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edits:
    same: tuple[tuple[str, ...], ...] = ()
    """Pseudonyms, or their beginnings, of what is one person."""
    apart: tuple[str, ...] = ()
    """Of what no rule joins to another."""


def read_edits(ledger: Ledger) -> Edits:
    """The corrections in the ledger's `subjects.toml`; none where there is no such file."""
    path = ledger.path / SUBJECTS
    if not path.exists():
        return Edits()
    tables = parsed_toml(read_text(path, "file of subjects"), f"'{path}'")
    for name in tables:
        if name not in ("same", "apart"):
            raise UsageError(
                f"'{path}' has a table '{excerpt(name, 60)}'; expected are [[same]] and [[apart]], {_EXAMPLE}"
            )
    groups = {name: _groups(tables.get(name, []), str(path), name) for name in ("same", "apart")}
    return Edits(tuple(groups["same"]), tuple(pseudonym for group in groups["apart"] for pseudonym in group))


def write_edits(ledger: Ledger, left: Collection[str | None]) -> None:
    """Remove corrections of pseudonyms that are not `left`; a file without any stays as it is."""
    edits = read_edits(ledger)
    names = [name for name in left if name is not None]

    def is_left(beginning: str) -> bool:
        return any(name.startswith(beginning) for name in names)

    same = [kept for group in edits.same if len(kept := [pseudonym for pseudonym in group if is_left(pseudonym)]) > 1]
    apart = [pseudonym for pseudonym in edits.apart if is_left(pseudonym)]
    if same == [list(group) for group in edits.same] and apart == list(edits.apart):
        return
    tables = [("same", group) for group in same] + [("apart", [pseudonym]) for pseudonym in apart]
    text = "\n".join(f"[[{name}]]\nsubjects = {json.dumps(group)}\n" for name, group in tables)
    with store_errors(f"'{ledger.path / SUBJECTS}' cannot be written"):
        write_whole(ledger.path / SUBJECTS, text.encode())


def _groups(tables: Any, path: str, name: str) -> list[tuple[str, ...]]:
    out = []
    for number, table in enumerate(tables if isinstance(tables, list) else [tables], 1):
        pseudonyms = table.get("subjects") if isinstance(table, dict) else None
        if not isinstance(pseudonyms, list) or not all(
            isinstance(pseudonym, str) and _PSEUDONYM.fullmatch(pseudonym) for pseudonym in pseudonyms
        ):
            raise UsageError(
                f"'{path}', [[{name}]] number {number}: subjects has to be a list of pseudonyms of {LEAST_DIGITS} or "
                f"more digits, {_EXAMPLE}"
            )
        out.append(tuple(pseudonyms))
    return out


def resolve(names: Iterable[Name], edits: Edits | None = None) -> dict[str, str]:
    """Each name's subject: the pseudonym of the fullest name of the same person. Corrections win over the rule."""
    edits = edits or Edits()

    def fullest_first(name: Name) -> tuple[int, int, str]:
        return -len(name.words), sum(word.endswith(".") for word in name.words), name.entity

    ordered = sorted(names, key=fullest_first)
    by_name = [each_name.entity for each_name in ordered]
    apart = {entity for beginning in edits.apart for entity in _begun(beginning, by_name)}
    subject: dict[str, str] = {}
    having: dict[str, list[Name]] = {}
    for each_name in ordered:
        near = {home.entity: home for word in each_name.words for home in having.get(word, ())}
        homes = [home for home in near.values() if is_part(each_name, home)] if each_name.entity not in apart else []
        subject[each_name.entity] = homes[0].entity if len(homes) == 1 else each_name.entity
        # A name of several people is no home for others: it is not known whose it is.
        if each_name.kind == "person" and not homes and each_name.entity not in apart:
            for word in set(each_name.words):
                having.setdefault(word, []).append(each_name)
    for group in edits.same:
        heads = {subject[entity] for beginning in group for entity in _begun(beginning, by_name)}
        if heads:
            first = min(heads, key=by_name.index)
            subject = {name: first if head in heads else head for name, head in subject.items()}
    return subject


class KnownNames:
    """Names that are known, found by their words and by the beginnings of their pseudonyms."""

    def __init__(self, names: Iterable[Name] = ()) -> None:
        self._names: dict[str, Name] = {}
        self._having: defaultdict[str, list[Name]] = defaultdict(list)
        self._begun: defaultdict[str, list[str]] = defaultdict(list)
        for name in names:
            self.add(name)

    def add(self, name: Name) -> None:
        if name.entity in self._names:
            return
        self._names[name.entity] = name
        self._begun[name.entity[:LEAST_DIGITS]].append(name.entity)
        for word in set(name.words):
            self._having[word].append(name)

    def subjects_of(self, entities: Iterable[str], more: Iterable[Name], edits: Edits) -> dict[str, str]:
        """Subjects of some names, and of all names of these subjects: what `resolve` says where it is given all that
        are known, and `more` beside them."""
        near = KnownNames(more)
        corrected = {
            entity
            for beginning in (*edits.apart, *(name for group in edits.same for name in group))
            for entity in self._begun.get(beginning[:LEAST_DIGITS], ())
        }
        asked = {*entities, *near._names}
        todo = [self._names[entity] for entity in {*asked, *corrected} if entity in self._names]
        todo += near._names.values()
        found = {name.entity: name for name in self._with_fuller(todo, near)}
        # Of those who may be one person with them, shorter names; and whom else these may be.
        shorter = [
            other
            for name in found.values()
            for word in set(name.words)
            for other in (*self._having.get(word, ()), *near._having.get(word, ()))
            if is_part(other, name)
        ]
        found |= {name.entity: name for name in self._with_fuller(shorter, near)}
        subject_of = resolve(found.values(), edits)
        subjects = {subject_of[entity] for entity in asked if entity in subject_of}
        return {entity: subject for entity, subject in subject_of.items() if subject in subjects}

    def _with_fuller(self, names: Iterable[Name], near: KnownNames) -> Iterator[Name]:
        """Names, and all that they are a part of; what these are a part of is among them."""
        for name in names:
            yield name
            # A name that has it has all its whole words: the rarest says which these may be.
            whole = [word for word in name.words if not word.endswith(".")]
            having = [(*self._having.get(word, ()), *near._having.get(word, ())) for word in whole]
            yield from (other for other in min(having, key=len, default=()) if is_part(name, other))


def is_part(some: Name, more: Name) -> bool:
    """Whether one name's words stand in the other in the same order, an initial for a word; see `person.is_part`."""
    at, n_whole = 0, 0
    for word in some.words:
        place = next((i for i in range(at, len(more.words)) if word in (more.words[i], more.initials[i])), None)
        if place is None:
            return False
        n_whole += word == more.words[place] and not word.endswith(".")
        at = place + 1
    return n_whole > 0


def _begun(beginning: str, names: Sequence[str]) -> list[str]:
    """The pseudonym that begins so; none where it was forgotten."""
    matches = [name for name in names if name.startswith(beginning)]
    if len(matches) > 1:
        raise UsageError(f"'{beginning}' in {SUBJECTS} begins {len(matches)} pseudonyms; write more of its digits")
    return matches
