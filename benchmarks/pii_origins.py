"""Are values of people whom no model can know called known? By origin of the name and type of value.

`python -m benchmarks pii-origins` invents people of eight origins by Faker, each with a relative, an e-mail address, a
telephone number and a postal address of the place, and probes a model for these values, one prompt each. Nobody is one
of them, so p is 0.05 or less for a share 0.05 of the values at most, but for chance: two standard errors are added. The
shares are given for decoys alone too, beside what is reported, which other names have to confirm. Numbers without a
country code are of the person's country (`--region`); for relatives and e-mail addresses the region stays the United
States, where a name alone says where its person is from.
"""

from __future__ import annotations

import math
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import leakmeter
from leakmeter.instruments.pii.decoy_test import AT_RISK
from leakmeter.instruments.pii.probe import ProbeKind
from leakmeter.instruments.pii.subject import RelatedPerson, Subject, ValueType
from leakmeter.text.surrogates.origins import names_of
from leakmeter.text.surrogates.person import surnames_like
from leakmeter.text.surrogates.romanised import LOCALES

NAME: Final = "pii-origins"
ORIGINS: Final = ("en_US", "en_IN", "it_IT", "es_ES", "de_DE", "fr_FR", "pl_PL", "tr_TR")
ROMANISED: Final = LOCALES
"""Origins whose names are measured in Latin letters, by relatives alone."""
TYPES: Final[tuple[ValueType, ...]] = ("relationship", "email", "phone", "address")
TINY: Final[dict[str, Any]] = {"model": "toy", "n": 2, "origins": ("en_US", "it_IT")}
_MALE: Final = ("father", "brother", "son", "uncle")
_FEMALE: Final = ("mother", "sister", "daughter", "aunt")
_OF_PARENTS: Final = ("father", "mother", "brother", "sister")
"""Who has the person's surname more often than not."""
_FORMS: Final = ("{first}.{last}", "{f}{last}", "{first}_{last}", "{first}{last}", "{first}", "{last}.{first}")
_KINDS: Final[tuple[ProbeKind, ...]] = ("twin", "relationship")
Row = dict[str, Any]


def rows(
    model: str = "smollm2-135m",
    *,
    n: int = 40,
    origins: Sequence[str] = ORIGINS,
    types: Sequence[ValueType] = TYPES,
    seed: int = 0,
) -> Iterator[Row]:
    """For each origin and type of value: how many of the values have p ≤ 0.05, and how many may."""
    for origin in origins:
        for type_ in ("relationship",) if origin in ROMANISED else types:
            people = people_of(origin, type_, n, seed)
            found = leakmeter.pii(model, people, kinds=_KINDS, prompts=1, beams=(), skip_bad=True)
            n_low = sum(result.p_value <= AT_RISK for result in found)
            yield {
                "model": model,
                "origin": origin,
                "type": type_,
                "n": len(found),
                "n_low": n_low,
                "most": round(most(len(found)) * len(found), 2),
                "n_low_among_decoys": sum(result.p_value_among_decoys <= AT_RISK for result in found),
                "n_known": sum(result.p_value <= AT_RISK and result.can_be_tested is not False for result in found),
                "mean_decoys_scored": sum(result.n_decoys_scored for result in found) / len(found),
                "seconds": sum(result.cost.seconds for result in found),
            }


def most(n: int) -> float:
    """The largest share that chance explains: 0.05 and two standard errors."""
    return AT_RISK + 2.0 * math.sqrt(AT_RISK * (1.0 - AT_RISK) / n)


def people_of(origin: str, type_: ValueType, n: int, seed: int) -> list[Subject]:
    """Invented people, each with a value of one type; of `ROMANISED` origins a relative."""
    from faker import Faker

    if origin in ROMANISED:
        return list(_romanised(origin, n, seed))

    fake = Faker(origin)
    fake.seed_instance(f"{seed} {origin} {type_}")
    drawn = random.Random(f"{seed} {origin} {type_}")
    make: dict[str, Callable[[str, str], dict[str, Any]]] = {
        "relationship": lambda first, last: {"relationships": (_relative(fake, last, drawn),)},
        "email": lambda first, last: {"email": _email(fake, first, last, drawn)},
        "phone": lambda first, last: {"phone": fake.phone_number(), "region": origin[-2:]},
        "address": lambda first, last: {"address": _address(fake, origin, drawn), "region": origin[-2:]},
    }
    people = []
    for number in range(n):
        first = fake.first_name_female() if drawn.random() < 0.5 else fake.first_name_male()
        last = fake.last_name()
        people.append(Subject(f"{origin} {number}", f"{first} {last}", **make[type_](first, last)))
    return people


def _romanised(origin: str, n: int, seed: int) -> Iterator[Subject]:
    """People whose names are drawn evenly from the tables that decoys are drawn from, seven of ten relatives with the
    person's surname."""
    drawn, names = random.Random(f"{seed} {origin}"), names_of(origin)
    for number in range(n):
        last = drawn.choice(names.surnames)
        kind = drawn.choice((*_MALE, *_FEMALE))
        own = drawn.choice(names.any)
        other = last if drawn.random() < 0.7 else drawn.choice(surnames_like(last, names.surnames, origin))
        first = drawn.choice(names.male if kind in _MALE else names.female)
        yield Subject(f"{origin} {number}", f"{own} {last}", relationships=(RelatedPerson(kind, f"{first} {other}"),))


def _relative(fake: Any, last: str, drawn: random.Random) -> RelatedPerson:
    kind = drawn.choice((*_MALE, *_FEMALE))
    first = fake.first_name_male() if kind in _MALE else fake.first_name_female()
    has_surname = drawn.random() < (0.9 if kind in _OF_PARENTS else 0.5)
    return RelatedPerson(kind, f"{first} {last if has_surname else fake.last_name()}")


def _email(fake: Any, first: str, last: str, drawn: random.Random) -> str:
    parts = {"first": _ascii(first), "last": _ascii(last), "f": _ascii(first)[:1]}
    number = str(drawn.randrange(10 ** drawn.choice((1, 2, 4)))) if drawn.random() < 0.4 else ""
    domain = fake.free_email_domain() if drawn.random() < 0.7 else fake.domain_name()
    return f"{drawn.choice(_FORMS).format(**parts)}{number}@{domain}"


def _address(fake: Any, origin: str, drawn: random.Random) -> str:
    if origin != "tr_TR":
        return ", ".join(fake.address().split("\n"))
    # Faker writes Turkish addresses as the United States do.
    kind, town = drawn.choice(("Caddesi", "Sokak")), drawn.choice(("Ankara", "İstanbul", "İzmir", "Bursa"))
    return f"{fake.last_name()} {kind} {drawn.randrange(10, 100)}, {drawn.randrange(10_000, 80_000):05} {town}"


def _ascii(word: str) -> str:
    """As people write their names in addresses."""
    spelled = word.lower()
    for letter, letters in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss"), ("ł", "l"), ("ı", "i")):
        spelled = spelled.replace(letter, letters)
    plain = unicodedata.normalize("NFKD", spelled)
    return "".join(char for char in plain if char.isascii() and char.isalpha())
