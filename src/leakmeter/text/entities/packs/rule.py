"""One recogniser of a pack: what its table says, and what is refused of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import regex

from leakmeter.errors import UsageError
from leakmeter.text.entities import pattern
from leakmeter.text.entities.mention import EMAIL, PHONE
from leakmeter.text.entities.packs.checksums import CHECKSUMS
from leakmeter.text.entities.packs.size import size_of
from leakmeter.text.folding import WORD, alike, lower

PUBLIC: Final = "public"
"""Kind of what is no value."""
KIND: Final = regex.compile(r"\p{L}[\p{L}\p{N} _()'’./-]{0,39}")
"""Reports say it as a word of ours: nothing that is markup or an address anywhere."""
_TO_DIGIT: Final = (0, 2, 5, 9, 16)
"""Characters before the first digit of a value, up to which it is looked for near digits alone: few numbers, so that
many recognisers are asked together."""
_NEAR: Final = 40
_MOST_NEAR: Final = 80
"""Characters between a word and its value."""
_RESERVED: Final = {
    "other": "'other' is what nothing known calls personal or secret",
    PHONE: "telephone numbers of all countries are found without a pack",
    EMAIL: "e-mail addresses are found without a pack",
}
_TEXTS: Final = ("words", "not_in", "starts", "before", "after", "needs", "examples", "counter_examples")
_FIELDS: Final = frozenset(("kind", "pattern", "checksum", "shape", "meaning", "near", *_TEXTS))
_ENDING: Final = r"\p{L}{0,15}"
_APOSTROPHE = regex.compile(r"\\?['’]")
_APOSTROPHES: Final = "['’]"
BEGINS: Final = rf"(?:(?<![{WORD}])|(?![{WORD}]))"
_ENDS: Final = rf"(?:(?![{WORD}])|(?<![{WORD}]))"
"""Where no cased letter or digit goes on."""


# A rule is itself alone: what is prepared for many of them is found again by which they are.
@dataclass(frozen=True, slots=True, eq=False)
class PackRule:
    """One recogniser of a pack."""

    kind: str
    checksum: str | None
    is_shape: bool
    is_meaning: bool
    starts: tuple[str, ...]
    """Texts that a value begins with; none of most."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    """Words, as `lower` writes them."""
    needs: tuple[str, ...]
    """Texts, as `alike` writes them, of which one has to stand somewhere; none of most."""
    heads: tuple[str, ...]
    """What its words begin with, as `alike` writes it, also those that are passed over; none where no list of words
    is asked, or where one begins with a star."""
    whole: str
    """What is asked from where a value may begin, which is the group 'whole'."""
    passed: str
    """The phrases in which words do not count; empty where there are none."""
    near: int
    most: int
    """Characters that its pattern matches at most."""
    to_digit: int | None
    """Characters before its first digit at most, one of a few numbers; None of a value without a digit so early."""
    digits: int
    """Digits that its pattern matches at least."""
    examples: tuple[str, ...]
    counter_examples: tuple[str, ...]
    seconds: float | None
    """That a search may take; None without a limit."""

    # Compiled when a text is first asked: most recognisers are asked of no place of it.
    @property
    def compiled(self) -> regex.Pattern[str]:
        return _compiled(self.whole)

    @property
    def behind_word(self) -> regex.Pattern[str]:
        """Up to `near` characters from where it is asked."""
        return _within(self.near, self.whole)

    @property
    def near_digit(self) -> regex.Pattern[str]:
        """Up to `to_digit` characters from where it is asked."""
        return _within(self.to_digit or 0, self.whole)

    @property
    def passed_over(self) -> regex.Pattern[str]:
        return _compiled(self.passed)

    @property
    def is_of_digits(self) -> bool:
        """Whether it is looked for near digits alone."""
        return self.to_digit is not None and self.seconds is None and not self.before and not self.starts


def rule_of(entry: Any, where: str, seconds: float | None) -> PackRule:
    """A recogniser from its table. `where` begins the text of a `UsageError`: the pack, and which recogniser."""
    if not isinstance(entry, dict):
        raise UsageError(f"{where} has to be a table, [[recogniser]]")
    kind = entry.get("kind")
    if not isinstance(kind, str) or not KIND.fullmatch(kind):
        raise UsageError(f"{where}: 'kind' has to be a name of up to 40 letters, digits, spaces and any of _()'./-")
    where = f"{where} (kind '{kind}')"
    if kind in _RESERVED:
        raise UsageError(f"{where}: give another kind; {_RESERVED[kind]}")
    if unknown := sorted(str(name) for name in entry.keys() - _FIELDS):
        raise UsageError(f"{where}: '{unknown[0][:40]}' is not known; known are {', '.join(sorted(_FIELDS))}")
    texts = {name: _texts(entry, name, where) for name in _TEXTS}
    for name in ("examples", "counter_examples"):
        if not texts[name]:
            raise UsageError(f"{where}: '{name}' are missing; the recogniser is tested with them")
    checksum = entry.get("checksum")
    if checksum is not None and checksum not in CHECKSUMS:
        raise UsageError(f"{where}: checksum {str(checksum)[:40]!r} is none of {', '.join(sorted(CHECKSUMS))}")
    flags = {name: entry.get(name, False) for name in ("shape", "meaning")}
    if wrong := [name for name, flag in flags.items() if not isinstance(flag, bool)]:
        raise UsageError(f"{where}: '{wrong[0]}' has to be true or false")
    if flags["meaning"] and seconds is not None:
        raise UsageError(f"{where}: 'meaning' is for the packs of leakmeter; what stands in yours is a value by itself")
    near = entry.get("near", _NEAR)
    if isinstance(near, bool) or not isinstance(near, int) or not 0 <= near <= _MOST_NEAR:
        raise UsageError(f"{where}: 'near' has to be a number from 0 to {_MOST_NEAR}")
    source = _of_words(texts["words"]) if texts["words"] else entry.get("pattern")
    if not isinstance(source, str) or not source or (texts["words"] and "pattern" in entry):
        raise UsageError(f"{where}: 'pattern' has to be a text, or 'words' a list of texts")
    if texts["not_in"] and (not texts["words"] or texts["before"]):
        raise UsageError(f"{where}: 'not_in' is for 'words' without 'before'")
    size = size_of(source, f"{where}: the pattern")
    n_before = size.to_digit
    to_digit = None if n_before is None else next((most for most in _TO_DIGIT if n_before <= most), None)
    # Those of leakmeter are tested, and take a second of every start.
    if seconds is not None:
        alone = pattern.compiled(source, f"{where}: the pattern", is_bounded=True)
        if not texts["starts"] and alone.fullmatch("") is not None:
            raise UsageError(f"{where}: the pattern matches the empty text; it has to need a character at least")
    starts = "|".join(regex.escape(start) for start in sorted(texts["starts"], key=len, reverse=True))
    # What stands in such a phrase is passed over with it.
    passed = rf"{_of_words(texts['not_in'])}{_ENDS}" if texts["not_in"] else ""
    skipped = f"{passed}(*SKIP)(*FAIL)|" if passed else ""
    return PackRule(
        kind=kind,
        checksum=checksum,
        is_shape=flags["shape"],
        is_meaning=flags["meaning"],
        starts=texts["starts"],
        before=tuple(map(lower, texts["before"])),
        after=tuple(map(lower, texts["after"])),
        needs=tuple(map(alike, texts["needs"])),
        heads=_heads((*texts["words"], *texts["not_in"])),
        whole=rf"{BEGINS}(?P<whole>(?:{starts})(?:{skipped}{source}){_ENDS})",
        passed=rf"{BEGINS}{passed}" if passed else "",
        near=near,
        most=size.most,
        to_digit=to_digit,
        digits=size.digits,
        examples=texts["examples"],
        counter_examples=texts["counter_examples"],
        seconds=seconds,
    )


def _of_words(words: Sequence[str]) -> str:
    """A pattern of words, in any case and with any apostrophe, in which a star stands for letters."""
    longest_first = sorted(words, key=len, reverse=True)
    alternatives = "|".join(_ENDING.join(map(regex.escape, word.split("*"))) for word in longest_first)
    return rf"(?i:{_APOSTROPHE.sub(_APOSTROPHES, alternatives)})"


def _heads(words: Sequence[str]) -> tuple[str, ...]:
    heads = tuple(dict.fromkeys(alike(word.partition("*")[0].replace("\\", "")) for word in words))
    return heads if all(heads) else ()


@cache
def _compiled(whole: str) -> regex.Pattern[str]:
    return regex.compile(whole)


@cache
def _within(n_characters: int, whole: str) -> regex.Pattern[str]:
    return regex.compile(rf"(?s:.{{0,{n_characters}}}?){whole}")


def _texts(entry: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    texts = entry.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError(f"{where}: '{name}' has to be a list of texts")
    return tuple(texts)
