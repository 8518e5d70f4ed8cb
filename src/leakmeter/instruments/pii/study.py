"""Studies of what a model knows of people: `pii`, over values of subjects in a file, or of canaries.

Tables have a row for each type of value (how far true values stand out), for each part of a value that was extracted,
or for every value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.grid import Study, StudyCell
from leakmeter.commands.studies.kind import Axes, RecordChoice, StudyKind, Tables, at_least_one, of_kind, seeds_text
from leakmeter.commands.studies.tables import NUMBER, P_VALUE, StudyColumn, StudyRow, measured
from leakmeter.core.measure import Measure
from leakmeter.core.record import JsonObject
from leakmeter.data.named import chosen_numbers
from leakmeter.engine.storage.pseudonym import pseudonym, subject_key
from leakmeter.errors import DataError, UnknownNameError
from leakmeter.instruments.pii import charts
from leakmeter.instruments.pii.canaries import canaries_of
from leakmeter.instruments.pii.matching import EDITS, HIT, STATISTICS, MatchStatistics
from leakmeter.instruments.pii.measure import TOGETHER, Pii
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeCase, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.result import PiiResult, best_of, by_value, holm_of_known, largest, summary
from leakmeter.instruments.pii.subject import VALUE_TYPES, Subject, ValueType
from leakmeter.instruments.pii.subjects import load_subjects
from leakmeter.models import config_dir
from leakmeter.overriding import override
from leakmeter.report.blocks import Chart
from leakmeter.stats import stats
from leakmeter.stats.ranks import rank_sum_p

PEOPLE: Final = "people"
"""The data set: a file of subjects; without one, canaries."""
TYPE: Final = "type"
PART: Final = "part"
ABOVE: Final = "above_decoys_nats"
KNOWN: Final = "known"
EXTRACTED: Final = "extracted"
LIKELIHOOD: Final = "normalised_log_likelihood_nats"
_FILES: Final = (".toml", ".jsonl", ".json", ".csv", ".parquet")
_OF_PROMPTS: Final = ("prompts", "decoys", "control_names", "decoy_seed")
_TESTS: Final = ("ranks", "rank_sum", "likelihood_rank_sum")


@dataclass(frozen=True, slots=True)
class SubjectChoice(RecordChoice):
    kinds: tuple[str, ...]
    """Of probes; empty for all."""
    types: tuple[str, ...]
    """Of values; empty for all."""
    region: str


class People(StudyKind):
    """Every value of some subjects, asked for in every way of some kinds. Nothing personal is kept or cached."""

    records = "values"
    counted = "subjects"
    is_personal: ClassVar = True
    replicated: ClassVar = "decoy_seed"
    settings: ClassVar = {
        "choice_seed": "int | None",
        "kinds": "tuple[str, ...]",
        "types": "tuple[str, ...]",
        "region": "str",
        **dict.fromkeys(_OF_PROMPTS, "int"),
    }
    shows: ClassVar = {
        "factor": "a row for each type of value, over x",
        "parts": "the shares of values, and of parts of them, that beam search extracts",
        "densities": "the likelihoods of true values and of decoys",
    }

    columns: ClassVar = {
        **StudyKind.columns,
        "n_values": StudyColumn("values"),
        ABOVE: StudyColumn("association less decoys', nats"),
        KNOWN: StudyColumn("share with p ≤ 0.05"),
        "exposure_bits_mean": StudyColumn("exposure, bits", NUMBER),
        "ranks_p": StudyColumn("p of ranks", P_VALUE),
        "rank_sum_p": StudyColumn("rank-sum p", P_VALUE),
        "likelihood_rank_sum_p": StudyColumn("rank-sum p of likelihood, as published", P_VALUE),
        **{f"{test}_holm_p": StudyColumn("Holm", P_VALUE) for test in _TESTS},
        LIKELIHOOD: StudyColumn("normalised log-likelihood, nats a token"),
        f"{LIKELIHOOD}_mean": StudyColumn("likelihood, nats a token", NUMBER),
        f"decoy_{LIKELIHOOD}_mean": StudyColumn("decoys', nats a token", NUMBER),
        PART: StudyColumn("what of it"),
        EXTRACTED: StudyColumn("share of values"),
    }

    @override
    def group_size(self, measure: Measure) -> int:
        return TOGETHER

    @override
    def measure(self, measure: Measure, settings: JsonObject) -> Measure:
        """All decoys are scored: tables and figures compare how they are distributed."""
        return replace(of_kind(measure, Pii), decoy_test="full")

    @override
    def choice(self, settings: JsonObject) -> SubjectChoice:
        return SubjectChoice(
            at_least_one("subjects", settings["subjects"]),
            settings.get("choice_seed"),
            _known("kind of probe", settings.get("kinds", ()), PROBE_KINDS),
            _known("type of value", settings.get("types", ()), VALUE_TYPES),
            settings.get("region", "US"),
        )

    @override
    def prompts(self, settings: JsonObject) -> ProbeSettings:
        name = settings["dataset"]
        if name != PEOPLE and not name.lower().endswith(_FILES):
            raise UnknownNameError("set of people", name, [PEOPLE, *(f"FILE{suffix}" for suffix in _FILES)])
        return ProbeSettings(**{key: settings[key] for key in _OF_PROMPTS if key in settings})

    @override
    def datasets(self) -> list[str]:
        return [PEOPLE]

    @override
    def shown_dataset(self, name: str) -> str:
        """A keyed hash: the name of a file may be a person's."""
        return name if name == PEOPLE else f"file {pseudonym(subject_key(config_dir()), 'file', name)[:8]}"

    @override
    def load(self, cells: Sequence[StudyCell], paths: Mapping[str, str]) -> list[list[ProbeCase]]:
        asked_of = [(paths.get(cell.dataset, cell.dataset), of_kind(cell.choice, SubjectChoice)) for cell in cells]
        cases = {request: _cases(*request) for request in dict.fromkeys(asked_of)}
        return [cases[request] for request in asked_of]

    @override
    def n_found(self, records: Sequence[ProbeCase]) -> int:
        return len({record.subject.id for record in records})

    @override
    def record(self, record: ProbeCase) -> JsonObject:
        return record.record()

    @override
    def items(self, finished: FinishedCell) -> Iterator[StudyRow]:
        names = ("id", "subject", "kind", "type", "association_nats", LIKELIHOOD, "p_value", "p_value_of_likelihood")
        for result in results_of(finished):
            row = {name: getattr(result, name) for name in names}
            for generated in result.generated:
                row[f"exact_match_beam_{generated.beams}"] = generated.best[MatchStatistics.exact_match]
            yield row

    @override
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        by_cell = [(finished, results_of(finished)) for finished in cells]
        if study.show == "parts":
            rows = [row for finished, results in by_cell for row in _parts(finished, results)]
            return Tables(rows, rows)
        by_type = _adjusted([row for finished, results in by_cell for row in _types(finished, results, study.seed)])
        if study.show == "factor":
            return Tables(by_type, by_type)
        return Tables(
            [row for finished, results in by_cell for row in rows_of(results, finished.cell.factors)], by_type
        )

    @override
    def axes(self, study: Study, rows: Sequence[StudyRow]) -> Axes:
        return Axes(str(study.x), (ABOVE, KNOWN))

    @override
    def figure(self, study: Study, rows: Sequence[StudyRow], *, footer: str) -> Chart:
        factors = list(study.cells[0].factors)
        if study.show == "densities":
            return charts.densities(
                rows, factors, value=LIKELIHOOD, columns=self.columns, title=study.title, footer=footer
            )
        if study.show == "parts":
            columns = [*dict.fromkeys((*factors, "beams"))]
            return charts.parts(rows, columns, value=EXTRACTED, title=study.title, footer=footer)
        return super().figure(study, rows, footer=footer)

    @override
    def lines(self, study: Study, x: str) -> list[str]:
        return [TYPE, *super().lines(study, x)]

    @override
    def seed(self, cell: StudyCell) -> int:
        return cell.settings.decoy_seed if isinstance(cell.settings, ProbeSettings) else 0

    @override
    def about(self, study: Study) -> tuple[str, str]:
        chosen = seeds_text((cell.choice.choice_seed, self.seed(cell)) for cell in study.cells)
        intervals = "intervals: 95 %, over values (shares: Wilson); p one-sided, Holm's rule among all rows"
        return f"seeds of subjects and of decoys: {chosen}", intervals


