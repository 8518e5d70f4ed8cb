"""Cases as they were loaded, and the plan of what to measure of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leakmeter.core.case import unmarked_context
from leakmeter.core.instrument import AnyCase
from leakmeter.core.item import Origin
from leakmeter.core.preparations import Preparations
from leakmeter.errors import LeakmeterError, UsageError

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.instrument import Settings
    from leakmeter.core.measure import Measure

_C = TypeVar("_C", bound=AnyCase)


@dataclass(frozen=True, slots=True)
class LoadedCases(Generic[_C]):
    """Cases, and what becomes of those that cannot be used."""

    cases: tuple[_C, ...]
    problems: tuple[str, ...] = ()
    """What was wrong with each case that is left out already."""
    skip_bad: bool = False
    """Leave out further ones too, rather than stop at the first."""
    notes: tuple[str, ...] = ()
    """What to tell of how the cases were read."""
    source: str | None = None
    """The file they are of, as it was given; None where they are of none, or its name may say whom they are about."""

    def prepared(self, backend: Backend, settings: Settings, measure: Measure) -> tuple[Preparations, LoadedCases[_C]]:
        """The cases tokenised and cut; and these cases with the problems of all others, and what to tell of those
        prepared."""
        prepared = Preparations(backend)
        unmarked: dict[str, list[int]] = {}
        kept: list[_C] = []
        problems = list(self.problems)
        for case in self.cases:
            try:
                prepared_case = prepared.append(Origin(case, settings, measure))
                kept.append(case)
                if prepared_case.unmarked_query_tokens is not None:
                    names = (name for name, _, _ in prepared_case.documents)
                    unmarked.setdefault(unmarked_context(names), []).append(prepared_case.unmarked_query_tokens)
            except LeakmeterError as error:
                if not self.skip_bad:
                    raise
                problems.append(str(error))
        if not prepared:
            raise UsageError(f"none of {len(self.cases)} cases can be used; the first: {problems[0]}")
        notes = tuple(_notes(unmarked, len(prepared)))
        return prepared, replace(self, cases=tuple(kept), problems=tuple(problems), notes=notes)


def _notes(unmarked: Mapping[str, Sequence[int]], n_cases: int) -> Iterator[str]:
    for context, sizes in unmarked.items():
        which = f"in {len(sizes):,} of {n_cases:,} cases " if n_cases > 1 else ""
        size = f"up to {max(sizes):,}" if len(sizes) > 1 else f"{sizes[0]:,}"
        yield (
            f"{which}the only context is {context}; the rest of the chat, {size} tokens, counts as the query, "
            "and nothing in it is measured"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured, and all that decides the numbers beside the model."""

    instrument: str
    measure: Measure
    settings: Settings
    """How prompts are made."""
    cases: LoadedCases[Any]
    group_size: int = 1
    """Cases that are scored together; see `engine.measure.measure_cases`."""
    settle: Callable[[], tuple[Measure, Path]] | None = None
    """Called once nothing else is refused, before a run is opened: gives what measures instead, and the directory where
    that is kept, which goes again where nothing comes to be measured."""

    def resolved(self) -> Plan:
        """The plan with the files read that its settings name: what cannot be used is said before a model is loaded."""
        settings = self.settings.resolved()
        settings.check_measure(self.measure)
        return replace(self, settings=settings)
