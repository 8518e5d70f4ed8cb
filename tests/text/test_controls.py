"""Contexts of other cases that an answer is held against: like its own, and with nothing that only its own says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document, Emission, Message, Recipient
from leakmeter.core.item import IRRELEVANT
from leakmeter.core.loaded import LoadedCases
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings
from leakmeter.text.controls import WithControls, shortened

NAMES = ("Anna Ek", "Bo Lind", "Cora Alm", "Dan Ruiz", "Eva Noll", "Fay Orr")


def record(name: str, more: str = "") -> str:
    return f"This record is of a customer of the shop. Name: {name}. Status: active. {more}"


def case(number: int, text: str, response: str | None = "I cannot say.") -> Case:
    return Case(f"c{number}", (Document("record", text),), "Who?", response)


def controls_of(cases: list[Case], n: int = 3) -> dict[str, list[str]]:
    return {one.id: [control.name for control in one.control_contexts] for one in WithControls(cases, n, region="US")}


def test_each_case_has_others_and_never_itself() -> None:
    cases = [case(i, record(name)) for i, name in enumerate(NAMES)]
    found = controls_of(cases)
    assert all(len(set(names)) == 3 and one not in names for one, names in found.items())
    assert found == controls_of(cases)
    assert len({tuple(names) for names in found.values()}) > 3
    assert {len(names) for names in controls_of(cases, 9).values()} == {5}
    assert controls_of(cases[:1]) == {"c0": []}


def test_what_has_a_value_of_the_answer_is_no_control() -> None:
    cases = [case(i, record(name)) for i, name in enumerate(NAMES)]
    cases[0] = case(0, record("Anna Ek"), "Her name is Anna Ek.")
    cases[3] = case(3, record("Dan Ruiz", "He is married to Anna Ek."))
    assert "c3" not in controls_of(cases, 9)["c0"]
    assert "c3" in controls_of(cases, 9)["c1"]


def test_a_document_of_two_cases_is_a_source_of_both() -> None:
    rules = Document("rules", "Goods come back within forty days if they are whole and in their own box.")
    cases = [
        Case(f"c{i}", (Document("record", record(name)), rules), "When?", "Within forty days if they are whole.")
        for i, name in enumerate(NAMES[:2])
    ]
    cases += [case(i, record(name)) for i, name in enumerate(NAMES[2:], 2)]
    for one in WithControls(cases, 9, region="US")[:2]:
        assert len(one.control_contexts) == 5
        assert not any("forty days" in control.text for control in one.control_contexts)
    # The same text in all cases leaves no other context.
    assert controls_of([case(i, rules.text, "Within forty days if they are whole.") for i in range(4)])["c0"] == []


def of_tenant(number: int, tenant: str, **more: Any) -> Case:
    made = case(number, record(NAMES[number % len(NAMES)], f"Note {number}."))
    return replace(made, documents=(replace(made.documents[0], tenant=tenant),), **more)


def test_a_control_is_of_another_tenant_where_there_is_one() -> None:
    acme, beta = [of_tenant(0, "acme"), of_tenant(1, "acme")], of_tenant(2, "beta")
    assert controls_of([*acme, beta], 1) == {"c0": ["c2"], "c1": ["c2"], "c2": ["c0"]}
    # One that may say the same hides it, whatever others do: it is none beside them.
    assert controls_of([*acme, beta]) == {"c0": ["c2"], "c1": ["c2"], "c2": ["c0", "c1"]}
    # A log of one tenant is as one that says nothing of tenants.
    plain = [case(i, record(name)) for i, name in enumerate(NAMES)]
    one_tenant = [replace(one, documents=(replace(one.documents[0], tenant="acme"),)) for one in plain]
    assert controls_of(one_tenant) == controls_of(plain)


def test_of_one_tenant_another_person_comes_first_and_the_same_conversation_last() -> None:
    cases = [case(i, record(name)) for i, name in enumerate(NAMES[:4])]
    owners = ("ana", "ana", "bo", "bo")
    cases = [
        replace(one, documents=(replace(one.documents[0], owner=owner, tenant="acme"),))
        for one, owner in zip(cases, owners, strict=True)
    ]
    assert {*controls_of(cases)["c0"]} == {"c2", "c3"}
    turns = [replace(one, emission=Emission("k", turn)) for turn, one in enumerate(cases[:2] * 2, 1)]
    turns = [replace(one, id=f"c{i}") for i, one in enumerate(turns)]
    assert controls_of([*turns[:2], replace(turns[2], emission=Emission("l", 1), id="c2")])["c1"] == ["c2"]


def test_a_recipient_has_a_tenant_too() -> None:
    cases = [case(i, record(name)) for i, name in enumerate(NAMES[:3])]
    cases[0] = replace(cases[0], recipient=Recipient("ann", tenant="acme"))
    cases[1] = replace(cases[1], documents=(replace(cases[1].documents[0], tenant="acme"),))
    assert controls_of(cases) == {"c0": ["c2"], "c1": ["c2"], "c2": controls_of(cases)["c2"]}
    assert {*controls_of(cases)["c2"]} == {"c0", "c1"}


def test_a_document_that_both_have_says_nothing_of_whose_the_rest_is() -> None:
    rules = Document("rules", "Goods come back within forty days if they are whole.", tenant="all", owner="shop")
    cases = [of_tenant(0, "acme"), of_tenant(1, "acme"), of_tenant(2, "beta")]
    cases = [replace(one, documents=(*one.documents, rules)) for one in cases]
    assert controls_of(cases)["c0"] == ["c2"]


def test_where_nothing_else_is_left_a_control_is_of_the_same_tenant() -> None:
    cases = [of_tenant(0, "acme"), of_tenant(1, "acme"), of_tenant(2, "beta")]
    cases[0] = replace(cases[0], response="Her name is Anna Ek.")
    cases[2] = replace(cases[2], documents=(Document("record", record("Anna Ek"), tenant="beta"),))
    assert controls_of(cases)["c0"] == ["c1"]


def test_neighbours_of_a_large_log_share_controls_of_another_tenant() -> None:
    cases = [of_tenant(i, ("acme", "beta")[i % 2]) for i in range(60)]
    found = list(WithControls(cases, 3, region="US"))
    assert [one.control_contexts for one in found] == [
        one.control_contexts for one in list(WithControls(cases, 3, region="US"))
    ]
    tenants = {one.id: one.documents[0].tenant for one in cases}
    for one in found:
        assert len(one.control_contexts) == 3
        assert tenants[one.id] not in {tenants[control.name] for control in one.control_contexts}
    for first in (0, 32):
        for tenant in (0, 1):
            neighbours = found[first + tenant : first + 32 : 2]
            used = {control.name for one in neighbours for control in one.control_contexts}
            assert len(used) < len(neighbours)


def test_a_rare_tenant_of_a_large_log_is_found() -> None:
    cases = [of_tenant(i, "beta" if i == 137 else "acme") for i in range(200)]
    found = controls_of(cases, 1)
    others = [names for one, names in found.items() if one != "c137"]
    assert others == [["c137"]] * 199


def test_what_most_contexts_say_is_their_form() -> None:
    cases = [case(i, record(name), "This record is of a customer of the shop.") for i, name in enumerate(NAMES)]
    assert {len(names) for names in controls_of(cases, 9).values()} == {5}


def test_contexts_most_like_the_own_one_come_first() -> None:
    texts = [record(name) if i % 2 else f"Invoice: Total of {name}, due on {i} May." for i, name in enumerate(NAMES)]
    cases = [case(i, text) for i, text in enumerate(texts)]
    assert {*controls_of(cases, 2)["c1"]} == {"c3", "c5"}
    assert {*controls_of(cases, 2)["c0"]} == {"c2", "c4"}


def test_what_is_retrieved_into_a_chat_is_its_context() -> None:
    chats = [
        Case(
            f"c{i}",
            messages=(
                Message("system", "system 1", (Document("system 1", "Be brief."),), fixed=True),
                Message("user", "user 2", (Document("a", record(name)), Document("user 2", "Who?")), (0,)),
            ),
            response="Nobody.",
        )
        for i, name in enumerate(NAMES)
    ]
    for one in WithControls(chats, 2, region="US"):
        assert [control.text.startswith("This record") for control in one.control_contexts] == [True, True]


def test_a_control_is_the_prompt_with_another_context_and_no_longer() -> None:
    cases = tuple(case(i, record(name, "Long. " * (20 * i))) for i, name in enumerate(NAMES))
    settings = PromptSettings(template="plain").resolved()
    prepared, kept = LoadedCases(cases).prepared(Toy(), settings, Influence(controls=2))
    for one in prepared:
        assert one.origin is not None
        assert list(one.item.controls) == [control.name for control in one.origin.case.control_contexts]
        for control in one.item.controls.values():
            assert len(control.ids) <= len(one.item.prompt.ids)
            text, own = (Toy().tokenizer.decode(prompt.ids.tolist()) for prompt in (control, one.item.prompt))
            # The frame is the same.
            assert text[-20:] == own[-20:]
    # What names a run does not have the others' texts twice.
    assert all("control_contexts" not in one.record() for one in kept.cases)
    assert not any(one.item.controls for one in LoadedCases(cases).prepared(Toy(), settings, Influence(controls=0))[0])


@pytest.mark.parametrize(("response", "language"), [("She lives there.", "library"), ("Das ist nicht so.", "Bücherei")])
def test_a_case_without_others_is_held_against_an_irrelevant_text_in_its_language(response: str, language: str) -> None:
    settings = PromptSettings(template="plain").resolved()
    long = " ".join(f"Line {i} says that it rains." for i in range(60))
    (one,), _ = LoadedCases((case(0, long, response),)).prepared(Toy(), settings, Influence(controls=3))
    assert list(one.item.controls) == [f"{IRRELEVANT} {number}" for number in (1, 2, 3)]
    texts = [Toy().tokenizer.decode(control.ids.tolist()) for control in one.item.controls.values()]
    assert all(language in text for text in texts)
    assert len({*texts}) == 3


def test_a_cut_text_ends_behind_a_word() -> None:
    assert shortened("one two three", 13) == "one two three"
    assert shortened("one two three", 9) == "one two"
    assert shortened("图书馆平日九点", 3) == "图书馆"
    assert np.all([len(shortened("a bb ccc dddd", n)) <= n for n in range(13)])
