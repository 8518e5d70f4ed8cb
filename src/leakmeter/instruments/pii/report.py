"""What probing says of one value or of many, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.instruments.pii import charts, words
from leakmeter.instruments.pii.result import PiiResult, PiiSummary, ProbedValues, Template
from leakmeter.instruments.pii.result import summary as summary_of
from leakmeter.report import blocks as b
from leakmeter.report import words as shared_words
from leakmeter.report.scale import share_in

_ID: Final = 60
_TEXT: Final = 200
_GRADES: Final = b.Table(
    (
        b.Column("Share of values as plausible, the true one among them, that go with the name as much or more"),
        b.Column("That the model knows the true one"),
    ),
    [
        b.Row((b.Shaded(f"p ≤ {grade.p_at_most:g}" if grade.heat else "p > 0.1", grade.heat), grade.words))
        for grade in words.GRADES
    ],
    "How to read p",
)
_INDEX: Final[b.Columns[PiiResult]] = [
    (b.Column("p", on="pages"), lambda case: words.p_cell(case.p_value)),
    (b.Column("Exposure", on="pages"), words.bits),
    (b.Column("Generated", on="pages"), lambda case: "said word for word" if case.extracted else ""),
]


def report(cases: Sequence[PiiResult]) -> b.Report:
    summary = summary_of(cases)
    several = len(cases) > 1
    kept = any(case.value is not None for case in cases)
    blocks = [*_opening(cases, summary, kept=kept), charts.p_values_of(summary)]
    ending: list[b.Block] = [
        *(b.Text(text, "soft") for text in (words.MARKS, words.INTERVALS, *words.GUARANTEES)),
        b.Details("Settings and cost", b.facts_of({**words.settings(cases), "Cost": shared_words.cost(cases)})),
    ]
    ranked = words.cases_by_evidence(cases)
    return b.Report(
        f"What this model knows of {'this person' if summary.n_subjects == 1 else 'these people'}",
        "pii",
        [*blocks, *_over_subjects(summary), *ending] if several else (),
        lead=f"A language model was asked for {'values of people' if several else 'a value of a person'}, with "
        "several templates. The association of the true value with the name was compared with the associations of "
        "decoys (invented values of the same form).",
        caveat="" if kept else words.REDACTED,
        sections=[
            b.Section(
                b.Untrusted(case.id, _ID),
                [b.Text(words.verdict(case)), b.Text(words.reason(case)), *_details(case)]
                if several
                else [*blocks, *_details(case), *ending],
                b.cells(_INDEX, case),
                weight=float(len(cases) - place),
            )
            for place, case in enumerate(ranked)
        ],
        index=b.heads(_INDEX),
        index_caption="Values, strongest evidence first" if several else "",
        case=("value", "values"),
        sections_left_out="with less evidence",
        aside=(_GRADES,),
    )


def _opening(cases: Sequence[PiiResult], summary: PiiSummary, *, kept: bool) -> Iterator[b.Block]:
    several = len(cases) > 1
    if several:
        yield words.headline(summary)
        yield from map(b.Text, words.against_chance(summary))
    else:
        bad = words.outcome(cases[0]) in (words.SAID, words.HIGH)
        yield b.Headline(words.verdict(cases[0]), "bad" if bad else "")
        yield b.Text(words.reason(cases[0]))
    yield b.Advice.from_table(words.DECISIONS, words.decisions(summary))
    unreachable = words.unreachable(summary) if several else None
    if unreachable is not None:
        yield b.Warning(unreachable)
    if kept:
        yield b.Warning(words.KEPT)
    yield from b.warnings_of(shared_words.warnings(cases, "values"))
    picture = charts.people(cases, summary)
    if picture.panels[0].y.names:
        yield picture
    if several:
        yield _subjects(summary)


# ---- one value ------------------------------------------------------------------------------------------------------
def _details(case: PiiResult) -> Iterator[b.Block]:
    kept: list[tuple[b.Phrase, b.Phrase]] = [
        (name, b.Untrusted(text, _TEXT))
        for name, text in (("Name", case.name), ("Value", case.value))
        if text is not None
    ]
    yield b.Facts([*kept, *words.generated(case), *words.facts(case)])
    yield _templates(case)
    answers = [
        b.Row((search.beams, f"#{number}", b.Untrusted(answer, _TEXT)))
        for search in case.generated
        for number, answer in enumerate(search.answers or (), 1)
    ]
    if answers:
        heads = (b.Column("Beams", "count"), b.Column("Template"), b.Column("Text"))
        yield b.Table(heads, answers, "Generated text", rest=("text", "texts"), first=len(answers))


def _templates(case: PiiResult) -> b.Table:
    kept = case.prompts
    columns: b.Columns[tuple[int, Template]] = [
        (b.Column("#", "count"), lambda row: row[1].template),
        (b.Column("Nats", "nats"), lambda row: row[1].log_likelihood_nats),
        (b.Column("Tokens", "count"), lambda row: row[1].n_tokens),
        (b.Column("Association", "nats"), lambda row: row[1].association_nats),
        (b.Column("Rank", "count"), lambda row: row[1].rank),
        (b.Column("p", "p_value"), lambda row: words.p_cell(row[1].p_value)),
    ]
    if kept is not None:
        columns.append((b.Column("Prompt"), lambda row: b.Untrusted(kept[row[0]], _TEXT)))
    return b.table_of(enumerate(case.templates), columns, "Templates", rest=("template", "templates"), detail=True)


# ---- many values ----------------------------------------------------------------------------------------------------
def _over_subjects(summary: PiiSummary) -> Iterator[b.Block]:
    generated = [
        b.Row((words.row_name(row), row.n, matches.beams, share_in(exact.share, exact.interval)))
        for row in summary.kinds
        for matches in row.generated
        if (exact := matches.matches.get("exact_match")) and exact.share is not None and exact.interval is not None
    ]
    if generated:
        columns = (*b.heads(_OF_ROW), b.Column("Beams", "count"), b.Column("Word for word", "number"))
        yield b.Table(columns, generated, "Generated, in the best of the templates", first=len(generated))
    caption = "Association of true values and decoys, nats, by type and kind of probe; exposure, bits"
    yield b.table_of(words.rows(summary), _ASSOCIATIONS, caption, detail=True)


def _subjects(summary: PiiSummary) -> b.Table:
    types = words.types_of(summary)
    rows = [
        b.Row((b.Untrusted(subject.subject, 40), *words.subject_cells(subject, types)))
        for subject in words.by_evidence(summary)
    ]
    columns = (b.Column("Subject"), *(b.Column(type_.capitalize()) for type_ in types))
    caption = "Subjects, strongest evidence first: p by type of value; ● known, ! said word for word"
    return b.Table(columns, rows, caption, rest=("subject", "subjects"))


_OF_ROW: Final[b.Columns[ProbedValues]] = [
    (b.Column("Values"), words.row_name),
    (b.Column("n", "count"), lambda row: row.n),
]
_ASSOCIATIONS: Final[b.Columns[ProbedValues]] = [
    *_OF_ROW,
    (b.Column("True", "nats"), lambda row: row.mean_nats),
    (b.Column("Decoys", "nats"), lambda row: row.decoy_mean_nats),
    (b.Column("True − decoys", "number"), words.difference_text),
    (b.Column("p ≤ 0.05 in", "number"), lambda row: share_in(row.share_low_p, row.share_low_p_interval)),
    (b.Column("Bits", "number"), lambda row: f"{row.mean_exposure_bits:.1f}"),
]
