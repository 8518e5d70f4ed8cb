"""What susceptibility by Monte Carlo says of one query or of many, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility import words
from leakmeter.instruments.susceptibility.words import Summary
from leakmeter.report import blocks as b
from leakmeter.report import words as shared_words
from leakmeter.report.scale import nats_cell, nats_text
from leakmeter.report.shade import Case

_ID: Final = 40
_TEXT: Final = 130
_QUERIES_LISTED: Final = 20
_CONTEXTS_LISTED: Final = 12
_CONTEXTS_OF_ALL: Final = 100
_CONTEXTS_OF_EACH: Final = 20
_DRAWN: Final = 40
_CONTEXTS: Final = ("context", "contexts")
_SETTINGS: Final = "Settings, noise and cost"
_NOTES: Final = (
    ("Persuasion", "of a context: KL(p(A | c, q) ‖ p̂(A | q)), where p̂ is the mixture of the answers’ distributions "
                   "behind all contexts."),
    ("Susceptibility", "of a query: the mean persuasion of its contexts, which is the mutual information of context "
                       "and answer."),
    ("From bare", "KL(p(A | c, q) ‖ p(A | q)), where nothing stands before the query."),
    ("Of most", "share of the entropy of the contexts’ weights, the logarithm of their number where all come as "
                "often."),
)  # fmt: skip


def report(
    cases: Sequence[Case],
    summary: Summary,
    *,
    command: str | None = None,
    provenance: b.Provenance = b.Provenance(),  # noqa: B008 (frozen)
) -> b.Report:
    """One query with its contexts, or many queries: ranked, with what contexts and factors do over all of them.

    Args:
        cases: see `instruments.susceptibility.result.case_object`; one or more.
        summary: theirs, see `instruments.susceptibility.summary.summary`.
        command: the command line they came from.
        provenance: of the run they lie in.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError(
            "no query to show: a report needs at least one, as `leakmeter susceptibility --json` prints it"
        )
    several = len(cases) > 1
    ranked = words.by_susceptibility(cases)
    n = "a query" if not several else f"{len(cases):,} queries"
    return b.Report(
        "How far contexts move these answers",
        "susceptibility",
        [*(_of_all(cases, summary) if several else _of_one(cases[0])), *_charts(cases, summary)],
        lead=f"A language model was asked {n}, behind many contexts in turn. What it would answer behind each was "
        "compared with what it would answer behind any of them, in nats.",
        caveat=words.CAVEAT,
        sections=[_section(case) for case in ranked] if several else (),
        index=(
            b.Column("Susceptibility", "nats", shade=True),
            b.Column("Text"),
            b.Column("Interval", "interval"),
            b.Column("Of most", "share"),
        ),
        index_caption="Queries, most susceptible first; susceptibility in nats",
        index_first=_QUERIES_LISTED,
        case=("query", "queries"),
        folded=True,
        sections_left_out="that are less susceptible",
        notes=[b.Facts(_NOTES)],
        provenance=provenance,
        command=None if command is None else b.Command(b.Untrusted(command)),
    )


def _of_one(case: Case) -> Iterator[b.Block]:
    settings = words.settings([case])
    settings |= {"Noise floor": f"{nats_text(case['noise_floor_nats'])}\u00a0nats", "Cost": shared_words.cost([case])}
    yield b.Headline(words.verdict(case))
    yield b.Text(words.told(case))
    yield from _memorisation(case["memorisation"])
    yield from _explained([case])
    yield b.Text(b.Untrusted(case["query"]), "prose", heading=("Query ", b.Untrusted(case["id"], _ID)))
    yield _contexts(case)
    yield b.Details(_SETTINGS, b.facts_of(settings))


def _of_all(cases: Sequence[Case], summary: Summary) -> Iterator[b.Block]:
    settings = words.settings(cases)
    settings |= {"Noise": words.noise(summary, cases), "Cost": shared_words.cost(cases)}
    yield b.Headline(words.headline(summary, cases))
    yield b.Text(words.meaning(summary, cases))
    yield from _memorisation(summary["memorisation"])
    yield from _explained(cases)
    factors = [
        b.Row((b.Untrusted(name, _ID), b.Untrusted(level["level"], _ID), level["n"], level["mean_nats"],
               _interval(level)))
        for name, level in words.factor_rows(summary)
    ]  # fmt: skip
    if factors:
        columns = (
            b.Column("Factor"), b.Column("Level"), b.Column("Queries", "count"),
            b.Column("Mean", "nats", "nats", shade=True), b.Column("Interval", "interval"),
        )  # fmt: skip
        yield b.Table(columns, factors, "Factors, mean susceptibility", first=len(factors), rest=("level", "levels"))
    columns = (
        b.Column("Context"), b.Column("Text"), b.Column("Queries", "count"),
        b.Column("Persuasion", "nats", shade=True), b.Column("From bare", "nats"),
    )  # fmt: skip
    rows = [
        b.Row((
            b.Untrusted(row["id"], _ID), b.Untrusted(row["text"], _TEXT), row["n"], row["mean_persuasion_nats"],
            shared_words.infinite(row["mean_from_bare_nats"]),
        ))
        for row in summary["contexts"]
    ]  # fmt: skip
    yield b.Table(
        columns, rows, "Contexts, by mean persuasion, nats", rest=_CONTEXTS, first=_CONTEXTS_LISTED,
        first_on_pages=_CONTEXTS_OF_ALL, numbered=True,
    )  # fmt: skip
    yield b.Details(_SETTINGS, b.facts_of(settings))


