"""The library: texts from private exemplars, the guarantee of each exemplar, and what was measured against it."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.commands.call import CallOptions, Row, RowNames, Some, function, measured
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.command import Wanted
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.prompts import GenerationSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.generation.calibration import Calibration
    from leakmeter.instruments.generation.result import PrivateGenerationResult
    from leakmeter.privacy.mechanism import Mechanism
    from leakmeter.results.result import Part
    from leakmeter.results.results import Results
    from leakmeter.text.exemplar import Example


@function(
    measure=Some(
        PrivateGeneration,
        only=("clip", "normalise_by", "max_new_tokens", "min_new_tokens", "delta", "seed"),
        raw=True,
    ),
    settings=Some(GenerationSettings, raw=True),
    names=RowNames,
    how=Some(CallOptions, only=("out", "name", "progress")),
)
def audit(
    model: KeptModel,
    data: Any = None,
    *,
    task: str | Row | None = None,
    label: str | None = None,
    subset_size: int | None = None,
    batches: int | None = None,
    epsilon: float | None = None,
    temperature: float | None = None,
    samples: int | None = None,
    mechanism: Mechanism | None = None,
    measure: dict[str, Any],
    settings: dict[str, Any],
    names: RowNames,
    how: CallOptions,
) -> Results[PrivateGenerationResult]:
    """Write texts like private exemplars by private token generation, and hold what they tell against the guarantee.

    Every exemplar stands alone in a prompt, the clipped logits of all prompts are averaged at every token, and at each
    token every exemplar is left out once (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Section 5).
    The texts may be published, as long as a seed and all else stays secret; see
    `instruments.generation.measure.PrivateGeneration`.

    Args:
        model: see `influence`; it computes in float32, and half precision is refused.
        data: exemplars: texts, or records with 'text'; or, with a task, the records that it reads.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml or what such a file says: how exemplars are read.
        label: what is written; with a task, only exemplars with this label are taken.
        subset_size: exemplars of a batch; all of them in one by default.
        batches: of disjoint exemplars, each with its own samples; as many as can be filled by default.
        epsilon: the most that is guaranteed at `delta` for all samples of a batch, nats: sets the temperature.
        temperature: τ of the average, in the place of epsilon.
        samples: drawn from each batch, 10 by default.
        mechanism: another rule, in the place of epsilon, clip and temperature: `privacy.mechanism.BoundedCid`, or an
            object with what `privacy.mechanism.Mechanism` lists.
        measure: options of the measure; see `instruments.generation.measure.PrivateGeneration`.
        settings: wording of the prompts; the defaults are the paper's for news.
        names: what the fields of the data are called.
        how: as of `influence`. A run that is kept has a secret of its own, with which the same call goes on.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each batch. `summary` has the guarantee of all together
        and whether it holds, and each result's `public` what may be published.

    Raises:
        LeakmeterError: something cannot be used as given, or no setting has the epsilon; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> texts = ["The lake is calm.", "The wind is cold.", "The bread is warm."]
        >>> found = leakmeter.audit("toy", texts, epsilon=20, samples=1, max_new_tokens=2)
        >>> found.summary.holds, len(found[0].public.texts)
        (True, 1)
    """
    from leakmeter.engine.loading import tell
    from leakmeter.instruments.generation.audits import audit_directory, audit_of, check_precision, precision_for
    from leakmeter.instruments.generation.result import PrivateGenerationResult
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.storage.nonce import kept_nonce

    # None stands for the default, but of a template.
    options = {**measure, **settings, "temperature": temperature}
    set_options = {name: value for name, value in options.items() if value is not None or name == "template"}
    if mechanism is not None and how.out is not None:
        raise UsageError("a run cannot keep a mechanism of your own; give either out or mechanism")
    model = model.in_precision(precision_for(model.given, model.dtype))
    audited = audit_of(
        lambda: _examples(data, task, label, names),
        label=label,
        subset_size=subset_size,
        batches=batches,
        epsilon=epsilon,
        samples=samples,
        mechanism=mechanism,
        **set_options,
    )
    if audited.measure.seed is not None:
        tell(SEED_WARNING)
    check_precision(model.backend.dtype)
    seeded = audited.measure

    def settled() -> tuple[PrivateGeneration, Path]:
        machine = {name: model.options.get(name) for name in ("dtype", "device", "memory")}
        directory = audit_directory(audited, model.name, Path(how.out or ""), **machine)
        return replace(seeded, nonce=kept_nonce(directory)), directory

    def results(parts: Iterable[Part]) -> Iterator[PrivateGenerationResult]:
        params = {**asdict(replace(seeded, mechanism=None)), "mechanism": described(mechanism)}
        return PrivateGenerationResult.from_run(parts, params)

    if how.out is None:
        seeded = seeded.seeded()
    settle = settled if seeded.seed is None and how.out is not None else None
    plan = Plan("private_generation", seeded, audited.settings, LoadedCases(audited.cases), settle=settle)
    return measured(model, plan, how, results=results if how.out is None else None)


@function(takes_model=False, wanted=Wanted)
def calibrate(*, wanted: Wanted) -> Calibration:
    """Find the temperature, clip or subset size at which private token generation has a guarantee.

    Nothing is loaded or run: a guarantee depends on these three and on how many tokens there may be (Li et al.,
    "Evaluating Privacy Leakage From In-Context Learning", Section 5).

    Args:
        wanted: `epsilon`, the most that is guaranteed; `free`, which of 'temperature', 'clip' and 'subset-size' is
            sought; the other two; `samples`, `max_new_tokens`, `delta`, `adjacency` and `normalise_by`.

    Returns:
        The setting, and its guarantees.

    Raises:
        UsageError: a number is out of range or missing, or no setting has the guarantee.

    Examples:
        >>> import leakmeter
        >>> found = leakmeter.calibrate(epsilon=8, free="temperature", clip=10, subset_size=24)
        >>> found.guarantees["add-remove"].epsilon <= 8
        True
    """
    from leakmeter.instruments.generation.calibration import calibrated

    return calibrated(wanted)


def described(mechanism: Mechanism | None) -> dict[str, object] | None:
    """A mechanism as parameters have it: its class, and its fields where it is a dataclass; None for the default."""
    if mechanism is None:
        return None
    return {"name": type(mechanism).__name__, **(asdict(mechanism) if is_dataclass(mechanism) else {})}


def _examples(data: Any, task: str | Row | None, label: str | None, names: RowNames) -> list[Example]:
    """Texts as they are, all with the label; or what a task reads in records."""
    from leakmeter.data.tasks import load_task, task_of
    from leakmeter.data.text import checked_text
    from leakmeter.instruments.generation.audits import with_label
    from leakmeter.text.exemplar import Example

    if data is None or (isinstance(data, list | tuple) and not data):
        raise UsageError("there are no exemplars; give at least one")
    if task is None:
        rows = names.rows(data, "text", known=("text",))
        where = "exemplars, record {}"
        texts = [checked_text(row.get("text"), "text", where.format(i)) for i, row in enumerate(rows, 1)]
        return [Example(str(i), (text,), label) for i, text in enumerate(texts)]
    if isinstance(data, list | tuple) and any(isinstance(row, str) for row in data):
        raise UsageError("exemplars of a task are mappings of columns to values; leave the task out to give texts")
    kind = load_task(task) if isinstance(task, str) else task_of(task, "task")
    return with_label(kind.examples(names.rows(data, "text"), "exemplars"), kind.task, label)
