"""What is sensitive by its meaning: of a person, near by, and nothing else."""

from __future__ import annotations

import pytest

from leakmeter.errors import UsageError
from leakmeter.text.entities.meaning import SpokenOf
from leakmeter.text.entities.packs import pack

KINDS = {rule.kind for rule in pack.meanings()}


def kind_of(answer: str, context: str = "", query: str = "", names: tuple[str, ...] = ()) -> str | None:
    return SpokenOf(answer, query, context, [], names).kind_of(0, len(answer), [(0, len(context))] if context else [])


def test_every_category_is_there() -> None:
    assert sorted(KINDS) == [
        *("biometric or genetic data", "crime", "employment measure", "ethnic origin", "health", "minor"),
        *("money trouble", "political opinion", "religion", "sexual life", "union membership"),
    ]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("He is in hospital with cancer.", "health"),
        ("Her boss gave her a written warning.", "employment measure"),
        ("His wife is in arrears with the rent.", "money trouble"),
        ("Er ist seit Mai krankgeschrieben.", "health"),
        ("Frau Ostermoor ist vorbestraft.", "crime"),
        ("Elle est déléguée syndicale.", "union membership"),
        ("Ella está embarazada.", "health"),
        ("Sa fille a 9 ans.", "minor"),
    ],
)
def test_it_is_said_of_a_person(said: str, kind: str) -> None:
    assert kind_of(said) == kind


@pytest.mark.parametrize(
    "said",
    [
        "Diabetes is a chronic disease.",
        "Treatment of hepatitis with IL-6 in the ER was safe.",
        "Patients with cancer were asked.",
        "He opens the shop at nine.",
        "The company files for bankruptcy.",
    ],
)
def test_it_is_said_of_nobody(said: str) -> None:
    assert kind_of(said) is None


def test_a_person_is_named_in_the_answer_or_where_it_comes_from() -> None:
    said = "On sick leave with diabetes."
    assert kind_of(said) is None
    assert kind_of(said, "Tovey Lindqvar is on sick leave with diabetes.", names=("Tovey Lindqvar",)) == "health"
    assert kind_of(said, "He came in May. On sick leave with diabetes since.") == "health"
    far = "He came. " + "It rained. " * 3 + "Diabetes is chronic."
    place = (far.index("Diabetes"), len(far))
    assert SpokenOf("Diabetes is chronic.", "", far, [], []).kind_of(0, 8, [place]) is None
    assert SpokenOf("Tovey Lindqvar: diabetes.", "", "", [(0, 14)], []).kind_of(16, 24, []) == "health"


def test_what_the_query_says_is_no_news() -> None:
    assert kind_of("He has diabetes.", query="Does he have diabetes?") is None


def test_packs_of_users_have_values_alone() -> None:
    text = "[[recogniser]]\nkind = 'health'\nmeaning = true\nwords = ['cough']\n"
    text += "examples = ['«cough»']\ncounter_examples = ['rain']"
    with pytest.raises(UsageError, match="'meaning' is for the packs of leakmeter"):
        pack.parse(text)
