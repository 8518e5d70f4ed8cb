"""Loaded cases, prepared in memory that does not grow with their number, and the plan of what to measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from leakmeter.core.case import context_text, conversation_of, n_characters, unmarked_context, unmeasured_answers
from leakmeter.core.item import Looked, Origin, Prepared, StepByStep
from leakmeter.core.long_work import checkpoint
from leakmeter.core.registry import AnyCase
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.measure import Measure
    from leakmeter.core.registry import Settings


_C = TypeVar("_C", bound=AnyCase)


@dataclass(frozen=True, slots=True)
class LoadedCases(Generic[_C]):
    cases: tuple[_C, ...]
    problems: tuple[str, ...] = ()
    """What was wrong with each case that is left out already."""
    skip_bad: bool = False
    """Leave out further ones too, rather than stop at the first."""
    notes: tuple[str, ...] = ()
    source: str | None = None
    """The file they are of, as it was given; None where they are of none, or its name may say whom they are about."""

    def prepared(
        self,
        backend: Backend,
        settings: Settings,
        measure: Measure,
        check: Callable[[Prepared], None] = lambda prepared: None,
        steps: Sequence[StepByStep | None] = (),
        *,
        deferred: bool = False,
    ) -> tuple[Preparations, LoadedCases[_C]]:
        """The cases tokenised and cut; and these cases with all problems and notes. `check` refuses all of them where
        it raises: it is asked of each case while that is in memory. `steps` are as a `Plan`'s. With `deferred`, what
        is measured step by step is prepared, once, when it is asked for: a large log would take minutes before its
        first case is measured. So is what may not stay in memory, where settings tell without preparing it that it can
        be measured, and a case like it, with a response or without, was prepared. The first is prepared, and asked of,
        in any case."""
        prepared = Preparations(backend, check=check)
        unmarked: dict[str, list[int]] = {}
        kept: list[_C] = []
        prepared_drawn: set[bool] = set()
        problems = list(self.problems)
        cases = settings.with_controls(self.cases, measure)
        of_each = steps or [None] * len(cases)
        n_unmeasured = list(unmeasured_answers(self.cases))

        def origin_of(number: int) -> Origin:
            return Origin(cases[number], settings, measure, n_unmeasured[number], of_each[number])

        for number, case in enumerate(self.cases):
            prepared_case = None
            try:
                looked = None
                is_stepwise = of_each[number] is not None
                if deferred and prepared and (is_stepwise or not prepared.has_room_for(case)):
                    looked = settings.look(case, backend, measure)
                if looked is not None and (is_stepwise or looked.is_drawn in prepared_drawn):
                    prepared.defer(case, of_each[number], partial(origin_of, number))
                else:
                    prepared_case = prepared.append(origin_of(number))
                    names = tuple(name for name, _, _ in prepared_case.documents)
                    looked = Looked(names, prepared_case.unmarked_query_tokens)
                    prepared_drawn.add(prepared_case.item.response is None)
            except LeakmeterError as error:
                if not self.skip_bad:
                    raise
                problems.append(str(error))
                continue
            kept.append(case)
            if looked.unmarked_query_tokens is not None:
                unmarked.setdefault(unmarked_context(looked.documents), []).append(looked.unmarked_query_tokens)
            if prepared_case is not None:
                check(prepared_case)
        if not prepared:
            raise UsageError(f"none of {len(self.cases)} cases can be used; the first: {problems[0]}")
        notes = tuple(_notes(unmarked, len(prepared)))
        return prepared, replace(self, cases=tuple(kept), problems=tuple(problems), notes=notes)


def _notes(unmarked: Mapping[str, Sequence[int]], n_cases: int) -> Iterator[str]:
    for context, sizes in unmarked.items():
        where = f"in {len(sizes):,} of {n_cases:,} cases " if n_cases > 1 else ""
        size = f"up to {max(sizes):,}" if len(sizes) > 1 else f"{sizes[0]:,}"
        mark = "" if context == unmarked_context(()) else "; mark retrieved text in it with --context-from REGEX"
        yield (
            f"{where}the only context is {context}; the rest of the chat, {size} tokens, counts as the query, "
            f"and nothing in it is measured{mark}"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured, and all that decides the numbers beside the model."""

    instrument: str
    measure: Measure
    settings: Settings
    cases: LoadedCases[Any]
    group_size: int = 1
    """Cases that are scored together; see `engine.groups`."""
    steps: Sequence[StepByStep | None] = ()
    """Of each case how it is measured, where some are finished as soon as nothing can be found of them; empty where all
    is measured of each."""
    telling: Callable[[Sequence[Any]], Sequence[float]] | None = None
    """Of some cases how much each looks as if something were to be found, before it is measured; None where nobody can
    tell."""
    settle: Callable[[], tuple[Measure, Path]] | None = None
    """Called once nothing else is refused, before a run is opened: gives what measures instead, and the directory where
    that is kept, which goes again where nothing comes to be measured."""

    def case_by_case(self) -> Plan:
        """The plan with each case that is measured step by step scored alone: where work may end behind any case, or
        answers cost money, each is kept as it comes."""
        return replace(self, group_size=1) if self.steps else self

    def resolved(self) -> Plan:
        """The plan with the files read that its settings name: what cannot be used is said before a model is loaded."""
        settings = self.settings.resolved()
        settings.check_measure(self.measure)
        return replace(self, settings=settings)


