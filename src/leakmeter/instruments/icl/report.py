"""What ICL influence says of one query or of many, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.instruments.icl import words
from leakmeter.instruments.icl.words import Summary
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.report import words as shared_words
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case
from leakmeter.report.words import infinite, posterior_cell

_QUERIES_IN_A_TERMINAL: Final = 8
_EXEMPLARS_DRAWN: Final = 40
_ID: Final = 12
_LABEL: Final = 16
_QUERY_CHARACTERS: Final = 400
_NOTES: Final = (
    ("Nats", "of an exemplar: max over y of |log A(S, x)(y) − log A(S∖i, x)(y)|, where A is the distribution over the "
             "answers with the exemplars S and without i; of a query, the largest of its exemplars."),
    ("ICLInf", "their mean over queries."),
    ("Moves by", "the same of one label, mean over exemplars and queries."),
    ("Exemplars with it", "mean loss of the exemplars that have this label."),
    ("Worst in", "share of queries in which no other exemplar has a larger loss."),
    ("Posterior", "of the exemplar having been there, for whoever is given the answer that changes most: from even "
                  "odds, 1 / (1 + exp(−s)), where s is the log-ratio of that answer, with its sign; not shown where "
                  "the noise is as large."),
)  # fmt: skip
_NOTES_OF_ONE: Final = ("Nats", "Posterior")


def report(
    cases: Sequence[Case],
    summary: Summary,
    *,
    command: str | None = None,
    provenance: b.Provenance = b.Provenance(),  # noqa: B008 (frozen)
) -> b.Report:
    """One query with its exemplars; or many: ICLInf, accuracy, positions or exemplars, labels, and each query folded.

    Args:
        cases: see `instruments.icl.result.case_object`; one or more.
        summary: theirs, see `instruments.icl.summary.summary`.
        command: the command line they came from.
        provenance: of the run they lie in.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError("no query to show: a report needs at least one, as `leakmeter icl --json` prints them")
    several = len(cases) > 1
    asked = f"{len(cases):,} queries" if several else "a query"
    return b.Report(
        title=f"Influence of the exemplars on {'these answers' if several else 'this answer'}",
        measure="icl",
        blocks=list(_of_all(cases, summary) if several else _of_one(cases[0], summary)),
        lead=f"A language model chose a label for {asked}, each behind a few labelled exemplars. Every exemplar was "
        "left out in turn, and the probabilities of the answers were compared, in nats.",
        caveat=words.CAVEAT,
        sections=[_section(case) for case in words.by_loss(cases)] if several else [],
        index_caption="Queries, largest losses first",
        index_first=_QUERIES_IN_A_TERMINAL,
        index=(
            b.Column("Nats", "nats", shade=True),
            b.Column("Text"),
            b.Column("Answer"),
            b.Column("Right", on="wide"),
            b.Column("Exemplar", on="wide"),
            b.Column("Posterior", "posterior", on="wide"),
        ),
        case=("query", "queries"),
        folded=True,
        sections_left_out="of smaller losses",
        notes=[b.Facts(_NOTES if several else [note for note in _NOTES if note[0] in _NOTES_OF_ONE])],
        guide_to="exemplar",
        provenance=provenance,
        command=None if command is None else b.Command(b.Untrusted(command)),
    )


def _of_one(case: Case, summary: Summary) -> Iterator[b.Block]:
    yield b.Headline(words.verdict(case))
    yield b.Text(words.posterior(case))
    yield from _vocabulary([case])
    yield from _warnings([case])
    yield b.Text(b.Untrusted(case["query"]), "prose", heading=("Query ", b.Untrusted(case["id"], 40)))
    yield b.Text(words.answer(case), heading="Answer")
    yield _labels_of(case)
    yield _exemplars_of(case)
    yield from _charts([case], summary)
    yield b.Text(words.READING, "soft")
    floor = f"{nats_text(case['noise_floor_nats'])}\u00a0nats"
    settings = {**words.settings(case), "Noise floor": floor, "Cost": shared_words.cost([case])}
    yield b.Details("Settings, noise and cost", b.facts_of(settings))


def _of_all(cases: Sequence[Case], summary: Summary) -> Iterator[b.Block]:
    yield b.Headline(words.headline(summary, cases))
    yield b.Text(words.accuracy(summary))
    yield b.Text(words.meaning(summary))
    yield from _vocabulary(cases)
    yield b.Text(words.READING, "soft")
    yield b.Text(words.INTERVALS, "soft")
    yield from _warnings(cases)
    yield from _charts(cases, summary)
    yield _exemplars(summary["exemplars"]) if summary["exemplars"] else _positions(summary["positions"])
    yield _labels(cases, summary)
    yield b.Text(words.noise(summary, cases), "soft")
    yield b.Details("Settings and cost", b.facts_of({**words.settings(cases[0]), "Cost": shared_words.cost(cases)}))


