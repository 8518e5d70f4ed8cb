"""The library: texts that exemplars vote for, what was promised of each exemplar, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.instruments.generation.result import PrivateGenerationResult, summary
from leakmeter.models import DEFAULT_MODEL
from leakmeter.report.result import Results

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.privacy.mechanism import Mechanism
    from leakmeter.privacy.private_voting import NormaliseBy
    from leakmeter.text.exemplar import Example


@dataclass(frozen=True)
class Audit(Results[PrivateGenerationResult]):
    """Texts of one or more disjoint batches of exemplars, promised against measured; nats."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The promise and the verdict of all batches together; see `instruments.generation.result.summary`."""
        return summary([result.case for result in self.results])

    @property
    def holds(self) -> bool:
        """Whether nothing that was measured is above its promise."""
        return all(result.holds for result in self.results)

    @property
    def public(self) -> dict[str, Any]:
        """What may be published: all texts, and what was promised of them.

        Raises:
            UsageError: nothing was promised.
        """
        return {
            "texts": [text for result in self.results for text in result.public.case["texts"]],
            "guarantee": self.summary["guarantee"],
            "batches": [result.public.case for result in self.results],
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a batch and exemplar: the batch's id, and what `PrivateGenerationResult.to_frame` says."""
        return self.joined((result.to_frame() for result in self.results), "batch")


def audit(
    model: Any = DEFAULT_MODEL,
    *,
    exemplars: Sequence[str | Mapping[str, Any]],
    task: str | Mapping[str, Any] | None = None,
    label: str | None = None,
    instruction: str | None = None,
    label_heading: str | None = None,
    text_heading: str | None = None,
    template: str | None = "plain",
    subset_size: int | None = None,
    batches: int | None = None,
    epsilon: float | None = None,
    clip: float = 10.0,
    temperature: float | None = None,
    normalise_by: NormaliseBy = "fixed",
    mechanism: Mechanism | None = None,
    sequences: int = 10,
    max_new_tokens: int = 40,
    min_new_tokens: int = 0,
    delta: float = 1e-5,
    seed: int | None = None,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Audit:
    """Write texts like private exemplars by private token generation, and hold what they tell against the promise.

    Every exemplar stands alone in a prompt, all prompts vote on every token, and at each token every exemplar is left
    out once (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Section 5). The texts may be published,
    as long as a seed and all else stays secret; see `instruments.generation.measure.PrivateGeneration`.

    Args:
        model: see `influence`.
        exemplars: texts; or, with a task, mappings of columns to values.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml or what such a file says: how exemplars are read.
        label: what is written; with a task, only exemplars with this label are taken.
        instruction, label_heading, text_heading, template: see
            `instruments.generation.prompts.GenerationSettings`, whose defaults are the paper's prompt for news.
        subset_size: exemplars of a batch; all of them in one by default.
        batches: of disjoint exemplars, each with its own sequences; as many as can be filled by default.
        epsilon: what may be promised at most at `delta` for all sequences of a batch, nats: the temperature is made so.
        clip, normalise_by: see `PrivateGeneration`.
        temperature: τ, in the place of epsilon.
        mechanism: another rule, in the place of epsilon, clip and temperature: `privacy.mechanism.BoundedCid`, or an
            object with what `privacy.mechanism.Mechanism` lists.
        sequences: drawn from each batch.
        max_new_tokens, min_new_tokens, delta: see `PrivateGeneration`.
        seed: of the draws; none by default: they come from the operating system's source.
        dtype: as of `influence`; 'float32' by default, and half precision is refused.
        device, model_id, cache: see `influence`.

    Raises:
        LeakmeterError: something cannot be used as given, or no setting keeps epsilon; the message says what to do.
    """
    from leakmeter.instruments.generation.audits import audit_of, check_precision, check_promise, precision_for
    from leakmeter.instruments.generation.measure import PrivateGeneration
    from leakmeter.instruments.generation.prompts import GenerationSettings
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases

    check_promise(epsilon=epsilon, temperature=temperature, mechanism=mechanism)
    precision = precision_for(model, dtype)
    examples = _examples(exemplars, task, label)
    wording = {"instruction": instruction, "label_heading": label_heading, "text_heading": text_heading}
    settings = GenerationSettings(
        **{name: words for name, words in wording.items() if words is not None}, template=template
    )
    measure = PrivateGeneration(
        clip=clip,
        normalise_by=normalise_by,
        sequences=sequences,
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        delta=delta,
        seed=seed,
        mechanism=mechanism,
    )
    if temperature is not None:
        measure = replace(measure, temperature=temperature)
    audited = audit_of(
        examples, settings, measure, label=label, subset_size=subset_size, batches=batches, epsilon=epsilon
    )
    if seed is not None:
        loading.tell(SEED_WARNING)
    measure = audited.measure.seeded()
    backend = loading.load_backend(model, dtype=precision, device=device, model_id=model_id, cache=cache)
    check_precision(backend.dtype)
    prepared = [settings.prepare(case, backend, measure) for case in audited.cases]
    params = {**asdict(replace(measure, mechanism=None)), "mechanism": described(mechanism)}
    measured = measure_cases(backend, measure, prepared, None, Callbacks())
    return Audit(tuple(PrivateGenerationResult.from_run(measured, params)))


def described(mechanism: Mechanism | None) -> dict[str, Any] | None:
    """A mechanism as results carry it: its class, and its fields where it is a dataclass; None for private voting."""
    if mechanism is None:
        return None
    fields: dict[str, Any] = asdict(mechanism) if is_dataclass(mechanism) else {}
    return {"name": type(mechanism).__name__, **fields}


def _examples(
    exemplars: Sequence[str | Mapping[str, Any]], task: str | Mapping[str, Any] | None, label: str | None
) -> list[Example]:
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
