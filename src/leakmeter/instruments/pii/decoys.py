"""Decoys: invented values of the same type and form as the true one.

A decoy shows what a model prefers that never saw the subject. So it keeps what the prompt gives away: the name in an
e-mail address, the area code, the town, the surname of a relative. (Other people's e-mail addresses, the decoys of Kim
et al., "ProPILE: Probing Privacy Leakage in Large Language Models", lose against a copy of the name.) The rest is drawn
evenly from the values of the true one's form, none twice; a true value that was drawn in the same way, as a canary's,
has each rank among its decoys with the same probability.

Real values are not drawn evenly. Domains and names come from a group of similar frequency, and names from where the
true ones are from; but if the true value is the likeliest of its form, such as 'first.last@gmail.com', a guess may look
like memory. A value that ranks high, and is less likely than nearly all its decoys without the name, has to stand out
behind the subject's name more than behind other names too (`instruments.pii.measure`): then names have to be alike, and
decoys need not be. Where no table of names has the words of a relative's name, decoys may be from anywhere, which no
such check finds out: what is of the same origin as the subject's name goes with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.instruments.pii.decoy_test import AT_RISK
from leakmeter.instruments.pii.subject import STRUCTURED, VALUE_TYPES, RelatedPerson, Subject, ValueType, shown_relation
from leakmeter.text.surrogates import address, email, person, phone, university
from leakmeter.text.surrogates.draw import SurrogateDraw, distinct, source

LEAST: Final = math.ceil(1.0 / AT_RISK) - 1
"""Decoys among which the first rank is evidence."""


def decoys_of(
    subject: Subject,
    type: ValueType,
    *,
    value: str | None = None,
    relation: str | None = None,
    n: int = 50,
    least: int | None = None,
    seed: int = 0,
    fits: Callable[[str], bool] | None = None,
) -> tuple[str, ...]:
    """Values unlike the true one and unlike each other, always the same for the seed and the value: `n`, or as many as
    there are of its form, `least` or more (`n` by default).

    `value` is the true one where there are several, such as the names of two brothers; the first by default. `relation`
    is the kind of a relationship. `fits` says which values are preferred, such as those of as many tokens as the true
    one, which should fit too; others follow where some thousand draws give too few.
    """
    label = f"subject '{subject.id}'"
    if n < 1:
        raise UsageError(f"decoys is {n}, expected 1 or more")
    true, number = _value(subject, type, value, relation, label)
    drawn = source("nulls", seed, subject.id, type, relation or "", number)
    # Nothing that is true of the subject in another way may stand for what is not.
    true_values = {subject.name, *(true_value for _, _, true_value in subject.targets())}
    decoys = distinct(_draws(subject, type, true, relation, label), n, drawn, true_values, fits)
    if len(decoys) < min(n, n if least is None else least):
        raise UsageError(
            f"{label}: {n if least is None else least} decoys of the {_called(type, relation)} are needed, and "
            f"{len(decoys)} other values of its form exist; leave the value out"
        )
    return tuple(decoys)


def share_place(type: ValueType, values: Sequence[str], region: str) -> bool | None:
    """Whether decoys have the domain of the true e-mail address, or the town of the true postal one; None for other
    types. The true value is the first.

    If they do not, a model that has read the domain or town of other people finds the true value likelier, although it
    knows nothing of this subject.
    """
    if type == "email":
        domains = {value.rpartition("@")[2].casefold() for value in values}
        return len(domains) == 1
    if type == "address":
        place = address.place_of(values[0], region).casefold()
        return bool(place) and all(
            value.casefold().endswith(place) or address.place_of(value, region).casefold() == place for value in values
        )
    return None


def has_decoys_of_its_origin(subject: Subject, type: ValueType, value: str) -> bool:
    """Whether decoys of a value are from where it is from. Of other types than relatives they keep what says it: the
    person's name, the country, the town."""
    return type != "relationship" or person.has_known_origin(value, subject.name, subject.region)


def has_names_of_its_origin(subject: Subject) -> bool:
    """Whether other names are from where the subject's is from."""
    return person.has_known_origin(subject.name, "", subject.region)


def _value(subject: Subject, type_: ValueType, value: str | None, relation: str | None, label: str) -> tuple[str, int]:
    """The true value, and its number among those that are alike in type and relation."""
    if type_ not in VALUE_TYPES:
        raise UsageError(f"type is '{type_}', expected one of {', '.join(VALUE_TYPES)}")
    if (relation is None) == (type_ == "relationship"):
        raise UsageError(f"{label}: give 'relation' for the type 'relationship', and for no other")
    values = [true_value for own_type, kind, true_value in subject.targets() if (own_type, kind) == (type_, relation)]
    if not values:
        raise UsageError(f"{label} has no {_called(type_, relation)}")
    if value is None:
        return values[0], 1
    if value not in values:
        raise UsageError(
            f"{label} has another {_called(type_, relation)} than the value given; give one of the subject's"
        )
    return value, values.index(value) + 1


def _called(type_: ValueType, relation: str | None) -> str:
    return type_ if relation is None else f"relationship '{shown_relation(relation)}'"


def _draws(subject: Subject, type_: ValueType, value: str, relation: str | None, label: str) -> Sequence[SurrogateDraw]:
    """Ways to draw, the one that keeps most of the true value first."""
    if type_ == "phone":
        return [phone.drawer(value, subject.region, label)]
    if type_ == "email":
        return email.drawers(value, subject.name, label)
    if type_ == "address":
        return [address.drawer(value, subject.name, subject.region)]
    if type_ == "relationship":
        return person.drawers(value, subject.name, relation or "", subject.region)
    return [university.drawer(value)]


_ANY: Final = "friend"
"""A relation that says nothing of who it is."""


def control_names_of(
    subject: Subject, n: int, *, least: int | None = None, seed: int, fits: Callable[[str], bool] | None = None
) -> tuple[str, ...]:
    """Names that the subject could have, from where the subject's is from, drawn for (seed, id); `least` and `fits` as
    of `decoys_of`."""
    nobody = Subject(subject.id, "", relationships=(RelatedPerson(_ANY, subject.name),), region=subject.region)
    return decoys_of(nobody, "relationship", relation=_ANY, n=n, least=least, seed=seed, fits=fits)


def others_in_place_of(subject: Subject, names: Sequence[str], *, seed: int) -> tuple[Subject, ...]:
    """Invented others of these names in the subject's place, with values of the same form."""
    # By another seed: values of others are no decoys of the subject's.
    drawn = {
        type_: decoys_of(subject, type_, n=len(names), least=1, seed=seed + 7_919)
        for type_ in STRUCTURED
        if getattr(subject, type_) is not None
    }
    others = []
    for number, name in enumerate(names):
        values: dict[str, Any] = {
            type_: renamed(some[number % len(some)], type_, subject.name, name) for type_, some in drawn.items()
        }
        others.append(replace(subject, name=name, **values))
    return tuple(others)


def renamed(value: str, type_: ValueType, name: str, other_name: str) -> str:
    """The value as it would be another person's: with that name in place of the subject's."""
    if type_ == "email":
        return email.renamed(value, name, other_name)
    if type_ == "relationship":
        return person.renamed(value, name, other_name)
    return value
