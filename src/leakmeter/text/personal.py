"""Personal data of a layout: what is an entity, which tokens say it, and prompts that say another value instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from leakmeter.core.item import EntityTexts
from leakmeter.core.prompt import Prompt
from leakmeter.text.entities.mention import Entity, Recogniser
from leakmeter.text.layout import Layout
from leakmeter.text.spans import Cover, Holders, of_mentions


def of_entities(layout: Layout, *, region: str, patterns: str | None, recognise: Recogniser | None) -> list[Cover]:
    """Each value or person that a context says, all mentions one span; what lies between belongs to none.

    `patterns` are lines 'TYPE = REGEX' of the user, or the name of a file with them.
    """
    from leakmeter.text.entities import find, pattern

    lines = pattern.resolved(patterns)
    own = [] if lines is None else pattern.parse(lines)
    out: list[Cover] = []
    numbers: dict[str, int] = {}
    for entity in find.find(layout.context, layout.document_ranges, region=region, patterns=own, recognise=recognise):
        mentions = {chars: tokens for chars in entity.mentions if (tokens := layout.tokens_touching(chars)) is not None}
        if mentions:
            numbers[entity.type] = numbers.get(entity.type, 0) + 1
            cover = of_mentions(layout, f"{entity.type}{numbers[entity.type]}", "unit", mentions)
            out.append(replace(cover, entity=EntityTexts(entity.type, entity.value, entity.text)))
    return out


def not_entities(values: Iterable[Cover], entities: Sequence[Cover]) -> list[Cover]:
    """The repeated values that are not already, wherever they stand, part of one entity."""
    holders = Holders((part, number) for number, entity in enumerate(entities) for part in entity.chars)
    return [
        value for value in values if not set.intersection(*(set(holders.holding(*mention)) for mention in value.chars))
    ]


def swapped(
    layout: Layout, covers: Sequence[Cover], *, region: str, seed: int, case_id: str, spare: int | None
) -> tuple[list[Cover], Mapping[str, Prompt]]:
    """Spans, of which each entity knows its surrogate, and by its name the prompt that says the surrogate instead,
    tokenised anew.

    Seed, case and entity decide what is drawn. There is no prompt that would grow by more than `spare` tokens; None for
    any number.
    """
    from leakmeter.text.surrogates.entity import surrogate_of

    swapped_covers: list[Cover] = []
    prompts: dict[str, Prompt] = {}
    for cover in covers:
        if cover.entity is None:
            swapped_covers.append(cover)
            continue
        entity = Entity(cover.entity.type, cover.entity.value, cover.entity.text, cover.chars)
        surrogate = surrogate_of(entity, layout.context, region=region, seed=seed, case_id=case_id)
        swapped_covers.append(replace(cover, entity=replace(cover.entity, invented=surrogate.text)))
        prompt = layout.replaced(dict(zip(cover.chars, surrogate.mentions, strict=True)))
        if spare is None or len(prompt.ids) - layout.n_tokens <= spare:
            prompts[cover.name] = prompt
    return swapped_covers, prompts
