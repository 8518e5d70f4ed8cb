"""Names of people, by a heuristic that needs no model: after a title, after the label of a field, and said again.

'Dr. Ellen Brandt' and 'Patient: Tobias Quillmere' tell that a name follows; a name that stands alone everywhere is not
found here (see `people`), which is what a recogniser is for (`--ner`). The title is not part of the mention.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

import regex

from leakmeter.text.entities import transliterated
from leakmeter.text.entities.mention import PERSON, Mention
from leakmeter.text.folding import CASED, WORD, in_plain_text, unaccented, unescaped

_HE = ("Mr", "Mister", "Sir", "Lord", "Herr", "Monsieur", "Señor", "Sr", "Signor", "Senhor", "Meneer")
_SHE = (
    *("Mrs", "Ms", "Miss", "Madam", "Dame", "Lady", "Frau", "Madame", "Mme", "Mlle", "Señora", "Señorita", "Sra"),
    *("Srta", "Signora", "Senhora", "Mevrouw", "Sister"),
)
_EITHER = ("Mx", "Dr", "Dra", "Doctor", "Doktor", "Docteur", "Prof", "Professor", "Professeur", "Nurse", "Rev")
_TITLE = rf"(?:{'|'.join((*_HE, *_SHE, *_EITHER))})"
# Of Russian, Ukrainian, Bulgarian and Greek; those that only a name follows.
_LABEL_IN_OTHER_LETTERS = (
    r"имя|име|ім['’ʼ]я|пац[иі][еє]нт(?:ка)?|кл[иі][еє]нт(?:ка)?|сотрудни(?:к|ца)|співробітни(?:к|ця)|працівни(?:к|ця)"
    r"|служител(?:ка)?|όνομα|ασθενής|πελάτης|πελάτισσα|υπάλληλος"
)
_SURE_LABEL_IN_OTHER_LETTERS = r"ф\.?и\.?о\.?|фамилия|прізвище|піб|фамилно[ ]име|επώνυμο|ονοματεπώνυμο"
_LABEL = (
    r"(?:patient|client|customer|employee|applicant|tenant|student|witness|claimant|full|first|last|given|family|"
    r"mother|father|guardian|physician|doctor|nurse|attn|(?P<any>author|contact|signed|from|to|cc|re)|name|nom|nombre|nome|naam|vorname|"
    rf"nachname|paziente|paciente|{_LABEL_IN_OTHER_LETTERS}|{_SURE_LABEL_IN_OTHER_LETTERS}|姓名|氏名|名前|患者|患者名|病人|客户|客戶|顾客|お名前|이름|성명|성함|환자|"
    r"고객|الاسم|اسم|المريض|العميل|שם|שם מלא|מטופל|לקוח|नाम|रोगी|मरीज|ग्राहक|ชื่อ|ผู้ป่วย|ลูกค้า)"
    r"(?:['’]s)?(?:[ ](?:name|by))?[ ]?"
)
_SPACE = r"[ \t\u00a0]"
_CASED = rf"\p{{Lu}}[{CASED}\p{{Lm}}\p{{M}}]*(?:['’-][{CASED}][{CASED}\p{{Lm}}\p{{M}}]*)*"
_WORD = rf"(?:\p{{Lu}}\.|{_CASED})"
_PARTICLES: Final = frozenset(
    {
        *(
            "van",
            "von",
            "vom",
            "zu",
            "zum",
            "zur",
            "und",
            "op",
            "t",
            "de",
            "der",
            "den",
            "del",
            "della",
            "dei",
            "degli",
        ),
        *("delle", "di", "da", "dos", "du", "la", "las", "los", "le", "ter", "ten", "bin", "ibn", "ben", "bint", "abu"),
        *("ould", "ul", "al", "el", "y"),
    }
)
PARTICLE = (
    r"(?:v[ao]n(?:[ ]und[ ]zu|[ ]['’]t)?|zum?|op[ ]den?|['’]t|de|de[rn]|del|della|dei|degli|delle|di|da|dos|du"
    r"|la|las|los|le|te[rn]|bin|ibn|ben|bint|abu|ould|ul|al|el|y)"
)
"""Small words between the words of a name. What is an everyday word before a capital, as the German 'das' and the
English 'do', is none; nor are 'vom' and 'zur', as in 'Frau Weber vom Vertrieb'."""
PREFIX: Final = r"(?:(?:a[dlnrstz]|ash|el|e[ds]|ul)-(?=\p{Lu}))"
"""What stands before the last word of Arabic names, with a hyphen."""
_ELIDED: Final = r"(?:(?:[dl]|dell)['’](?=\p{Lu}))"
_LAST: Final = rf"(?:{PREFIX}|{_ELIDED})?{_WORD}"
_NAME = rf"(?:(?:{PARTICLE}|vom|zur){_SPACE}+){{0,2}}{_LAST}(?:{_SPACE}+(?:{PARTICLE}{_SPACE}+){{0,3}}{_LAST}){{0,3}}"
# Scripts without capitals: a name is at most four runs of letters, of which the last is not the next label.
_LETTERS_OF_NAME = r"\p{Lo}[\p{Lo}\p{Lm}\p{M}]*+"
UNCASED = rf"{_LETTERS_OF_NAME}(?:[ ・·.]{_LETTERS_OF_NAME}(?![ ]?[:：=])){{0,3}}"
UNSPACED: Final = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
"""Letters of scripts that write words with no space between, or particles to the word."""
_SYLLABLES = regex.compile(r"[\p{Han}\p{Hangul}]{3,4}")

_TITLED = regex.compile(rf"(?<!\w)(?P<title>(?:{_TITLE}\.?{_SPACE}+)+)(?P<name>{_NAME})")
_LABELLED = regex.compile(
    rf"(?<=(?<![{WORD}])(?i:{_LABEL}))[:：=][ \t]*(?:{_TITLE}\.?{_SPACE}+)*"
    rf"(?:(?P<last>{_CASED}),[ ](?P<given>{_CASED}(?:[ ]{_WORD})?)(?=[ \t]*(?:[\r\n;(]|\Z))"
    rf"|(?P<name>{_NAME}|{UNCASED}))"
)
# In lower case a name has no form of its own: the label has to say that one follows, or a first name in it.
_SURE_LABEL = (
    r"(?:(?:patient|client|customer|employee|applicant|tenant|student|witness|claimant|full|first|last|given|family)"
    r"(?:['’]s)?[ _-]?name|surname|vorname|nachname|familienname|kundenname|prénom|nom[ ]de[ ]famille|nom[ ]complet|"
    rf"apellidos?|nombre[ ]completo|{_SURE_LABEL_IN_OTHER_LETTERS})"
)
_ANY_LABEL = rf"(?:name|nom|nombre|patient(?:in|e)?|paciente|client[ea]?|kunde|kundin|{_LABEL_IN_OTHER_LETTERS})"
_SMALL_WORD = r"\p{Ll}[\p{Ll}\p{M}]*+(?:['’-]\p{Ll}[\p{Ll}\p{M}]*+)*+"
_LABELLED_SMALL = regex.compile(
    rf"(?<![{WORD}])(?i:(?P<sure>{_SURE_LABEL})|{_ANY_LABEL})[\"']?[ ]?[:：=][ \t]*+[\"']?"
    rf"(?P<name>{_SMALL_WORD}(?:[ ]{_SMALL_WORD}){{0,3}}+)(?=[ \t]*(?:[\r\n,;|\"')}}\]]|\.(?:\s|\Z)|\Z))"
)
_NO_VALUE_OF_LABEL = frozenset(
    {
        *("required", "optional", "string", "text", "missing", "null", "empty", "value", "field", "redacted", "hidden"),
        *("anonymous", "withheld", "pending", "tbd", "same", "see", "above", "below", "unbekannt", "inconnu", "anonym"),
        *("desconocido", "desconocida", "anonyme", "anónimo", "keine", "keiner", "aucun", "aucune", "ninguno"),
    }
)
_LETTERS = regex.compile(r"[\p{L}\p{M}]+(?:['’-][\p{L}\p{M}]+)*")
_POSSESSIVE = regex.compile(r"['’]s\Z")
_NO_NAME = frozenset(
    {
        *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february"),
        *("march", "april", "may", "june", "july", "august", "september", "october", "november", "december", "the"),
        *("and", "or", "not", "no", "phone", "tel", "email", "date", "address", "age", "dob", "born", "unknown"),
        *("none", "n", "he", "she", "they", "re", "subject", "all", "is", "was", "has", "it", "this", "these", "we"),
        *("you", "i", "in", "on"),
    }
)
_MONTHS_AND_NAMES: Final = frozenset({"march", "april", "may", "june", "august"})
_DAY_BEHIND = regex.compile(r"[ ,]{0,2}\d")
_PART = regex.compile(r"[\p{L}\p{M}]+")
# Between two words of a name: a space or what joins words, and a particle or an initial.
_JOINT = regex.compile(rf"(?:\s{{1,2}}|[._-]|{_SPACE}(?:(?:{PARTICLE}|\p{{L}}\.?){_SPACE}){{1,2}})", regex.IGNORECASE)
_OPENING: Final = '.!?:…"“„«»”¿¡•*'
_LEAST_LOWERED: Final = 4
"""Letters of a word in lower case that is a name."""
_WORDS_AND_NAMES: Final = frozenset(
    {
        *("mark", "grace", "rose", "frank", "joy", "jack", "king", "cook", "brown", "wood", "woods", "stone", "hill"),
        *("rice", "bush", "fox", "love", "bell", "miller", "baker", "carpenter", "taylor", "mason", "faith", "iris"),
        *("lily", "daisy", "ruby", "amber", "violet", "heather", "ivy", "olive", "hazel", "dawn", "june", "april"),
        *("summer", "autumn", "angel", "christian", "dean", "earl", "grant", "guy", "harmony", "jay", "max", "miles"),
        *("pat", "penny", "robin", "sandy", "skip", "sky", "sue", "victor", "ward", "wade", "chase", "chance", "clay"),
        *("cliff", "colt", "drew", "duke", "fields", "banks", "brooks", "rivers", "waters", "lane", "street", "park"),
        *("parks", "marsh", "moss", "reed", "berry", "cherry", "bean", "garland", "glass", "gold", "silver", "steel"),
        *("gray", "grey", "noble", "swift", "sharp", "small", "little", "good", "best", "wise", "savage", "sweet"),
        *("winter", "winters", "snow", "frost", "gale", "wolf", "bird", "crane", "swan", "hawk", "pike", "salmon"),
        *("bishop", "pope", "knight", "marshall", "page", "butler", "carter", "cooper", "fisher", "hunter", "potter"),
        *("sailor", "shepherd", "singer", "turner", "weaver", "workman", "porter", "parker", "walker", "archer"),
    }
)
_TITLES = frozenset(title.casefold() for title in (*_HE, *_SHE, *_EITHER))

Owners = Mapping[str, Mapping[str, str]]
"""Folded words of names to the names that have them, and how each writes the word."""


@in_plain_text
def find(text: str) -> Iterator[Mention]:
    """Names after titles and labels; the normal form is the words in lower case, given names first."""
    for match in _TITLED.finditer(text):
        titles = set(match["title"].replace(".", " ").split())
        gender = "m" if titles & set(_HE) else "f" if titles & set(_SHE) else ""
        yield from _trimmed(text, match.start("name"), match.end("name"), gender, may_be_month=True)
    lowered: frozenset[str] | None = None
    for match in _LABELLED.finditer(text):
        if match["any"]:
            # 'Re: Return Policy' names nobody where the text has a return and a policy, 'Re: Case Number' never does.
            lowered = lowered_words(text) if lowered is None else lowered
            known = lowered | _ordinary_words() if match["any"].casefold() == "re" else lowered
            if known.issuperset(words(match.group())):
                continue
        if match["last"]:
            value = normal(f"{match['given']} {match['last']}")
            yield Mention(PERSON, match.start("last"), match.end("given"), value)
        else:
            yield from _trimmed(text, match.start("name"), match.end("name"), "", may_be_month=not match["any"])
    for match in _LABELLED_SMALL.finditer(text):
        if _is_small_name(match["name"], is_sure=match["sure"] is not None):
            yield Mention(PERSON, match.start("name"), match.end("name"), normal(match["name"]))


def _is_small_name(name: str, *, is_sure: bool) -> bool:
    """Whether words in lower case behind a label are a name: none is one of the language, and the label says so or the
    first is a first name, which in 'name: install docker' none is."""
    from leakmeter.text.entities.shapes import is_first_name, is_place

    telling = [word for word in words(name) if word not in _PARTICLES]
    others = _NO_NAME | _NO_VALUE_OF_LABEL | _ordinary_words()
    if not telling or not others.isdisjoint(telling) or max(map(len, telling)) < 2 or is_place(name):
        return False
    return is_sure or (telling[0] not in _WORDS_AND_NAMES and is_first_name(telling[0], is_alone=len(telling) == 1))


def normal(name: str) -> str:
    """A name's words in lower case, without titles and possessive."""
    name_words = words(name)
    while len(name_words) > 1 and name_words[0] in _TITLES:
        name_words = name_words[1:]
    return " ".join(name_words)


