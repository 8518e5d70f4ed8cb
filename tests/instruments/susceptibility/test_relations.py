"""Relations: the set that ships, a user's own, the published form, and what is drawn of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from helpers.docs_blocks import blocks
from helpers.places import DOCS, SHARED
from leakmeter.errors import DataError, LeakmeterError, UnknownNameError, UsageError
from leakmeter.instruments.susceptibility import relations
from leakmeter.instruments.susceptibility.case import QueryCase
from leakmeter.instruments.susceptibility.relations import (
    EntityNames,
    Relation,
    choose_relations,
    draw_queries,
    fill,
    load_relations,
)

YAGO = SHARED / "data" / "yago"
OWN = """
[kinds.colleague]
real = ["Anna Berg", "Ole Lund"]
invented = ["Tarvo Quillane"]

[relations.works-in]
entities = "colleague"
answers = "city"
open = ["Q: Where does {entity} work?\\nA:", "{entity} works in "]
closed = ["Q: Does {entity} work in {answer}?\\nA:"]

[relations.works-in.pairs]
"Anna Berg" = "Oslo"
"Bo Ek" = "Lyon"
"""


def own(text: str, folder: Path) -> tuple[Relation, ...]:
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return load_relations(str(path))


def shipped_kinds() -> dict[str, EntityNames]:
    return relations._shipped()[0]


def test_the_set_that_ships_has_relations_enough() -> None:
    found = load_relations()
    assert len({relation.name for relation in found}) == len(found) == 60
    for relation in found:
        asks = [("?" in template, template.endswith("\nA:")) for template in relation.open]
        assert (asks, len(relation.closed)) == ([(True, True), (False, False)], 2)
        assert all(template.startswith("Q: ") and template.endswith("?\nA:") for template in relation.closed)
        assert relation.context.endswith(".")
        assert not any("  " in text for text in (*relation.open, *relation.closed, relation.context))


def test_every_kind_that_ships_has_names_enough_and_none_is_both_real_and_invented() -> None:
    kinds = shipped_kinds()
    assert len(kinds) == 35
    assert all(min(len(names.real), len(names.invented)) >= 30 for names in kinds.values())
    real = {name.casefold() for names in kinds.values() for name in names.real}
    real |= {answer.casefold() for relation in load_relations() for _, answer in relation.pairs}
    invented = Counter(name.casefold() for names in kinds.values() for name in names.invented)
    assert not real & set(invented)
    assert set(invented.values()) == {1}


def test_right_answers_that_ship_are_of_the_kind_asked_about() -> None:
    kinds = shipped_kinds()
    known = [relation for relation in load_relations() if relation.pairs]
    assert len(known) == 16
    for relation in known:
        assert len(relation.pairs) >= 30
        # Pairs add no entity, so that their names are ones that a kind has.
        assert any(relation.entities == names for names in kinds.values()), relation.name
    right = {relation.name: dict(relation.pairs) for relation in known}
    assert (right["capital"]["Australia"], right["author"]["Dead Souls"]) == ("Canberra", "Nikolai Gogol")


@pytest.mark.skipif(not YAGO.is_dir(), reason="the shared samples are not here")
def test_no_template_that_ships_is_a_published_one() -> None:
    def plain(text: str) -> str:
        return " ".join(re.findall(r"\w+", text.casefold()))

    published = json.loads((YAGO / "query_templates.json").read_text(encoding="utf-8"))
    theirs = {plain(template) for forms in published.values() for key in forms for template in forms[key]}
    ours = {plain(template) for relation in load_relations() for template in (*relation.open, *relation.closed)}
    assert len(theirs) > 500
    assert not theirs & ours


def test_a_relation_of_ones_own(tmp_path: Path) -> None:
    (relation,) = own(OWN, tmp_path)
    city = shipped_kinds()["city"]
    assert relation == Relation(
        name="works-in", open=("Q: Where does {entity} work?\nA:", "{entity} works in "),
        closed=("Q: Does {entity} work in {answer}?\nA:",), context="{entity} works in {answer}.",
        entities=EntityNames(("Anna Berg", "Ole Lund", "Bo Ek"), ("Tarvo Quillane",)),
        answers=EntityNames((*city.real, "Oslo"), city.invented), pairs=(("Anna Berg", "Oslo"), ("Bo Ek", "Lyon")),
    )  # fmt: skip
    # A kind of one's own goes before one that ships.
    (relation,) = own(OWN + '\n[kinds.city]\nreal = ["Ys"]\n', tmp_path)
    assert relation.answers == EntityNames(("Ys", "Oslo", "Lyon"))


RELATION = '[relations.r]\nentities = "city"\nanswers = "city"\n'
OPEN = RELATION + 'open = ["{entity} is"]\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = ", "is not TOML: "),
        ("", "has no relation; expected one or more, each as [relations.NAME]"),
        ("x = 1", "unknown key 'x'; known: kinds, relations"),
        ("[relations]\nr = 3", "'relations' has to be tables"),
        ('[relations."a/b"]', "may not contain '/'"),
        ('[relations." "]', "'a name of relations' is empty, expected a name"),
        ('[relations.r]\nentities = "city"', "relation 'r' has no 'answers'; expected the name of a kind"),
        ('[relations.r]\nentities = "town"', "'entities' is 'town', expected one of 'airline', 'animal'"),
        ("[relations.r]\nentities = []", "'entities' is a list, expected text"),
        (RELATION, "relation 'r' has no queries; expected open or closed ones"),
        (RELATION + 'open = "{entity} is"', "'open' has to be a list of templates"),
        (RELATION + 'open = ["It is"]', "'open[1]' has no place for a name, {entity}"),
        (RELATION + 'open = ["{entity} {answer}"]', "'open[1]' asks for an answer and names one, {answer}"),
        (RELATION + 'open = ["{entity} is", "{entity} is"]', "'open' has one template twice"),
        (RELATION + 'closed = ["Is {entity}?"]', "'closed[1]' has no place for a name, {answer}"),
        (RELATION + 'open = ["{entity} {}"]', "'open[1]' has '{}'; the places for names are {entity} and {answer}"),
        (RELATION + 'open = ["{entity!r} is"]', "'open[1]' has '{entity!r}'"),
        (RELATION + 'open = ["{{entity}} is"]', "'open[1]' has '{'"),
        (RELATION + 'open = ["What is {entity}?"]', "has no 'context', and no open completion to make one of"),
        (OPEN + 'context = "{entity}"', "'context' has no place for a name, {answer}"),
        (OPEN + 'opened = ["x"]', "unknown key 'opened'; known: entities, answers, open"),
        (OPEN + 'pairs = ["x"]', "'pairs' has to be a table of entities and their right answers"),
        (OPEN + "pairs = {Rome = 3}", "'pairs[1]' is a number, expected text"),
        (OPEN + 'pairs = {Rome = ""}', "'pairs[1]' is empty, expected a name"),
        (OPEN + 'pairs = {Velmorra = "Rome"}', "the entity of 'pairs[1]' is an invented name, expected real ones"),
        (OPEN + 'pairs = {Rome = "x", " Rome" = "x"}', "the entity of 'pairs[2]' is twice there"),
        (OPEN + 'pairs = {Rome = "Velmorra"}', "the answer of 'pairs[1]' is an invented name, expected a real one"),
        (OPEN + "[kinds.city]", "relation 'r' has no entities; give at least one name"),
        (OPEN + "[kinds.k]\nnames = []", "kind 'k': unknown key 'names'; known: real, invented"),
        (OPEN + '[kinds.k]\nreal = "Anna"', "kind 'k': 'real' has to be a list of names"),
        (OPEN + '[kinds.k]\nreal = ["Anna", "Bo", " Anna "]', "kind 'k': 'real[3]' is the same name as 'real[1]'"),
        (OPEN + '[kinds.k]\nreal = ["Anna\\nBo"]', "kind 'k': 'real[1]' has several lines, expected a name"),
        (OPEN + '[kinds.k]\nreal = ["Anna"]\ninvented = ["Anna"]', "kind 'k': 'invented[1]' is a name of 'real' too"),
    ],
)
def test_a_bad_relation_is_one_line_that_repeats_no_name(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataError) as ended:
        own(text, tmp_path)
    assert told in str(ended.value)
    assert "own.toml" in str(ended.value)
    assert not re.search("\n|Anna", str(ended.value))


def test_files_that_are_no_relations(tmp_path: Path) -> None:
    for path, names, kind, told in (
        ("none.toml", None, DataError, r"none\.toml. cannot be read"),
        ("relations.yaml", None, DataError, r"of no known kind; expected \.toml, or \.json"),
        ("templates.json", None, UsageError, "contain no names; .* with --data relations.names=FILE"),
        ("own.toml", "names.json", UsageError, "is for JSON templates"),
    ):
        with pytest.raises(kind, match=told):
            load_relations(path, names=names)
    for value in ("[" * 9999, "9" * 9999):
        with pytest.raises(DataError, match="nested too deep, or with a number too long"):
            own(f"a = {value}", tmp_path)


def published(folder: Path, templates: object, names: object) -> tuple[Relation, ...]:
    for name, value in (("templates", templates), ("names", names)):
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return load_relations(str(folder / "templates.json"), names=str(folder / "names.json"))


FORMS = {"open": ["Q: Who wrote {entity}?\nA:", "{entity} is by"], "closed": ["Is {entity} by {answer}?"]}
BACK = {"open": ["{entity} wrote"], "closed": ["Did {entity} write {answer}?"]}


def test_published_templates_and_names(tmp_path: Path) -> None:
    found = published(
        tmp_path,
        {"http://x.org/author": FORMS, "reverse-http://x.org/author": BACK, "http://y.org/author": FORMS, "z": FORMS},
        {
            "http://x.org/author": [{"entity": "Emma", "uri": "Emma"}, "Dune"],
            "reverse-http://x.org/author": {"real": ["Jane Austen"], "invented": ["Ada Pell"]},
            "z": ["Left out"],
        },
    )
    assert [relation.name for relation in found] == ["author", "reverse-author"]
    assert found[0] == Relation(
        name="author", open=tuple(FORMS["open"]), closed=tuple(FORMS["closed"]), context="{entity} is by {answer}.",
        entities=EntityNames(("Emma", "Dune")), answers=EntityNames(("Jane Austen",), ("Ada Pell",)),
    )  # fmt: skip
    assert (found[1].entities, found[1].answers) == (found[0].answers, found[0].entities)


def test_published_relations_of_one_short_name_are_numbered(tmp_path: Path) -> None:
    addresses = [f"{back}http://{site}.org/author" for site in "xy" for back in ("", "reverse-")]
    found = published(tmp_path, dict.fromkeys(addresses, BACK), {address: ["Emma"] for address in addresses})
    assert [relation.name for relation in found] == ["author", "reverse-author", "author (2)", "reverse-author (2)"]


@pytest.mark.parametrize(
    ("templates", "names", "told"),
    [
        ("{", {}, "file of templates '.*' is not JSON"),
        ("[" * 99999, {}, "nested too deep"),
        ([], {}, "is no object of relations by name"),
        ({"r": FORMS}, {}, "has entities and answers for none of the relations"),
        ({"r": []}, {"r": ["Anna"]}, "relation 'r' is no object with 'open' and 'closed'"),
        ({"r": FORMS}, {"r": "Anna"}, "relation 'r': 'real' has to be a list of names"),
        ({"r": FORMS}, {"r": [{"name": "Anna"}]}, r"'real\[1\]' is null, expected text"),
        ({"r": FORMS}, {"r": ["Anna", "Anna"]}, r"'real\[2\]' is the same name as 'real\[1\]'"),
        ({"r": FORMS}, {"r": {"names": ["Anna"]}}, "is an object with other keys than 'real' and 'invented'"),
        ({"r": FORMS}, {"r": {"real": ["Anna"], "invented": ["Anna"]}}, "has one name in 'real' and in 'invented'"),
        ({"r": {"open": ["x"]}}, {"r": ["Anna"], "reverse-r": ["Anna"]}, "has no place for a name"),
        ({"\ud800": FORMS}, {}, "'the name of a relation' holds half a surrogate pair"),
        ({"a\nb": FORMS}, {}, "'the name of a relation' has several lines"),
    ],
)
def test_a_bad_published_file_is_one_line(tmp_path: Path, templates: Any, names: Any, told: str) -> None:
    with pytest.raises(LeakmeterError, match=told) as ended:
        published(tmp_path, templates, names)
    assert not re.search("\n|Anna", str(ended.value))


def test_the_files_that_the_documentation_shows_are_relations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("toml", "json", page=DOCS / "results" / "studies.md"):
        Path(str(block.title)).write_text(block.text, encoding="utf-8")
    for found in (load_relations("relations.toml"), load_relations("templates.json", names="names.json")):
        assert [relation.name for relation in found] == ["captain"]
        assert len(draw_queries(found, entities=2, contexts=3, mentioning=1)) == 6


@pytest.mark.skipif(not YAGO.is_dir(), reason="the shared samples are not here")
def test_the_published_files_are_read() -> None:
    found = load_relations(str(YAGO / "query_templates.json"), names=str(YAGO / "real_entities_by_relation.json"))
    assert len(found) == 22
    assert {(len(relation.open), len(relation.closed)) for relation in found} == {(2, 2)}
    (actor,) = choose_relations(found, names=["actor"])
    cases = draw_queries([actor], entities=3, contexts=16, mentioning=2)
    assert len(cases) == 12
    assert {dict(case.query.factors)["familiarity"] for case in cases} == {"real"}
    assert cases[1].contexts[0].text.startswith("'")


def test_a_name_that_looks_like_a_place_stays_as_it_is() -> None:
    for hostile in ("{answer}", "{entity}", "{0.__class__}", r"\g<0>\1", "%s", "{", "<|endoftext|>"):
        assert fill("{entity}: {answer}, {entity}", hostile, "x") == f"{hostile}: x, {hostile}"
        relation = Relation(
            "r", (), ("Is {entity} {answer}?",), "{entity} {answer}.", EntityNames((hostile,)), EntityNames(("x",))
        )
        (case,) = draw_queries([relation], entities=1, contexts=1, mentioning=1)
        assert case.query.text == f"Is {hostile} x?"
        assert [context.text for context in case.contexts] == [f"{hostile} x."]


SMALL = Relation(
    name="likes", open=("{entity} likes",), closed=("Does {entity} like {answer}?",),
    context="{entity} likes {answer}.", entities=EntityNames(("Anna", "Bo"), ("Xu", "Yr")),
    answers=EntityNames(("tea", "Bo"), ("zim", "zam")), pairs=(("Anna", "tea"),),
)  # fmt: skip


def factor(case: QueryCase, name: str) -> str:
    return dict(case.query.factors)[name]


def in_turn(groups: list[list[Any]]) -> list[Any]:
    return [one for turn in zip_longest(*groups) for one in turn if one is not None]


@pytest.mark.parametrize("seed", [2, 4, 7])
def test_what_is_drawn_is_what_the_hashes_say(seed: int) -> None:
    """Seeds at which the right answer is named, and is not."""
    entities, answers = SMALL.entities, SMALL.answers

    def by_hash(*parts: str) -> bytes:
        text = "".join(f"{len(part)}:{part}" for part in (str(seed), *parts))
        return hashlib.blake2b(text.encode(), digest_size=8).digest()

    def wrong(use: str, entity: str, right: str | None) -> list[str]:
        groups = [sorted(of, key=lambda a: by_hash("likes", use, entity, a)) for of in (answers.real, answers.invented)]
        return [a for a in in_turn(groups) if a not in (entity, right)]

    cases = draw_queries([SMALL], entities=3, contexts=7, mentioning=2, seed=seed)
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
        mentioned = wrong("mentioning", entity, right)[:2]
        said = [(f"likes/c{i}", f"{e} likes {a}.", a) for i, (e, a) in enumerate(pairs, 1) if entity not in (e, a)][:5]
        said += [(f"likes/{entity}/c{i}", f"{entity} likes {a}.", a) for i, a in enumerate(mentioned, 1)]
        assert [(context.id, context.text, context.answer) for context in open_.contexts] == said
        assert closed.contexts is open_.contexts
        assert (open_.query.text, open_.query.answer) == (f"{entity} likes", right)
        coins = by_hash("likes", "coins", entity)[0]
        named = right if right is not None and coins % 2 else wrong("named", entity, right)[coins // 2 % 2]
        assert closed.query.text == f"Does {entity} like {named}?"
        assert closed.query.answer == (None if right is None else "Yes" if named == right else "No")
        assert closed.query.factors == (
            ("relation", "likes"), ("openness", "closed"), ("form", "question"), ("entity", entity),
            ("familiarity", "real" if entity in entities.real else "invented"), ("named", named),
        )  # fmt: skip


def test_forms_of_an_entity_share_contexts_and_entities_share_most() -> None:
    (author,) = choose_relations(load_relations(), names=["author"])
    cases = draw_queries([author], entities=20, contexts=64, mentioning=4)
    assert Counter((factor(case, "familiarity"), factor(case, "openness"), factor(case, "form")) for case in cases) == {
        (familiarity, openness, form): 10 * (1 + (openness == "closed"))
        for familiarity in ("real", "invented")
        for openness, form in (("open", "question"), ("open", "completion"), ("closed", "question"))
    }
    for i in range(0, 80, 4):
        forms = cases[i : i + 4]
        assert {case.contexts for case in forms} == {forms[0].contexts}
        entity, texts = factor(forms[0], "entity"), [context.text for context in forms[0].contexts]
        assert len(set(texts)) == 64
        assert [entity in text for text in texts] == [False] * 60 + [True] * 4
    shared = [{context.id for context in case.contexts[:60]} for case in cases]
    assert len(set.intersection(*shared)) > 30
    assert 28 <= sum(context.answer in author.answers.real for context in cases[0].contexts) <= 36


def test_names_of_one_sort_alone_are_all_that_is_drawn() -> None:
    only = Relation(
        "r", ("{entity} is",), (), "{entity} is {answer}.", EntityNames(("a", "b", "c")), EntityNames((), ("x",))
    )
    cases = draw_queries([only], entities=3, contexts=2, mentioning=0)
    assert sorted(factor(case, "entity") for case in cases) == ["a", "b", "c"]


def test_draws_are_independent_of_each_other() -> None:
    capital, author = choose_relations(load_relations(), names=["capital", "author"])

    def drawn(*relations: Relation, entities: int = 6, contexts: int = 8, seed: int = 3) -> dict[str, QueryCase]:
        cases = draw_queries(relations, entities=entities, contexts=contexts, mentioning=2, seed=seed)
        return {case.id: case for case in cases}

    few, more, wider, other = (
        drawn(author), drawn(capital, author, entities=30), drawn(author, contexts=32), drawn(author, seed=4),
    )  # fmt: skip
    assert {id_: more[id_] for id_ in few} == few == drawn(author)
    for id_, case in few.items():
        assert wider[id_].query == case.query
        assert (*wider[id_].contexts[:6], *wider[id_].contexts[-2:]) == case.contexts
    assert few.keys() != other.keys()
    assert next(iter(other.values())).contexts != next(iter(few.values())).contexts


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
    for n, seed, told in ((61, 0, "relations is 61; it has to be from 1 to 60"), (1, -1, "seed is -1")):
        with pytest.raises(UsageError, match=told):
            choose_relations(found, n=n, seed=seed)
