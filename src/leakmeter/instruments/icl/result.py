"""The result of measuring ICL influence on one query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from leakmeter.core.measurement import Measurement
from leakmeter.core.request import FloatArray
from leakmeter.instruments.icl.log_ratio import FARTHEST, farthest_losses, log_ratio
from leakmeter.instruments.icl.quantities import ICL
from leakmeter.instruments.icl.summary import or_infinite
from leakmeter.instruments.icl.summary import summary as summary
from leakmeter.report.blocks import Provenance, Report
from leakmeter.report.result import CaseResult, Part
from leakmeter.stats.posterior import posterior_fields

if TYPE_CHECKING:
    import pandas as pd

_LITTLE_MASS: Final = 0.1  # probability of all labels together below which what they share says little of the answer
Series = Mapping[tuple[str, str], FloatArray]
"""Statistic and piece to values."""


def case_object(
    texts: Mapping[str, Any], measurements: Sequence[Measurement], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Texts and measurements of a query to one plain object: what `--json` prints and reports are drawn from.

    Lists of one number a label are in the order of `labels`. Null stands for an infinite loss.

    Args:
        texts: what the measurements are about (see `runs.measure.texts_of`), with `labels`, the words of the task in
        order. measurements: of this query.
        params: of the measure.
    """
    series = {(r.statistic, r.piece): r.values for r in measurements}
    floor = float(series["noise" if params["space"] == "labels" else "farthest_noise", ""][0])
    exemplars = [_exemplar(n, span, texts, series, floor) for n, span in enumerate(texts["spans"], 1)]
    exemplars = _ranked(exemplars)
    worst = min(exemplars, key=lambda exemplar: exemplar["rank"])
    labels = list(texts["labels"])
    prediction = labels[int(series["prediction", ""][0])]
    gold = series.get(("gold", ""))
    right = None if gold is None else labels[int(gold[0])]
    mass = float(np.exp(series["label_mass", ""][0]))
    return {
        **{name: texts[name] for name in ("id", "model", "weights_sha256", "dtype", "template", "query", "context")},
        **params,
        "labels": labels,
        "label_probabilities": np.exp(series["label_log_prob", ""]).tolist(),
        "label_mass": mass,
        "prediction": prediction,
        "gold": right,
        "is_right": None if right is None else prediction == right,
        "exemplars": exemplars,
        "loss_nats": worst["loss_nats"],
        "posterior": worst["posterior"],
        "posterior_note": worst["posterior_note"],
        "worst_exemplar": worst["name"],
        "noise_floor_nats": floor,
        "cost": texts["cost"],
        "warnings": _warnings(texts, mass, params),
    }


def _exemplar(
    position: int,
    span: Mapping[str, Any],
    texts: Mapping[str, Any],
    series: Series,
    floor: float,
) -> dict[str, Any]:
    name = span["name"]
    ((start, end),) = span["ranges"]
    text = texts["context"][start:end]
    signed = series["label_loss", name]
    worst = int(np.abs(signed).argmax())
    vocabulary = _vocabulary(name, series, texts)
    told = signed[worst] if vocabulary is None else log_ratio(*(series[what, name][0] for what in FARTHEST[1:3]))
    loss = _plain(np.abs(told))
    return {
        "name": name,
        "position": position,
        "id": span["document"],
        "text": text,
        "label": _label_of(text, texts["labels"]),
        "n_tokens": span["n_tokens"],
        "loss_nats": loss,
        **posterior_fields(float(told), noise_nats=floor),
        "below_noise_floor": or_infinite(loss) <= floor,
        "worst_label": texts["labels"][worst],
        "worst_label_nats": _plain(np.abs(signed[worst])),
        "signed_nats": [_plain(value) for value in signed],
        "vocabulary": vocabulary,
        "repeats": list(span["repeats"]),
    }


