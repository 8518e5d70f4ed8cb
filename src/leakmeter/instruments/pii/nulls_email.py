"""Nulls of an e-mail address: the same name at another domain, with other digits or in another form of it."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence

from leakmeter.errors import UsageError
from leakmeter.samples.words import FIRM_KINDS, FIRMS, LOCAL_PARTS

Draw = Callable[[random.Random], str]

_LOCAL_PARTS_RARE = (
    *("{first}-{last}", "{f}_{last}", "{first}.{l}", "{first}_{l}", "{last}.{first}", "{last}{first}"),
    *("{last}_{first}", "{last}{f}", "{last}.{f}", "{first}", "{last}"),
)
# In order of how many people have them; each group of like frequency.
_FREE_MAIL_COMMON = (
    *("gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "aol.com", "icloud.com", "live.com", "msn.com"),
    *("comcast.net", "verizon.net", "att.net", "sbcglobal.net"),
)
_FREE_MAIL_RARE = (
    *("adelphia.net", "aim.com", "alltel.net", "ameritech.net", "bellsouth.net", "btinternet.com", "cableone.net"),
    *("centurylink.net", "centurytel.net", "charter.net", "cox.net", "earthlink.net", "email.com", "embarqmail.com"),
    *("excite.com", "fastmail.com", "free.fr", "frontier.com", "gmx.com", "gmx.de", "gmx.net", "googlemail.com"),
    *("hotmail.co.uk", "hushmail.com", "inbox.com", "insightbb.com", "juno.com", "libero.it", "lycos.com", "mac.com"),
    *("mail.com", "me.com", "mindspring.com", "netscape.net", "netzero.net", "optonline.net", "orange.fr"),
    *("pacbell.net", "peoplepc.com", "prodigy.net", "proton.me", "protonmail.com", "q.com", "rcn.com"),
    *("roadrunner.com", "rocketmail.com", "suddenlink.net", "swbell.net", "t-online.de", "tds.net", "tutanota.com"),
    *("usa.net", "wanadoo.fr", "web.de", "windstream.net", "wowway.com", "yahoo.ca", "yahoo.co.uk", "yandex.com"),
    *("ymail.com", "zoho.com"),
)
_UNIVERSITIES = (
    *("arizona.edu", "asu.edu", "auburn.edu", "baylor.edu", "bc.edu", "berkeley.edu", "brown.edu", "bu.edu"),
    *("byu.edu", "caltech.edu", "case.edu", "clemson.edu", "cmu.edu", "colorado.edu", "columbia.edu", "cornell.edu"),
    *("dartmouth.edu", "drexel.edu", "duke.edu", "emory.edu", "fsu.edu", "gatech.edu", "georgetown.edu", "gmu.edu"),
    *("gwu.edu", "harvard.edu", "illinois.edu", "indiana.edu", "jhu.edu", "lsu.edu", "miami.edu", "mit.edu"),
    *("msu.edu", "ncsu.edu", "nd.edu", "northwestern.edu", "nyu.edu", "osu.edu", "princeton.edu", "psu.edu"),
    *("purdue.edu", "rice.edu", "rochester.edu", "rutgers.edu", "smu.edu", "stanford.edu", "syr.edu", "tamu.edu"),
    *("temple.edu", "tufts.edu", "tulane.edu", "ucdavis.edu", "uchicago.edu", "uci.edu", "ucla.edu", "uconn.edu"),
    *("ucsd.edu", "ufl.edu", "uga.edu", "uiowa.edu", "umd.edu", "umich.edu", "umn.edu", "unc.edu", "upenn.edu"),
    *(
        "usc.edu",
        "utah.edu",
        "utexas.edu",
        "uw.edu",
        "vanderbilt.edu",
        "virginia.edu",
        "vt.edu",
        "wisc.edu",
        "yale.edu",
    ),
)
_YEARS = range(1930, 2020)
_TITLES = re.compile(r"dr|mr|mrs|ms|miss|prof|sir|jr|sr|ii|iii|iv|phd|md|esq")
_PLACE = re.compile(r"\{(\w+)\}")
_ENOUGH = 60  # domains to choose from
_LEAST = 3  # letters of a name that are no chance in a domain


def drawers(value: str, name: str, who: str) -> Sequence[Draw]:
    """Draws e-mail addresses of the same name: by the first, nothing changes that need not.

    The part before the @ keeps its form, with other digits where it ends in some (years for a year). The domain becomes
    one of its group: free mail that many or few people have, universities, or companies of the same suffix, which are
    invented and say as much of the name. Where that leaves few, other forms of the name serve too, usual ones for a
    usual one; by the second way to draw, all forms and all domains of the kind.

    Args:
        value: an e-mail address.
        name: of whom it is.
        who: that is, for errors.

    Raises:
        UsageError: it is no e-mail address.
    """
    local, at, domain = value.rpartition("@")
    if not at:
        raise UsageError(f"{who}: 'email' is no e-mail address; give one, or leave it out")
    local, plus, tag = local.partition("+")
    digits = local[len(local.rstrip("0123456789")) :]
    base = local[: len(local) - len(digits)]
    core = base.rstrip("._-")
    glue, end = base[len(core) :], plus + tag
    near, far = _cores(core, name)
    close, all_ = _domains(domain, words_of(name))
    first = (core,) if digits or close is None or len(close) >= _ENOUGH else near

    def drawer(cores: Sequence[str], domains: Sequence[str] | None) -> Draw:
        def draw(drawn: random.Random) -> str:
            new = _firm(domain, words_of(name), drawn) if domains is None else drawn.choice(domains)
            return f"{drawn.choice(cores)}{glue}{_digits_like(digits, drawn)}{end}@{new}"

        return draw

    return drawer(first, close), drawer(far, all_)


def other_core(core: str, name: str, other: str) -> str | None:
    """What stands before the digits and the @, made of another name in the same way; None where it is no form of it."""
    words, new = words_of(name), words_of(other)
    if not words or not new:
        return None
    for cased in (str.lower, str.capitalize, str.upper):
        for form in (*LOCAL_PARTS, *_LOCAL_PARTS_RARE):
            if _filled([form], cased(words[0]), cased(words[-1]) if len(words) > 1 else "") == [core]:
                made = _filled([form], cased(new[0]), cased(new[-1]) if len(new) > 1 else "")
                return made[0] if made else None
    return None


def _cores(core: str, name: str) -> tuple[Sequence[str], Sequence[str]]:
    """Forms of the name that are as usual as this one, and all of them; the core alone where it is none."""
    words = words_of(name)
    for cased in (str.lower, str.capitalize, str.upper):
        first, last = (cased(words[0]), cased(words[-1]) if len(words) > 1 else "") if words else ("", "")
        groups = [_filled(forms, first, last) for forms in (LOCAL_PARTS, _LOCAL_PARTS_RARE)]
        for group in groups:
            if core in group:
                return group, [one for group in groups for one in group]
    return (core,), (core,)


def _filled(forms: Sequence[str], first: str, last: str) -> list[str]:
    parts = {"first": first, "last": last, "f": first[:1], "l": last[:1]}
    usable = [form for form in forms if all(parts[key] for key in _PLACE.findall(form))]
    return list(dict.fromkeys(_PLACE.sub(lambda place: parts[place[1]], form) for form in usable))


def words_of(name: str) -> list[str]:
    """A name's words as they stand in addresses: small letters without accents, no titles."""
    plain = unicodedata.normalize("NFKD", name.replace("'", "").replace("’", "").replace("ß", "ss"))
    words = re.findall(r"[a-z]+", "".join(char for char in plain if not unicodedata.combining(char)).lower())
    return [word for word in words if not _TITLES.fullmatch(word)]


