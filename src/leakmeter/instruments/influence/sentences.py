"""What reports of influence say behind the headline: how sure the list is, how large the effect is, what narrows it.

Each sentence stands here whole. `behind_headline` and `behind_headline_of_all` rank them: what else was found, what
narrows the list, how large the effect is; the first three stand in front, a reader opens the others and `explained`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from leakmeter.core.plain import counted, plural
from leakmeter.core.quantity import clusters_of
from leakmeter.instruments.influence import context, findings, ladder, permitted, search_report
from leakmeter.instruments.influence.controls import FALSE_SHARE, FalseAlarms, ListCut, controls_of
from leakmeter.instruments.influence.disclosure_report import found, ids_of, personal, retold
from leakmeter.instruments.influence.headline import has_unexplained, noun_of
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.report.scale import nats_text, share_in, share_percent
from leakmeter.report.words import given, is_of_system_prompts, mean_text
from leakmeter.stats.stats import BELOW_NOISE, independent_items, interval_of_share, is_above_baselines
from leakmeter.text.entities.values import NOWHERE, SEARCHED
from leakmeter.text.exemplars import EXEMPLAR
from leakmeter.text.structured import fields_of

_Beside: TypeAlias = Literal["others", "irrelevant", "nothing"]
"""What the spans of a response were held against."""
_Effect: TypeAlias = Literal["doubtful", "nothing", "finding", "not held", "placebo", "signed placebo", "noise"]
"""How far the context as a whole moved a response: nobody can say; not at all; more than an irrelevant text; no more
than that, or than rounding, without signs or with; or it was not held against one."""

FALSE_ALARMS: Final = (
    "False alarms: {share} (at most {at_most}): {alarms:,} of {checks} with the context of "
    "another case would have listed something."
)
_EFFECT_OF_ALL: Final = (
    "The {contexts} changed {n:,} {responses} by {mean} on average, and one by {most}\u00a0nats; {above:,} of {held} "
    "({share}) by more than an irrelevant text."
)
_EFFECTS: Final[Mapping[_Effect, str]] = {
    "doubtful": "Whether the {context} left a trace in {response} cannot be said: {doubt}.",
    "nothing": "The {context} as a whole left no measurable trace in {response}.",
    "finding": "The {context} as a whole changed {response} by {nats}.",
    "not held": "The {context} as a whole changed {response} by {nats}; what an irrelevant text does to it was not "
    "measured.",
    "placebo": "The {context} as a whole changed {response} by {nats}, no more than an irrelevant text.",
    "signed placebo": "The {context} as a whole changed {response} by {nats}, with signs no more than an irrelevant "
    "text.",
    "noise": "The {context} as a whole changed {response} by {nats}, with signs no more than rounding.",
}
_LEARNT: Final[Mapping[_Effect, str]] = {
    "doubtful": "So it is not known what a reader of the response learns about whether this {context} was there.",
    "nothing": "A reader of the response learns nothing about whether this {context} was there.",
}
_UNSIGNED: Final = {
    True: "No posterior is shown: the unsigned sum is no larger than an irrelevant text’s.",
    False: "The unsigned sum is no larger than an irrelevant text’s.",
}
"""By whether the response was drawn."""
_RETOLD: Final = "In other words, or from several pieces: {spans} in {cases}."
_RETOLD_OF_ONE: Final = "In other words, or from several pieces: {spans}."
_CUT: Final = "{spans} in other words {are} not listed: contexts of other cases do as much."
_BOUNDED: Final = (
    "Of the {responses} that are listed for such words, at most {share:.0f}\u00a0% are expected to be false."
)
_UNBOUNDED: Final = "Of {responses}, chance alone would list {n:.2g} for such words; {checks} are too few to say more."
_FIRST_ONLY: Final = "Of up to {n} responses drawn for a case, only the first was examined."
_STEPWISE: Final = (
    "{n:,} responses were measured step by step: {whole:,} with their context and without it only, {controls:,} beside "
    "contexts of other cases too, {pieces:,} without each piece as well. --complete measures everything of each."
)
_FRONT_OF: Final[Mapping[_Beside, str]] = {
    "irrelevant": "The rate of false alarms is not known: that takes contexts of other cases, and these data have "
    "none.",
    "nothing": "{responses} scored beside no other context: spans may be listed for a style that any context would "
    "bring. --controls 3 holds them against contexts of other cases.",
}
_NO_FIT: Final = (
    " scored beside built-in texts only: each context of another case is much shorter, or has values or phrases that "
    "the response took from its own."
)
"""In the place of the first of them, where other cases were held against each other."""
_BEHIND: Final[Mapping[_Beside, str]] = {
    "others": "{responses} also scored beside contexts of other cases of these data, up to {most} each. The nats of a "
    "span are what its own context did beyond the most that any one of these did.",
    "irrelevant": "{responses} also scored beside {most} built-in texts about other things. The nats of a span are "
    "what its own context did beyond the most that any one of these did.",
}
_FINISHED: Final = "The others could disclose nothing but copied content without that."
_SEARCHED: Final = f"Searched: {SEARCHED}{{records}}{{listed}}."
_NOT_SEARCHED: Final = (
    "Not searched: what is sensitive by its meaning in other words than a list in four languages has "
    "(`--sensitive FILE` adds your own), and names or codes of no known shape."
)
_NO_PIECES: Final = {
    True: "Pieces of the context were not measured, since words show which piece each disclosure is from; --complete "
    "measures them.",
    False: "Pieces of the context were not measured, since no span of the response could be a disclosure; --complete "
    "measures them.",
}
"""By whether the response discloses anything."""
_NO_SENTENCES: Final = (
    "{sentences} of {documents} {were} not measured, since {their} no effect: no stretch of the response was made "
    f"likelier by more than noise, an irrelevant text or {ladder.LEAST_EFFECT_NATS:g}\u00a0nat."
)
_STRONGEST: Final = {
    "piece": "The strongest {piece}, “{called}”, moves the response by {nats}\u00a0nats where it is "
    "ablated{irrelevant}.",
    "value": "The strongest {piece}, “{called}”, moves the response by {nats}\u00a0nats where all its mentions are "
    "ablated{irrelevant}.",
    "document": "The strongest {piece} is the document “{called}”: ablating it moves the response by {nats}\u00a0nats"
    "{irrelevant}.",
    "none": "No {piece} is above noise and placebo.",
    "no entity": "No personal data was found in it to ablate.",
    "no piece": "It has no piece that could be ablated.",
}


# ---- in front -------------------------------------------------------------------------------------------------------
def behind_headline_of_all(cases: Sequence[InfluenceResult], n_cut: int, cut: ListCut) -> Iterator[b.Phrase]:
    """Of `listed` cases, whose list was cut so; what matters most first."""
    yield from _found_besides(cases)
    yield from _held_against_little(cases)
    yield from search_report.sentences_of_all(cases)
    yield from _false_alarms(cases)
    yield from _where_nobody_looked(cases)
    yield _effect_of_all(cases)
    yield from _of_the_list(cases, n_cut, cut)


def behind_headline(case: InfluenceResult, n_cut: int, *, is_alone: bool) -> Iterator[b.Phrase]:
    """As that, of one case, which has lost so many spans; what holds of several is not said of each."""
    yield from _found_besides([case])
    if is_alone:
        yield from _held_against_little([case])
    yield from search_report.sentences(case)
    if is_alone:
        yield from _where_nobody_looked([case])
    yield verdict(case)
    yield posterior(case)
    yield strongest(case)
    yield from _of_the_list([case], n_cut, None)
    yield from unmeasured(case)


def _found_besides(cases: Sequence[InfluenceResult]) -> Iterator[b.Phrase]:
    saying = [case for case in cases if retold(case)]
    if saying:
        spans = counted(sum(len(retold(case)) for case in saying), "span")
        of_all_cases = f"{len(saying):,} of {counted(len(cases), noun_of(cases))}"
        yield (_RETOLD if len(cases) > 1 else _RETOLD_OF_ONE).format(spans=spans, cases=of_all_cases)
    if nowhere := [case for case in cases if has_unexplained(case)]:
        has = plural(len(nowhere), "has", "have")
        yield (counted(len(nowhere), noun_of(cases)), *ids_of(nowhere, len(cases)), f" {has} {NOWHERE}.")
    yield from permitted.further(cases)


def _held_against_little(cases: Sequence[InfluenceResult]) -> Iterator[b.Phrase]:
    held = _held_against(cases)
    for beside, sentence in _FRONT_OF.items():
        if some := [case for case in held[beside] if found(case)]:
            if beside == "irrelevant" and held["others"]:
                was = plural(len(some), " was", " were")
                yield counted(len(some), noun_of(cases)), *ids_of(some, len(cases)), was, _NO_FIT
            else:
                yield sentence.format(responses=_of_these(some, cases))


def _false_alarms(cases: Sequence[InfluenceResult]) -> Iterator[str]:
    if (alarms := FalseAlarms.of(cases)) is not None:
        yield FALSE_ALARMS.format(
            checks=counted(alarms.pairs, "check"),
            alarms=alarms.alarms,
            share=share_percent(alarms.share),
            at_most=share_percent(alarms.share_at_most, up=True),
        )


def _effect_of_all(cases: Sequence[InfluenceResult]) -> str:
    values = [case.whole_nats for case in cases]
    # Those that were held against an irrelevant text because of what was found are no sample of all.
    held = [case for case in cases if case.steps is None or case.steps.in_placebo_sample]
    above = sum(map(findings.is_finding, held))
    n_held = independent_items(clusters_of(held))
    return _EFFECT_OF_ALL.format(
        contexts=whole(cases, "s"),
        n=len(cases),
        responses=f"{noun_of(cases)}s",
        mean=mean_text(values, clusters_of(cases)),
        most=nats_text(max(values)),
        above=above,
        held=f"{len(held):,}" if len(held) == len(cases) else f"{len(held):,} drawn at random",
        share=share_in(above / len(held), interval_of_share(above / len(held) * n_held, n_held)),
    )


def _where_nobody_looked(cases: Sequence[InfluenceResult]) -> Iterator[b.Phrase]:
    """What a headline that names nothing personal or secret leaves open."""
    if not any(map(personal, cases)):
        yield b.sentence(_NOT_SEARCHED)


def _of_the_list(cases: Sequence[InfluenceResult], n_cut: int, cut: ListCut | None) -> Iterator[str]:
    """What is not listed, and how many of what is are expected to be false."""
    saying = any(map(retold, cases))
    if n_cut:
        spans = counted(n_cut, "further span" if saying else "span")
        yield _CUT.format(spans=spans, are=plural(n_cut, "is", "are"))
    if not saying or cut is None:
        return
    if cut.is_bounded:
        yield _BOUNDED.format(responses=f"{noun_of(cases)}s", share=100 * FALSE_SHARE)
    elif cut.false_responses is not None:
        responses = counted(len(cases), noun_of(cases))
        checks = counted(len(controls_of(cases)), "check")
        yield _UNBOUNDED.format(responses=responses, n=cut.false_responses, checks=checks)


def verdict(case: InfluenceResult) -> str:
    """One sentence: by how many nats the context as a whole changed the response."""
    mean = over_samples(case, "whole_")
    draws = "" if mean is None else f" (mean of {len(case.samples)} draws {mean})"
    return _EFFECTS[_effect(case)].format(
        context=whole([case]),
        response="this response" if case.response.sampled else "this given response",
        nats=f"{nats_text(case.whole_nats)}\u00a0nats{draws}",
        doubt=context.doubt(case),
    )


def posterior(case: InfluenceResult) -> str:
    """One sentence: what someone who sees only the response can conclude about the context."""
    effect, noun = _effect(case), whole([case])
    if effect == "placebo" and is_above_baselines(case.whole_posterior, case.whole_posterior_note):
        return _UNSIGNED[case.response.sampled]
    if effect in _LEARNT:
        return _LEARNT[effect].format(context=noun)
    return context.posterior_sentence(case, "whole_", f"this {noun}")


def _effect(case: InfluenceResult) -> _Effect:
    if findings.is_finding(case):
        return "finding"
    if context.doubt(case) is not None:
        return "doubtful"
    if context.is_nothing(case, case.whole_nats):
        return "nothing"
    if not findings.is_held_against_irrelevant(case):
        return "not held"
    if case.whole_posterior_note == BELOW_NOISE:
        return "noise"
    return "placebo" if case.whole_nats <= findings.floor_nats(case) else "signed placebo"


def strongest(case: InfluenceResult) -> b.Phrase:
    """One sentence: the piece that moved the response most; empty where pieces were not measured."""
    piece = context.leader(case)
    if piece is None and case.steps is not None and case.steps.last != "pieces":
        return ""
    if piece is None:
        none = "no entity" if case.unit == "entity" else "no piece"
        return _STRONGEST["none" if case.pieces else none].format(piece=piece_noun(case))
    kind = "value" if piece.kind == "value" or piece.n_mentions > 1 else "piece"
    irrelevant = "" if case.placebo_nats is None else f", an irrelevant text by {nats_text(case.placebo_nats)}"
    is_named = case.unit == EXEMPLAR or piece.kind in ("document", "fields")
    return b.sentence(
        _STRONGEST["document" if piece.kind == "document" else kind],
        piece=piece_noun(case),
        called=b.Untrusted(piece.name if is_named else piece.text, 120),
        nats=nats_text(piece.nats),
        irrelevant=irrelevant,
    )


def warnings(cases: Sequence[InfluenceResult]) -> Iterator[b.Warning]:
    n_drawn = max(len(case.samples) for case in cases)
    if n_drawn > 1:
        yield b.Warning(_FIRST_ONLY.format(n=n_drawn))


def unmeasured(case: InfluenceResult) -> Iterator[str]:
    """Which pieces of a context have no numbers, and why."""
    if case.steps is not None and case.steps.last != "pieces":
        yield _NO_PIECES[bool(case.disclosed)]
    if case.n_unmeasured_pieces and case.n_unmeasured_documents:
        n = case.n_unmeasured_documents
        yield _NO_SENTENCES.format(
            sentences=counted(case.n_unmeasured_pieces, "sentence"),
            documents=counted(n, "document"),
            were=plural(case.n_unmeasured_pieces, "was", "were"),
            their=plural(n, "their document has", "their documents have"),
        )


# ---- one click away -------------------------------------------------------------------------------------------------
def explained(cases: Sequence[InfluenceResult]) -> Iterator[b.Text]:
    """How it was found, and where nobody looked."""
    last = Counter(case.steps.last for case in cases if case.steps is not None)
    if last and len(cases) > 1:
        steps = {name: last[name] for name in ("whole", "controls", "pieces")}
        yield b.Text(_STEPWISE.format(n=last.total(), **steps), "soft")
    held = _held_against(cases)
    for beside, sentence in _BEHIND.items():
        if some := held[beside]:
            most = max(max(len(case.controls), case.irrelevant_contexts or 0) for case in some)
            yield b.Text(sentence.format(responses=_of_these(some, cases), most=most), "soft")
    if any(case.steps is not None and not case.controls for case in cases):
        yield b.Text(_FINISHED, "soft")
    yield from (b.Text(sentence, "soft") for sentence in given(cases, noun_of(cases)))
    yield b.Text(_SEARCHED.format(records=_of_records(cases), listed=_your_list(cases)), "soft")
    if any(map(personal, cases)):
        yield b.Text(b.sentence(_NOT_SEARCHED), "soft")


def _held_against(cases: Sequence[InfluenceResult]) -> dict[_Beside, list[InfluenceResult]]:
    # Exemplars are the same in many cases, which are not held against each other.
    cases = [case for case in cases if case.unit != EXEMPLAR]
    return {
        "others": [case for case in cases if case.controls],
        "irrelevant": [case for case in cases if case.irrelevant_contexts],
        "nothing": [case for case in cases if not case.controls and not case.irrelevant_contexts],
    }


def _of_these(some: Sequence[InfluenceResult], cases: Sequence[InfluenceResult]) -> str:
    """'Each response was', 'The response was', '3 of 10 responses were'."""
    if len(some) == len(cases):
        return f"{plural(len(cases), 'The', 'Each')} {noun_of(cases)} was"
    return f"{len(some):,} of {len(cases):,} {noun_of(cases)}s {plural(len(some), 'was', 'were')}"


def _of_records(cases: Sequence[InfluenceResult]) -> str:
    """How many values of records were looked for, in words."""
    ranges = ((case.context, [(part.start, part.end) for part in case.documents]) for case in cases)
    n = sum(len(fields_of(text, parts)) for text, parts in ranges)
    return f", and {counted(n, 'value')} of records in the documents, by their keys" if n else ""


def _your_list(cases: Sequence[InfluenceResult]) -> str:
    numbers = [case.n_listed_places for case in cases if case.n_listed_places is not None]
    places = counted(sum(numbers), "place")
    return f", and your list, whose values stand in {places} of the documents" if numbers else ""


# ---- words of it ----------------------------------------------------------------------------------------------------
def whole(cases: Sequence[InfluenceResult], many: str = "") -> str:
    """What was measured of as one: 'context', or with an s 'contexts'."""
    if is_of_system_prompts(cases):
        return f"system prompt{many}"
    return f"set{many} of exemplars" if cases[0].unit == EXEMPLAR else f"context{many}"


def unit_noun(case: InfluenceResult) -> str:
    return EXEMPLAR if case.unit == EXEMPLAR else "piece"


def piece_noun(case: InfluenceResult) -> str:
    return f"{unit_noun(case)}{search_report.scored(case)}"


def over_samples(numbers: InfluenceResult | PieceInfluence, prefix: str) -> str | None:
    """Mean, 95 % interval and worst in nats; None where nothing was sampled again."""
    mean, interval, worst = (getattr(numbers, f"{prefix}{name}_nats") for name in ("mean", "interval", "worst"))
    if mean is None:
        return None
    return f"{scale.nats_in(mean, interval)}, worst {nats_text(worst)}"
