"""Relations, such as of books to their authors: templates of queries and of contexts, and names to fill them with.

The set that ships is 60 relations between things of 35 kinds. People add their own in TOML:

    [kinds.colleague]
    real = ["Anna Berg", "Ole Lund"]
    invented = ["Tarvo Quillane", "Brisel Okandry"]

    [relations.works-in]
    entities = "colleague"
    answers = "city"                    # a kind of the set that ships
    open = ["Q: Where does {entity} work?\\nA:", "{entity} works in"]
    closed = ["Q: Does {entity} work in {answer}?\\nA:"]
    context = "{entity} works in {answer}."

    [relations.works-in.pairs]          # right answers, where they are known
    "Anna Berg" = "Oslo"

or in the form that Du et al. 2024 publish: templates are a JSON object of relations, each {"open": [...], "closed":
[...]}. Names are an object of relations, each a list of real entities, or {"real": [...], "invented": [...]}; an entity
is text, or an object with an 'entity'. The answers of a relation are the entities of its reverse: 'reverse-R' is the
reverse of 'R'.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain, islice, product, zip_longest
from pathlib import Path
from typing import Final, TypeVar

from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.record import JsonObject
from leakmeter.data.mapping import checked_text, parsed_json, unused
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.instruments.susceptibility.case import Context, Query, QueryCase

_PLACE: Final = re.compile(r"\{(entity|answer)\}")
_BRACES: Final = re.compile(r"\{[^{}]{0,40}\}|[{}]")
_BOTH: Final = {"entity", "answer"}
_KIND: Final = ("real", "invented")
_REVERSE: Final = "reverse-"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EntityNames:
    real: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    """Plausible names of nothing."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of entities to answers, such as of books to their authors.

    In the templates '{entity}' and '{answer}' stand for names.
    """

    name: str
    open: tuple[str, ...]
    """Queries such as 'Q: Who wrote {entity}?⏎A:' or '{entity} was written by'."""
    closed: tuple[str, ...]
    """Queries that name an answer, such as 'Q: Was {entity} written by {answer}?⏎A:'."""
    context: str
    """A sentence that says an answer, such as '{entity} was written by {answer}.'."""
    entities: EntityNames
    answers: EntityNames
    pairs: tuple[tuple[str, str], ...] = ()
    """Real entities whose one right answer is known, with it."""


def form_of(template: str) -> str:
    """'question' for a template that has a question mark, 'completion' for any other."""
    return "question" if "?" in template else "completion"


def fill(template: str, entity: str, answer: str = "") -> str:
    """Both names at once, so that a name may be anything, such as '{answer}'."""
    names = {"entity": entity, "answer": answer}
    return _PLACE.sub(lambda place: names[place[1]], template)


def _relation(
    name: str, table: JsonObject, entities: EntityNames, answers: EntityNames, pairs: Mapping[str, str], where: str
) -> Relation:
    open_ = _templates(table, "open", {"entity"}, where)
    closed = _templates(table, "closed", _BOTH, where)
    if not open_ and not closed:
        raise DataError(f"{where} has no queries; expected open or closed ones")
    context = table.get("context")
    if context is None:
        completions = [template for template in open_ if form_of(template) == "completion"]
        if not completions:
            raise DataError(f"{where} has no 'context', and no open completion to make one of")
        context = f"{completions[0].rstrip()} {{answer}}."
    relation = Relation(
        name=name,
        open=open_,
        closed=closed,
        context=_template(context, "context", _BOTH, where),
        entities=_joined(entities, pairs),
        answers=_joined(answers, pairs.values()),
        pairs=tuple(pairs.items()),
    )
    for key, names in (("entities", relation.entities), ("answers", relation.answers)):
        if not names.real and not names.invented:
            raise DataError(f"{where} has no {key}; give at least one name")
    return relation


def _checked_names(value: object, key: str, where: str) -> tuple[str, ...]:
    """Distinct names of one line. Errors give a number: a name may be a person's."""
    if not isinstance(value, list | tuple):
        raise DataError(f"{where}: '{key}' has to be a list of names")
    names: dict[str, int] = {}
    for number, entry in enumerate(value, 1):
        name = _checked_name(entry, f"{key}[{number}]", where)
        if name in names:
            raise DataError(f"{where}: '{key}[{number}]' is the same name as '{key}[{names[name]}]'")
        names[name] = number
    return tuple(names)


