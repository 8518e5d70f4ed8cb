"""Recognisers as data: what a pack says, what is refused of it, and how a text is searched.

A pack is a TOML file of one language or domain:

    about = "Identifiers of people in Poland."

    [[recogniser]]
    kind = "PESEL"
    pattern = '\\d{11}'
    before = ["PESEL"]
    checksum = "pesel"
    examples = ["Jego PESEL to «44051401359»."]
    counter_examples = ["PESEL: 44051401358", "44051401359"]

- `kind` is what reports call it. `public` is no value: what everybody may look up, such as an ISBN.
- `pattern` is what the value looks like, for the `regex` library; a group `value` of it is the value. No cased letter
  or digit may stand beside it.
- `starts` are texts of which the value begins with one, which the pattern follows: known prefixes.
- `before` and `after` are words of which one has to stand before or behind it, in any case, with at most `near`
  characters between (0 to 80; 40 if not said).
- `checksum` is the name of one of `checksums.CHECKSUMS`.
- `shape = true` is for what says less than a recogniser: it is asked of answers, and makes no unit of the context.
- `examples` and `counter_examples` are the recogniser's tests: in an example it finds what stands between « and »,
  in a counter-example nothing. A user's pack is tested where it is read.

Time is linear in the text: a pattern has no quantifier without an upper limit, matches `MOST_MATCHED` characters at
most, and is tried once at each place. That a place may still take long, where one text fits a pattern in many ways, is
what the time limit of `entities.pattern` is for, which holds for packs of users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import regex

from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.registry import added_packs
from leakmeter.errors import UsageError
from leakmeter.text.entities import date, pattern, person
from leakmeter.text.entities.mention import DATE, EMAIL, PERSON, PHONE, Mention
from leakmeter.text.entities.packs.checksums import AS_WRITTEN, CHECKSUMS
from leakmeter.text.folding import WORD, in_plain_text

PUBLIC: Final = "public"
"""Kind of what is no value."""
MOST_MATCHED: Final = 8_192
"""Characters that a pattern may match."""
KIND: Final = regex.compile(r"\p{L}[\p{L}\p{N} _()'’./-]{0,39}")
"""Reports say it as a word of ours: nothing that is markup or an address anywhere."""
_NEAR: Final = 40
_MOST_NEAR: Final = 80
"""Characters between a word and its value."""
_MOST_BYTES: Final = 1_000_000
_MOST_RECOGNISERS: Final = 500
_RESERVED: Final = {
    "other": "calls what nothing known calls personal or secret",
    PHONE: "telephone numbers of all countries are found without a pack",
    EMAIL: "e-mail addresses are found without a pack",
}
_TEXTS: Final = ("starts", "before", "after", "examples", "counter_examples")
_FIELDS: Final = frozenset(("kind", "pattern", "checksum", "shape", "near", *_TEXTS))
_MARKED = regex.compile(r"«([^«»]+)»")
_TOKEN = regex.compile(
    r"(?P<escape>\\(?:[pPN]\{[^{}]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^0-9gkLRXK]))"
    r"|(?P<class>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])"
    r"|(?P<open>\((?:\?(?:P?<[A-Za-z_]\w*>|[:>=!]|<[=!]|[ims]+:))?(?!\?))"
    r"|(?P<close>\))"
    r"|(?P<times>(?:\{(?P<least>\d{1,5})(?:,(?P<most>\d{1,5}))?\}|\?)[?+]?)"
    r"|(?P<wrong>[*+{}\[\\]|\(\?)"
    r"|(?P<sign>.)",
    regex.DOTALL,
)


_BEGINS: Final = rf"(?:(?<![{WORD}])|(?![{WORD}]))"
_ENDS: Final = rf"(?:(?![{WORD}])|(?<![{WORD}]))"
"""Where no cased letter or digit goes on."""


@dataclass(frozen=True, slots=True)
class PackRule:
    """One recogniser of a pack."""

    kind: str
    checksum: str | None
    is_shape: bool
    starts: tuple[str, ...]
    """Texts that a value begins with; none of most."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    compiled: regex.Pattern[str]
    """Of a whole value."""
    behind_word: regex.Pattern[str]
    """The same, up to `near` characters from where it is asked."""
    near: int
    examples: tuple[str, ...]
    counter_examples: tuple[str, ...]
    seconds: float | None
    """That a search may take; None without a limit."""