def _vocabulary(cases: Sequence[Case]) -> Iterator[b.Block]:
    told = words.vocabulary(cases)
    if told is not None:
        yield b.Text(told)


def _warnings(cases: Sequence[Case]) -> Iterator[b.Block]:
    return (b.Warning(b.Untrusted(warning)) for warning in shared_words.warnings(cases))


# ---- many queries ---------------------------------------------------------------------------------------------------
def _means(row: Mapping[str, Any]) -> tuple[b.Cell, ...]:
    """Under `Mean`, `Std` and `Interval`."""
    interval = row["interval_nats"]
    return infinite(row["mean_nats"]), row["std_nats"], None if interval is None else b.Interval(*interval)


def _mean_columns(heading: str, *, bar: bool = False, std: bool = False) -> tuple[b.Column, ...]:
    return (
        b.Column(heading, "nats", "nats", shade=True, bar=bar),
        b.Column("Std", "nats", on="everywhere" if std else "pages"),
        b.Column("Interval", "interval"),
    )


def _positions(rows: Sequence[Mapping[str, Any]]) -> b.Table:
    return b.Table(
        (b.Column("Position", "count"), *_mean_columns("Mean", bar=True, std=True)),
        [b.Row((row["position"], *_means(row))) for row in rows],
        caption="Positions: influence of the exemplar there on the answers",
        first=len(rows),
    )


def _exemplars(rows: Sequence[Mapping[str, Any]]) -> b.Table:
    """The same ones before all queries, largest mean first."""
    columns = (
        b.Column("#", "count"),
        b.Column("Exemplar"),
        b.Column("Label"),
        b.Column("Text"),
        *_mean_columns("Mean"),
        b.Column("Most", "nats"),
        b.Column("Worst in", "share"),
    )
    shown = [
        b.Row((
            row["position"], b.Untrusted(row["id"] or row["name"], _ID), b.Untrusted(row["label"] or "", _LABEL),
            b.Untrusted(row["text"], 320), *_means(row), infinite(row["max_nats"]), row["worst_share"],
        ))
        for row in sorted(rows, key=lambda row: -infinite(row["mean_nats"]))
    ]  # fmt: skip
    caption = "Exemplars, the same for all queries, by their influence on the answers"
    return b.Table(columns, shown, caption, rest=("exemplar", "exemplars"), first=len(shown))


def _labels(cases: Sequence[Case], summary: Summary) -> b.Table:
    """How each label is answered, how far it moves, and what exemplars that have it do."""
    own, knows = words.by_own_label(cases), bool(summary["n_with_label"])
    columns = (
        b.Column("Label"),
        *((b.Column("Right", "count"), b.Column("F1", "number")) if knows else ()),
        b.Column("Predicted", "count"),
        *_mean_columns("Moves by"),
        b.Column("Exemplars with it", "nats", shade=True),
    )
    rows = []
    for row in summary["labels"]:
        f1 = None if row["f1"] is None else f"{row['f1']:.2f}"
        rows.append(
            b.Row((
                b.Untrusted(row["label"], 24), *((row["n_right_label"], f1) if knows else ()), row["n_predicted"],
                *_means(row), own.get(row["label"]),
            ))
        )  # fmt: skip
    return b.Table(columns, rows, "Labels", rest=("label", "labels"), first=len(rows))


def _section(case: Case) -> b.Section:
    nats, worst = infinite(case["loss_nats"]), words.worst_exemplar(case)
    mark = {None: "", True: " ✓", False: " ✗"}[case["is_right"]]
    cells: tuple[b.Cell, ...] = (
        scale.nats_cell(nats) if nats <= case["noise_floor_nats"] else nats,
        b.Untrusted(case["query"], 90),
        (b.Untrusted(case["prediction"], _LABEL), mark),
        b.Untrusted(case["gold"] or "", _LABEL),
        (f"{worst['position']:d}: ", b.Untrusted(worst["id"] or worst["name"], _ID)),
        _posterior(case),
    )
    text = case["query"]
    if len(text) > _QUERY_CHARACTERS:
        text = f"{text[:_QUERY_CHARACTERS].rstrip()}…"
    blocks = (
        b.Text(b.Untrusted(text), "prose"),
        b.Text(words.answer(case)),
        _labels_of(case),
        _exemplars_of(case, among_many=True),
    )
    return b.Section(b.Untrusted(case["id"], _ID), blocks, cells, weight=nats)