def _checked_name(value: object, key: str, where: str) -> str:
    name = checked_text(value, key, where).strip()
    if len(name.splitlines()) != 1:
        raise DataError(f"{where}: '{key}' {'is empty' if not name else 'has several lines'}, expected a name")
    return name


def _joined(names: EntityNames, more: Collection[str]) -> EntityNames:
    return EntityNames(tuple(dict.fromkeys((*names.real, *more))), names.invented)


def _templates(table: JsonObject, key: str, places: Collection[str], where: str) -> tuple[str, ...]:
    value = table.get(key, ())
    if not isinstance(value, list | tuple):
        raise DataError(f"{where}: '{key}' has to be a list of templates")
    templates = tuple(_template(entry, f"{key}[{i}]", places, where) for i, entry in enumerate(value, 1))
    if len(set(templates)) < len(templates):
        raise DataError(f"{where}: '{key}' has one template twice")
    return templates


def _template(value: object, key: str, places: Collection[str], where: str) -> str:
    text = checked_text(value, key, where)
    for brace in _BRACES.findall(text):
        if not _PLACE.fullmatch(brace):
            raise DataError(f"{where}: '{key}' has {brace!r}; the places for names are {{entity}} and {{answer}}")
    present = set(_PLACE.findall(text))
    for place in sorted(present ^ set(places)):
        says = "asks for an answer and names one" if place in present else "has no place for a name"
        raise DataError(f"{where}: '{key}' {says}, {{{place}}}")
    return text


def load_relations(
    path: str | None = None, *, names: str | None = None, source: str = "relations.names"
) -> tuple[Relation, ...]:
    """Relations of a file, in its order: a TOML file, a JSON file of published templates, or by default what ships.

    Relations of a TOML file may be between kinds of the set that ships; a JSON file of templates needs one of `names`,
    which is the data `source` of a study.
    """
    if path is not None and path.lower().endswith(".json"):
        if names is None:
            raise UsageError(
                f"templates '{path}' contain no names; give the JSON file of names by relation too, with "
                f"--data {source}=FILE"
            )
        return _published(Path(path), Path(names))
    if names is not None:
        raise UsageError(f"file of names '{names}' is for JSON templates; a TOML file brings its own names as kinds")
    if path is None:
        return _shipped()[1]
    if not path.lower().endswith(".toml"):
        raise DataError(f"relation file '{path}' is of no known kind; expected .toml, or .json for published templates")
    where = f"relation file '{path}'"
    return relations_of(parsed_toml(read_text(Path(path), "relation file"), where), where, _shipped()[0])


@functools.cache
def _shipped() -> tuple[dict[str, EntityNames], tuple[Relation, ...]]:
    folder = resources.files("leakmeter.data.samples") / "relations"
    files = {file.name: tomllib.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()}
    kinds: dict[str, EntityNames] = {}
    relations: list[Relation] = []
    for name in sorted(files):
        kinds |= kinds_of(files[name], name)
    for name in sorted(files):
        relations += relations_of(files[name], name, kinds)
    return kinds, tuple(relations)


# ---- TOML -----------------------------------------------------------------------------------------------------------


def kinds_of(tables: JsonObject, where: str) -> dict[str, EntityNames]:
    kinds = {}
    for name, value in _tables(tables, "kinds", where):
        place = f"{where}, kind '{name}'"
        _check_keys(value, _KIND, place)
        real, invented = (_checked_names(value.get(key, ()), key, place) for key in _KIND)
        for number, invented_name in enumerate(invented, 1):
            if invented_name in real:
                raise DataError(f"{place}: 'invented[{number}]' is a name of 'real' too")
        kinds[name] = EntityNames(real, invented)
    return kinds


