"""Functions of the library: options that are the fields of a dataclass, and cases measured in memory or into a run.

A function of an instrument names a dataclass of its options, which inherits those of others, as a command's do, and a
second one with the options of how a model is loaded, which no method of a meter has:

    class SayOptions(FunctionOptions, CallOptions, PromptSettings):
        loudly: bool = False

    class SayCall(ModelOptions, SayOptions): ...

    @function(SayOptions, SayCall)
    def say(model: KeptModel, data: Any, options: SayOptions) -> Results[Said]:

Type checkers derive the function's signature from the constructors of the two, and `help` shows the same. The first
parameter is whatever a caller calls a model, and a `KeptModel` within.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, Protocol, TypeVar, cast, dataclass_transform, overload

from leakmeter.commands.cases import log_formats
from leakmeter.core import registry
from leakmeter.core.case import Case
from leakmeter.core.loaded import LoadedCases
from leakmeter.core.plain import as_unicode
from leakmeter.engine.loading import KeptModel, model_of, tell
from leakmeter.engine.options import MODEL_OPTIONS, ModelOptions
from leakmeter.engine.storage.spec import checked_name
from leakmeter.errors import UnknownNameError, UsageError, as_keyword, options_named
from leakmeter.models import DEFAULT_MODEL
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.loaded import Plan
    from leakmeter.results.result import PartContent
    from leakmeter.results.results import Results

HELD_RESULTS: Final = 1_000
"""Of so many cases a call into a run keeps the results, which it has just made; those of more it reads when asked."""

P = ParamSpec("P")
Loading = ParamSpec("Loading")
Made = TypeVar("Made")
T = TypeVar("T")
One = TypeVar("One", covariant=True)
Many = TypeVar("Many", covariant=True)
DataRecord = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
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
        if checked_name(self.name) is not None and self.out is None:
            raise UsageError("name is for runs that are kept; give `out` too")


@dataclass(frozen=True, kw_only=True)
class RowNames:
    """What the fields of the data are called."""

    map: str | Mapping[str, str] | None = None
    """Map fields of the data that have other names: {'text': 'ticket.body'}, or 'text=ticket.body,label=team'."""

    def rows(self, data: Any, text_field: str, *, known: Collection[str] | None = None) -> list[DataRecord]:
        """Records of any data (see `data.rows.read_rows`) with names in lower case; a bare text stands for
        `text_field`."""
        from leakmeter.data.mapping import mapping_of
        from leakmeter.data.rows import read_rows

        rows = read_rows(data, mapping=mapping_of(self.map, known), text_field=text_field)
        return [{name.lower(): value for name, value in row.fields.items()} for row in rows]


@dataclass(frozen=True, kw_only=True)
class CaseOptions:
    """A single case that stands in the parameters, or how cases are read from the data."""

    context: str | Sequence[Any] | Mapping[str, str] = ()
    """Of a single case: one text, several documents, or documents by name."""
    query: str = ""
    """What the model is asked."""
    response: str | None = None
    """What it answered; None to have answers sampled."""
    messages: Sequence[Mapping[str, Any]] = ()
    """A chat instead of context and query."""
    map: str | Mapping[str, str] | None = None
    """Map fields of the data that have other names: {'query': 'question', 'context': 'docs[].text'}."""
    format: str | None = None
    """Preset for the data: openai, ragas, langchain, llamaindex, haystack, squad, rag, langfuse, langsmith, otel,
    openinference, mlflow or leakmeter; detected by default."""
    context_from: str | None = None
    """A pattern for the last user message: its group 'context', or its first, is context. Or 'system': the system
    prompt is the context, and all other messages stay."""
    turns: Literal["all", "last"] = "all"
    """Of a conversation in the data, measure all turns of the assistant, or the last one alone."""
    channels: str | Sequence[str] | None = None
    """Of a conversation in the data, measure what went there: 'answer', 'tool', 'agent', 'memory', 'reasoning'; all but
    reasoning by default."""
    quiet_texts: bool = True
    """In the lines that begin with 'data:', show how long the texts of the first case are, not how they begin."""

    def cases(self, data: Any, *, skip_bad: bool, needs_response: bool = False) -> LoadedCases[Case]:
        """Those of the data; without data the single one. `needs_response` as of `data.cases.cases_of`."""
        from leakmeter.data.cases import case_of, cases_of
        from leakmeter.data.conversation import emission_options

        if data is None:
            if self.map is not None or self.format is not None:
                raise UsageError("map and format describe data; give data, or leave them out")
            return LoadedCases(
                (case_of(self.context, self.query, self.response, self.messages, context_from=self.context_from),)
            )
        if self.context or self.query or self.response is not None or self.messages:
            raise UsageError("give either data, or one case as context, query and response or as messages")
        loaded = cases_of(
            data,
            map=self.map,
            format=self.format,
            context_from=self.context_from,
            skip_bad=skip_bad,
            needs_response=needs_response,
            emissions=emission_options(self.turns, self.channels),
            quiet_texts=self.quiet_texts,
            logs=log_formats,
        )
        for line in (*loaded.notes, *loaded.first_case):
            tell(line)
        source = as_unicode(str(data)) if isinstance(data, str | Path) else None
        return LoadedCases(loaded.cases, loaded.problems, skip_bad, source=source)


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,))
class FunctionOptions:
    """First base of a function's options; makes them a dataclass. Each other base that is a dataclass is a part, made
    of the options that are its fields. Options that the class itself has are the function's own: in parts they keep
    their defaults."""

    @override
    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        for kind in reversed(type(self).__bases__):
            if is_dataclass(kind):
                self.part(kind)

    def part(self, kind: Callable[..., T]) -> T:
        own = get_annotations(type(self))
        return kind(**{name: getattr(self, name) for name in _fields(kind) if name not in own})


class MeterMethod(Protocol[P, One]):
    def __call__(self, data: Any = None, *args: P.args, **kwargs: P.kwargs) -> One: ...


class Function(Protocol[P, Loading, One]):
    """A function of a model and data; `on` is the same of a `KeptModel`."""

    def __call__(
        self, model: Any = DEFAULT_MODEL, data: Any = None, *args: Loading.args, **kwargs: Loading.kwargs
    ) -> One: ...
    def on(self, model: KeptModel, data: Any = None, *args: P.args, **kwargs: P.kwargs) -> One: ...
    def __get__(self, meter: Any, kind: Any = None) -> MeterMethod[P, One]: ...


class CaseMethod(Protocol[P, One, Many]):
    @overload
    def __call__(self, data: Any, *args: P.args, **kwargs: P.kwargs) -> Many: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> One: ...


class CaseFunction(Protocol[P, Loading, One, Many]):
    """A function of cases, or of a single one without data."""

    @overload
    def __call__(self, model: Any, data: Any, *args: Loading.args, **kwargs: Loading.kwargs) -> Many: ...
    @overload
    def __call__(self, model: Any = DEFAULT_MODEL, *args: Loading.args, **kwargs: Loading.kwargs) -> One: ...
    def on(self, model: KeptModel, data: Any, *args: P.args, **kwargs: P.kwargs) -> Many: ...
    def __get__(self, meter: Any, kind: Any = None) -> CaseMethod[P, One, Many]: ...


class _OfCases(Protocol[P, Loading, One]):
    @overload
    def __call__(
        self, wrapped: Callable[[KeptModel, Any, One], Results[T]], /
    ) -> CaseFunction[P, Loading, T, Results[T]]: ...
    @overload
    def __call__(
        self, wrapped: Callable[[KeptModel, Any, One], list[T]], /
    ) -> CaseFunction[P, Loading, T, list[T]]: ...


def function(
    options: Callable[P, Made], call: Callable[Loading, Made]
) -> Callable[[Callable[[KeptModel, Any, Made], T]], Function[P, Loading, T]]:
    """Decorator: a function of the library, of any model, whose options are the fields of `options`; `call` adds those
    of `ModelOptions`."""
    return lambda wrapped: _function(wrapped, options, call)


def function_of_cases(options: Callable[P, Made], call: Callable[Loading, Made]) -> _OfCases[P, Loading, Made]:
    """As `function`, for options with `CaseOptions`: without data, the result of the single case."""
    return cast("_OfCases[P, Loading, Made]", lambda wrapped: _function(wrapped, options, call, alone=True))


def plain_function(options: Callable[P, Made]) -> Callable[[Callable[[Made], T]], Callable[P, T]]:
    """As `function`, without a model and data."""

    def decorated(wrapped: Callable[[Made], T]) -> Callable[P, T]:
        @wraps(wrapped)
        def called(**keywords: Any) -> T:
            with options_named(lambda name, value: as_keyword(name, value) if name in _fields(options) else None):
                return wrapped(_made(wrapped, options, keywords))

        shown = _showing(called, _parameters(options, options), get_annotations(wrapped)["return"])
        return cast("Callable[P, T]", shown)

    return decorated


def _function(wrapped: Any, options: Any, call: Any, *, alone: bool = False) -> Any:
    known = _fields(call)

    def as_argument(name: str, value: str | None) -> str | None:
        if name in ("data", "model"):
            return as_keyword(name, value)
        return as_keyword(name, value, is_flag=known[name].type == "bool") if name in known else None

    def on(model: KeptModel, data: Any = None, **keywords: Any) -> Any:
        for name in keywords:
            if name in MODEL_OPTIONS and name not in _fields(options):
                raise UsageError(f"'{name}' sets how a model is loaded; give it to Meter(…)")
        with options_named(as_argument):
            results = wrapped(model, data, _made(wrapped, options, keywords))
        return results[0] if alone and data is None else results

    @wraps(wrapped)
    def called(model: Any = DEFAULT_MODEL, data: Any = None, **keywords: Any) -> Any:
        loading = {name: keywords.pop(name) for name in MODEL_OPTIONS if name in keywords}
        with options_named(as_argument):
            kept = model_of(model, ModelOptions.named(loading))
        return on(kept, data, **keywords)

    returned = get_annotations(wrapped)["return"]
    if alone:
        returned = f"{returned.partition('[')[2].removesuffix(']')} | {returned}"
    first = [
        Parameter("model", Parameter.POSITIONAL_OR_KEYWORD, default=DEFAULT_MODEL, annotation="Any"),
        Parameter("data", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Any"),
    ]
    on.__doc__, on.__name__ = wrapped.__doc__, wrapped.__name__
    function: Any = _showing(called, [*first, *_parameters(options, call)], returned)
    function.on = _showing(on, [*first, *_parameters(options, options)], returned)
    return function


def _made(wrapped: Any, options: Any, keywords: dict[str, Any]) -> Any:
    """The options; their errors name the function."""
    # Python's own word on what is missing.
    options.__init__.__qualname__ = wrapped.__name__
    for name in keywords:
        if name not in _fields(options):
            raise UnknownNameError(f"option of {wrapped.__name__}", name, _fields(options))
    return options(**keywords)


def _fields(kind: Any) -> dict[str, Field[Any]]:
    """Those of a dataclass that are parameters of its constructor."""
    return {field.name: field for field in fields(kind) if field.init}


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return ...
    return Parameter.empty if field.default is MISSING else field.default


def _parameters(options: Any, call: Any) -> list[Parameter]:
    own = get_annotations(options)
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=field.type)
        for name, field in _fields(call).items()
    ]
    return sorted(
        parameters,
        key=lambda shown: (shown.name not in own, shown.name in own and shown.default is not Parameter.empty),
    )


def _showing(function: Any, parameters: Sequence[Parameter], returned: str) -> Any:
    function.__signature__ = Signature(parameters, return_annotation=returned)
    return function


def measured(
    model: KeptModel,
    plan: Plan,
    how: CallOptions,
    *,
    results: Callable[[Iterable[PartContent]], Iterator[Any]] | None = None,
) -> Results[Any]:
    """A plan measured in memory, or into a run directory; `results` as for `commands.cases.run_cases`."""
    from leakmeter.commands.progress import progress, tell_full_passes
    from leakmeter.engine.measure import Callbacks
    from leakmeter.engine.ready import make_ready
    from leakmeter.engine.storage.stored import check_store
    from leakmeter.results.results import Results
    from leakmeter.results.run import Run

    plan = plan.resolved()
    with model.lock:
        if how.out is not None:
            check_store(Path(how.out))
        ready = make_ready(plan, model.backend)
        for line in ready.plan.cases.notes:
            tell(line)
        silent = Callbacks(on_full_passes=tell_full_passes)
        watch = progress(model.backend, len(ready.prepared)) if how.progress else nullcontext(silent)
        kind = registry.instrument(plan.instrument).result
        with watch as callbacks:
            if how.out is None:
                make = results or partial(kind.from_run, params=asdict(plan.measure))
                return Results(make(ready.measure(callbacks)), kind=kind, problems=ready.plan.cases.problems)
            cases: tuple[Any, ...] | None = None
            with ready.measure_into(
                Path(how.out), callbacks=callbacks, label=how.name, data=plan.cases.source
            ) as opened:
                if len(ready.prepared) <= HELD_RESULTS:
                    make = results or partial(kind.from_run, params=opened.spec.params)
                    cases = tuple(make(opened.parts))
                for _ in opened.parts:
                    pass  # each is written as it comes, and read again where it is asked for
    return Run.opened(Path(opened.directory.place), results, cases)
