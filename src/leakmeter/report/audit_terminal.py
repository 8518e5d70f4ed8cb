"""An audit of private generation for the terminal: the verdict first; 80 columns do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.plain import visible
from leakmeter.report import audit_words as words
from leakmeter.report.paint import Composed, facts, heading
from leakmeter.report.scale import nats_cell, nats_text
from leakmeter.report.shade import Case, excerpt

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_SHOWN: Final = 5
"""Exemplars, tokens, failures and texts that are shown of many."""


def audit_view(case: Case, *, width: int | None = None) -> RenderableType:
    """A batch: verdict, guarantee and what was spent, both curves in numbers, who paid most, and the texts."""
    return Composed(lambda paint, columns: _batch(case), width)


def audit_overview(cases: Sequence[Case], summary: Mapping[str, Any], *, width: int | None = None) -> RenderableType:
    """Several disjoint batches: the verdict on all, and a line for each.

    Args:
        cases: see `instruments.generation.result.case_object`; one or more.
        summary: theirs, see `instruments.generation.result.summary`.
        width: columns at most.
    """
    return Composed(lambda paint, columns: _batches(cases, summary), width)


def audit_public_view(publics: Sequence[Mapping[str, Any]], *, width: int | None = None) -> RenderableType:
    """What may be published: the texts, and what is promised of them."""
    return Composed(lambda paint, columns: _public(publics), width)


def _batch(case: Case) -> Iterator[RenderableType]:
    from rich.text import Text

    yield from _verdict([case])
    yield Text()
    yield from _promise(case["promise"]["guarantee"], holds=case["verdict"]["holds"])
    yield Text.assemble(("Spent      ", "bold"), words.spent(case), ".")
    yield Text()
    yield heading("Rényi divergences of all tokens together, promised and measured, nats")
    yield _table(words.ORDER_HEADS, words.orders(case), left=(4,))
    yield Text("* the order of the promised ε; measured: of the exemplar that told most, named beside it", style="dim")
    yield Text()
    yield heading(f"Exemplars that paid most, at order {words.order_text(case['promise']['order'])}")
    yield _exemplars(case)
    yield Text()
    yield heading("Tokens that used most of their promise")
    rows = [(one.place, one.text, one.share, one.exemplar) for one in words.worst_tokens(case)[:_SHOWN]]
    yield _table(("sequence, token", "text", "share", "of exemplar"), rows, left=(1, 3))
    yield Text()
    yield heading("The paper’s convention, which is no verdict")
    yield _table(("ε", ""), [(nats_text(value), said) for said, value in words.convention(case)], left=(1,))
    yield Text()
    yield from _texts([one["text"] for one in case["sequences"]])
    yield Text(words.quality(case["text_quality"]))
    noise = words.noise(case)
    if noise is not None:
        yield Text(noise)
    yield Text()
    for warning in case["warnings"]:
        yield Text(f"! {visible(warning)}", style="bold")
    yield Text(words.PRIVATE, style="bold")
    yield facts(words.settings(case))


def _batches(cases: Sequence[Case], summary: Mapping[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    yield from _verdict(cases)
    yield Text()
    yield from _promise(summary["guarantee"], holds=summary["holds"])
    yield Text(
        "Batches share no exemplar: what is promised of one, and what was measured, is that of its batch alone.",
        style="dim",
    )
    if summary["n_repeated_texts"]:
        yield Text(f"! {words.repeated(summary)}", style="bold")
    yield Text()
    yield _table(
        ("batch", "verdict", "promised", "measured", "share", "exemplar", "perplexity"),
        [
            (
                excerpt(case["id"], 20),
                "kept" if case["verdict"]["holds"] else "broken",
                nats_text(words.infinite(row["promised_nats"])),
                nats_text(words.infinite(row["measured_nats"])),
                words.share_text(row["ratio"]),
                words.exemplar_text(case, row["exemplar"]),
                words.perplexity(case["text_quality"]["perplexity"]),
            )
            for case in cases
            for row in [words.at_promise(case)]
        ],
        left=(0, 1, 5),
    )
    yield Text("promised, measured: Rényi divergence at the order of the promised ε, nats", style="dim")
    yield Text()
    yield Text(words.PRIVATE, style="bold")
    yield facts(words.settings(cases[0]))


def _public(publics: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    from rich.text import Text

    yield from _texts([text for public in publics for text in public["texts"]], every=True)
    yield Text()
    most = max((public["guarantee"] for public in publics), key=lambda told: words.infinite(told["epsilon"]))
    yield from _promise(most)
    yield Text(words.conditions(publics[0]["draws"]))
    yield facts(words.settings(publics[0]))


def _verdict(cases: Sequence[Case]) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(words.verdict(cases), style="bold")
    broken = [line for case in cases for line in words.failures(case)]
    for line in broken[:_SHOWN]:
        yield Text(line)
    if len(broken) > _SHOWN:
        yield Text(f"And {len(broken) - _SHOWN:,} more.")
    if not broken:
        yield Text(words.measured(cases))
        if len(cases) == 1:
            yield Text(words.nearest(cases[0]))
    yield Text(words.PROOF if broken else words.MEANING)


def _promise(told: Mapping[str, Any] | None, *, holds: bool = True) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text.assemble(("Guarantee  " if holds else "Not kept   ", "bold"), words.guarantee(told))


def _exemplars(case: Case) -> Table:
    shown = words.by_rank(case)[:_SHOWN]
    rows = [
        (
            words.exemplar_text(case, one["name"]),
            nats_cell(words.infinite(one["measured_nats"])),
            words.share_text(one["ratio"]),
            words.share_text(one["worst_token"]["ratio"]),
            f"{one['copied_tokens']:,}",
            excerpt(one["text"], 60),
        )
        for one in shown
    ]
    return _table(("exemplar", "nats", "share", "worst token", "copied", "text"), rows, left=(0, 5), wide=5)


def _texts(texts: Sequence[str], *, every: bool = False) -> Iterator[RenderableType]:
    from rich.text import Text

    yield heading("Text" if len(texts) == 1 else f"{len(texts):,} texts")
    shown = texts if every else texts[:_SHOWN]
    for number, text in enumerate(shown, 1):
        yield Text(f"{number}. {visible(text)}")
    if len(texts) > len(shown):
        yield Text(f"and {len(texts) - len(shown):,} more", style="dim")


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int], wide: int | None = None
) -> Table:
    """A table whose columns are numbers but for those at the left; one of them may have all the width there is."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=wide is not None)
    for number, head in enumerate(heads):
        table.add_column(
            head,
            justify="left" if number in left else "right",
            no_wrap=number == wide,
            overflow="ellipsis" if number == wide else "fold",
            ratio=1 if number == wide else None,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
