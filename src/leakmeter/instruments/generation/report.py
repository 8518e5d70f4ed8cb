"""What an audit of private generation says of one batch or of many, and of what may be published, as blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.instruments.generation import words
from leakmeter.instruments.generation.charts import figures, of_batch
from leakmeter.report import blocks as b
from leakmeter.report.shade import Case

_FAILURES: Final = 10
_SHOWN: Final = 5
"""Exemplars, tokens and texts that a terminal shows of many."""
_OPEN: Final = 10
"""Exemplars that a page shows of many."""
_TOKENS: Final = 10
_SHARE_DIGITS: Final = 3
_NOTES: Final = (
    ("Measured", "the larger of Dα(P‖Q) and Dα(Q‖P), Rényi divergences between the next token’s distribution with all "
                 "exemplars and without one of them, over the whole vocabulary, added up over tokens."),
    ("Kept", "of every exemplar, for each token and for all together, no more than is promised at any order."),
    ("Perplexity", "e to the mean of −log p of the tokens, of the model’s own p without exemplars."),
    ("Distinct-n", "distinct n-grams of tokens over all."),
)  # fmt: skip


def report(
    cases: Sequence[Case],
    summary: Mapping[str, Any],
    *,
    command: str | None = None,
    provenance: b.Provenance = b.Provenance(),  # noqa: B008 (frozen)
) -> b.Report:
    """The verdict on all batches, and of each what was promised, what was measured, who paid most, and its texts.

    Args:
        cases: see `instruments.generation.result.case_object`; one or more.
        summary: theirs, see `instruments.generation.result.summary`.
        command: the command line they came from.
        provenance: of the run they lie in.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError("no batch to show: a report needs at least one, as `leakmeter audit run --json` prints them")
    several = len(cases) > 1
    # Broken ones come first, and are the last that a page leaves out.
    ordered = sorted(cases, key=lambda case: case["verdict"]["holds"])
    return b.Report(
        "Private generation: promised against measured",
        "private_generation",
        list(_summary(cases, summary)),
        lead="A language model wrote texts after private exemplars. What each token told of each exemplar was measured "
        "as it was drawn, and held against what the mechanism promises.",
        sections=[
            b.Section(
                b.Untrusted(case["id"].removeprefix("batch "), 80),
                list(_batch(case, several=several)),
                _cells(case),
                weight=0.0 if case["verdict"]["holds"] else 1.0,
            )
            for case in ordered
        ],
        index=(
            b.Column("Verdict"),
            b.Column("Promised", "number"),
            b.Column("Measured", "number"),
            b.Column("Share", "share", digits=_SHARE_DIGITS),
            b.Column("Exemplar"),
            b.Column("Perplexity", "number"),
        ),
        case=("batch", "batches"),
        scripted=False,
        notes=[b.Facts(_NOTES)],
        provenance=provenance,
        command=None if command is None else b.Command(b.Untrusted(command)),
    )


def public_report(publics: Sequence[Mapping[str, Any]], *, outdated: str = "") -> b.Report:
    """What may be published: the texts, what is promised of them, and how they were made; nothing that was measured.

    Args:
        publics: the `public` of batches, one or more.
        outdated: why numbers of the version that made them need care.

    Raises:
        UsageError: there is none.
    """
    if not publics:
        raise UsageError("nothing may be published: there is no batch")
    most = max((public["guarantee"] for public in publics), key=lambda told: words.infinite(told["epsilon"]))
    texts = [text for public in publics for text in public["texts"]]
    voted = (
        "Each example was given to the model alone; on every token all of them voted, with votes cut to a range and "
        "averaged, so that no single example could do much. "
    )
    return b.Report(
        "Texts with a promise",
        "private_generation",
        [
            b.Text(f"{words.guarantee(most)}.", heading="Guarantee"),
            b.Text(words.conditions(publics[0]["draws"])),
            *(_text(text, f"Text {number}") for number, text in enumerate(texts, 1)),
            b.Details("Settings", b.facts_of(words.settings(publics[0]))),
        ],
        lead="A language model wrote these texts after private examples, which are not shown here. "
        f"{voted if publics[0]['mechanism']['name'] == words.VOTING else ''}What is on this page is the texts, what "
        "was promised of them, and how they were made.",
        provenance=b.Provenance(outdated=outdated),
    )


