"""Which entities are asked about, behind which contexts: drawn by hashes, each draw independent of all others.

Every name has a hash for the seed, the relation and what it is drawn for, and the names with the lowest are drawn. So
asking about more entities, more relations or more contexts changes none of the draws that there were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain, islice, product, zip_longest
from typing import TypeVar

from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.susceptibility.case import Context, Query, QueryCase
from leakmeter.instruments.susceptibility.relations import Relation, fill, form_of

_T = TypeVar("_T")


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
    relations: Iterable[Relation],
    *,
    entities: int,
    contexts: int,
    mentioning: int,
    seed: int = 0,
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
    for names, n_wanted, what in ((real, n_real, "real"), (invented, n - n_real, "invented")):
        if n_wanted > len(names):
            raise UsageError(
                f"relation '{relation.name}' has {len(names):,} {what} entities and {n_wanted:,} are asked for; give "
                "fewer entities, or more names"
            )
    return real[:n_real] + invented[: n - n_real]


def _shared(relation: Relation, seed: int) -> list[tuple[str, str, Context]]:
    """Everything that may be said in the relation, in the order drawn: entity, answer, context."""
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
    for drawn, n_wanted, what in (
        (others, n_shared, "that do not name the entity asked about"),
        (answers, n_mentioning, "that say a wrong answer of the entity asked about"),
    ):
        if len(drawn) < n_wanted:
            raise UsageError(
                f"relation '{relation.name}' has names for {len(drawn):,} contexts {what}, and {n_wanted:,} are asked "
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

    def query(openness: str, i: int, template: str, answer: str | None, named: str | None) -> Query:
        return Query(
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

    out = [query("open", i, template, right, None) for i, template in enumerate(relation.open, 1)]
    if relation.closed:
        named = _named(relation, entity, right, seed)
        answer = None if right is None else "Yes" if named == right else "No"
        out += [query("closed", i, template, answer, named) for i, template in enumerate(relation.closed, 1)]
    return out


def _named(relation: Relation, entity: str, right: str | None, seed: int) -> str:
    coins = _hash(seed, relation.name, "coins", entity)[0]
    wrong = _wrong_answers(relation, entity, seed, "named")
    if right is not None and (coins & 1 or not wrong):
        return right
    return wrong[min(coins >> 1 & 1, len(wrong) - 1)]


def _wrong_answers(relation: Relation, entity: str, seed: int, use: str) -> list[str]:
    """Answers in the order drawn, real and invented in turn, less the right one and the entity itself."""
    right = dict(relation.pairs).get(entity)
    drawn = _in_turn(
        *(
            _ordered(names, seed, relation.name, use, entity)
            for names in (relation.answers.real, relation.answers.invented)
        )
    )
    return [name for name in drawn if name not in (right, entity)]


def _in_turn(*groups: Sequence[_T]) -> list[_T]:
    return [item for item in chain.from_iterable(zip_longest(*groups)) if item is not None]


def _ordered(names: Iterable[str], seed: int, *use: str) -> list[str]:
    return sorted(names, key=lambda name: _hash(seed, *use, name))


def _hash(seed: int, *parts: str) -> bytes:
    text = "".join(f"{len(part)}:{part}" for part in (str(seed), *parts))
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _check(good: bool, what: str, given: int, expected: str) -> None:
    if not good:
        raise UsageError(f"{what} is {given:,}; it has to be {expected}")
