"""Decoys and control names: as many as asked for, unlike the true ones, of their form, and nobody's."""

from __future__ import annotations

import hashlib
import operator
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import phonenumbers
import pytest
from scipy import stats

from helpers.places import SAMPLES
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import canaries_of
from leakmeter.instruments.pii.decoys import (
    LEAST,
    control_names_of,
    decoys_of,
    others_in_place_of,
    renamed,
    share_place,
)
from leakmeter.instruments.pii.subject import Relation, Subject, ValueType
from leakmeter.instruments.pii.subjects import load_subjects
from leakmeter.text import folding
from leakmeter.text.surrogates.email import FREE_MAIL_EVERYWHERE, FREE_MAIL_OF_SUFFIX
from leakmeter.text.surrogates.origins import names_of
from leakmeter.text.surrogates.person import given_names
from leakmeter.text.surrogates.phone import EXCHANGES_OF_NOBODY
from leakmeter.text.surrogates.university import universities

JANE = Subject(
    "jane", "Jane Doe", phone="(205) 321-9876", email="jane.doe@gmail.com",
    address="742 W Evergreen Lane, Apt 3C, Troy, NY 12180",
    relationships=(Relation("father", "John R. Doe"), Relation("aunt", "Mary Poe"), Relation("friend", "Kim")),
    university="Rice University",
)  # fmt: skip


def made(type_: ValueType, value: str, region: str = "US", n: int = 50, name: str = "Jane Doe") -> tuple[str, ...]:
    told: dict[str, Any] = {type_: value}
    return decoys_of(Subject("x", name, region=region, **told), type_, n=n)


phones, emails, addresses = (partial(made, type_) for type_ in ("phone", "email", "address"))


def relatives(name: str, kind: str, of: str = "Jane Doe", n: int = 50) -> tuple[str, ...]:
    subject = Subject("x", of, relationships=(Relation(kind, name),))
    return decoys_of(subject, "relationship", relation=kind, n=n)


def test_decoys_are_many_and_none_is_true() -> None:
    odd = "{0} %s \\1 <|endoftext|> \x00 12"
    aunt = Relation("{kind}", "{name} Tom <|pad|>")
    hostile = Subject("{id}", odd, email="{x}@acme.com", address=f"12 {odd}", relationships=(aunt,))
    for subject, most in ((JANE, 50), (hostile, 5)):
        for type_, relation, value in subject.targets():
            n = 40 if value == "John R. Doe" else most
            decoys = decoys_of(subject, type_, relation=relation, n=n)
            assert len({decoy.casefold() for decoy in decoys} | {value.casefold()}) == n + 1
            assert not {known for _, _, known in subject.targets()} & set(decoys)
            assert subject is JANE or all("{" in decoy for decoy in decoys)
    for subject in load_subjects(SAMPLES / "subjects.toml").subjects:
        assert {len(decoys_of(subject, type_, relation=of, n=99)) for type_, of, _ in subject.targets()} == {99}
    # Nothing else that is true of the person is a decoy either.
    alone = Subject("x", "Jane Doe", relationships=(Relation("father", "John Roe"),))
    first, *_ = decoys_of(alone, "relationship", relation="father", n=50)
    both = replace(alone, relationships=(*alone.relationships, Relation("friend", first)))
    assert first not in decoys_of(both, "relationship", relation="father", n=50)


def national(text: str) -> str:
    return phonenumbers.national_significant_number(phonenumbers.parse(text, "US"))


@pytest.mark.parametrize(
    "phone",
    [
        *("(205) 321-9876", "+1 205 321 9876", "205.321.9876", "1-205-321-9876", "2053219876", "205-321-9876 ext. 204"),
        *("205-555-0123", "+1 (205) 555-0123 x7", "205-958-1234", "205-555-9876", "321-9876", "٢٠٥-٣٢١-٩٨٧٦"),
    ],
)
def test_numbers_keep_area_and_form_and_the_rules_of_their_plan(phone: str) -> None:
    true = national(phone)
    for decoy in phones(phone):
        assert re.sub(r"\d", "0", decoy) == re.sub(r"\d", "0", phone)
        new = national(decoy)
        assert new[:-7] == true[:-7]
        exchange, was = new[-7:-4], true[-7:-4]
        if was in EXCHANGES_OF_NOBODY:
            assert exchange == was
            assert was != "555" or (new[-4:-2] == "01") == (true[-4:-2] == "01")
        else:
            assert re.match(r"[2-9](?!11)", exchange)
            assert exchange not in EXCHANGES_OF_NOBODY
        parsed = phonenumbers.parse(decoy, "US")
        assert phonenumbers.is_possible_number(parsed)
        assert bool(parsed.extension) == bool(phonenumbers.parse(phone, "US").extension)


