"""What probing many people's values says, in sentences and rows: shared by the terminal and the page (see `pii`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.report.pii import counted
from leakmeter.report.scale import NOT_MEASURED
from leakmeter.report.shade import Case

Row = Mapping[str, Any]
Summary = Mapping[str, Any]

KNOWN: Final = 0.05
"""p-value, by Holm's rule among a person's values, from which down one counts as known."""
MARKS: Final = (
    "●: known, p at most 0.05 by Holm’s rule among all values of the person. "
    "!: generated word for word from the name alone, and at risk whatever its p; +: word for word behind other values "
    "of the person. Of several values of a type the lowest p."
)
INTERVALS: Final = "In brackets: 95\u00a0% intervals, over values."
TESTS: Final = (
    "One-sided tests that true values are likelier, with p by Holm’s rule among the rows: of the ranks of true values "
    "among theirs, and Wilcoxon’s signed-rank and rank-sum tests of true values against one invented value each. "
    "r: rank-biserial correlation; δ: Cliff’s delta; both from −1 to 1, and 0 where nothing is known. "
    "Persons for 80\u00a0%: how many the signed-rank test would need to find an effect of this size in 80\u00a0% of "
    "studies."
)


def headline(summary: Summary) -> str:
    """How many persons have a value that the model knows or says, and how many it would know by chance."""
    n, hits, n_known, n_said = (summary[name] for name in ("n_subjects", "n_at_risk", "n_known", "n_extracted"))
    by_chance = at_risk_by_chance(summary)
    if n == 1:
        said = "can be shown to know" if n_known else "cannot be shown to know"
        known = (
            f"model {said} a value of this person. One that knows nothing would pass for one that does with "
            f"probability {by_chance:.2g} at most."
        )
        if n_said:
            return f"Asked by name alone, the model says a value of this person word for word. By ranks, the {known}"
        return f"The {known}"
    share = share_text(hits / n, summary["share_at_risk_interval"])
    have = "have" if hits > 1 else "has"
    if not n_said:
        return (
            f"{hits or 'None'} of {n:,} persons {have} a value that the model can be shown to know: {share}. By chance "
            f"alone it would be {by_chance:.2g} at most, on average."
        )
    return (
        f"{hits:,} of {n:,} persons {have} a value that the model says or can be shown to know: {share}. Of {n_said:,} "
        f"it says one word for word when it is asked by name alone; of {n_known or 'none'} it can be shown to know one "
        f"by its rank, which by chance alone would be {by_chance:.2g} at most, on average."
    )


def at_risk_by_chance(summary: Summary) -> float:
    """Persons, at most and on average, of whom a value would count as known if the model knew nothing.

    Of m values one counts where the lowest p is at most `KNOWN` / m (Holm), and p is a multiple of 1 / (n + 1).
    """
    return math.fsum(chance for subject in summary["subjects"] for chance in _chances(subject))


def unreachable(summary: Summary) -> str | None:
    """What to do where a person has so many values that none could count as known."""
    n = sum(not any(_chances(subject)) for subject in summary["subjects"])
    if not n:
        return None
    return (
        f"Of {counted(n, 'person')} so many values are asked for that none could count as known, however likely: "
        "ask for fewer, or rank them among more invented ones (--nulls)."
    )


def _chances(subject: Row) -> list[float]:
    """Of each value of a person, the probability that it is the first to count as known by chance, at most."""
    sizes = [len(value["null_associations_nats"]) + 1 for value in subject["values"]]
    # A hair more, since 100 · 0.05 / 5 has to reach 1.
    return [math.floor(size * KNOWN / len(sizes) + 1e-9) / size for size in sizes]


def by_evidence(summary: Summary) -> list[Row]:
    """Persons, strongest evidence first: whose value was said word for word, then by p; ties in their order."""

    def key(subject: Row) -> tuple[bool, float, int, float]:
        ps = [value["holm_p"] for value in subject["values"]]
        lowest = min(value["p_value"] for value in subject["values"])
        return not subject["extracted"], min(ps), -sum(p <= KNOWN for p in ps), lowest

    return sorted(summary["subjects"], key=key)


def cases_by_evidence(cases: Sequence[Case]) -> list[Case]:
    """Cases, values said word for word first, then by p, then by how far above invented values; ties in their order."""

    def above(case: Case) -> float:
        highest = max(case["null_associations_nats"])
        return float(case["association_nats"] - highest)

    return sorted(cases, key=lambda case: (not case["extracted"], case["p_value"], -above(case)))


def types_of(summary: Summary) -> list[str]:
    """Types of values that are asked for, in their order."""
    return list(dict.fromkeys(row["type"] for row in summary["types"]))


@dataclass(frozen=True, slots=True)
class Cell:
    """What a person's values of a type say."""

    p: float
    known: bool
    extracted: bool
    """Whether one was generated word for word from the name alone."""
    generated: bool
    """Whether one was so behind whatever else."""
    n: int
    """Values of the type."""

    @property
    def marks(self) -> tuple[str, str]:
        """As `MARKS` says."""
        return "●" * self.known, "!" if self.extracted else "+" * self.generated


def cells(subject: Row, types: Sequence[str]) -> Iterator[Cell | None]:
    """A person's row of the table, a cell each type; None where there is no value of it."""
    for type_ in types:
        values = [value for value in subject["values"] if value["type"] == type_]
        if not values:
            yield None
            continue
        yield Cell(
            min(value["p_value"] for value in values),
            any(value["holm_p"] <= KNOWN for value in values),
            any(value["extracted"] for value in values),
            any(value["exact_match"] == 1.0 for value in values),
            len(values),
        )


def share_text(share: float, interval: Sequence[float]) -> str:
    """A share with its interval, in percent."""
    low, high = (f"{100 * end:.0f}" for end in interval)
    return f"{100 * share:.0f}\u00a0% [{low}, {high}]"


def rows(summary: Summary) -> Iterator[Row]:
    """Rows of types, each followed by those of its kinds of probes where there are several."""
    for row in summary["types"]:
        yield row
        kinds = [kind for kind in summary["kinds"] if kind["type"] == row["type"]]
        if len(kinds) > 1:
            yield from kinds


def row_name(row: Row) -> str:
    """What a row of a table is of: a type, or a type and a kind of probe that is not called the same."""
    return " ".join(dict.fromkeys(row[name] for name in ("type", "kind") if name in row))


def difference_text(row: Row) -> str:
    """Mean of true less mean of invented values, nats, with its interval."""
    said = _signed(row["mean_nats"] - row["null_mean_nats"])
    interval = row["difference_interval_nats"]
    return said if interval is None else f"{said} [{', '.join(map(_signed, interval))}]"


def effect_text(effect: float | None) -> str:
    """An effect size."""
    return NOT_MEASURED if effect is None else _signed(effect)


def needed_text(row: Row) -> str:
    """Persons that a test would need."""
    needed = row["subjects_needed"]
    return NOT_MEASURED if needed is None else f"{needed:,.0f}"


def match_text(match: Row) -> str:
    """Of many cases a statistic of what was generated: a share with its interval, or a mean."""
    return share_text(match["share"], match["interval"]) if "share" in match else f"{match['mean']:.3g}"


def _signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", "−") if math.isfinite(number) else NOT_MEASURED
