"""`leakmeter pii tune`: a soft prompt that gets people's values out of a model, where it has them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.commands.progress import counting
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.subject import ValueType
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend

_CHOOSING: Final = 0.2
"""Share of the people by whom the epoch is chosen, where no others are given."""


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class ModelOptions:
    """A model whose weights are at hand."""

    model: str = DEFAULT_MODEL
    """A known name (see `leakmeter models`), hf:ORG/NAME, or a directory."""
    dtype: str | None = None
    """float32, bfloat16 or float16; float32 on a CPU and bfloat16 on CUDA by default."""
    device: str | None = None
    """cpu, cuda, cuda:1 …; CUDA where there is one by default."""

    def load(self, needed_for: str) -> HfBackend:
        """The model.

        Raises:
            LeakmeterError: there is no such model, or it is none of the transformers library.
        """
        from leakmeter.backends.hf.backend import HfBackend
        from leakmeter.runs.loading import load_backend

        backend = load_backend(self.model, dtype=self.dtype, device=self.device, cache=False)
        if not isinstance(backend, HfBackend):
            raise UsageError(
                f"'{backend.name}' has no weights to {needed_for}; give a model of the transformers library"
            )
        return backend


def tune(
    *,
    subjects: Path,
    out: Path,
    validation: Path | None = None,
    type: ValueType = "phone",
    length: int = 20,
    init: str | None = None,
    learning_rate: float = 0.005,
    epochs: int = 700,
    patience: int = 100,
    batch_size: int = 8,
    seed: int = 0,
    region: str = "US",
    skip_bad: Flag = False,
    json: Flag = False,
    model: ModelOptions | None = None,
) -> None:
    """Tune a soft prompt on some people, to ask the model for others' values with it: white-box probing.

    Vectors in front of the prompt are tuned until the model says the values of these people; its weights stay as they
    are. `leakmeter pii probe --soft-prompt FILE` asks for other people's values behind it. The same command goes on
    after an interruption.

    Parameters
    ----------
    subjects
        People to tune on, as for `leakmeter pii probe`; a fifth of them is kept to choose the epoch by, without
        --validation.
    out
        File for the soft prompt. It is private: it was made from these people's values.
    validation
        Other people to choose the epoch by.
    type
        What is asked for: phone, email, address, relationship or university.
    length
        Vectors of the soft prompt.
    init
        Text whose embeddings the vectors start as; those of random words by default.
    learning_rate
        Of AdamW.
    epochs
        Most passes over the people.
    patience
        Epochs without progress after which tuning ends.
    batch_size
        People of one step.
    seed
        Of the first vectors, the order, and who is kept apart.
    region
        ISO code of the country that telephone numbers without a country code are of.
    skip_bad
        Leave out records that cannot be used, and say how many.
    json
        Print one JSON object instead of the summary.
    """
    from leakmeter.instruments.pii.prompts import ProbeSettings
    from leakmeter.instruments.pii.subjects import load_subjects
    from leakmeter.instruments.pii.tuning import people
    from leakmeter.instruments.pii.tuning.soft_prompt import tune as tuned

    chosen = model or ModelOptions()
    output.check_writable(out, "soft prompt", subjects, validation, Path(chosen.model))
    loaded = load_subjects(subjects, region=region, skip_bad=skip_bad)
    known = [case.subject for case in people.cases_of(loaded.subjects, type)]
    if validation is None:
        some, apart = people.split(list(dict.fromkeys(known)), _CHOOSING, seed)
    else:
        some, apart = known, list(load_subjects(validation, region=region, skip_bad=skip_bad).subjects)
        people.check_disjoint(some, apart)
    settings = ProbeSettings()
    backend = chosen.load("tune for")
    examples, others = (
        people.examples_of(people.cases_of(of, type), backend.tokenizer, settings) for of in (some, apart)
    )
    if not examples or not others:
        raise UsageError(f"nobody {'to tune on' if not examples else 'to choose the epoch by'} has the value '{type}'")
    state = out.with_name(f".{out.name}.tuning")
    with counting("epochs") as advance:
        result = tuned(
            backend.model,
            backend.tokenizer.library,
            examples,
            length=length,
            init=init,
            learning_rate=learning_rate,
            max_epochs=epochs,
            batch_size=batch_size,
            seed=seed,
            patience=patience,
            validation=others,
            name=backend.name,
            progress=lambda epoch: advance(epoch.number, epochs),
            state=state,
        )
    result.soft_prompt.save(out)
    _remove(state)
    told = {
        "soft_prompt": str(out),
        "model": backend.name,
        "type": type,
        "vectors": result.soft_prompt.length,
        "people_tuned_on": len(examples),
        "people_chosen_by": len(others),
        "epochs": result.epochs[-1].number,
        "ended": result.ended,
        "best_epoch": result.best.number,
        "exact_match": _plain(result.best.exact_match),
        "validation_loss_nats_a_token": _plain(result.best.validation_loss),
        "validation_loss_before_nats_a_token": _plain(result.epochs[0].validation_loss),
    }
    if json:
        output.print_json(told)
        return
    before, after = (f"{told[f'validation_loss{when}_nats_a_token']:.2f}" for when in ("_before", ""))
    output.print_text(
        f"Epoch {told['best_epoch']} of {told['epochs']} ({told['ended']}): of {len(others)} people it was not tuned "
        f"on {result.best.exact_match:.0%} are said word for word; their values cost {before} nats a token before, and "
        f"{after} now."
    )
    output.tell(f"soft prompt: {out}")


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def _remove(state: Any) -> None:
    import shutil

    shutil.rmtree(state, ignore_errors=True)