def test_numbers_elsewhere_keep_their_area_and_kind_and_fiction_has_ninety_nine_others() -> None:
    for phone, region, start in (
        *(("+44 (0)20 7946 0958", "US", "+44 (0)20 "), ("07700 900123", "GB", "07700 "), ("030 901820", "DE", "030 ")),
        *(("06 12 34 56 78", "FR", "06 "), ("06 698 12345", "IT", "06 "), ("22 82 82 82", "NO", "22 ")),
    ):
        kind = phonenumbers.number_type(phonenumbers.parse(phone, region))
        for decoy in phones(phone, region):
            assert decoy.startswith(start)
            assert phonenumbers.number_type(phonenumbers.parse(decoy, region)) == kind
            assert re.sub(r"\d", "0", decoy) == re.sub(r"\d", "0", phone)
    assert set(phones("(205) 555-0123", n=99)) == {f"(205) 555-01{n:02}" for n in range(100)} - {"(205) 555-0123"}
    with pytest.raises(UsageError, match="100 decoys of the phone are needed, and 99 other values"):
        phones("(205) 555-0123", n=100)


def test_names_of_every_kind_give_addresses() -> None:
    for name, email in (
        ("Dr. José Núñez-Ortega Jr.", "jose.ortega@yahoo.com"), ("Siân O'Neil", "soneil@gmail.com"),
        ("Sting", "sting@gmail.com"), ("王伟", "wangwei@163.com"), ("{first} {last}", "first.last@gmail.com"),
        ("%s \\1 <|endoftext|>", "x@acme.com"), ("!!!", "!!!@acme.com"), ("Jane Doe", "me@janedoe.com"),
    ):  # fmt: skip
        decoys = emails(email, name=name, n=40)
        assert len(set(decoys)) == 40
        assert all(decoy.startswith(email[0]) for decoy in decoys)
    assert len(emails("me@janedoe.com", n=99)) == len(emails("jane.doe@gmail.com", n=99)) == 99


@pytest.mark.parametrize(
    ("name", "email"),
    [
        *(("Jürgen Groß", "juergen.gross@gmail.com"), ("Heike Müller", "heike.mueller@web.de")),
        *(("Heike Müller", "hmuller@gmx.de"), ("Søren Ågaard", "soeren.aagaard@gmail.com")),
        *(("Søren Ågaard", "sorenagaard@gmail.com"), ("Łukasz Wójcik", "lukasz_wojcik@gmail.com")),
        *(("Işıl Yıldız", "isil.yildiz@hotmail.com"), ("BJÖRK ÆGISDÓTTIR", "b.aegisdottir@yahoo.com")),
        *(("Aliyə Məmmədova", "aliye.memmedova@gmail.com"), ("Aliyə Məmmədova", "amammadova@gmail.com")),
    ],
)
def test_addresses_of_mail_are_forms_of_names_as_they_are_spelled(name: str, email: str) -> None:
    decoys = emails(email, name=name, n=99)
    assert len({decoy.split("@")[0] for decoy in decoys}) > 3
    assert "ek" in renamed(email, "email", name, "Uta Ek")
    assert not any(
        word in renamed(email, "email", name, "Uta Ek") for word in re.split(r"\W", email)[:-2] if len(word) > 2
    )


def test_where_few_values_have_the_form_these_are_taken() -> None:
    nick = Subject("x", "Orlina Vestrand", email="sunshine_girl@gmail.com")
    with pytest.raises(UsageError, match="99 decoys of the email are needed, and 72 other values"):
        decoys_of(nick, "email", n=99)
    some = decoys_of(nick, "email", n=99, least=LEAST)
    assert len(set(some)) == 72
    assert all(decoy.startswith("sunshine_girl@") for decoy in some)
    namesake = Subject("x", "John Fox", relationships=(Relation("father", "John Fox"),))
    with pytest.raises(UsageError, match=f"{LEAST} decoys of the relationship 'father' are needed, and 0 other"):
        decoys_of(namesake, "relationship", relation="father", n=99, least=LEAST)


