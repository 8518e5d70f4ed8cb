"""What influence says of one response or of many, as blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from leakmeter.core.plain import excerpt, n_listed
from leakmeter.instruments.influence import (
    context,
    conversations,
    disclosure_report,
    findings,
    ladder,
    permitted,
    search_report,
)
from leakmeter.instruments.influence.disclosures import LEAST_NATS
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
from leakmeter.instruments.influence.search_report import is_partial, units_left
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.report.scale import nats_text
from leakmeter.report.words import GIVEN_RESPONSE, NO_GUARANTEE, is_of_system_prompts, mean_text, posterior_cell
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate
from leakmeter.stats.stats import (
    BELOW_NOISE,
    BELOW_PLACEBO,
    FEWEST_FOR_INTERVAL,
    interval_of_share,
    is_above_baselines,
)
from leakmeter.text.exemplars import EXEMPLAR

_LISTED: Final = 12
_FIRST: Final = 1e9
"""Above any number of nats."""
_SURROGATE: Final = "With a surrogate"
_ADVICE: Final = {
    "personal": (
        "Personal or secret data disclosed",
        "do not show these responses to anyone who may not read the documents; leakmeter redact --disclosures chooses "
        "what to cut",
    ),
    "permitted": (
        "All that is disclosed, the recipients may know",
        "ship; measure again when the policy, the model, the prompt or the retriever changes",
    ),
    "retold": (
        "Content of the documents in other words, or drawn from several pieces",
        "read these spans: no recogniser can tell whether they are sensitive",
    ),
    "whole": (
        "The context as a whole moved the answer by more than placebo and noise, but nothing is disclosed",
        "many words moved a little; measure with another --unit (document, whole) before you ship",
    ),
    "nothing": (
        "No personal or secret data recognised, and nothing reworded",
        "read the copied spans, then ship; measure again when the model, the prompt or the retriever changes",
    ),
    "doubtful": (
        "Numbers too uncertain to show that nothing is disclosed",
        "give --dtype float32, or another model, and measure again; leakmeter doctor says what moves the numbers",
    ),
    "unseen": (
        "Cases that nobody can review beforehand",
        "bound the leakage of each token (leakmeter decode --epsilon); leakmeter decode frontier shows the cost",
    ),
}
_CALM: Final = ("nothing", "permitted")
_ADVICE_OF_EXEMPLARS: Final = {
    "nothing": (
        "No exemplar above placebo and noise",
        "ship the prompt, and measure again when the model or the exemplars change",
    ),
    "doubtful": _ADVICE["doubtful"],
    "spare": (
        "Exemplars above the placebo",
        "replace or drop exemplars that must stay secret, or ship generated ones (leakmeter generate)",
    ),
}
_POSTERIOR: Final = "Posterior"
_FINDING: Final = "Finding"
_NOTES: Final[tuple[tuple[str, str], ...]] = (
    (
        "Without it",
        "Σ|τ|, the context influence of Flemings et al. (Definition 3.2): how far each token moves, added up "
        "without signs. It measures how much moved; no posterior follows from it.",
    ),
    (
        _POSTERIOR,
        "1 / (1 + exp(−signed)), by Bayes’ rule from even odds; not shown for single tokens, nor where the "
        "signed or unsigned sum is not above those of the noise and the placebo, nor for responses that were given.",
    ),
    (
        _FINDING,
        "of a response that was given: whether the signed and the unsigned sum are above those of the noise and the "
        "placebo. No posterior follows, since another model may have written it.",
    ),
    ("Alone", "a fact stated twice reads low when either mention is removed, and high when it is the only one left."),
    (_SURROGATE, "what is lost then came from the context, not from the model’s own knowledge."),
    ("Colours", "begin at the placebo, or at the noise floor where that is higher; they and the bars share one scale, "
                f"log(1 + nats / {scale.KNEE_NATS:g}), the same in every case. While one token is chosen, they are "
                "shares of what moved it most."),
)  # fmt: skip


def report(cases: Sequence[InfluenceResult]) -> b.Report:
    of_list = disclosure_report.listed(cases)
    cases, cut = [case for case, _ in of_list], [n_cut for _, n_cut in of_list]
    first, *others = map(context.settings, cases)
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    several = len(cases) > 1
    responses, title = "a response", f"Influence of the {_whole(cases)} on this response"
    if several:
        responses, title = f"{len(cases):,} responses", f"Influence of the {_whole(cases, 's')} on these responses"
    swapped = any(piece.swapped_nats is not None for case in cases for piece in case.pieces)
    searched = any(case.search is not None for case in cases)
    drawn = [case.response.sampled for case in cases]
    shown = {_SURROGATE: swapped, _POSTERIOR: any(drawn), _FINDING: not all(drawn)}
    facts = [note for note in _NOTES if shown.get(note[0], True)]
    notes: list[b.Block] = [b.Facts([*facts, *(search_report.NOTES if searched else ())])]
    if several and shared:
        notes.insert(0, b.HeadedBlocks("How it was measured", b.facts_of(shared)))
    sections = disclosure_report.sections_of(cases, [_weight(case) for case in cases]) if several else {}
    overview = (
        [*_overview(cases, sections, sum(cut)), *search_report.blocks_of_all(cases), *_advice(cases)] if several else []
    )
    listed = disclosure_report.tables(cases, sections) if several else ()
    index = [*_INDEX, (b.Column("Missed by the search"), search_report.cell)] if searched else _INDEX
    piece = _piece(cases[0])
    if any(case.steps is not None for case in cases):
        ablated = (
            "It was taken away, where a disclosure was possible also replaced by contexts of other cases and cut piece "
            "by piece, and"
        )
    elif searched:
        ablated = f"It was searched: each {piece} was screened, those that mattered most were ablated in turn, and"
    elif any(findings.has_documents(case.pieces) for case in cases):
        ablated = "Each of the documents was ablated in turn, then each sentence of those that matter, and"
    else:
        ablated = f"Each {piece} of it was ablated in turn, and"
    return b.Report(
        title=title,
        measure="influence",
        blocks=[*overview, *listed, *conversations.blocks(cases, sections), *charts(cases)],
        lead=f"A language model gave {responses} after reading a {_whole(cases)}. {ablated} the same response was "
        "scored again. The change of its log-probability, added up over its tokens, is the influence of that "
        f"{piece} on the response, in nats.",
        caveat=NO_GUARANTEE,
        sections=[
            b.Section(
                b.Untrusted(case.id, 80),
                b.Later(partial(_blocks, case, shared if several else {}, n_cut)),
                b.cells(index, case),
                weight=_weight(case),
            )
            for case, n_cut in of_list
        ],
        index=b.heads(index),
        index_caption="Responses, those with personal or secret disclosures first" if several else "",
        sections_left_out="that disclose less",
        notes=notes,
        guide_to="piece",
        has_posteriors=any(drawn),
    )


def _overview(cases: Sequence[InfluenceResult], sections: Mapping[str, str], n_cut: int) -> Iterator[b.Block]:
    yield disclosure_report.headline(cases, sections)
    yield from disclosure_report.further(cases, n_cut)
    n, values = len(cases), [case.whole_nats for case in cases]
    # Those that were held against an irrelevant text because of what was found are no sample of all.
    held = [case for case in cases if case.steps is None or case.steps.in_placebo_sample]
    above = sum(map(findings.is_finding, held))
    share = scale.share_in(above / len(held), interval_of_share(above, len(held)))
    of_sample = f" {len(held):,} that were drawn at random" if len(held) < n else f" {n:,}"
    n_given = sum(not case.response.sampled for case in cases)
    opening = "For the scoring model, the" if n_given else "The"
    nouns = f"{disclosure_report.noun_of(cases)}s" if any(case.channel for case in cases) else "responses"
    noun = f"given {nouns}" if n_given == n else nouns
    yield from map(b.Text, _stepwise(cases))
    yield b.Text(
        f"{opening} {_whole(cases, 's')} changed {n:,} {noun} by {mean_text(values)} on average, and one by "
        f"{nats_text(max(values))}\u00a0nats; {above:,} of{of_sample} ({share}) by more than an irrelevant text."
    )
    if n_given:
        share = "The" if n_given == n else f"{n_given:,} of the"
        verb = "was" if n_given == 1 < n else "were"
        yield b.Text(
            f"{share} responses {verb} given, not drawn from the scoring model. The numbers hold for the scoring "
            "model; another model would give different numbers."
        )


def _stepwise(cases: Sequence[InfluenceResult]) -> Iterator[str]:
    """How far the cases of a log that is measured step by step were measured."""
    last = Counter(case.steps.last for case in cases if case.steps is not None)
    if last:
        yield (
            f"{last.total():,} responses were measured step by step: {last['whole']:,} with their context and without "
            f"it only, {last['controls']:,} beside contexts of other cases too, {last['pieces']:,} without each piece "
            "as well. --complete measures everything of each."
        )


def _advice(cases: Sequence[InfluenceResult]) -> Iterator[b.Advice]:
    # Where the system prompt alone was measured, the influence of the rest on the answers is not known.
    cases = [case for case in cases if case.unmarked_query_tokens is None]
    if not cases:
        return
    table = _ADVICE_OF_EXEMPLARS if cases[0].unit == EXEMPLAR else _ADVICE
    if not permitted.is_judged(cases):
        table = {name: row for name, row in table.items() if name != "permitted"}
    met = _met(cases)
    partial_table = search_report.ADVICE if any(map(search_report.is_partial, cases)) else {}
    rows: list[tuple[b.Phrase, b.Phrase]] = []
    for name in table:
        if meeting := met.get(name):
            condition, action = partial_table.get(name, table[name])
            ids = () if name in _CALM else disclosure_report.ids_of(meeting, len(cases))
            rows.append(((*b.parts(condition), *ids), action))
    yield b.Advice(rows, [row for name, row in table.items() if not met.get(name)])


def _met(cases: Sequence[InfluenceResult]) -> dict[str, Sequence[InfluenceResult]]:
    if cases[0].unit == EXEMPLAR:
        above = [case for case in cases if context.leader(case) is not None]
        met: dict[str, Sequence[InfluenceResult]] = {"spare": above} if above else {"nothing": cases}
    else:
        met = {
            "personal": [case for case in cases if permitted.withheld(disclosure_report.personal(case))],
            "retold": [case for case in cases if permitted.withheld(disclosure_report.retold(case))],
            "whole": [case for case in cases if findings.is_finding(case) and not case.disclosed],
        }
        if not any(met.values()):
            told = [leak for case in cases if case.policy is not None for leak in case.disclosed]
            met["permitted" if told and not permitted.withheld(told) else "nothing"] = cases
    met["doubtful"] = [case for case in cases if context.doubt(case) is not None]
    # That nothing was found says nothing where numbers are too uncertain, or answers were not measured.
    is_known = not met["doubtful"] and not any(case.unmeasured_answers for case in cases)
    return {name: meeting for name, meeting in met.items() if name not in _CALM or is_known}


def _weight(case: InfluenceResult) -> float:
    """Ranks personal or secret data that its recipient may not know first, then findings, then the rest."""
    if leaks := permitted.withheld(disclosure_report.personal(case)):
        return _FIRST + min(disclosure_report.shown_nats(leaks[0]) or 0.0, _FIRST)
    return case.whole_nats if findings.is_finding(case) else -1 / (1 + case.whole_nats)


def _disclosed_nats(case: InfluenceResult) -> b.Cell:
    most = disclosure_report.most(case)
    nats = None if most is None else disclosure_report.shown_nats(most)
    if most is None or nats is None:
        return None
    return b.Shaded(nats, scale.heat(nats, LEAST_NATS) if most.is_sensitive else 0)


_INDEX: Final[b.Columns[InfluenceResult]] = [
    (b.Column("Nats", "signed_nats", shade=True), _disclosed_nats),
    (b.Column("Discloses"), disclosure_report.summary),
    (b.Column("Response", on="pages"), lambda case: b.Untrusted(case.response.text, 72)),
    (b.Column("Whole context", "nats", "nats"), lambda case: case.whole_nats),
]


def _blocks(case: InfluenceResult, shared: dict[str, str], n_cut: int) -> Iterator[b.Block]:
    yield disclosure_report.headline([case])
    yield from disclosure_report.further([case], n_cut)
    yield b.Text((f"{verdict(case)} ", *b.parts(_conclusion(case))))
    yield from search_report.blocks(case)
    yield from _unmeasured(case)
    if not shared:
        if not case.response.sampled:
            yield b.Text(GIVEN_RESPONSE)
        yield from _advice([case])
    yield from b.warnings_of(context.warnings(case))
    yield from disclosure_report.tables([case])
    yield _attribution(case)
    yield from search_report.tables(case)
    yield from search_report.facts(case)
    yield from _samples(case)
    own = {name: value for name, value in context.settings(case).items() if shared.get(name) != value}
    if own:
        yield b.Details("Settings and cost", b.facts_of(own))


def _unmeasured(case: InfluenceResult) -> Iterator[b.Text]:
    if case.steps is not None and case.steps.last != "pieces":
        why = (
            "words show which piece each disclosure is from"
            if case.disclosed
            else "no span of the response could be a disclosure"
        )
        yield b.Text(f"Pieces of the context were not measured, since {why}; --complete measures them.")
    n, n_documents = case.n_unmeasured_pieces, case.n_unmeasured_documents
    if n and n_documents:
        whose = "their document has no effect" if n_documents == 1 else "their documents have no effect"
        yield b.Text(
            f"{n:,} sentence{'s' if n > 1 else ''} of {n_documents:,} document{'s' if n_documents > 1 else ''} "
            f"{'were' if n > 1 else 'was'} not measured, since {whose}: no stretch of the response was made likelier "
            f"by more than noise, an irrelevant text or {ladder.LEAST_EFFECT_NATS:g}\u00a0nat."
        )


def _conclusion(case: InfluenceResult) -> b.Phrase:
    piece = context.leader(case)
    if piece is None:
        nothing = (
            "No personal data was found in it to ablate."
            if case.unit == "entity"
            else "It has no piece that could be ablated."
        )
        if case.steps is not None and case.steps.last != "pieces":
            return posterior(case)
        noun = f"{_piece(case)}{search_report.scored(case)}"
        none = f"No {noun} is above noise and placebo." if case.pieces else nothing
        return f"{posterior(case)} {none}"
    ablated = "all its mentions" if piece.kind == "value" or piece.n_mentions > 1 else "it"
    irrelevant = "" if case.placebo_nats is None else f", an irrelevant text by {nats_text(case.placebo_nats)}"
    sure = ""
    if piece.posterior is not None:
        sure = f" An observer would be {scale.percent(piece.posterior)} sure that it was in the context."
    moved_nats = nats_text(piece.nats)
    moved = f"”: ablating {ablated} moves the response by {moved_nats}\u00a0nats{irrelevant}."
    called = piece.name if case.unit == EXEMPLAR or piece.kind in ("document", "fields") else piece.text
    strongest = f"{_piece(case)}{search_report.scored(case)} is {'the document ' * (piece.kind == 'document')}"
    return (
        posterior(case),
        f" The strongest {strongest}“",
        b.Untrusted(called, 120),
        moved + sure,
    )


def _attribution(case: InfluenceResult) -> b.Attribution:
    pieces = case.pieces
    floors = context.token_floors(case, case.placebo_alone_per_token_nats, is_finding=findings.is_finding(case))
    tokens = context.coloured_tokens(case)
    query: tuple[b.Block, ...] = (b.Text(b.Untrusted(case.query), "prose", heading="Query"),) if case.query else ()
    units = "Exemplars" if case.unit == EXEMPLAR else "Pieces of the context"
    if search_report.is_partial(case):
        units = "Pieces of the context that were scored exactly"
    captions = {
        "document": "Documents",
        "unit": units,
        "value": "Values with several mentions, all ablated together",
    }
    ranked = {kind: context.by_nats(case, kind) for kind in captions}
    tables = [_table(case, ranked[kind], caption) for kind, caption in captions.items() if ranked[kind]]
    return b.Attribution(
        context=_context(case),
        response=b.ShadedText(
            (b.Passage(tokens),),
            heading=(
                "Response, each token coloured by the influence of the whole context (",
                context.provenance(case),
                ")",
            ),
            floor_nats=case.noise_floor_per_token_nats,
            style="tokens",
        ),
        tables=tables,
        nats=[piece.nats if findings.is_finding(case, piece) else 0.0 for piece in pieces],
        signed_by_token=[piece.signed_per_token_nats for piece in pieces],
        whole_signed_by_token=case.whole_signed_per_token_nats,
        floor_by_token=context.token_floors(case, case.placebo_per_token_nats),
        whole_floor_by_token=floors,
        beside=query,
        partly=search_report.is_partial(case),
        disclosures=disclosure_report.disclosures(case),
    )


def _context(case: InfluenceResult) -> b.ShadedText:
    pieces = case.pieces
    shown = [*context.by_nats(case, "unit"), *context.by_nats(case, "document")]
    ranked = [i for i in context.by_nats(case, "unit")[:_LISTED] if findings.is_finding(case, pieces[i])]
    ranks = {i: rank for rank, i in enumerate(ranked, 1)}
    order = {i: place for place, i in enumerate(shown)}
    # What was not scored exactly comes behind, so that numbers of pieces stay what they are.
    left = search_report.units_left(case)
    passages: list[tuple[int | None, list[b.Segment]]] = []
    for stretch in context.stretches(case.context, case.documents, [*pieces, *left]):
        if not passages or passages[-1][0] != stretch.document:
            passages.append((stretch.document, []))
        units = sorted((i for i in stretch.units if i < len(pieces)), key=lambda i: order[i])
        top = pieces[units[0]] if units else None
        is_finding = top is not None and findings.is_finding(case, top)
        unknown = [left[i - len(pieces)] for i in stretch.units if i >= len(pieces)]
        remarks: list[b.Phrase] = [] if top is None else [(b.Untrusted(top.name, 40), f": {scale.nats_cell(top.nats)}")]
        remarks += [search_report.unscored(case, piece) for piece in unknown]
        passages[-1][1].append(
            b.Segment(
                b.Untrusted(stretch.text),
                None if top is None else top.nats if is_finding else 0.0,
                units,
                stretch.values,
                b.joined(remarks, "; "),
                ranks.get(units[0]) if units else None,
                # Beside a finding it is known what stands there; beside none it is not.
                unmeasured=search_report.why(unknown[0]) if unknown and not is_finding else "",
                parts=disclosure_report.parts(stretch, case.disclosed),
            )
        )
    documents = case.documents
    several = len(documents) > 1
    return b.ShadedText(
        [
            b.Passage(segments, b.Untrusted(documents[number].name, 60) if several and number is not None else "")
            for number, segments in passages
            # The blank line between two documents needs no passage of its own.
            if number is not None or any(segment.text.text.strip() for segment in segments)
        ],
        heading="Context, each piece coloured by its influence beyond the placebo",
        floor_nats=_floor(case),
        floor_name="noise" if case.placebo_nats is None else "placebo",
    )


def _floor(case: InfluenceResult) -> float:
    return max((findings.floor_nats(case, piece) for piece in case.pieces), default=case.noise_floor_nats)


def _table(case: InfluenceResult, ranked: Sequence[int], caption: str) -> b.Table:
    swaps = any(piece.swapped_nats is not None for piece in case.pieces)
    has_alone = any(case.pieces[i].alone_nats is not None for i in ranked)
    piece_name = "document" if case.pieces[ranked[0]].kind == "document" else _piece(case)
    sampled = any(piece.mean_nats is not None for piece in case.pieces)
    columns: list[tuple[b.Column, Callable[[PieceInfluence], b.Cell], bool]] = [
        (b.Column(piece_name.capitalize()), lambda piece: b.Untrusted(piece.name, 24), True),
        (b.Column("Text"), lambda piece: b.Noted(b.Untrusted(piece.text, 120), _remarks(case, piece)), True),
        (b.Column("Without it", "nats", bar=True, role="nats"), lambda piece: piece.nats, True),
        (b.Column("Found by"), lambda piece: search_report.found_by(case, piece), case.search is not None),
        (b.Column(_SURROGATE, "nats", role="whole"), lambda piece: piece.swapped_nats, swaps),
        (
            b.Column("Signed", "signed_nats", role="signed", on="wide", detail=True),
            lambda piece: piece.signed_nats,
            True,
        ),
        (b.Column("Alone", "nats", role="whole", detail=True), lambda piece: piece.alone_nats, has_alone),
        (
            b.Column(_POSTERIOR, "posterior", role="whole"),
            lambda piece: _posterior(case, piece),
            case.response.sampled,
        ),
        (b.Column(_FINDING, role="whole"), lambda piece: _posterior(case, piece), not case.response.sampled),
        (
            b.Column("Over samples", role="whole", detail=True),
            lambda piece: _over_samples(piece, "") or scale.NOT_MEASURED,
            sampled,
        ),
    ]
    shown = [(column, cell) for column, cell, is_there in columns if is_there]
    rows = []
    for index in ranked:
        piece = case.pieces[index]
        cells = [cell(piece) for _, cell in shown]
        rows.append(b.Row(cells, piece=index, quiet=not findings.is_finding(case, piece)))
    noise = f"{nats_text(case.noise_floor_nats)}\u00a0nats{context.whose_noise(case)}"
    marks = [b.Mark("noise floor", case.noise_floor_nats, noise)]
    if case.placebo_nats is not None:
        unsigned, signed = nats_text(case.placebo_nats), nats_text(case.placebo_signed_nats)
        alone = f"as the only context, with signs, {nats_text(case.placebo_alone_signed_nats)}"
        note = f"{unsigned}\u00a0nats, with signs at most {signed}; {alone}"
        marks.append(b.Mark("placebo", case.placebo_nats, note))
    return b.Table(
        [column for column, _ in shown], rows, caption, rest=(piece_name, f"{piece_name}s"), first=_LISTED,
        marks=marks, floor_nats=_floor(case), sortable=len(rows) > 1, filterable=len(rows) > _LISTED, numbered=True,
    )  # fmt: skip


def _remarks(case: InfluenceResult, piece: PieceInfluence) -> list[b.Phrase]:
    remarks: list[b.Phrase] = []
    if piece.document and len(case.documents) > 1 and piece.document != piece.name:
        remarks.append(b.Untrusted(piece.document, 40))
    n = len(piece.spans)
    if piece.kind == "value":
        remarks.append(f"{n} mention{'s' if n != 1 else ''}")
    remarks += search_report.remarks(case, piece)
    flags = []
    if piece.below_noise_floor:
        flags.append("below noise")
    elif not findings.is_finding(case, piece):
        flags.append(_placebo_flag(case, piece))
    if piece.entity_type:
        n = piece.n_mentions
        repetition = "not repeated" if piece.repeated == "no" else f"repeated {piece.repeated}"
        flags.append(f"{n} mention{'s' if n > 1 else ''}, {repetition}")
    if piece.surrogate:
        flags.append(f"surrogate: {excerpt(piece.surrogate, 60)}")
    repeats = piece.repeats
    if repeats:
        n = n_listed(len(repeats), 4)
        more = f" and {len(repeats) - n} more" if len(repeats) > n else ""
        flags.append(f"repeated elsewhere ({', '.join(excerpt(name, 24) for name in repeats[:n])}{more})")
    elif piece.redundant:
        flags.append("said elsewhere too")
    if piece.redundant:
        flags.append(f"“alone” {nats_text(piece.alone_nats)}\u00a0nats")
    return [*remarks, *map(b.Untrusted, flags)]


def _placebo_flag(case: InfluenceResult, piece: PieceInfluence) -> str:
    """Which of its sums is not above the placebo's: the one without signs stands beside it, the other need not."""
    if piece.nats <= findings.floor_nats(case, piece):
        return "below the placebo"
    if piece.posterior_note != BELOW_PLACEBO:
        return f"with signs {piece.posterior_note}"
    is_whole = piece.signed_per_token_nats == case.whole_signed_per_token_nats
    placebo = case.placebo_alone_signed_nats if is_whole else case.placebo_signed_nats
    return f"with signs {nats_text(piece.signed_nats)}, within the placebo’s {nats_text(placebo)}"