def _explained(cases: Sequence[Case]) -> Iterator[b.Block]:
    for line in (words.reading(cases), words.INTERVALS):
        yield b.Text(line, "soft")
    for warning in shared_words.warnings(cases):
        yield b.Warning(b.Untrusted(warning))


def _memorisation(counts: Mapping[str, Any] | None) -> Iterator[b.Block]:
    told = words.memorisation(counts)
    if told is not None:
        yield b.Text(told)


def _section(case: Case) -> b.Section:
    nats, text = case["susceptibility_nats"], b.Untrusted(case["query"], 90)
    # Colours stand for findings.
    shown = nats_cell(nats) if case["below_noise_floor"] else nats
    blocks: list[b.Block] = [
        b.Text(b.Untrusted(case["query"]), "prose"),
        b.Text(words.told(case)),
        *_memorisation(case["memorisation"]),
        _contexts(case, shown_on_pages=_CONTEXTS_OF_EACH),
    ]
    cells = (shown, text, _interval(case), case["share_of_ceiling"])
    return b.Section(b.Untrusted(case["id"], _ID), blocks, cells, weight=nats)


def _contexts(case: Case, *, shown_on_pages: int = 1000) -> b.Table:
    """The contexts of a query, most persuasive first."""
    ranked = words.by_persuasion(case)
    greedy = any(context["greedy_answer"] is not None for context in ranked)
    columns = [
        b.Column("Context"),
        b.Column("Text"),
        b.Column("Persuasion", "nats", shade=True),
        b.Column("From bare", "nats"),
        *([b.Column("Greedy answer", on="pages")] if greedy else []),
    ]
    rows = []
    for context in ranked:
        cells: list[b.Cell] = [
            b.Untrusted(context["id"], _ID),
            b.Untrusted(context["text"], _TEXT),
            context["persuasion_nats"],
            shared_words.infinite(context["persuasion_from_bare_nats"]),
            *([b.Untrusted(context["greedy_answer"] or "", _ID)] if greedy else []),
        ]
        rows.append(b.Row(cells, quiet=context["below_noise_floor"]))
    return b.Table(
        columns, rows, "Contexts, by persuasion, nats", rest=_CONTEXTS, first=_CONTEXTS_LISTED,
        first_on_pages=shown_on_pages, numbered=True,
    )  # fmt: skip


def _interval(row: Mapping[str, Any]) -> b.Interval | None:
    ends = row["interval_nats"]
    return None if ends is None else b.Interval(*ends)


# ---- figures --------------------------------------------------------------------------------------------------------
def _charts(cases: Sequence[Case], summary: Summary) -> Iterator[b.Chart]:
    """Queries with their intervals and contexts, both from the top."""
    text = {case["id"]: case["query"] for case in cases}
    of_all, shown = summary["queries"], summary["queries"][:_DRAWN]
    values = [row["susceptibility_nats"] for row in shown]
    ends = [row["interval_nats"] or (value, value) for row, value in zip(shown, values, strict=True)]
    yield _rows(
        "queries",
        "Queries by their susceptibility",
        "susceptibility",
        [f"{row['id']}: {text[row['id']]}" for row in shown],
        b.Series("rows", values, low=[low for low, _ in ends], high=[high for _, high in ends]),
        "Bars: 95 % intervals over contexts" + _first(len(shown), len(of_all)),
    )
    contexts = summary["contexts"][:_DRAWN]
    yield _rows(
        "contexts",
        "Contexts by their persuasion",
        "persuasion, mean over queries",
        [f"{row['id']}: {row['text']}" for row in contexts],
        b.Series("rows", [row["mean_persuasion_nats"] for row in contexts], colour=2),
        _first(len(contexts), len(summary["contexts"])).lstrip("; "),
    )


def _rows(name: str, title: str, what: str, names: Sequence[str], series: b.Series, footer: str) -> b.Chart:
    axis = b.Axis("", names=[b.Untrusted(one, 48) for one in names])
    panel = b.Panel(b.Axis(what, "nats"), axis, (series,))
    inches = 7.2, 1.1 + 0.24 * max(len(names), 4)
    return b.Chart(name, title, (panel,), footer=footer, panel_inches=inches, on="files")


def _first(n_shown: int, n: int) -> str:
    return f"; the first {n_shown:,} of {n:,}" if n_shown < n else ""