def relations_of(tables: JsonObject, where: str, kinds: Mapping[str, EntityNames]) -> tuple[Relation, ...]:
    """Relations of a TOML file, in order; its own kinds go before `kinds`."""
    _check_keys(tables, ("kinds", "relations"), where)
    all_kinds = {**kinds, **kinds_of(tables, where)}
    relations = []
    for name, value in _tables(tables, "relations", where):
        place = f"{where}, relation '{name}'"
        if "/" in name:
            raise DataError(f"{place}: the name of a relation may not contain '/', which separates the parts of ids")
        _check_keys(value, ("entities", "answers", "open", "closed", "context", "pairs"), place)
        entities, answers = (_kind(value, key, all_kinds, place) for key in ("entities", "answers"))
        pairs = _pairs(value.get("pairs", {}), entities, answers, place)
        relations.append(_relation(name, value, entities, answers, pairs, place))
    if not relations:
        raise DataError(f"{where} has no relation; expected one or more, each as [relations.NAME]")
    return tuple(relations)


def _kind(value: JsonObject, key: str, kinds: Mapping[str, EntityNames], where: str) -> EntityNames:
    if key not in value:
        raise DataError(f"{where} has no '{key}'; expected the name of a kind, such as {key} = \"city\"")
    name = _checked_name(value[key], key, where)
    if name not in kinds:
        raise DataError(f"{where}: '{key}' is {name!r}, expected one of {', '.join(map(repr, sorted(kinds)))}")
    return kinds[name]


