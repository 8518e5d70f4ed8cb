"""E-mail addresses.

A validator is the wrong tool here: the ones there are refuse what is no address on the open internet, such as
'anna@clinic.local', and that is personal data all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from leakmeter.text.entities.mention import EMAIL, Mention

_LOCAL = re.compile(r"[\w!#$%&*+/=?^`{|}~-]+(?:[.'’][\w!#$%&*+/=?^`{|}~-]+)*\Z")
_DOMAIN = re.compile(r"[^\W_](?:[\w-]*[^\W_])?(?:\.[^\W_](?:[\w-]*[^\W_])?)+")


def find(text: str) -> Iterator[Mention]:
    """E-mail addresses of a text; the normal form is in lower case."""
    at = text.find("@")
    # RFC 5321 allows 64 characters before the @, and 253 behind it.
    while at >= 0:
        local = _LOCAL.search(text[max(0, at - 64) : at])
        domain = _DOMAIN.match(text[at + 1 : at + 1 + 253])
        if local and domain:
            start, end = at - len(local.group()), at + 1 + domain.end()
            yield Mention(EMAIL, start, end, text[start:end].casefold())
        at = text.find("@", at + 1)
