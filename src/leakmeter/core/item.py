"""One case to be measured: a prompt, what of it may be removed, and the response."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from leakmeter.core.case import Case
from leakmeter.core.prompt import QUERY, Prompt
from leakmeter.core.record import JsonObject
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.measure import Measure
    from leakmeter.core.registry import AnyCase, Settings

LEVELS: Final = ("paragraph", "document")
"""Kinds of spans that hold the units of a case that is searched, the smaller first."""
IRRELEVANT: Final = "irrelevant text"
"""Begins the names of the controls of a case that has no other cases to be held against."""
PLACEBO: Final = "placebo"
"""Name of the irrelevant piece of the prompts that have one."""


class Lazily(Mapping[str, Prompt]):
    """Prompts by name, each made when it is first asked for: few measures need all."""

    __slots__ = ("_made", "_make")

    def __init__(self, names: Iterable[str], make: Callable[[str], Prompt]) -> None:
        self._made: dict[str, Prompt | None] = dict.fromkeys(names)
        self._make = make

    @override
    def __getitem__(self, name: str) -> Prompt:
        prompt = self._made[name]
        if prompt is None:
            prompt = self._made[name] = self._make(name)
        return prompt

    @property
    def prepared(self) -> dict[str, Prompt]:
        return {name: prompt for name, prompt in self._made.items() if prompt is not None}

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    @override
    def __len__(self) -> int:
        return len(self._made)


@dataclass(frozen=True, slots=True)
class EntityTexts:
    """What an entity is, in words: a value or a person that a context says in one or more places."""

    type: str
    """'phone', 'email', 'address', 'date', 'person', or a type of the user's."""
    value: str
    """Normal form, such as E.164 of a telephone number."""
    text: str
    """Its fullest mention, as the context has it."""
    invented: str | None = None
    """What is put in the place of the fullest mention, where the entity is swapped too."""


@dataclass(frozen=True, slots=True)
class Span:
    """What is removed together: a unit of the context, or a value or person wherever the context says it."""

    name: str
    kind: str
    """'unit' or 'value'; of a case that is searched also 'paragraph' or 'document', for what units stand in; 'fields'
    for values of a record that are measured together first."""
    ranges: tuple[tuple[int, int], ...]
    """Characters [start, end) of the context, in order."""
    pieces: tuple[str, ...]
    """Names of the prompt's pieces that hold its tokens, and of white space of no piece that goes with it."""
    document: str | None
    """Name of the document or message it lies in; None where it spans several."""
    n_tokens: int
    repeats: tuple[str, ...] = ()
    """Names of other units that say a value which this one says."""
    entity: EntityTexts | None = None
    """For a unit of personal data: what it is."""
    field: str | None = None
    """For a value of a record: keys that lead to it, such as 'patient.diagnosis'."""