@dataclass(frozen=True, slots=True)
class Pack:
    """The recognisers of one file."""

    name: str
    about: str
    rules: tuple[PackRule, ...]


# --------------------------------------------------------------------------------------------------------- what is read


@cache
def own() -> tuple[Pack, ...]:
    """The packs of leakmeter itself."""
    folder = resources.files(__package__)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(_parsed((folder / name).read_text(encoding="utf-8"), name, seconds=None) for name in names)


@cache
def recognisers() -> tuple[PackRule, ...]:
    """Of leakmeter's packs, those that say what a value is wherever it stands."""
    return tuple(rule for pack in own() for rule in pack.rules if not rule.is_shape and rule.kind != PUBLIC)


@cache
def shapes() -> tuple[PackRule, ...]:
    """Those that say less: they are asked of answers alone."""
    return tuple(rule for pack in own() for rule in pack.rules if rule.is_shape)


@cache
def public() -> tuple[PackRule, ...]:
    """Those of what is no value."""
    return tuple(rule for pack in own() for rule in pack.rules if rule.kind == PUBLIC)


@cache
def kinds() -> frozenset[str]:
    """What `recognisers` call values."""
    return frozenset(rule.kind for rule in recognisers())


def resolved(files: Sequence[str]) -> tuple[str, ...]:
    """Texts of packs that users name, and of those that other packages bring, so that a run is known by what it read.
    What is a text already stays as it is."""
    texts = [name if "\n" in name else _read(Path(name)) for name in files]
    texts += [text for text in added_packs() if text not in texts]
    for text in texts:
        parse(text)
    return tuple(texts)


def _read(path: Path) -> str:
    text = read_text(path, "pack")
    # The first line says which file it was, as long as the run is kept.
    return f"# {path.name!a}\n{text}"


@lru_cache(maxsize=32)
def parse(text: str) -> Pack:
    """A pack of a user from its text; `UsageError` with its name and the recogniser for what cannot be used, or is
    refuted by its own examples."""
    first = text.partition("\n")[0]
    name = first[3:-1] if first.startswith("# '") and first.endswith("'") else "pack"
    pack = _parsed(text, name, seconds=pattern.SECONDS_AT_MOST)
    for number, rule in enumerate(pack.rules, 1):
        if (why := failure(rule)) is not None:
            raise UsageError(f"pack '{name}', recogniser {number} (kind '{rule.kind}'): {why}")
    return pack


def _parsed(text: str, name: str, *, seconds: float | None) -> Pack:
    if len(text) > _MOST_BYTES:
        raise UsageError(f"pack '{name}' has {len(text):,} characters, and at most {_MOST_BYTES:,} are read")
    content = parsed_toml(text, f"pack '{name}'")
    if unknown := sorted(content.keys() - {"about", "recogniser"}):
        raise UsageError(f"pack '{name}': '{unknown[0]}' is not known; a pack has 'about' and [[recogniser]]")
    entries = content.get("recogniser")
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MOST_RECOGNISERS:
        raise UsageError(f"pack '{name}' needs [[recogniser]] once to {_MOST_RECOGNISERS} times")
    about = content.get("about", "")
    if not isinstance(about, str):
        raise UsageError(f"pack '{name}': 'about' has to be a text")
    rules = tuple(_rule(entry, f"pack '{name}', recogniser {n}", seconds) for n, entry in enumerate(entries, 1))
    return Pack(name, about, rules)


