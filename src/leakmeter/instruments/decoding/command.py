"""`leakmeter decode`: a response drawn by context influence decoding, with the privacy loss of each token."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.given import read_cases
from leakmeter.commands.options import Flag, RunOptions, Source
from leakmeter.core.loaded import Plan
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.text.build import PromptSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leakmeter.results.result import AnyResult, Part


@dataclass(frozen=True, slots=True)
class _Options(Decode):
    """The measure's fields as options; λ has a short name too, which no field may have."""

    cid_lambda: Annotated[float, Parameter(name=("--lambda", "--cid-lambda"))] = 1.0


def decode(
    *,
    source: Source | None = None,
    measure: Annotated[_Options | None, Parameter(name="*")] = None,
    delta: float = 1e-5,
    template: str | None = None,
    truncate: Flag = False,
    run: RunOptions | None = None,
    public: Flag = False,
) -> None:
    """Draw a response from a mixture of the model with and without a context, and measure what each token leaks.

    With --epsilon, each token is ε-DP for the context as long as the seed and the ledger stay secret. Every
    run without --seed then draws anew, and what it spends adds up.

    Parameters
    ----------
    source.data
        Cases as JSON lines, JSON, CSV or Parquet, also packed (.gz, .zst), or '-' for standard input: 'context' (text
        or a list of documents) or 'messages', 'query', and optionally 'id'. A 'response' is not drawn but scored as if
        it had been, which a bound does not allow.
    delta
        Chance, with epsilon, that the tighter sums over many tokens leave out; basic composition needs none.
    template
        chat, plain, document, article, @FILE, or a text with {context} and {query}; chat where the model has it.
    truncate
        Cut the end off a context that does not fit the model's window, and say so.
    run.dtype
        float32, bfloat16 or float16; float32 on a CPU or with epsilon, which the others would void, bfloat16 on CUDA.
    run.out
        Directory of runs; with epsilon private, names included.
    run.json
        Print one JSON object a case instead of the shaded response.
    public
        With --epsilon: print, on standard error too, and write only what may be published.
    """
    from leakmeter.instruments.decoding.guarantee import check_guarantee, check_precision, precision_for
    from leakmeter.privacy.draws import SEED_WARNING

    measure, run = measure or _Options(), run or RunOptions()
    if public and measure.epsilon is None:
        raise UsageError("--public is for a response with a guarantee; give --epsilon")
    if public and run.dry_run:
        raise UsageError("--dry-run reveals the length of a context; remove it or --public")
    loaded = read_cases(source or Source())
    check_guarantee(measure, loaded.cases, delta)
    precision = precision_for(measure, run.model, run.dtype)
    if measure.epsilon is not None and measure.seed is not None:
        output.tell(SEED_WARNING)
    seeded = measure.seeded()
    # Only the whole context is taken away.
    settings = PromptSettings(unit="whole", template=template, truncate=truncate)

    def results(parts: Iterable[Part]) -> Iterator[AnyResult]:
        from leakmeter.instruments.decoding.result import DecodeResult

        for result in DecodeResult.from_run(parts, asdict(seeded), delta=delta):
            yield result.published() if public else result

    with output.unnamed(public):
        run_cases(
            Plan("decode", seeded, settings, loaded, seeded.together if len(loaded.cases) > 1 else 1),
            replace(run, dtype=precision),
            results=results,
            accept=lambda backend: check_precision(seeded, backend.dtype),
            inputs=[source],
            public=public,
        )
