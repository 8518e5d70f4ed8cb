"""The result of measuring context influence on one case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from leakmeter.core.measurement import Measurement
from leakmeter.core.request import FloatArray
from leakmeter.instruments.influence.quantities import INFLUENCE
from leakmeter.report.blocks import Provenance, Report
from leakmeter.report.result import Part, ResponseResult
from leakmeter.stats.posterior import posterior_fields
from leakmeter.stats.stats import bootstrap_interval_of_mean
from leakmeter.text.entity_results import entity_fields, entity_warnings, ranks

if TYPE_CHECKING:
    import pandas as pd


_REDUNDANT_RATIO = 2.0  # "only this" over "without this", from where a repeated value is called redundant


def case_object(
    texts: Mapping[str, Any], measurements: Sequence[Measurement], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Texts and measurements of a case to one plain object: what `--json` prints and reports are drawn from.

    Args:
        texts: what the measurements are about (see `runs.measure.texts_of`).
        measurements: of this case.
        params: of the measure.
    """
    series = {(r.sample, r.statistic, r.piece): r.values for r in measurements}
    n_samples = len(texts["responses"])
    whole = series[0, "whole", ""]
    noise = series[0, "noise", ""]
    placebos = [r.values for r in measurements if r.statistic == "placebo" and r.sample == 0]
    placebo_signed_nats = max((abs(float(values.sum())) for values in placebos), default=None)
    alone = series.get((0, "placebo_alone", ""))
    # Runs of version 0.1 have no irrelevant piece as the only context: there, one that was added stands for it.
    alone_signed_nats = placebo_signed_nats if alone is None else abs(float(alone.sum()))
    whole_by_sample = [_sum(series[i, "whole", ""]) for i in range(n_samples)]
    first = texts["responses"][0]
    ranked = ranks(texts["spans"], [_sum(series[0, "without_this", span["name"]]) for span in texts["spans"]])
    return {
        **{
            name: texts[name]
            for name in ("id", "model", "weights_sha256", "dtype", "unit", "removal", "template", "query", "context")
        },
        "temperature": params["temperature"],
        "cid_lambda": params["cid_lambda"],
        "documents": texts["documents"],
        "truncated_tokens": texts["truncated_tokens"],
        "response": {**first, "sampled": texts["sampled"], "seed": params["seed"] if texts["sampled"] else None},
        "pieces": [
            {
                **_piece(span, texts, series, n_samples, params),
                **posterior_fields(
                    float(signed.sum()),
                    noise_nats=float(noise.sum()),
                    # A piece that is all of the context is held against what the whole context is.
                    placebo_nats=alone_signed_nats if np.array_equal(signed, whole) else placebo_signed_nats,
                ),
                "rank": rank,
                **entity_fields(span, series, texts["context"], first["text"]),
            }
            for span, rank in zip(texts["spans"], ranked, strict=True)
            for signed in [series[0, "without_this", span["name"]]]
        ],
        "whole_nats": _sum(whole),
        "whole_signed_nats": float(whole.sum()),
        "whole_per_token": np.abs(whole).tolist(),
        "whole_signed_per_token": whole.tolist(),
        **posterior_fields(
            float(whole.sum()), noise_nats=float(noise.sum()), placebo_nats=alone_signed_nats, prefix="whole_"
        ),
        **_over_samples("whole_", whole_by_sample, params),
        "noise_floor_nats": float(noise.sum()),
        "noise_floor_per_token_nats": float(noise.max()),
        "placebo_nats": float(np.mean([_sum(values) for values in placebos])) if placebos else None,
        "placebo_signed_nats": placebo_signed_nats,
        "placebo_alone_nats": None if alone is None else _sum(alone),
        "placebo_alone_signed_nats": alone_signed_nats,
        "samples": [
            {
                **texts["responses"][i],
                "whole_nats": whole_by_sample[i],
                "nats": [_sum(series[i, "without_this", span["name"]]) for span in texts["spans"]],
            }
            for i in range(n_samples)
        ]
        if n_samples > 1
        else [],
        "cost": texts["cost"],
        "warnings": [*_warnings(texts), *entity_warnings(texts, series)],
    }


