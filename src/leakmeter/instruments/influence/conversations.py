"""What reports show of conversations: their turns in order, each emission coloured, what was read one click away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from leakmeter.core.plain import counted
from leakmeter.instruments.influence import disclosure_report
from leakmeter.instruments.influence.context import coloured_tokens
from leakmeter.instruments.influence.result import InfluenceResult, SaidBefore
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text

_SHOWN: Final = 200
"""Conversations of a page."""
_CALL: Final = "call"
_EMPTY: Final = ("", "{}", "[]", "null", '""')
"""Arguments that say nothing."""


def of_cases(cases: Sequence[InfluenceResult]) -> dict[str, list[InfluenceResult]]:
    """The cases of each conversation, in the order of its turns."""
    out: dict[str, list[InfluenceResult]] = {}
    for case in cases:
        if case.conversation is not None:
            out.setdefault(case.conversation, []).append(case)
    return {name: sorted(turns, key=lambda case: case.turn or 0) for name, turns in out.items()}


def blocks(cases: Sequence[InfluenceResult], sections: Mapping[str, str]) -> Iterator[b.Block]:
    """The conversations, those with personal or secret disclosures first; `sections` leads to cases."""
    held = of_cases(cases)
    if not held:
        return
    leaks = {name: sum(bool(disclosure_report.personal(case)) for case in turns) for name, turns in held.items()}
    ranked = sorted(held, key=lambda name: -_most(held[name]))
    shown = ranked[:_SHOWN]
    inner: list[b.Block] = [
        _conversation(name, held[name], sections, is_open=len(held) == 1 or (number == 0 and bool(leaks[name])))
        for number, name in enumerate(shown)
    ]
    if len(ranked) > len(shown):
        inner.append(b.Text(f"{len(ranked) - len(shown):,} more conversations are not shown here.", "soft"))
    yield b.HeadedBlocks("Conversations", inner, detail=True)


def _most(turns: Sequence[InfluenceResult]) -> float:
    found = [disclosure for case in turns for disclosure in disclosure_report.personal(case)]
    return max((disclosure_report.shown_nats(disclosure) or 0.0 for disclosure in found), default=-1.0)


def _conversation(
    name: str, turns: Sequence[InfluenceResult], sections: Mapping[str, str], *, is_open: bool
) -> b.Conversation:
    leaking = [case for case in turns if disclosure_report.personal(case)]
    summary: tuple[str | b.Untrusted, ...] = (b.Untrusted(name, 60), f", {counted(len(turns), 'emission')}")
    if leaking:
        kinds = disclosure_report.kinds_text([d for case in leaking for d in disclosure_report.personal(case)])
        summary = (*summary, f": {kinds}")
    return b.Conversation(summary, list(_turns(turns, sections)), is_open=is_open)


def _turns(turns: Sequence[InfluenceResult], sections: Mapping[str, str]) -> Iterator[b.ConversationTurn]:
    measured: set[tuple[str, str]] = set()
    has_read = False
    for case in turns:
        for said in case.said_before:
            has_read |= said.is_source
            if (said.role, said.text.strip()) not in measured:
                yield _said(said, has_read=has_read)
        measured.add((_CALL if case.channel != "answer" else "assistant", case.response.text.strip()))
        yield _emitted(case, sections)


def _said(said: SaidBefore, *, has_read: bool) -> b.ConversationTurn:
    """A text that was not measured; `has_read` is whether the model had read something before."""
    if said.is_source:
        n = len(said.text)
        return b.ConversationTurn(
            "read", ("read: ", b.Untrusted(said.name, 60)), b.Untrusted(said.text), f"{n:,} characters"
        )
    if said.role not in (_CALL, "assistant"):
        return b.ConversationTurn("said", b.Untrusted(said.role, 24), b.Untrusted(said.text))
    who: b.Phrase = ("call of ", b.Untrusted(said.name, 40)) if said.role == _CALL else "answer"
    return b.ConversationTurn("emitted", who, b.Untrusted(said.text), _why_not_measured(said, has_read=has_read))


def _why_not_measured(said: SaidBefore, *, has_read: bool) -> str:
    if not has_read:
        return "before reading"
    return "nothing to measure" if said.text.strip() in _EMPTY else "earlier turn, not measured"


def emission_name(case: InfluenceResult) -> b.Phrase:
    """'answer', 'call of calendar.create', 'message to billing' …, of a turn of a conversation."""
    if case.is_answer:
        return "answer"
    recipient = b.Untrusted(case.recipient or "", 40)
    return {
        "tool": ("call of ", recipient),
        "agent": ("message to ", recipient),
        "memory": ("written to ", recipient),
    }.get(case.channel, "reasoning, which nobody received")


def _emitted(case: InfluenceResult, sections: Mapping[str, str]) -> b.ConversationTurn:
    disclosed = disclosure_report.disclosures(case).disclosed
    text = b.ShadedText(
        (b.Passage(coloured_tokens(case)),),
        floor_nats=case.noise_floor_per_token_nats,
        style="tokens",
        disclosed=disclosed,
    )
    found = disclosure_report.personal(case)
    who: b.Phrase = emission_name(case)
    if anchor := sections.get(case.id, ""):
        who = (*b.parts(who), ", ", b.Untrusted(case.id, 40, anchor))
    note = ""
    if found:
        nats = disclosure_report.shown_nats(found[0])
        strongest = "" if nats is None else f", {nats_text(nats)}\u00a0nats"
        note = f"{disclosure_report.kinds_text(found)}{strongest}"
    return b.ConversationTurn("emitted", who, text, note)
