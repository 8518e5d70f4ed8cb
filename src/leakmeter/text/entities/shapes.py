"""Values that a shape gives away in any language: keys, codes, numbers, numbers in words, and capitalised names.

A shape says less than a recogniser: a product has a capitalised name too. It is asked of what a text says and a model
would not have said by itself, see `instruments.influence.disclosures`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources
from typing import Final

import regex

from leakmeter.core.folder import module_in
from leakmeter.text.entities import packs
from leakmeter.text.entities.date import MONTHS, TEENS, TENS, UNITS
from leakmeter.text.entities.mention import PERSON, Mention
from leakmeter.text.entities.names import NAME, without_opening
from leakmeter.text.entities.packs import pack, search
from leakmeter.text.entities.person import PREFIX, is_month_as_name, is_ordinary, opens_sentence
from leakmeter.text.folding import CASED, WORD, alike, any_of, in_plain_text, plain, unaccented

KEY, CODE, NUMBER, AMOUNT, ACCOUNT, SPELLED = "key", "code", "number", "amount", "account", "number in words"
NAME_TYPE: Final = "name"
"""A capitalised name of which it is not known whose it is: a person's, a firm's, a product's."""

_TOKEN = regex.compile(rf"(?<![{WORD}+/=!#$%&*@?.:-])[{WORD}+/=!#$%&*@?.:-]*[{WORD}+/=](?![{WORD}])")
_LIKE_KEY = re.compile(r"(?<!\S)\S*?(?:[0-9]|://|www\.|WWW\.)\S*")
"""Signs between spaces that may have such a token that is a key or a code: one has a digit, or is an address."""
_GROUPS = regex.compile(rf"(?<![{WORD}.,-])[(+]{{0,2}}\d[\d()]*(?:[ .,/-]{{1,2}}[\d()]+)*(?![{WORD}])")
_LATIN: Final = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"})
"""Letters that no accent can be taken from, as lists of names write them."""
_TITLES: Final = frozenset(
    {
        *("Herr", "Herrn", "Frau", "Mr", "Mrs", "Ms", "Miss", "Mx", "Dr", "M", "Mme", "Mlle", "Sr", "Sra", "Srta"),
        *("Don", "Doña", "Señor", "Señora"),
    }
)
_CURRENCY = (
    rf"(?:[€£$¥₹₩฿₺₽₪]|(?<![{CASED}])(?:EUR|USD|GBP|CHF|euros?|dollars?|pounds?|Franken|libras|dólares)(?![{WORD}])"
    r"|[万萬億亿千百만억천]{0,2}(?:美元|欧元|歐元|日元|人民币|元|円|圆|圓|块|원|달러|유로|ドル|ユーロ|ウォン|บาท|ยูโร|ดอลลาร์))"
)
_MONEY_BEHIND = regex.compile(rf"(?:,-)?[ -]{{0,2}}(?:,- )?{_CURRENCY}", regex.IGNORECASE)
_MONEY_BEFORE = regex.compile(rf"{_CURRENCY}[ ]?\Z", regex.IGNORECASE)
_NO_VALUE = regex.compile(r"(?:1[5-9]|20)\d\d(?:[-/]\d{2,4})?|\d{1,2}\.\d{2}(?:-\d{1,2}\.\d{2})?|0?\.\d+|\d\.\d+")
"""Years, times of day and decimals."""
_NO_CODE = regex.compile(
    r"\d+(?:st|nd|rd|th|er|e|º|ª|s|[a-zµ]{1,3})|\d+(?:[:.,]\d+)*(?:-\p{Ll}+)+|\d{1,2}[:.h]\d{2}(?:[ap]m|h)?"
)
"""'21st', '250ml', '24-hour', '8:30am'."""
_PUBLIC = regex.compile(
    r"NCT\d{8}|ISRCTN\d+|rs\d{4,}|(?:ISO|IEC|EN|DIN|IEEE|RFC|CVE|ISBN|ISSN|COVID|SARS)[-/]?[\d-]+\w*|\d{1,3}m?\p{Lu}\p{Ll}?-\w+|"
    r"(?:SHA|MD|MP|H|IL|CD|HLA|UTF|USB|WPA|IP|PM|CO)-?\d+\w?"
)
_URL = regex.compile(
    r"(?:[A-Za-z][A-Za-z\d+.-]{1,20}://(?:[^\s/@:]*:(?P<password>[^\s/@]+)@)?|(?=www\.))[^\s/?#]*", regex.IGNORECASE
)
_URL_PART = regex.compile(r"(?:(?<=[?&#;/])(?P<name>[^/?&#=]+)=)?(?P<value>[^/?&#=:@]+={0,2})")
_SECRET_NAME = regex.compile(
    r"(?:.*[_.-])?(?:access|auth|api|refresh|session|reset|secret|private|php)?"
    r"(?:token|key|secret|passw(?:or)?d|pass|pwd|passcode|sig|signature|session|id?sid|sid|sessionid|jwt|credentials?"
    r"|auth|otp|pin|code)",
    regex.IGNORECASE,
)
"""Of a parameter of an address."""
_UUID = regex.compile(r"[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}")
_PIECE = regex.compile(r"[A-Za-z\d]+")
_CHANGE = regex.compile(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d|(?<=[a-z])[A-Z]")
_CAPITAL_KEY = regex.compile(r"(?=\D*\d)[A-Z]+\d[A-Z\d]*[A-Z][A-Z\d]*|\d+[A-Z][A-Z\d]*\d[A-Z\d]*")
# Matched from a word's first sign, so that each sign is read once however long the word is.
_MIXED_CASES = regex.compile(r"\P{Ll}*+\p{Ll}\P{Lu}*+\p{Lu}\P{Ll}*+\p{Ll}")
_LETTERS_IN_DIGITS = regex.compile(r"\d\p{L}++\d")
_TWO_CAPITALS = regex.compile(r"(?:Mc|Mac|Fitz|De|Di|Du|La|Le|Van|Von)\p{Lu}\p{Ll}+")
_MAIL = regex.compile(r"[^@]+@[\w-]+(?:\.[\w-]+)+")
_SIGNS = regex.compile(r"[!#$%&*?+/=@]")
_UNIT = regex.compile(
    r"[\s-]?(?:%|°|(?:[kcmµ]?[mglWVAs]|k?Wh|[kMGT]?Hz|[kMGT]i?B|mbar|bar|rpm|ppm|dB)(?![A-Za-z])|"
    r"(?:Minut|Sekund|Stund|Tag|Woche|Monat|Jahr|Meter|Millim|Zentim|Kilo|Gramm|Liter|Grad|Prozent|Watt|Volt|Seite|Stück|"
    r"minut|second|hour|day|week|month|year|met(?:er|re|ro)|millim|centim|kilo|gram|lit(?:er|re|ro)|degree|percent|watt|"
    r"volt|page|piece|heure|jour|semaine|mois|an(?:s|née|née?s|ual)|grade?|hora|día|semana|mes|año|grado|"
    r"points?\b|mile|people|patient|participant|case|words?\b|times?\b|fois|veces|Mal\b))"
)
_COUNTED = regex.compile(
    r"[ ]?[万萬億亿千百만억천]?(?:[年月日时時分秒米克升度人个個件名次岁歳页頁]|公[里斤顷]|小时|週間|[ヶカか]月"
    r"|メートル|キロ|グラム|リットル|ページ"
    r"|[년월일시분초명개회세]|시간|미터|킬로|그램|리터|사람|페이지"
    r"|ปี|เดือน|วัน|ชั่วโมง|นาที|วินาที|คน|ครั้ง|กรัม|กิโล|เมตร|ลิตร|หน้า|องศา|คะแนน)"
)
"""What is counted in scripts without capitals. One letter may as well begin another word, so that only a number of few
digits is a measure."""
_MOST_COUNTED: Final = 5
_DIGIT_WORDS: Final = (
    "zero one two three four five six seven eight nine",
    "null eins zwei drei vier fünf sechs sieben acht neun",
    "zéro un deux trois quatre cinq six sept huit neuf",
    "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "zero uno due tre quattro cinque sei sette otto nove",
    "zero um dois três quatro cinco seis sete oito nove",
    "nul een twee drie vier vijf zes zeven acht negen",
)
_OTHER_DIGITS: Final = {"oh": 0, "nought": 0, "zwo": 2, "une": 1, "una": 1, "uma": 1, "duas": 2, "meia": 6, "één": 1}
_DIGIT_OF: Final = {word: str(digit) for words in _DIGIT_WORDS for digit, word in enumerate(words.split())} | {
    word: str(digit) for word, digit in _OTHER_DIGITS.items()
}
"""Words for digits in seven languages; none of them is another digit in another."""
_TIMES: Final = {"double": 2, "triple": 3, "treble": 3}
"""Words that say how often the digit behind them is meant."""
_DIGIT_OR_WORD = regex.compile(r"\d|[\p{L}\p{M}]+")
_DIGIT = rf"(?:(?:(?:{'|'.join(_TIMES)})[ -])?(?:{'|'.join(_DIGIT_OF)}))"
_SPELLED = regex.compile(rf"(?<![{WORD}]){_DIGIT}(?:[\s,;.–-]{{1,3}}{_DIGIT})+(?![{WORD}])", regex.IGNORECASE)
_SPELLED_AT = re.compile(
    rf"(?<![a-z0-9_])(?=(?:{any_of((*_DIGIT_OF, *_TIMES))})[\s,;.–-]{{1,3}}(?:{any_of((*_DIGIT_OF, *_TIMES))}))"
)
_LARGE_AT = re.compile(any_of(("hundred", "thousand", "million", "billion")))
_BELOW_100 = rf"(?:{'|'.join((*TENS, *TEENS, *UNITS))}|a)"
_LARGE = r"(?:hundred|thousand|million|billion)"
_SPELLED_AMOUNT = regex.compile(
    rf"(?<=(?<![{WORD}])(?P<first>{_BELOW_100}(?:[ -](?:and[ ])?(?:{_BELOW_100}|{_LARGE})){{0,8}})[ -])"
    rf"{_LARGE}(?:[ -](?:and[ ])?(?:{_BELOW_100}|{_LARGE})){{0,8}}"
    r"[ ](?:euros?|dollars?|pounds?|francs?|rupees?|yen|yuan)(?!\w)",
    regex.IGNORECASE,
)
_DETERMINER = regex.compile(
    r"(?i:de[rmns]|die|das|dies\w+|jed\w+|(?:k|m|d|s)?ein\w*|ihr\w*|unser\w*|euer|eur\w+|[ia]m|zu[mr]|beim|vom)"
    r"|[\p{Ll}]+e[nmrs]?"
)
_FOREIGN_LETTER = regex.compile(r"[^\P{Latin}A-Za-zÄÖÜäöüßẞàâçèéêëîïôœûñ]")
"""Letters of neither German nor words that it took from French and Spanish."""
_OPENS_LABEL: Final = ("**", "__", "(", "[")
_COLON = regex.compile(r"(?:\*\*|__)?[ ]?:(?!\w)")
_RUN = regex.compile(rf"(?<![{CASED}.@-]){NAME}")
_FIRM = regex.compile(
    r"(?:Inc|Ltd|LLC|LLP|PLC|Corp|Corporation|Incorporated|Limited|Industries|Holdings|Enterprises|Technologies|Solutions"
    r"|Associates|Airlines|Pharmaceuticals|Universit(?:y|ät|é)|Universidad|Institut(?:e|o)?|Foundation|Fondation|Fundación"
    r"|Hospital|GmbH|AG|KG|KGaA|Stiftung|Verlag|Werke|Klinik|SARL|SAS)\.?"
)
"""Words that end the name of a firm or of an institution, and that nobody is called by."""
_PREFIXED = regex.compile(PREFIX)
_LAST_WORD = regex.compile(r"[\p{L}\p{M}]+(?=\s*\Z)")
_LONGEST_WORD: Final = 60
_WORD = regex.compile(r"[\p{L}\p{M}]+(?:['’-][\p{L}\p{M}]+)*")
_LETTER = regex.compile(r"[\p{L}\p{M}]")
_WORD_BEFORE = regex.compile(r"(?<=(?P<before>[\p{L}\p{M}]+)\s)")
_GERMAN = regex.compile(r"(?<!\w)(?:der|die|das|und|ist|nicht|ein|den|dem|mit)(?!\w)")
_LOCALES: Final = (
    *("en_US", "en_GB", "en_IN", "de_DE", "de_AT", "de_CH", "fr_FR", "es_ES", "es_MX", "it_IT", "pt_BR", "pt_PT"),
    *("nl_NL", "sv_SE", "da_DK", "no_NO", "fi_FI", "pl_PL", "cs_CZ", "hu_HU", "ro_RO", "hr_HR", "tr_TR", "ga_IE"),
    *("ru_RU", "uk_UA", "bg_BG", "el_GR"),
)
_CALENDAR: Final = frozenset(
    word.casefold()
    for words in (
        *MONTHS.values(),
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Christmas Easter",
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag Sonnabend Ostern Weihnachten",
        "lundi mardi mercredi jeudi vendredi samedi dimanche Noël Pâques",
        "lunes martes miércoles jueves viernes sábado domingo Navidad",
    )
    for word in words.split()
)
_OTHER_PLACES: Final = (
    *("Africa", "America", "Asia", "Europe", "África", "América", "Europa", "Asien", "Afrika", "Paris", "England"),
    *("Scotland", "Wales", "United States", "United Kingdom", "British Columbia", "Los Angeles", "San Francisco"),
)
_SAID_WITHOUT_ARTICLE: Final = frozenset(
    {
        # Matter, colours, plants, seasons and virtues.
        *("amber", "basil", "brandy", "coral", "crystal", "dawn", "destiny", "diamond", "faith", "gold", "grace"),
        *("harm", "hazel", "heather", "heide", "ivy", "jade", "jasmine", "joy", "love", "olive", "pearl", "rose"),
        *("rosemary", "ruby", "sherry", "sol", "tea", "tequila", "violet"),
        # What notes and headings leave the article away from, and words of other languages.
        *("canal", "cord", "forum", "gala", "mate", "mentor", "saga", "server", "tone", "toy", "tage"),
        *("christian", "german", "philippine", "roman"),
        *(
            "ante",
            "del",
            "durante",
            "einer",
            "ella",
            "esa",
            "lone",
            "nada",
            "odd",
            "par",
            "peer",
            "pero",
            "theres",
            "ties",
            "til",
        ),
        *("una", "uno", "van"),
        # Towns and other places.
        *("adelaide", "alexandria", "augusta", "austin", "bergen", "carolina", "charlotte", "chelsea", "dakota"),
        *("devon", "florence", "hagen", "kent", "lourdes", "medina", "milan", "orlando", "salvador", "santiago"),
        *("savannah", "siena", "sierra", "sydney", "trinidad", "valencia", "victoria"),
        # Firms and machines.
        *("alexa", "claude", "mercedes", "meta", "nova", "siri", "valentine"),
    }
)
"""First names that are other things too, which open a sentence before a verb as a person does."""
_SUBJECT = regex.compile(
    r"[*_]{0,2}(?:['’]s(?!\w)|,[ ](?:who|qui|que)(?!\w)|(?:,[ ]\d{1,2},|[ ]\(\d{1,2}\))?[ ](?:"
    # English
    r"(?:is|was|ha[sd]|does|did|would|could)(?:n['’]t)?|won['’]t|will|can(?:no|['’])?t?|should|must|might|may|got"
    r"|\p{Ll}{3,}(?:ed|(?<!fami)ly|(?<!s)s)|also|still|now|never|just|has|became|began|bore|broke|brought|came|caught|chose"
    r"|drank|drove|fell|fought|found|gave|hid|knew|lay|led|lives|made|ran|said|sat|saw|spoke|stole|stood|threw|told"
    r"|took|wore"
    # German; and as some verbs of French and Spanish end
    r"|ist|war|hat|hatte|kann|muss|soll|will|darf|mag|bekam|gab|ging|kam|lag|litt|nahm|starb|trank|verlor"
    r"|\p{Ll}{2,}te?"
    # French
    r"|n['’]\p{Ll}+|s['’]\p{Ll}+|a|ne|se|va|sera|aura|doit|vient|prend|attend|perd|porte|souffre|reste|travaille|vote"
    # Spanish
    r"|es|está|fue|ha|no|ya|será|tiene|padece|sufre|espera|vive|toma|debe|puede|trabaja|vota|\p{Ll}{2,}(?:ó|ía|aba)"
    r")(?!\w))"
)
"""Behind a name: what tells that somebody is, has or does something."""
_SAINT = regex.compile(r"\bSte?\.[ ]\Z")
_LEAST_DIGITS: Final = 4
_MOST_RANGE: Final = 500
"""Numbers, of pages or years, from the first to the last of a range."""
_LEAST_KEY: Final = 12
_LEAST_MONEY: Final = 3
"""Digits of an amount before its decimals: a price of less is said of many."""
_NO_SIGNS: Final = str.maketrans("", "", " .,'’")


@in_plain_text
def find(text: str, around: str = "") -> Iterator[Mention]:
    """Values of a text by their shape; a normal form is in lower case, of numbers the digits alone. `around` are other
    texts of the same language, which say how words are written in it."""
    yield from search.find(text, pack.shapes())
    yield from _tokens(text)
    yield from _numbers(text)
    for match in _matches_at(_SPELLED, text, _SPELLED_AT):
        if len(digits_of(match.group())[0]) >= _LEAST_DIGITS:
            yield Mention(SPELLED, match.start(), match.end(), " ".join(match.group().casefold().split()))
    for match in _matches_at(_SPELLED_AMOUNT, text, _LARGE_AT):
        start, end = match.start("first"), match.end()
        yield Mention(AMOUNT, start, end, " ".join(text[start:end].casefold().split()))
    yield from _names(text, plain(around).text)


@in_plain_text
def names(text: str, around: str = "") -> Iterator[Mention]:
    """The names among the values of `find`."""
    yield from _names(text, plain(around).text)


def _matches_at(pattern: regex.Pattern[str], text: str, where: re.Pattern[str]) -> Iterator[regex.Match[str]]:
    """What a pattern matches, none overlapping, if it begins where another one does in the text as `alike` writes
    it: the library of that is quicker."""
    done = 0
    for place in where.finditer(alike(text)):
        if place.start() >= done and (match := pattern.match(text, place.start())):
            done = match.end()
            yield match


def digits_of(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Digits in the order of a text, also those that are words, 'double four' two of them; and the characters of
    each. Other words are left out."""
    digits: list[str] = []
    places: list[tuple[int, int]] = []
    times, start = 1, 0
    for match in _DIGIT_OR_WORD.finditer(text):
        word = match.group().casefold()
        digit = _DIGIT_OF.get(word, word)
        if digit.isdecimal():
            digits += [str(unicodedata.decimal(digit))] * times
            places += [(start if times > 1 else match.start(), match.end())] * times
        times, start = _TIMES.get(word, 1), match.start()
    return "".join(digits), places


def _tokens(text: str) -> Iterator[Mention]:
    """Keys and codes: what mixes letters with digits, or cases, in a way that words do not."""
    for match in (match for part in _LIKE_KEY.finditer(text) for match in _TOKEN.finditer(text, *part.span())):
        word = match.group().rstrip(".:?!&*@")
        if _MAIL.fullmatch(word):
            continue
        start, end = match.start(), match.start() + len(word)
        if "://" in word or word.startswith(("www.", "WWW.")):
            yield from _keys_in_url(word, start)
            continue
        digits, letters = sum(map(str.isdigit, word)), sum(map(str.isalpha, word))
        if not letters or not word.isascii():
            continue
        if digits and (_is_long_key(word) or (len(word) >= 8 and _SIGNS.search(word[:-1]))):
            yield Mention(KEY, start, end, word)
        elif _is_code(word, digits, letters):
            yield Mention(CODE, start, end, word.casefold())


def _is_long_key(word: str) -> bool:
    """Whether a word is as long as keys are, and no number of words that hyphens join."""
    if len(word) < _LEAST_KEY:
        return False
    return "-" not in word or bool(_MIXED_CASES.match(word) or _LETTERS_IN_DIGITS.search(word))


def _keys_in_url(url: str, start: int) -> Iterator[Mention]:
    """The parts of an address that are keys: a password, the value of a parameter that is called so, and what no word
    and no name of a page looks like."""
    host = _URL.search(url)
    if host is None:
        return
    if host["password"]:
        yield Mention(KEY, start + host.start("password"), start + host.end("password"), host["password"])
    for part in _URL_PART.finditer(url, host.end()):
        value = part["value"]
        if _looks_random(value) or (part["name"] and len(value) >= 6 and _SECRET_NAME.fullmatch(part["name"])):
            yield Mention(KEY, start + part.start("value"), start + part.end("value"), value)


def _looks_random(text: str) -> bool:
    """Whether a part of an address has a piece that changes between cases and digits as no word does."""
    if _UUID.search(text):
        return True
    for piece in _PIECE.findall(text):
        n_changes = len(_CHANGE.findall(piece))
        if len(piece) >= _LEAST_KEY and (n_changes >= 4 or (16 <= len(piece) <= 128 and _CAPITAL_KEY.fullmatch(piece))):
            return True
    return False


def _is_code(word: str, digits: int, letters: int) -> bool:
    if digits < 2 or len(word) < 5 or _NO_CODE.fullmatch(word) or _PUBLIC.fullmatch(word):
        return False
    return any(map(str.isupper, word)) or (letters >= 1 and digits >= 3)


def _numbers(text: str) -> Iterator[Mention]:
    """Groups of digits that are no year, no time and no measure; amounts of money."""
    for match in _GROUPS.finditer(text):
        value = match.group().rstrip(" .,/-(")
        value = value if "(" in value else value.rstrip(")")
        start, end = match.start(), match.start() + len(value)
        digits = "".join(filter(str.isdigit, value))
        money = _money(text, start, end)
        if money is not None:
            if len(regex.sub(r"[.,]\d\d\Z", "", value).translate(_NO_SIGNS)) >= _LEAST_MONEY:
                yield Mention(AMOUNT, *money, digits)
        elif len(digits) >= _LEAST_DIGITS and not (
            _is_range(value)
            or _NO_VALUE.fullmatch(value)
            or _UNIT.match(text, end)
            or (len(digits) <= _MOST_COUNTED and digits[0] != "0" and _COUNTED.match(text, end))
        ):
            yield Mention(NUMBER, start, end, digits)


def _is_range(value: str) -> bool:
    """'1138-1144': two numbers of as many digits, the smaller first."""
    first, _, last = value.partition("-")
    if not (first.isdecimal() and last.isdecimal() and len(first) == len(last) <= _LEAST_DIGITS):
        return False
    return 0 < int(last) - int(first) <= _MOST_RANGE


def _money(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The characters of an amount with its currency, which stands before or behind; None where there is none."""
    behind = _MONEY_BEHIND.match(text, end)
    if behind:
        return start, behind.end()
    before = _MONEY_BEFORE.search(text, max(0, start - 10), start)
    return (before.start(), end) if before else None


def _names(text: str, around: str) -> Iterator[Mention]:
    """Runs of capitalised words that are names: of people where a word is a known first name."""
    all_text = f"{text}\n{around}"
    lowered = frozenset(filter(str.islower, _WORD.findall(all_text)))
    capitalises_nouns = _capitalises_nouns(all_text)
    for match in _RUN.finditer(text):
        run = without_opening(match.group())
        start = match.end() - len(run)
        words = list(_words_of_name(text, start, match.end()))
        opens = bool(words) and words[0][0] == start and opens_sentence(text, start)
        # A word that is written small elsewhere opens the sentence, and is no name.
        while words and words[0][2].casefold() in lowered and (opens or capitalises_nouns):
            words = words[1:]
        # So is what a document does not say before the name.
        in_documents = len(words) > 1 and f"{words[0][2]} {words[1][2]}" in around
        if (
            opens
            and not in_documents
            and len(words) > 1
            and words[1][2] in _words_in_names(around, by_first_name=False)
        ):
            words, opens = words[1:], False
        if not words or unaccented(words[-1][2]) in _places() or unaccented(run) in _places():
            continue
        is_label = _is_label(text, match.start(), match.end()) and run not in _without_colon(all_text)
        # A rare first name is less sure: it counts beside another name, and where the texts do not write it small.
        rare_are_known = len(words) > 1
        first_names = (
            i
            for i, (_, _, word) in enumerate(words)
            if _is_common_first_name(word)
            or (rare_are_known and word.casefold() not in lowered and _is_rare_first_name(word))
        )
        first_at = next(first_names, None)
        is_asked = first_at is not None and len(words) == 1 and (opens or capitalises_nouns)
        is_subject = is_asked and _is_subject(text, *words[0])
        is_no_name = (opens and not is_subject) or is_label or words[0][2].isupper()
        if first_at is not None and (len(words) > 1 or not is_no_name):
            # What is rare as a first name may be the family's, behind a first name that nobody knows.
            is_behind_opening = first_at == 1 and opens and _is_common_first_name(words[1][2])
            part = words[first_at:] if capitalises_nouns or is_behind_opening else words
            # A noun may be a first name too, as 'Tage' is.
            known = _words_in_names(around, by_first_name=True) if capitalises_nouns else frozenset()
            if len(part) > 1 or not capitalises_nouns or is_subject or part[0][2] in known:
                is_firm = _FIRM.fullmatch(run.split()[-1]) is not None
                yield _mention(NAME_TYPE if is_firm else PERSON, text, part)
            elif len(words) > 1 + opens and _is_in_foreign_letters(text, *words[-2:]):
                yield _mention(NAME_TYPE, text, words[-2:])
        elif is_label:
            continue
        elif len(words) > 1 and not capitalises_nouns:
            # A heading or an institution is made of words that the texts have otherwise too.
            if not any(word.casefold() in lowered for _, _, word in words):
                yield _mention(NAME_TYPE, text, words)
        else:
            known = _words_in_names(around, by_first_name=capitalises_nouns)
            called = [word for word in words if word[2] in known]
            if called:
                yield _mention(PERSON if capitalises_nouns else NAME_TYPE, text, called)
            elif len(words) > 1 + opens and _is_pair(" ".join(word for _, _, word in words[-2:]), text, around):
                yield _mention(NAME_TYPE, text, words[-2:])
            elif len(words) > 1 + opens and _is_with_family_name(text, *words[-2:]):
                yield _mention(PERSON, text, words[-2:])
            elif len(words) > 1 + opens and _is_in_foreign_letters(text, *words[-2:]):
                yield _mention(NAME_TYPE, text, words[-2:])


def _is_with_family_name(text: str, given: tuple[int, int, str], family: tuple[int, int, str]) -> bool:
    """Whether two capitalised words are a person where nouns are capitalised: a family name right behind a word that is
    no title and has no article."""
    (start, end, word), (behind, _, name) = given, family
    if word in _TITLES or unaccented(name) not in _family_names() or text[end:behind].strip():
        return False
    return not _has_determiner(text, start)


def _is_in_foreign_letters(text: str, first: tuple[int, int, str], last: tuple[int, int, str]) -> bool:
    """Whether two capitalised words without an article are no nouns where nouns are capitalised, by their letters."""
    return any(map(_FOREIGN_LETTER.search, (first[2], last[2]))) and not _has_determiner(text, first[0])


def _has_determiner(text: str, start: int) -> bool:
    """Whether an article or what is inflected stands right before, where nouns are capitalised."""
    before = _LAST_WORD.search(text, max(0, start - _LONGEST_WORD), start)
    return before is not None and _DETERMINER.fullmatch(before.group()) is not None


def _is_subject(text: str, start: int, end: int, name: str) -> bool:
    """Whether a first name alone is a person by the words around it: 'Anna is', 'Anna's', where no noun stands so."""
    if name.casefold() in _SAID_WITHOUT_ARTICLE or is_ordinary(text, start, end):
        return False
    if _SUBJECT.match(text, end) is None or _SAINT.search(text, max(0, start - 5), start):
        return False
    return opens_sentence(text, start) or not _has_determiner(text, start)


def _is_label(text: str, start: int, end: int) -> bool:
    """Whether words stand as '**Patient Name:**' or '(Age: 38' do. In a list of people names have colons too, but
    neither in bold letters nor behind a bracket."""
    return text.endswith(_OPENS_LABEL, 0, start) and _COLON.match(text, end) is not None


@lru_cache(maxsize=4)
def _without_colon(text: str) -> frozenset[str]:
    """Runs of capitalised words that a text says somewhere without a colon behind: more than labels of fields."""
    runs = (match for match in _RUN.finditer(text) if _COLON.match(text, match.end()) is None)
    return frozenset(without_opening(match.group()) for match in runs)


def _words_of_name(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Capitalised words with their characters, but acronyms and the calendar's; 'May' behind a first name is none."""
    before = ""
    for match in _WORD.finditer(text, start, end):
        word = match.group()
        is_name = _is_common_first_name(before) and is_month_as_name(text, *match.span())
        is_cased = word[0].isupper() or (before and _PREFIXED.match(word))
        if is_cased and not _is_acronym(word) and (is_name or word.casefold() not in _CALENDAR):
            yield match.start(), match.end(), word
        before = word


def _is_pair(pair: str, text: str, around: str) -> bool:
    """Whether two capitalised words that documents say too are a name where nouns are capitalised: a noun has an
    article somewhere, or a word before it that is inflected."""
    if pair not in around:
        return False
    before = [word for other in (text, around) for word in _words_before(pair, other)]
    return not any(_DETERMINER.fullmatch(word) for word in before)


def _words_before(pair: str, text: str) -> Iterator[str]:
    """The words that stand before two words, each time that a text has these as wholes."""
    at = text.find(pair)
    while at >= 0:
        end = at + len(pair)
        before = None if _LETTER.match(text, end) else _WORD_BEFORE.match(text, at)
        if before:
            yield before["before"]
        at = text.find(pair, end if before else at + 1)


def _is_acronym(word: str) -> bool:
    """'UTI', 'SPs', 'PaCO', 'T'; not 'McKay', nor what a hyphen or an apostrophe parts."""
    return len(word) == 1 or (sum(map(str.isupper, word)) > 1 and word.isalpha() and not _TWO_CAPITALS.fullmatch(word))


@lru_cache(maxsize=4)
def _words_in_names(text: str, *, by_first_name: bool) -> frozenset[str]:
    """Words that a text says behind a first name or a title, or behind any capitalised word, but in headings."""
    lowered = frozenset(filter(str.islower, _WORD.findall(text)))
    words: set[str] = set()
    for match in _RUN.finditer(text):
        run = [word.group() for word in _WORD.finditer(match.group())]
        for i, word in enumerate(run[1:], 1):
            if by_first_name:
                if any(_is_common_first_name(other) or other in _TITLES for other in run[:i]):
                    words.add(word)
            elif not run[0].isupper() and word.casefold() not in lowered and not _is_acronym(word):
                words.add(word)
    return frozenset(words)


def _mention(kind: str, text: str, words: list[tuple[int, int, str]]) -> Mention:
    start, end = words[0][0], words[-1][1]
    return Mention(kind, start, end, " ".join(text[start:end].casefold().split()))


def _capitalises_nouns(text: str) -> bool:
    """Whether a text writes nouns with capitals, as German does: an eighth of the words within sentences."""
    if not _GERMAN.search(text):
        return False
    n = capital = 0
    for match in _WORD.finditer(text):
        if not opens_sentence(text, match.start()):
            n += 1
            capital += match.group()[0].isupper()
    return 8 * capital > n


def is_first_name(word: str, *, is_alone: bool) -> bool:
    """Whether a word, in any case, is a first name; a rare one counts beside another word of a name."""
    return _is_common_first_name(word) or (not is_alone and _is_rare_first_name(word))


def is_family_name(word: str) -> bool:
    """Whether a word, in any case, is a family name of a list."""
    return unaccented(word) in _family_names()


def is_place(name: str) -> bool:
    """Whether it is a country or a state, in any case."""
    return unaccented(name) in _places()


def _is_common_first_name(word: str) -> bool:
    return unaccented(word) in _common_first_names()


def _is_rare_first_name(word: str) -> bool:
    """Where it stands alone, many a one is the name of a place, a firm or a family. Of two that a hyphen joins either
    may be common."""
    parts = unaccented(word).translate(_LATIN).split("-")
    return all(part in _rare_first_names() or (len(parts) > 1 and part in _common_first_names()) for part in parts)


@cache
def _common_first_names() -> frozenset[str]:
    """First names of two dozen countries, folded: those that faker draws."""
    return _drawn("first_name")


@cache
def _family_names() -> frozenset[str]:
    """Family names of two dozen countries, folded: those that faker draws."""
    return _drawn("last_name")


def _drawn(what: str) -> frozenset[str]:
    """The names that faker draws from, in all of its lists that begin so."""
    from faker.providers import person

    names: set[str] = set()
    for locale in _LOCALES:
        provider = module_in(person, locale).Provider
        for attribute in dir(provider):
            if attribute.startswith(what) and isinstance(listed := getattr(provider, attribute), tuple | list | dict):
                names.update(unaccented(str(name)) for name in listed)
    return frozenset(name for name in names - _places() if len(name) > 2)


@cache
def _rare_first_names() -> frozenset[str]:
    """Those of a list of the world's, by `tools/list_given_names.py`."""
    lines = (resources.files(packs) / "given_names.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#")) - _places()


@cache
def _places() -> frozenset[str]:
    """Countries, states of the United States and some others, folded."""
    from faker.providers.address.en_US import Provider

    return frozenset(unaccented(place) for place in (*Provider.countries, *Provider.states, *_OTHER_PLACES))
