"""A sweep's finished cells to its frontier: what each setting leaks and is good for, and which one to ship."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from leakmeter.commands.studies import quality
from leakmeter.commands.studies.cells import FinishedCell, kept_scores
from leakmeter.commands.studies.contexts import Contexts
from leakmeter.commands.studies.expected import estimate, whole_by_token, whole_context_nats
from leakmeter.commands.studies.quality import Quality
from leakmeter.commands.studies.table import columns, responses_of
from leakmeter.commands.studies.tables import HUNDREDTHS, NUMBER, StudyColumn, StudyColumns, StudyRow, share_text
from leakmeter.core.measure import Statistic
from leakmeter.core.plain import counted, to_json
from leakmeter.core.record import Record
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.decoding.measure import DecodingStatistics
from leakmeter.instruments.decoding.sweep import EPSILON, SYMBOLS, Sweep
from leakmeter.overriding import override
from leakmeter.stats import stats
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.frontier import (
    NO_KNEE,
    KneeShares,
    differ_beyond_chance,
    efficient,
    gains_beyond_chance,
    knee_shares,
    knees,
    resampled_means,
)

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.report.blocks import Report


FrontierVerdict = Literal["knee", "no knee", "same utility", "same leakage", "too few cases", "one setting"]


@dataclass(frozen=True, slots=True)
class ResampledMeans:
    """A quantity of every case under every setting, and its means over resamples of the cases."""

    values: FloatArray
    """(case, setting)"""
    resampled: FloatArray
    """(resample, setting)"""

    @property
    def means(self) -> FloatArray:
        """(setting,)"""
        return np.asarray(self.values.mean(axis=0))


@dataclass(frozen=True, slots=True)
class SettingChoice:
    """Which setting to ship, by number, and why."""

    verdict: FrontierVerdict
    ship: int | None
    """The knee; without one the least leaking setting where nothing speaks for another, or None."""
    least: int
    """The setting that leaks least; of several the most useful."""
    best: int
    """The most useful setting; of several the one that leaks least."""
    efficient: tuple[int, ...]
    """Settings on the upper concave hull, from `least` to `best`."""
    shares: KneeShares | None
    """Where the knee lies in resamples; None for too few cases or one setting."""

    @property
    def is_settled(self) -> bool:
        """Whether there is a knee, and it is the knee in half of the resamples or more."""
        if self.verdict != "knee" or self.ship is None or self.shares is None:
            return False
        # Below half, another setting or none is as likely.
        return self.shares.of_setting[self.ship] >= 0.5


def choose(leakage: ResampledMeans, utility: ResampledMeans) -> SettingChoice:
    """Weigh leakage against utility.

    There is a knee only if some setting is more useful than the least leaking one by more than chance, and some leaks
    more than another by more than chance; else the knee would be one of noise. Where there are too few cases for an
    interval, there are too few for either.
    """
    leaks, uses = leakage.means, utility.means
    hull = efficient(leaks, uses)
    n_cases, n_settings = leakage.values.shape
    knee = int(knees(leaks, uses))
    is_compared = n_settings > 1 and n_cases >= stats.FEWEST_FOR_INTERVAL
    shares = knee_shares(leakage.resampled, utility.resampled) if is_compared else None

    def choice(verdict: FrontierVerdict, ship: int | None) -> SettingChoice:
        return SettingChoice(verdict, ship, hull[0], hull[-1], tuple(hull), shares)

    if n_settings == 1:
        return choice("one setting", None)
    if not is_compared:
        return choice("too few cases", None)
    if not differ_beyond_chance(leakage.values, leakage.resampled):
        return choice("same leakage", None)
    if not gains_beyond_chance(utility.values, utility.resampled, hull[0]):
        return choice("same utility", hull[0])
    return choice("no knee", None) if knee == NO_KNEE else choice("knee", knee)


def sentence(choice: SettingChoice, utility: str, kind: str, rows: Sequence[StudyRow], n_cases: int) -> str:
    title = COLUMNS[utility].heading
    names = [f"{SYMBOLS[kind]} = {row[kind]:g}" for row in rows]
    best, least = names[choice.best], names[choice.least]
    if choice.verdict == "one setting":
        return f"{title}: one setting cannot be compared; sweep several."
    if choice.verdict == "too few cases":
        return (
            f"{title}: no knee: {counted(n_cases, 'case')} cannot tell settings apart; give at least "
            f"{stats.FEWEST_FOR_INTERVAL}."
        )
    if choice.verdict == "same leakage":
        return (
            f"{title}: no knee: leakage does not differ by more than its interval, so it separates no settings; the "
            f"most useful was {best}."
        )
    if choice.verdict == "same utility":
        shown = "" if choice.best == choice.least else f" (most: {best}, by {_cost(rows, choice.least, utility)})"
        return (
            f"{title}: no knee: utility does not rise by more than its interval. No setting is more useful than the "
            f"least leaking, {least}, by more than chance, all tested together{shown}; nothing in {n_cases} cases "
            "favours leaking more."
        )
    if choice.verdict == "no knee" or choice.ship is None or choice.shares is None:
        return (
            f"{title}: no knee: utility rises from {least} to {best}, and no setting in between gains more utility "
            f"than its share of the leakage; choose by the leakage you can accept. {_leaks(rows[choice.best], best)}."
        )
    share = choice.shares.of_setting[choice.ship]
    ship = names[choice.ship]
    pairs = zip(names, choice.shares.of_setting, strict=True)
    others = sorted(((name, part) for name, part in pairs if name != ship and part > 0.0), key=lambda pair: -pair[1])
    if choice.shares.none:
        others.append(("none", choice.shares.none))
    beside = "; ".join(f"{name}: {share_text(part)}" for name, part in others[:3])
    sure = f"the knee in {share_text(share)} of resamples of {n_cases} cases{f' ({beside})' if beside else ''}"
    lead = f"ship {ship}, {sure}"
    if not choice.is_settled:
        lead = f"{ship} is closest to a knee, but is {sure}, which is not conclusive"
    cost = f"it is {_cost(rows, choice.ship, utility)} below the best, {best}"
    return f"{title}: {lead}. {_leaks(rows[choice.ship], ship)}; {cost}."


def _leaks(row: StudyRow, name: str) -> str:
    leakage = f"{name} leaks {row['nats']:.2f} nats a response{_interval(row['nats_low'], row['nats_high'], '.2f')}"
    if "guaranteed_nats_most" in row:
        leakage += f", where at most {row['guaranteed_nats_most']:g} were guaranteed"
    return leakage


def _cost(rows: Sequence[StudyRow], number: int, utility: str) -> str:
    """How far a setting is below the best, in points of a hundredth."""
    row, name = rows[number], f"{utility}_less_best"
    low, high = -100.0 * row[f"{name}_high"], -100.0 * row[f"{name}_low"]
    return f"{-100.0 * row[name]:z.1f} points{_interval(low, high, 'z.1f')}"


def _interval(low: float, high: float, form: str) -> str:
    return "" if math.isnan(low) else f" [{low:{form}}, {high:{form}}]"


ROUGE: Final = "rouge_l_f1"
BERTSCORE: Final = "bertscore_f1"
COLUMNS: Final[StudyColumns] = {
    **Contexts.columns,
    "n_tokens": StudyColumn("tokens, mean", NUMBER),
    "guaranteed_nats_most": StudyColumn("guaranteed n·ε, most", NUMBER),
    "spent_nats_most": StudyColumn("spent, most", NUMBER),
    f"{ROUGE}_less_best": StudyColumn("ROUGE-L F1 less the best's, paired", HUNDREDTHS),
    f"{ROUGE}_knee_share": StudyColumn("knee by ROUGE-L", share_text),
    f"{BERTSCORE}_less_best": StudyColumn("BERTScore F1 less the best's, paired", HUNDREDTHS),
    f"{BERTSCORE}_knee_share": StudyColumn("knee by BERTScore", share_text),
}
BOOTSTRAP_SEED: Final = 0  # never that of the draws, which is secret with ε

UtilityScores = Mapping[str, Sequence[FloatArray]]
"""Names of utilities to one array a setting, (case,): each case's mean over its responses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierChoice(Record):
    """Which setting to ship by one utility; settings by their λ or ε."""

    verdict: str
    """'knee', or why there is none: see `FrontierVerdict`."""
    ship: float | None
    """The knee; without one the least leaking setting where nothing speaks for another."""
    knee: float | None
    settled: bool
    """Whether there is a knee, and it is the knee in half of the resamples or more."""
    best: float
    """The most useful."""
    least_leaking: float
    efficient: tuple[float, ...]
    """On the upper concave hull, from the least leaking to the best."""
    no_knee_share: float | None
    """Share of the resamples without a knee."""
    n_resamples: int
    sentence: str
    """The choice in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDecoding(Record):
    """Parameters of decoding that all settings share; see `instruments.decoding.measure.Decode`."""

    temperature: float
    lambda_max: float
    min_new_tokens: int
    max_new_tokens: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier(Record):
    """What the settings of a sweep leak and are good for, with intervals over the cases.

    The fields are as `leakmeter decode frontier --json` prints them; with ε they are private, as all measured losses.
    """

    kind: str
    """What was swept: 'cid_lambda' or 'epsilon'."""
    model: dict[str, str | int | None]
    """Its name, hash, number type and device."""
    decoding: SharedDecoding
    n_cases: int
    n_truncated: int
    """Cases whose contexts did not fit the model's window."""
    settings: tuple[StudyRow, ...]
    """A row each, as in the table: means over the cases, with their intervals as `…_low` and `…_high`."""
    choices: dict[str, FrontierChoice]
    """By utility."""

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.settings)} settings: {self.recommendation}>"

    @property
    def recommendation(self) -> str:
        """Which setting to ship and how sure that is, one sentence or two for each utility."""
        return "\n".join(choice.sentence for choice in self.choices.values())

    def to_frame(self) -> pd.DataFrame:
        """One row a setting; units stand in the names of the columns."""
        import pandas as pd

        return pd.DataFrame(self.settings)

    def to_json(self) -> str:
        """All fields as one line of JSON."""
        return to_json(self)

    def report(self) -> Report:
        """The findings as blocks, from which all views are made."""
        from leakmeter.instruments.decoding.frontier_report import report

        return report(self)

    def save_figure(self, stem: str | Path, *, footer: str = "") -> list[Path]:
        """Draw it.

        Args:
            stem: path without a suffix; '.png' and '.svg' are written.
            footer: small, under the figure.

        Returns:
            Paths of both files.

        Raises:
            UsageError: matplotlib is not installed.
            StoreError: they lie in a run.
        """
        from leakmeter.core.files import check_outside_runs
        from leakmeter.instruments.decoding.frontier_report import figure_of
        from leakmeter.report import charts

        check_outside_runs(Path(stem), "figure")
        return charts.write(figure_of(self, footer=footer), Path(stem))


