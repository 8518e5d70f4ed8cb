"""Surrogate e-mail addresses: of another name, or of the same one at another domain."""

from __future__ import annotations

import functools
import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leakmeter.errors import UsageError
from leakmeter.text import matching
from leakmeter.text.surrogates import origins
from leakmeter.text.surrogates.draw import Draw, digits, faker, listed

# Usual and rare forms of what stands before the @.
_FORMS_COMMON: Final = listed("{first}.{last} {first}{last} {f}{last} {first}_{last} {f}.{last} {first}{l}")
_FORMS_RARE: Final = listed(
    """
    {first}-{last} {f}_{last} {first}.{l} {first}_{l} {last}.{first} {last}{first} {last}_{first} {last}{f} {last}.{f}
    {first} {last}
    """
)
_CASES: Final[tuple[Callable[[str], str], ...]] = (str.lower, str.capitalize, str.upper)
# In order of how many people have them; each group of like frequency.
_FREE_MAIL_COMMON: Final = listed(
    """
    gmail.com yahoo.com hotmail.com outlook.com aol.com icloud.com live.com msn.com comcast.net verizon.net att.net
    sbcglobal.net
    """
)
_FREE_MAIL_RARE: Final = listed(
    """
    adelphia.net aim.com alltel.net ameritech.net bellsouth.net btinternet.com cableone.net centurylink.net
    centurytel.net charter.net cox.net earthlink.net email.com embarqmail.com excite.com fastmail.com free.fr
    frontier.com gmx.com gmx.de gmx.net googlemail.com hotmail.co.uk hushmail.com inbox.com insightbb.com juno.com
    libero.it lycos.com mac.com mail.com me.com mindspring.com netscape.net netzero.net optonline.net orange.fr
    pacbell.net peoplepc.com prodigy.net proton.me protonmail.com q.com rcn.com roadrunner.com rocketmail.com
    suddenlink.net swbell.net t-online.de tds.net tutanota.com usa.net wanadoo.fr web.de windstream.net wowway.com
    yahoo.ca yahoo.co.uk yandex.com ymail.com zoho.com
    """
)
# Free mail that has the suffix of a country: firms that are everywhere, and those of the place.
FREE_MAIL_EVERYWHERE: Final = listed("aol gmx hotmail live msn outlook yahoo ymail")
FREE_MAIL_OF_SUFFIX: Final = {
    suffix: tuple(names.split())
    for suffix, names in {
        ".de": "arcor freenet gmx mail online posteo t-online web",
        ".at": "aon chello gmx inode utanet",
        ".ch": "bluewin gmx hispeed sunrise",
        ".fr": "bbox club-internet free laposte neuf numericable orange sfr wanadoo",
        ".it": "alice inwind iol libero tin tiscali virgilio",
        ".es": "hispavista movistar ono terra ya",
        ".pt": "clix iol netcabo sapo",
        ".pl": "gazeta interia o2 onet op poczta tlen vp wp",
        ".nl": "chello hetnet home kpnmail planet tele2 upcmail ziggo",
        ".be": "pandora proximus skynet telenet voo",
        ".co.uk": "btopenworld googlemail sky talktalk tiscali",
        ".in": "indiatimes rediff sify",
        ".co.in": "rediff sify",
        ".se": "bredband comhem spray telia",
        ".no": "broadpark frisurf online",
        ".dk": "jubii mail ofir stofanet",
        ".fi": "elisanet kolumbus luukku suomi24",
        ".cz": "atlas centrum email post seznam",
        ".hu": "citromail freemail indamail t-online",
        ".ru": "bk inbox list mail rambler yandex",
        ".com.br": "bol globo ig terra uol",
        ".com.tr": "mynet ttmail superonline",
        ".com.au": "bigpond dodo iinet optusnet",
        ".co.jp": "excite infoseek nifty",
    }.items()
}
_UNIVERSITIES: Final = listed(
    """
    arizona asu auburn baylor bc berkeley brown bu byu caltech case clemson cmu colorado columbia cornell dartmouth
    drexel duke emory fsu gatech georgetown gmu gwu harvard illinois indiana jhu lsu miami mit msu ncsu nd northwestern
    nyu osu princeton psu purdue rice rochester rutgers smu stanford syr tamu temple tufts tulane ucdavis uchicago uci
    ucla uconn ucsd ufl uga uiowa umd umich umn unc upenn usc utah utexas uw vanderbilt virginia vt wisc yale
    """,
    ".edu",
)
# What companies do; one of somebody's name adds it to the name.
_FIRM_KINDS: Final = listed(
    """
    advisors analytics apparel bank builders capital care clinic consulting creative design dental dynamics energy
    engineering farms finance foods freight gallery graphics group health homes insurance labs legal logistics media
    motors outdoors partners press realty records software solutions studio supply systems tech travel ventures works
    """
)
_FIRMS: Final = tuple(
    first + kind
    for first in listed(
        """
        amber anchor apex arbor atlas beacon blue bright bridge cobalt coral crest crown delta echo ember falcon fern
        frontier glacier golden granite green harbor hazel horizon iron ivory jade keystone lumen lunar maple meridian
        metro mosaic nova oak onyx orbit pacific pioneer prairie quartz redwood ridge rocket sage sierra silver solar
        sterling summit terra tidal union vector violet
        """
    )
    for kind in _FIRM_KINDS
)
_YEARS: Final = range(1930, 2020)
_LATIN: Final = re.compile(r"[a-z]+")
_TITLES: Final = re.compile(r"dr|mr|mrs|ms|miss|prof|sir|jr|sr|ii|iii|iv|phd|md|esq")
# How some languages write letters where there are none of theirs.
_WRITTEN_OUT: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "ə": "a"})
_PLACE: Final = re.compile(r"\{(\w+)\}")
_LEAST: Final = 3  # letters of a name that are no chance in a domain
_LEAST_SURNAMES: Final = 60  # of a place, among which one is none that stands out