def _posterior(case: InfluenceResult, piece: PieceInfluence) -> b.Cell:
    """The posterior, or that of a given response there is none, or the baseline that the piece is below."""
    if findings.is_finding(case, piece):
        return "yes" if piece.posterior is None else piece.posterior
    return "<\u00a0placebo" if is_above_baselines(piece.posterior, piece.posterior_note) else posterior_cell(piece)


def _samples(case: InfluenceResult) -> Iterator[b.Block]:
    if case.whole_mean_nats is None:
        return
    samples, shown = case.samples, findings.shown_in_context(case.pieces)
    over = _over_samples(case, "whole_")
    yield b.Text(f"Over {len(samples)} sampled responses, nats: {over}.", detail=True)
    rows = []
    for sample in samples:
        nats = {i: sample.piece_nats[i] for i in shown if case.pieces[i].kind != "value"}
        top = max(nats, key=lambda i: (nats[i], -i), default=None)
        strongest: b.Phrase = ""
        if top is not None:
            strongest = (b.Untrusted(case.pieces[top].name, 40), f" {scale.nats_cell(nats[top])}")
        rows.append(b.Row((b.Untrusted(sample.text, 160), sample.whole_nats, strongest)))
    columns = (
        b.Column("Response"),
        b.Column("Nats", "nats", bar=True),
        b.Column(f"Strongest piece{search_report.scored(case)}"),
    )
    yield b.Table(
        columns,
        rows,
        caption=f"Sampled again: {len(samples)} response{'s' if len(samples) != 1 else ''}",
        rest=("response", "responses"),
        detail=True,
    )