def _text(text: str, heading: str) -> b.Text:
    return b.Text(b.Untrusted(text), "prose", heading=heading)


# ---- all batches ----------------------------------------------------------------------------------------------------
def _summary(cases: Sequence[Case], summary: Mapping[str, Any]) -> Iterator[b.Block]:
    holds, several = summary["holds"], len(cases) > 1
    yield b.Headline(words.verdict(cases), "good" if holds else "bad")
    failures = [
        (b.Untrusted(case["id"], 40), ": ", *one) if several else one for case in cases for one in words.failures(case)
    ]
    for one in failures[:_FAILURES]:
        yield b.Text(one)
    if len(failures) > _FAILURES:
        yield b.Text(f"And {len(failures) - _FAILURES:,} more.")
    if not failures:
        yield b.Text(words.measured(cases))
    if holds and not several:
        yield b.Text(words.nearest(cases[0]))
    yield b.Text(words.MEANING if holds else words.PROOF)
    if summary["n_repeated_texts"]:
        yield b.Warning(words.repeated(summary))
    yield b.Warning(words.PRIVATE)
    yield b.Text(
        f"{words.guarantee(summary['guarantee'])}.", heading="Guarantee" if holds else "Promised, and not kept"
    )
    yield b.Text(words.conditions(cases[0]["draws"] if summary["guarantee"] else None), "soft")
    if several:
        yield b.Text(
            "Batches share no exemplar: what is promised of one, and what was measured, is that of its batch alone. "
            "Promised and measured, of each: Rényi divergence at the order of the promised ε, nats.",
            "soft",
        )
    yield b.Details("Settings", b.facts_of(words.settings(cases[0])))
    yield from figures(cases)


def _cells(case: Case) -> tuple[b.Cell, ...]:
    row = words.at_promise(case)
    return (
        "kept" if case["verdict"]["holds"] else "broken",
        words.infinite(row["promised_nats"]),
        words.infinite(row["measured_nats"]),
        words.infinite(row["ratio"]),
        words.exemplar(case, row["exemplar"]),
        words.perplexity(case["text_quality"]["perplexity"]),
    )


# ---- a batch --------------------------------------------------------------------------------------------------------
def _batch(case: Case, *, several: bool) -> Iterator[b.Block]:
    if several:
        holds = case["verdict"]["holds"]
        yield b.Headline(words.verdict([case]), "good" if holds else "bad")
        if holds:
            yield b.Text(words.nearest(case))
    yield b.Text(f"Spent: {words.spent(case)}.")
    for warning in case["warnings"]:
        yield b.Warning(b.Untrusted(warning))
    yield from _orders(case)
    yield _exemplars(case)
    yield _tokens(case)
    yield from _convention(case)
    yield from _texts(case)


def _orders(case: Case) -> Iterator[b.Block]:
    """Promised and measured of all tokens together, drawn and in numbers."""
    chart = of_batch(case)
    if chart is not None:
        yield chart
    columns = (
        b.Column("Order", "number"),
        b.Column("Promised", "number"),
        b.Column("Measured", "number"),
        b.Column("Share", "share", digits=_SHARE_DIGITS),
        b.Column("Exemplar"),
        b.Column("Sum of maxima", "number"),
        b.Column("Worst token", "share", digits=_SHARE_DIGITS),
    )
    rows = [
        b.Row((
            words.order_text(row["order"]) + ("*" if row["order"] == case["promise"]["order"] else ""),
            words.infinite(row["promised_nats"]),
            words.infinite(row["measured_nats"]),
            words.infinite(row["ratio"]),
            words.exemplar(case, row["exemplar"]),
            words.infinite(row["sum_of_maxima_nats"]),
            words.infinite(row["worst_token_ratio"]),
        ))
        for row in case["by_order"]
    ]  # fmt: skip
    caption = "Rényi divergences of all tokens together, promised and measured, nats"
    yield b.Table(columns, rows, caption, first=len(rows))
    yield b.Text(
        "* the order of the promised ε. Promised: for the tokens there are. Measured: of the exemplar that told most, "
        "named beside it; share: of the promise. Sum of maxima: of each token the exemplar that told most, as the "
        "paper adds. Worst token: largest share of a token’s promise.",
        "soft",
    )


