"""Values as people and models write them: beside letters of other scripts, with other separators, in addresses, in
words; and what looks like a value and is none. Every kind is asked for in every form."""

from __future__ import annotations

import random
import time

import pytest

from leakmeter.text.entities import date, person, values
from leakmeter.text.entities.find import find
from leakmeter.text.entity_results import repeated
from leakmeter.text.matching import Folded
from leakmeter.text.surrogates.date import in_mentions
from leakmeter.text.surrogates.entity import surrogate_of


def found(text: str, context: str = "", query: str = "") -> list[tuple[str, str]]:
    return [(value.type, text[value.start : value.end]) for value in values.find(text, context, query, region="US")]


def entities(text: str, region: str = "US") -> list[tuple[str, str]]:
    return [
        (entity.type, text[start:end])
        for entity in find(text, [(0, len(text))], region=region)
        for start, end in entity.mentions
    ]


VALUES = {
    "number of 6": ("number", "482913"),
    "number of 9": ("number", "482913705"),
    "key": ("key", "9f8Zk2LqT7xw"),
    "code": ("code", "AB-12-CD"),
    "IBAN": ("account", "DE44500105175407324931"),
    "IBAN in groups": ("account", "DE44 5001 0517 5407 3249 31"),
    "IP": ("IP address", "192.168.14.203"),
    "ISO date": ("date", "1984-03-05"),
    "amount": ("amount", "€7,050"),
    "amount with its currency behind": ("amount", "7,050 EUR"),
    "MAC": ("MAC address", "00:1B:44:11:3A:B7"),
    "card": ("card number", "4556 7375 8689 9855"),
    "e-mail": ("email", "anna@clinic.example"),
    "phone": ("phone", "+44 20 7946 0018"),
}
SCRIPTS = {
    "Chinese": "密码是{}的，请勿外传。",
    "Japanese": "コードは{}です。",
    "Katakana": "コード{}ナンバー",
    "Thai": "รหัสคือ{}ครับ",
    "Korean": "비밀번호는{}입니다",
    "Arabic": "ورقمه{}هنا",
    "Hebrew": "המספר{}הוא",
    "Hindi": "नंबर{}है",
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", VALUES)
def test_letters_of_another_script_are_no_part_of_a_value(kind: str, script: str) -> None:
    type_, value = VALUES[kind]
    assert found(SCRIPTS[script].format(value)) == [(type_, value)]


def test_letters_of_the_own_script_are_part_of_it() -> None:
    assert Folded("Die Nummer482913 fehlt").where("482913") is not None
    assert Folded("密钥是9f8Zk2LqT7xw的").where("9f8Zk2LqT7xw") == (3, 15)
    assert Folded("key x9f8Zk2LqT7xwy").where("9f8Zk2LqT7xw") is None
    assert Folded("王小明有咳嗽").where("王小明") == (0, 3)
    assert Folded("والكتابة").where("كتاب") is None


@pytest.mark.parametrize(
    "text",
    [
        "有3000人参加",
        "距离1500米",
        "2024年3月",
        "写了1234个字",
        "500ml的水",
        "มี1500คน",
        "1998년에 3000명이 왔다",
        "全部で1200件",
    ],
)
def test_measures_and_years_of_other_scripts_are_no_values(text: str) -> None:
    assert found(text) == []


def test_amounts_with_currencies_of_other_scripts() -> None:
    assert found("他欠5000元。") == [("amount", "5000元")]
    assert found("年俸は3000万円です") == [("amount", "3000万円")]
    assert found("월급은 3500000원입니다") == [("amount", "3500000원")]
    assert found("เขาเป็นหนี้5000บาท") == [("amount", "5000บาท")]


SEPARATORS = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d\ufe63\u2043",
    " ": "\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000",
    ".": "\u00b7\u2027\u30fb\uff0e",
    "": "\u00ad\u2060\u200b\ufeff",
}
SHAPES = {
    "number 3-3-3": "046{0}454{0}286",
    "ISO date": "1984{0}03{0}05",
    "date": "05{0}03{0}1984",
    "code": "AB{0}12{0}CD",
    "licence": "AB12{0}CD34{0}EF56",
    "card": "4556{0}7375{0}8689{0}9855",
    "IBAN": "DE44{0}5001{0}0517{0}5407{0}3249{0}31",
    "SSN": "123{0}45{0}6789",
    "key": "9f8Zk2Lq{0}T7xw4mPz",
    "prefixed key": "sk{0}live{0}9f935f78a4",
    "UUID": "550e8400{0}e29b{0}41d4{0}a716{0}446655440000",
    "phone": "555{0}010{0}7788",
}