def _whole(cases: Sequence[InfluenceResult], plural: str = "") -> str:
    if is_of_system_prompts(cases):
        return f"system prompt{plural}"
    return f"set{plural} of exemplars" if cases[0].unit == EXEMPLAR else f"context{plural}"


def _piece(case: InfluenceResult) -> str:
    return EXEMPLAR if case.unit == EXEMPLAR else "piece"


# ---- sentences ------------------------------------------------------------------------------------------------------
def verdict(case: InfluenceResult) -> str:
    """One sentence: by how many nats the context as a whole changed the response."""
    noun = "this response" if case.response.sampled else "this given response"
    opening = "The" if case.response.sampled else "For the scoring model, the"
    doubt = context.doubt(case)
    if doubt is not None and not findings.is_finding(case):
        return f"Whether the {_whole([case])} left a trace in {noun} cannot be said: {doubt}."
    if context.is_nothing(case, case.whole_nats):
        return f"{opening} {_whole([case])} as a whole left no measurable trace in {noun}."
    over = _over_samples(case, "whole_")
    draws = "" if over is None else f" (mean of {len(case.samples)} draws {over})"
    statement = f"{opening} {_whole([case])} as a whole changed {noun} by {nats_text(case.whole_nats)}\u00a0nats{draws}"
    if findings.is_finding(case):
        return f"{statement}."
    if not findings.is_held_against_irrelevant(case):
        return f"{statement}; what an irrelevant text does to it was not measured."
    signs = "" if case.whole_nats <= findings.floor_nats(case) else "with signs "
    other = "rounding" if case.whole_posterior_note == BELOW_NOISE else "an irrelevant text"
    return f"{statement}, {signs}no more than {other}."