def _rule(entry: Any, where: str, seconds: float | None) -> PackRule:
    if not isinstance(entry, dict):
        raise UsageError(f"{where} has to be a table, [[recogniser]]")
    kind = entry.get("kind")
    if not isinstance(kind, str) or not KIND.fullmatch(kind):
        raise UsageError(f"{where}: 'kind' has to be a name of up to 40 letters, digits, spaces and any of _()'./-")
    where = f"{where} (kind '{kind}')"
    if kind in _RESERVED:
        raise UsageError(f"{where}: another kind is needed; {_RESERVED[kind]}")
    if unknown := sorted(str(name) for name in entry.keys() - _FIELDS):
        raise UsageError(f"{where}: '{unknown[0][:40]}' is not known; known are {', '.join(sorted(_FIELDS))}")
    texts = {name: _texts(entry, name, where) for name in _TEXTS}
    for name in ("examples", "counter_examples"):
        if not texts[name]:
            raise UsageError(f"{where}: '{name}' are missing; they are what the recogniser is tested with")
    checksum = entry.get("checksum")
    if checksum is not None and checksum not in CHECKSUMS:
        raise UsageError(f"{where}: checksum {str(checksum)[:40]!r} is none of {', '.join(sorted(CHECKSUMS))}")
    shape = entry.get("shape", False)
    if not isinstance(shape, bool):
        raise UsageError(f"{where}: 'shape' has to be true or false")
    near = entry.get("near", _NEAR)
    if isinstance(near, bool) or not isinstance(near, int) or not 0 <= near <= _MOST_NEAR:
        raise UsageError(f"{where}: 'near' has to be a number from 0 to {_MOST_NEAR}")
    source = entry.get("pattern")
    if not isinstance(source, str) or not source:
        raise UsageError(f"{where}: 'pattern' has to be a text")
    _check_bounded(source, f"{where}: the pattern")
    starts = "|".join(regex.escape(start) for start in sorted(texts["starts"], key=len, reverse=True))
    whole = rf"{_BEGINS}(?:{starts})(?:{source}){_ENDS}"
    compiled = pattern.compiled(whole, f"{where}: the pattern", is_bounded=True)
    if compiled.match("") is not None or (not starts and regex.fullmatch(source, "") is not None):
        raise UsageError(f"{where}: the pattern matches the empty text; it has to need a character at least")
    return PackRule(
        kind=kind,
        checksum=checksum,
        is_shape=shape,
        starts=texts["starts"],
        before=tuple(map(_lower, texts["before"])),
        after=tuple(map(_lower, texts["after"])),
        compiled=compiled,
        behind_word=regex.compile(rf"(?s:.{{0,{near}}}?)(?P<whole_value>{whole})"),
        near=near,
        examples=texts["examples"],
        counter_examples=texts["counter_examples"],
        seconds=seconds,
    )