def frontier_of(sweep: Sweep, cells: Sequence[FinishedCell], scores: UtilityScores) -> Frontier:
    leakage = np.stack([_whole_nats(finished) for finished in cells], axis=1)  # (case, setting)
    leaks = ResampledMeans(leakage, resampled_means(leakage, seed=BOOTSTRAP_SEED))
    rows = [_row(sweep, finished, value) for finished, value in zip(cells, sweep.values, strict=True)]
    choices: dict[str, FrontierChoice] = {}
    for name, of_settings in scores.items():
        utility = np.stack(list(of_settings), axis=1)
        uses = ResampledMeans(utility, resampled_means(utility, seed=BOOTSTRAP_SEED))
        choice = choose(leaks, uses)
        for number, row in enumerate(rows):
            row |= columns(name, estimate(utility[:, number].tolist(), seed=BOOTSTRAP_SEED))
            less = (utility[:, number] - utility[:, choice.best]).tolist()
            is_best = number == choice.best
            row |= columns(f"{name}_less_best", estimate(less, seed=BOOTSTRAP_SEED)) if not is_best else {}
            row[f"{name}_knee_share"] = choice.shares.of_setting[number] if choice.shares else None
        ship = None if choice.ship is None else sweep.values[choice.ship]
        choices[name] = FrontierChoice(
            verdict=choice.verdict,
            ship=ship,
            knee=ship if choice.verdict == "knee" else None,
            settled=choice.is_settled,
            best=sweep.values[choice.best],
            least_leaking=sweep.values[choice.least],
            efficient=tuple(sweep.values[number] for number in choice.efficient),
            no_knee_share=choice.shares.none if choice.shares else None,
            n_resamples=len(leaks.resampled),
            sentence=sentence(choice, name, sweep.kind, rows, len(leakage)),
        )
    # A seed is told by the run directories; with ε it is secret.
    shared = {item.name: getattr(sweep.measures[0], item.name) for item in fields(SharedDecoding)}
    return Frontier(
        kind=sweep.kind,
        model=dict(cells[0].model),
        decoding=SharedDecoding(**shared),
        n_cases=len(leakage),
        n_truncated=sum(texts["truncated_tokens"] > 0 for texts, _ in cells[0].measured),
        # An interval that does not exist is missing, in JSON as in memory.
        settings=tuple(
            {name: None if value is None or math.isnan(value) else value for name, value in row.items()} for row in rows
        ),
        choices=choices,
    )


