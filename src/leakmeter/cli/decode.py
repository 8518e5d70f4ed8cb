"""`leakmeter decode`: a response drawn by context influence decoding, with a receipt for each token."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leakmeter.cli.cases import read_cases, run_cases
from leakmeter.errors import UsageError
from leakmeter.measures.decode import Decode
from leakmeter.prompts.build import PromptSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leakmeter.results.base import Part, Result

_NO_NEGATIVE = Parameter(negative="")


@dataclass(frozen=True, slots=True)
class _Options(Decode):
    """The measure's fields as options; λ has a short name too, which no field may have."""

    cid_lambda: Annotated[float, Parameter(name=("--lambda", "--cid-lambda"))] = 1.0


def decode(
    *,
    context_file: Annotated[list[Path] | None, _NO_NEGATIVE] = None,
    query: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    data: Path | None = None,
    messages: Path | None = None,
    measure: Annotated[_Options | None, Parameter(name="*")] = None,
    delta: float = 1e-5,
    template: str | None = None,
    truncate: Annotated[bool, _NO_NEGATIVE] = False,
    model: str = "smollm2-135m",
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    out: Path = Path("runs"),
    html: Path | None = None,
    json: Annotated[bool, _NO_NEGATIVE] = False,
    public: Annotated[bool, _NO_NEGATIVE] = False,
    skip_bad: Annotated[bool, _NO_NEGATIVE] = False,
    no_cache: Annotated[bool, _NO_NEGATIVE] = False,
    dry_run: Annotated[bool, _NO_NEGATIVE] = False,
) -> None:
    """Draw a response from what a model says with a context and without it, with a receipt in nats for each token.

    With --epsilon, each token is ε-DP for the context as long as the seed and the private receipt stay secret. Every
    run without --seed then draws anew, and what it spends adds up.

    Parameters
    ----------
    context_file
        A text file of context; again for each further document.
    query
        What the model is asked.
    data
        JSON lines: 'context' (text or a list of documents) or 'messages', 'query', and optionally 'id'. A 'response' is
        not drawn but scored as if it had been, which a bound does not allow.
    messages
        A JSON file of chat messages; the last user message asks, the others are context.
    delta
        Chance, with epsilon, that the tighter sums over many tokens leave out; basic composition needs none.
    template
        chat, plain, document, article, @FILE, or a text with {context} and {query}; chat where the model has it.
    truncate
        Cut the end off a context that does not fit the model's window, and say so.
    model
        A known name (see `leakmeter models`), hf:ORG/NAME, a directory, or a .gguf file.
    dtype
        float32, bfloat16 or float16; float32 on a CPU or with epsilon, which the others would void, bfloat16 on CUDA.
    device
        cpu, cuda, cuda:1 …; CUDA where there is one by default.
    memory
        Memory to use beside the model's weights, such as 512MiB or 4GiB (see `leakmeter influence`).
    out
        Directory of runs; with epsilon private, names included.
    html
        Also write the report to this file.
    json
        Print one JSON object a case instead of the shaded response.
    public
        With epsilon: print and write only what may be published.
    skip_bad
        Leave out lines of --data that cannot be used, and say how many.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter cache`).
    dry_run
        Predict tokens, memory and time instead; nothing is run or written.
    """
    from leakmeter.studies.promise import SEED_WARNING, check_precision, check_promise, precision_for

    given = measure or _Options()
    if public and given.epsilon is None:
        raise UsageError("--public is for a response with a promise; give --epsilon")
    cases, problems = read_cases(context_file or [], query, None, data, messages, skip_bad)
    check_promise(given, cases, delta)
    precision = precision_for(given, model, dtype)
    if given.epsilon is not None and given.seed is not None:
        sys.stderr.write(f"{SEED_WARNING}\n")
    seeded = given.seeded()

    def results(parts: Iterable[Part]) -> Iterator[Result]:
        from leakmeter.results.decode import DecodeResult

        for result in DecodeResult.of_run(parts, asdict(seeded), delta=delta):
            yield result.public if public else result

    run_cases(
        cases,
        problems,
        # Only the whole context is taken away.
        PromptSettings(unit="whole", template=template, truncate=truncate),
        seeded,
        "decode",
        results=results,
        accept=lambda backend: check_precision(seeded, backend.dtype),
        model=model,
        dtype=precision,
        device=device,
        memory=memory,
        out=out,
        html=html,
        json=json,
        skip_bad=skip_bad,
        cache=not no_cache,
        dry_run=dry_run,
    )