def words(text: str) -> list[str]:
    """All words of a text in lower case, as they are compared with names."""
    return [_POSSESSIVE.sub("", word.casefold()) for word in _LETTERS.findall(text)]


def is_telling(word: str) -> bool:
    """Whether a word of a normal form points to a person: no initial, and no particle."""
    return len(word) > 1 and word not in _PARTICLES and word not in _NO_NAME


def is_part(some: str, more: str) -> bool:
    """Whether all words of one name stand in the other in the same order, an initial standing for a word."""
    left = more.split()
    whole = 0
    for word in some.split():
        at = next((i for i, other in enumerate(left) if other == word or (len(word) == 1 and other[0] == word)), None)
        if at is None:
            return False
        whole += left[at] == word and len(word) > 1
        left = left[at + 1 :]
    return whole > 0


@in_plain_text
def said_again(text: str, names: Sequence[str], lowered: frozenset[str]) -> Iterator[Mention]:
    """Where a text says names that are known, or parts of them, in capitals or without: runs of words that belong to
    one name, and words that are a name where they stand. A word of several names is a mention of its own, since it does
    not say who is meant. `names` are normal forms, one a person; `lowered` words stand in lower case too, and are no
    evidence of a name."""
    owners: dict[str, dict[str, str]] = {}
    for name in names:
        yield from _in_other_script(text, name)
        for word in name.split():
            if is_telling(word):
                owners.setdefault(unaccented(word), {})[name] = word
        for part in _unspaced_parts(name):
            for match in regex.finditer(r"[\s・·]*".join(map(regex.escape, part.split())), text):
                yield Mention(PERSON, match.start(), match.end(), part)
    run: list[tuple[int, int, str]] = []
    for start, end, key in _known_words(text, owners):
        if run and _JOINT.fullmatch(text, run[-1][1], start):
            more = [name for name in owners[key] if is_part(_joined(run, owners, name, key), name)]
            if more:
                run.append((start, end, key))
                continue
        yield from _mention(text, run, owners, lowered)
        run = [(start, end, key)]
    yield from _mention(text, run, owners, lowered)


