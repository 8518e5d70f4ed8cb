"""Recognisers as data: what a pack says, and where packs come from.

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
- `words` stand in place of a pattern: words and phrases, in any case; a star is up to fifteen letters.
- `not_in` are phrases in which these words do not count: 'hearing aids' where 'aids' is one.
- `starts` are texts of which the value begins with one, which the pattern follows: known prefixes.
- `before` and `after` are words of which one has to stand before or behind it, in any case, with at most `near`
  characters between (0 to 80; 40 if not said).
- `needs` are texts of which one stands, in any case, wherever the pattern matches or looks: where a text has none of
  them, the pattern is not asked.
- `checksum` is the name of one of `checksums.CHECKSUMS`.
- `shape = true` is for what says less than a recogniser: it is asked of answers, and makes no unit of the context.
- `meaning = true` is for what is sensitive where it is said of a person, see `entities.meaning`; not in packs of users.
- `examples` and `counter_examples` are the recogniser's tests: in an example it finds what stands between « and »,
  in a counter-example nothing. A user's pack is tested where it is read.

Time is linear in the text: a pattern has no quantifier without an upper limit, matches few characters (see `size`), and
is tried a few times at most at each place. That a place may still take long, where one text fits a pattern in many
ways, is what the time limit of `entities.pattern` is for, which holds for packs of users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Final

import regex

from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.registry import added_packs
from leakmeter.errors import UsageError
from leakmeter.text.entities import pattern
from leakmeter.text.entities.packs.rule import PUBLIC, PackRule, rule_of
from leakmeter.text.entities.packs.search import find

_SECRETS: Final = "secrets.toml"
_MOST_CHARACTERS: Final = 1_000_000
_MOST_RECOGNISERS: Final = 500
_MARKED = regex.compile(r"«([^«»]+)»")
_NAME = regex.compile(r"# '([^'\n]*)'\n")


@dataclass(frozen=True, slots=True)
class Pack:
    """The recognisers of one file."""

    name: str
    about: str
    rules: tuple[PackRule, ...]


# --------------------------------------------------------------------------------------------------------- of leakmeter


@cache
def own() -> tuple[Pack, ...]:
    """The packs of leakmeter itself, by name."""
    folder = resources.files(__package__)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(_parsed((folder / name).read_text(encoding="utf-8"), name, seconds=None) for name in names)


@cache
def recognisers() -> tuple[PackRule, ...]:
    """Of leakmeter's packs, those that say what a value is wherever it stands."""
    return tuple(
        rule for pack in own() for rule in pack.rules if not (rule.is_shape or rule.is_meaning or rule.kind == PUBLIC)
    )


@cache
def shapes() -> tuple[PackRule, ...]:
    """Those that say less: they are asked of answers alone."""
    return tuple(rule for pack in own() for rule in pack.rules if rule.is_shape)


@cache
def meanings() -> tuple[PackRule, ...]:
    """Those of what is sensitive by its meaning: they are asked of what scores show to come from the documents."""
    return tuple(rule for pack in own() for rule in pack.rules if rule.is_meaning)


@cache
def public() -> tuple[PackRule, ...]:
    """Those of what is no value."""
    return tuple(rule for pack in own() for rule in pack.rules if rule.kind == PUBLIC)


@cache
def kinds() -> frozenset[str]:
    """What `recognisers` call values."""
    return frozenset(rule.kind for rule in recognisers())


@cache
def secrets() -> frozenset[str]:
    """What recognisers of keys and passwords call them."""
    return frozenset(rule.kind for pack in own() if pack.name == _SECRETS for rule in pack.rules)


# ------------------------------------------------------------------------------------------------ of users and packages


def resolved(files: Sequence[str]) -> tuple[str, ...]:
    """Texts of packs that users name, and of those that other packages bring, so that a run is known by what it read.
    What is a text already stays as it is."""
    texts = [name if "\n" in name else _read(Path(name)) for name in files]
    texts += [text for text in added_packs() if text not in texts]
    for text in texts:
        parse(text)
    return tuple(texts)


def _read(path: Path) -> str:
    # The first line says which file it was, as long as the run is kept.
    return f"# {path.name.replace(chr(39), '')!a}\n{read_text(path, 'pack')}"


@lru_cache(maxsize=32)
def parse(text: str) -> Pack:
    """A pack of a user from its text; `UsageError` with its name and the recogniser for what cannot be used, or is
    refuted by its own examples."""
    named = _NAME.match(text)
    name = named[1] if named else "pack"
    pack = _parsed(text, name, seconds=pattern.SECONDS_AT_MOST)
    for number, rule in enumerate(pack.rules, 1):
        if (why := failure(rule)) is not None:
            raise UsageError(f"pack '{name}', recogniser {number} (kind '{rule.kind}') {why}")
    return pack


def rules_of(texts: Sequence[str]) -> tuple[PackRule, ...]:
    """The recognisers of packs of users, by their texts."""
    return tuple(rule for text in texts for rule in parse(text).rules)


def places(text: str, packs: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where a text says what packs of users know: (start, end, kind), in order."""
    return sorted({(mention.start, mention.end, mention.type) for mention in find(text, rules_of(packs))})


def _parsed(text: str, name: str, *, seconds: float | None) -> Pack:
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(f"pack '{name}' has {len(text):,} characters, and at most {_MOST_CHARACTERS:,} are read")
    content = parsed_toml(text, f"pack '{name}'")
    if unknown := sorted(content.keys() - {"about", "recogniser"}):
        raise UsageError(f"pack '{name}': '{unknown[0][:40]}' is not known; a pack has 'about' and [[recogniser]]")
    entries = content.get("recogniser")
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MOST_RECOGNISERS:
        raise UsageError(f"pack '{name}' needs [[recogniser]], from one to {_MOST_RECOGNISERS} of them")
    about = content.get("about", "")
    if not isinstance(about, str):
        raise UsageError(f"pack '{name}': 'about' has to be a text")
    rules = tuple(rule_of(entry, f"pack '{name}', recogniser {n}", seconds) for n, entry in enumerate(entries, 1))
    return Pack(name, about, rules)


def failure(rule: PackRule) -> str | None:
    """Why a recogniser's own examples refute it, the end of a sentence; None where they do not."""
    for example in rule.examples:
        wanted = [match[1] for match in _MARKED.finditer(example)]
        text = example.replace("«", "").replace("»", "")
        found = [text[mention.start : mention.end] for mention in find(text, [rule])]
        if not wanted:
            return f"has an example in which nothing stands between « and »: {example[:80]!r}"
        if found != wanted:
            return f"finds {', '.join(map(repr, found)) or 'nothing'} in its example {example[:80]!r}"
    for example in rule.counter_examples:
        if found := [example[mention.start : mention.end] for mention in find(example, [rule])]:
            return f"finds {found[0]!r} in its counter-example {example[:80]!r}"
    return None