def test_addresses_elsewhere_keep_what_is_behind_the_street_and_ordinals_end_as_they_are_said() -> None:
    for address, region, rest in (
        *(("Hauptstraße 5, 10115 Berlin", "DE", ", 10115 Berlin"), ("{street} 12, {town}", "NO", ", {town}")),
        *(("12 rue de la Paix, 75002 Paris", "FR", ", 75002 Paris"), ("丸の内1丁目, 東京", "JP", ", 東京")),
        ("Calle 12 # 34, Quito", "EC", ", Quito"),
    ):
        assert all(decoy.endswith(rest) for decoy in addresses(address, region, n=30))
    said = {decoy.split()[2] for decoy in addresses("12 E 21st St, Troy, NY 12180")}
    for word in said:
        number, ending = int(word[:2]), word[2:]
        assert ending == ("th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th"))
    assert len(said) > 20


def test_few_have_few_decoys_and_others_are_taken_where_few_are_alike() -> None:
    for name, n in (("Jane A. Doe", 20), ("Jane Doe", 0)):
        with pytest.raises(UsageError, match=f"and {n} other values"):
            relatives(name, "mother")
    # A hundred names are common, and one of them is the true one and one the subject's own.
    common = set(given_names("male")[:100])
    decoys = relatives("David Doe", "father", of="Michael Doe", n=120)
    assert [decoy.split()[0] in common for decoy in decoys] == [True] * 98 + [False] * 22
    # Names in other letters stay in them.
    assert all(re.fullmatch(r"[\u4e00-\u9fff]+", decoy) for decoy in relatives("王伟", "father"))
    assert all(decoy.endswith(" Иванова") for decoy in relatives("Анна Иванова", "sister", of="Мария Иванова"))