def _texts(entry: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    texts = entry.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError(f"{where}: '{name}' has to be a list of texts")
    return tuple(texts)


def _check_bounded(source: str, where: str) -> None:
    """Refuse a pattern that may match more than `MOST_MATCHED` characters, or that calls itself."""
    totals, last = [0], 0
    for token in _TOKEN.finditer(source):
        match token.lastgroup:
            case "wrong":
                raise UsageError(
                    f"{where} has {token.group()!r} at character {token.start() + 1}; write how often at most, as in "
                    "{0,40}, and brackets and backslashes that are meant as such behind a backslash"
                )
            case "open":
                totals += [0]
                last = 0
                continue
            case "close":
                last = totals.pop() if len(totals) > 1 else 0
            case "times":
                most = int(token["most"] or token["least"] or 1)
                totals[-1] += last * (most - 1) if most else 0
                last *= max(most, 1)
                _check_width(max(totals), where)
                continue
            case _:
                last = 1
        totals[-1] += last
        _check_width(max(totals), where)


def _check_width(n_characters: int, where: str) -> None:
    if n_characters > MOST_MATCHED:
        raise UsageError(f"{where} matches {n_characters:,} characters or more; {MOST_MATCHED:,} at most")


def failure(rule: PackRule) -> str | None:
    """Why a recogniser's own examples refute it, a clause; None where they do not."""
    for example in rule.examples:
        wanted = [match[1] for match in _MARKED.finditer(example)]
        text = example.replace("«", "").replace("»", "")
        found = [text[mention.start : mention.end] for mention in find(text, [rule])]
        if not wanted:
            return f"no value stands between « and » in the example {example[:80]!r}"
        if found != wanted:
            return f"finds {', '.join(map(repr, found)) or 'nothing'} in the example {example[:80]!r}"
    for example in rule.counter_examples:
        if found := [example[mention.start : mention.end] for mention in find(example, [rule])]:
            return f"finds {found[0]!r} in the counter-example {example[:80]!r}"
    return None


# ----------------------------------------------------------------------------------------------------- what is searched


@in_plain_text
def find(text: str, rules: Sequence[PackRule]) -> Iterator[Mention]:
    """What recognisers find, in no order; those of several may overlap. `UsageError` where one of a user's takes too
    long."""
    lowered: str | None = None
    for rule in rules:
        if rule.before or rule.after:
            lowered = _lower(text) if lowered is None else lowered
        try:
            for match in _matches(text, lowered or "", rule):
                value = "value" if "value" in match.re.groupindex and match.start("value") >= 0 else ""
                start, end = match.span(value or ("whole_value" if "whole_value" in match.re.groupindex else 0))
                said = text[start:end]
                if not said.strip() or (rule.checksum is not None and not _holds(rule.checksum, said)):
                    continue
                if not rule.after or _has_word(lowered or "", rule.after, end, end + rule.near):
                    yield Mention(rule.kind, start, end, _normal(rule, said))
        except TimeoutError:
            raise UsageError(
                f"the recogniser of kind '{rule.kind}' took longer than {rule.seconds:g} s on a document; the usual "
                "cause is that one text fits its pattern in many ways, as in (a|a){40}"
            ) from None


def _matches(text: str, lowered: str, rule: PackRule) -> Iterator[regex.Match[str]]:
    """Places that look like a value of a rule, none overlapping."""
    if rule.before:
        done = 0
        for at in sorted(_ends_of_words(lowered, rule.before)):
            match = rule.behind_word.match(text, at, timeout=rule.seconds)
            if match and match.start("whole_value") >= done:
                done = match.end("whole_value")
                yield match
    elif rule.starts:
        places = sorted(at for start in rule.starts for at in _each(text, start))
        done = 0
        for at in places:
            if at >= done and (match := rule.compiled.match(text, at, timeout=rule.seconds)):
                done = match.end()
                yield match
    else:
        yield from rule.compiled.finditer(text, timeout=rule.seconds)


def _each(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _ends_of_words(lowered: str, words: Sequence[str]) -> Iterator[int]:
    """Where words end that stand there as wholes."""
    for word in words:
        for at in _each(lowered, word):
            if not _goes_on(lowered, at - 1, at) and not _goes_on(lowered, at + len(word) - 1, at + len(word)):
                yield at + len(word)


def _has_word(lowered: str, words: Sequence[str], start: int, end: int) -> bool:
    part = lowered[start : end + 1]
    return any(True for _ in _ends_of_words(part, words))


_BESIDE = regex.compile(rf"[{WORD}]{{2}}")


def _goes_on(text: str, first: int, second: int) -> bool:
    return first >= 0 and _BESIDE.fullmatch(text[first : second + 1]) is not None


def _lower(text: str) -> str:
    """A text in small letters, sign by sign: one becomes one."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(small if len(small := sign.lower()) == 1 else sign for sign in text)
    return lowered


def compact(text: str) -> str:
    """Letters and digits of a value, in capitals."""
    return "".join(filter(str.isalnum, text)).upper()


def _holds(checksum: str, said: str) -> bool:
    value = said if checksum in AS_WRITTEN else compact(said)
    return value.isascii() and CHECKSUMS[checksum](value)


def _normal(rule: PackRule, said: str) -> str:
    if rule.kind == PERSON:
        return person.normal(said)
    if rule.kind == DATE and (parsed := date.parse(said, "")) is not None:
        return parsed[1]
    if rule.checksum is not None or sum(map(str.isdigit, said)) * 2 > len(said):
        return compact(said)
    # Keys are told apart by their case.
    return said if rule.starts else " ".join(said.casefold().split())


def rules_of(texts: Sequence[str]) -> tuple[PackRule, ...]:
    """The recognisers of packs of users, by their texts."""
    return tuple(rule for text in texts for rule in parse(text).rules)


def places(text: str, texts: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where a text says what packs of users know: (start, end, kind), in order."""
    return sorted({(mention.start, mention.end, mention.type) for mention in find(text, rules_of(texts))})
