"""What is drawn from relations, the slow way too."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.susceptibility.case import QueryCase
from leakmeter.instruments.susceptibility.relations import (
    Names,
    Relation,
    choose_relations,
    draw_queries,
    load_relations,
)

SMALL = Relation(
    name="likes",
    open=("{entity} likes",),
    closed=("Does {entity} like {answer}?",),
    context="{entity} likes {answer}.",
    entities=Names(("Anna", "Bo"), ("Xu", "Yr")),
    answers=Names(("tea", "Bo"), ("zim", "zam")),
    pairs=(("Anna", "tea"),),
)


def factor(case: QueryCase, name: str) -> str:
    return dict(case.query.factors)[name]


def by_hash(*parts: str) -> bytes:
    """What decides on a draw with seed 7, written out."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.blake2b(f"1:7{text}".encode(), digest_size=8).digest()


def in_turn(groups: list[list[Any]]) -> list[Any]:
    out = []
    for i in range(max(map(len, groups))):
        out += [group[i] for group in groups if i < len(group)]
    return out


def test_what_is_drawn_is_what_the_hashes_say() -> None:
    entities, answers = SMALL.entities, SMALL.answers
    cases = draw_queries([SMALL], entities=3, contexts=7, mentioning=2, seed=7)
    asked = [
        *sorted(entities.real, key=lambda e: by_hash("likes", "entity", e)),
        min(entities.invented, key=lambda e: by_hash("likes", "entity", e)),
    ]
    assert [case.id for case in cases] == [f"likes/{e}/{form}" for e in asked for form in ("open-1", "closed-1")]
    groups = [
        sorted([(e, a) for e in es for a in ans], key=lambda pair: by_hash("likes", "context", *pair))
        for es in (entities.real, entities.invented)
        for ans in (answers.real, answers.invented)
    ]
    pairs = [pair for pair in in_turn(groups) if pair != ("Bo", "Bo")]
    for open_, closed in zip(cases[::2], cases[1::2], strict=True):
        entity = factor(open_, "entity")
        right = "tea" if entity == "Anna" else None
        wrong = {
            use: [
                a
                for a in in_turn(
                    [
                        sorted(ans, key=lambda a: by_hash("likes", use, entity, a))
                        for ans in (answers.real, answers.invented)
                    ]
                )
                if a not in (entity, right)
            ]
            for use in ("mentioning", "named")
        }
        said = [(f"likes/c{i}", f"{e} likes {a}.", a) for i, (e, a) in enumerate(pairs, 1) if entity not in (e, a)][:5]
        said += [(f"likes/{entity}/c{i}", f"{entity} likes {a}.", a) for i, a in enumerate(wrong["mentioning"][:2], 1)]
        assert [(context.id, context.text, context.answer) for context in open_.contexts] == said
        assert closed.contexts is open_.contexts
        assert (open_.query.text, open_.query.answer) == (f"{entity} likes", right)
        coins = by_hash("likes", "coins", entity)[0]
        named = right if right is not None and coins % 2 else wrong["named"][coins // 2 % 2]
        assert closed.query.text == f"Does {entity} like {named}?"
        assert closed.query.answer == (None if right is None else "Yes" if named == right else "No")
        assert closed.query.factors == (
            ("relation", "likes"),
            ("openness", "closed"),
            ("form", "question"),
            ("entity", entity),
            ("familiarity", "real" if entity in entities.real else "invented"),
            ("named", named),
        )


def test_forms_of_an_entity_share_contexts_and_entities_share_most() -> None:
    (author,) = choose_relations(load_relations(), names=["author"])
    cases = draw_queries([author], entities=20, contexts=64, mentioning=4)
    assert Counter((factor(case, "familiarity"), factor(case, "openness"), factor(case, "form")) for case in cases) == {
        (familiarity, openness, form): 10 * (1 + (openness == "closed"))
        for familiarity in ("real", "invented")
        for openness, form in (("open", "question"), ("open", "completion"), ("closed", "question"))
    }
    texts: dict[str, str] = {}
    for i in range(0, 80, 4):
        forms = cases[i : i + 4]
        assert {case.contexts for case in forms} == {forms[0].contexts}
        entity, contexts = factor(forms[0], "entity"), forms[0].contexts
        assert len({context.text for context in contexts}) == 64
        assert [entity in context.text for context in contexts] == [False] * 60 + [True] * 4
        for context in contexts:
            assert texts.setdefault(context.id, context.text) == context.text
            assert context.text.endswith(f" {context.answer}.")
    shared = [{context.id for context in case.contexts[:60]} for case in cases]
    assert len(set.intersection(*shared)) > 30
    assert 28 <= sum(context.answer in author.answers.real for context in cases[0].contexts) <= 36


def test_a_name_more_leaves_what_does_not_draw_it_as_it_was() -> None:
    grown = replace(SMALL, entities=Names((*SMALL.entities.real, "Cy"), SMALL.entities.invented))
    before = {case.id: case for case in draw_queries([SMALL], entities=4, contexts=3, mentioning=3)}
    after = {case.id: case for case in draw_queries([grown], entities=5, contexts=3, mentioning=3)}
    assert {id_: after[id_] for id_ in before} == before
    # Names of one sort alone are all that is drawn.
    only = Relation("r", ("{entity} is",), (), "{entity} is {answer}.", Names(("a", "b", "c")), Names((), ("x",)))
    cases = draw_queries([only], entities=3, contexts=2, mentioning=0)
    assert sorted(factor(case, "entity") for case in cases) == ["a", "b", "c"]


def test_draws_are_independent_of_each_other() -> None:
    capital, author = choose_relations(load_relations(), names=["capital", "author"])
    few = draw_queries([author], entities=6, contexts=8, mentioning=2, seed=3)
    assert few == draw_queries([author], entities=6, contexts=8, mentioning=2, seed=3)
    more = {case.id: case for case in draw_queries([capital, author], entities=30, contexts=8, mentioning=2, seed=3)}
    assert [more[case.id] for case in few] == few
    wider = {case.id: case for case in draw_queries([author], entities=6, contexts=32, mentioning=2, seed=3)}
    for case in few:
        assert wider[case.id].query == case.query
        assert wider[case.id].contexts[:6] == case.contexts[:6]
        assert wider[case.id].contexts[-2:] == case.contexts[-2:]
    other = draw_queries([author], entities=6, contexts=8, mentioning=2, seed=4)
    assert {case.id for case in other} != {case.id for case in few}
    assert other[0].contexts != few[0].contexts


def test_closed_queries_name_the_right_answer_half_of_the_time() -> None:
    known = [relation for relation in load_relations() if relation.pairs][:4]
    cases = draw_queries(known, entities=24, contexts=1, mentioning=1)
    right = {(relation.name, entity): answer for relation in known for entity, answer in relation.pairs}
    told = Counter()
    for case in cases:
        answer = right.get((factor(case, "relation"), factor(case, "entity")))
        assert case.contexts[0].answer != answer
        assert case.query.answers == ()
        if factor(case, "openness") == "open":
            assert case.query.answer == answer
        else:
            named = factor(case, "named")
            assert case.query.answer == (None if answer is None else "Yes" if named == answer else "No")
            assert named in case.query.text
            told[case.query.answer] += 1
    assert 0.4 < told["Yes"] / (told["Yes"] + told["No"]) < 0.6


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"entities": 0}, "entities is 0; it has to be 1 or more"),
        ({"contexts": 0}, "contexts is 0; it has to be 1 or more"),
        ({"mentioning": 6}, "mentioning is 6; it has to be from 0 to 5, the contexts of a query"),
        ({"mentioning": -1}, "mentioning is -1"),
        ({"seed": -1}, "seed is -1; it has to be 0 or more"),
        ({"entities": 6}, "relation 'likes' has 2 real entities and 3 are asked for; give fewer entities"),
        ({"contexts": 5000}, "has names for 9 contexts that do not name the entity asked about, and 4,998 are asked"),
        ({"mentioning": 4}, "has names for 3 contexts that say a wrong answer of the entity asked about, and 4 are"),
    ],
)
def test_draws_that_cannot_be_made_are_told(asked: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError) as ended:
        draw_queries([SMALL], **{"entities": 2, "contexts": 5, "mentioning": 2, **asked})
    assert told in str(ended.value)
    assert "Anna" not in str(ended.value)


def test_relations_are_chosen_by_name_and_by_lot() -> None:
    found = load_relations()
    assert choose_relations(found) == found
    assert [relation.name for relation in choose_relations(found, names=["capital", "author"])] == [
        relation.name for relation in found if relation.name in ("author", "capital")
    ]
    few, more = (set(choose_relations(found, n=n, seed=5)) for n in (3, 9))
    assert few < more
    assert len(more) == 9
    assert set(choose_relations(found, n=9, seed=6)) != more
    with pytest.raises(UnknownNameError, match="no relation named 'autor'; did you mean 'author'"):
        choose_relations(found, names=["autor"])
    with pytest.raises(UsageError, match="relations is 61; it has to be from 1 to 60"):
        choose_relations(found, n=61)
    with pytest.raises(UsageError, match="seed is -1"):
        choose_relations(found, n=1, seed=-1)
