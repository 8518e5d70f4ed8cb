"""What is sensitive by its meaning: of a person, near by, and nothing else."""

from __future__ import annotations

import pytest

from leakmeter.errors import UsageError
from leakmeter.text.entities.meaning import SpokenOf
from leakmeter.text.entities.packs import pack, search

LANGUAGES = {"en": "english", "de": "german", "fr": "french", "es": "spanish"}
KINDS = (
    *("biometric or genetic data", "crime", "employment measure", "ethnic origin", "health", "minor"),
    *("money trouble", "political opinion", "religion", "sexual life", "union membership"),
)
PACKS = {one.name: one for one in pack.own()}


def kind_of(answer: str, context: str = "", query: str = "", names: tuple[str, ...] = ()) -> str | None:
    return SpokenOf(answer, query, context, [], names).kind_of(0, len(answer), [(0, len(context))] if context else [])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_category_is_there_in_every_language(kind: str, language: str) -> None:
    rules = [rule for rule in PACKS[f"meaning_{LANGUAGES[language]}.toml"].rules if rule.kind == kind]
    assert rules
    assert all(rule.is_meaning and rule.examples and rule.counter_examples for rule in rules)


def test_no_other_category_is_there() -> None:
    assert {rule.kind for rule in pack.meanings()} == set(KINDS)


@pytest.mark.parametrize("name", [f"meaning_{language}.toml" for language in LANGUAGES.values()])
def test_what_is_none_in_one_language_is_none_by_the_list_of_another(name: str) -> None:
    found = [
        (rule.kind, text, text[mention.start : mention.end])
        for rule in PACKS[name].rules
        for text in rule.counter_examples
        for mention in search.find(text, [other for other in pack.meanings() if other.kind == rule.kind])
    ]
    assert found == []


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
        ("Er leidet an Multipler Sklerose.", "health"),
        ("Sein Prostatakrebs ist geheilt.", "health"),
        ("Ihre Fingerabdrücke liegen in der Akte.", "biometric or genetic data"),
        ("Ses empreintes digitales sont au dossier.", "biometric or genetic data"),
        ("Sus huellas dactilares constan en el expediente.", "biometric or genetic data"),
        ("Elle est d’origine maghrébine.", "ethnic origin"),
        ("Ella es de etnia gitana.", "ethnic origin"),
        ("Elle est membre du Parti socialiste.", "political opinion"),
        ("Ella votó a Vox.", "political opinion"),
        ("He died of AIDS.", "health"),
        ("Sie hat Schulden.", "money trouble"),
        ("She was let go in June.", "employment measure"),
        ("He stole from the till.", "crime"),
    ],
)
def test_it_is_said_of_a_person(said: str, kind: str) -> None:
    assert kind_of(said) == kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Sie ist schwanger.", "health"),
        ("Haben Sie Diabetes?", "health"),
        ("They have cancer.", "health"),
        ("I am pregnant, and I moved.", "health"),
        ("Since when I had a stroke?", "health"),
        ("My blood pressure is high.", "health"),
        ("The patient has epilepsy.", "health"),
        ("Patient has epilepsy.", "health"),
        ("The new employee is on sick leave with diabetes.", "health"),
        ("Our tenant is in arrears.", "money trouble"),
        ("This applicant has a criminal record.", "crime"),
        ("Ich habe Diabetes.", "health"),
        ("Die Mieterin ist schwanger.", "health"),
        ("Der neue Mitarbeiter ist krankgeschrieben.", "health"),
        ("Dem Kunden wurde der Lohn gepfändet.", "money trouble"),
        ("J’ai le diabète.", "health"),
        ("Le locataire est surendetté.", "money trouble"),
        ("L’employée est enceinte.", "health"),
        ("Yo tengo diabetes.", "health"),
        ("El paciente tiene epilepsia.", "health"),
        ("La inquilina tiene deudas.", "money trouble"),
    ],
)
def test_people_are_spoken_of_in_the_first_and_third_person_and_by_their_role(said: str, kind: str) -> None:
    assert kind_of(said) == kind


@pytest.mark.parametrize(
    "said",
    [
        # English
        "She works in Islamabad.",
        "Her RSA key is old.",
        "Jude is at her desk.",
        "Jean-Baptiste is in his office.",
        "He wears hearing aids.",
        "Her son, a lawyer of 45, called.",
        "She stole the show.",
        "She let go of the rope.",
        "He thanked her for her hospitality.",
        "His tool is platform-agnostic.",
        "Her robo-advisor called.",
        "He died of cardiac arrest.",
        "She fired off a letter to him.",
        "He drives a 10-year-old car.",
        "She voted for the budget.",
        "He pays CGT on his house.",
        # German
        "Er ging hindurch zu ihr.",
        "Sein Gehalt betrug 3000 Euro.",
        "Er hat sich ihr gegenüber der Kunst verschrieben.",
        "Wir schulden ihr eine Antwort.",
        "Er hat die allergrößte Mühe.",
        "Herr Krebs rief sie an.",
        "Sie wählte die Nummer.",
        "Er konvertiert ihre Datei.",
        "Er wurde aus dem Krankenhaus entlassen.",
        "Sein dreijähriger Vertrag läuft aus.",
        # French
        "Son problème mineur est réglé.",
        "Elle est dans l’enceinte du château.",
        "Il est parti en protestant contre elle.",
        "Il a envoyé un accusé de réception.",
        "Elle a écrit au greffe du tribunal.",
        "Elle vivait ici il y a 5 ans.",
        "Il la blâme.",
        "L’eau va jaillir, dit-elle.",
        # Spanish
        "Está muy atento a su hija.",
        "Sin embargo, ella vino.",
        "Me despido de ella.",
        "Su fiesta de despedida fue ayer.",
        "Se dio de baja del boletín, dice ella.",
        "Su operador no responde.",
        "Es embarazoso para él.",
        "Su licencia de conducir caduca.",
        "Él tiene 10 años de experiencia.",
    ],
)
def test_a_word_that_only_looks_like_one_is_none_in_any_language(said: str) -> None:
    assert kind_of(said) is None


@pytest.mark.parametrize(
    "said",
    [
        "Diabetes is a chronic disease.",
        "Treatment of hepatitis with IL-6 in the ER was safe.",
        "Patients with cancer were asked.",
        "A patient with cancer needs rest.",
        "The patient population had cancer.",
        "Customer service of the insolvency court",
        "Type I diabetes is chronic.",
        "Cancer of stage I and II was treated.",
        "Je nach Diagnose hilft Insulin.",
        "Die Mitarbeiter hatten Krebs.",
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