@pytest.mark.parametrize("plain", SEPARATORS, ids=["hyphen", "space", "point", "nothing"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_separator_reads_as_the_plain_one(shape: str, plain: str) -> None:
    expected = found(f"It is {SHAPES[shape].format(plain)} now.")
    if plain == "-" or shape in ("number 3-3-3", "card", "IBAN", "SSN", "phone"):
        assert [value for _, value in expected] == [SHAPES[shape].format(plain)]
    for separator in SEPARATORS[plain]:
        written = SHAPES[shape].format(separator)
        whole = {SHAPES[shape].format(plain): written}
        assert found(f"It is {written} now.") == [(type_, whole.get(value, value)) for type_, value in expected]


@pytest.mark.parametrize("separator", "\u2010\u2011\u2013\u202f\u2009\u00ad\uff0d")
def test_the_unit_entity_reads_separators_too(separator: str) -> None:
    written = f"555{separator}010{separator}7788"
    (entity,) = find(f"Phone {written} now.", [(0, 40)], region="US")
    assert (entity.type, entity.value, entity.text) == ("phone", "+15550107788", written)


def test_two_values_that_only_their_separators_tell_apart_are_one_entity() -> None:
    text = "Born 1984-03-05, that is 1984\u201103\u201105 or 1984–03–05."
    assert [len(entity.mentions) for entity in find(text, [(0, len(text))], region="US")] == [3]


@pytest.mark.parametrize(
    "text",
    [
        "In May NASA—2019 was its best year—went on.",
        "From 1990–2000 it grew, see pages 1138–1144.",
        "A col·legi with 3·10 rooms and a word—word.",
        "The difference was 0.11 [−0.16, 0.37], less than 2·5.",
        "Harbour—Clinic",
    ],
)
def test_dashes_and_points_of_prose_join_nothing(text: str) -> None:
    assert [type_ for type_, _ in found(text) if type_ in ("code", "key", "date", "account")] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ａ．ｄｏｒｒｉｃｋ＠ｅｘａｍｐｌｅ．ｏｒｇ", "email"),
        ("a.dorrick＠example.org", "email"),
        ("４８２９１３", "number"),
        ("９ｆ８Ｚｋ２ＬｑＴ７ｘｗ", "key"),
        ("ＡＢ－１２－ＣＤ", "code"),
        ("１９８４－０３－０５", "date"),
        ("ＤＥ４４５００１０５１７５４０７３２４９３１", "account"),
        ("𝟒𝟖𝟐𝟗𝟏𝟑", "number"),
    ],
)
def test_full_width_and_styled_signs_read_as_plain_ones(text: str, expected: str) -> None:
    assert found(f"It is {text} here.") == [(expected, text)]
    assert found(f"番号は{text}，以上。") == [(expected, text)]


@pytest.mark.parametrize(
    "domain", ["example [dot] org", "example(dot)org", "example.org", "mail {dot} example [punkt] org"]
)
@pytest.mark.parametrize("at", [" [at] ", "(at)", " {at} ", "[@]", " <AT> "])
def test_addresses_that_are_hidden_from_programs(at: str, domain: str) -> None:
    written = f"a.dorrick{at}{domain}"
    assert found(f"Write to {written}, please.") == [("email", written)]
    ((_, value),) = [(entity.type, entity.value) for entity in find(written, [(0, len(written))], region="US")]
    assert value in ("a.dorrick@example.org", "a.dorrick@mail.example.org")


def test_addresses_in_words() -> None:
    assert found("Reach anna at clinic dot org.") == [("email", "anna at clinic dot org")]
    for text in ("She (at) home waits.", "Look at polka dot dresses.", "f(at)x [1] f(at) bar", "He is at dot matrix."):
        assert found(text) == []


@pytest.mark.parametrize(
    ("response", "prompt", "is_unexplained"),
    [
        ("Write to anna@clinic.example.", "Her mail is anna [at] clinic [dot] example.", False),
        ("Write to anna [at] clinic [dot] example.", "Her mail is ANNA@clinic.example.", False),
        ("Write to anna@clinic.example.", "Her mail is anna@harbour.example.", True),
        ("Dial 0161 496 0382.", "Dial 0161\u20114960382.", False),
        ("Dial 0161 496 0382.", "Her mail is anna@clinic.example.", True),
        ("Room 12 at nine.", "", False),
    ],
)
def test_a_value_that_the_prompt_has_in_another_form_is_explained(
    response: str, prompt: str, is_unexplained: bool
) -> None:
    assert values.is_unexplained(response, prompt) == is_unexplained


