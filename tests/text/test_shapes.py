"""Values by their shape, in four languages, and what looks like one and is none."""

from __future__ import annotations

from importlib import resources

import pytest

from leakmeter.text.entities import packs, shapes, values
from leakmeter.text.matching import Folded


def shaped(text: str, around: str = "") -> list[tuple[str, str]]:
    return [(mention.type, text[mention.start : mention.end]) for mention in shapes.find(text, around)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use YnJld3N5bmMtbGl2ZQ7f== as the token.", ("key", "YnJld3N5bmMtbGl2ZQ7f==")),
        ("The key is sk_live_9f935f78a4.", ("key", "sk_live_9f935f78a4")),
        ("Log in with hunter#2207 today.", ("key", "hunter#2207")),
        ("Your code BREWCREW-30 still works.", ("code", "BREWCREW-30")),
        ("Ticket 91005-XT is open.", ("code", "91005-XT")),
        ("The seat is AB123.", ("code", "AB123")),
        ("Type 7306, then the hash.", ("number", "7306")),
        ("Call 0161 496 0382 after noon.", ("number", "0161 496 0382")),
        ("Pay into GB95 NWBK 5954 0847 6307 34.", ("account", "GB95 NWBK 5954 0847 6307 34")),
        ("He owes £7,050 still.", ("amount", "£7,050")),
        ("It costs £350 a month.", ("amount", "£350")),
        ("Er zahlt 2.250 Euro im Monat.", ("amount", "2.250 Euro")),
        ("It is zero seven, seven four one.", ("number in words", "zero seven, seven four one")),
        ("Die Nummer ist null drei null zwei.", ("number in words", "null drei null zwei")),
        ("El número: cuatro nueve tres cero.", ("number in words", "cuatro nueve tres cero")),
        ("La livraison va au 40 route de Sainte-Aubrance.", ("address", "40 route de Sainte-Aubrance")),
        ("C'est 12 rue Aa à Thionville, dit-il.", ("address", "12 rue Aa à Thionville")),
        ("Die Adresse ist Unterm Steinbruch 9 in Steyr.", ("address", "Unterm Steinbruch 9 in Steyr")),
        ("Vive en la glorieta de los Tilos, 5, desde mayo.", ("address", "glorieta de los Tilos, 5")),
        ("It belongs to Fergus Adeyinka now.", ("person", "Fergus Adeyinka")),
        ("It was lent to Ozwella Oyelaran's sister.", ("name", "Ozwella Oyelaran")),
        # Of rare given names a list knows many; alone they may be a place or a firm.
        ("It was lent to Oluchi Oyelaran's sister.", ("person", "Oluchi Oyelaran")),
        ("Dann rief Thanh Brinkschulte an, und der Termin ist nicht mehr frei.", ("person", "Thanh Brinkschulte")),
        ("Wczoraj dzwoniła Ludmiła Zawisza w tej sprawie.", ("person", "Ludmiła Zawisza")),
        (
            "When all the plants die in the winter of the north, it is lent to Ozwella Oyelaran.",
            ("name", "Ozwella Oyelaran"),
        ),
        # A firm may be called after somebody, and is nobody.
        ("It was made by Mason Industries in May.", ("name", "Mason Industries")),
        ("Sie arbeitet bei der Thomas Brinkschulte GmbH, und das ist nicht neu.", ("name", "Thomas Brinkschulte")),
        ("It was lent to Mason Holding's sister.", ("person", "Mason Holding")),
        ("à Fergus, merci.", ("person", "Fergus")),
        ("Die Wohnung bekam Milan Brinkschulte im Mai.", ("person", "Milan Brinkschulte")),
    ],
)
def test_a_shape_says_what_it_is(text: str, expected: tuple[str, str]) -> None:
    assert expected in shaped(text)


@pytest.mark.parametrize(
    "text",
    [
        "Descale it every 3 months with 250ml of water, at 8:30am, for 24-hour use.",
        "It was built in 1998 and sold in 2024.",
        "The tent holds 4000 millimetres of water and weighs 2.1 kilos.",
        "Delivery costs £7.50, £12 or £35.",
        "Come on Monday in January, or at Easter.",
        "Der Zug hält zwei Tage in der Stadt, die Rate der Bank steigt.",
        "If you like, I can help. However, Please wait.",
        "Un peu de sel, deux oignons.",
        "It opened in British Columbia.",
        "Of these PTC and the SPs were in trial NCT00069784, as was rs1061170.",
        "In sub-Saharan Africa the ISO-9001 norm is rare.",
    ],
)
def test_what_is_none_has_no_shape(text: str) -> None:
    assert shaped(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Marcus is in hospital with HIV. The canteen opens at nine.", "Marcus"),
        ("Priya had an abortion in March.", "Priya"),
        ("Anna's test was positive.", "Anna"),
        ("**Anna** cannot come.", "Anna"),
        ("Anna, 34, has asked.", "Anna"),
        ("Anna, who is ill, left.", "Anna"),
        ("It rains.\nMarcus hasn’t called.", "Marcus"),
        ("Mark never told them.", "Mark"),
        ("Anna erwartet ein Kind.", "Anna"),
        ("Marcus liegt mit HIV im Krankenhaus, und der Bus kommt.", "Marcus"),
        ("Ich glaube, Marcus hat HIV und liegt im Krankenhaus.", "Marcus"),
        ("Camille n’est pas venue.", "Camille"),
        ("Marcus a le VIH.", "Marcus"),
        ("Marta abortó en marzo.", "Marta"),
        ("Lucía está embarazada.", "Lucía"),
    ],
)
def test_a_first_name_alone_opens_a_sentence_where_a_verb_or_a_possessive_says_that_it_is_somebody(
    text: str, name: str
) -> None:
    assert shaped(text) == [("person", name)]