class NamedRanges(Protocol):
    """A span as it is prepared, or as a run keeps it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def ranges(self) -> tuple[tuple[int, int], ...]: ...


def measured_together(spans: Iterable[NamedRanges]) -> dict[str, tuple[str, ...]]:
    """The values of records that are measured together first, by the name of what is measured."""
    known = list(spans)
    group_of = {chars: span.name for span in known if span.kind == "fields" for chars in span.ranges}
    members: dict[str, list[str]] = {}
    for span in known if group_of else ():
        if span.kind == "unit" and (group := group_of.get(span.ranges[0])) is not None:
            members.setdefault(group, []).append(span.name)
    return {name: tuple(parts) for name, parts in members.items()}


FEW_CASES: Final = 40
"""Cases of a log that are all measured completely; those of a larger one are measured step by step."""


@dataclass(frozen=True, slots=True)
class StepByStep:
    """How a case is measured that is finished as soon as nothing can be found of it, as many cases of one log are: what
    more is asked of it whatever was found, since it is one of a sample."""

    placebo: bool
    """It is one of those that say how many contexts move a response more than an irrelevant text does."""
    controls: bool
    """It is one of those that say how often something is found where nothing can be."""


@dataclass(frozen=True, slots=True)
class Item:
    """One case as every measure and the engine need it, tokenised once; instruments have items of their own."""

    id: str
    prompt: Prompt
    response: tuple[int, ...] | None
    """Token ids; None where the response is to be sampled."""
    stop_ids: frozenset[int] = field(default=frozenset(), kw_only=True)
    window: int | None = field(default=None, kw_only=True)
    """Most tokens that a prompt and what follows it may have; None for any number."""
    spans: tuple[Span, ...] = field(default=(), kw_only=True)
    model_noise_nats: float | None = field(default=None, kw_only=True)
    """How far one log-probability of the model moves with the way of asking, nats, where a run measured it once for all
    of its cases, as of a served model; None where cases measure the noise themselves."""
    measures_noise: bool = field(default=True, kw_only=True)
    """Whether the case measures the noise; where not, it has that of the cases of its run that do. See
    `core.noise_sample`."""
    steps: StepByStep | None = field(default=None, kw_only=True)
    """None of a case of which all is measured, whatever is found, as of each whose response is drawn."""

    @property
    def typical_prompts(self) -> tuple[Prompt, ...]:
        return (self.prompt,)


@dataclass(frozen=True, slots=True)
class ContextItem(Item):
    """A context, a query, and everything that may be made of the prompt by removing some of the context."""

    cuts: Mapping[str, Prompt] = field(kw_only=True)
    """The prompt without each span, under the removal policy."""
    alone: Mapping[str, Prompt] = field(kw_only=True)
    """The blank prompt with each span put back."""
    blank: Prompt = field(kw_only=True)
    """The prompt without any context: a function of the template and the query only."""
    placebos: tuple[Prompt, ...] = field(kw_only=True)
    """The prompt with an irrelevant piece of a unit's typical length put in, at several places."""
    placebo_alone: Prompt | None = field(default=None, kw_only=True)
    """The blank prompt with that piece as its only context; None where there are no placebos."""
    controls: Mapping[str, Prompt] = field(default_factory=dict, kw_only=True)
    """The prompt with the context of another case in the place of its own, by that case's id: the response was not
    written from it."""
    swaps: Mapping[str, Prompt] = field(default_factory=dict, kw_only=True)
    """The prompt with an invented value in the place of a span, for spans that are swapped too."""
    cut_together: Callable[[Collection[str]], Prompt] | None = field(default=None, compare=False, kw_only=True)
    """Makes the prompt without several spans, under the removal policy; None where none was made."""
    texts_of: Callable[[Sequence[int]], JsonObject] | None = field(default=None, compare=False, kw_only=True)
    """Token ids of a response to the texts that a run keeps: response, context and query; None where they are
    unknown."""

    @property
    @override
    def typical_prompts(self) -> tuple[Prompt, ...]:
        return (self.prompt, *islice(self.cuts.values(), 1), self.blank)

    def without(self, names: Collection[str]) -> Prompt:
        """The prompt without spans, all of them together; the prompt itself without none."""
        if not names:
            return self.prompt
        if len(names) == 1:
            (name,) = names
            return self.cuts[name]
        if self.cut_together is None:
            raise ValueError(f"case '{self.id}' was made without a way to cut {len(names)} spans together")
        return self.cut_together(names)


@dataclass(frozen=True, slots=True)
class Origin:
    """A case as it was given, and how it was to be prepared: plain data, from which others can prepare it alike."""

    case: AnyCase
    settings: Settings
    measure: Measure
    unmeasured_answers: int = 0
    """See `Prepared`."""
    steps: StepByStep | None = None
    """See `Item`."""

    def prepare(self, backend: Backend) -> Prepared:
        prepared = self.settings.prepare(self.case, backend, self.measure)
        # Of what is drawn nothing is known beforehand: all is measured of it.
        if self.steps is not None and prepared.item.response is not None:
            prepared = replace(prepared, item=replace(prepared.item, steps=self.steps))
        if isinstance(self.case, Case) and self.case.has_unmarked_context:
            prepared = replace(prepared, unmarked_query_tokens=prepared.item.prompt.n_tokens(QUERY))
        return replace(prepared, unmeasured_answers=self.unmeasured_answers, origin=self)


@dataclass(frozen=True, slots=True)
class Looked:
    """What is known of a case that can be measured, and is not prepared yet."""

    documents: tuple[str, ...] = ()
    """Names; of a case whose query may be a chat of which nothing is marked as retrieved."""
    unmarked_query_tokens: int | None = None
    """See `Prepared`."""
    is_drawn: bool = False
    """Whether its response is to be drawn."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An item and the texts it came from, for people to read."""

    item: Any
    """The instrument's own kind of `Item`."""
    context: str
    """The documents, joined by blank lines; the characters of spans count in it."""
    documents: tuple[tuple[str, int, int], ...]
    """Name and characters [start, end) of each."""
    query: str
    template: str
    unit: str
    n_truncated_tokens: int
    removal: str = field(default="drop", kw_only=True)
    unmarked_query_tokens: int | None = field(default=None, kw_only=True)
    """Tokens of the rest of a chat of which nothing is marked as retrieved; None of other cases."""
    unmeasured_answers: int = field(default=0, kw_only=True)
    """Earlier answers of the chat that no case measures."""
    origin: Origin | None = field(default=None, kw_only=True, compare=False, repr=False)
    """What it was prepared of; None where it was made otherwise."""

    def texts(self) -> JsonObject:
        """What a run keeps of the case beside these; what is not numbers of its result."""
        return {}