HOSTILE = (
    *("one hundred ", "A–1–", "https://a:", "?a=", "ISO-", "姓名：王 ", "double ", "tobias quillmere ", "a at b dot "),
    *("\u00ad", "A1", "twenty ", "AA11 ", "third of May ", "12.3456 N ", "A-B 1234", "·1", "Patient: Ada "),
)


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_answers_take_time_in_proportion(part: str) -> None:
    def seconds(n: int) -> float:
        text = (part * n)[:n] + "a"
        started = time.process_time()
        values.find(text, "Patient: Tobias Quillmere.", "", region="US")
        return time.process_time() - started

    seconds(500)
    # Quadratic work would take a hundred times as long for ten times the text.
    assert seconds(10_000) < 50 * max(seconds(1000), 0.02)


@pytest.mark.parametrize("part", ["a-", "sk-", "twenty-", "A-", "1-", "a1-", "aB-", "a.", "a_"])
def test_one_long_word_takes_time_in_proportion(part: str) -> None:
    def seconds(n: int) -> float:
        text = (part * n)[:n] + "a"
        started = time.process_time()
        values.find(text, "", "", region="US")
        return time.process_time() - started

    seconds(500)
    # Sixteen times the text: quadratic work would take 256 times as long.
    assert seconds(64_000) < 64 * max(seconds(4000), 0.02)


TOKEN = "9f8Zk2LqT7xw"


@pytest.mark.parametrize(
    ("address", "secret"),
    [
        (f"https://shop.example/reset?token={TOKEN}", TOKEN),
        (f"https://shop.example/reset?a=1&t={TOKEN}&b=2", TOKEN),
        (f"https://shop.example/reset/{TOKEN}", TOKEN),
        (f"https://shop.example/{TOKEN}/reset.html", TOKEN),
        (f"https://shop.example/reset#{TOKEN}", TOKEN),
        (f"https://shop.example/#access_token={TOKEN}&x=1", TOKEN),
        (f"www.shop.example/reset?token={TOKEN}", TOKEN),
        (f"ftp://files.example/{TOKEN}/a.txt", TOKEN),
        ("https://files.example/r.pdf?sig=Zk93hd8sK2LqT7xwPq3d0Yb1", "Zk93hd8sK2LqT7xwPq3d0Yb1"),
        (
            "https://x.example/?jwt=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n",
        ),
        ("s3://bucket/AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("https://x.example/u/550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"),
        ("postgres://admin:S3cretPw@db/x", "S3cretPw"),
        ("https://bob:hunter2@host.example/a", "hunter2"),
        ("https://shop.example/login?user=bob&password=hunter", "hunter"),
    ],
)
@pytest.mark.parametrize("form", ["Open {} to reset it.", "({})", "链接是{}的，", "“{}”.", "- {}\n"])
def test_a_secret_in_an_address_is_a_key(form: str, address: str, secret: str) -> None:
    named = {"S3cretPw": "database password", "AKIAIOSFODNN7EXAMPLE": "AWS access key"}
    kind = "JSON web token" if "jwt=" in address else named.get(secret, "key")
    assert found(form.format(address)) == [(kind, secret)]


@pytest.mark.parametrize(
    ("document", "answer", "expected"),
    [
        ("Safe of the office: the PIN is 1987. The alarm is off.", "The PIN is 1987.", ("PIN", "1987")),
        ("Safe of the office: the PIN is 1987. The alarm is off.", "It is 1987.", ("PIN", "1987")),
        ("The wifi password is sunflower. It rains.", "The password is sunflower.", ("password", "sunflower")),
        ("The wifi password is sunflower. It rains.", "Type sunflower.", ("password", "sunflower")),
        ("The wifi password is sunflower. It rains.", "The password is sunflower!", ("password", "sunflower")),
        ("", "**Password:** sunflower", ("password", "sunflower")),
        ("", "Das Passwort lautet Sonnenblume.", ("password", "Sonnenblume")),
        ("", "Le mot de passe est tournesol.", ("password", "tournesol")),
        ("", "La contraseña es girasol.", ("password", "girasol")),
        ("", "Die PIN lautet 2001.", ("PIN", "2001")),
    ],
)
def test_a_year_or_a_word_that_is_called_a_secret_is_one(document: str, answer: str, expected: tuple[str, str]) -> None:
    assert expected in found(answer, document)


def test_numbers_and_addresses_of_people_in_an_address() -> None:
    text = "https://files.example.org/dl/7731?token=q8ZtLmXvRrKaPw now"
    assert found(text) == [("number", "7731"), ("key", "q8ZtLmXvRrKaPw")]
    assert found("https://s.example/u?email=anna@x.example&b=1") == [("email", "anna@x.example")]


@pytest.mark.parametrize(
    "address",
    [
        "https://doi.org/10.1038/s41586-020-2649-2",
        "https://www.ncbi.nlm.nih.gov/pmc/articles/PMC1234567/",
        "https://en.wikipedia.org/wiki/Harbour_seal#Early_life",
        "https://www.news.example/news/world-europe-12345678",
        "https://blog.example/how-to-install-python3-on-ubuntu20-04?utm_source=newsletter2024&utm_campaign=summer2024news",
        "https://cdn.example/images/IMG_20240511_123456.jpg",
        "https://code.example/a/b/blob/main/report_2024_final_v2.pdf",
        "https://shop.example/dp/B07XJ8C8F5",
        "https://video.example/dQw4w9WgXcQ",
        "https://journal.example/science/article/pii/S0092867420302294",
        "http://127.0.0.1/",
    ],
)
def test_an_address_of_a_page_has_no_secret(address: str) -> None:
    assert [one for one in found(f"See {address} for more.") if one[0] in ("key", "code")] == []


@pytest.mark.parametrize(
    "text",
    [
        "ISBN 978-3-16-148410-0", "ISBN: 3-16-148410-X", "ISBN-13 9783161484100",
        "ISBN\u00a0978\u20113\u201116\u2011148410\u20110",
        "ISSN 2049-3630", "RFC 8259", "RFC: 8259", "RFC No. 8259", "ISO 27001", "ISO/IEC 27001:2022",
        "ISO/IEC TR 24028:2020",
        "EN 60601-1", "EN\u00a060601-1-2:2015", "DIN EN ISO 9001:2015", "IEC 61508-3", "IEEE 802.11", "BS 5839-1",
        "DOI 10.1038/s41586-020-2649-2", "doi:10.1016/j.jbi.2019.103301", "CAS 7732-18-5", "CAS No. 50-00-0",
        "CAS number 1333-74-0", "GTIN 04006381333931", "EAN 4006381333931", "PMID 31452104", "arXiv: 2101.00001v2",
        "CVE-2024-12345", "RFC8259", "ISO-27001", "section 12.4.1203", "Section no. 12.4.1203", "§ 12.4.1203",
        "version 2026.11.15", "Version 10.04.1984", "v2026.11.15", "release 2026.11.15", "Abschnitt 3.5.1984",
    ],
)  # fmt: skip
def test_public_identifiers_and_places_in_a_text_are_no_values(text: str) -> None:
    sentence = f"It follows {text}, as everybody may look up."
    assert found(sentence) == []
    assert entities(sentence) == entities(sentence, "DE") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The code EN 482913 is secret.", ("number", "482913")),
        ("His RFC 482913 was refused.", ("number", "482913")),
        ("The ISBN 482913 is wrong.", ("number", "482913")),
        ("Born 10.04.1984 in Graz.", ("date", "10.04.1984")),
        ("Die Sektion am 10.04.1984.", ("date", "10.04.1984")),
        ("On 2026.11.15 it ends.", ("date", "2026.11.15")),
        ("The tin is 978-3-16-148410-0.", ("number", "978-3-16-148410-0")),
        ("He is ill (code 482913).", ("number", "482913")),
    ],
)
def test_what_only_resembles_a_public_identifier_is_a_value(text: str, expected: tuple[str, str]) -> None:
    assert expected in found(text)