def posterior(case: InfluenceResult) -> str:
    """One sentence: what someone who sees only the response can conclude about the context."""
    if context.doubt(case) is not None and not findings.is_finding(case):
        return f"So it is not known what a reader of the response learns about whether this {_whole([case])} was there."
    if context.is_nothing(case, case.whole_nats):
        return f"A reader of the response learns nothing about whether this {_whole([case])} was there."
    is_above = is_above_baselines(case.whole_posterior, case.whole_posterior_note)
    if is_above and findings.is_held_against_irrelevant(case) and not findings.is_finding(case):
        no_posterior = "No posterior is shown: the" if case.response.sampled else "The"
        return f"{no_posterior} unsigned sum is no larger than an irrelevant text’s."
    return context.posterior_sentence(case, "whole_", f"this {_whole([case])}")


def _over_samples(numbers: InfluenceResult | PieceInfluence, prefix: str) -> str | None:
    """Mean, 95 % interval and worst in nats; None where nothing was sampled again."""
    mean, interval, worst = (getattr(numbers, f"{prefix}{name}_nats") for name in ("mean", "interval", "worst"))
    if mean is None:
        return None
    return f"{scale.nats_in(mean, interval)}, worst {nats_text(worst)}"


_PIECES_AT_MOST: Final = 30
_TOKENS_AT_MOST: Final = 60


