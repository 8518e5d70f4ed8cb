"""People of whom one document tells name, telephone number, e-mail address and postal address.

As in Appendix A.2 of ProPILE (Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models"), where a
document gives one person. The paper does not say which of several numbers is whose. Here each name is given, of every
type, what stands nearest behind it, or before it where nothing stands behind; the name for which the fewest stand
before is taken, among these the one nearest to its three, among these the first.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leakmeter.instruments.pii.extraction.found import (
    Find,
    Found,
    Place,
    apart_from,
    names_beside_emails,
    one_line,
    whole_name,
    widest,
)
from leakmeter.instruments.pii.extraction.passages import BLANK_LINE
from leakmeter.instruments.pii.subject import Subject

# No telephone number has fewer digits; between two stand few other characters.
_DIGITS = re.compile(r"\d(?:[^\w\n]{0,4}\d){5}")
# A street alone is no postal address: a town follows it, or a code.
_WHOLE = re.compile(r"[,\n].*\w|\d{4}\s*\Z", re.DOTALL)
_MOST_IN_ADDRESS = 200


@dataclass(frozen=True, slots=True)
class Structured:
    """The person of a document that has all four; nobody where one is missing.

    Finders are asked in this order, the next only if the last has found something, and none of them where there is no
    '@' or too few digits.
    """

    emails: Find
    phones: Find
    addresses: Find
    names: Find = names_beside_emails
    """A recogniser of names; without one, only names that stand beside an e-mail address or behind 'Name:'."""

    def __call__(self, text: str) -> Iterator[Subject]:
        """The person, or nobody; one of them at most, without an id."""
        if "@" not in text or not _DIGITS.search(text):
            return
        emails = [one for one in widest(self.emails(text), len(text)) if _is_email(_said(text, one))]
        if not emails:
            return
        phones = apart_from(widest(self.phones(text), len(text)), emails)
        if not phones:
            return
        addresses = [_unbroken(text, one) for one in widest(self.addresses(text), len(text))]
        addresses = [one for one in addresses if _is_address(_said(text, one))]
        phones = apart_from(phones, addresses)
        if not (phones and addresses):
            return
        names = [one for one in widest(self.names(text), len(text)) if whole_name(_said(text, one))]
        names = apart_from(names, [*emails, *addresses])
        if not names:
            return
        name, (phone, email, address) = nearest(names, (phones, emails, addresses))
        yield Subject(
            id="",
            name=whole_name(_said(text, name)) or "",
            phone=" ".join(_said(text, phone).split()),
            email=_said(text, email),
            address=one_line(_said(text, address)),
        )


def nearest(names: Sequence[Found], others: Sequence[Sequence[Found]]) -> tuple[Found, list[Found]]:
    """A name and one of each of the others, by the rule of this module; all in order and none empty."""
    starts = [[one.start for one in kind] for kind in others]
    best: tuple[tuple[int, int], Found, list[Found]] | None = None
    for name in names:
        n_before, distance, chosen = 0, 0, []
        for kind, begins in zip(others, starts, strict=True):
            at = bisect_left(begins, name.end)
            one = kind[at] if at < len(kind) else kind[-1]
            n_before += at == len(kind)
            distance += one.start - name.end if at < len(kind) else max(0, name.start - one.end)
            chosen.append(one)
        if best is None or (n_before, distance) < best[0]:
            best = (n_before, distance), name, chosen
    assert best is not None
    return best[1], best[2]


def _said(text: str, one: Found) -> str:
    return text[one.start : one.end]


def _unbroken(text: str, one: Found) -> Found:
    """An address up to the first blank line, behind which something else begins."""
    blank = BLANK_LINE.search(text, one.start, one.end)
    return Place(one.start, blank.start()) if blank else one


def _is_email(text: str) -> bool:
    from email_validator import EmailNotValidError, validate_email

    try:
        validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return False
    return True


def _is_address(text: str) -> bool:
    line = one_line(text)
    return len(line) <= _MOST_IN_ADDRESS and line.isprintable() and bool(_WHOLE.search(text))
