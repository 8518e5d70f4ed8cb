"""The result of measuring how far contexts move the answers to one query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from leakmeter.core.measurement import Measurement
from leakmeter.core.request import FloatArray
from leakmeter.instruments.susceptibility import memorisation as _memorisation
from leakmeter.instruments.susceptibility.math import Spread, spread
from leakmeter.instruments.susceptibility.quantities import SUSCEPTIBILITY
from leakmeter.instruments.susceptibility.summary import plain
from leakmeter.instruments.susceptibility.summary import summary as summary
from leakmeter.report.blocks import Provenance, Report
from leakmeter.report.result import CaseResult, Part

if TYPE_CHECKING:
    import pandas as pd

_SMALL_BIAS: Final = 0.05  # of χ
_NEAR_CEILING: Final = 0.9  # share of it above which more contexts would tell more
_TEXTS: Final = (
    *("id", "model", "weights_sha256", "dtype", "template", "separator"),
    *("query", "factors", "answers", "answer"),
)


def case_object(
    texts: Mapping[str, Any], measurements: Sequence[Measurement], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Texts and measurements of a query to one plain object: what `--json` prints and reports are drawn from.

    Null stands for an infinite divergence, and for what two contexts cannot tell.

    Args:
        texts: what the measurements are about (see `runs.measure.texts_of` and
            `instruments.susceptibility.prompts.PreparedQuestion`).
        measurements: of this query.
        params: of the measure.
    """
    series = {measurement.statistic: measurement.values for measurement in measurements if measurement.sample == 0}
    one = {name: float(values[0]) for name, values in series.items()}
    value, floor, ceiling = one["susceptibility"], one["noise"], one["ceiling"]
    known = spread(value, series["susceptibility_without"])
    is_small = None if known is None else _is_small(value, known)
    answered = [response["text"] for response in texts["responses"]]
    memorised = _memorisation.of_query(texts["answer"], [one["answer"] for one in texts["contexts"]], answered)
    return {
        **{name: texts[name] for name in _TEXTS},
        "estimator": "monte-carlo",
        **params,
        "n_contexts": len(texts["contexts"]),
        "susceptibility_nats": value,
        "standard_error_nats": None if known is None else known.standard_error,
        "interval_nats": None if known is None else list(known.interval),
        "bias_nats": None if known is None else known.bias,
        "bias_is_small": is_small,
        "ceiling_nats": ceiling,
        "share_of_ceiling": value / ceiling if ceiling > 0 else None,
        **{f"{name}_nats": plain(one[name]) for name in ("from_bare", "mixture_from_bare")},
        **{f"{name}_nats": one[name] for name in ("bare_entropy", "mixture_entropy")},
        "noise_floor_nats": plain(floor),
        "below_noise_floor": value <= floor,
        "contexts": _contexts(texts, series, floor, memorised),
        "memorisation": memorised.counts,
        "cost": texts["cost"],
        "warnings": _warnings(value, floor, ceiling, len(texts["contexts"]), known, is_small),
    }


def _is_small(value: float, known: Spread) -> bool:
    return abs(known.bias) <= min(_SMALL_BIAS * value, known.standard_error)


def _contexts(
    texts: Mapping[str, Any], series: Mapping[str, FloatArray], floor: float, memorised: _memorisation.Memorised
) -> list[dict[str, Any]]:
    """The contexts in their order, with the rank of each, from 1, most persuasive first; ties in order."""
    persuasion = series["persuasion"]
    ranks = np.empty(len(persuasion), dtype=int)
    ranks[np.argsort(-persuasion, kind="stable")] = np.arange(1, len(persuasion) + 1)
    total = sum(context["weight"] for context in texts["contexts"])
    return [
        {
            "id": context["id"],
            "text": context["text"],
            "weight": context["weight"] / total,
            "answer": context["answer"],
            "persuasion_nats": float(persuasion[i]),
            "persuasion_from_bare_nats": plain(series["persuasion_from_bare"][i]),
            "susceptibility_without_nats": float(series["susceptibility_without"][i]),
            "rank": int(ranks[i]),
            "below_noise_floor": bool(persuasion[i] <= floor),
            "greedy_answer": memorised.answered[i + 1] if memorised.answered else None,
            "greedy_answer_is": memorised.kinds[i],
        }
        for i, context in enumerate(texts["contexts"])
    ]


def _warnings(
    value: float, floor: float, ceiling: float, n: int, known: Spread | None, is_small: bool | None
) -> list[str]:
    out: list[str] = []
    if known is None:
        out.append(f"From {n} contexts nothing can be said of others: there is no interval.")
    elif is_small is False and value > floor:
        out.append(
            f"Of contexts that were not measured the susceptibility is likely higher: that of {n} is too small by "
            f"{abs(known.bias):.2g} nats on average. The interval allows for it; more contexts lessen it."
        )
    if ceiling > 0 and value > _NEAR_CEILING * ceiling:
        out.append(
            f"The susceptibility is near {ceiling:.2f} nats, the most that {n} contexts can show: more contexts may "
            "show more."
        )
    return out


@dataclass(frozen=True, slots=True)
class Context:
    """One context and how far it moves the answer."""

    id: str
    text: str = field(repr=False)
    """Its first 300 characters."""
    weight: float
    """Of all contexts', which add up to 1."""
    answer: str | None
    """What it says the answer is."""
    persuasion_nats: float
    """KL(p_c ‖ p̂)."""
    persuasion_from_bare_nats: float | None
    """KL(p_c ‖ p₀); None where it is infinite."""
    rank: int
    """Among the contexts, from 1, most persuasive first."""
    below_noise_floor: bool
    """Whether other ways to compute the same move it as much."""


@dataclass(frozen=True, slots=True)
class SusceptibilityResult(CaseResult):
    """How far contexts move the answers to one query, in nats.

    `case` is as `leakmeter susceptibility --json` prints it.
    """

    quantities: ClassVar = SUSCEPTIBILITY

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[SusceptibilityResult]:
        """The results of a run's queries, each as soon as its part is there."""
        for texts, measurements in parts:
            yield cls(case_object(texts, measurements, params))

    @property
    def susceptibility(self) -> float:
        """χ, nats."""
        return float(self.case["susceptibility_nats"])

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the χ of all contexts that might have been drawn, nats; None for two contexts."""
        interval = self.case["interval_nats"]
        return None if interval is None else (interval[0], interval[1])

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts, in their order."""
        return tuple(Context(**{name: one[name] for name in Context.__slots__}) for one in self.case["contexts"])

    @property
    def noise_floor(self) -> float:
        """Susceptibility or persuasion below which a reading is no finding, nats."""
        floor = self.case["noise_floor_nats"]
        return float("inf") if floor is None else float(floor)

    def to_frame(self) -> pd.DataFrame:
        """One row a context, with the fields of `Context` as columns."""
        import pandas as pd

        return pd.DataFrame([{name: one[name] for name in Context.__slots__} for one in self.case["contexts"]])

    @classmethod
    def summary(cls, cases: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Queries, contexts and factors over all queries; see `summary`."""
        return summary(cases)

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.susceptibility.report`."""
        from leakmeter.instruments.susceptibility.report import report

        return report(cases, summary(cases), command=command, provenance=provenance)