def utilities_of(
    cells: Sequence[FinishedCell], wanted: Quality, directory: Path | None, notify: Callable[[str], None]
) -> UtilityScores:
    """ROUGE-L F1 of every case and setting, and BERTScore F1 where it is wanted and its model at hand.

    Scores of an encoder are kept in `directory`; `notify` gets a line on a utility that is left out, and why.
    """
    scores: dict[str, list[FloatArray]] = {ROUGE: []}
    for finished in cells:
        responses, _, references = responses_of(finished)
        scores[ROUGE].append(_by_case(finished, quality.rouge_l_f1(responses, references)))
    if wanted.bertscore is None:
        return scores
    try:
        scores |= {BERTSCORE: [_by_case(finished, _bertscore(finished, wanted, directory)) for finished in cells]}
    except LeakmeterError as error:
        # The leakage and ROUGE-L are worth having without it.
        notify(f"{BERTSCORE} is left out: {error}")
    return scores


def _bertscore(finished: FinishedCell, wanted: Quality, directory: Path | None) -> list[float]:
    model = str(wanted.bertscore)
    responses, _, references = responses_of(finished)

    def score() -> list[float]:
        return quality.bertscore_f1(responses, references, model, layer=wanted.layer)

    if directory is None:
        return score()
    about = {"model": model, "layer": wanted.layer, "responses": responses, "references": references}
    return kept_scores(directory / f"{finished.cell.stem}-bertscore.json", about, score)


