"""`leakmeter redact`: what to cut from a context so that what is left has little influence on a response."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.call import CallOptions, CaseOptions, FunctionOptions, function_of_cases, measured
from leakmeter.commands.cases import read_cases, run_cases
from leakmeter.commands.options import CaseSource, RunOptions, TextOption
from leakmeter.core.limits import refuse_bad
from leakmeter.core.loaded import Plan
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import StoreError, UsageError
from leakmeter.instruments.redaction.measure import Redaction
from leakmeter.text.build import PromptSettings

if TYPE_CHECKING:
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.redaction.result import RedactionResult
    from leakmeter.results.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options(Redaction):
    """The measure's fields as options; how much may be left is for the user to say."""

    max_loss: float | None = None
    """Largest influence that the remaining context may have on the response, nats, above 0; needed without
    --disclosures."""


def redact_command(
    *,
    source: CaseSource | None = None,
    response: TextOption | None = None,
    samples: int = 0,
    prompts: Annotated[PromptSettings | None, Parameter(name="*", negative="")] = None,
    measure: Annotated[_Options | None, Parameter(name="*", negative="")] = None,
    run: RunOptions | None = None,
    write_redacted: Path | None = None,
) -> None:
    """Find few pieces to cut from a context, so that the rest has little influence on the response.

    Pieces are cut one by one. Each step cuts the piece that leaves the least influence, scored together with all pieces
    cut before, until at most --max-loss nats are left. Shows the remaining text, the answer before, and an answer drawn
    from the remaining text, with what it discloses. The same command continues a run that was interrupted.

    Parameters
    ----------
    response
        The response to score; sampled if omitted.
    samples
        1 draws a response for each row of --data that names none; at 0 such a row is refused.
    prompts.group
        Also offer each repeated value, with all its mentions, as a piece.
    prompts.swap
        Refused: redaction cuts values and replaces none.
    run.json
        Print one JSON object a case instead of the report.
    write_redacted
        Also write the remaining text to this file, which must not be the context file; for a single --context-file.
    """
    source, prompts, run = source or CaseSource(), prompts or PromptSettings(), run or RunOptions()
    measure = measure or _Options()
    if prompts.swap:
        raise UsageError("--swap replaces personal data by surrogate values, and redaction cuts; leave it out")
    _check_samples(samples)
    loaded = read_cases(source, response, needs_response=not samples)
    if write_redacted is not None:
        n_files = len(source.context_file or ())
        if n_files != 1:
            raise UsageError(f"--write-redacted is for one --context-file, and {n_files or 'none'} was given")
        output.check_writable(write_redacted, "redacted text", source, prompts, Path(run.model))
        output.check_apart(write_redacted=write_redacted, html=run.html)
    shown = run_cases(Plan("redact", measure, prompts, loaded), run, inputs=[source])
    if write_redacted is not None and shown:
        _write(write_redacted, shown[0])


def _check_samples(samples: int) -> None:
    refuse_bad((samples in (0, 1), "samples", samples, "0 or 1: a plan is made for one response of a case"))


def _write(path: Path, result: RedactionResult) -> None:
    from leakmeter.core.files import write_whole
    from leakmeter.instruments.redaction.result import unmet

    if not result.reached:
        output.tell(f"redacted text: not written, since {unmet(result)}")
        return
    try:
        write_whole(path, result.text.encode())
    except OSError as error:
        raise StoreError(f"redacted text '{path}' cannot be written: {error.strerror or error}") from None
    output.tell(f"redacted text: {path} (private, readable by you alone)")
    if result.after is None or not result.after.sensitive:
        return
    if result.after.may_be_invented:
        output.tell("an answer drawn from it says something personal or secret that no piece has: read it first")
    else:
        output.tell("an answer drawn from it discloses something personal or secret: do not ship it")


class RedactOptions(FunctionOptions, CallOptions, PromptSettings, Redaction, CaseOptions):
    max_loss: float | None = None
    samples: int = 0
    swap: bool = field(default=False, init=False)
    swap_seed: int = field(default=0, init=False)


class RedactCall(ModelOptions, RedactOptions): ...


@function_of_cases(RedactOptions, RedactCall)
def redact(model: KeptModel, data: Any, options: RedactOptions) -> Results[RedactionResult]:
    """Find few pieces to cut from a context, so that the rest has little influence on the response.

    Pieces are cut one by one, each time the one that leaves least, with all that is cut scored together anew; see
    `instruments.redaction.measure.Redaction`. The loss is the influence of Flemings et al., Definition 3.2, on the
    response that was given with everything. With `disclosures` pieces are cut until the response gives away nothing
    personal or secret of what is left. What is not explained here is as in `influence`.

    Args:
        max_loss: largest influence of what is left on the response, nats, above 0; needed without `disclosures`.
        samples: 1 draws a response for each row of data that names none; at 0 such a row is refused.
        measure: options of the measure; see `instruments.redaction.measure.Redaction`.
        prompts: how prompts are made and cut, but for surrogate values.

    Returns:
        The result of a single case; of data a `Results`, or with `out` a `Run`, with a result for each case.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> told = {"context": "Ana is 41. She sings.", "query": "How old is Ana?", "response": "41"}
        >>> leakmeter.redact("toy", **told, max_loss=5).reached
        True
    """
    measure = replace(options.part(Redaction), max_loss=options.max_loss)
    _check_samples(options.samples)
    cases = options.cases(data, skip_bad=options.skip_bad, needs_response=not options.samples)
    return measured(model, Plan("redact", measure, options.part(PromptSettings), cases), options)
