"""Functions of the library: options that are the fields of dataclasses, and cases measured in memory or into a run.

A function of an instrument names the dataclasses that its options are fields of, as a command does:

    @function(measure=Influence, prompts=PromptSettings, how=CallOptions)
    def influence(model: KeptModel, data: Any = None, *, measure: Influence, prompts: …, how: …) -> …:

Its signature, as `help` and editors show it, has every field with the type and default that it has in its class; no
function restates one. The first parameter is whatever a caller calls a model, and a `KeptModel` within.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from leakmeter.commands.given import as_unicode
from leakmeter.core import registry
from leakmeter.core.case import Case
from leakmeter.core.loaded import LoadedCases
from leakmeter.engine.loading import LOAD_OPTIONS, KeptModel, model_of, tell
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.models import DEFAULT_MODEL
from leakmeter.storage.spec import checked_name

if TYPE_CHECKING:
    from leakmeter.core.loaded import Plan
    from leakmeter.results.result import Part
    from leakmeter.results.results import Results

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How a call measures its cases."""

    out: str | Path | None = None
    """Directory of runs to keep the results in, or its URL in an object store: the same call goes on where it was
    interrupted, and measures nothing twice. None to measure in memory."""
    name: str | None = None
    """What to call the run, with out: shown in lists and reports, and no part of what identifies it."""
    progress: bool = False
    """Draw a bar on standard error."""
    skip_bad: bool = False
    """Leave out cases that cannot be used, and name them in `problems`, rather than stop at the first."""

    def __post_init__(self) -> None:
        """Refuse a name of nothing that is kept, or one that would not fit into a line."""
        if checked_name(self.name) is not None and self.out is None:
            raise UsageError("name is for runs that are kept; give `out` too")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNames:
    """What the fields of the data are called."""

    map: str | Mapping[str, str] | None = None
    """Map fields of the data that have other names: {'text': 'ticket.body'}, or 'text=ticket.body,label=team'."""

    def rows(self, data: Any, text_field: str, *, known: Collection[str] | None = None) -> list[Row]:
        """Records of any data (see `data.rows.read_rows`), names of their fields in lower case; a bare text stands for
        `text_field`."""
        from leakmeter.data.mapping import mapping_of
        from leakmeter.data.rows import read_rows

        rows = read_rows(data, mapping=mapping_of(self.map, known), text_field=text_field)
        return [{name.lower(): value for name, value in row.fields.items()} for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseNames:
    """How cases are read from the data."""

    map: str | Mapping[str, str] | None = None
    """Map fields of the data that have other names: {'query': 'question', 'context': 'docs[].text'}."""
    format: str | None = None
    """Preset for the data: openai, ragas, langchain, llamaindex, squad, rag, langfuse, langsmith, otel, openinference,
    mlflow or leakmeter; detected by default."""
    context_from: str | None = None
    """A pattern for the last user message: its group 'context', or its first, is context. Or 'system': the system
    prompt is the context, and all other messages stay."""


@dataclass(frozen=True, slots=True)
class Some:
    """Some fields of a dataclass as options; the others are left at their defaults, or are as in `fixed`. `raw`
    keeps the options as a dictionary, for who makes the dataclass of them."""

    kind: type
    only: Collection[str] = ()
    without: Collection[str] = ()
    fixed: Mapping[str, Any] | None = None
    raw: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields that are options."""
        return tuple(
            field.name
            for field in fields(self.kind)
            if field.init and field.name not in self.without and (not self.only or field.name in self.only)
        )

    def parameters(self) -> Iterator[Parameter]:
        for field in fields(self.kind):
            if field.name in self.names:
                has_none = field.default is MISSING and field.default_factory is MISSING
                default = field.default if field.default is not MISSING else Parameter.empty if has_none else ...
                yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=field.type)

    def make(self, options: dict[str, Any]) -> Any:
        """The dataclass of the options that are its fields, which are taken out."""
        values = {**(self.fixed or {}), **{name: options.pop(name) for name in self.names if name in options}}
        return values if self.raw else self.kind(**values)


def function(*, case: Sequence[str] = (), takes_model: bool = True, **kinds: type | Some) -> Callable[[F], F]:
    """What makes a function of the library: of any model, with the fields of dataclasses as options. `case` has the
    parameters of a single case, which go without `data`; a function that takes no model takes its data, if any, alone;
    `kinds` are the dataclasses by the parameters that take them. The function has `on`, the same of a `KeptModel` in
    the place of a model, `parts`, its dataclasses, and `case`."""
    parts = {name: kind if isinstance(kind, Some) else Some(kind) for name, kind in kinds.items()}

    def decorated(wrapped: F) -> F:
        plain = [argument for name, argument in signature(wrapped).parameters.items() if name not in parts]
        named = [argument for argument in plain if argument.kind is Parameter.KEYWORD_ONLY]
        options = [
            argument
            for part in parts.values()
            for argument in part.parameters()
            if argument.name not in {n.name for n in named}
        ]
        option_names = [argument.name for argument in (*named, *options)]
        name = wrapped.__name__

        def parsed(keywords: dict[str, Any]) -> dict[str, Any]:
            own = {argument.name: keywords.pop(argument.name) for argument in named if argument.name in keywords}
            settings = {parameter: part.make(keywords) for parameter, part in parts.items()}
            for unknown in keywords:
                if unknown in LOAD_OPTIONS and takes_model:
                    raise UsageError(f"'{unknown}' sets how a model is loaded; give it to Meter(…)")
                raise UnknownNameError(f"option of {name}", unknown, option_names)
            return {**own, **settings}

        def on(model: KeptModel, data: Any = None, **keywords: Any) -> Any:
            return wrapped(model, data, **parsed(keywords))

        @wraps(wrapped)
        def called(model: Any = DEFAULT_MODEL, data: Any = None, **keywords: Any) -> Any:
            loading = {name: keywords.pop(name) for name in LOAD_OPTIONS if name in keywords}
            return on(model_of(model, **loading), data, **keywords)

        @wraps(wrapped)
        def alone(*data: Any, **keywords: Any) -> Any:
            return wrapped(*data, **parsed(keywords))

        def showing(target: Any, *parameters: Parameter) -> Any:
            target.__signature__ = Signature(parameters, return_annotation=signature(wrapped).return_annotation)
            target.parts, target.case = parts, tuple(case)
            return target

        shown = [*sorted(named, key=lambda argument: argument.default is not Parameter.empty), *options]
        if not takes_model:
            return cast("F", showing(alone, *(argument for argument in plain if argument not in named), *shown))
        first = [
            Parameter("model", Parameter.POSITIONAL_OR_KEYWORD, default=DEFAULT_MODEL, annotation="Any"),
            Parameter("data", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Any"),
        ]
        showing(called, *first, *shown, *LOAD_OPTIONS.values())
        called.on = showing(on, *first, *shown)  # type: ignore[attr-defined]
        on.__doc__, on.__name__ = wrapped.__doc__, name
        return cast("F", called)

    return decorated


def cases_given(
    data: Any,
    context: Any,
    query: str,
    response: str | None,
    messages: Any,
    names: CaseNames,
    how: CallOptions,
) -> tuple[LoadedCases[Case], bool]:
    """The cases of a call, and whether it is a single one that stands in its parameters."""
    from leakmeter.data.cases import case_of, cases_of
    from leakmeter.traces.case import PRESETS

    if data is None:
        if names.map is not None or names.format is not None:
            raise UsageError("map and format describe data; give data, or leave them out")
        case = case_of(context, query, response, messages, context_from=names.context_from)
        return LoadedCases((case,)), True
    if context or query or response is not None or messages:
        raise UsageError("give either data, or one case as context, query and response or as messages")
    loaded = cases_of(data, **asdict(names), skip_bad=how.skip_bad, logs=PRESETS)
    for line in loaded.notes:
        tell(line)
    source = as_unicode(str(data)) if isinstance(data, str | Path) else None
    return LoadedCases(loaded.cases, loaded.problems, how.skip_bad, source=source), False


def measured(
    model: KeptModel,
    plan: Plan,
    how: CallOptions,
    *,
    results: Callable[[Iterable[Part]], Iterator[Any]] | None = None,
) -> Results[Any]:
    """A plan measured in memory, or into a run directory; `results` as for `commands.cases.run_cases`."""
    from leakmeter.commands.progress import progress
    from leakmeter.engine.measure import Callbacks
    from leakmeter.engine.ready import make_ready
    from leakmeter.results.results import Results
    from leakmeter.results.run import Run
    from leakmeter.storage.stored import check_store

    plan = plan.resolved()
    with model.lock:
        if how.out is not None:
            check_store(Path(how.out))
        ready = make_ready(plan, model.backend)
        for line in ready.plan.cases.notes:
            tell(line)
        watch = progress(model.backend, len(ready.prepared)) if how.progress else nullcontext(Callbacks())
        with watch as callbacks:
            if how.out is None:
                kind = registry.instrument(plan.instrument).result
                make = results or partial(kind.from_run, params=asdict(plan.measure))
                return Results(make(ready.measure(callbacks)), kind=kind, problems=ready.plan.cases.problems)
            with ready.measure_into(
                Path(how.out), callbacks=callbacks, label=how.name, data=plan.cases.source
            ) as opened:
                for _ in opened.parts:
                    pass  # each is written as it comes, and read again where it is asked for
    return Run.opened(Path(opened.directory.place), results)
