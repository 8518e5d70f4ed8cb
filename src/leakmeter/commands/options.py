"""Options that several commands have: where cases come from, and how they are run.

A command takes `source: CaseSource | None = None` or `run: RunOptions | None = None`, and has every field as an option.
The texts under the fields are what `--help` says; where one means something else to a command, the command's docstring
says so under `source.data`, `run.out` …
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from leakmeter.engine.options import (
    LocalOptions,
    ModelOptions,
    PrecisionOptions,
    RemoteOptions,
    ServedOptions,
    TokenizerOptions,
    WorkerOptions,
)
from leakmeter.engine.storage.spec import checked_name
from leakmeter.errors import UsageError
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend


_FLAT: Final = Parameter(name="*", negative="")
WorkersOption = Annotated[WorkerOptions | None, _FLAT]
"""`WorkerOptions` of a command that says otherwise which model measures."""
PrecisionOption = Annotated[PrecisionOptions | None, _FLAT]
LocalOption = Annotated[LocalOptions | None, _FLAT]
TokenizerOption = Annotated[TokenizerOptions | None, _FLAT]
RemoteOption = Annotated[RemoteOptions | None, _FLAT]
ServedOption = Annotated[ServedOptions | None, _FLAT]
"""Parts of `ModelOptions` of a command that does not have all."""


@Parameter(name="*", negative="")
@dataclass(frozen=True, kw_only=True)
class LoadingOptions(ModelOptions):
    """Those of `ModelOptions` that a command has."""

    model_id: Annotated[str | None, Parameter(parse=False)] = None
    cache: Annotated[bool, Parameter(parse=False)] = True
    tokenizer: str | None = None


@dataclass(frozen=True)
class _NamedModel:
    model: str = DEFAULT_MODEL
    """A known name (see `leakmeter models`), hf:ORG/NAME, a directory, a .gguf file, or a served model, such as
    vllm:http://127.0.0.1:8000#NAME (also llamacpp:, sglang:, openai:)."""


FlagOption = Annotated[bool, Parameter(negative="")]
"""An option that is given or not: there is no `--no-…` of it."""

Explain = Annotated[
    bool, Parameter(negative="", help="Also print the conditions, the caveats and how it was measured.")
]
"""The same option of commands that have no `RunOptions`."""

TextOption = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""What was said, which may be a list: '- first …'."""

DataPath = Annotated[Path, Parameter(allow_leading_hyphen=True)]
"""A file of data, or '-' for standard input."""


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class RowOptions:
    """How the rows of a command's data are read: `rows.read_rows(…, mapping=options.mapping(FIELDS))`."""

    map: list[str] | None = None
    """Map fields of the data that have other names: FIELD=PATH,…, as in text=ticket.body,label=team."""

    def mapping(self, field_names: Collection[str] | None = None) -> dict[str, str]:
        from leakmeter.data.mapping import mapping_of

        return mapping_of(self.map, field_names)


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class CaseSource:
    """Where a command's cases come from."""

    context_file: list[Path] | None = None
    """Text file of context; repeat for further documents."""
    query: TextOption | None = None
    """What the model is asked."""
    data: DataPath | None = None
    """Cases as JSON lines, JSON, CSV or Parquet, optionally compressed (.gz, .zst), or '-' for standard input:
    'context' (text or a list of documents) or 'messages', 'query', 'response', and optionally 'id'."""
    map: list[str] | None = None
    """Map fields of --data that have other names: query=question,context=docs[].text,response=answer."""
    format: str | None = None
    """Preset for --data: openai, transcript, claude-code, inspect, promptfoo, deepeval, agentleak, bedrock, ragas,
    langchain, llamaindex, haystack, squad, rag, langfuse, langsmith, otel, openinference, mlflow or leakmeter; detected
    by default."""
    context_from: TextOption | None = None
    """Regular expression for the last user message; its group 'context', or else its first group, is the context, as in
    'Context:(.*)Question:'. Or system: the system prompt is the context, and all other messages stay in place."""
    turns: Literal["all", "last"] = "all"
    """Of a conversation in --data, measure all turns of the assistant, or the last one alone."""
    channels: list[str] | None = None
    """Of a conversation in --data, measure what went there: answer (to the user), tool (arguments of calls), agent,
    memory, reasoning; all but reasoning by default."""
    messages: Path | None = None
    """JSON file of chat messages, or the log of a completion. The last user message is the query, a final assistant
    message is the response, and the others are context."""
    skip_bad: bool = False
    """Skip rows of --data that cannot be used, and report how many."""
    quiet_texts: bool = False
    """In the lines that begin with 'data:', show how long the texts of the first case of --data are, not how they
    begin."""


@Parameter(name="*", negative="")
@dataclass(frozen=True)
class RunOptions(LoadingOptions, _NamedModel):
    """Which model measures, on what, and where the results go."""

    out: Path = Path("runs")
    """Directory of runs, or its URL in an object store: s3://BUCKET/PREFIX, gs:// or az://."""
    part: str | None = None
    """I/N: measure the I-th of N slices of the run alone, as a job of an array does; `leakmeter runs complete` puts
    them together."""
    name: str | None = None
    """A name for the run, which `leakmeter runs list` and pages show; it changes neither numbers nor the run's id."""
    html: Path | None = None
    """Also write the report to this file."""
    show_secrets: bool = False
    """Print keys and passwords whole; otherwise a terminal shows their first characters alone. JSON and pages have them
    whole."""
    explain: bool = False
    """Print the conditions, the caveats, how it was measured and texts in colours too."""
    json: bool = False
    """Print one JSON object a case instead of the heat map."""
    no_cache: bool = False
    """Neither use nor keep scores in the score cache (see `leakmeter models cache`)."""
    budget: str | None = None
    """Of influence of a log: measure for that time, such as 90s, 10m or 1.5h, the most telling answers first, and say
    what is known of the others. The same command goes on."""
    dry_run: bool = False
    """Only predict tokens, memory and time (for a served model: requests and prompt tokens); run and write nothing."""
    price_per_million: float | None = None
    """Price of a million prompt tokens of a served model, for --dry-run, in any currency."""

    def __post_init__(self) -> None:
        checked_name(self.name)
        price = self.price_per_million
        if price is None:
            return
        if not (math.isfinite(price) and price >= 0):
            raise UsageError(f"price-per-million is {price}; it has to be a number of at least 0")
        if not self.dry_run:
            raise UsageError("--price-per-million is for --dry-run; add that, or leave it out")

    def load_backend(self) -> Backend:
        from leakmeter.commands import output
        from leakmeter.core.long_work import told_if_long
        from leakmeter.engine.loading import load

        with told_if_long(output.tell, f"loading {self.model} …"):
            return load(self.model, replace(self, cache=not self.no_cache))


@dataclass(frozen=True)
class PagelessRunOptions(RunOptions):
    """The same for what has no page, and runs of its own."""

    part: Annotated[str | None, Parameter(parse=False)] = None
    name: Annotated[str | None, Parameter(parse=False)] = None
    html: Annotated[Path | None, Parameter(parse=False)] = None