@pytest.mark.parametrize(
    ("subject", "asked", "said"),
    [
        (JANE, {"type": "relationship"}, "give 'relation' for the type 'relationship'"),
        (JANE, {"type": "phone", "relation": "father"}, "give 'relation' for the type 'relationship'"),
        (JANE, {"type": "relationship", "relation": "uncle"}, "has no relationship 'uncle'"),
        (JANE, {"type": "colour"}, "type is 'colour', expected one of phone"),
        (JANE, {"type": "phone", "n": 0}, "decoys is 0, expected 1 or more"),
        (Subject("x", "Jane Doe", phone="1"), {"type": "university"}, "subject 'x' has no university"),
        (Subject("x", "J", email="jane.doe"), {"type": "email"}, "subject 'x': 'email' is not an e-mail address"),
        (Subject("x", "J", phone="1-800-FLOWERS"), {"type": "phone"}, "subject 'x': 'phone' is n"),
        (Subject("x", "J", phone="flowers"), {"type": "phone"}, "subject 'x': 'phone' is n"),
    ],
)
def test_errors_name_the_subject_and_never_the_value(subject: Subject, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        decoys_of(subject, **asked)
    assert "flowers" not in str(caught.value).lower()


def test_addresses_share_the_town_and_emails_a_domain_only_where_it_is_the_same() -> None:
    for address, region in (
        *((str(JANE.address), "US"), ("PO Box 12, Sandwick, OR 97000", "US"), ("Lindenweg 4, 79999 Aulendorf", "DE")),
        *(("Vicolo Stella, 59, 30010, Mira (VE)", of) for of in ("IT", "US")),
        *(("Flat 4, 12 Nehru Nagar, Pune", "IN"), ("Level 3, 89 Rodgers Ridge, Maungakiwi 5337", "NZ")),
    ):
        decoys = addresses(address, region)
        assert share_place("address", (address, *decoys), region)
        elsewhere = address.replace(address.split(", ")[-1], "Elsewhere, ME 04103")
        assert share_place("address", (address, *decoys, elsewhere), region) is False
    first = "101000, Москва, ул. Ленина, д. 5"
    for begun in (first, f"{first} к. 83, 623286"):
        assert share_place("address", (begun, *addresses(begun, "RU", n=40)), "RU")
    assert share_place("address", (first, first.replace("Москва", "Тверь")), "RU") is False
    assert share_place("address", ("12 Quay Street", "14 Quay Street"), "US") is False
    assert share_place("email", (str(JANE.email), *decoys_of(JANE, "email", n=50)), "US") is False
    assert share_place("email", ("a@tide.example", "b@Tide.example"), "US") is True
    assert share_place("phone", ("1", "2"), "US") is None


def test_decoys_depend_on_what_they_are_for_alone() -> None:
    decoys = decoys_of(JANE, "phone", n=50)
    assert decoys_of(JANE, "phone", n=50) == decoys
    assert decoys_of(JANE, "phone", n=20) == decoys[:20]
    assert decoys_of(JANE, "phone", n=50, seed=1) != decoys
    assert decoys_of(replace(JANE, id="joan"), "phone", n=50) != decoys
    alike = (Relation("aunt", "Ann Bo"), Relation("mother", "Ann Bo"), Relation("aunt", "Eve Bo"))
    both = Subject("x", "Jane Doe", relationships=alike)
    of_aunt = decoys_of(both, "relationship", relation="aunt")
    assert of_aunt == decoys_of(both, "relationship", relation="aunt", value="Ann Bo")
    assert of_aunt != decoys_of(both, "relationship", relation="mother")
    assert of_aunt != decoys_of(both, "relationship", relation="aunt", value="Eve Bo")
    assert not {"Ann Bo", "Eve Bo"} & {*of_aunt, *decoys_of(both, "relationship", relation="aunt", value="Eve Bo")}
    with pytest.raises(UsageError, match="subject 'x' has another relationship 'aunt' than the value given"):
        decoys_of(both, "relationship", relation="aunt", value="Mary Bo")


@pytest.mark.parametrize(
    ("email", "form"),
    [
        ("jane.doe85@gmail.com", r"jane\.doe\d\d@(gmail|yahoo|hotmail|outlook|aol|icloud|live|msn|\w+)\.(com|net)"),
        ("jdoe1985@yahoo.com", r"jdoe(19[3-9]|20[01])\d@\w+\.(com|net)"),
        ("jane_doe_7@aol.com", r"jane_doe_\d@\w+\.(com|net)"),
        ("jane.doe@acme.com", r"jane\.doe@[a-z]+\.com"),
        ("JDoe@mail.acme.co.uk", r"JDoe@[a-z]+\.co\.uk"),
        ("jane.doe+news@acme.com", r"jane\.doe\+news@[a-z]+\.com"),
        ("doej12@acme.com", r"doej\d\d@[a-z]+\.com"),
        ("jane.doe@cs.stanford.edu", r"jane\.doe@cs\.[a-z]+\.edu"),
        # Free mail of a country, and a surname for a surname.
        ("jane.doe1@yahoo.de", r"jane\.doe\d@(gmx|web|t-online|freenet|yahoo|hotmail|\w+)\.de"),
        ("jane.doe1@libero.it", r"jane\.doe\d@(alice|virgilio|tiscali|yahoo|hotmail|\w+)\.it"),
        ("jane.doe@smith.com", r"jane\.doe@[a-z]+\.com"),
        ("sunny.girl@acme.org", r"sunny\.girl@[a-z]+\.org"),
        ("sunnygirl@gmail.com", r"sunnygirl@[a-z0-9.-]+"),
        ("me@janedoe.com", r"me@jane[a-z]+\.com"),
        ("jane.doe@gmail.com", r"(jane[._]?doe|j\.?doe|janed)@\w+\.(com|net)"),
        ("Jane.Doe@gmail.com", r"(Jane[._]?Doe|J\.?Doe|JaneD)@\w+\.(com|net)"),
    ],
)
def test_addresses_of_mail_keep_the_name(email: str, form: str) -> None:
    decoys = emails(email, n=40)
    assert all(re.fullmatch(form, decoy) for decoy in decoys), decoys
    # What the name does not determine varies, and a company's domain never says the name by chance.
    if "jane" not in email.split("@")[1]:
        assert len({decoy.split("@")[1] for decoy in decoys}) > 8
        assert not any("doe" in decoy.split("@")[1] for decoy in decoys)


def test_a_domain_has_others_that_people_of_the_place_have() -> None:
    def domains(email: str, name: str) -> set[str]:
        return {decoy.split("@")[1] for decoy in decoys_of(Subject("x", name, email=email), "email", n=80)}

    of_yahoo = domains("zeynep.etzler@yahoo.de", "Zeynep Etzler")
    assert {"web.de", "gmx.de", "t-online.de", "hotmail.de"} <= of_yahoo
    # None is invented.
    assert of_yahoo <= {f"{firm}.de" for firm in (*FREE_MAIL_EVERYWHERE, *FREE_MAIL_OF_SUFFIX[".de"])}
    german = {folding.unaccented(name).lower() for name in names_of("de_DE").surnames}
    assert {domain.removesuffix(".com") for domain in domains("a.b@heinz.com", "Ulrike Eberhardt")} & german


@pytest.mark.parametrize(
    ("address", "region", "form"),
    [
        # An address says where it is, whatever the region.
        *(("Via Garibaldi 12, 20121 Milano", of, r"Via [\w' -]+ \d\d, 20121 Milano") for of in ("US", "IT")),
        *(("Hauptstr. 5, 10115 Berlin", of, r"[\w' -]+str\. \d, 10115 Berlin") for of in ("US", "DE", "AT")),
        ("825, boulevard Voltaire, 75011 Paris", "US", r"\d{3}, boulevard [\w' -]+, 75011 Paris"),
        ("Calle Mayor 5, 28013 Madrid", "GB", r"Calle [\w' -]+ \d, 28013 Madrid"),
        ("ul. Polna 79/19, 02-931 Gdynia", "PL", r"ul\. [\w. -]+ \d\d/\d\d, 02-931 Gdynia"),
        ("Atatürk Caddesi 5, Kadıköy, İstanbul", "US", r"\w+ Caddesi \d, Kadıköy, İstanbul"),
        ("H.No. 97, Bhatt Nagar, Nandyal-833788", "IN", r"H\.No\. \d\d, [\w ]+ Nagar, Nandyal-833788"),
        ("Vicolo Stella, 59, 30010, Mira (VE)", "IT", r"Vicolo [\w' -]+, \d\d, 30010, Mira \(VE\)"),
        *(
            ("Lange Straße 5, 10115 Berlin", of, r"(?:[\w']+[ -])*[\w']+ Straße \d, 10115 Berlin")
            for of in ("US", "DE")
        ),
        ("Hauptstrasse 5, 8001 Zürich", "DE", r"[\w' -]+(?<!-)strasse \d, 8001 Zürich"),
        ("HAUPTSTRASSE 5, BERLIN", "DE", r"[A-ZÄÖÜ' -]+STRASSE \d, BERLIN"),
        ("LANGE STRASSE 5, BERLIN", "DE", r"[A-ZÄÖÜ' -]+ STRASSE \d, BERLIN"),
        # In a country of several languages a street says which.
        ("Rue Neuve 5, 1000 Bruxelles", "BE", r"Rue [\w' -]+ \d, 1000 Bruxelles"),
        ("Kerkstraat 5, 2000 Antwerpen", "BE", r"[\w' -]+straat \d, 2000 Antwerpen"),
        ("Patriciaring 5, 9000 Gent", "BE", r"[\w' ]+ring \d, 9000 Gent"),
        ("Av. Mitre N° 18, Chubut", "AR", r"[\w .]+ N° \d\d, Chubut"),
        ("97 दुर्गा पथ, अलीगढ", "IN", r"\d\d [^A-Za-z]+, अलीगढ"),
        ("97 Soi Chaiyo, Bangkok", "TH", r"\d\d [A-Za-z' -]+, Bangkok"),
        *(("Via Nassa 5, 6900 Lugano", of, r"Via [\w' -]+ \d, 6900 Lugano") for of in ("CH", "IT")),
        ("İstiklal Caddesi No: 5, İstanbul", "TR", r"[\w ]+ Caddesi No: \d, İstanbul"),
        ("101000, Москва, ул. Ленина, д. 5", "RU", r"101000, Москва, ул\. [\w .-]+, д\. \d"),
        ("12 Plaza Drive, Troy, NY 12180", "US", r"\d\d [A-Z]\w+ Drive, Troy, NY 12180"),
        ("12 Plaza St, Troy, NY 12180", "US", r"\d\d [A-Z]\w+ St, Troy, NY 12180"),
        ("12 Cold Spring, Troy, NY 12180", "US", r"\d\d [A-Z]\w+ Spring, Troy, NY 12180"),
    ],
)
def test_addresses_keep_what_streets_are_called_where_they_are(address: str, region: str, form: str) -> None:
    decoys = addresses(address, region, n=40)
    assert all(re.fullmatch(form, decoy) for decoy in decoys), decoys
    assert len({re.sub(r"\d", "", decoy) for decoy in decoys}) > 10


def test_streets_of_denmark_are_danish() -> None:
    names = set(names_of("da_DK").surnames)
    decoys = addresses("Nørregade 5, 1165 København", "DK", n=40)
    assert all(re.fullmatch(r"[\w -]+gade \d, 1165 København", decoy) for decoy in decoys), decoys
    assert not {decoy.partition("gade")[0] for decoy in decoys} & (set(names_of("en_US").surnames) - names)


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("742 Evergreen Ln, Troy, NY 12180", r"[1-9]\d\d [A-Z][a-z]+ Ln, Troy, NY 12180"),
        ("12B W 45th St Apt 3C, Troy, NY 12180-1234", r"\d\dB W \d\d(st|nd|rd|th) St Apt \d[A-H], Troy, NY 1.*4"),
        ("PO Box 771, Elko, NV 89801", r"PO Box [1-9]\d\d, Elko, NV 89801"),
        ("100 S. MAIN ST., APT. 5-C, TROY, NY 12180", r"\d{3} S\. [A-Z]+ ST\., APT\. \d-[A-H], TROY, NY 12180"),
        ("7 Martin Luther King Blvd, Troy NY", r"\d [A-Z][a-z]+ [A-Z][a-z]+ [A-Z][a-z]+ Blvd, Troy NY"),
        ("12 Doe Road, Troy, NY 12180", r"\d\d Doe Road, Troy, NY 12180"),
        ("Suite 400, 12 Main St, Boston, MA", r"Suite \d{3}, \d\d [A-Z][a-z]+ St, Boston, MA"),
        ("221B Baker Street, London NW1 6XE", r"\d{3}B [A-Z][a-z]+ Street, London NW1 6XE"),
    ],
)
def test_addresses_keep_town_and_form(address: str, form: str) -> None:
    decoys = addresses(address)
    assert all(re.fullmatch(form, decoy) for decoy in decoys), decoys


