"""Probing of people's data for the terminal: one value, or many of many people; 80 columns do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from leakmeter.report import pii as words
from leakmeter.report import pii_people as people
from leakmeter.report import queries, scale
from leakmeter.report.paint import Composed, Paint, compact_table, facts, heading
from leakmeter.report.pii_people import Summary
from leakmeter.report.shade import Case, excerpt

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_PERSONS_SHOWN: Final = 20


def pii_view(case: Case, *, width: int | None = None) -> RenderableType:
    """One value: how it ranks among invented ones, by each template, and what was generated."""
    return Composed(lambda paint, _: _of_case(case, paint), width)


def pii_overview(cases: Sequence[Case], summary: Summary, *, width: int | None = None) -> RenderableType:
    """Many values: persons by evidence, types and kinds of probes with their tests, what was generated.

    Args:
        cases: see `instruments.pii.result.case_object`; one or more.
        summary: theirs, see `instruments.pii.result.summary`.
        width: columns at most.
    """
    return Composed(lambda paint, _: _of_all(cases, summary, paint), width)


def _of_case(case: Case, paint: Paint) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(words.verdict(case), style="bold")
    yield Text(words.exposure(case))
    yield Text(words.association(case))
    yield Text(words.likelihood(case))
    for said in words.generated(case):
        yield Text(said)
    yield from _warnings([case])
    yield Text()
    yield heading(excerpt(case["id"], 60))
    yield Text(words.asked(case), style="dim")
    yield from _kept(case)
    yield Text()
    yield heading("Templates")
    yield _templates(case, paint)
    if case["generated"]:
        yield Text()
        yield heading("Generated")
        yield _generated(case)
        yield from _answers(case)
    yield Text()
    yield facts({**words.settings([case]), "Cost": queries.cost([case])})
    yield Text(" ".join(words.PROMISES), style="dim")


def _kept(case: Case) -> Iterator[RenderableType]:
    from rich.text import Text

    for name in ("name", "value"):
        if name in case:
            yield Text(f"{name}: {excerpt(case[name], 120)}")


def _templates(case: Case, paint: Paint) -> Table:
    from rich.text import Text

    kept = "prompts" in case
    heads = ("#", "nats", "tokens", "association", "rank", "p", *(("prompt",) if kept else ()))
    table = compact_table(heads, left=(6,), wide=6 if kept else None)
    for number, one in enumerate(case["templates"]):
        table.add_row(
            str(one["template"]),
            scale.nats_cell(one["log_likelihood_nats"]),
            f"{one['n_tokens']:,}",
            scale.nats_cell(one["association_nats"]),
            f"{one['rank']:,}",
            Text(words.p_cell(one["p_value"]), style=paint.style(words.grade(one["p_value"]).heat)),
            *([Text(excerpt(case["prompts"][number], 80))] if kept else []),
        )
    return table


def _generated(case: Case) -> Table:
    from rich.text import Text

    numbers = [str(one["template"]) for one in case["templates"]]
    table = compact_table(("beams", "", "best", *(f"#{number}" for number in numbers)), left=(1,))
    for one in case["generated"]:
        shown = str(one["beams"])
        for name, best in one["best"].items():
            each = (words.statistic_text(name, value) for value in one["templates"][name])
            table.add_row(shown, Text(words.statistic_name(name)), words.statistic_text(name, best), *each)
            shown = ""
    return table


def _answers(case: Case) -> Iterator[RenderableType]:
    from rich.text import Text

    for one in case["generated"]:
        for number, answer in enumerate(one.get("answers", ()), 1):
            yield Text(f"{one['beams']}, #{number}: {excerpt(answer, 120)}")


def _of_all(cases: Sequence[Case], summary: Summary, paint: Paint) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(people.headline(summary), style="bold")
    unreachable = people.unreachable(summary)
    if unreachable is not None:
        yield Text(f"! {unreachable}", style="bold")
    yield from _warnings(cases)
    yield Text()
    yield heading("Persons, strongest evidence first: p by type of value")
    yield _persons(summary, paint)
    yield Text(people.MARKS, style="dim")
    yield Text()
    yield heading("Types, and kinds of probes for them, association in nats")
    yield _rows(summary)
    yield Text()
    yield heading("Tests, p by Holm’s rule")
    yield _tests(summary, paint)
    if any(row["generated"] for row in summary["kinds"]):
        yield Text()
        yield heading("Generated, in the best of the templates")
        yield _matches(summary)
    yield Text()
    yield Text(f"{people.INTERVALS} {people.TESTS}", style="dim")
    yield Text(" ".join(words.PROMISES), style="dim")
    yield facts({**words.settings(cases), "Cost": queries.cost(cases)})


def _warnings(cases: Sequence[Case]) -> Iterator[RenderableType]:
    from rich.text import Text

    for warning in queries.warnings(cases, "values"):
        yield Text(f"! {warning}", style="bold")


def _persons(summary: Summary, paint: Paint) -> Table:
    from rich.text import Text

    types = people.types_of(summary)
    table = compact_table(("person", *types), left=(0,))
    ranked = people.by_evidence(summary)
    for subject in ranked[:_PERSONS_SHOWN]:
        row = [Text(excerpt(subject["subject"], 16))]
        for cell in people.cells(subject, types):
            if cell is None:
                row.append(Text(scale.NOT_MEASURED, style="dim"))
                continue
            text = Text(words.p_cell(cell.p), style=paint.style(words.grade(cell.p).heat))
            row.append(text.append("".join(mark or " " for mark in cell.marks)))
        table.add_row(*row)
    if len(ranked) > _PERSONS_SHOWN:
        table.add_row(f"and {len(ranked) - _PERSONS_SHOWN:,} more")
    return table


def _rows(summary: Summary) -> Table:
    from rich.text import Text

    heads = ("", "n", "true", "invented", "true − invented", "p ≤ 0.05", "bits")
    table = compact_table(heads, left=(0, 4, 5))
    for row in people.rows(summary):
        table.add_row(
            people.row_name(row),
            f"{row['n']:,}",
            scale.nats_cell(row["mean_nats"]),
            scale.nats_cell(row["null_mean_nats"]),
            Text(people.difference_text(row)),
            Text(people.share_text(row["share_p_at_most_0.05"], row["share_p_at_most_0.05_interval"])),
            f"{row['mean_exposure_bits']:.1f}",
        )
    return table


def _tests(summary: Summary, paint: Paint) -> Table:
    from rich.text import Text

    def p(value: float | None) -> Text:
        return Text(words.p_cell(value), style=paint.style(0 if value is None else words.grade(value).heat))

    table = compact_table(("", "ranks", "signed-rank", "rank-sum", "r", "δ", "persons for 80\u00a0%"), left=(0,))
    for row in people.rows(summary):
        table.add_row(
            people.row_name(row),
            *(p(row.get(f"{test}_holm_p")) for test in ("ranks", "signed_rank", "rank_sum")),
            people.effect_text(row["rank_biserial"]),
            people.effect_text(row["cliffs_delta"]),
            people.needed_text(row),
        )
    return table


def _matches(summary: Summary) -> Table:
    from rich.text import Text

    table = compact_table(("", "n", "beams", "exact match", "parts"), left=(0, 3, 4), wide=4)
    table.columns[-1].no_wrap = False
    for row in summary["kinds"]:
        for one in row["generated"]:
            matches = dict(one["matches"])
            exact = matches.pop("exact_match", None)
            parts = (f"{words.statistic_name(name)} {people.match_text(of)}" for name, of in matches.items())
            shown = scale.NOT_MEASURED if exact is None else people.match_text(exact)
            told = (people.row_name(row), f"{row['n']:,}", str(one["beams"]))
            table.add_row(*told, Text(shown), Text(", ".join(parts)))
    return table