def _vocabulary(name: str, series: Series, texts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The tokens that tell most, of all and of the plausible ones; None where only labels were measured."""
    if (FARTHEST[0], name) not in series:
        return None
    entries = np.concatenate([series[statistic, name] for statistic in FARTHEST])
    out = {}
    for kind, loss in zip(("farthest", "plausible"), farthest_losses(entries), strict=True):
        token = int(series[f"{kind}_token", name][0])
        out[kind] = {
            "token": texts["words"][str(token)],
            "token_id": token,
            "log_prob_nats": _plain(series[f"{kind}_log_prob", name][0]),
            "log_prob_without_nats": _plain(series[f"{kind}_log_prob_without", name][0]),
            "loss_nats": _plain(loss),
        }
    return out


def _label_of(text: str, labels: Sequence[str]) -> str | None:
    """The label that an exemplar ends with; None where its text was cut off before it."""
    return max((label for label in labels if text.endswith(f" {label}")), key=len, default=None)


def _ranked(exemplars: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the rank of each, from 1, most nats first; ties in the order of the prompt."""
    order = sorted(exemplars, key=lambda exemplar: -or_infinite(exemplar["loss_nats"]))
    ranks = {exemplar["name"]: rank for rank, exemplar in enumerate(order, 1)}
    return [{**exemplar, "rank": ranks[exemplar["name"]]} for exemplar in exemplars]


def _warnings(texts: Mapping[str, Any], mass: float, params: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    if mass < _LITTLE_MASS:
        what = "first tokens of the labels" if params["label_scoring"] == "first-token" else "labels"
        out.append(
            f"The {what} have a probability of {mass:.2g} together: most of what the model would say here is none of "
            "them. --template chat, or another wording of the labels, may suit it better."
        )
    if any(span["repeats"] for span in texts["spans"]):
        out.append("Some exemplars say the same: leaving one out leaves the others in, and each may read near zero.")
    return out


def _plain(value: Any) -> float | None:
    """JSON has no word for infinity: null stands for it."""
    return float(value) if np.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One exemplar of the prompt and what the answer owes to it."""

    name: str
    position: int
    """In the prompt, from 1."""
    id: str
    text: str = field(repr=False)
    label: str | None
    loss_nats: float | None
    """max_y |log A(S, x)(y) − log A(S∖i, x)(y)|, over labels or the vocabulary; None where it is infinite."""
    rank: int
    """Among the exemplars, from 1, most nats first."""
    posterior: float | None
    """Probability, from even odds, that an observer of the answer that tells most gives to the exemplar having been
    there: 1 / (1 + e^−s), s = log A(S, x)(y) − log A(S∖i, x)(y). None where |s| is not above the noise floor."""
    posterior_note: str | None
    """Why there is no posterior; None where there is one."""
    below_noise_floor: bool
    """Whether other ways to compute the same move the loss as much."""
    worst_label: str
    """Label that tells most of it."""
    worst_label_nats: float | None
    """What that label tells: the loss itself, where y runs over labels."""


@dataclass(frozen=True, slots=True)
class IclResult(CaseResult):
    """What the answer to one query owes to each exemplar of its prompt, in nats.

    `case` is as `leakmeter icl --json` prints it.
    """

    quantities: ClassVar = ICL

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[IclResult]:
        """The results of a run's queries, each as soon as its part is there."""
        for texts, measurements in parts:
            yield cls(case_object(texts, measurements, params))

    @property
    def exemplars(self) -> tuple[Exemplar, ...]:
        """The exemplars, in the order of the prompt."""
        return tuple(Exemplar(**{name: one[name] for name in Exemplar.__slots__}) for one in self.case["exemplars"])

    @property
    def loss(self) -> float:
        """The query's term of Eq. 4, nats: the largest loss of an exemplar."""
        return or_infinite(self.case["loss_nats"])

    @property
    def prediction(self) -> str:
        """The likeliest label."""
        return str(self.case["prediction"])

    @property
    def noise_floor(self) -> float:
        """Loss below which a reading is no finding, nats."""
        return float(self.case["noise_floor_nats"])

    def to_frame(self) -> pd.DataFrame:
        """One row an exemplar, with the fields of `Exemplar` as columns, and the signed nats of each label."""
        import pandas as pd

        rows = [
            {
                **{name: one[name] for name in Exemplar.__slots__},
                **{
                    f"signed_nats: {label}": v for label, v in zip(self.case["labels"], one["signed_nats"], strict=True)
                },
            }
            for one in self.case["exemplars"]
        ]
        return pd.DataFrame(rows)

    @classmethod
    def summary(cls, cases: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """ICLInf, accuracy, losses by position, label and exemplar; see `summary`."""
        return summary(cases)

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.icl.report`."""
        from leakmeter.instruments.icl.report import report

        return report(cases, summary(cases), command=command, provenance=provenance)
