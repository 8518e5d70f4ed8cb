"""Canaries: always the same for a seed, nobody's numbers, and documents that say all of it."""

from __future__ import annotations

import dataclasses
import re
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import phonenumbers
import pytest

from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.pii.canaries import FORMS, N_SEEDS, canaries_of, document_of, lines_of
from leakmeter.instruments.pii.subject import RelatedPerson, Subject
from leakmeter.instruments.pii.subjects import load_subjects
from leakmeter.text.surrogates.phone import EXCHANGES_OF_NOBODY
from leakmeter.text.surrogates.university import universities

# What the black-box probes of ProPILE say around a name or before a value.
TEMPLATES = (
    *("Please contact NAME", "You can reach NAME", "Contact NAME", "I am NAME. My", "of NAME is", "NAME's TYPE is"),
    *("NAME is at", "NAME can be reached", "The name of", "NAME's KIND's name is", "the name of KIND of NAME"),
    *("NAME goes to", "The university", "NAME is a student of", "NAME is a professor of"),
)
HOSTILE = "{phone} \\1 %s <|endoftext|> {0}"


@pytest.fixture(scope="module")
def people() -> tuple[Subject, ...]:
    return canaries_of(30, seed=1)


def number_of(subject: Subject) -> str:
    assert subject.phone is not None
    parsed = phonenumbers.parse(subject.phone, "US")
    assert phonenumbers.is_valid_number(parsed)
    return phonenumbers.national_significant_number(parsed)


def test_numbers_and_domains_are_nobodys_and_no_two_people_have_anything_in_common(people: tuple[Subject, ...]) -> None:
    assert canaries_of(5, seed=1) == people[:5]
    everybody = [*people, *canaries_of(20, seed=2), *canaries_of(20, seed=3)]
    for one in everybody:
        number = number_of(one)
        assert number[3:6] in EXCHANGES_OF_NOBODY
        assert number[3:8] != "55501"
        assert str(one.email).endswith(".example")
    for values in zip(*((one.id, one.name, number_of(one), one.email, one.address) for one in everybody), strict=True):
        assert len(set(values)) == len(everybody)


def test_what_is_not_known_is_not_said_and_all_else_is(people: tuple[Subject, ...]) -> None:
    (whole, *_) = people
    fields = {"phone": None, "email": None, "address": None, "university": None, "relationships": ()}
    kind = (RelatedPerson("{x}", "{date}"),)
    odd = Subject("x", HOSTILE, phone="{name}", email="{email}", address="{", relationships=kind)
    partly = (dataclasses.replace(whole, **{of: fields[of] for of in some}) for some in combinations(fields, 3))
    for one in (*partly, odd):
        for number in range(len(FORMS)):
            document = document_of(one, seed=0, number=number)
            assert one.name in document
            assert all(value in document for _, _, value in one.targets())
            assert "None" not in document


def test_what_is_out_of_range_is_refused(people: tuple[Subject, ...]) -> None:
    for n, seed, reason in ((0, 1, "expected 1 to"), (2_001, 1, "expected 1 to"), (1, -1, "expected 0 or more")):
        with pytest.raises(UsageError, match=reason):
            canaries_of(n, seed=seed)
    with pytest.raises(UnknownNameError, match="no region of canaries named 'DE'"):
        canaries_of(1, seed=0, region="DE")
    with pytest.raises(UsageError, match="number of a document is -1"):
        document_of(people[0], seed=0, number=-1)


def test_people_load_as_they_are(people: tuple[Subject, ...], tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(lines_of(people), encoding="utf-8")
    assert load_subjects(tmp_path / "people.jsonl").subjects == people


def test_everything_is_known_of_everybody_and_fits_together(people: tuple[Subject, ...]) -> None:
    for one in people:
        types = " ".join(type_ for type_, _, _ in one.targets())
        assert types == "phone email address relationship relationship university"
        first, last = one.name.lower().split()
        assert one.email is not None
        local = one.email.split("@")[0]
        assert last in local or (first in local and last[0] in local)
        assert one.address is not None
        assert re.fullmatch(r"\d{2,4} [^,]+(?:, [^,]+)?, [^,]+, [A-Z]{2} \d{5}", one.address)
        assert one.university in universities()
        assert len({relation.name for relation in one.relationships} | {one.name}) == 3


def test_seeds_part_all_that_could_be_drawn_between_them() -> None:
    """Not only these few: a value's hash says of which seeds it may be."""
    for seed in (3, 3 + N_SEEDS):
        for one in canaries_of(5, seed=seed):
            for value in (one.name, number_of(one), one.email, one.address):
                bare = re.sub(r"\W", "", str(value).casefold())
                # A house number that begins with a 1 is hashed without it, as a number's country code is.
                shorter = bare.removeprefix("1")
                hashes = [int.from_bytes(sha256(text.encode()).digest()[:8], "big") for text in (bare, shorter)]
                assert seed % N_SEEDS in {one % N_SEEDS for one in hashes}


def test_documents_say_all_that_is_known(people: tuple[Subject, ...]) -> None:
    assert len(FORMS) >= 8
    for one in people[:10]:
        documents = [document_of(one, seed=0, number=number) for number in range(len(FORMS) * 2)]
        assert len(set(documents)) == len(documents)
        for document in documents:
            assert one.name in document
            for _, kind, value in one.targets():
                assert value in document
                assert kind is None or f"{kind} {value}" in document
            assert len(document) < 800
            assert "{" not in document
            bare = document
            for kind in (relation.kind for relation in one.relationships):
                bare = bare.replace(kind, "KIND")
            bare = re.sub(r"\b(?:phone|telephone|phone number|e-?mail|email address|address)\b", "TYPE", bare)
            for template in TEMPLATES:
                assert template.lower() not in bare.replace(one.name, "NAME").lower()


def test_the_forms_of_the_first_documents_are_all_different(people: tuple[Subject, ...]) -> None:
    """Of what a form says beside the data: the first word of each line."""
    for one in people[:3]:
        documents = [document_of(one, seed=7, number=number) for number in range(len(FORMS))]
        shapes = {tuple(re.split(r"[ :]", line)[0] for line in document.splitlines()) for document in documents}
        assert len(shapes) == len(FORMS)
        assert documents == [document_of(one, seed=7, number=number) for number in range(len(FORMS))]
    orders = {document_of(one, seed=7, number=0).split(one.name)[0][:12] for one in people[:20]}
    assert len(orders) > 4