def charts(cases: Sequence[InfluenceResult]) -> Iterator[b.Chart]:
    pieces = _of_one(cases[0]) if len(cases) == 1 else _over_cases(cases)
    if pieces is not None:
        yield pieces
    most = max(cases, key=lambda case: case.whole_nats)
    if _units(most) and most.response.tokens:
        yield _heat_map(most)


def _units(case: InfluenceResult) -> list[PieceInfluence]:
    """The pieces that a context is cut into, in its order: units, and documents whose sentences were not measured."""
    shown = [case.pieces[i] for i in findings.shown_in_context(case.pieces) if case.pieces[i].kind != "value"]
    return sorted(shown, key=lambda piece: piece.start) if findings.has_documents(shown) else shown


def _strongest(case: InfluenceResult) -> list[PieceInfluence]:
    """The pieces of most influence that a figure has room for, in the order of the context."""
    pieces = _units(case)
    order = sorted(range(len(pieces)), key=lambda i: -pieces[i].nats)
    return [pieces[i] for i in sorted(order[:_PIECES_AT_MOST])]


def _name(piece: PieceInfluence) -> b.Phrase:
    return b.Untrusted(f"{piece.name}: {piece.text}", 48)


def _of_one(case: InfluenceResult) -> b.Chart | None:
    shown = _strongest(case)
    if not shown:
        return None
    means = [piece.mean_nats for piece in shown if piece.mean_nats is not None]
    intervals = [piece.interval_nats for piece in shown if piece.interval_nats is not None]
    is_mean, has_intervals = len(means) == len(shown), len(intervals) == len(shown)
    left_out = len(_units(case)) - len(shown)
    unknown = len(units_left(case))
    nats = means if is_mean else [piece.nats for piece in shown]
    series = [
        b.ChartSeries(
            "rows",
            [nats[i] for i in places],
            [float(i) for i in places],
            low=[intervals[i][0] for i in places] if has_intervals else (),
            high=[intervals[i][1] for i in places] if has_intervals else (),
            name=name,
            faded=not of_finding,
            colour=0,
        )
        for of_finding, name in ((True, "above the placebo"), (False, "no finding"))
        if (places := [i for i, piece in enumerate(shown) if findings.is_finding(case, piece) is of_finding])
    ]
    x = b.Axis(f"influence of the piece{', mean over responses' * is_mean}", "nats")
    floor = case.noise_floor_nats
    guides = [b.Guide(floor, f"noise floor, {nats_text(floor)} nats", "x", "dotted")]
    if case.placebo_nats is not None:
        guides.append(b.Guide(case.placebo_nats, f"placebo, {nats_text(case.placebo_nats)} nats", "x"))
    return b.Chart(
        "pieces",
        "Influence of each piece of the context",
        [b.Panel(x, b.Axis("", names=[_name(piece) for piece in shown]), series, guides=guides)],
        footer=_in_one_line(
            "Bars: 95 % intervals over responses that were drawn" if has_intervals else "",
            f"{left_out:,} weaker pieces left out" if left_out else "",
            f"{unknown:,} without an exact value are not shown" if unknown else "",
        ),
        panel_inches=(7.2, 1.1 + 0.24 * max(len(shown), 4)),
        on="files",
    )


