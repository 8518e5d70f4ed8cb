"""Each detector alone, in invented texts: what it finds, what it leaves alone, and that nothing makes it fall over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples, few
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.text.entities import address, date, email, pattern, person, phone
from leakmeter.text.entities.find import find, find_recognised
from leakmeter.text.entities.mention import Mention, without_overlaps

STRETCHES = (
    "Call 555-010-7788. ", "+44 20 7946 0018", "(020) 7946-0018 ext. 5", "1-2-3-4-5-6-7-8-9", "٠٢٠ ٧٩٤٦ ٠٠١٨ ",
    "1" * 30, "anna@x.example ", "<a.b+c@clinic.local>", "@", "@@", "a@", "ü@dömäin.example", "a" * 70 + "@b.co ",
    "9 Tallow Row, Brenmouth. ", "12 Main St, Springfield, IL 62704\n", "PO Box 1, Albany, NY ", "1 A St, N E Suite ",
    "3 May 1984", " 1984-05-03 ", "03.05.84", "5/3/1984", "İ 3 Mayıs", "29 February 1900", "1984年5月3日", "May 3, ",
    "0/0/0000", "Dr. Ellen Brandt ", "Patient: Tobias Quillmere\n", "Mr ", "Mrs. O’Brien-Łuk’s ", "Name: Ek, Bo\n",
    "姓名：山田太郎。", "Mr\u00a0İ", "שם: דנה לוי ", "\u202e", "\x00", "\ud7ff", "👩‍👩‍👧", "e\u0301", "\n", "\r\n",
    "\t", "(", ")", "++", "--", "Brandt ", "ellen ",
)  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(STRETCHES), st.text(max_size=8)), max_size=12).map("".join)
REGIONS = ("US", "DE", "GB", "FR")
DETECTORS: dict[str, Callable[[str], Iterable[Mention]]] = {
    "phone": lambda text: phone.find(text, "US"),
    "phone-de": lambda text: phone.find(text, "DE"),
    "email": email.find,
    "address": lambda text: address.find(text, "US"),
    "address-gb": lambda text: address.find(text, "GB"),
    "date": lambda text: date.find(text, "US"),
    "person": person.find,
}


def said(text: str, mentions: Iterable[Mention]) -> dict[str, str]:
    return {text[m.start : m.end]: m.value for m in mentions}


def grouped(text: str, region: str = "US") -> list[list[str]]:
    """The mentions of each entity of a text that is one document."""
    return [[text[a:b] for a, b in one.mentions] for one in find(text, [(0, len(text))], region=region)]


@pytest.mark.parametrize("name", DETECTORS)
@given(text=texts)
def test_spans_lie_in_the_text_and_do_not_change(name: str, text: str) -> None:
    found = list(DETECTORS[name](text))
    assert found == list(DETECTORS[name](text))
    for mention in found:
        assert 0 <= mention.start < mention.end <= len(text)
        assert text[mention.start : mention.end] == text[mention.start : mention.end].strip()
        assert mention.value


@settings(max_examples=examples(60))
@given(documents=st.lists(texts, min_size=1, max_size=3), region=st.sampled_from(REGIONS))
def test_entities_do_not_overlap_and_keep_within_a_document(documents: list[str], region: str) -> None:
    context = "\n\n".join(documents)
    parts: list[tuple[int, int]] = []
    for document in documents:
        start = parts[-1][1] + 2 if parts else 0
        parts.append((start, start + len(document)))
    labels = [(0, 1, "PER"), (-1, 3, "DATE"), (2, 900, "PER")]
    entities = find(context, parts, region=region, recognise=lambda text: labels)
    taken = sorted(mention for entity in entities for mention in entity.mentions)
    assert all(end <= start for (_, end), (start, _) in pairwise(taken))
    assert all(any(a <= start < end <= b for a, b in parts) for start, end in taken)
    assert entities == sorted(entities, key=lambda entity: entity.mentions[0])
    for entity in entities:
        assert entity.text in [context[a:b] for a, b in entity.mentions]


@given(ranks=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=6), max_size=4))
def test_what_is_trusted_more_keeps_its_place(ranks: list[list[tuple[int, int]]]) -> None:
    made = [[Mention("x", start, start + n, f"{i}") for start, n in rank] for i, rank in enumerate(ranks)]
    kept = list(without_overlaps(made))
    spans = sorted((mention.start, mention.end) for mention in kept)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for i, rank in enumerate(made):
        for lost in set(rank) - set(kept):
            if lost.start < lost.end:
                rivals = [k for k in kept if k.start < lost.end and lost.start < k.end]
                assert any(int(rival.value) <= i for rival in rivals)


@pytest.mark.parametrize(
    ("text", "region", "expected"),
    [
        ("Phone 555-010-7788.", "US", {"555-010-7788": "+15550107788"}),
        ("(555) 010-7788, +1 555 010 7788", "US", dict.fromkeys(("(555) 010-7788", "+1 555 010 7788"), "+15550107788")),
        ("Tel. 030 23125 014", "DE", {"030 23125 014": "+493023125014"}),
        ("London +44 20 7946 0018", "DE", {"+44 20 7946 0018": "+442079460018"}),
        ("Ring 555-0199 ext. 4", "US", {"555-0199 ext. 4": "+15550199;ext=4"}),
        # Alone in its country's groups.
        ("We saw 020 7946 0958 there", "GB", {"020 7946 0958": "+442079460958"}),
        # Surely a number in one place, so a number in the other.
        ("Call 555-010-7788. Fax and 5550107788", "US", dict.fromkeys(("555-010-7788", "5550107788"), "+15550107788")),
        ("order 2024-000123, id 5550107788, 12345678, 98.6, 100-200-300, 10.1038/s41586", "US", {}),
        ("Dosis 12345678, Fieber 38.6 am 10.1038", "DE", {}),
        ("the year 1984 and 62704", "US", {}),
    ],
)
def test_telephone_numbers(text: str, region: str, expected: dict[str, str]) -> None:
    assert said(text, phone.find(text, region)) == expected


def test_an_unknown_region_is_refused() -> None:
    phone.check_region("GB")
    with pytest.raises(UnknownNameError, match="no region named 'UK'"):
        phone.check_region("UK")


def test_names_end_before_a_particle_and_titles_tell_the_gender() -> None:
    for text in ("Then Mr. Ellen van der went home.", "Dr. Ellen von said no."):
        assert [text[one.start : one.end] for one in person.find(text)] == ["Ellen"]
    for title, gender in (("Dr.", ""), ("Mrs.", "f"), ("Mr.", "m")):
        assert [one.gender for one in person.find(f"{title} Kim Lee said so.")] == [gender]


DATES = {
    "1984-05-03": [
        ("1984-05-03", "US"), ("5/3/1984", "US"), ("3.5.1984", "US"), ("03.05.84", "DE"), ("3rd of May, 1984", "US"),
        ("3 mai 1984", "FR"), ("3 de mayo de 1984", "ES"), ("1984年5月3日", "JP"),
    ],
    "1984-03-05": [("5/3/1984", "DE")], "1984-03-25": [("25/3/84", "US")], "1984-03-03": [("3. MÄRZ 1984", "DE")],
    "xxxx-05-03": [("May 3", "US")], "1984-12-05": [("12/5/1984", "US")],
    "1984-05-12": [("5/12/1984", "US"), ("12/5/1984", "GB")], "2019-09-xx": [("Sept. 2019", "US")],
    "2019-03-03": [("3. Mär. 2019", "DE")], "2019-12-24": [("24. Dez. 2019", "DE")],
    "2019-10-03": [("3 Okt 2019", "DE")], "2019-01-03": [("3 janv. 2019", "FR")],
    "2019-02-03": [("3 févr. 2019", "FR")], "2019-07-14": [("14 juil. 2019", "FR")],
    "2019-12-03": [("3 déc. 2019", "FR")],
}  # fmt: skip
NO_DATES = ("30 February", "31.04.2020", "13/13/2020", "may 3 people", "1.2.10", "version 10.1.12.3", "2019", "May I")


@pytest.mark.parametrize("value", DATES)
def test_dates(value: str) -> None:
    for text, region in DATES[value]:
        found = without_overlaps([list(date.find(f"On {text}, she", region))])
        assert said(f"On {text}, she", found) == {text: value}
        parsed = date.parse(text, region)
        assert parsed is not None
        assert parsed[1] == value


def test_what_is_no_date() -> None:
    assert [text for text in (*NO_DATES, "0/0/0000") if list(date.find(text, "US"))] == []


def test_a_recogniser_adds_people_and_dates_and_nothing_else() -> None:
    text = "Ada Vale met Graz Ltd on 3 May 1984 or last Tuesday."
    labels = [(0, 8, "B-PER"), (13, 21, "ORG"), (25, 35, "DATE"), (39, 51, "DATE"), (50, 99, "PER"), (8, 9, "PER")]
    expected = {"Ada Vale": "ada vale", "3 May 1984": "1984-05-03", "last Tuesday": "last tuesday"}
    assert said(text, find_recognised(text, "US", lambda _: labels)) == expected
    # What it says has no white space around it.
    found = list(find_recognised(text, "US", lambda _: [(0, 9, "PER"), (24, 36, "DATE")]))
    assert [text[m.start : m.end] for m in found] == ["Ada Vale", "3 May 1984"]
    entities = find(text, [(0, len(text))], region="US", recognise=lambda _: [(39, 51, "DATE"), (0, 8, "PER")])
    assert [one.type for one in entities] == ["person", "date", "date"]


def test_patterns_of_the_user() -> None:
    patterns = pattern.parse("# ours\n\nmrn = MRN[- ]\\d{6}\nplate=(?i)plate (?P<value>[a-z]{2} \\d+)\n")
    assert [one.type for one in patterns] == ["mrn", "plate"]
    text = "MRN-004711, Plate ab  12 = plate AB 12"
    assert said(text, pattern.find(text, patterns[0])) == {"MRN-004711": "mrn-004711"}
    assert said(text, pattern.find(text, patterns[1])) == {"AB 12": "ab 12"}
    # A group that matched nothing is no value.
    (one,) = pattern.parse("room = Room(?: (?P<value>\\d*))?")
    assert said("Room, Room , Room 12", pattern.find("Room, Room , Room 12", one)) == {"12": "12"}
    assert pattern.resolved("mrn = x+") == "mrn = x+"
    assert pattern.resolved(None) is None
    with pytest.raises(DataError, match=r"'nowhere\.txt' cannot be read"):
        pattern.resolved("nowhere.txt")
    # The most that is taken.
    pattern.parse("big = x{10}y{100000}\nlong = " + "x" * 10_000)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("mrn = (", "line 1: '\\('"),
        ("\nMRN = x", "line 2: 'MRN = x' is not 'TYPE = REGEX'"),
        *((of, "is not 'TYPE = REGEX'") for of in ("just words", "a =")),
        ("a = x*", "matches the empty text"),
        ("# nothing", "hold no line"),
        ("big = x{10}y{100001}", "multiply to 1,000,000 at most"),
        ("big = " + "x" * 10_001, "10,000 characters at most"),
    ],
    ids=range(8),
)
def test_a_pattern_that_cannot_be_used_is_one_line(lines: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        pattern.parse(lines)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mail Ellen.B@Clinic.Example.", {"Ellen.B@Clinic.Example": "ellen.b@clinic.example"}),
        ("<a+b@x-y.co.uk>,'q@z.local'", {"a+b@x-y.co.uk": "a+b@x-y.co.uk", "q@z.local": "q@z.local"}),
        ("ü@dömäin.example", {"ü@dömäin.example": "ü@dömäin.example"}),
        ("a@b @c.de d@ e@f, mail@ home.example", {}),
    ],
)
def test_email_addresses(text: str, expected: dict[str, str]) -> None:
    assert said(text, email.find(text)) == expected


@pytest.mark.parametrize(
    ("text", "region", "expected"),
    [
        ("Lives at 12 Main St, Springfield, IL 62704. Calls.", "US", ["12 Main St, Springfield, IL 62704"]),
        ("1  Elm Street ,\tBoston , MA 02110", "US", ["1  Elm Street ,\tBoston , MA 02110"]),
        ("to Ms Ek, 9 Tallow Row, Brenmouth. Then", "US", ["9 Tallow Row, Brenmouth"]),
        ("at 10 Downing Street, London SW1A 2AA now", "GB", ["10 Downing Street, London SW1A 2AA"]),
        ("wohnt Schomberstr. 19, 48337 Lichtenfels.", "DE", ["Schomberstr. 19, 48337 Lichtenfels"]),
        ("au 4 bis, rue de la Paix, 75002 Paris !", "FR", ["4 bis, rue de la Paix, 75002 Paris"]),
        ("at 200 King Street, Toronto, ON M5H 3T4, on call", "CA", ["200 King Street, Toronto, ON M5H 3T4"]),
        ("He drew 3 cards and took 50 mg. In 2019 The Way was clear.", "US", []),
    ],
)
def test_addresses(text: str, region: str, expected: list[str]) -> None:
    found = list(without_overlaps([list(address.find(text, region))]))
    assert [text[m.start : m.end] for m in found] == expected


def test_addresses_far_apart_are_both_found_whole() -> None:
    first, last = "12 Main St, Springfield, IL 62704", "9 Elm Street, Boston, MA 02110"
    text = f"{first} was sold. {'Nothing else was said of it. ' * 10}Now at {last}"
    found = without_overlaps([list(address.find(text, "US"))])
    assert [text[m.start : m.end] for m in sorted(found, key=lambda m: m.start)] == [first, last]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seen by Dr. Ellen Brandt today.", {"Ellen Brandt": "ellen brandt"}),
        ("Mr Quillmere's boat; Mrs. van der Berg", {"Quillmere": "quillmere", "van der Berg": "van der berg"}),
        ("Prof. Dr. Łucja O’Neill-Nowak", {"Łucja O’Neill-Nowak": "łucja o’neill-nowak"}),
        ("Patient: Tobias Quillmere, 46", {"Tobias Quillmere": "tobias quillmere"}),
        ("Name: Ek, Bo\nnext", {"Ek, Bo": "bo ek"}),
        ("full name: J. R. Ek", {"J. R. Ek": "j r ek"}),
        ("氏名：山田太郎\nשם: דנה לוי", {"山田太郎": "山田太郎", "דנה לוי": "דנה לוי"}),
        ("Имя: Анна Петрова", {"Анна Петрова": "анна петрова"}),
        ("Mr Speaker on Monday", {"Speaker": "speaker"}),
        ("Name: unknown. Dr. The patient. Date: Monday. Harbour Street Clinic", {}),
    ],
)
def test_names_after_titles_and_labels(text: str, expected: dict[str, str]) -> None:
    assert said(text, person.find(text)) == expected


def test_a_name_of_three_words_is_one_mention_wherever_it_stands() -> None:
    found = grouped("Mrs Anna Maria Ekberg rang. We met Anna Maria Ekberg; Anna Ekberg left.")
    assert found == [["Anna Maria Ekberg", "Anna Maria Ekberg", "Anna Ekberg"]]


def test_a_street_with_its_number_is_the_address_that_has_both() -> None:
    text = "Er wohnt Ringstraße 4, 48337 Lichtenfels. Die Ringstraße 4 ist leer, die Ringstraße 9 nicht."
    assert grouped(text, "DE") == [["Ringstraße 4, 48337 Lichtenfels", "Ringstraße 4"], ["Ringstraße 9"]]


def test_a_pattern_that_runs_away_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "SECONDS_AT_MOST", 0.2)
    (runaway,) = pattern.parse("bad = (?:a|a|aa)+(?:b|c)+d")
    started = time.process_time()
    with pytest.raises(UsageError, match=r"took longer than 0\.2 s"):
        list(pattern.find("a" * 5000, runaway))
    assert time.process_time() - started < 10


WORDS = ("1 A St, ", "a@", "Mr Mr ", "Name: ", "A.B-", "12.", "A’a-", "+1 (2 ", "1 2 33 444 5555 AL ")


@pytest.mark.parametrize("word", few(WORDS, 8))
def test_hostile_texts_take_time_in_proportion(word: str) -> None:
    def seconds(n: int) -> float:
        text = (word * n)[:n]
        started = time.process_time()
        find(text, [(0, len(text))], region="US")
        return time.process_time() - started

    seconds(1000)
    # Quadratic work would take a hundred times as long for ten times the text.
    assert seconds(20_000) < 50 * max(seconds(2000), 0.02)


def test_a_recogniser_s_labels_of_what_is_personal_or_secret_are_kinds() -> None:
    said = {
        "B-private_address": "17 Larch Rise",
        "private_email": "anna@clinic.example",
        "private_phone": "555-010-7788",
        "account_number": "DE44 5001",
        "secret": "hunter",
        "private_url": "x.example/anna",
        "ID_NUM": "K 44-10 zz",
        "ORG": "Harbour Clinic",
        "PHONE": "no number",
    }
    text = "; ".join(said.values())
    labels = [(text.index(value), text.index(value) + len(value), label) for label, value in said.items()]
    found = [
        (mention.type, text[mention.start : mention.end], mention.value)
        for mention in find_recognised(text, "US", lambda _: labels)
    ]
    assert [(kind, value) for kind, value, _ in found] == [
        ("address", "17 Larch Rise"),
        ("email", "anna@clinic.example"),
        ("phone", "555-010-7788"),
        ("account", "DE44 5001"),
        ("key", "hunter"),
        ("web address", "x.example/anna"),
        ("identifier", "K 44-10 zz"),
    ]
    assert found[2][2] == "+15550107788"