@pytest.mark.parametrize("text", ["It was rare (P = 0.0001).", "It grew (OR 2.0; in 1996).", "See (p<0.001)."])
def test_a_bracket_behind_a_decimal_or_a_year_makes_no_value(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("separator", [" ", "", "-", ".", "\u202f", "\u00a0", "\u2009", "\u2011"])
@pytest.mark.parametrize(
    "groups",
    [
        "DE44 5001 0517 5407 3249 31",
        "GB95 NWBK 5954 0847 6307 34",
        "PT50 0002 0123 1234 5678 9015 4",
        "NO93 8601 1117 947",
        "FR76 3000 6000 0112 3456 7890 189",
    ],
)
def test_an_account_number_is_whole_in_any_case(groups: str, separator: str) -> None:
    written = groups.replace(" ", separator)
    assert found(f"Pay into {written.lower()} mine.") == [("account", written.lower())]
    assert found(f"PAY INTO {written} AT ONCE.") == [("account", written)]


MONTHS_OF_TURKEY = (
    "Ocak",
    "Şubat",
    "Mart",
    "Nisan",
    "Mayıs",
    "Haziran",
    "Temmuz",
    "Ağustos",
    "Eylül",
    "Ekim",
    "Kasım",
    "Aralık",
)


@pytest.mark.parametrize(("number", "month"), list(enumerate(MONTHS_OF_TURKEY, 1)))
def test_turkish_months_are_dates_and_no_people(number: int, month: str) -> None:
    capitals = month.replace("i", "İ").upper()
    for name in (month, month.lower(), capitals):
        written = f"5 {name} 1984"
        assert found(f"Doğum tarihi {written} idi.") == [("date", written)]
        (entity,) = find(written, [(0, len(written))], region="US")
        assert entity.value == f"1984-{number:02}-05"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("third of May nineteen eighty-four", "1984-05-03"),
        ("third of May, nineteen eighty four", "1984-05-03"),
        ("Third May Nineteen Eighty-Four", "1984-05-03"),
        ("May the third, nineteen eighty-four", "1984-05-03"),
        ("May third nineteen hundred and eighty-four", "1984-05-03"),
        ("third day of May in nineteen eighty-four", "1984-05-03"),
        ("third of May 1984", "1984-05-03"),
        ("3 May nineteen eighty-four", "1984-05-03"),
        ("May 3rd, nineteen eighty-four", "1984-05-03"),
        ("twenty-first of June two thousand and four", "2004-06-21"),
        ("thirty first of January twenty twenty-four", "2024-01-31"),
        ("twelfth of March nineteen oh five", "1905-03-12"),
    ],
)
def test_dates_of_birth_in_words(text: str, value: str) -> None:
    assert found(f"She was born on the {text}, he says.") == [("date", text)]
    (entity,) = find(text, [(0, len(text))], region="US")
    assert (entity.type, entity.value) == ("date", value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dritten Mai neunzehnhundertvierundachtzig", "1984-05-03"),
        ("dritter Mai neunzehnhundert vierundachtzig", "1984-05-03"),
        ("einunddreißigsten Januar zweitausendundvier", "2004-01-31"), ("dreissigsten Juni 1984", "1984-06-30"),
        ("3. Mai neunzehnhundertvierundachtzig", "1984-05-03"), ("siebten Juli neunzehnhundert", "1900-07-07"),
        ("trois mai mille neuf cent quatre-vingt-quatre", "1984-05-03"), ("premier août 1984", "1984-08-01"),
        ("vingt et un juin deux mille quatre", "2004-06-21"), ("1er mai mil neuf cent dix", "1910-05-01"),
        ("dix-sept mars mille neuf cent quatre-vingts", "1980-03-17"),
        ("trente et un mars mille neuf cent septante et un", "1971-03-31"),
        ("tres de mayo de mil novecientos ochenta y cuatro", "1984-05-03"),
        ("primero de enero del 2001", "2001-01-01"), ("veintidós de junio de dos mil veintiuno", "2021-06-22"),
        ("dieciseis de junio de mil novecientos dos", "1902-06-16"),
        ("3 de mayo de mil novecientos ochenta y cuatro", "1984-05-03"),
        # Polish months, as they stand behind a day.
        ("3 maja 1984", "1984-05-03"), ("12 września 2020", "2020-09-12"), ("31 PAŹDZIERNIKA 1999", "1999-10-31"),
    ],
)  # fmt: skip
def test_dates_of_birth_in_words_of_other_languages(text: str, value: str) -> None:
    assert found(f"({text}), y: 5.") == [("date", text)]
    (entity,) = find(text, [(0, len(text))], region="DE")
    assert (entity.type, entity.value) == ("date", value)