HELD_TOKENS: Final = 50_000
"""Of prompts whose tokens, pieces and spans stay in memory; with what is made of them, some 700 bytes a token."""


class Preparations(Sequence[Prepared]):
    """Prepared cases in order. Only the first are held in memory; those that were deferred are prepared when they are
    asked for, and the others again."""

    def __init__(
        self,
        backend: Backend | None,
        held_tokens: int = HELD_TOKENS,
        *,
        check: Callable[[Prepared], None] = lambda prepared: None,
    ) -> None:
        self._backend = backend
        self._check = check
        self._left = held_tokens
        self._most_more = 0  # tokens of a prompt beyond the characters of its case
        self._held: list[Prepared] = []
        self._origins: list[Origin | Callable[[], Origin] | None] = []
        self.ids: list[str] = []
        self.steps: list[StepByStep | None] = []
        """Of each case how it is measured; None of one of which all is."""
        self.contexts: list[str] = []
        """What cases are told apart by whose prompts begin alike: the context, or of a deferred case its documents."""
        self.conversations: list[str | None] = []
        """Of each case the conversation that it is a turn of."""
        self.lengths: list[int] = []
        """Characters of each case; see `core.case.n_characters`."""

    @classmethod
    def from_prepared(cls, prepared: Sequence[Prepared]) -> Preparations:
        if isinstance(prepared, cls):
            return prepared
        preparations = cls(None)
        for prepared_case in prepared:
            preparations._add(prepared_case)
            preparations._held.append(prepared_case)
        return preparations

    def has_room_for(self, case: AnyCase) -> bool:
        """Whether a case stays in memory, by its characters: it has no more tokens beyond these than those before."""
        return len(self._held) == len(self.ids) and n_characters(case) + self._most_more <= self._left

    def append(self, origin: Origin) -> Prepared:
        """Prepare a case; one that cannot be measured so is refused, and is not among the cases then."""
        assert self._backend is not None
        checkpoint()
        prepared = origin.prepare(self._backend)
        n_tokens = sum(len(piece.ids) for piece in prepared.item.prompt.pieces)
        self._most_more = max(self._most_more, n_tokens - n_characters(origin.case))
        if len(self._held) == len(self.ids) and n_tokens <= self._left:
            self._held.append(prepared)
            self._left -= n_tokens
        self._add(prepared)
        return prepared

    def defer(self, case: AnyCase, steps: StepByStep | None, origin: Callable[[], Origin]) -> None:
        """Add a case that can be measured, and is prepared when it is asked for."""
        checkpoint()
        self.ids.append(case.id)
        self.steps.append(steps)
        self.contexts.append(context_text(case))
        self.conversations.append(conversation_of(case))
        self.lengths.append(n_characters(case))
        self._origins.append(origin)

    @property
    def origins(self) -> list[Origin | None]:
        return self.origins_of(range(len(self)))

    def origins_of(self, numbers: range) -> list[Origin | None]:
        """How the cases of these numbers are prepared."""
        origins = self._origins[numbers.start : numbers.stop]
        return [origin() if callable(origin) else origin for origin in origins]

    def _add(self, prepared: Prepared) -> None:
        self.ids.append(prepared.item.id)
        self.steps.append(prepared.item.steps)
        self.contexts.append(prepared.context)
        self._origins.append(prepared.origin)
        self.conversations.append(None if prepared.origin is None else conversation_of(prepared.origin.case))
        own = len(prepared.context) + len(prepared.query)
        self.lengths.append(own if prepared.origin is None else n_characters(prepared.origin.case))

    @override
    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Prepared: ...

    @overload
    def __getitem__(self, at: slice) -> list[Prepared]: ...

    @override
    def __getitem__(self, at: int | slice) -> Prepared | list[Prepared]:
        if isinstance(at, slice):
            return [self._at(number) for number in range(*at.indices(len(self)))]
        return self._at(range(len(self))[at])

    def _at(self, number: int) -> Prepared:
        if number < len(self._held):
            return self._held[number]
        (origin,) = self.origins_of(range(number, number + 1))
        assert origin is not None
        assert self._backend is not None
        prepared = origin.prepare(self._backend)
        if callable(self._origins[number]):
            self._check(prepared)
        return prepared