def _domains(domain: str, words: Sequence[str]) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    """Domains as usual as this one, and all of its kind; None for invented companies."""
    domain = domain.lower()
    if domain in _FREE_MAIL_COMMON or domain in _FREE_MAIL_RARE:
        group = _FREE_MAIL_COMMON if domain in _FREE_MAIL_COMMON else _FREE_MAIL_RARE
        return group, (*_FREE_MAIL_COMMON, *_FREE_MAIL_RARE)
    if domain.endswith(".edu"):
        department = ".".join(domain.split(".")[:-2])
        universities = [f"{department}.{one}" if department else one for one in _UNIVERSITIES]
        return universities, universities
    label, suffix = _label(domain)
    word = _name_in(label, words)
    if word:
        close, *others = (
            [f"{word}{kind}{end}" for kind in FIRM_KINDS] for end in dict.fromkeys((suffix, ".com", ".net", ".org"))
        )
        return close, [domain for group in (close, *others) for domain in group]
    return None, None


def _label(domain: str) -> tuple[str, str]:
    """What its owner chose, and the suffix from its point on: 'acme' and '.co.uk' of 'mail.acme.co.uk'."""
    parts = domain.split(".")
    n_suffix = 2 if len(parts) > 2 and len(parts[-1]) == 2 and len(parts[-2]) <= 3 else 1
    return parts[-n_suffix - 1] if len(parts) > n_suffix else "", "." + ".".join(parts[-n_suffix:])


def _name_in(label: str, words: Sequence[str]) -> str:
    """The longest word of the name that a domain says, since whoever copies the name says it too."""
    return max((word for word in words if len(word) >= _LEAST and word in label), key=len, default="")


def _firm(domain: str, words: Sequence[str], drawn: random.Random) -> str:
    label = ""
    while not label or _name_in(label, words):
        label = drawn.choice(FIRMS)
    return label + _label(domain.lower())[1]


def _digits_like(digits: str, drawn: random.Random) -> str:
    """As many digits: a year for a year, else none."""
    if _is_year(digits):
        return str(drawn.choice(_YEARS))
    new = digits
    while digits:
        new = "".join(drawn.choice("0123456789") for _ in digits)
        if not _is_year(new):
            break
    return new


def _is_year(digits: str) -> bool:
    return len(digits) == 4 and int(digits) in _YEARS