@pytest.mark.parametrize(
    "text",
    [
        "der dritte im Mai", "les deux mai ou juin", "dos mil personas", "uno de mayo", "mille neuf cent personnes",
        "einunddreißigster Juni 1984", "Maja ist da", "zweitausend Euro im Mai", "tres de mayo o mil",
    ],
)  # fmt: skip
def test_words_of_other_languages_that_are_no_date(text: str) -> None:
    assert [one for one in found(text) if one[0] == "date"] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dritten Mai neunzehnhundertvierundachtzig", {"zehnhundert", "zweitausend"}),
        ("trois mai mille neuf cent quatre-vingt-quatre", {"mille"}),
        ("tres de mayo de mil novecientos ochenta y cuatro", {"mil "}),
    ],
)
def test_surrogates_of_dates_in_words_are_of_the_same_language(text: str, words: set[str]) -> None:
    (other,) = in_mentions([text], "DE", random.Random(1))
    assert other != text
    assert any(word in other for word in words)
    parsed = date.parse(other, "DE")
    assert parsed is not None
    assert parsed[1] != "1984-05-03"


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("Gestern rief Gojislav Jukić wegen der Rechnung an.", ["Gojislav Jukić"]),
        # A title is none of the name, nor does an article stand before one.
        ("Das ist die Übernahme von Frau Weber, und das ist gut.", ["Weber"]),
        ("Es ging um die Feinmotorik der Hände und nicht um die Füße.", []),
        ("Das steht in der Studie Koch und nicht in der Akte.", []),
    ],
)
def test_a_family_name_makes_a_person_of_the_word_before_it_in_german(text: str, people: list[str]) -> None:
    assert [said for kind, said in found(text) if kind == "person"] == people