def _row(sweep: Sweep, cell: FinishedCell, value: float) -> StudyRow:
    by_token = [
        float(np.mean([values.mean() for values in whole_by_token(measurements)])) for _, measurements in cell.measured
    ]

    def values_of(statistic: Statistic) -> list[FloatArray]:
        every = (measurement for _, measurements in cell.measured for measurement in measurements)
        return [measurement.values for measurement in every if measurement.statistic == statistic]

    row: StudyRow = {sweep.kind: value}
    row |= columns("nats", estimate(_whole_nats(cell).tolist(), seed=BOOTSTRAP_SEED))
    row |= columns("nats_per_token", estimate(by_token, seed=BOOTSTRAP_SEED))
    row["n_tokens"] = stats.mean([len(values) for values in values_of(DecodingStatistics.loss)])
    if sweep.kind == EPSILON:
        row["guaranteed_nats_most"] = max(
            float(values.sum()) for values in values_of(DecodingStatistics.promised_epsilon)
        )
        row["spent_nats_most"] = max(float(values.sum()) for values in values_of(DecodingStatistics.spent_epsilon))
    return row


def _whole_nats(finished: FinishedCell) -> FloatArray:
    """Whole-context loss of each case, mean over its responses, nats, (case,)."""
    return np.asarray([whole_context_nats(measurements) for _, measurements in finished.measured])


def _by_case(finished: FinishedCell, values: Sequence[float]) -> FloatArray:
    """Means over a case's responses, (case,)."""
    return np.asarray(np.asarray(values, dtype=np.float64).reshape(len(finished.measured), -1).mean(axis=1))