def _pairs(value: object, entities: EntityNames, answers: EntityNames, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: 'pairs' has to be a table of entities and their right answers")
    pairs = {}
    for number, (raw_entity, answer) in enumerate(value.items(), 1):
        entity = _checked_name(raw_entity, f"pairs[{number}]", where)
        if entity in entities.invented or entity in pairs:
            problem = "is twice there" if entity in pairs else "is an invented name"
            raise DataError(f"{where}: the entity of 'pairs[{number}]' {problem}, expected real ones, each once")
        pairs[entity] = _checked_name(answer, f"pairs[{number}]", where)
        if pairs[entity] in answers.invented:
            raise DataError(f"{where}: the answer of 'pairs[{number}]' is an invented name, expected a real one")
    return pairs


def _tables(parent: JsonObject, key: str, where: str) -> list[tuple[str, JsonObject]]:
    value = parent.get(key, {})
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise DataError(f"{where}: '{key}' has to be tables, each as [{key}.NAME]")
    return [(_checked_name(name, f"a name of {key}", where), table) for name, table in value.items()]


def _check_keys(table: JsonObject, known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise DataError(f"{where}: unknown key {key!r}; known: {', '.join(known)}")


# ---- the published form ---------------------------------------------------------------------------------------------
def _published(templates: Path, names: Path) -> tuple[Relation, ...]:
    """The relations that there are entities and answers for, in the templates' order; the others are left out.

    A relation whose name is an address is called by what follows its last '/'. The published templates have none for
    contexts, which are made of the first open completion, as the paper's are.
    """
    by_address = _objects(templates, "file of templates")
    name_lists = {
        relation: _published_names(value, f"file of names '{names}', relation '{relation}'")
        for relation, value in _objects(names, "file of names").items()
    }
    relations: dict[str, Relation] = {}
    for address, value in by_address.items():
        where = f"file of templates '{templates}', relation '{address}'"
        if not isinstance(value, dict):
            raise DataError(f"{where} is no object with 'open' and 'closed'")
        reverse = address.removeprefix(_REVERSE) if address.startswith(_REVERSE) else _REVERSE + address
        if address in name_lists and reverse in name_lists:
            name = address.rstrip("/").rsplit("/", 1)[-1]
            if address.startswith(_REVERSE):
                name = _REVERSE + name.removeprefix(_REVERSE)
            name = unused(name, relations)
            relations[name] = _relation(name, value, name_lists[address], name_lists[reverse], {}, where)
    if not relations:
        raise DataError(
            f"file of names '{names}' has entities and answers for none of the relations of '{templates}'; a "
            f"relation's answers are the entities of its reverse, '{_REVERSE}' and its name"
        )
    return tuple(relations.values())


def _published_names(value: object, where: str) -> EntityNames:
    lists = value if isinstance(value, Mapping) else {"real": value}
    if not set(lists) <= set(_KIND):
        raise DataError(f"{where} is an object with other keys than 'real' and 'invented'")
    names = []
    for key in _KIND:
        entries = lists.get(key, [])
        if isinstance(entries, list):
            entries = [entry.get("entity") if isinstance(entry, Mapping) else entry for entry in entries]
        names.append(_checked_names(entries, key, where))
    real, invented = names
    if set(real) & set(invented):
        raise DataError(f"{where} has one name in 'real' and in 'invented'")
    return EntityNames(real, invented)


def _objects(path: Path, noun: str) -> JsonObject:
    value = parsed_json(read_text(path, noun), f"{noun} '{path}'")
    if not isinstance(value, dict):
        raise DataError(f"{noun} '{path}' is no object of relations by name")
    return {_checked_name(name, "the name of a relation", f"{noun} '{path}'"): value[name] for name in value}


# ---- draws ----------------------------------------------------------------------------------------------------------
# Every name has a hash for the seed, the relation and what it is drawn for, and the names with the lowest are drawn. So
# asking about more entities, more relations or more contexts changes none of the draws that there were.
def choose_relations(
    relations: Sequence[Relation], *, names: Sequence[str] = (), n: int | None = None, seed: int = 0
) -> tuple[Relation, ...]:
    """Some relations, in their order: of those named, or all, `n` drawn by a seed, fewer being among more."""
    _check(seed >= 0, "seed", seed, "0 or more")
    relation_names = [relation.name for relation in relations]
    for name in names:
        if name not in relation_names:
            raise UnknownNameError("relation", name, relation_names)
    chosen = [relation for relation in relations if not names or relation.name in names]
    if n is None:
        return tuple(chosen)
    _check(1 <= n <= len(chosen), "relations", n, f"from 1 to {len(chosen)}")
    drawn = set(_ordered([relation.name for relation in chosen], seed, "relation")[:n])
    return tuple(relation for relation in chosen if relation.name in drawn)


def draw_queries(
    relations: Iterable[Relation], *, entities: int, contexts: int, mentioning: int, seed: int = 0
) -> list[QueryCase]:
    """Every form of query about drawn entities, each behind drawn contexts.

    As in Section 5.1 of the Fisher susceptibility paper half of the entities are real. Of contexts one half is about
    real entities, and one half says real answers. A relation that has only real names, or only invented ones, is asked
    about with these. The forms of an entity have the same contexts in the same order: first those that the relation's
    entities share, less the few that happen to name the entity, then the `mentioning` ones that say an answer of it, in
    the paper 8 of 256. These never say the right one, so that an answer from memory and an answer from the context can
    be told apart. No two contexts of a query are alike.

    A closed query names the right answer for half of the entities whose right answer is known, and else another one,
    real or invented, which both wordings share; it is the query's factor 'named'. Its answer is 'Yes' or 'No'.
    """
    _check(entities >= 1, "entities", entities, "1 or more")
    _check(contexts >= 1, "contexts", contexts, "1 or more")
    _check(0 <= mentioning <= contexts, "mentioning", mentioning, f"from 0 to {contexts:,}, the contexts of a query")
    _check(seed >= 0, "seed", seed, "0 or more")
    cases = []
    for relation in relations:
        shared = _shared(relation, seed)
        for entity in _entities(relation, entities, seed):
            drawn_contexts = _contexts(relation, entity, shared, contexts - mentioning, mentioning, seed)
            queries = _queries(relation, entity, seed)
            cases += [QueryCase(query.id, query, drawn_contexts) for query in queries]
    return cases


def _entities(relation: Relation, n: int, seed: int) -> list[str]:
    real, invented = (
        _ordered(names, seed, relation.name, "entity") for names in (relation.entities.real, relation.entities.invented)
    )
    n_real = 0 if not real else n - n // 2 if invented else n
    for names, n_wanted, kind in ((real, n_real, "real"), (invented, n - n_real, "invented")):
        if n_wanted > len(names):
            raise UsageError(
                f"relation '{relation.name}' has {len(names):,} {kind} entities and {n_wanted:,} are asked for; give "
                "fewer entities, or more names"
            )
    return real[:n_real] + invented[: n - n_real]


def _shared(relation: Relation, seed: int) -> list[tuple[str, str, Context]]:
    """Entity, answer and context of all statements of the relation, in the order drawn."""
    groups = [
        sorted(product(entities, answers), key=lambda pair: _hash(seed, relation.name, "context", *pair))
        for entities, answers in product(
            (relation.entities.real, relation.entities.invented), (relation.answers.real, relation.answers.invented)
        )
    ]
    pairs = [(entity, answer) for entity, answer in _in_turn(*groups) if entity != answer]
    return [
        (entity, answer, Context(f"{relation.name}/c{i}", fill(relation.context, entity, answer), answer=answer))
        for i, (entity, answer) in enumerate(pairs, 1)
    ]


def _contexts(
    relation: Relation,
    entity: str,
    shared: Sequence[tuple[str, str, Context]],
    n_shared: int,
    n_mentioning: int,
    seed: int,
) -> tuple[Context, ...]:
    others = list(islice((context for about, answer, context in shared if entity not in (about, answer)), n_shared))
    answers = _wrong_answers(relation, entity, seed, "mentioning")[:n_mentioning]
    for drawn, n_wanted, kind in (
        (others, n_shared, "that do not name the entity asked about"),
        (answers, n_mentioning, "that say a wrong answer of the entity asked about"),
    ):
        if len(drawn) < n_wanted:
            raise UsageError(
                f"relation '{relation.name}' has names for {len(drawn):,} contexts {kind}, and {n_wanted:,} are asked "
                "for; give fewer contexts, or more names"
            )
    mentioning = (
        Context(f"{relation.name}/{entity}/c{i}", fill(relation.context, entity, answer), answer=answer)
        for i, answer in enumerate(answers, 1)
    )
    return (*others, *mentioning)


def _queries(relation: Relation, entity: str, seed: int) -> list[Query]:
    right = dict(relation.pairs).get(entity)
    familiarity = "real" if entity in relation.entities.real else "invented"
    groups: list[tuple[str, tuple[str, ...], str | None, str | None]] = [("open", relation.open, right, None)]
    if relation.closed:
        named = _named(relation, entity, right, seed)
        answer = None if right is None else "Yes" if named == right else "No"
        groups.append(("closed", relation.closed, answer, named))
    return [
        Query(
            id=f"{relation.name}/{entity}/{openness}-{i}",
            text=fill(template, entity, named or ""),
            answer=answer,
            factors=(
                ("relation", relation.name),
                ("openness", openness),
                ("form", form_of(template)),
                ("entity", entity),
                ("familiarity", familiarity),
                *(() if named is None else (("named", named),)),
            ),
        )
        for openness, templates, answer, named in groups
        for i, template in enumerate(templates, 1)
    ]


def _named(relation: Relation, entity: str, right: str | None, seed: int) -> str:
    """The answer that closed queries of an entity name."""
    coins = _hash(seed, relation.name, "coins", entity)[0]
    wrong = _wrong_answers(relation, entity, seed, "named")
    if right is not None and (coins & 1 or not wrong):
        return right
    return wrong[min(coins >> 1 & 1, len(wrong) - 1)]


def _wrong_answers(relation: Relation, entity: str, seed: int, use: str) -> list[str]:
    """Answers in the order drawn, real and invented in turn, less the right one and the entity itself."""
    right = dict(relation.pairs).get(entity)
    real, invented = (
        _ordered(names, seed, relation.name, use, entity)
        for names in (relation.answers.real, relation.answers.invented)
    )
    return [name for name in _in_turn(real, invented) if name not in (right, entity)]


def _in_turn(*groups: Sequence[_T]) -> list[_T]:
    return [item for item in chain.from_iterable(zip_longest(*groups)) if item is not None]


def _ordered(names: Iterable[str], seed: int, *use: str) -> list[str]:
    return sorted(names, key=lambda name: _hash(seed, *use, name))


def _hash(seed: int, *parts: str) -> bytes:
    text = "".join(f"{len(part)}:{part}" for part in (str(seed), *parts))
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _check(good: bool, noun: str, n: int, expected: str) -> None:
    if not good:
        raise UsageError(f"{noun} is {n:,}; it has to be {expected}")