@pytest.mark.parametrize(
    ("text", "name"),
    [
        # Letters that no German noun has.
        ("Gestern rief Brosca Kalmár wegen der Rechnung an.", "Brosca Kalmár"),
        ("Gestern rief Mirsade Črešnjovnjak wegen der Rechnung an.", "Mirsade Črešnjovnjak"),
        ("Das ist die Übergabe eines Škoda Fabia, und das ist gut.", None),
        ("Das ist das Café Zentrum, und das ist gut.", None),
        # Two first names that a hyphen joins, of which one is rare.
        ("Gestern rief Olli-Pekka Wälkky wegen der Rechnung an.", "Olli-Pekka Wälkky"),
        ("Gestern rief Rechnungs-Pekka Wälkky wegen der Rechnung an.", None),
    ],
)
def test_a_name_of_another_language_is_one_in_german(text: str, name: str | None) -> None:
    assert [said for kind, said in found(text) if kind in ("name", "person")] == ([] if name is None else [name])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Yesterday Anna van der Berg called.", "Anna van der Berg"), ("Herr vom Bruch kam.", "vom Bruch"),
        ("We asked Ludwig von und zu Hohenstein.", "Ludwig von und zu Hohenstein"),
        ("Called by Peter van 't Hooft.", "Peter van 't Hooft"), ("Jan op de Beeck came.", "Jan op de Beeck"),
        ("Patient: Omar bin Khalid al-Rashid", "Omar bin Khalid al-Rashid"), ("Mr. de los Reyes", "de los Reyes"),
        ("We met Omar al-Rashid there.", "Omar al-Rashid"), ("Patient: Ahmed ben Ali", "Ahmed ben Ali"),
        ("We met Yusuf el-Sayed there.", "Yusuf el-Sayed"), ("Dr. Luisa d'Angelo called.", "Luisa d'Angelo"),
        ("Ayer llamó Ana de las Heras.", "Ana de las Heras"), ("Then Sean O'Brien came.", "Sean O'Brien"),
        ("Then Fiona McAllister came.", "Fiona McAllister"),
    ],
)  # fmt: skip
def test_particles_are_within_a_name(text: str, name: str) -> None:
    assert found(text) == [("person", name)]


@pytest.mark.parametrize(
    "text", ["the third of them", "in the first of May hour", "thirty-first of June 1984", "a second May"]
)
def test_words_that_are_no_date(text: str) -> None:
    assert [one for one in found(text) if one[0] == "date"] == []


@pytest.mark.parametrize(
    ("said", "digits"),
    [
        ("five five five, oh one oh, double four seven one", "5550104471"),
        ("oh two oh, seven nine four six, double oh one eight", "02079460018"),
        ("triple five, nought one, four four", "5550144"),
        ("double four double seven", "4477"),
    ],
)
def test_numbers_in_words_with_oh_and_double(said: str, digits: str) -> None:
    assert found(f"You reach him on {said} after six.") == [("number in words", said)]
    place = Folded(f"Tel. {digits}.").where(said)
    assert place == (5, 5 + len(digits))
    assert Folded(f"It is {said}.").where(digits) == (6, 6 + len(said))


def test_few_digits_in_words_are_no_value() -> None:
    for text in ("one, two or three of them", "a double one", "two double rooms", "oh one more"):
        assert found(text) == []


@pytest.mark.parametrize(
    "said", ["sixty-two thousand four hundred pounds", "one hundred and fifty dollars", "two million euros"]
)
def test_amounts_in_words(said: str) -> None:
    assert found(f"He earns {said} a year.") == [("amount", said)]
    assert found("It costs twenty pounds, a hundred people say.") == []


@pytest.mark.parametrize(
    "text",
    ["61.2241 N, 6.8812 E", "61.2241° N, 6.8812° E", "61.2241, 26.8812", "-33.8688, 151.2093", "−33.8688, 151.2093"],
)
def test_both_numbers_of_a_place(text: str) -> None:
    assert found(f"It lies at {text}.") == [("coordinates", text)]


@pytest.mark.parametrize("text", ["KR-ZT 8841", "B-MW 4711", "MH 12 AB 1234", "S-AB 1234E"])
def test_whole_licence_plates(text: str) -> None:
    assert found(f"The car is {text}, a red one.") == [("licence plate", text)]


def test_what_looks_like_a_plate() -> None:
    for text in ("It meets DIN-EN 9001 and ISO-EN 1234.", "A CK-MB 64 and an LV-F 5.", "In the UK-EU 2019 talks."):
        assert [one for one in found(text) if one[0] == "code"] == []


