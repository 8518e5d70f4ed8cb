"""What reports say of a context that was searched: how, what may have been missed, and what is known of the rest.

Exact values are shown by the report of every context. What is here has none: it stands in tables of its own, without
bars and colours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, TypeVar

from leakmeter.core.plain import plural
from leakmeter.instruments.influence import findings
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
from leakmeter.instruments.influence.searched import AuditRound, SearchedPiece, SearchSummary
from leakmeter.report import blocks as b
from leakmeter.report.scale import interval_text, nats_text, share_text
from leakmeter.stats.hypergeometric import decimal_fraction, expected_false

T = TypeVar("T")
_LISTED: Final = 12
_SEARCHED: Final = (
    "The context was searched for the {k:,} strongest of its {n:,} pieces, screened by {screen}: {rescored:,} scored "
    "exactly because of the screen and {audited:,} drawn for the audit; {left:,} left without an exact value."
)
_SEARCHED_OF_ALL: Final = (
    "Contexts searched, screened by {screens}: {n:,} of {all:,}, with {exact:,} of {pieces:,} pieces scored exactly."
)
_AUDITED: Final = (
    "With {confidence} confidence at most {missed} {nats}\u00a0nats ({drawn:,} of the {left:,} pieces left were drawn "
    "at random and scored; {found})."
)
_INCONCLUSIVE: Final = (
    "Fewer than {k:,} pieces were scored exactly before the draw, so there was no value to exceed, and the audit is "
    "inconclusive ({drawn:,} of the {left:,} pieces left were drawn at random and scored)."
)
_ROUND: Final = "Audit, round {number}. "
_TOGETHER: Final = "All of these statements hold together with {confidence} confidence."
_STATEMENTS: Final = (
    "Each audit’s statement is about one case. Of {n:,} such statements, at most {false:.3g} {are} expected to be "
    "false."
)
_STOPPED: Final = (
    "The stopping rule, a heuristic, was not satisfied within {n:,} pieces: a piece that was not scored exactly may be "
    "as strong as those listed. Raise M (--search top:{k}:M), or audit."
)
_STOPPED_OF_ALL: Final = (
    "The stopping rule, a heuristic, was not satisfied in {early:,} of {n:,} searched cases: raise M "
    "(--search top:K:M), or audit."
)
_NO_AUDIT: Final = (
    "No piece was audited, so it is unknown what the screen missed. Audit with --audit 0.95:5%, or score every piece "
    "without --search."
)
_NO_AUDIT_OF_ALL: Final = (
    "In {without:,} of {n:,} searched cases no piece was audited, so it is unknown what the screen missed. Audit with "
    "--audit 0.95:5%, or score every piece without --search."
)
_HIDDEN: Final = "sentences that repeat each other mask each other in leave-one-out"
_MORE_THAN_PARTS: Final = (
    "The whole context moved the response by {whole}\u00a0nats, more than twice the sum over its pieces, {total} "
    f"({{how}}): {_HIDDEN}."
)
_SCREENS: Final = {
    "attention": (
        "by attention: each piece is hidden in turn from the text after the context, whose states are computed once; "
        "later text of the context has still seen it, and a piece may be underestimated"
    ),
    "removal": "by removal: groups of pieces are removed together, and then parts of the groups that move the response "
    "most",
}
ADVICE: Final[dict[str, tuple[str, str]]] = {
    "nothing": (
        "No personal or secret data disclosed, but not all pieces scored exactly",
        "the other pieces are unknown: score every piece without --search before you ship",
    ),
    "whole": (
        "The context as a whole moved the answer by more than placebo and noise, nothing is disclosed, and not all "
        "pieces were scored exactly",
        "score more pieces: raise M (`--search top:K:M`), or measure with `--unit document` or `--unit whole` before "
        "you ship",
    ),
}
"""Instead of what is advised where every piece was scored."""
NOTES: Final[tuple[tuple[str, str], ...]] = (
    (
        "Screened",
        "the response's loss while the piece is hidden. It ranks pieces for exact scoring and is not their influence, "
        "which lies in the interval with the stated confidence, for each piece separately.",
    ),
    (
        "Stopping rule",
        "a heuristic: pieces are scored exactly until the K-th exact value, or an irrelevant piece’s, exceeds the "
        "estimated maximum of the rest. It gives no confidence; the audit’s statement needs no assumption about the "
        "screen.",
    ),
)  # fmt: skip


def is_partial(case: InfluenceResult) -> bool:
    return case.search is not None and not case.search.is_complete


def scored(case: InfluenceResult) -> str:
    """What follows the word "piece" where not all pieces were scored."""
    return " that was scored exactly" if is_partial(case) else ""


def units_left(case: InfluenceResult) -> list[SearchedPiece]:
    """Units without an exact value."""
    return [] if case.search is None else [piece for piece in case.search.pieces if piece.kind == "unit"]


# ---- statements -----------------------------------------------------------------------------------------------------
def sentences(case: InfluenceResult) -> Iterator[str]:
    """What was searched, and what the audit says, the last round first; none where the context was not searched."""
    search = case.search
    if search is None:
        return
    yield _SEARCHED.format(
        k=search.k,
        n=search.n_pieces,
        screen=search.screen,
        rescored=search.n_rescored,
        audited=search.n_audited,
        left=search.n_pieces - search.n_rescored - search.n_audited,
    )
    last = len(search.rounds)
    for number, one in reversed(list(enumerate(search.rounds, 1))):
        if one.threshold_nats is not None:
            yield f"{_ROUND.format(number=number) if last > 1 else ''}{_statement(one, one.threshold_nats)}"
    if last > 1 and search.audit_confidence is not None:
        yield _TOGETHER.format(confidence=share_text(search.audit_confidence, 6))
    total, how = _sum(case, None)
    if total is not None and _is_more(case, case.whole_nats, total):
        whole = nats_text(case.whole_nats)
        yield _MORE_THAN_PARTS.format(whole=whole, total=nats_text(total), how=how or "all exact")


def warnings(case: InfluenceResult) -> Iterator[b.Warning]:
    """Where the audit says nothing, or what was not scored may be as strong as what was."""
    search = case.search
    if search is None:
        return
    for one in search.rounds:
        if one.threshold_nats is None:
            yield b.Warning(_INCONCLUSIVE.format(k=search.k, drawn=one.n_drawn, left=one.n_left))
    if search.stopped_early:
        yield b.Warning(_STOPPED.format(n=search.n_rescored, k=search.k))
    if not search.rounds and is_partial(case):
        yield b.Warning(_NO_AUDIT)


def sentences_of_all(cases: Sequence[InfluenceResult]) -> Iterator[str]:
    """What was searched in several cases, in numbers of cases."""
    searched = _searched(cases)
    if not searched:
        return
    yield _SEARCHED_OF_ALL.format(
        screens=" and ".join(sorted({search.screen for search in searched})),
        n=len(searched),
        all=len(cases),
        exact=sum(search.n_rescored + search.n_audited for search in searched),
        pieces=sum(search.n_pieces for search in searched),
    )
    if audited := [search for search in searched if _is_audited(search)]:
        false = expected_false(1 - decimal_fraction(search.audit_confidence or 0.0) for search in audited)
        yield _STATEMENTS.format(n=len(audited), false=false, are="are" if false > 1 else "is")


def warnings_of_all(cases: Sequence[InfluenceResult]) -> Iterator[b.Warning]:
    searched = _searched(cases)
    n = len(searched)
    if early := sum(search.stopped_early for search in searched):
        yield b.Warning(_STOPPED_OF_ALL.format(early=early, n=n))
    if without := sum(not _is_audited(search) and not search.is_complete for search in searched):
        yield b.Warning(_NO_AUDIT_OF_ALL.format(without=without, n=n))


def _searched(cases: Sequence[InfluenceResult]) -> list[SearchSummary]:
    return [case.search for case in cases if case.search is not None]


def _is_audited(search: SearchSummary) -> bool:
    return any(one.threshold_nats is not None for one in search.rounds)


def _statement(audit: AuditRound, threshold_nats: float) -> str:
    missed = plural(audit.most_missed, "piece that is not listed exceeds", "pieces that are not listed exceed")
    found = f"{audit.n_found:,} exceeded it and {plural(audit.n_found, 'is', 'are')} listed now"
    return _AUDITED.format(
        confidence=share_text(audit.confidence, 6),
        missed=f"{audit.most_missed:,} {missed}",
        nats=_at_least(threshold_nats),
        drawn=audit.n_drawn,
        left=audit.n_left,
        found=found if audit.n_found else "none exceeded it",
    )


def _at_least(nats: float) -> str:
    """Three digits, rounded up: pieces that exceed what is printed exceed the number too."""
    if not 1e-3 <= nats < float("inf"):
        return nats_text(nats)
    exact = Decimal(nats)
    return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), rounding=ROUND_CEILING):f}"


def facts(case: InfluenceResult) -> Iterator[b.Facts]:
    search = case.search
    if search is None:
        return
    rows: list[tuple[b.Phrase, b.Phrase | b.Shaded]] = [("Screen", _SCREENS[search.screen])]
    if search.threshold_nats is not None:
        audited = ", with those of the audit" if search.n_audited else ""
        rows.append((f"Exact value no. {search.k:,}{audited}", f"{nats_text(search.threshold_nats)}\u00a0nats"))
    if search.reach_nats is not None:
        met = "not satisfied" if search.stopped_early else "satisfied"
        reach = f"estimated maximum of the rest: {nats_text(search.reach_nats)}\u00a0nats"
        rows.append(("Stopping rule (a heuristic)", f"{met}: {reach}"))
    if units_left(case) and search.screen == "attention":
        level = search.interval_confidence
        known = "" if level is None else f"at {share_text(level, 6)} confidence, each by itself"
        rows.append(("Intervals of screened values", known or "none: too few pieces were audited"))
    yield b.Facts(rows, "Search")


# ---- pieces with exact values ---------------------------------------------------------------------------------------
def found_by(case: InfluenceResult, piece: PieceInfluence) -> str:
    return "audit" if _round_of(case, piece) else "screen"


def remarks(case: InfluenceResult, piece: PieceInfluence) -> list[str]:
    drawn = _round_of(case, piece)
    missed = drawn and drawn.threshold_nats is not None and piece.nats > drawn.threshold_nats
    return ["missed by the screen, found by the audit"] if missed else []


def _round_of(case: InfluenceResult, piece: PieceInfluence) -> AuditRound | None:
    """The round of the audit that drew a piece."""
    rounds = () if case.search is None else case.search.rounds
    return next((audit_round for audit_round in rounds if piece.name in audit_round.drawn), None)


# ---- pieces without -------------------------------------------------------------------------------------------------
def why(piece: SearchedPiece) -> b.Unmeasured:
    return "unseen" if piece.screened_nats is None else "screened"


def unscored(case: InfluenceResult, piece: SearchedPiece) -> b.Phrase:
    confidence = None if case.search is None else case.search.interval_confidence
    name = b.Untrusted(piece.name, 40)
    if piece.screened_nats is None:
        group = _group_nats(piece)
        group_text = "" if group is None else f"; its group moved the response by {nats_text(group)}\u00a0nats"
        return name, f": not scored individually{group_text}"
    within = ""
    if piece.interval_nats is not None and confidence is not None:
        within = f", exact value in{interval_text(piece.interval_nats)} with {share_text(confidence, 6)} confidence"
    return name, f": screened only, {nats_text(piece.screened_nats)}\u00a0nats{within}"


def tables(case: InfluenceResult) -> Iterator[b.Table]:
    search = case.search
    if search is None:
        return
    if search.levels:
        yield _levels(case, search)
    named: b.Columns[SearchedPiece] = [
        (b.Column("Piece"), lambda piece: b.Untrusted(piece.name, 24)),
        (b.Column("Text"), lambda piece: _text(case, piece)),
    ]
    screened = [piece for piece in search.pieces if why(piece) == "screened"]
    if screened:
        columns = [*named, (b.Column("Screened", "nats", "nats"), lambda piece: piece.screened_nats)]
        if search.interval_confidence is not None:
            heading = f"Exact value, {share_text(search.interval_confidence, 6)}"
            columns.append((b.Column(heading, "interval", "nats"), lambda piece: b.interval(piece.interval_nats)))
        screened.sort(key=lambda piece: -(piece.screened_nats or 0.0))
        rest = ("screened piece", "screened pieces")
        yield _listed(screened, columns, "Screened only: no exact value", rest, quiet=lambda piece: True)
    unseen = [piece for piece in search.pieces if why(piece) == "unseen"]
    if unseen:
        columns = [*named, (b.Column("Its group", "nats", "nats"), _group_nats)]
        unseen.sort(key=lambda piece: -(_group_nats(piece) or 0.0))
        yield _listed(unseen, columns, "Not scored individually", ("piece", "pieces"), quiet=lambda piece: True)


def _listed(items: Sequence[T], columns: b.Columns[T], caption: str, rest: tuple[str, str], **more: Any) -> b.Table:
    sortable, many = len(items) > 1, len(items) > _LISTED
    return b.table_of(items, columns, caption, rest=rest, first=_LISTED, sortable=sortable, filterable=many, **more)


def _text(case: InfluenceResult, piece: SearchedPiece) -> b.Cell:
    notes: list[b.Phrase] = []
    if piece.document and len(case.documents) > 1 and piece.document != piece.name:
        notes.append(b.Untrusted(piece.document, 40))
    if piece.kind == "value":
        notes.append(f"{piece.n_mentions:,} mention{'s' if piece.n_mentions != 1 else ''}")
    return b.Noted(b.Untrusted(piece.text, 120), notes) if notes else b.Untrusted(piece.text, 120)


def _group_nats(piece: SearchedPiece) -> float | None:
    # A group that was never removed has the whole prompt's numbers: 0 nats.
    return piece.group_nats or None


# ---- wholes and their parts -----------------------------------------------------------------------------------------
def _levels(case: InfluenceResult, search: SearchSummary) -> b.Table:
    def text(level: SearchedPiece) -> b.Cell:
        total, how = _sum(case, level.spans)
        notes = [how] if how else []
        value = level.screened_nats if level.nats is None else level.nats
        if total is not None and value is not None and _is_more(case, value, total):
            screened = "screened value " if level.nats is None else ""
            notes.append(f"{screened}more than twice the sum of its pieces: {_HIDDEN}")
        return b.Noted(b.Untrusted(level.text, 120), notes)

    kinds = {level.kind for level in search.levels}
    kind = "Document or paragraph" if len(kinds) > 1 else search.levels[0].kind.capitalize()
    columns: b.Columns[SearchedPiece] = [
        (b.Column(kind), lambda level: b.Untrusted(level.name, 24)),
        (b.Column("Text"), text),
        (b.Column("Exact", "nats", "nats"), lambda level: level.nats),
        (b.Column("Screened", "nats", "nats"), lambda level: level.screened_nats),
        (b.Column("Sum over its pieces", "nats", "nats"), lambda level: _sum(case, level.spans)[0]),
    ]
    if search.screen != "attention":
        del columns[3]
    ordered = sorted(search.levels, key=lambda level: (level.nats is None, -(level.nats or level.screened_nats or 0.0)))
    caption = "Documents and paragraphs of the pieces"
    return _listed(ordered, columns, caption, ("more", "more"), quiet=lambda level: level.nats is None)


def _is_more(case: InfluenceResult, nats: float, of_parts: float) -> bool:
    return nats > findings.floor_nats(case) and nats > 2 * of_parts


def _sum(case: InfluenceResult, within: Collection[tuple[int, int]] | None) -> tuple[float | None, str]:
    """Sum over the pieces that stand in ranges of characters, or over all, and how each was known.

    None where nothing is known of a piece by itself.
    """

    def stands_in(piece: PieceInfluence | SearchedPiece) -> bool:
        return within is None or all(any(a <= start and end <= z for a, z in within) for start, end in piece.spans)

    exact = [piece.nats for piece in case.pieces if piece.kind == "unit" and stands_in(piece)]
    left = [piece for piece in units_left(case) if stands_in(piece)]
    screened = [piece.screened_nats for piece in left if piece.screened_nats is not None]
    counted = Counter(exact=len(exact), screened=len(screened))
    counted["not looked at"] = len(left) - len(screened)
    how = "pieces: " + ", ".join(f"{n:,} {name}" for name, n in counted.items() if n) if left else ""
    return (sum(exact) + sum(screened) if len(screened) == len(left) else None), how


def cell(case: InfluenceResult) -> str:
    search = case.search
    if search is None or search.is_complete:
        return "nothing: all scored"
    if not search.rounds:
        return "not audited"
    last = search.rounds[-1]
    if last.threshold_nats is None:
        return "not known"
    return f"at most {last.most_missed:,} above {_at_least(last.threshold_nats)}\u00a0nats"