def for_examples(drawn: random.Random) -> str:
    """An address of any name, in one of the domains that are reserved for examples."""
    fake = faker("en_US", drawn)
    return f"{fake.first_name_nonbinary()}.{fake.last_name()}@example.{drawn.choice(('com', 'net', 'org'))}".lower()


def of_firm(name: str, drawn: random.Random) -> str:
    """An address of a name in a usual form at an invented company, under '.example', which nobody can register."""
    words = _spellings(name)[0]
    number = digits(drawn.choice((0, 0, 0, 1, 2, 2, 3, 4)), drawn)
    firm = _firm(words, drawn)
    return f"{_filled(drawn.choice(_FORMS_COMMON), words)}{number}@{firm}.example"


def drawers(value: str, name: str, label: str) -> Sequence[Draw]:
    """Draws e-mail addresses of the same name: by the first, nothing changes that need not. The part before the @ keeps
    its form, with other digits where it ends in some (years for a year). The domain becomes one of its group: free mail
    that many or few people have, or that people of a country have, universities, surnames of the place, or companies of
    the same suffix, which are invented and say as much of the name. Where that leaves few, other forms of the name
    serve too, usual ones for a usual one; by the second way to draw, all forms and all domains of the kind."""
    local, at, domain = value.rpartition("@")
    if not at:
        raise UsageError(f"{label}: 'email' is not an e-mail address; give one, or leave it out")
    local, plus, tag = local.partition("+")
    base = local.rstrip("0123456789")
    number = local[len(base) :]
    core = base.rstrip("._-")
    glue, end = base[len(core) :], plus + tag
    words = [word for spelled in _spellings(name) for word in spelled]
    near, far = _cores(core, name)
    close, all_ = _domains(domain.lower(), words)
    first = (core,) if number or close is None or len(close) >= 60 else near

    def drawer(cores: Sequence[str], domains: Sequence[str] | None) -> Draw:
        def draw(drawn: random.Random) -> str:
            new = _firm(words, drawn) + _label(domain.lower())[1] if domains is None else drawn.choice(domains)
            return f"{drawn.choice(cores)}{glue}{_number_like(number, drawn)}{end}@{new}"

        return draw

    return drawer(first, close), drawer(far, all_)


def renamed(value: str, name: str, other: str) -> str:
    """An address that says another name where it said a name, in the same form where it is one."""
    new = _spellings(other)
    pairs = {
        word: of_other
        for words in _spellings(name)
        for word, of_other in zip(words, new[0], strict=False)
        if len(word) >= _LEAST
    }
    local, at, domain = value.rpartition("@")
    core = re.split(r"[+\d]", local, maxsplit=1)[0].rstrip("._-")
    form = _form_of(core, name)
    # A name without such letters has one spelling.
    new_words = new[min(form.spelling, len(new) - 1)] if form else []
    new_core = _filled(form.form, new_words, form.case) if form and new_words else ""
    local = new_core + local[len(core) :] if new_core else _replaced(local, pairs)
    return local + at + _replaced(domain, pairs)


def _spellings(name: str) -> list[list[str]]:
    """A name's words as they stand in addresses, in small letters and without titles, in each of their spellings:
    without accents, and with other letters for them, as ü becomes ue."""
    small = unicodedata.normalize("NFC", name.replace("'", "").replace("’", "")).lower()
    spelled = []
    for letters in dict.fromkeys((small, small.translate(_WRITTEN_OUT))):
        words = [word for word, _, _ in matching.words(letters)]
        spelled.append([word for word in words if _LATIN.fullmatch(word) and not _TITLES.fullmatch(word)])
    return [words for number, words in enumerate(spelled) if words not in spelled[:number]]


@dataclass(frozen=True, slots=True)
class _Form:
    """What stands before the digits and the @, where it is a name."""

    form: str
    case: Callable[[str], str]
    """How its words are written."""
    spelling: int
    """Which of the name's spellings it is in."""


