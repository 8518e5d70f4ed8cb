"""`leakmeter decode`: a response drawn by context influence decoding, with the privacy loss of each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from leakmeter.commands import output
from leakmeter.commands.call import CallOptions, CaseOptions, FunctionOptions, function, function_of_cases, measured
from leakmeter.commands.cases import log_formats, read_cases, run_cases
from leakmeter.commands.options import CaseSource, FlagOption, RunOptions
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.frontier_command import Drawing, frontier_command
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.text.build import PromptSettings
from leakmeter.text.templates import TemplateOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.decoding.frontier import Frontier
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.results.result import AnyResult, PartContent
    from leakmeter.results.results import Results


WHOLE: Final = "whole"
"""Nothing but the whole context is left out."""


@dataclass(frozen=True, slots=True)
class _Options(Decode):
    """The measure's fields as options; λ has a short name too, which no field may have."""

    cid_lambda: Annotated[float, Parameter(name=("--lambda", "--cid-lambda"))] = 1.0


app = App(name="decode")
app.command(frontier_command, name="frontier")


@app.default
def decode_command(
    *,
    source: CaseSource | None = None,
    measure: Annotated[_Options | None, Parameter(name="*")] = None,
    delta: float = 1e-5,
    prompt: Annotated[TemplateOptions | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
    public: FlagOption = False,
) -> None:
    """Draw a response from a mixture of the model with and without a context, and measure what each token leaks.

    With --epsilon, each token is ε-DP for the context as long as the seed and the ledger stay secret. Each run without
    --seed then draws again, and the privacy losses of all runs add up.

    Parameters
    ----------
    source.data
        Cases as JSON lines, JSON, CSV or Parquet, optionally compressed (.gz, .zst), or '-' for standard input:
        'context' (text or a list of documents) or 'messages', 'query', and optionally 'id'. A given 'response' is
        scored as if it had been drawn; a bound does not allow one.
    delta
        With epsilon: δ of the tighter composition over many tokens; basic composition needs none.
    run.dtype
        float32, bfloat16 or float16; by default float32 on a CPU or with epsilon, which the others would void, and
        bfloat16 on CUDA.
    run.out
        Directory of runs; with epsilon private, names included.
    run.json
        Print one JSON object a case instead of the shaded response.
    public
        With --epsilon: print, on standard error too, and write only what may be published.
    """
    from leakmeter.instruments.decoding.measure import check_guarantee, check_precision, precision_for
    from leakmeter.privacy.draws import SEED_WARNING

    measure, run = measure or _Options(), run or RunOptions()
    if public and measure.epsilon is None:
        raise UsageError("--public is for a response with a guarantee; give --epsilon")
    if public and run.dry_run:
        raise UsageError("--dry-run reveals the length of a context; remove it or --public")
    loaded = read_cases(source or CaseSource())
    check_guarantee(measure, loaded.cases, delta)
    precision = precision_for(measure, run.model, run.dtype)
    if measure.epsilon is not None and measure.seed is not None:
        output.tell(SEED_WARNING)
    seeded = measure.seeded()
    settings = PromptSettings(unit=WHOLE, **asdict(prompt or TemplateOptions()))

    def results(parts: Iterable[PartContent]) -> Iterator[AnyResult]:
        from leakmeter.instruments.decoding.result import DecodeResult

        for result in DecodeResult.from_run(parts, asdict(seeded), delta=delta):
            yield result.published() if public else result

    try:
        with output.unnamed(public):
            run_cases(
                Plan("decode", seeded, settings, loaded, seeded.together if len(loaded.cases) > 1 else 1),
                replace(run, dtype=precision),
                results=results,
                accept=lambda backend: check_precision(seeded, backend.dtype),
                inputs=[source],
                public=public,
            )
    except KeyboardInterrupt:
        if seeded.nonce == measure.nonce:
            raise
        why = (
            "finished cases are kept, the same command draws again; to go on, give it --nonce, which "
            "`leakmeter runs show` prints"
        )
        raise KeyboardInterrupt(why) from None


class DecodeOptions(FunctionOptions, CallOptions, TemplateOptions, Decode, CaseOptions):
    delta: float = 1e-5
    response: None = field(default=None, init=False)
    nonce: None = field(default=None, init=False)


class DecodeCall(ModelOptions, DecodeOptions): ...


@function_of_cases(DecodeOptions, DecodeCall)
def decode(model: KeptModel, data: Any, options: DecodeOptions) -> Results[DecodeResult]:
    """Draw a response by context influence decoding and measure, in nats, what each token leaks of the context.

    With `epsilon` each token is ε-DP for the context (Flemings et al., Algorithm 1 and Theorem B.1) as long as a seed
    that was given and all of the result but its `public` part stay secret; see `instruments.decoding.measure.Decode`.
    What is not explained here is as in `influence`.

    Args:
        data: many cases; a 'response' is not drawn but scored as if it had been, which a bound does not allow.
        delta: δ of the compositions that have one.
        measure: options of the measure. Without a seed the draws with epsilon come from the operating system's source.
        prompts: template, and whether a context that does not fit is cut.

    Returns:
        The result of a single case; of data a `Results`, or with `out` a `Run`, with a result for each case.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do. With `epsilon` half precision is
            refused.

    Examples:
        >>> import leakmeter
        >>> drawn = leakmeter.decode("toy", context="Ana is 41.", query="How old is Ana?", max_new_tokens=3)
        >>> len(drawn.response.tokens)
        3
    """
    from leakmeter.engine.loading import tell
    from leakmeter.instruments.decoding.measure import check_guarantee, check_precision, precision_for
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.privacy.draws import SEED_WARNING

    cases = options.cases(data, skip_bad=options.skip_bad)
    seeded = options.part(Decode).seeded()
    check_guarantee(seeded, cases.cases, options.delta)
    if options.epsilon is not None and options.seed is not None:
        tell(SEED_WARNING)
    model = model.in_precision(precision_for(seeded, model.source, model.dtype))
    check_precision(seeded, model.backend.dtype)

    def results(parts: Iterable[PartContent]) -> Iterator[DecodeResult]:
        return DecodeResult.from_run(parts, asdict(seeded), delta=options.delta)

    size = seeded.together if len(cases.cases) > 1 else 1
    prompts = PromptSettings(unit=WHOLE, **asdict(options.part(TemplateOptions)))
    return measured(model, Plan("decode", seeded, prompts, cases, size), options, results=results)


class FrontierOptions(FunctionOptions, TemplateOptions, Drawing):
    lambdas: Sequence[float] | None = None
    epsilons: Sequence[float] | None = None
    context_from: str | None = None
    bertscore: str | None = None
    bertscore_layer: int | None = None
    cid_lambda: float = field(default=1.0, init=False)
    epsilon: None = field(default=None, init=False)
    nonce: None = field(default=None, init=False)


class FrontierCall(ModelOptions, FrontierOptions): ...


@function(FrontierOptions, FrontierCall)
def frontier(model: KeptModel, data: Any, options: FrontierOptions) -> Frontier:
    """Sweep λ or ε and compare the leakage and utility of each setting.

    Nothing is written. All settings draw with one seed, or under a bound from the operating system's source. With
    `epsilons` the result is private, and what is guaranteed of responses of several settings adds up.

    Args:
        data: cases, each with a 'reference', what a good response says: as of `decode`, or NAME=FILE for a published
            data set (pubmedqa, cnn_dm).
        lambdas: values of λ; () for those of `instruments.decoding.sweep.DEFAULTS`.
        epsilons: values of ε instead, nats a token; likewise.
        context_from: as of `decode`.
        bertscore: encoder for BERTScore beside ROUGE-L, a directory or a name of the hub.
        bertscore_layer: of the encoder.
        prompts, drawing: as of `decode`, for every setting alike.

    Returns:
        The settings, their leakage and utility, and a recommendation.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> cases = [{"context": "Ana is 41.", "query": "Age?", "reference": "41"} for _ in range(2)]
        >>> found = leakmeter.frontier("toy", cases, lambdas=[0, 1], max_new_tokens=2)
        >>> [setting["cid_lambda"] for setting in found.settings]
        [0.0, 1.0]
    """
    from leakmeter.commands.studies.cells import FinishedCell
    from leakmeter.commands.studies.quality import Quality
    from leakmeter.data.cases import load_referenced
    from leakmeter.engine.loading import tell
    from leakmeter.engine.ready import make_ready
    from leakmeter.engine.storage.pseudonym import drawn_nonce
    from leakmeter.instruments.decoding.frontier import frontier_of, utilities_of
    from leakmeter.instruments.decoding.measure import check_precision, precision_for
    from leakmeter.instruments.decoding.sweep import settings_of, study_of, sweep_of
    from leakmeter.privacy.draws import SEED_WARNING

    sweep = sweep_of(options.lambdas, options.epsilons, asdict(options.part(Drawing)))
    loaded = load_referenced(data, context_from=options.context_from, logs=log_formats)
    records, settings = loaded.records, settings_of(loaded, options.part(TemplateOptions))
    if options.epsilons is not None and sweep.given_seed is not None:
        tell(SEED_WARNING)
    model = model.in_precision(precision_for(sweep.measures[0], model.source, model.dtype))
    with model.lock:
        backend = model.backend
        check_precision(sweep.measures[0], backend.dtype)
        sweep = sweep.seeded(drawn_nonce())
        cases = LoadedCases(tuple(record.case for record in records))
        quality = Quality(options.bertscore, options.bertscore_layer)
        model_facts = {
            "name": backend.name,
            "weights_sha256": backend.weights_sha256,
            "dtype": backend.dtype,
            "device": backend.device,
        }
        finished = []
        for cell in study_of(sweep, backend.name, settings, len(records), quality).cells:
            plan = Plan("decode", cell.measure, settings, cases, cell.measure.together)
            finished.append(FinishedCell(cell, model_facts, "", records, list(make_ready(plan, backend).measure())))
        return frontier_of(sweep, finished, utilities_of(finished, quality, None, tell))