# ---- one query ------------------------------------------------------------------------------------------------------
def _posterior(numbers: Case) -> b.Cell:
    sure: float | None = numbers["posterior"]
    return posterior_cell(numbers) if sure is None else sure


def _labels_of(case: Case) -> b.Table:
    """With all exemplars, and without the one of the largest loss."""
    rows = [
        b.Row((
            b.Untrusted(row.label, 24), words.probability(row.probability), words.probability(row.without),
            row.signed_nats, " and ".join(["answered"] * row.is_prediction + ["right"] * row.is_gold),
        ))
        for row in words.label_rows(case)
    ]  # fmt: skip
    columns = (
        b.Column("Label"),
        b.Column("With all", "share"),
        b.Column(f"Without exemplar {words.worst_exemplar(case)['position']:d}", "share"),
        b.Column("Nats", "signed_nats"),
        b.Column("Remark"),
    )
    n = words.LABELS_SHOWN
    return b.Table(columns, rows, rest=("label", "labels"), first=n, first_on_pages=n)


def _exemplars_of(case: Case, *, among_many: bool = False) -> b.Table:
    """Each exemplar's loss; with fewer columns where a page holds hundreds of queries."""
    columns = (
        b.Column("Exemplar"),
        *(() if among_many else (b.Column("Label"),)),
        b.Column("Text"),
        b.Column("Nats", "nats", shade=among_many, bar=not among_many),
        b.Column("Changes most"),
        b.Column("Posterior", "posterior"),
    )
    rows = []
    for one in case["exemplars"]:
        name: list[str | b.Untrusted] = [b.Untrusted(one["name"], _ID)]
        if one["id"]:
            name += [" ", b.Untrusted(one["id"], _ID)]
        label = () if among_many else (b.Untrusted(one["label"] or "", _LABEL),)
        cells = (
            tuple(name), *label, b.Untrusted(one["text"], 108 if among_many else 130), infinite(one["loss_nats"]),
            words.changed(one, _LABEL), _posterior(one),
        )  # fmt: skip
        rows.append(b.Row(cells, quiet=infinite(one["loss_nats"]) <= case["noise_floor_nats"]))
    floor = case["noise_floor_nats"]
    return b.Table(
        columns,
        rows,
        caption="" if among_many else "Exemplars, by their influence on the answer, nats",
        rest=("exemplar", "exemplars"),
        first=len(rows),
        marks=() if among_many else (b.Mark("noise floor", floor, f"{nats_text(floor)}\u00a0nats"),),
    )


# ---- figures --------------------------------------------------------------------------------------------------------
def _charts(cases: Sequence[Case], summary: Summary) -> Iterator[b.Chart]:
    """Loss by position of the exemplar, and of each exemplar where all queries have the same."""
    about = f"Means over {len(cases):,} queries with 95 % bootstrap intervals" if len(cases) > 1 else ""
    places = _finite(summary["positions"])
    if places:
        said = [f"position {row['position']}: {words.mean_text(row)}\u00a0nats" for row in places]
        on_pages = len(cases) > 1 and len(places) > 1 and len(places) == len(summary["positions"])
        names = [str(row["position"]) for row in places]
        panel = b.Panel(
            b.Axis("position of the exemplar", names=names),
            b.Axis("loss without it", "nats"),
            (_series("bar", places, said),),
        )
        yield b.Chart(
            "positions",
            "Loss by the position of the exemplar",
            (panel,),
            footer=about,
            panel_inches=(max(4.8, 1.2 + 0.34 * len(places)), 3.6),
            on="everywhere" if on_pages else "files",
        )
    shown = sorted(_finite(summary["exemplars"] or ()), key=lambda row: -row["mean_nats"])[:_EXEMPLARS_DRAWN]
    if shown:
        texts = [(f"{row['position']}: ", b.Untrusted(row["text"], 42)) for row in shown]
        panel = b.Panel(b.Axis("loss without it", "nats"), b.Axis("", names=texts), (_series("rows", shown),))
        yield b.Chart(
            "exemplars",
            "Loss of each exemplar, largest first",
            (panel,),
            footer=about,
            panel_inches=(7.2, 1.1 + 0.24 * max(len(shown), 4)),
            on="files",
        )


def _finite(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["mean_nats"] is not None]


def _series(draws: b.Draws, rows: Sequence[Mapping[str, Any]], said: Sequence[str] = ()) -> b.Series:
    ends = [row["interval_nats"] or (row["mean_nats"],) * 2 for row in rows]
    low, high = ([end[i] for end in ends] for i in (0, 1))
    return b.Series(draws, [row["mean_nats"] for row in rows], low=low, high=high, said=said)