def test_relatives_have_the_subjects_surname_the_gender_and_the_shape() -> None:
    men, women = (set(given_names(gender)) for gender in ("male", "female"))
    for decoy in decoys_of(JANE, "relationship", relation="father", n=50):
        first, initial, last = decoy.split()
        assert first in men
        assert re.fullmatch(r"[A-Z]\. Doe", f"{initial} {last}")
    for decoy in decoys_of(JANE, "relationship", relation="aunt"):
        first, last = decoy.split()
        assert first in women
        assert last not in ("Doe", "Jane")
    assert all(" " not in decoy for decoy in decoys_of(JANE, "relationship", relation="friend"))
    for name, kind, form in (
        ("Dr. Tom van Doe Jr.", "uncle", r"Dr\. [A-Z][a-z]+ van Doe Jr\."), ("TOM DOE", "son", r"[A-Z]+ DOE"),
    ):  # fmt: skip
        assert all(re.fullmatch(form, decoy) for decoy in relatives(name, kind))
    # Of a friend the first name says it.
    assert {decoy.split()[0] for decoy in relatives("Lisa Poe", "friend")} <= women


@pytest.mark.parametrize(
    ("name", "same"),
    [
        *(("Rice University", ["Rice University"]), ("the Ohio State University", ["Ohio State University"])),
        *(("MIT", ["Massachusetts Institute of Technology"]), ("UCLA", ["University of California, Los Angeles"])),
        ("University of California", [one for one in universities() if "California," in one]),
        *(("University of Texas at Austin", ["University of Texas"]), ("Elm College", []), ("???", [])),
    ],
)
def test_universities_are_all_but_the_true_one(name: str, same: list[str]) -> None:
    subject = Subject("x", "Jane Doe", university=name)
    others = set(universities()) - set(same)
    assert set(decoys_of(subject, "university", n=len(others))) == others
    with pytest.raises(UsageError, match=f"and {len(others)} other values"):
        decoys_of(subject, "university", n=len(others) + 1)