@pytest.mark.parametrize(
    "text",
    [
        *("March is wet.", "May had been cold.", "April's rain helps.", "Will is strong.", "Grace is a virtue."),
        *("Hope remains.", "Rose wine is pink.", "Faith's role is small.", "Paris is a city.", "Florence is old."),
        *("Virginia is a state.", "Charlotte is in North Carolina.", "Jordan has a king.", "Georgia has a coast."),
        *("St. Louis is a city.", "The tea helps. St. John's wort was not tested.", "Apple is late."),
        *("Siri is on.", "Alexa is off.", "Server was restarted.", "Can is a word.", "Over is over."),
        *("Roman skulls were found.", "Marcus", "Anna or"),
        *("Una es mejor.", "Ella está aquí.", "Pero es caro.", "Einer ist da."),
        *("Tage sind lang, und der Tag hat Stunden.", "Der Wolf ist das Tier der Nacht."),
    ],
)
def test_what_else_opens_a_sentence_before_a_verb_is_nobody(text: str) -> None:
    assert [value for value in shaped(text) if value[0] == "person"] == []


def test_a_heading_of_ordinary_words_is_no_name() -> None:
    assert shaped("It is a goal of Healthy People.", "Most people are healthy.") == []
    assert shaped("It is a goal of Ruaridh Penhallow.", "Most people are healthy.") != []


@pytest.mark.parametrize(
    "text",
    [
        "It was in June (Age: 38 at the visit).",
        "- **Confidential Notes:** Encrypted.",
        "**Patient Name**: not known",
        "- **Key Observations:** none, **Key Observations**: none",
    ],
)
def test_a_label_is_no_name(text: str) -> None:
    assert list(shapes.find(text)) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Call them.\n- Dorrick Valtorp: desk 3", "dorrick valtorp"),
        ("**Anna Quillmere:** I agree.", "anna quillmere"),
        ("It was **Dorrick Valtorp**: so they said.\nThen Dorrick Valtorp left.", "dorrick valtorp"),
        ("I spoke to Anna: it is agreed.", "anna"),
    ],
)
def test_a_name_before_a_colon_is_one(text: str, name: str) -> None:
    assert name in {mention.value for mention in shapes.find(text)}


def test_a_last_name_is_known_by_the_documents() -> None:
    assert shaped("Ask Dobrovic about it.", "Anneke Dobrovic counts the watches.") == [("name", "Dobrovic")]
    assert shaped("Dobrovic knows.", "Anneke Dobrovic counts the watches.") == [("name", "Dobrovic")]
    around = "Frau Ostermoor verwaltet das Konto, und der Keller ist nass."
    assert shaped("Das weiß Ostermoor.", around) == [("person", "Ostermoor")]


def test_a_pair_of_words_is_a_name_where_nouns_are_capitalised_if_no_article_stands_before_it() -> None:
    around = "Der Balkon gehört Orlun Brinkschulte. Das Zelt Fjella steht im Keller, und die Tür ist nass."
    assert shaped("Es gibt eine Aussage von Orlun Brinkschulte dazu.", around) == [("name", "Orlun Brinkschulte")]
    assert shaped("Es gibt das Zelt Fjella dazu.", around) == []
    # Of two words that open a sentence, the first may be any.
    assert shaped("Orlun Brinkschulte weiß es.", around) == []


def test_values_of_the_question_are_none() -> None:
    answer = "Marisol Vantreight is on 0161 496 0382."
    assert [value.type for value in values.find(answer, "", "", region="US")] == ["person", "number"]
    asked = values.find(answer, "", "What is the number of Marisol Vantreight?", region="US")
    assert [answer[value.start : value.end] for value in asked] == ["0161 496 0382"]


def test_a_recogniser_comes_before_a_shape_and_a_list_before_both() -> None:
    answer = "Write to ada@vale.example or call +1 202 555 0143."
    known = values.find(answer, "", "", region="US")
    assert [(value.type, value.found_by) for value in known] == [("email", "recogniser"), ("phone", "recogniser")]
    context = "ada@vale.example"
    (first, *_) = values.find(answer, context, "", region="US", listed=[(0, len(context), "crm_mail")])
    assert (first.type, first.found_by) == ("crm_mail", "list")


@pytest.mark.parametrize(
    ("said", "text", "where"),
    [
        ("0161-496-0382", "Ring (0161) 496 0382 now", "0161) 496 0382"),
        ("Ada VALE", "by ada vale.", "ada vale"),
        ("zero one six one", "Dial 0161 first", "0161"),
        ("0161", "Dial zero one, six one first", "zero one, six one"),
        ("sieben drei null sechs", "Code 7306", "7306"),
    ],
)
def test_a_value_is_found_however_it_is_written(said: str, text: str, where: str) -> None:
    place = Folded(text).where(said)
    assert place is not None
    assert text[slice(*place)] == where


@pytest.mark.parametrize(
    ("said", "text"),
    [("Gil", "Ask Gills now"), ("rill", "a drill bit"), ("ill", "Gill bit"), ("4120", "Take 41 or 20 of them")],
)
def test_a_part_of_a_word_or_of_a_number_is_not_the_value(said: str, text: str) -> None:
    assert Folded(text).where(said) is None


def test_a_code_is_not_found_by_its_digits_alone() -> None:
    assert Folded("Dial 91005").where("91005-XT") is None
    assert Folded("one two three").where("123") is None  # three digits are in every text


def test_the_list_of_given_names_goes_with_its_licence() -> None:
    text = (resources.files(packs) / "given_names.txt").read_text(encoding="utf-8")
    about = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    assert "Copyright (c) 2022 Ian Van Buskirk Permission" in " ".join(about.split())
    assert "The above copyright notice and this permission notice shall be included" in about
