"""A context with pieces cut, or with surrogates for the personal data in them; what that does, as blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from leakmeter import DecodeResult, InfluenceResult
from leakmeter.core.item import Prepared
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.influence import context as wording
from leakmeter.instruments.influence import disclosure_report
from leakmeter.instruments.influence.disclosures import Disclosure
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.text.entities.find import find
from leakmeter.text.entities.values import SEARCHED
from leakmeter.text.layout import without_characters
from leakmeter.text.surrogates.entity import surrogate_of
from leakmeter.text.units import merged

_REGION: Final = "US"


@dataclass(frozen=True, slots=True)
class Change:
    """Characters of the context, and what stands in their place."""

    start: int
    end: int
    instead: str
    """Empty where they are cut."""


@dataclass(frozen=True, slots=True)
class Edit:
    context: str
    texts: Mapping[str, str]
    """What is left of each document, by name."""
    changes: tuple[Change, ...]
    """In order, apart."""


def edited(prepared: Prepared, cut: Sequence[str], swap: Sequence[str]) -> Edit:
    """The context without some pieces, and with surrogates for the personal data in others."""
    spans = {span.name: span.ranges for span in prepared.item.spans}
    for name in (*cut, *swap):
        if name not in spans:
            raise UnknownNameError("piece", name[:40], spans)
    if not cut and not swap:
        raise UsageError("choose a piece to cut, or to put surrogates in")
    removed = [chars for name in cut for chars in spans[name]]
    changes = [Change(start, end, "") for start, end in merged(removed)]
    places = merged(chars for name in swap for chars in spans[name])
    changes += (
        [change for change in _surrogates(prepared.context, places) if not _meets(change, changes)] if places else []
    )
    changes.sort(key=lambda change: change.start)
    if not any(change.instead for change in changes) and swap:
        raise UsageError("it contains no personal data that a surrogate could replace; cut it instead")
    texts = {name: _edited_text(prepared.context, changes, start, end) for name, start, end in prepared.documents}
    return Edit(prepared.context, texts, tuple(changes))


def blocks(
    edit: Edit, before_nats: float, after: InfluenceResult, answer: DecodeResult, searched: InfluenceResult | None
) -> Iterator[b.Block]:
    """What a new answer gives away of what is left, as it was `searched`, None of an empty one; and the influence of
    what is left on the same answer, beside that of everything."""
    left, whole = scale.nats_text(after.whole_nats), scale.nats_text(before_nats)
    floor = scale.nats_text(after.noise_floor_nats)
    swapped = any(change.instead for change in edit.changes)
    subject = "With surrogates in place, the context" if swapped else "What is left of the context"
    if searched is not None:
        yield _verdict(edit, searched)
    yield b.Headline(f"{subject} influences the same answer by {left}\u00a0nats; as it was typed, by {whole}.")
    yield b.Text(
        f"{wording.posterior_sentence(after, 'whole_', 'this context' if swapped else 'what is left')} "
        f"The noise floor is {floor}\u00a0nats."
    )
    yield b.Beside(
        [
            _tokens(
                "The same answer, each token coloured by the influence of the remaining context",
                zip(after.response.tokens, after.whole_per_token_nats, strict=True),
                after.noise_floor_per_token_nats,
            )
        ],
        list(_new_answer(edit, answer, searched)),
    )
    yield b.ShadedText((b.Passage(list(_diff(edit))),), heading="Context: removed text is struck out")


def _verdict(edit: Edit, searched: InfluenceResult) -> b.Headline:
    told = [row for row in disclosure_report.personal(searched) if not _is_surrogate(edit, row)]
    leaks = [row for row in told if row.allowed != "yes"]
    if leaks:
        kinds = disclosure_report.kinds_in_sentence(leaks)
        return b.Headline(f"The new answer discloses {kinds}: do not ship.", verdict="bad")
    why = wording.doubt(searched)
    if why is not None:
        return b.Headline(
            f"Whether the new answer discloses any personal or secret data cannot be said: {why}. None was found."
        )
    quiet = "The new answer does not disclose any recognisable personal or secret data."
    if told:
        quiet = "What the new answer discloses of personal or secret data, its recipient may know."
    return b.Headline(quiet, verdict="" if searched.disclosed else "good")


def _is_surrogate(edit: Edit, disclosure: Disclosure) -> bool:
    """Whether an answer says an invented value that was put in, and that nobody had written."""
    said = disclosure.text.casefold()
    is_put_in = any(change.instead and said in change.instead.casefold() for change in edit.changes)
    return is_put_in and said not in edit.context.casefold()


def _new_answer(edit: Edit, answer: DecodeResult, searched: InfluenceResult | None) -> Iterator[b.Block]:
    """The answer with marks on what it gives away, and a list of that."""
    disclosed = []
    for row in () if searched is None else searched.disclosed:
        span = disclosure_report.disclosed_span(row, {}, several=False, origin="what is left of the context")
        if _is_surrogate(edit, row):
            span = replace(span, kind="surrogate", is_sensitive=False)
        disclosed.append(span)
    yield _tokens(
        f"A new answer, with its own loss of {scale.nats_text(answer.ledger.whole_nats)} nats",
        zip(answer.response.tokens, answer.ledger.per_token.loss_nats, strict=True),
        disclosed=disclosed,
    )
    if disclosed:
        yield b.Disclosures(disclosed, "What the new answer gives away")
    yield b.Text(f"Searched: {SEARCHED}." if searched is not None else "The new answer is empty.", "soft")


def _tokens(
    heading: str, tokens: Iterable[tuple[str, float]], floor_nats: float = 0.0, disclosed: Sequence[b.Disclosed] = ()
) -> b.ShadedText:
    segments = [b.Segment(b.Untrusted(text), nats, note=scale.nats_cell(nats)) for text, nats in tokens]
    passages = (b.Passage(segments),)
    return b.ShadedText(passages, heading=heading, floor_nats=floor_nats, style="tokens", disclosed=disclosed)


def _diff(edit: Edit) -> Iterator[b.Segment]:
    cursor = 0
    for change in edit.changes:
        yield b.Segment(b.Untrusted(edit.context[cursor : change.start]))
        yield b.Segment(b.Untrusted(edit.context[change.start : change.end]), struck=True)
        if change.instead:
            yield b.Segment(b.Untrusted(change.instead), nats=0.0, note="surrogate", values=(0,))
        cursor = change.end
    yield b.Segment(b.Untrusted(edit.context[cursor:]))


def _surrogates(context: str, within: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """Surrogates of the values and people that are said in some places, there."""
    for entity in find(context, [(0, len(context))], region=_REGION):
        are_within = [any(low <= start and end <= high for low, high in within) for start, end in entity.mentions]
        if any(are_within):
            surrogate = surrogate_of(entity, context, region=_REGION, seed=0, case_id="")
            for (start, end), instead, is_within in zip(entity.mentions, surrogate.mentions, are_within, strict=True):
                if is_within:
                    yield Change(start, end, instead)


def _edited_text(context: str, changes: Sequence[Change], start: int, end: int) -> str:
    """Characters [start, end) with the changes: surrogates put in first, then what is cut taken out with the spaces
    before it."""
    text, cursor, removed = "", start, []
    for change in changes:
        first, last = max(change.start, start), min(change.end, end)
        if first >= last:
            continue
        text += context[cursor:first]
        if change.instead:
            text += change.instead
        else:
            removed.append((len(text), len(text) + last - first))
            text += context[first:last]
        cursor = last
    return without_characters(text + context[cursor:end], removed)


def _meets(change: Change, others: Sequence[Change]) -> bool:
    return any(change.start < other.end and other.start < change.end for other in others)