def _form_of(core: str, name: str) -> _Form | None:
    for spelling, words in enumerate(_spellings(name)):
        for case in _CASES:
            for form in (*_FORMS_COMMON, *_FORMS_RARE):
                if core and words and _filled(form, words, case) == core:
                    return _Form(form, case, spelling)
    return None


def _cores(core: str, name: str) -> tuple[Sequence[str], Sequence[str]]:
    """Forms of the name that are as usual as this one, and all of them; the core alone where it is none."""
    matched = _form_of(core, name)
    if matched is None:
        return (core,), (core,)
    words = _spellings(name)[matched.spelling]
    common, rare = (
        list(dict.fromkeys(filter(None, (_filled(candidate, words, matched.case) for candidate in forms))))
        for forms in (_FORMS_COMMON, _FORMS_RARE)
    )
    return common if matched.form in _FORMS_COMMON else rare, [*common, *rare]


def _filled(form: str, words: Sequence[str], case: Callable[[str], str] = str.lower) -> str:
    """A form of a name of one word or more; empty where it says a surname and there is none."""
    first, last = case(words[0]), case(words[-1]) if len(words) > 1 else ""
    parts = {"first": first, "last": last, "f": first[:1], "l": last[:1]}
    return form.format(**parts) if all(parts[key] for key in _PLACE.findall(form)) else ""


def _domains(domain: str, words: Sequence[str]) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    """Domains as usual as this one, and all of its kind; None for invented companies."""
    label, suffix = _label(domain)
    of_country = dict.fromkeys((*FREE_MAIL_EVERYWHERE, *FREE_MAIL_OF_SUFFIX.get(suffix, ())))
    if label in of_country and suffix not in (".com", ".net", ".org"):
        national = [f"{firm}{suffix}" for firm in of_country]
        return national, national
    for group in (_FREE_MAIL_COMMON, _FREE_MAIL_RARE):
        if domain in group:
            return group, (*_FREE_MAIL_COMMON, *_FREE_MAIL_RARE)
    if domain.endswith(".edu"):
        department = ".".join(domain.split(".")[:-2])
        universities = [f"{department}.{university}" if department else university for university in _UNIVERSITIES]
        return universities, universities
    word = _name_in(label, words)
    if not word:
        surnames = _surnames_beside(label, tuple(words))
        domains = [f"{surname}{suffix}" for surname in surnames if not _name_in(surname, words)]
        return (domains, domains) if len(domains) >= _LEAST_SURNAMES else (None, None)
    ends = dict.fromkeys((suffix, ".com", ".net", ".org"))
    every = [f"{word}{kind}{end}" for end in ends for kind in _FIRM_KINDS]
    return every[: len(_FIRM_KINDS)], every


def _label(domain: str) -> tuple[str, str]:
    """What its owner chose, and the suffix from its point on: 'acme' and '.co.uk' of 'mail.acme.co.uk'."""
    parts = domain.split(".")
    n_suffix = 2 if len(parts) > 2 and len(parts[-1]) == 2 and len(parts[-2]) <= 3 else 1
    return parts[-n_suffix - 1] if len(parts) > n_suffix else "", "." + ".".join(parts[-n_suffix:])


def _name_in(label: str, words: Sequence[str]) -> str:
    """The longest word of the name that a domain says, since whoever copies the name says it too."""
    return max((word for word in words if len(word) >= _LEAST and word in label), key=len, default="")


@functools.cache
def _surnames_beside(label: str, words: Sequence[str]) -> Sequence[str]:
    """Surnames of a place whose table has this one, as they stand in addresses; of where the words of a person's name
    are from, if it is one of them."""
    own = origins.near(origins.origin_of([word.capitalize() for word in words], (), ""))
    for locale in dict.fromkeys((*own, *origins.LOCALES)):
        surnames = _surnames_of(locale)
        if label in surnames:
            return surnames
    return ()


@functools.cache
def _surnames_of(locale: str) -> Sequence[str]:
    spelled = (spelling for name in origins.names_of(locale).surnames for spelling in _spellings(name))
    return tuple(dict.fromkeys("".join(words) for words in spelled if len(words) == 1))


def _firm(words: Sequence[str], drawn: random.Random) -> str:
    label = ""
    while not label or _name_in(label, words):
        label = drawn.choice(_FIRMS)
    return label


def _number_like(number: str, drawn: random.Random) -> str:
    """As many digits: a year for a year, else none."""
    if _is_year(number):
        return str(drawn.choice(_YEARS))
    new = digits(len(number), drawn)
    while _is_year(new):
        new = digits(len(number), drawn)
    return new


def _is_year(number: str) -> bool:
    return len(number) == 4 and int(number) in _YEARS


def _replaced(text: str, words: Mapping[str, str]) -> str:
    if not words:
        return text
    # All at once: a word of the other name may be one of this name.
    of_name = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))), re.IGNORECASE)
    return of_name.sub(lambda match: words[match.group().lower()], text)
