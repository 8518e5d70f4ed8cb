"""Where a name is from, by the tables of names of Faker's locales, and other names from there.

A model that has read of nobody still finds an Italian's father likelier to be called Virgilio than Mason. What stands
in the place of a name has to be from where it is from. Faker's tables are in the letters of the place; those of
Chinese, Japanese, Korean, Arabic, Persian, Russian, Greek and Hebrew names in Latin letters are in `romanised`. A word
in no table has a place by its letters alone, which is a guess: `all_known` says so.
"""

from __future__ import annotations

import functools
import math
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import regex

from leakmeter.core.folder import module_in
from leakmeter.text.folding import unaccented
from leakmeter.text.surrogates import romanised

Gender = Literal["male", "female", "any"]

UNITED_STATES: Final = "en_US"
_OF_ONE_LANGUAGE: Final = (
    *("en_US en_GB en_IE en_NZ", "it_IT", "es_ES es_MX es_CO es_CL es_AR", "pt_PT pt_BR", "pl_PL", "cs_CZ sk_SK"),
    *("sl_SI hr_HR", "hu_HU", "ro_RO", "tr_TR", "az_AZ", "uz_UZ", "en_IN", "en_PK", "id_ID", "en_TH", "vi_VN", "fr_DZ"),
    *romanised.LOCALES,
    *("en_KE sw", "en_NG", "ha_NG", "ig_NG", "yo_NG", "tw_GH", "zu_ZA", "fi_FI", "et_EE", "lv_LV", "lt_LT"),
    # Last, since these tables have names from everywhere.
    *("fr_FR fr_CA fr_CH fr_BE", "da_DK no_NO sv_SE", "nl_NL nl_BE", "de_DE de_AT de_CH"),
    *("ru_RU bg_BG uk_UA mk_MK", "el_GR", "he_IL", "ar_AA ar_SA ar_PS ar_DZ", "fa_IR", "hi_IN mr_IN ne_NP", "bn_BD"),
    *("gu_IN", "or_IN", "ta_IN", "si_LK", "th_TH", "hy_AM", "ka_GE", "zh_CN zh_TW", "ja_JP", "ko_KR"),
)
"""Locales whose names may stand in for each other's where one has few; of several that fit, the first counts."""
_GROUPS: Final = tuple(tuple(group.split()) for group in _OF_ONE_LANGUAGE)
LOCALES: Final = tuple(locale for group in _GROUPS for locale in group)
_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "male": ("first_names_male",),
    "female": ("first_names_female",),
    "any": ("first_names", "first_names_unisex"),
    "surnames": ("last_names", "last_names_male", "last_names_female", "last_names_unisex", "unisex_last_names",
                 "male_last_names"),
}  # fmt: skip
_MISSING: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (Path(__file__).parent / "names.toml").read_text(encoding="utf-8")
)
"""Of some locales, frequent names that their tables do not have."""
_NAME: Final = regex.compile(r"\p{L}[\p{L}\p{M}]*(?:['’\-]\p{L}[\p{L}\p{M}]*)*")
_NOBODY: Final = frozenset({"Doe"})
"""A placeholder of tables that are made otherwise."""
_PRESENT: Final = 1.0 / 500.0
"""Probability of a name in each table that has it, or what its table says if that is less: how many names a table has
says nothing of how frequent one is."""
_ABSENT: Final = math.log(1e-7)
"""Log-probability of a name that only other tables have."""
_OF_REGION: Final = 10.0
"""How much likelier names of the region's own languages are before anything of the name is known."""
_OF_THE_NAME: Final = 0.5
"""Probability that somebody of a person's surroundings is from where that person is from."""


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of a locale, the most frequent first where that is known."""

    male: tuple[str, ...]
    female: tuple[str, ...]
    any: tuple[str, ...]
    surnames: tuple[str, ...]
    surname_shares: Mapping[str, float]
    is_ranked: bool
    """Whether the order says how frequent first names and surnames are."""

    def given(self, gender: Gender) -> tuple[str, ...]:
        # Some tables do not tell the genders apart.
        return {"male": self.male, "female": self.female, "any": self.any}[gender] or self.any


@functools.cache
def names_of(locale: str) -> _Names:
    male, female, both, last = _in_latin_letters(locale) if locale in romanised.LOCALES else _of_faker(locale)
    merged = Counter(male) + Counter(female)
    weights = [share for shares in (male, female, last) for share in shares.values()]
    return _Names(
        male=_by_share(male),
        female=_by_share(female),
        any=_by_share(merged or both),
        surnames=_by_share(last),
        surname_shares=last,
        is_ranked=bool(male and last) and len(set(weights)) > len(weights) / 4,
    )


def _of_faker(locale: str) -> Iterator[dict[str, float]]:
    from faker.providers import person

    provider = module_in(person, locale).Provider
    for kind, attributes in _TABLES.items():
        yield _shares(provider, attributes) | dict.fromkeys(_MISSING.get(locale, {}).get(kind, "").split(), 1.0)


def _in_latin_letters(locale: str) -> Iterator[dict[str, float]]:
    names = romanised.names_by_kind(locale)
    for kind in _TABLES:
        yield dict.fromkeys(names.get(kind, ()), 1.0)


def _shares(provider: Any, attributes: Iterable[str]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for attribute in attributes:
        table = getattr(provider, attribute, ())
        if isinstance(table, Mapping | tuple | list):
            weights = table if isinstance(table, Mapping) else dict.fromkeys(table, 1.0)
            for name, share in weights.items():
                if _NAME.fullmatch(name) and name not in _NOBODY:
                    shares[name] = shares.get(name, 0.0) + share
    return shares


def _by_share(shares: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(shares, key=lambda name: (-shares[name], name)))


def near(locale: str) -> tuple[str, ...]:
    """The locale, then the others of its language."""
    group = next(group for group in _GROUPS if locale in group)
    return (locale, *(other for other in group if other != locale))


def origin_of(words: Sequence[str], beside: Sequence[str], region: str) -> str:
    """The locale that words of names are most likely from, by Bayes' rule.

    `beside` are the words of another person's name, who is as likely as not to be from the same place. A word in no
    table has the probability of its letters, three at a time. Within a language, the region's table is taken where it
    has the same words.
    """
    of_words = script_of("".join((*words, *beside)))
    locales = [locale for locale in LOCALES if script(locale) == of_words] or [UNITED_STATES]
    own, other = (_log_likelihoods(tuple(some), tuple(locales)) for some in (words, beside))
    usual = [_OF_REGION if locale.endswith(f"_{region}") else 1.0 for locale in locales]
    weights = [share * math.exp(nats - max(other)) for share, nats in zip(usual, other, strict=True)]
    scores = {}
    for locale, share, weight, nats in zip(locales, usual, weights, own, strict=True):
        prior = _OF_THE_NAME * weight / sum(weights) + (1.0 - _OF_THE_NAME) * share / sum(usual)
        scores[locale] = nats + math.log(prior)
    best = max(scores, key=scores.__getitem__)
    # Tables of one language overlap, and the longer one is no less likely for it.
    known = [word for word in (*words, *beside) if _has(best, word)]
    return next(
        (other for other in near(best) if other.endswith(f"_{region}") and all(_has(other, word) for word in known)),
        best,
    )


def all_known(words: Iterable[str], locale: str) -> bool:
    """Whether tables of the locale, or of its language, have these words; an initial may be anybody's."""
    return all(any(_has(other, word) for other in near(locale)) for word in words if len(unaccented(word)) > 1)