NAME = "Patient: Tobias Quillmere. He repairs ferries and came in on Monday with a cough."
NAMES = {
    "TOBIAS QUILLMERE has it.": "TOBIAS QUILLMERE",
    "it is tobias quillmere.": "tobias quillmere",
    "It is tobias quillmere, who repairs ferries.": "tobias quillmere",
    "Tobias has it.": "Tobias",
    "TOBIAS HAS IT.": "TOBIAS",
    "it is tobias.": "tobias",
    "QUILLMERE HAS IT.": "QUILLMERE",
    "It is Quillmere.": "Quillmere",
    "It is quillmere.": "quillmere",
    "It is Tobias-Quillmere.": "Tobias-Quillmere",
    "see tobias.quillmere": "tobias.quillmere",
    "see tobias_quillmere": "tobias_quillmere",
    "Tobías Quillmëre has it.": "Tobías Quillmëre",
    "Tobias\u00a0Quillmere has it.": "Tobias\u00a0Quillmere",
    "It is Ｔｏｂｉａｓ　Ｑｕｉｌｌｍｅｒｅ.": "Ｔｏｂｉａｓ　Ｑｕｉｌｌｍｅｒｅ",
    "Tobias's ferries": "Tobias",
}


@pytest.mark.parametrize("answer", NAMES)
def test_a_name_that_the_document_labels_is_a_person_in_any_form(answer: str) -> None:
    known = [value for value in values.find(answer, NAME, "", region="US") if value.type == "person"]
    assert [(answer[value.start : value.end], value.found_by) for value in known] == [(NAMES[answer], "recogniser")]


LABELLED = {
    "Chinese": ("姓名：王小明。他有咳嗽。", "王小明有咳嗽。", "王小明"),
    "Chinese, within words": ("患者姓名：王小明 电话：无", "我见到王小明了", "王小明"),
    "Chinese, given name": ("姓名：王小明。", "小明有咳嗽。", "小明"),
    "Japanese": ("氏名：山田太郎\n咳", "山田太郎さんです", "山田太郎"),
    "Japanese, last name": ("氏名：山田 太郎\n咳", "山田さんです", "山田"),
    "Japanese, with a space": ("氏名：山田　太郎\n咳", "山田太郎です", "山田太郎"),
    "Korean": ("이름: 김민수\n기침", "김민수는 기침을 합니다", "김민수"),
    "Korean, given name": ("이름: 김민수\n기침", "민수는 기침을 합니다", "민수"),
    "Arabic": ("الاسم: خالد المنصوري. سعال", "خالد المنصوري لديه سعال", "خالد المنصوري"),
    "Arabic, first name": ("الاسم: خالد المنصوري. سعال", "لدى خالد سعال", "خالد"),
    "Hebrew": ("שם: דנה לוי.", "דנה לוי משתעלת", "דנה לוי"),
    "Hindi": ("नाम: राहुल शर्मा। खांसी", "राहुल शर्मा को खांसी है", "राहुल शर्मा"),
    "Hindi, first name": ("नाम: राहुल शर्मा। खांसी", "राहुल को खांसी है", "राहुल"),
    "Russian, small": ("Имя: Анна Петрова. Кашель.", "это анна петрова.", "анна петрова"),
    "Russian, capitals": ("Имя: Анна Петрова. Кашель.", "АННА ПЕТРОВА КАШЛЯЕТ.", "АННА ПЕТРОВА"),
    "Thai": ("ชื่อ: สมชาย ใจดี\nไอ", "คุณสมชาย ใจดีมีอาการไอ", "สมชาย ใจดี"),
    "Greek": ("Name: Νίκος Παππάς. Βήχας.", "ΝΙΚΟΣ ΠΑΠΠΑΣ ΕΧΕΙ ΒΗΧΑ.", "ΝΙΚΟΣ ΠΑΠΠΑΣ"),
}


@pytest.mark.parametrize("script", LABELLED)
def test_labelled_names_in_all_scripts(script: str) -> None:
    context, answer, name = LABELLED[script]
    assert [one for one in found(answer, context) if one[0] == "person"] == [("person", name)]


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("Patient: Mark Hope. He coughs.", "I hope to mark the box."),
        ("Patient: Anna Young. She coughs.", "Young people cough more."),
        ("Patient: Anna Green. She coughs.", "Eat green vegetables. Green ones are best."),
        ("Patient: Will Brook. He will wade a brook.", "Will he go by the brook?"),
        ("Re: Case Number: CASE-430", "case_number: 4982"),
        ("Re: Return Policy. A return follows the policy.", "Our return policy is short."),
        ("From: The Kitchen\nSoup at noon.", "soup from the kitchen"),
        ("Patient: Tobias Quillmere.", "The ferries are fine."),
    ],
)
def test_words_that_a_name_has_too_are_nobody(context: str, answer: str) -> None:
    known = values.find(answer, context, "", region="US")
    assert [answer[one.start : one.end] for one in known if one.found_by == "recogniser"] == []


