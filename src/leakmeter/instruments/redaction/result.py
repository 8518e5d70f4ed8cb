"""The result of planning what to redact in one case: the plan, the way to it, and the answer before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from leakmeter.core.measurement import Measurement
from leakmeter.core.request import FloatArray
from leakmeter.instruments.redaction.measure import PUT_BACK, REMOVED
from leakmeter.instruments.redaction.quantities import REDACT_PLAN
from leakmeter.instruments.redaction.redacted import marked, merged, share
from leakmeter.report.blocks import Provenance, Report
from leakmeter.report.result import Part, ResponseResult
from leakmeter.stats.posterior import posterior_fields
from leakmeter.text.entity_results import Series, entity_fields, entity_warnings
from leakmeter.text.layout import without_characters

if TYPE_CHECKING:
    import pandas as pd

_ACTIONS: Final = {REMOVED: "cut", PUT_BACK: "put back"}
_TEXTS: Final = ("id", "model", "weights_sha256", "dtype", "unit", "removal", "template", "query", "context")
_ENTITY_FIELDS: Final = ("entity_type", "entity_value", "repeated")


def plan_object(
    texts: Mapping[str, Any], measurements: Sequence[Measurement], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Texts and measurements of a case to one plain object: what `--json` prints and reports are drawn from.

    Args:
        texts: what the measurements are about (see `runs.measure.texts_of`).
        measurements: of this case, steps in their order.
        params: of the measure.
    """
    series = {(r.sample, r.statistic, r.piece): r.values for r in measurements}
    whole, left, noise = (series[0, name, ""] for name in ("whole", "left", "noise"))
    all_removed, placebo = (series.get((0, name, "")) for name in ("all_removed", "placebo"))
    first = texts["responses"][0]
    placebo_signed_nats = None if placebo is None else abs(float(placebo.sum()))
    posterior = partial(posterior_fields, noise_nats=float(noise.sum()), placebo_nats=placebo_signed_nats)
    steps = _steps(texts, measurements, _sum(whole), float(noise.sum()), posterior)
    back = {step["name"] for step in steps if step["action"] == "put back"}
    taken = {step["name"] for step in steps} - back
    redacted = [_piece(span, texts, series) for span in texts["spans"] if span["name"] in taken]
    ranges = merged([part for piece in redacted for part in piece["spans"]])
    case = {
        **{name: texts[name] for name in _TEXTS},
        "temperature": params["temperature"],
        "cid_lambda": params["cid_lambda"],
        "documents": texts["documents"],
        "truncated_tokens": texts["truncated_tokens"],
        "response": {**first, "sampled": texts["sampled"], "seed": params["seed"] if texts["sampled"] else None},
        "max_loss_nats": params["max_loss"],
        "reached": _sum(left) <= params["max_loss"],
        **_nats("whole", whole),
        **posterior(float(whole.sum()), prefix="whole_"),
        **_nats("left", left),
        **posterior(float(left.sum()), prefix="left_"),
        "all_removed_nats": None if all_removed is None else _sum(all_removed),
        "placebo_nats": None if placebo is None else _sum(placebo),
        "placebo_signed_nats": placebo_signed_nats,
        "n_pieces": len(texts["spans"]),
        "redacted": sorted(redacted, key=lambda piece: (piece["start"], piece["n_tokens"])),
        "redacted_share": share(texts["context"], ranges),
        "redacted_documents": [
            {
                "name": document["name"],
                "text": without_characters(
                    texts["context"][document["start"] : document["end"]],
                    [(start - document["start"], end - document["start"]) for start, end in ranges],
                ),
            }
            for document in texts["documents"]
        ],
        "marked_context": marked(texts["context"], ranges),
        "steps": steps,
        "after": _after(texts, series, params),
        "noise_floor_nats": float(noise.sum()),
        "noise_floor_per_token_nats": float(noise.max()),
        "cost": texts["cost"],
    }
    return {**case, "warnings": [*_warnings(texts, case), *entity_warnings(texts, series)]}


def _steps(
    texts: Mapping[str, Any],
    measurements: Sequence[Measurement],
    whole_nats: float,
    noise_nats: float,
    posterior: Callable[..., Mapping[str, Any]],
) -> list[dict[str, Any]]:
    spans = {span["name"]: span for span in texts["spans"]}
    out: list[dict[str, Any]] = []
    before = whole_nats
    for measurement in (one for one in measurements if one.statistic in _ACTIONS):
        loss = _sum(measurement.values)
        out.append(
            {
                "action": _ACTIONS[measurement.statistic],
                "name": measurement.piece,
                "kind": spans[measurement.piece]["kind"],
                "text": _said(spans[measurement.piece], texts["context"]),
                "left_nats": loss,
                "left_signed_nats": float(measurement.values.sum()),
                **posterior(float(measurement.values.sum()), prefix="left_"),
                "change_nats": loss - before,
                "raised": measurement.statistic == REMOVED and loss - before > noise_nats,
            }
        )
        before = loss
    return out