def _has(locale: str, word: str) -> bool:
    return is_given(word, locale) or is_last(word, locale)


def is_given(word: str, locale: str) -> bool:
    return unaccented(word) in _folded(locale)[0]


def is_last(word: str, locale: str) -> bool:
    return unaccented(word) in _folded(locale)[1]


@functools.cache
def _known(locale: str) -> dict[str, float]:
    """Log-probabilities of a locale's names."""
    names = names_of(locale)
    whole = sum(names.surname_shares.values())
    known = dict.fromkeys(map(unaccented, names.any), math.log(_PRESENT))
    for name, share in names.surname_shares.items():
        known.setdefault(unaccented(name), math.log(min(_PRESENT, share / whole) if names.is_ranked else _PRESENT))
    return known


@functools.cache
def _folded(locale: str) -> tuple[frozenset[str], frozenset[str]]:
    names = names_of(locale)
    return frozenset(map(unaccented, names.any)), frozenset(map(unaccented, names.surnames))


@functools.lru_cache(maxsize=4_096)
def _log_likelihoods(words: tuple[str, ...], locales: tuple[str, ...]) -> list[float]:
    total = [0.0] * len(locales)
    for word in words:
        key = unaccented(word)
        if len(key) < 2:
            # An initial may be anybody's.
            continue
        known = [_known(locale).get(key) for locale in locales]
        for at, locale in enumerate(locales):
            nats = known[at]
            if not any(known):
                nats = _of_letters(key, locale)
            total[at] += _ABSENT if nats is None else nats
    return total


def _of_letters(key: str, locale: str) -> float:
    """Log-probability of a word by its letters, each after the two before it, by additive smoothing. Half of it,
    since the letters of a name are no independent evidence."""
    threes, twos = _letters(locale)
    padded = f"^^{key}$"
    return 0.5 * sum(
        math.log((threes[padded[i - 2 : i + 1]] + 0.05) / (twos[padded[i - 2 : i]] + 0.05 * 40))
        for i in range(2, len(padded))
    )


@functools.cache
def _letters(locale: str) -> tuple[Counter[str], Counter[str]]:
    threes: Counter[str] = Counter()
    twos: Counter[str] = Counter()
    for key in frozenset().union(*_folded(locale)):
        padded = f"^^{key}$"
        for i in range(2, len(padded)):
            threes[padded[i - 2 : i + 1]] += 1
            twos[padded[i - 2 : i]] += 1
    return threes, twos


@functools.cache
def script(locale: str) -> str:
    return script_of(names_of(locale).any[0])


def script_of(text: str) -> str:
    """By the first word of the first letter's Unicode name; the three of Japanese and Chinese are one."""
    for char in text:
        if char.isalpha():
            script = unicodedata.name(char, "").split(" ")[0]
            return "CJK" if script in ("HIRAGANA", "KATAKANA") else script
    return "LATIN"