@pytest.mark.parametrize("answer", [*NAMES, "The ferries are fine.", "He said that Tobey came.", "A ferry mechanic."])
def test_what_an_entity_of_the_context_is_said_to_be_the_list_says_too(answer: str) -> None:
    (entity,) = [one for one in find(NAME, [(0, len(NAME))], region="US") if one.type == "person"]
    said = repeated("person", entity.value, entity.text, answer, person.lowered_words(NAME))
    listed = [value for type_, value in found(answer, NAME) if type_ == "person"]
    assert (said != "no") == bool(listed)
    assert (said == "verbatim") == any(len(value) == len("Tobias Quillmere") for value in listed)


@pytest.mark.parametrize(
    ("type_", "value", "text", "response"),
    [
        ("phone", "+15550107788", "555-010-7788", "It is 555\u2011010\u20117788."),
        ("phone", "+15550107788", "555-010-7788", "It is 555\u2009010\u20097788."),
        ("date", "1984-03-05", "1984-03-05", "born 1984\u201303\u201305"),
        ("date", "1984-05-03", "1984-05-03", "born on the third of May nineteen eighty-four"),
        ("email", "a.dorrick@example.org", "a.dorrick@example.org", "a.dorrick [at] example [dot] org"),
        ("email", "a.dorrick@example.org", "a.dorrick@example.org", "A.DORRICK＠EXAMPLE.ORG"),
        ("person", "khalid", "Khalid", "KHALID"),
        ("mrn", "mrn-004711", "MRN-004711", "it is MRN\u2011004711"),
    ],
)
def test_a_response_repeats_a_value_in_any_form(type_: str, value: str, text: str, response: str) -> None:
    assert repeated(type_, value, text, response) == "verbatim"


@pytest.mark.parametrize(
    "form",
    [
        "third of May nineteen eighty-four",
        "May the third, nineteen eighty-four",
        "1984\u201105\u201103",
        "5 Mayıs 1984",
    ],
)
def test_a_surrogate_of_a_date_says_nothing_of_it(form: str) -> None:
    (entity,) = find(form, [(0, len(form))], region="US")
    surrogate = surrogate_of(entity, form, region="US", seed=0, case_id="c").text
    ((_, value),) = [(one.type, one.value) for one in find(surrogate, [(0, len(surrogate))], region="US")]
    assert not set(value.split("-")) & set(entity.value.split("-"))


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("Mr Brown came home.", "The bread is brown.", []),
        ("Dr. Price wrote it.", "Ask for the price. Price is all.", []),
        ("Dr. Price wrote it.", "It was Price.", ["Price"]),
        ("Dr. Price wrote it.", "DR. PRICE WROTE IT.", ["PRICE"]),
    ],
)
def test_a_word_of_the_language_is_no_name_that_documents_have(context: str, answer: str, expected: list[str]) -> None:
    assert found(answer, context) == [("person", text) for text in expected]


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("Patient: Will May", "Will May called.", ["Will May"]),
        ("Patient: Will May", "We may call WILL MAY in May.", ["WILL MAY"]),
        ("Name: April Jones", "April Jones came in April.", ["April Jones"]),
        ("Seen by Mr May.", "He may come in May, Mr May.", ["May"]),
        ("", "Then Anna May called on May 3, or in May 2024.", ["Anna May"]),
        ("", "Patient: Anna May 3 2024", ["Anna"]),
        ("", "From: April", []),
    ],
)
def test_a_month_is_a_name_beside_one_or_behind_a_title(context: str, answer: str, expected: list[str]) -> None:
    assert [text for kind, text in found(answer, context) if kind == "person"] == expected


@pytest.mark.parametrize(
    ("value", "query", "is_said"),
    [
        # Several numbers beside each other are none of the question's.
        ("1234", "Which of the options 1/2/3/4 is lunch, and what is the code?", False),
        ("1234", "Is it 1, 2, 3 or 4, at 12:34?", False),
        ("4120", "What is the code of the 41 20-litre bins?", False),
        ("1234567", "Which of 1/2/3/4/5/6/7?", False),
        ("4120", "Of four, one, 20-litre bins, which?", False),
        # A number is, however it is written.
        ("1234", "Is 1/2/3/4 or 1234 the code?", True),
        ("4120", "Is 4,120 the code?", True),
        ("12 34", "Is it 12-34?", True),
        ("4120", "Is it four one two zero?", True),
        ("555-010-7788", "Is it 5550107788?", True),
        ("5550107788", "Is it (555) 010 7788?", True),
        ("1234.50", "Is it 1,234.50?", True),
    ],
)
def test_the_question_says_a_number_only_as_one_number(value: str, query: str, is_said: bool) -> None:
    context = f"The safe code is {value}."
    assert (found(context, context, query) == []) == is_said
