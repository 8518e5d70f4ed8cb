"""The library: texts from private exemplars, the guarantee of each exemplar, and what was measured against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakmeter.core.record import Record
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.result import PrivateGenerationResult, PublicTexts, Summary
from leakmeter.models import DEFAULT_MODEL
from leakmeter.privacy.rdp import Guarantee
from leakmeter.runs.result import Results

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.privacy.mechanism import Mechanism
    from leakmeter.text.exemplar import Example

Columns = Mapping[str, object]
"""A record of a task, or what says how one is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Public(Record):
    """What may be published of an audit."""

    texts: tuple[str, ...] = field(repr=False)
    guarantee: Guarantee
    """The weakest of a batch."""
    batches: tuple[PublicTexts, ...]


@dataclass(frozen=True)
class Audit(Results[PrivateGenerationResult]):
    """Texts of one or more disjoint batches of exemplars, bounds against measurements; nats."""

    @cached_property
    def summary(self) -> Summary:
        """Guarantee and verdict of all batches together."""
        return Summary.of(self.results)

    @property
    def holds(self) -> bool:
        """Whether no measurement is above its bound."""
        return all(result.holds for result in self.results)

    @property
    def public(self) -> Public:
        """What may be published: all texts, and their guarantee.

        Raises:
            UsageError: they have none, or it is broken.
        """
        batches = tuple(result.public for result in self.results)
        return Public(
            texts=tuple(text for batch in batches for text in batch.texts),
            guarantee=max((batch.guarantee for batch in batches), key=lambda told: told.epsilon),
            batches=batches,
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a batch and exemplar: the batch's id, and what `PrivateGenerationResult.to_frame` says."""
        return self.joined((result.to_frame() for result in self.results), "batch")


def audit(
    model: Any = DEFAULT_MODEL,
    *,
    exemplars: Sequence[str | Columns],
    task: str | Columns | None = None,
    label: str | None = None,
    subset_size: int | None = None,
    batches: int | None = None,
    epsilon: float | None = None,
    mechanism: Mechanism | None = None,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
    **settings: Any,
) -> Audit:
    """Write texts like private exemplars by private token generation, and hold what they tell against the guarantee.

    Every exemplar stands alone in a prompt, the clipped logits of all prompts are averaged at every token, and at each
    token every exemplar is left out once (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Section 5).
    The texts may be published, as long as a seed and all else stays secret; see
    `instruments.generation.measure.PrivateGeneration`.

    Args:
        model: see `influence`.
        exemplars: texts; or, with a task, mappings of columns to values.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml or what such a file says: how exemplars are read.
        label: what is written; with a task, only exemplars with this label are taken.
        subset_size: exemplars of a batch; all of them in one by default.
        batches: of disjoint exemplars, each with its own samples; as many as can be filled by default.
        epsilon: the most that is guaranteed at `delta` for all samples of a batch, nats: sets the temperature.
        mechanism: another rule, in the place of epsilon, clip and temperature: `privacy.mechanism.BoundedCid`, or an
            object with what `privacy.mechanism.Mechanism` lists.
        dtype: as of `influence`; 'float32' by default, and half precision is refused.
        device, model_id, cache: see `influence`.
        settings: `instruction`, `label_heading`, `text_heading` and `template` of
            `instruments.generation.prompts.GenerationSettings`, whose defaults are the paper's prompt for news; `clip`,
            `temperature` in the place of epsilon, `normalise_by`, `samples` (10), `max_new_tokens`, `min_new_tokens`,
            `delta` and `seed` of `PrivateGeneration`. None, but for a template, is the default.

    Raises:
        LeakmeterError: something cannot be used as given, or no setting has the epsilon; the message says what to do.
    """
    from leakmeter.instruments.generation.audits import audit_of, check_precision, precision_for
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases

    given = {name: value for name, value in settings.items() if value is not None or name == "template"}
    precision = precision_for(model, dtype)
    audited = audit_of(
        lambda: _examples(exemplars, task, label),
        label=label,
        subset_size=subset_size,
        batches=batches,
        epsilon=epsilon,
        mechanism=mechanism,
        **given,
    )
    if audited.measure.seed is not None:
        loading.tell(SEED_WARNING)
    measure = audited.measure.seeded()
    backend = loading.load_backend(model, dtype=precision, device=device, model_id=model_id, cache=cache)
    check_precision(backend.dtype)
    prepared = [audited.settings.prepare(case, backend, measure) for case in audited.cases]
    params = {**asdict(replace(measure, mechanism=None)), "mechanism": described(mechanism)}
    measured = measure_cases(backend, measure, prepared, None, Callbacks())
    return Audit(tuple(PrivateGenerationResult.from_run(measured, params)))


def described(mechanism: Mechanism | None) -> dict[str, object] | None:
    """A mechanism as parameters have it: its class, and its fields where it is a dataclass; None for the default."""
    if mechanism is None:
        return None
    return {"name": type(mechanism).__name__, **(asdict(mechanism) if is_dataclass(mechanism) else {})}


def _examples(exemplars: Sequence[str | Columns], task: str | Columns | None, label: str | None) -> list[Example]:
    """Texts as they are, all with the label; or what a task reads in mappings."""
    from leakmeter.data.tasks import load_task, task_of
    from leakmeter.data.text import checked_text
    from leakmeter.instruments.generation.audits import with_label
    from leakmeter.text.exemplar import Example

    if not exemplars:
        raise UsageError("there are no exemplars; give at least one")
    if task is None:
        texts = [checked_text(text, "text", f"exemplars, record {i}") for i, text in enumerate(exemplars, 1)]
        return [Example(str(i), (text,), label) for i, text in enumerate(texts)]
    rows = [row for row in exemplars if not isinstance(row, str)]
    if len(rows) < len(exemplars):
        raise UsageError("exemplars of a task are mappings of columns to values; leave the task out to give texts")
    kind = load_task(task) if isinstance(task, str) else task_of(task, "task")
    return with_label(kind.examples(rows, "exemplars"), kind.task, label)
