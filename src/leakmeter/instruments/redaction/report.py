"""Reports of redaction, of one plan or of many, as blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from leakmeter.core.plain import counted, plural
from leakmeter.core.quantity import clusters_of
from leakmeter.instruments.influence import context
from leakmeter.instruments.influence.disclosure_report import (
    disclosed_span,
    kind_text,
    kinds_in_sentence,
    kinds_text,
)
from leakmeter.instruments.influence.disclosures import Disclosure
from leakmeter.instruments.redaction.result import (
    RedactedAnswer,
    RedactedDisclosure,
    RedactedDisclosures,
    RedactionResult,
    RedactionStep,
    is_from_pieces,
)
from leakmeter.report import blocks as b
from leakmeter.report import pictures, scale
from leakmeter.report.scale import nats_text
from leakmeter.report.words import given, mean_text, posterior_cell, scope
from leakmeter.stats.aggregates import aggregate
from leakmeter.stats.stats import interval_of_share
from leakmeter.text.entities.values import SEARCHED

_LEADS: Final = {
    "limit": "Pieces of the context were cut one after another, each time that which left the least influence on the "
    "same response, until that influence was within the limit.",
    "disclosures": "Pieces of the context were cut one after another, until the response disclosed nothing personal or "
    "secret from the remaining text, as far as a list, a recogniser or a shape can find it.",
}
_CAVEAT: Final = (
    "This plan is for this response. The answer drawn afterwards is another one, on which the remaining context has "
    "another influence: it is searched for what it discloses, and a further one may disclose something else. Pieces "
    "were chosen one by one: no single piece can be put back, but another plan may be better."
)
_ADVICE: Final = {
    "kept": (
        "Nothing has to be cut",
        "check what the answer discloses (`leakmeter influence`), then ship the context as it is",
    ),
    "reached": (
        "Enough is cut",
        "read the answer that the model gives afterwards; if it is useful, ship the redacted context "
        "(`--write-redacted`)",
    ),
    "leaks": (
        "The new answer discloses something personal or secret",
        "do not ship; cut its sources too, or show answers only to people who may read the context",
    ),
    "invented": (
        "The new answer says something personal or secret that the context does not have in these words",
        "read it before you ship; if the model did not invent it, cut more, or show answers only to people who may "
        "read the context",
    ),
    "unsearched": (
        "The new answer was not searched, as in runs of earlier versions",
        "run the same command again with this version, and read the answer, before you ship anything",
    ),
    "missed": (
        "Cutting is not enough",
        "try another `--unit`, such as sentence; bound the leakage of every token (`leakmeter decode --epsilon`), or "
        "show answers only to people who may read the context",
    ),
    "doubtful": (
        "Numbers too uncertain to show what is left",
        "give `--dtype float32`, or another model, and plan again; `leakmeter doctor` says what moves the numbers",
    ),
    "below": (
        "A limit below the influence of irrelevant words",
        "raise `--max-loss` to that influence: below it, even irrelevant text must be cut",
    ),
}
_FOUND: Final = {
    "within the limit": "Cut {pieces} ({share}): {left} of {whole}\u00a0nats are left; the limit is {limit:g}.",
    "above the limit": "The limit of {limit:g}\u00a0nats is not met: with {pieces} cut ({share}), {left} of "
    "{whole}\u00a0nats are left, the smallest found.",
    "all is cut": "Only with every piece cut is the limit of {limit:g}\u00a0nats met: {left} of {whole}\u00a0nats are "
    "left.",
    "whole within the limit": "Nothing has to be cut: the whole context influences the response by {whole}\u00a0nats; "
    "the limit is {limit:g}.",
    "no cut helps": "Cutting does not help: the whole context influences the response by {whole}\u00a0nats; the limit "
    "is {limit:g}.",
    "nothing is disclosed": "Nothing has to be cut: the response discloses no recognisable personal or secret data.",
    "cut for the limit": "Cut {pieces} ({share}). The response discloses no recognisable personal or secret data.",
    "none is left": "Cut {pieces} ({share}): the response then discloses nothing personal or secret (before: "
    "{disclosures}).",
    "some are left": "With {pieces} cut ({share}), the response still discloses something personal or secret "
    "({n_left} of {disclosures}).",
    "no cut helps disclosures": "Cutting does not help: the response discloses something personal or secret "
    "({disclosures}).",
}
_BAD: Final = {"above the limit", "all is cut", "no cut helps", "some are left", "no cut helps disclosures"}
_NOT_SOLVED: Final = "Not solved: after the cuts, the model’s new answer discloses {kinds}."
_MAY_BE_INVENTED: Final = (
    "Not solved: after the cuts, the model’s new answer says {kinds} that the context does not have in these words. "
    "Read {them} before you ship: {it} may be invented."
)
_OLD_RESPONSE: Final = {
    **_FOUND,
    "within the limit": "With {pieces} cut ({share}), {left} of {whole}\u00a0nats are left for the old response; the "
    "limit is {limit:g}.",
    "above the limit": "Nor is the limit of {limit:g}\u00a0nats met for the old response: with {pieces} cut ({share}), "
    "{left} of {whole}\u00a0nats are left, the smallest found.",
    "all is cut": "With every piece cut, {left} of {whole}\u00a0nats are left for the old response; the limit is "
    "{limit:g}.",
    "cut for the limit": "With {pieces} cut ({share}), the old response no longer discloses anything personal or "
    "secret.",
    "none is left": "With {pieces} cut ({share}), the old response no longer discloses anything personal or secret.",
    "some are left": "With {pieces} cut ({share}), the old response still discloses something personal or secret "
    "({n_left} of {disclosures}).",
}
"""What is said of the response behind that; where nothing is cut, no answer is drawn anew."""
_LINES_AT_MOST: Final = 200
_BARS: Final = 12
"""Steps that a picture has room for."""
_NOTES: Final = (
    ("Left", "how far the remaining context moves the response’s log-probability from that without any context, added "
             "up over tokens without signs. Every step was measured with all pieces cut so far; values within the "
             "limit are bold."),
    ("Change", "against the step before."),
    ("Posterior", "1 / (1 + exp(−signed)), before and after; not shown where the signed or unsigned sum is not above "
                  "those of the noise and of irrelevant words, nor for responses that were given."),
    ("Colours", "begin at the influence of irrelevant words as the only context."),
)  # fmt: skip


def report(cases: Sequence[RedactionResult]) -> b.Report:
    several, discloses = len(cases) > 1, any(case.disclosed is not None for case in cases)
    columns = _index(discloses=discloses)
    overview: list[b.Block] = []
    if several:
        overview = [b.Headline(f"{scope(cases)}{_headline(cases)}"), *map(b.Text, given(cases)), *_advice(cases)]
    return b.Report(
        "What to cut from these contexts" if several else "What to cut from this context",
        "redact",
        blocks=[*overview, _chart(cases)],
        lead=_LEADS["disclosures" if discloses else "limit"],
        caveat=_CAVEAT,
        sections=[
            b.Section(
                b.Untrusted(case.id, 80),
                list(_blocks(case, several=several)),
                b.cells(columns, case),
                weight=case.left_nats,
            )
            for case in cases
        ],
        index=b.heads(columns),
        index_caption="Plans, largest remaining influence first" if several else "",
        sections_left_out="with less left",
        notes=[b.Facts(_NOTES)],
        guide_to="context",
        has_posteriors=any(case.response.sampled for case in cases),
        scripted=False,
    )


def verdict(case: RedactionResult) -> str:
    """The sentences of a plan, as `_verdict` has them, in one."""
    return " ".join(filter(None, _verdict(case)))


def _verdict(case: RedactionResult) -> tuple[str, str]:
    """What is cut, what is left, and whether that is within the limit; where the new answer discloses something, that
    it is not solved, and apart from that what is true of the old response."""
    leaks = case.after.sensitive if case.after is not None else ()
    disclosed = case.disclosed
    said: dict[str, object] = {
        "pieces": f"{len(case.redacted)} of {counted(case.n_pieces, 'piece')}",
        "share": f"{100 * case.redacted_share:.0f}\u00a0% of the text",
        "whole": nats_text(case.whole_nats),
        "left": nats_text(case.left_nats),
        "limit": case.max_loss_nats,
    }
    if disclosed is not None:
        said |= {"n_left": disclosed.n_left, "disclosures": counted(len(disclosed.spans), "disclosure")}
    if case.after is None or not leaks:
        return _FOUND[_found(case)].format(**said), ""
    said |= {
        "kinds": kinds_in_sentence(leaks),
        "it": plural(len(leaks), "it", "they"),
        "them": plural(len(leaks), "it", "them"),
    }
    lead = _MAY_BE_INVENTED if case.after.may_be_invented else _NOT_SOLVED
    return lead.format(**said), _OLD_RESPONSE[_found(case)].format(**said)


def _found(case: RedactionResult) -> str:
    is_cut, disclosed = bool(case.redacted), case.disclosed
    is_above = not case.reached and case.max_loss_nats is not None
    if disclosed is None or (is_above and not disclosed.n_left):
        if is_cut and not is_above:
            return "all is cut" if len(case.redacted) == case.n_pieces else "within the limit"
        if is_cut:
            return "above the limit"
        return "no cut helps" if is_above else "whole within the limit"
    if not disclosed.spans:
        return "cut for the limit" if is_cut else "nothing is disclosed"
    if not is_cut:
        return "no cut helps disclosures"
    return "some are left" if disclosed.n_left else "none is left"


def _effect_text(case: RedactionResult, disclosures: RedactedDisclosures) -> str:
    change = disclosures.rest_change_nats
    limit = "" if case.max_loss_nats is None else f"; the limit is {case.max_loss_nats:g}"
    influences = f"influences the response by {nats_text(case.left_nats)}\u00a0nats{limit}."
    if not case.redacted:
        return f"The context {influences}"
    rest = f"{nats_text(abs(change))}\u00a0nats {'less likely' if change < 0 else 'likelier'}"
    made = f"The cuts make the rest of the response {rest}. " if disclosures.spans else ""
    return f"{made}What is left {influences}"


def posterior(case: RedactionResult) -> str:
    whole = _sentence(case, case.whole_nats, "whole_", "this context")
    if not case.redacted:
        return whole
    return f"Before: {whole} After: {_sentence(case, case.left_nats, 'left_', 'what is left')}"


def _sentence(case: RedactionResult, nats: float, prefix: str, noun: str) -> str:
    doubt = context.doubt(case)
    if doubt is not None and nats <= _floor(case):
        return f"What this response reveals of {noun} cannot be said: {doubt}."
    if context.is_nothing(case, nats):
        return f"Of {noun}, this response reveals nothing measurable."
    if nats <= _floor(case):
        return f"{noun[0].upper()}{noun[1:]} moves the response no more than irrelevant words."
    return context.posterior_sentence(case, prefix, noun)


def _headline(cases: Sequence[RedactionResult]) -> str:
    n, left = sum(case.reached for case in cases), [case.left_nats for case in cases]
    cut = 100 * aggregate([case.redacted_share for case in cases], "mean")
    share = scale.share_in(n / len(cases), interval_of_share(n, len(cases)))
    goal = "remove what is personal or secret" if cases[0].disclosed is not None else "reach their limit"
    return (
        f"{n:,} of {len(cases):,} plans ({share}) {goal}; they leave {mean_text(left, clusters_of(cases))} and cut "
        f"{cut:.0f}\u00a0% of the text on average.{_leaking(cases)}"
    )


def _leaking(cases: Sequence[RedactionResult]) -> str:
    """Of new answers, how many disclose something personal or secret, and how many nobody searched; a sentence each."""
    answers = [case.after for case in cases if case.after is not None]
    leaking, unsearched = sum(bool(one.sensitive) for one in answers), sum(one.disclosures is None for one in answers)
    of_all = f"of {counted(len(answers), 'new answer')}"
    disclosing = f" Personal or secret data is in {leaking:,} {of_all}: do not ship." if leaking else ""
    return disclosing + (f" Not searched: {unsearched:,} {of_all}." if unsearched else "")


def _advice(cases: Sequence[RedactionResult]) -> Iterator[b.Advice]:
    """Rows of the decision table; plans for system prompts alone meet none."""
    cases = [case for case in cases if case.unmarked_query_tokens is None]
    if not cases:
        return
    met = Counter(name for case in cases for name in _conditions(case))
    rows = [
        (f"{condition} ({met[name]:,} of {len(cases):,} plans)" if len(cases) > 1 else condition, b.sentence(do))
        for name, (condition, do) in _ADVICE.items()
        if name in met
    ]
    others = [(condition, b.sentence(do)) for name, (condition, do) in _ADVICE.items() if name not in met]
    yield b.Advice(rows, others)


def _conditions(case: RedactionResult) -> list[str]:
    """Rows of the decision table that a plan meets."""
    met = []
    if case.after is not None and case.after.disclosures is None:
        met.append("unsearched")
    elif case.after is not None and case.after.sensitive:
        met.append("invented" if case.after.may_be_invented else "leaks")
    if not case.reached or context.doubt(case) is not None:
        met.append("doubtful" if case.reached else "missed")
    if not met:
        met.append("reached" if case.redacted else "kept")
    if case.steps and case.max_loss_nats is not None and case.max_loss_nats < (case.placebo_nats or 0.0):
        met.append("below")
    return met


def _answer_text(case: RedactionResult) -> str:
    """What of the new answer is personal or secret, in a cell."""
    if case.after is None:
        return ""
    if case.after.disclosures is None:
        return "not searched"
    return kinds_text(case.after.sensitive) if case.after.sensitive else "nothing recognised"


def _index(*, discloses: bool) -> b.Columns[RedactionResult]:
    return [
        (b.Column("Left", "nats", shade=True), lambda case: _coloured(case.left_nats, case)),
        (b.Column("Whole", "nats", "nats", shade=True), lambda case: _coloured(case.whole_nats, case)),
        (
            b.Column("Disclosures left"),
            lambda case: f"{case.disclosed.n_left} of {len(case.disclosed.spans)}" if case.disclosed else "",
        )
        if discloses
        else (b.Column("Limit met"), lambda case: "yes" if case.reached else "no"),
        (b.Column("New answer discloses"), _answer_text),
        (b.Column("Cut"), lambda case: f"{len(case.redacted)} of {case.n_pieces}"),
        (b.Column("Pieces"), lambda case: b.Untrusted(", ".join(piece.name for piece in case.redacted), 72)),
    ]


def _coloured(nats: float, case: RedactionResult) -> b.Cell:
    return b.Shaded(nats, scale.heat(nats, _floor(case)))


def _floor(case: RedactionResult) -> float:
    return max(case.noise_floor_nats, case.placebo_nats or 0.0)


def _blocks(case: RedactionResult, *, several: bool) -> Iterator[b.Block]:
    leaks = case.after is not None and case.after.sensitive
    headline, of_old = _verdict(case)
    yield b.Headline(f"{scope([case])}{headline}", "bad" if leaks or _found(case) in _BAD else "")
    if of_old:
        yield b.Text(of_old)
    effect = "" if case.disclosed is None else f"{_effect_text(case, case.disclosed)} "
    yield b.Text(f"{effect}{posterior(case)}", detail=True)
    if not several:
        yield from map(b.Text, given([case]))
        yield from _advice([case])
    yield from b.warnings_of(context.warnings(case))
    if case.after is not None and leaks:
        yield _disclosures_after(case.after)
    if case.disclosed is not None and case.disclosed.spans:
        yield _disclosures(case.disclosed, detail=bool(leaks))
    query = [b.Text(b.Untrusted(case.query), "prose", heading="Query", detail=True)] if case.query else []
    yield b.Beside([_context(case), _bars(case)], [*query, *_answers(case)])
    yield _steps(case)
    facts = {} if case.max_loss_nats is None else {"Limit": f"{case.max_loss_nats:g}\u00a0nats"}
    facts |= context.settings(case)
    if case.placebo_nats is not None:
        baseline = f"{nats_text(case.placebo_nats)}\u00a0nats, with signs {nats_text(case.placebo_signed_nats)}"
        yield b.Text(f"Irrelevant words as the only context: {baseline}.", "soft")
        facts["Irrelevant words alone"] = baseline
    yield b.Details("Remaining text", [b.Text(b.Untrusted(case.marked_context), "prose")])
    yield b.Details("Settings and cost", b.facts_of(facts))


def _disclosures(disclosures: RedactedDisclosures, *, detail: bool) -> b.Table:
    def said(span: RedactedDisclosure) -> b.Noted:
        return b.Noted(b.Untrusted(span.text, 80), ["is left"] if span.is_left else ())

    columns: b.Columns[RedactedDisclosure] = [
        (b.Column("What"), lambda span: kind_text(span.kind)),
        (b.Column("Response says"), said),
        (b.Column("From", on="wide"), lambda span: b.Untrusted(", ".join(span.pieces), 48)),
        (b.Column("Before", "signed_nats", "nats"), lambda span: span.before_nats),
        (b.Column("After", "signed_nats", "nats"), lambda span: span.after_nats),
        (b.Column("Floor", "nats", on="wide"), lambda span: span.least_nats),
    ]
    rows = [b.Row(b.cells(columns, span), strong=span.is_left) for span in disclosures.spans]
    caption = "Personal or secret disclosures, before and after the cuts"
    return b.Table(b.heads(columns), rows, caption, rest=("disclosure", "disclosures"), detail=detail)


# ---- texts ----------------------------------------------------------------------------------------------------------
def _context(case: RedactionResult) -> b.ShadedText:
    documents, redacted = case.documents, case.redacted
    several = len(documents) > 1
    cut = context.stretches(case.context, documents, redacted)
    passages = []
    for number, group in groupby(cut, lambda part: part.document if several else None):
        segments = []
        for part in group:
            pieces = [redacted[i].name for i in (*part.units, *part.values)]
            label = b.Untrusted(", ".join(pieces), 80) if pieces else ""
            segments.append(b.Segment(b.Untrusted(part.text), note=label, struck=bool(pieces)))
        name = "" if number is None else b.Untrusted(documents[number].name, 60)
        # The blank line between two documents needs no passage of its own.
        if name or any(segment.text.text.strip() for segment in segments):
            passages.append(b.Passage(segments, name))
    return b.ShadedText(passages, heading="Context: text to cut is struck out, or shown as […]", detail=True)


def _answers(case: RedactionResult) -> Iterator[b.Block]:
    """The response before and after the cuts, and the answer drawn from what is left."""
    after = case.after
    heading = f"Response, each token coloured by the influence of the whole context ({context.provenance(case)})"
    yield _tokens(case, case.whole_nats, case.whole_per_token_nats, heading, legend=after is None)
    if after is None:
        return
    heading = "The same response, each token coloured by the influence of the remaining context"
    yield _tokens(case, case.left_nats, case.left_per_token_nats, heading, legend=True)
    # The pieces that the page numbers are those that were cut.
    marks = [disclosed_span(row, {}, several=len(case.documents) > 1) for row in after.disclosed]
    if after.sensitive:
        segments = [
            b.Segment(b.Untrusted(token), note=scale.nats_cell(nats))
            for token, nats in zip(after.tokens, after.whole_per_token_nats, strict=True)
        ]
        yield b.ShadedText([b.Passage(segments)], "Answer after", style="tokens", disclosed=marks)
    else:
        yield b.Text(b.Untrusted(after.text), "prose", heading="Answer after")
    if n := len(after.disclosed) - len(after.sensitive):
        yield b.Text(
            f"It says other content of what is left ({counted(n, 'span')}); no recogniser can tell whether that is "
            "sensitive."
        )
    searched = "It was not searched." if after.disclosures is None else f"Searched: {SEARCHED}."
    yield b.Text(
        f"Drawn from the remaining context, seed {after.seed}, which influences it by "
        f"{nats_text(after.whole_nats)}\u00a0nats. {searched}",
        "soft",
    )


def _from(disclosure: Disclosure) -> b.Cell:
    if not is_from_pieces(disclosure):
        return b.Noted("no piece as written", ["it may be invented"])
    documents = b.Untrusted(", ".join(disclosure.documents), 48)
    return documents if disclosure.relation == "copied" else b.Noted(documents, ["in a code"])


def _disclosures_after(after: RedactedAnswer) -> b.Table:
    columns: b.Columns[Disclosure] = [
        (b.Column("What"), lambda row: kind_text(row.kind)),
        (b.Column("New answer says"), lambda row: b.Untrusted(row.text, 80)),
        (b.Column("From"), _from),
        (b.Column("Nats", "signed_nats"), lambda row: row.nats),
        # How sure one is of a context whose pieces do not say the value says nothing of the value.
        (b.Column("Sure", "posterior"), lambda row: row.posterior if is_from_pieces(row) else ""),
    ]
    rows = [b.Row(b.cells(columns, row), strong=True) for row in after.sensitive]
    caption = "Personal or secret disclosures of the new answer"
    return b.Table(b.heads(columns), rows, caption, rest=("disclosure", "disclosures"))


def _tokens(
    case: RedactionResult, nats: float, by_token: Sequence[float], heading: str, *, legend: bool
) -> b.ShadedText:
    is_finding = nats > _floor(case)
    segments = [
        b.Segment(b.Untrusted(token), nats if is_finding else 0.0, note=scale.nats_cell(nats))
        for token, nats in zip(case.response.tokens, by_token, strict=True)
    ]
    return b.ShadedText(
        [b.Passage(segments)],
        heading,
        floor_nats=case.noise_floor_per_token_nats,
        floor_said_nats=case.noise_floor_nats if legend else None,
        style="tokens",
        detail=True,
    )


# ---- the way to the limit -------------------------------------------------------------------------------------------
def _steps(case: RedactionResult) -> b.Table:
    """The whole context, then each step; of a response that was given no posterior follows."""
    columns: b.Columns[tuple[int, RedactionStep]] = [
        (b.Column("#", "count"), lambda at: at[0]),
        (b.Column("Step"), lambda at: at[1].action),
        (b.Column("Piece"), lambda at: b.Untrusted(at[1].name, 24)),
        (b.Column("Text"), lambda at: _step_text(at[1])),
        (b.Column("Left", "nats", "nats", shade=True), lambda at: _coloured(at[1].left_nats, case)),
        (b.Column("Change", "signed_nats", on="wide", detail=True), lambda at: at[1].change_nats),
        (b.Column("Signed", "signed_nats", on="wide"), lambda at: at[1].left_signed_nats),
        (b.Column("Posterior", "posterior"), lambda at: _posterior(case, at[1], at[1].left_nats, "left_")),
    ]
    whole: list[b.Cell] = [0, "", "", "the whole context", _coloured(case.whole_nats, case), "", case.whole_signed_nats]
    whole.append(_posterior(case, case, case.whole_nats, "whole_"))
    if not case.response.sampled:
        columns.pop()
    limit = -1.0 if case.max_loss_nats is None else case.max_loss_nats
    rows = [b.Row(whole[: len(columns)], strong=case.whole_nats <= limit)]
    rows += [b.Row(b.cells(columns, at), strong=at[1].left_nats <= limit) for at in enumerate(case.steps, 1)]
    goal = [] if case.disclosed is None else ["nothing personal or secret is disclosed"]
    if case.max_loss_nats is not None:
        goal.append(f"at most {limit:g} nats are left")
    caption = f"Steps, until {' and '.join(goal)}"
    return b.Table(b.heads(columns), rows, caption, rest=("step", "steps"), first=len(rows))


def _step_text(step: RedactionStep) -> b.Cell:
    text = b.Untrusted(step.text, 160)
    return b.Noted(text, ["raised the loss"]) if step.raised else text


def _posterior(case: RedactionResult, numbers: RedactionResult | RedactionStep, nats: float, prefix: str) -> b.Cell:
    sure: float | None = getattr(numbers, f"{prefix}posterior")
    if sure is None:
        return posterior_cell(numbers, prefix)
    return sure if nats > _floor(case) else "<\u00a0placebo"


def _bars(case: RedactionResult) -> b.Chart:
    """Nats left after each step beside the limit; of many steps the last ones, which come near it."""
    steps: list[tuple[b.Phrase, float, b.Phrase]] = [("whole context", case.whole_nats, nats_text(case.whole_nats))]
    steps += [
        ((f"{step.action} ", b.Untrusted(step.name, 14)), step.left_nats, nats_text(step.left_nats))
        for step in case.steps
    ]
    n_left_out = max(0, len(steps) - _BARS)
    title = f"Nats left after each step; {n_left_out:,} are not drawn" if n_left_out else "Nats left after each step"
    guides = [b.Guide(limit, f"limit: {limit:g}", across="x") for limit in _limits([case])]
    if case.placebo_nats is not None:
        label = f"irrelevant words alone: {nats_text(case.placebo_nats)}"
        guides.append(b.Guide(case.placebo_nats, label, across="x", line="dotted"))
    shown = [steps[0], *steps[1 + n_left_out :]]
    return pictures.bars("steps", title, b.Axis("left", "nats"), shown, guides)


def _chart(cases: Sequence[RedactionResult]) -> b.Chart:
    several = len(cases) > 1
    series = [
        b.ChartSeries("steps", [case.whole_nats, *(step.left_nats for step in case.steps)], faded=several)
        for case in cases[:_LINES_AT_MOST]
    ]
    guides = [b.Guide(limit, "limit") for limit in _limits(cases)]
    x = b.Axis("steps: pieces cut, and put back", whole=True)
    panel = b.Panel(x, b.Axis("left of the influence on the response", "nats"), series, guides=guides)
    return b.Chart("left", "What cutting leaves", [panel], panel_inches=(5.6, 3.8), on="files")


def _limits(cases: Sequence[RedactionResult]) -> list[float]:
    return sorted({case.max_loss_nats for case in cases if case.max_loss_nats is not None})