def _piece(
    span: Mapping[str, Any],
    texts: Mapping[str, Any],
    series: Mapping[tuple[int, str, str], FloatArray],
    n_samples: int,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    signed = series[0, "without_this", span["name"]]
    nats = _sum(signed)
    only = _sum(series[0, "only_this", span["name"]])
    ranges = [list(part) for part in span["ranges"]]
    return {
        "name": span["name"],
        "kind": span["kind"],
        "text": " … ".join(texts["context"][a:b] for a, b in ranges),
        "start": ranges[0][0],
        "end": ranges[-1][1],
        "spans": ranges,
        "document": span["document"],
        "n_tokens": span["n_tokens"],
        "n_mentions": len(ranges),
        "nats": nats,
        "per_token": np.abs(signed).tolist(),
        "signed_nats": float(signed.sum()),
        "signed_per_token": signed.tolist(),
        "only_this_nats": only,
        "below_noise_floor": bool(nats <= series[0, "noise", ""].sum()),
        "repeats": list(span["repeats"]),
        "redundant": bool(span["repeats"]) and only >= _REDUNDANT_RATIO * nats,
        **_over_samples("", [_sum(series[i, "without_this", span["name"]]) for i in range(n_samples)], params),
    }


def _over_samples(prefix: str, values: Sequence[float], params: Mapping[str, Any]) -> dict[str, Any]:
    if len(values) < 2:
        return {f"{prefix}mean_nats": None, f"{prefix}interval_nats": None, f"{prefix}worst_nats": None}
    return {
        f"{prefix}mean_nats": float(np.mean(values)),
        f"{prefix}interval_nats": list(bootstrap_interval_of_mean(values, seed=params["seed"])),
        f"{prefix}worst_nats": float(max(values)),
    }


def _warnings(texts: Mapping[str, Any]) -> list[str]:
    out = []
    decoding = texts.get("decoding", "sampling")
    if decoding != "sampling":
        out.append(
            f"The response was chosen by {decoding}, and is measured as if it had been sampled from the whole "
            "distribution. What it really told may be more: a token that is left out without a piece, and not with it, "
            "tells of the piece for certain."
        )
    has_values = any(span["kind"] == "value" for span in texts["spans"])
    if any(span["repeats"] for span in texts["spans"]) and not has_values:
        out.append(
            "Some pieces say the same value: leaving one out leaves the other in, and both may read near zero; "
            "--group measures each such value with all its mentions removed."
        )
    return out


def _sum(values: FloatArray) -> float:
    return float(np.abs(values).sum())


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of the context and what the response owes to it."""

    name: str
    text: str = field(repr=False)
    start: int
    """First character in the context."""
    end: int
    """Character behind the last."""
    nats: float
    """τ_i = Σ_t |log p̄(y_t | D) − log p̄(y_t | D∖D_i)|."""
    signed_nats: float
    """The same without the absolute value: above 0 where the piece made the response likelier."""
    only_this_nats: float
    """Σ_t |log p̄(y_t | D_i) − log p̄(y_t | ∅)|: what the piece does when it is all the context."""
    posterior: float | None
    """Probability, from even odds, that an observer of the response gives to the piece having been there:
    1 / (1 + e^−signed_nats). None where |signed_nats| is not above the noise floor and the placebo's."""
    posterior_note: str | None
    """Why there is no posterior; None where there is one."""
    below_noise_floor: bool
    """Whether neighbours in the computation move the sum as much."""
    rank: int
    """Among the pieces of its kind, from 1, most nats first."""
    n_mentions: int
    """Places that say it; they are taken away together."""
    entity_type: str | None
    """For personal data: 'phone', 'email', 'address', 'date', 'person', or a type of the user's."""
    repeated: str | None
    """For personal data: whether the response says it, 'verbatim', 'in part' or 'no'."""
    invented: str | None = field(repr=False)
    """For personal data that was swapped too: what was put in its place."""
    swapped_nats: float | None
    """Σ_t |log p̄(y_t | D) − log p̄(y_t | D with the invented value)|."""


@dataclass(frozen=True, slots=True)
class InfluenceResult(ResponseResult):
    """What one response owes to each piece of its context, in nats.

    `case` is as `leakmeter influence --json` prints it.
    """

    quantities: ClassVar = INFLUENCE

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[InfluenceResult]:
        """The results of a run's cases, each as soon as its part is there."""
        for texts, measurements in parts:
            yield cls(case_object(texts, measurements, params))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces, in the order of the context; values said several times come last."""
        return tuple(Piece(**{field: p[field] for field in Piece.__slots__}) for p in self.case["pieces"])

    @property
    def matrix(self) -> npt.NDArray[np.float64]:
        """τ_i(t), nats: (piece, response token)."""
        return self._by_token("per_token")

    @property
    def signed_matrix(self) -> npt.NDArray[np.float64]:
        """log p̄(y_t | D) − log p̄(y_t | D∖D_i), nats: (piece, response token)."""
        return self._by_token("signed_per_token")

    def _by_token(self, field: str) -> npt.NDArray[np.float64]:
        rows = [piece[field] for piece in self.case["pieces"]]
        return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(self.case["whole_per_token"]))

    @property
    def whole(self) -> float:
        """Influence of the whole context on the response, nats."""
        return float(self.case["whole_nats"])

    @property
    def noise_floor(self) -> float:
        """Sum over the response below which a reading is no finding, nats."""
        return float(self.case["noise_floor_nats"])

    def to_frame(self) -> pd.DataFrame:
        """One row a piece, with the fields of `Piece` as columns."""
        import pandas as pd

        rows = [{field: p[field] for field in Piece.__slots__} for p in self.case["pieces"]]
        return pd.DataFrame(rows, columns=list(Piece.__slots__))

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.influence.report`."""
        from leakmeter.instruments.influence.report import report

        return report(cases, command=command, provenance=provenance)