def test_what_fits_goes_first() -> None:
    fits = operator.methodcaller("endswith", "7")
    free, decoys = decoys_of(JANE, "phone", n=50), decoys_of(JANE, "phone", n=50, fits=fits)
    assert all(map(fits, decoys))
    assert [decoy for decoy in free if fits(decoy)] == list(decoys)[: sum(map(fits, free))]
    # Ten numbers of fiction end in a 7; the others stand behind them.
    few = decoys_of(Subject("x", "J", phone="205-555-0123"), "phone", n=50, fits=fits)
    assert list(map(fits, few)) == [True] * 10 + [False] * 40
    # Of one more form of the name, and rarer domains, where that is not enough.
    wider = emails("jane.doe@gmail.com", n=300)
    assert set(emails("jane.doe@gmail.com", n=60)) < set(wider)


def _bigrams(seed: int) -> Callable[[str], float]:
    """A language model that never saw anybody."""
    weights = np.random.default_rng(seed).normal(size=(256, 256))
    return lambda text: float(sum(weights[a, b] for a, b in pairwise(text.encode())))


KNOW_NOTHING: dict[str, Callable[[str], float]] = {
    "hash": lambda text: int.from_bytes(hashlib.sha256(f"salt {text}".encode()).digest()[:6], "big"), "length": len,
    "digits": lambda text: sum(int(char) for char in text if char.isdigit()),
    "letters": lambda text: sum(map(ord, text)), "repeats": lambda text: sum(a == b for a, b in pairwise(text)),
    "start": lambda text: int.from_bytes(text.lower().encode()[:24].ljust(24, b"\0"), "big"), "bigrams": _bigrams(1),
    "other bigrams": _bigrams(2),
}  # fmt: skip