def _over_cases(cases: Sequence[InfluenceResult]) -> b.Chart | None:
    """Pieces at the same place of their contexts; None where cases were cut otherwise, or personal data was.

    None too where some pieces have no exact value: those that have one were chosen for it, and means would be too high.
    """
    if len({case.unit for case in cases}) > 1 or any(case.unit == "entity" or is_partial(case) for case in cases):
        return None
    if any(case.n_unmeasured_pieces or case.steps is not None for case in cases):
        return None
    by_name: dict[str, list[float]] = {}
    for case in cases:
        for piece in _units(case):
            by_name.setdefault(piece.name, []).append(piece.nats)
    enough = {name: values for name, values in by_name.items() if 2 * len(values) >= len(cases)}
    shown = dict(list(enough.items())[:_PIECES_AT_MOST])
    if not shown:
        return None
    means = [aggregate(values, "mean") for values in shown.values()]
    ends = [
        interval_of_aggregate(values, "mean", seed=0) or (mean, mean)
        for values, mean in zip(shown.values(), means, strict=True)
    ]
    series = b.ChartSeries("bar", means, low=[low for low, _ in ends], high=[high for _, high in ends])
    x = b.Axis(
        ("piece (", b.Untrusted(cases[0].unit, 40), "), by its place"), names=[b.Untrusted(name) for name in shown]
    )
    later = len(enough) - len(shown)
    intervals = "with 95 % intervals" if len(cases) >= FEWEST_FOR_INTERVAL else "too few for intervals"
    return b.Chart(
        "pieces",
        "Influence by place in the context",
        [b.Panel(x, b.Axis("influence of the piece", "nats"), (series,))],
        footer=_in_one_line(
            f"Means over {len(cases):,} cases, {intervals}; pieces that at least half of them have",
            f"{later:,} later ones left out" if later else "",
        ),
        panel_inches=(max(4.8, 1.0 + 0.32 * len(shown)), 3.8),
        on="files",
    )