def _piece(span: Mapping[str, Any], texts: Mapping[str, Any], series: Series) -> dict[str, Any]:
    ranges = [list(part) for part in span["ranges"]]
    told = entity_fields(span, series, texts["context"], texts["responses"][0]["text"])
    return {
        "name": span["name"],
        "kind": span["kind"],
        "text": _said(span, texts["context"]),
        "start": ranges[0][0],
        "end": ranges[-1][1],
        "spans": ranges,
        "document": span["document"],
        "n_tokens": span["n_tokens"],
        "n_mentions": len(ranges),
        **{name: told[name] for name in _ENTITY_FIELDS},
    }


def _said(span: Mapping[str, Any], context: str) -> str:
    """What a span says; of a value said ten times, each form once."""
    forms = [context[start:end] for start, end in span["ranges"]]
    return " … ".join(forms if span["kind"] == "unit" and not span.get("entity") else dict.fromkeys(forms))


def _after(texts: Mapping[str, Any], series: Series, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer drawn from what is left; None where nothing is cut, so that there is no other."""
    owed = series.get((1, "whole", ""))
    if owed is None:
        return None
    return {**texts["responses"][1], "seed": params["seed"], **_nats("whole", owed)}


def _warnings(texts: Mapping[str, Any], case: Mapping[str, Any]) -> list[str]:
    limit, floor = f"{case['max_loss_nats']:g}", case["noise_floor_nats"]
    out: list[str] = []
    if case["max_loss_nats"] <= floor:
        out.append(
            f"A limit of {limit} nats is below this response's noise floor of {floor:.2g}: whether it is met is "
            "chance. Give more with --max-loss, or --dtype float32."
        )
    if not case["reached"] and case["n_pieces"]:
        out.append(
            f"With every piece cut, {case['all_removed_nats']:.3g} nats are left: what lies between the pieces tells "
            "too much. Another --unit, such as sentence, reaches all of the text."
        )
    if case["placebo_nats"] is not None and case["max_loss_nats"] < case["placebo_nats"] and case["steps"]:
        out.append(
            f"Any text moves this response: irrelevant words as the only context, by {case['placebo_nats']:.3g} nats. "
            f"A limit of {limit} is below that, and may not be met while any text is left. Look at the signed sums too."
        )
    raised = [step["name"] for step in case["steps"] if step["raised"]]
    if raised:
        out.append(
            f"Cutting {', '.join(raised)} raised the loss: no other piece lowered it then, and the way under the limit "
            "led over it."
        )
    has_values = any(span["kind"] == "value" for span in texts["spans"])
    if any(span["repeats"] for span in texts["spans"]) and not has_values:
        out.append(
            "Some pieces say the same value; cutting one of them does little until the others are cut as well. --group "
            "also offers each such value by itself, with all its mentions."
        )
    return out


def _nats(what: str, signed: FloatArray) -> dict[str, Any]:
    return {
        f"{what}_nats": _sum(signed),
        f"{what}_signed_nats": float(signed.sum()),
        f"{what}_per_token": np.abs(signed).tolist(),
    }


def _sum(values: FloatArray) -> float:
    return float(np.abs(values).sum())


@dataclass(frozen=True, slots=True)
class RedactPlanResult(ResponseResult):
    """What to cut so that a response owes at most so many nats to what is left of its context.

    `case` is as `leakmeter redact-plan --json` prints it.
    """

    quantities: ClassVar = REDACT_PLAN

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[RedactPlanResult]:
        """The results of a run's cases, each as soon as its part is there."""
        for texts, measurements in parts:
            yield cls(plan_object(texts, measurements, params))

    @property
    def reached(self) -> bool:
        """Whether what is left is within the limit."""
        return bool(self.case["reached"])

    @property
    def whole(self) -> float:
        """What the response owes to the whole context, nats."""
        return float(self.case["whole_nats"])

    @property
    def left(self) -> float:
        """What it owes to what is left of the context, nats."""
        return float(self.case["left_nats"])

    @property
    def redacted(self) -> tuple[str, ...]:
        """Names of the pieces to cut, in the order of the context."""
        return tuple(piece["name"] for piece in self.case["redacted"])

    @property
    def text(self) -> str:
        """The context without them; documents are joined by blank lines, those of which nothing is left go."""
        return "\n\n".join(document["text"] for document in self.case["redacted_documents"] if document["text"])

    @property
    def after(self) -> str | None:
        """The answer drawn from what is left; None where nothing is cut."""
        return None if self.case["after"] is None else str(self.case["after"]["text"])

    def to_frame(self) -> pd.DataFrame:
        """One row a step: what was cut or put back, and the nats that were left then."""
        import pandas as pd

        columns = ("action", "name", "kind", "text", "left_nats", "left_signed_nats", "left_posterior")
        more = ("left_posterior_note", "change_nats", "raised")
        return pd.DataFrame(self.case["steps"], columns=[*columns, *more])

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.redaction.report`."""
        from leakmeter.instruments.redaction.report import report

        return report(cases, command=command, provenance=provenance)
