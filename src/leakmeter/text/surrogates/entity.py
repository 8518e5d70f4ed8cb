"""Surrogates of entities, in the place of every mention and in the form that it has.

Telephone numbers stay in their country and come from ranges that are kept free for fiction where there are any, e-mail
addresses are in the domains reserved for examples, names are of no particular gender and in the same script.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from leakmeter.text.entities.mention import ADDRESS, DATE, EMAIL, PERSON, PHONE, Entity
from leakmeter.text.escapes import as_meant
from leakmeter.text.surrogates import address, date, email, person, phone
from leakmeter.text.surrogates.draw import scrambled, source, unlike


@dataclass(frozen=True, slots=True)
class Surrogate:
    text: str
    mentions: tuple[str, ...]


def surrogate_of(entity: Entity, context: str, *, region: str, seed: int, case_id: str) -> Surrogate:
    """A surrogate value in the place of each mention of an entity; it says nothing that the context says. Seed, case
    and entity decide what is drawn."""
    texts = [*(as_meant(context, *place) for place in entity.mentions), entity.text]

    def mentions_of(drawn: random.Random) -> Sequence[str]:
        if entity.type == PHONE:
            return phone.in_mentions(texts, entity.value, drawn)
        if entity.type == EMAIL:
            return [email.for_examples(drawn)] * len(texts)
        if entity.type == PERSON:
            return person.in_mentions(texts, entity.value, region, drawn)
        if entity.type == ADDRESS:
            return address.in_mentions(texts, region, drawn)
        if entity.type == DATE:
            return date.in_mentions(texts, region, drawn)
        same = {text.casefold(): scrambled(text, drawn) for text in reversed(texts)}
        return [same[text.casefold()] for text in texts]

    # Old values must not come back by chance, nor another that the context has.
    drawn = source(seed, case_id, entity.type, entity.value, entity.mentions[0])
    *mentions, text = unlike(texts, context, mentions_of, drawn)
    return Surrogate(text, tuple(mentions))