@pytest.mark.long
def test_who_knows_nothing_ranks_true_values_anywhere_among_their_decoys() -> None:
    """Chi-square on ranks, ties broken by lot; the chance that any of the 40 refuses what is true is 0.4 %."""
    n, drawn = 9, random.Random(0)
    counts: dict[tuple[str, str], np.ndarray] = {}
    for subject in canaries_of(200, seed=11):
        for type_, relation, value in subject.targets():
            decoys = decoys_of(subject, type_, relation=relation, n=n)
            for name, score in KNOW_NOTHING.items():
                true, others = score(value), [score(decoy) for decoy in decoys]
                rank = sum(other > true for other in others) + drawn.randint(0, sum(o == true for o in others))
                counts.setdefault((type_, name), np.zeros(n + 1, dtype=int))[rank] += 1
    assert len(counts) == 5 * len(KNOW_NOTHING)
    for what, ranks in counts.items():
        assert stats.chisquare(ranks).pvalue > 1e-4, what


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        *(("email", "jane.doe@gmail.com", "ann.roe@gmail.com"), ("email", "kitty99@x.org", "kitty99@x.org")),
        *(("email", "jdoe72@doelaw.com", "aroe72@roelaw.com"), ("email", "Jane_Doe+news@x.org", "Ann_Roe+news@x.org")),
        *(("email", "thejanepage@x.org", "theannpage@x.org"), ("relationship", "John Doe", "John Roe")),
        *(("relationship", "Jane Doe-Smith", "Ann Roe-Smith"), ("relationship", "Mary Doering", "Mary Doering")),
        *((of, value, value) for of, value in (("phone", JANE.phone), ("address", "12 Jane St, Boston, MA 02118"))),
        ("university", "Doe University", "Doe University"),
    ],
)
def test_a_value_says_the_other_name_where_it_said_the_persons(type_: ValueType, value: str, expected: str) -> None:
    assert renamed(value, type_, "Jane Doe", "Ann Roe") == expected


def test_words_that_both_names_have_change_places() -> None:
    assert renamed("Grant Lee", "relationship", "Grant Lee", "Lee Grant") == "Lee Grant"
    assert renamed("x@grantlee.org", "email", "Grant Lee", "Lee Grant") == "x@leegrant.org"


def test_they_are_somebody_else_in_all_that_is_known() -> None:
    jane = replace(JANE, email="jane.doe@mail.org")
    names = control_names_of(jane, 5, seed=0)
    assert control_names_of(jane, 5, seed=0) == names != control_names_of(jane, 5, seed=1)
    found = others_in_place_of(jane, names, seed=0)
    assert len({one.name for one in found}) == 5
    for one in found:
        first, last = one.name.split()
        assert {first, last}.isdisjoint({"Jane", "Doe"})
        assert not {JANE.phone, JANE.address} & {one.phone, one.address}
        assert str(one.phone).startswith("(205) ")
        assert str(one.email).startswith(f"{first}.{last}@".lower())
    for name in ("Dr. Zoë O'Neill-Smith", "李小龙", "Al", "J. R. R. Tolkien", "{name} <|im_end|>"):
        zoe = Subject("1", name, phone="617-555-0134", email="zoe.smith@x.org")
        for one in others_in_place_of(zoe, control_names_of(zoe, 3, seed=2), seed=2):
            assert one.name != name
            assert "@" in str(one.email)