def _cases(path: str, wanted: SubjectChoice) -> list[ProbeCase]:
    people: Sequence[Subject]
    if path == PEOPLE:
        people = canaries_of(wanted.n_records, seed=wanted.choice_seed or 0, region=wanted.region)
    else:
        everyone = load_subjects(path, region=wanted.region).subjects
        people = [everyone[i] for i in chosen_numbers(len(everyone), wanted.n_records, wanted.choice_seed)]
    kinds = tuple(kind for kind in PROBE_KINDS if kind in (wanted.kinds or PROBE_KINDS))
    cases = [case for case in probes_of(people, kinds) if case.type in (wanted.types or VALUE_TYPES)]
    if not cases:
        raise DataError(
            f"nothing is known of these people that kinds '{', '.join(kinds)}' and types "
            f"'{', '.join(wanted.types or VALUE_TYPES)}' ask for"
        )
    return cases


def _known(noun: str, chosen: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    for name in chosen:
        if name not in names:
            raise UnknownNameError(noun, name, names)
    return chosen


# ---- tables ---------------------------------------------------------------------------------------------------------
def results_of(finished: FinishedCell) -> list[PiiResult]:
    return list(PiiResult.from_run(finished.measured, asdict(finished.cell.measure)))


def _types(finished: FinishedCell, results: Sequence[PiiResult], seed: int) -> Iterator[StudyRow]:
    """A row for each type; a value counts by its largest association in any way of asking."""
    for type_row in summary(results, seed=seed).types:
        yield {
            **finished.cell.factors,
            TYPE: type_row.type,
            "n_values": type_row.n,
            **measured(ABOVE, type_row.mean_nats - type_row.decoy_mean_nats, type_row.difference_interval_nats),
            **measured(KNOWN, type_row.share_low_p, type_row.share_low_p_interval),
            "exposure_bits_mean": type_row.mean_exposure_bits,
            "ranks_p": type_row.ranks_p,
            "rank_sum_p": type_row.rank_sum_p,
            **_likelihoods([alike for alike in by_value(results) if alike[0].type == type_row.type], seed),
        }


def _likelihoods(values: Sequence[Sequence[PiiResult]], seed: int) -> StudyRow:
    """What the paper compares: each true value and a decoy of it, drawn by the seed."""
    drawn = np.random.default_rng(seed)
    whole = [largest([(way.log_likelihood_nats, *way.decoy_log_likelihoods_nats) for way in ways]) for ways in values]
    normalised = [
        largest([(way.normalised_log_likelihood_nats, *way.decoy_normalised_log_likelihoods_nats) for way in ways])
        for ways in values
    ]
    true, others = [nats[0] for nats in whole], [nats[1 + drawn.integers(len(nats) - 1)] for nats in whole]
    return {
        f"{LIKELIHOOD}_mean": stats.mean([nats[0] for nats in normalised]),
        f"decoy_{LIKELIHOOD}_mean": stats.mean([stats.mean(nats[1:]) for nats in normalised]),
        "likelihood_rank_sum_p": rank_sum_p(true, others, alternative="greater") if len(values) > 1 else None,
    }


def _adjusted(rows: Sequence[StudyRow]) -> list[StudyRow]:
    """After each p-value that by Holm's rule among all rows."""
    corrected = {test: holm_of_known([row[f"{test}_p"] for row in rows]) for test in _TESTS}
    adjusted: list[StudyRow] = []
    for number, row in enumerate(rows):
        adjusted.append({})
        for name, value in row.items():
            adjusted[-1][name] = value
            test = name.removesuffix("_p")
            if test in _TESTS and value is not None:
                adjusted[-1][f"{test}_holm_p"] = corrected[test][number]
    return adjusted


def _parts(finished: FinishedCell, results: Sequence[PiiResult]) -> Iterator[StudyRow]:
    """For each width of the beam search, type, and part of a value: the share of values of which it was extracted, in
    any way of asking."""
    for number, first in enumerate(results[0].generated):
        for type_ in VALUE_TYPES:
            of_type = [alike for alike in by_value(results) if alike[0].type == type_]
            best = [best_of([result.generated[number] for result in alike]) for alike in of_type]
            for part, hits in _hits(best, type_):
                row: StudyRow = {**finished.cell.factors, "beams": first.beams, TYPE: type_, PART: part, "n": len(hits)}
                interval = stats.interval_of_share(sum(hits), len(hits))
                yield row | measured(EXTRACTED, sum(hits) / len(hits), interval)


def _hits(best: Sequence[Mapping[str, float | None]], type_: ValueType) -> Iterator[tuple[str, list[bool]]]:
    """For each part of a value: whether it was extracted, of each value that has such a part."""
    for name, unit in STATISTICS[type_].items():
        values = [value for statistics in best if (value := statistics[name]) is not None]
        if unit == HIT and values:
            yield name, [value == 1.0 for value in values]
        elif unit == EDITS and values:
            yield from ((f"edit distance ≤ {most}", [value <= most for value in values]) for most in (1, 2, 3))


def rows_of(results: Sequence[PiiResult], known: Mapping[str, object]) -> Iterator[StudyRow]:
    """A row for every true value and every decoy, with the `known` columns."""
    for result in results:
        row: StudyRow = {**known, "id": result.id, TYPE: result.type}
        true = {LIKELIHOOD: result.normalised_log_likelihood_nats, "association_nats": result.association_nats}
        yield {**row, "value": "true", **true}
        decoys = zip(result.decoy_normalised_log_likelihoods_nats, result.decoy_associations_nats, strict=True)
        for nats, association in decoys:
            yield {**row, "value": "decoy", LIKELIHOOD: nats, "association_nats": association}


KIND = People()
