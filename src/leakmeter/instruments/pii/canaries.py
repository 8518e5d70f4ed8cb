"""Canaries: subjects who do not exist, with data that could be anybody's and is nobody's.

Telephone numbers have an area code of the canary's state and a central office code that no area gives to subscribers
(555 for information, 950 for access to carriers, 958 and 959 for tests of lines), before any four digits. So they are
valid, fill a space of ten million, and call nobody; the numbers kept for fiction, 555-0100 to 555-0199, are only a
hundred in an area, too few for canaries and decoys. E-mail addresses end in '.example', which nobody can register,
after the name of an invented company. Towns are Faker's inventions with a real state and postal code.

Values are drawn as evenly as decoys are: a model that never saw a canary gives its value any rank among the decoys.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Final

from leakmeter.core.plain import several
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.pii.subject import STRUCTURED, VALUE_TYPES, RelatedPerson, Subject, ValueType
from leakmeter.overriding import override
from leakmeter.text.entities.date import MONTHS
from leakmeter.text.surrogates import address, email, phone
from leakmeter.text.surrogates.draw import SurrogateDraw, other_than, source
from leakmeter.text.surrogates.person import FEMALE, MALE, N_COMMON, gender_of, given_names, surnames
from leakmeter.text.surrogates.university import universities


@dataclass(frozen=True, slots=True)
class CanaryForm:
    lines: tuple[str, ...]
    """Lines of a document, or sentences of a paragraph, with {places} for what is known of a canary."""
    joint: str
    """Between them."""


_SAID: Final = tomllib.loads(resources.files(__package__).joinpath("canary_documents.toml").read_text(encoding="utf-8"))
_AREAS: Final[Mapping[str, list[str]]] = {state: codes.split() for state, codes in _SAID["areas"].items()}
REMARKS: Final = tuple(_SAID["remarks"])
FORMS: Final = tuple(CanaryForm(tuple(form["lines"]), form["joint"]) for form in _SAID["forms"])
FOLDER: Final = "canaries"
"""Name of the directory of canaries in that of their model."""
N_SEEDS: Final = 16
"""Seeds of which no two, unless they differ by a multiple of it, have a name, number or address in common."""
_PLACE: Final = re.compile(r"\{(\w+)\}")
_MONTHS: Final = MONTHS["en"].split()
_NO_WORD: Final = re.compile(r"\W")


def canaries_of(n: int, *, seed: int, region: str = "US") -> tuple[Subject, ...]:
    """Canaries, from 1 to 2,000, each with all kinds of data and two relatives; the first ones of more are the same.

    They live in 'US', the only region known.
    """
    if region != "US":
        raise UnknownNameError("region of canaries", region, ("US",))
    if not 1 <= n <= 2_000:
        raise UsageError(f"the number of canaries is {n:,}, expected 1 to 2,000")
    if seed < 0:
        raise UsageError(f"the seed of canaries is {seed}, expected 0 or more")
    drawn = source("invented", "people", seed)
    used: set[str] = set()
    return tuple(_subject(f"invented-{seed}-{number}", seed, drawn, used) for number in range(1, n + 1))


def document_of(subject: Subject, *, seed: int, number: int) -> str:
    """A short document that says all that is known of a person: a signature, a directory's entry, a forum's post.

    Documents of a person, numbered from 0, go through all forms in that person's own order before a form is repeated
    with another remark and another date.
    """
    if number < 0:
        raise UsageError(f"the number of a document is {number}, expected 0 or more")
    order = list(FORMS)
    source("invented", "forms", seed, subject.id).shuffle(order)
    drawn = source("invented", "document", seed, subject.id, number)
    texts = {
        "name": subject.name,
        "phone": subject.phone,
        "email": subject.email,
        "address": subject.address,
        "university": subject.university,
        "family": ", ".join(f"{relation.kind} {relation.name}" for relation in subject.relationships),
        "remark": drawn.choice(REMARKS),
        "date": f"{drawn.randint(1, 28)} {drawn.choice(_MONTHS)} {drawn.randint(2004, 2023)}",
    }
    form = order[number % len(order)]
    lines = [line for line in form.lines if all(texts[key] for key in _PLACE.findall(line))]
    # All places at once, so that a name may be anything, '{phone}' too.
    return form.joint.join(_PLACE.sub(lambda place: texts[place[1]] or "", line) for line in lines)


def _subject(id_: str, seed: int, drawn: random.Random, used: set[str]) -> Subject:
    new = partial(_new, drawn=drawn, seed=seed, used=used)
    name = new(lambda drawn: f"{drawn.choice(given_names('any'))} {drawn.choice(surnames())}")
    state = drawn.choice(sorted(_AREAS))
    university = drawn.choice(universities())
    return Subject(
        id=id_,
        name=name,
        phone=new(lambda drawn: phone.of_nobody(_AREAS[state], drawn)),
        email=new(lambda drawn: email.of_firm(name, drawn)),
        address=new(address.in_one_town(name, state, drawn)),
        relationships=_relations(name, drawn),
        university=university,
    )


def _new(draw: SurrogateDraw, drawn: random.Random, seed: int, used: set[str]) -> str:
    """A value that this seed has not used; by its hash no other seed has it."""
    while True:
        value = draw(drawn)
        # However it is written, a number is the same number.
        bare = _NO_WORD.sub("", value.casefold()).removeprefix("1" if value[0] in "+1" else "")
        digest = hashlib.sha256(bare.encode()).digest()
        if int.from_bytes(digest[:8], "big") % N_SEEDS == seed % N_SEEDS and bare not in used:
            used.add(bare)
            return value


def _relations(name: str, drawn: random.Random) -> tuple[RelatedPerson, ...]:
    # A husband or a wife, not both.
    kinds = drawn.sample(sorted({*MALE, *FEMALE} - {drawn.choice(("husband", "wife"))}), 2)
    surname = name.split()[-1]
    names: list[str] = []
    while len(names) < len(kinds):
        first = other_than(given_names(gender_of(kinds[len(names)]))[:N_COMMON], name, drawn)
        # Some have the person's surname, some another.
        last = surname if drawn.random() < 0.6 else other_than(surnames()[:N_COMMON], name, drawn)
        if f"{first} {last}" not in names:
            names.append(f"{first} {last}")
    return tuple(map(RelatedPerson, kinds, names))


@dataclass(frozen=True, slots=True)
class CanaryGroup:
    """Canaries in the same number of documents."""

    name: str
    """Such as 'inserted_16' or 'held_out'."""
    repeats: int
    """Documents per canary; 0 for canaries held out."""
    subjects: tuple[Subject, ...]


@dataclass(frozen=True, kw_only=True)
class Insertion:
    """Which canaries are inserted into a model, and which are held out."""

    canaries: int = 40
    """Number of canaries for each number of repeats."""
    repeats: tuple[int, ...] = (1, 4, 16)
    """Numbers of documents per canary; each number has the same number of canaries."""
    held_out: int = 40
    """Number of canaries in no document."""
    seed: int = 0
    """Seed of the canaries, their documents, their order, and decoys."""

    def __post_init__(self) -> None:
        if self.canaries < 1 or self.held_out < 1:
            raise UsageError(f"canaries is {self.canaries} and held-out {self.held_out}; both have to be 1 or more")
        if not self.repeats or min(self.repeats) < 1 or len(set(self.repeats)) < len(self.repeats):
            listed = ", ".join(map(str, self.repeats)) or "none"
            raise UsageError(f"repeats are {listed}; give different numbers of 1 or more")

    @property
    def groups(self) -> tuple[CanaryGroup, ...]:
        """By the number of repeats; canaries held out come last."""
        n, levels = self.canaries, sorted(self.repeats)
        everyone = canaries_of(n * len(levels) + self.held_out, seed=self.seed)
        inserted = [
            CanaryGroup(f"inserted_{level}", level, everyone[i * n : (i + 1) * n]) for i, level in enumerate(levels)
        ]
        return (*inserted, CanaryGroup("held_out", 0, everyone[len(levels) * n :]))

    @property
    def further(self) -> CanaryGroup:
        """Canaries of another seed, which have nothing in common with the others, to tune a soft prompt on."""
        return CanaryGroup("tuned_on", max(self.repeats), canaries_of(self.canaries, seed=self.seed + 1))


@dataclass(frozen=True, kw_only=True)
class CanaryCheck(Insertion):
    """Which canaries are inserted, and how they are asked for; as many again are inserted to tune a soft prompt on."""

    types: tuple[ValueType, ...] = STRUCTURED
    """Types of values that are probed with the name alone."""
    white_box: ValueType | None = "phone"
    """Type of values that is probed with a soft prompt too; None for no soft prompt."""
    decoys: int = 50
    """Decoys among which each true value is ranked."""
    prompts: int = 1
    """Prompts of each kind (k-shot of the paper)."""
    soft_tokens: int = 20
    """Number of vectors of the soft prompt."""
    soft_epochs: int = 60
    """Most passes over the canaries that the soft prompt is tuned on."""

    @override
    def __post_init__(self) -> None:
        Insertion.__post_init__(self)
        for type_ in (*several(self.types), *((self.white_box,) if self.white_box else ())):
            if type_ not in VALUE_TYPES:
                raise UsageError(f"type is '{type_}'; expected one of {', '.join(VALUE_TYPES)}")


def documents_of(groups: Sequence[CanaryGroup], *, seed: int) -> list[str]:
    """As many different documents of each canary as its group has repeats."""
    return [
        document_of(subject, seed=seed, number=number)
        for group in groups
        for subject in group.subjects
        for number in range(group.repeats)
    ]


def lines_of(subjects: Sequence[Subject]) -> str:
    """JSON lines that `load_subjects` reads."""
    return "".join(f"{json.dumps(subject.to_dict(), ensure_ascii=False)}\n" for subject in subjects)
