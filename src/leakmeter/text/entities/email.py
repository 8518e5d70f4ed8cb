"""E-mail addresses, also as 'anna [at] clinic [dot] local'.

A validator is the wrong tool here: the ones there are refuse what is no address on the open internet, such as
'anna@clinic.local', and that is personal data all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import regex

from leakmeter.text.entities.mention import EMAIL, Mention
from leakmeter.text.folding import CASED, in_plain_text

_OPEN, _CLOSE = r"[ ]?[\[({<][ ]?", r"[ ]?[\])}>][ ]?"
_DOT: Final = rf"(?:\.|{_OPEN}(?:dot|punkt|punto|point|ponto){_CLOSE}|[ ]dot[ ])"
# Without brackets the end has to be one that is known: 'look at polka dot dresses'.
_TOP: Final = (
    r"(?:com|org|net|edu|gov|info|io|eu|uk|de|fr|es|it|nl|ch|us|ca|au|in|jp|cn|br|example|test|local)(?![\w-])"
)
_AT = regex.compile(
    rf"@|{_OPEN}(?:@|at|ät|arroba|arobase|chiocciola){_CLOSE}|[ ]at[ ](?=[\w-]+[ ]dot[ ](?:[\w-]+[ ]dot[ ])?{_TOP})",
    regex.IGNORECASE,
)


def _local(letters: str) -> regex.Pattern[str]:
    signs = rf"[{letters}_!#$%&*+/=?^`{{|}}~-]+"
    return regex.compile(rf"{signs}(?:[.'’]{signs})*\Z")


def _domain(letters: str, dot: str) -> regex.Pattern[str]:
    label = rf"[{letters}](?:[{letters}_-]*[{letters}])?"
    return regex.compile(rf"{label}(?:{dot}{label})+", regex.IGNORECASE)


# Chinese letters beside a Latin address are none of it; but an address may be all Chinese.
_LETTERS: Final = (rf"{CASED}\p{{Nd}}", r"\p{L}\p{N}")
_LOCALS: Final = tuple(map(_local, _LETTERS))
_DOMAINS: Final = tuple(_domain(letters, r"\.") for letters in _LETTERS)
_SPELLED_DOMAINS: Final = tuple(_domain(letters, _DOT) for letters in _LETTERS)
_IN_URL = regex.compile(r".*[/?&=](?=.)")
_PASSWORD = regex.compile(r"://[^\s/@:]*:\Z")


@in_plain_text
def find(text: str) -> Iterator[Mention]:
    """E-mail addresses of a text; the normal form is in lower case, with '@' and points."""
    for at in _AT.finditer(text):
        is_spelled = at.group() != "@"
        # RFC 5321 allows 64 characters before the @, and 253 behind it.
        before, behind = text[max(0, at.start() - 64) : at.start()], text[at.end() : at.end() + 253]
        local = next(filter(None, (form.search(before) for form in _LOCALS)), None)
        domains = _SPELLED_DOMAINS if is_spelled else _DOMAINS
        domain = next(filter(None, (form.match(behind) for form in domains)), None)
        if not local or not domain:
            continue
        name = local.group()
        start = at.start() - len(name)
        if _PASSWORD.search(text[max(0, start - 64) : start]):
            continue  # 'https://user:password@host'
        if "//" in name or "?" in name:
            start += len(name) - len(_IN_URL.sub("", name))
        value = f"{text[start : at.start()]}@{regex.sub(_DOT, '.', domain.group(), flags=regex.IGNORECASE)}"
        yield Mention(EMAIL, start, at.end() + domain.end(), value.casefold())
