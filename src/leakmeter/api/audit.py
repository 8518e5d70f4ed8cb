"""The library: texts that exemplars vote for, what was promised of each exemplar, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from leakmeter.kernels.mechanism import Mechanism
    from leakmeter.kernels.private_voting import NormaliseBy
    from leakmeter.results.private_generation import PrivateGenerationResult
    from leakmeter.types.exemplar import Example

_TOO_COARSE: Final = ("bfloat16", "float16")


@dataclass(frozen=True)
class Audit:
    """Texts of one or more disjoint batches of exemplars, promised against measured; nats."""

    results: tuple[PrivateGenerationResult, ...]
    """One a batch."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The promise and the verdict of all batches together; see `results.private_generation.summary`."""
        from leakmeter.results.private_generation import summary

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
            "texts": [text for result in self.results for text in result.public["texts"]],
            "guarantee": self.summary["guarantee"],
            "batches": [result.public for result in self.results],
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a batch and exemplar: the batch's id, and what `PrivateGenerationResult.to_frame` says."""
        import pandas as pd

        frames = [result.to_frame().assign(batch=result.case["id"]) for result in self.results]
        frame = pd.concat(frames, ignore_index=True)
        return frame[["batch", *(name for name in frame.columns if name != "batch")]]

    def overview(self) -> RenderableType:
        """A line for each batch, for `rich.print` or the last line of a notebook cell."""
        return type(self.results[0]).overview([result.case for result in self.results])

    def save_html(self, path: str | Path) -> Path:
        """Write the report: one file, no network.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.
        """
        from leakmeter.store.rundir import write_whole

        where = Path(path)
        cases = [result.case for result in self.results]
        write_whole(where, type(self.results[0]).render_page(cases, command=None, run=None).encode())
        return where


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
    as long as the seed and all else stays secret; see `measures.private_generation.PrivateGeneration`.

    Args:
        model: see `influence`.
        exemplars: texts; or, with a task, mappings of columns to values.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml or what such a file says: how exemplars are read.
        label: what is written; with a task, only exemplars with this label are taken.
        instruction, label_heading, text_heading, template: see `prompts.generation.GenerationSettings`, whose defaults
            are the paper's prompt for news.
        subset_size: exemplars of a batch; all of them in one by default.
        batches: of disjoint exemplars, each with its own sequences; as many as can be filled by default.
        epsilon: what may be promised at most at `delta` for all sequences of a batch, nats: the temperature is made so.
        clip, normalise_by: see `PrivateGeneration`.
        temperature: τ, in the place of epsilon.
        mechanism: another rule, in the place of epsilon, clip and temperature: `kernels.mechanism.BoundedCid`, or an
            object with what `kernels.mechanism.Mechanism` lists.
        sequences: drawn from each batch.
        max_new_tokens, min_new_tokens, delta: see `PrivateGeneration`.
        seed: of the draws; a secret one, drawn at random, by default.
        dtype: as of `influence`; 'float32' by default, and half precision is refused.
        device, model_id, cache: see `influence`.

    Raises:
        LeakmeterError: something cannot be used as given, or no setting keeps epsilon; the message says what to do.
    """
    from leakmeter.api import loading
    from leakmeter.measures.private_generation import PrivateGeneration
    from leakmeter.prompts.generation import GenerationSettings, batches_of
    from leakmeter.results.private_generation import PrivateGenerationResult
    from leakmeter.studies.promise import SEED_WARNING
    from leakmeter.studies.run import Watch, measure_cases, prepare_case

    _check_promise(epsilon=epsilon, temperature=temperature, mechanism=mechanism)
    _check_precision(dtype)
    examples = _examples(exemplars, task, label)
    size = len(examples) if subset_size is None else subset_size
    cases = batches_of(examples, size, label=label, most=batches)
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
    if epsilon is not None:
        measure = measure.calibrated(epsilon, size)
    elif temperature is not None:
        measure = replace(measure, temperature=temperature)
    if seed is not None:
        loading.tell(SEED_WARNING)
    measure = measure.seeded()
    named = not isinstance(model, tuple) and model != "toy"
    precision = "float32" if dtype is None and named else dtype
    backend = loading.load_backend(model, dtype=precision, device=device, model_id=model_id, cache=cache)
    _check_precision(backend.dtype)
    prepared = [prepare_case(case, backend, settings, measure) for case in cases]
    params = {**asdict(replace(measure, mechanism=None)), "mechanism": described(mechanism)}
    measured = measure_cases(backend, measure, settings, prepared, None, Watch())
    return Audit(tuple(PrivateGenerationResult.of_run(measured, params)))


def described(mechanism: Mechanism | None) -> dict[str, Any] | None:
    """A mechanism as results carry it: its class, and its fields where it is a dataclass; None for private voting."""
    if mechanism is None:
        return None
    fields: dict[str, Any] = asdict(mechanism) if is_dataclass(mechanism) else {}
    return {"name": type(mechanism).__name__, **fields}


def _check_promise(**given: object) -> None:
    """Refuse what says twice what is promised, or not at all."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        said = f"{' and '.join(names)} are given together" if names else "nothing says what is promised"
        raise UsageError(f"{said}; give one of {', '.join(given)}")


def _check_precision(dtype: str | None) -> None:
    """Refuse a precision whose noise a promise does not survive."""
    if dtype in _TOO_COARSE:
        raise UsageError(
            f"dtype is '{dtype}'; what a prompt says in that precision depends on the prompts beside it by more than "
            "many a promise; give float32"
        )


def _examples(
    exemplars: Sequence[str | Mapping[str, Any]], task: str | Mapping[str, Any] | None, label: str | None
) -> list[Example]:
    """Texts as they are, all with the label; or what a task reads in mappings."""
    from leakmeter.data.tasks import load_task, task_of
    from leakmeter.data.text import checked_text
    from leakmeter.types.exemplar import Example

    if not exemplars:
        raise UsageError("there are no exemplars; give at least one")
    if task is None:
        texts = [checked_text(text, "text", f"exemplars, record {i}") for i, text in enumerate(exemplars, 1)]
        return [Example(str(i), (text,), label) for i, text in enumerate(texts)]
    rows = [row for row in exemplars if not isinstance(row, str)]
    if len(rows) < len(exemplars):
        raise UsageError("exemplars of a task are mappings of columns to values; leave the task out to give texts")
    kind = load_task(task) if isinstance(task, str) else task_of(task, "task")
    if label not in kind.task.words:
        raise UnknownNameError("label", str(label), kind.task.words)
    taken = [example for example in kind.examples(rows, "exemplars") if example.label == label]
    if not taken:
        raise UsageError(f"no exemplar has the label '{label}'; give some that have")
    return taken
