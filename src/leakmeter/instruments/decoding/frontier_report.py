"""What a sweep says, as blocks: a line a setting, then what to ship."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from leakmeter.commands.studies.tables import StudyRow, cell_text, decimals, interval_of, share_text
from leakmeter.core.plain import counted
from leakmeter.instruments.decoding.frontier import COLUMNS, Frontier
from leakmeter.instruments.decoding.sweep import SYMBOLS
from leakmeter.report import blocks as b

_ADVICE: Final = {
    "settled": ("A knee in half of the resamples or more", "ship it"),
    "unsettled": (
        "A knee in fewer than half of the resamples, or too few cases",
        "measure more cases before you choose",
    ),
    "same utility": ("No setting is more useful than the least leaking", "ship the least leaking"),
    "same leakage": ("No setting leaks more than another", "choose by the utility"),
    "no knee": ("Utility rises with leakage all the way", "choose by the leakage you can accept"),
    "one setting": ("One setting", "sweep several"),
}
_NO_KNEE: Final = {
    "same utility": "no knee: utility does not rise by more than its interval",
    "same leakage": "no knee: leakage does not differ by more than its interval",
    "no knee": "no knee: no setting lies above the chord between the ends",
    "too few cases": "no knee: too few cases for an interval",
    "one setting": "no knee: one setting",
}


def report(frontier: Frontier, *, command: str | None = None) -> b.Report:
    kind, utilities = frontier.kind, list(frontier.choices)
    is_bounded = kind == "epsilon"
    # Everything fits into 80 columns, with one utility.
    columns = [b.Column(SYMBOLS[kind], "number"), b.Column("Nats a response", "number")]
    columns += [b.Column(name, "number") for name in (("Bound", "Spent") if is_bounded else ("A token",))]
    for utility in utilities:
        names = f"{COLUMNS[utility].heading} × 100", "Less the best", "Knee"
        columns += [b.Column(name, "number") for name in names]
    rows = []
    for row in frontier.settings:
        cells = [f"{row[kind]:g}", cell_text(row, "nats", _nats)]
        most = ("guaranteed_nats_most", "spent_nats_most")
        cells += [_nats(row[name]) for name in most] if is_bounded else [f"{row['nats_per_token']:.3f}"]
        for utility in utilities:
            cells += [cell_text(row, name, decimals(1, 100.0)) for name in (utility, f"{utility}_less_best")]
            share = row[f"{utility}_knee_share"]
            cells.append("" if share is None else share_text(share))
        is_knee = any(frontier.choices[utility].knee == row[kind] for utility in utilities)
        rows.append(b.Row(cells, strong=is_knee))
    caption = "Settings, the knee in bold; intervals over cases"
    blocks: list[b.Block] = [b.Headline(choice.sentence) for choice in frontier.choices.values()]
    blocks += [_advice(frontier), _settings(frontier)]
    figure = replace(figure_of(frontier, footer=""), on="pages", columns=1, panel_inches=(4.0, 3.6), first=True)
    blocks += [figure, b.Table(columns, rows, caption, first=len(rows))]
    if is_bounded:
        blocks.append(b.Warning("Bound and spent: the most of any response, nats. All of this is private."))
    if n := frontier.n_truncated:
        blocks.append(b.Warning(f"The end of {counted(n, 'context')} did not fit and was not measured."))
    return b.Report(
        f"Leakage and utility over {SYMBOLS[kind]}",
        "frontier",
        blocks,
        lead="Every case was answered under every setting. Leakage is the influence of the whole context on the "
        "response; utility is the response's agreement with the reference.",
        scripted=False,
        command=b.CommandLine.from_line(command),
    )


def _advice(frontier: Frontier) -> b.Advice:
    met = set()
    for choice in frontier.choices.values():
        verdict = "settled" if choice.settled else "unsettled"
        met.add(verdict if choice.verdict in ("knee", "too few cases") else choice.verdict)
    return b.Advice.from_table(_ADVICE.values(), [_ADVICE[name] for name in met])


def _settings(frontier: Frontier) -> b.Text:
    decoding, model = frontier.decoding, frontier.model
    drawn = f", {decoding.samples} responses each" if decoding.samples > 1 else ""
    facts = (
        f" ({model['dtype']}, {model['device']}), {frontier.n_cases:,} cases{drawn}, T = {decoding.temperature:g}, "
        f"at most {decoding.max_new_tokens} new tokens; 95 % intervals over cases"
    )
    return b.Text((b.Untrusted(str(model["name"])), facts), "soft")


def _nats(value: float) -> str:
    return f"{value:z.{2 if value < 10 else 1 if value < 100 else 0}f}"


def figure_of(frontier: Frontier, *, footer: str) -> b.Chart:
    panels = [
        b.Panel(
            b.Axis(f"leakage: {COLUMNS['nats'].heading} a response"),
            b.Axis(f"utility: {COLUMNS[utility].heading}, × 100", from_zero=False),
            list(_series(frontier, utility)),
            title=COLUMNS[utility].heading,
        )
        for utility in frontier.choices
    ]
    title = f"Utility over leakage, by {SYMBOLS[frontier.kind]}; {frontier.n_cases:,} cases"
    return b.Chart("frontier", title, panels, footer=footer, panel_inches=(5.2, 4.2))


def _series(frontier: Frontier, utility: str) -> Iterator[b.ChartSeries]:
    rows, kind, choice = frontier.settings, frontier.kind, frontier.choices[utility]
    values = [row[kind] for row in rows]
    knee = None if choice.knee is None else values.index(choice.knee)
    efficient = [i for i, value in enumerate(values) if value in choice.efficient]
    remark = _NO_KNEE[choice.verdict] if knee is None else ""
    yield _points(frontier, utility, range(len(rows)), "line", "settings, 95 % intervals over cases", b.HOUSE, remark)
    beaten = [i for i in range(len(rows)) if i not in efficient]
    if beaten:
        yield _points(frontier, utility, beaten, "scatter", "another setting, or a mix of two, is better", None)
    if knee is not None:
        ends = [rows[i] for i in (efficient[0], efficient[-1])]
        xs, ys = ([scale * row[name] for row in ends] for name, scale in (("nats", 1.0), (utility, 100.0)))
        yield b.ChartSeries("line", ys, xs, name="chord between the ends", faded=True)
        share = share_text(rows[knee][f"{utility}_knee_share"])
        knee_text = "knee" if choice.settled else "unsettled knee"
        label = f"{knee_text}: {SYMBOLS[kind]} = {values[knee]:g}, in {share} of resamples"
        yield _points(frontier, utility, [knee], "rings", "knee", 1, label)


def _points(
    frontier: Frontier, utility: str, indices: Sequence[int], draws: b.SeriesStyle, name: str, colour: int | None,
    remark: str = "",
) -> b.ChartSeries:  # fmt: skip
    """Some settings, in the order of their leakage."""
    shown = sorted((frontier.settings[i] for i in indices), key=lambda row: row["nats"])
    xs, x_low, x_high = _ends(shown, "nats", 1.0)
    ys, low, high = _ends(shown, utility, 100.0)
    points = b.ChartSeries(draws, ys, xs, name=name, colour=colour, faded=colour is None, remark=remark)
    if draws != "line":
        return points
    labels = [f"{row[frontier.kind]:g}" for row in shown]
    return replace(points, low=low, high=high, x_low=x_low, x_high=x_high, labels=labels)


def _ends(rows: Sequence[StudyRow], name: str, scale: float) -> tuple[list[float], ...]:
    """Means and the ends of their intervals, which are the means themselves where there is no interval."""
    points = ((row[name], *(interval_of(row, name) or (row[name],) * 2)) for row in rows)
    means, low, high = ([scale * end for end in ends] for ends in zip(*points, strict=True))
    return means, low, high