def _exemplars(case: Case) -> b.Table:
    columns = (
        b.Column("Rank", "count"),
        b.Column("Exemplar"),
        b.Column("Nats", "number"),
        b.Column("Share", "share", bar=True, digits=_SHARE_DIGITS),
        b.Column("Worst token", "share", digits=_SHARE_DIGITS),
        b.Column("Copied", "count"),
        b.Column("Text"),
    )
    rows = [
        b.Row((
            one["rank"],
            words.exemplar(case, one["name"]),
            words.infinite(one["measured_nats"]),
            words.infinite(one["ratio"]),
            words.infinite(one["worst_token"]["ratio"]),
            one["copied_tokens"],
            b.Untrusted(one["text"], 160),
        ))
        for one in words.by_rank(case)
    ]  # fmt: skip
    caption = (
        f"Who paid most, at order {words.order_text(case['promise']['order'])}; shares: of the promise; copied: tokens"
    )
    return b.Table(columns, rows, caption, rest=("exemplar", "exemplars"), first=_SHOWN, open_on_pages=_OPEN)


def _tokens(case: Case) -> b.Table:
    """Those that used most of their promise, the worst first."""
    found = [
        (words.infinite(share), i, t)
        for i, sequence in enumerate(case["sequences"])
        for t, share in enumerate(sequence["per_token"]["share_of_promise"])
    ]
    worst = sorted(found, key=lambda one: (-one[0], *one[1:]))[:_TOKENS]
    columns = (
        b.Column("Sequence", "count"),
        b.Column("Token", "count"),
        b.Column("Text"),
        b.Column("Share", "share", digits=_SHARE_DIGITS),
        b.Column("Of exemplar"),
    )
    rows = [
        b.Row((
            i + 1,
            t + 1,
            words.token(case["sequences"][i]["tokens"][t]),
            share,
            words.exemplar(case, case["sequences"][i]["per_token"]["share_exemplar"][t]),
        ))
        for share, i, t in worst
    ]  # fmt: skip
    return b.Table(
        columns,
        rows,
        "Tokens that used most of their promise; share: at the order where it is largest",
        rest=("token", "tokens"),
        first=_SHOWN,
    )


def _convention(case: Case) -> Iterator[b.Block]:
    rows = words.convention(case)
    promised = words.infinite(case["paper_convention"]["promised_epsilon"])
    yield b.Table(
        (
            b.Column("ε", "number"),
            b.Column(""),
            b.Column("Of promised", "share", bar=True, digits=_SHARE_DIGITS, on="pages"),
        ),
        [b.Row((value, said, value / promised if 0.0 < promised < math.inf else None)) for said, value in rows],
        caption="The paper’s convention, which is no verdict",
    )
    yield b.Text(words.CONVENTION, "soft")


def _texts(case: Case) -> Iterator[b.Block]:
    quality = words.quality(case["text_quality"])
    noise = words.noise(case)
    blocks: list[b.Block] = [b.Text(quality if noise is None else f"{quality} {noise}")]
    shown = [
        _text(
            one["text"],
            f"Text {number}: {len(one['tokens']):,} tokens, perplexity {words.perplexity(one['perplexity'])}",
        )
        for number, one in enumerate(case["sequences"], 1)
    ]
    blocks += shown[:_SHOWN]
    if len(shown) > _SHOWN:
        blocks.append(b.Details(f"{len(shown) - _SHOWN:,} more", shown[_SHOWN:]))
    copies = case["text_quality"]["verbatim"]
    if copies:
        columns = (
            b.Column("Sequence", "count"),
            b.Column("Passage"),
            b.Column("Longest run, tokens", "count"),
            b.Column("Exemplar"),
        )
        rows = [
            b.Row((
                one["sequence"] + 1, b.Untrusted(one["text"], 200), one["longest_run"],
                words.exemplar(case, one["exemplar"]),
            ))
            for one in copies
        ]  # fmt: skip
        blocks.append(b.Details("Copied passages", [b.Table(columns, rows, rest=("passage", "passages"))]))
    yield b.Part("Text" if len(shown) == 1 else f"{len(shown):,} texts", blocks)