def _heat_map(case: InfluenceResult) -> b.Chart:
    shown = _strongest(case)
    tokens = case.response.tokens[:_TOKENS_AT_MOST]
    left_out = len(_units(case)) - len(shown), len(case.response.tokens) - len(tokens)
    unknown = len(units_left(case))
    floors = (case.placebo_per_token_nats or [case.noise_floor_per_token_nats] * len(tokens))[: len(tokens)]
    panel = b.Panel(
        b.Axis("token of the response", names=[b.Untrusted(token, 14) for token in tokens]),
        b.Axis("", names=[_name(piece) for piece in shown]),
        grid=[
            [
                max(0.0, nats - floor) if findings.is_finding(case, piece) else 0.0
                for nats, floor in zip(piece.per_token_nats, floors, strict=False)
            ]
            for piece in shown
        ],
    )
    return b.Chart(
        "tokens",
        "Influence of each piece on each token",
        [panel],
        footer=_in_one_line(
            "The response most influenced by its context; colours are nats above the placebo",
            *(f"{n:,} more {noun} left out" for n, noun in zip(left_out, ("pieces", "tokens"), strict=True) if n),
            f"{unknown:,} pieces without an exact value not shown" if unknown else "",
        ),
        panel_inches=(3.6 + 0.16 * len(tokens), 1.6 + 0.2 * max(len(shown), 4)),
        on="files",
    )


def _in_one_line(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