def _in_other_script(text: str, name: str) -> Iterator[Mention]:
    """A name in the letters of another script: all of it, and its telling words elsewhere."""
    whole = list(transliterated.places(text, name))
    yield from (Mention(PERSON, start, end, name) for start, end in whole)
    for word in name.split() if " " in name else ():
        if is_telling(word):
            for start, end in transliterated.places(text, word):
                is_within = any(first <= start < last for first, last in whole)
                if not is_within and not text[start].islower():
                    yield Mention(PERSON, start, end, word)


def _known_words(text: str, owners: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """The words of a text that are in names, folded, with their characters; words that hyphens join one by one if they
    are in none together."""
    if not owners:
        return
    for match in _LETTERS.finditer(text):
        whole = _POSSESSIVE.sub("", match.group())
        if unaccented(whole) in owners:
            yield match.start(), match.start() + len(whole), unaccented(whole)
        elif "-" in whole:
            for part in _PART.finditer(text, match.start(), match.start() + len(whole)):
                if unaccented(part.group()) in owners:
                    yield part.start(), part.end(), unaccented(part.group())


def _joined(run: Sequence[tuple[int, int, str]], owners: Owners, name: str, key: str = "") -> str:
    """Words of a run as a name has them, or as they are."""
    keys = [*(known for _, _, known in run), *([key] if key else [])]
    return " ".join(owners[known].get(name, known) for known in keys)


def _mention(
    text: str, run: Sequence[tuple[int, int, str]], owners: Owners, lowered: frozenset[str]
) -> Iterator[Mention]:
    if len(run) > 1 or (run and _is_name(text, run[0][0], run[0][1], lowered)):
        name = min(name for name in owners[run[-1][2]] if all(name in owners[key] for _, _, key in run))
        yield Mention(PERSON, run[0][0], run[-1][1], _joined(run, owners, name))


def _is_name(text: str, start: int, end: int, lowered: frozenset[str]) -> bool:
    """Whether a word that names have is one here: not one of the words of the language, unless capitals say so."""
    word = text[start:end]
    if word.casefold() in lowered:
        return False
    if not regex.match(rf"[{CASED}]", word):
        return len(word) > 1
    if not word[0].isupper() and len(word) < _LEAST_LOWERED:
        return False
    return not is_ordinary(text, start, end)


def is_ordinary(text: str, start: int, end: int) -> bool:
    """Whether a word that may be a name is one of the language here: no capital within a sentence says that it is not.
    Of several words none is."""
    word = text[start:end].casefold()
    if not text[start].isupper():
        return is_word(word)
    says_so = not text.isupper() and not opens_sentence(text, start)
    return not says_so and word in _ordinary_words()


def is_word(word: str) -> bool:
    """Whether a word is one of the language, in any case, whatever name it is too."""
    return word.casefold() in _ordinary_words() | _WORDS_AND_NAMES


def opens_sentence(text: str, at: int) -> bool:
    """Whether a word begins a sentence or a line; of what stands before it a few characters tell."""
    before = text[max(0, at - 4) : at]
    written = before.rstrip()
    return not written or "\n" in before[len(written) :] or written[-1] in _OPENING


def lowered_words(text: str) -> frozenset[str]:
    """The words that a text writes in lower case, addresses apart: 'ellen@x.example' makes no word of a name."""
    text = unescaped(text).text
    if "@" in text:
        text = " ".join(word for word in text.split() if "@" not in word)
    return frozenset(word for word in _LETTERS.findall(text) if word.islower())


def _unspaced_parts(name: str) -> Iterator[str]:
    """What is said of a name in scripts without capitals, where no space tells it from what is around: the name, its
    words, and of three or four letters together the given name, or both names."""
    if not name or name[0].isascii() or regex.match(rf"[{CASED}]", name[0]):
        return
    yield name
    words_of_name = name.split()
    if regex.match(UNSPACED, name):
        if len(words_of_name) > 1:
            yield from (word for word in words_of_name if len(word) > 1)
        elif _SYLLABLES.fullmatch(name):
            yield from (name[-2:], *([name[:2]] if len(name) == 4 else []))


@cache
def _ordinary_words() -> frozenset[str]:
    """The most frequent words of English."""
    from faker.providers.lorem.en_US import Provider

    return frozenset(Provider.word_list)


def is_month_as_name(text: str, start: int, end: int) -> bool:
    """Whether a word beside a name, or behind a title, is a name that is a month too: no day or year follows."""
    return text[start:end].casefold() in _MONTHS_AND_NAMES and not _DAY_BEHIND.match(text, end)


def _trimmed(text: str, start: int, end: int, gender: str, *, may_be_month: bool) -> Iterator[Mention]:
    """The mention without words that open what follows, and without a possessive; nothing if no name is left."""
    word_ranges = [(start + match.start(), start + match.end()) for match in _LETTERS.finditer(text[start:end])]
    for number, (first, last) in enumerate(word_ranges):
        is_name = (number > 0 or may_be_month) and is_month_as_name(text, first, last)
        if text[first:last].casefold() in _NO_NAME and not is_name:
            word_ranges = word_ranges[:number]
            break
    while word_ranges and text[word_ranges[-1][0] : word_ranges[-1][1]].casefold() in _PARTICLES:
        word_ranges.pop()
    if not word_ranges:
        return
    first, last = word_ranges[0][0], word_ranges[-1][1]
    possessive = _POSSESSIVE.search(text[first:last])
    last -= len(possessive.group()) if possessive else 0
    value = normal(text[first:last])
    if any(len(word) > 1 or not word.isascii() for word in value.split()):
        yield Mention(PERSON, first, last, value, gender)
