"""The cases of a run, ready to be measured, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, overload

from leakmeter.core.checkpoint import checkpoint
from leakmeter.core.item import Origin, Prepared
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend

HELD_TOKENS: Final = 50_000
"""Of prompts whose tokens, pieces and spans stay in memory; with what is made of them, some 700 bytes a token."""


class Preparations(Sequence[Prepared]):
    """Prepared cases in order. Of many, only the first are held; the others are prepared anew when they are asked for.

    Args:
        backend: has the tokenizer and the window.
        held_tokens: of prompts that are held.
    """

    def __init__(self, backend: Backend | None, held_tokens: int = HELD_TOKENS) -> None:
        self._backend = backend
        self._left = held_tokens
        self._held: list[Prepared] = []
        self.ids: list[str] = []
        self.contexts: list[str] = []
        self.origins: list[Origin | None] = []
        """What each was prepared of; None where it was made otherwise."""

    @classmethod
    def from_prepared(cls, prepared: Sequence[Prepared]) -> Preparations:
        """Cases that are in memory already, or are such a sequence."""
        if isinstance(prepared, cls):
            return prepared
        preparations = cls(None)
        for prepared_case in prepared:
            preparations._add(prepared_case)
            preparations._held.append(prepared_case)
        return preparations

    def append(self, origin: Origin) -> Prepared:
        """Prepare a case; one that cannot be measured so is refused, and is not among the cases then."""
        assert self._backend is not None
        checkpoint()
        prepared = origin.prepare(self._backend)
        n_tokens = sum(len(piece.ids) for piece in prepared.item.prompt.pieces)
        if len(self._held) == len(self.ids) and n_tokens <= self._left:
            self._held.append(prepared)
            self._left -= n_tokens
        self._add(prepared)
        return prepared

    def _add(self, prepared: Prepared) -> None:
        self.ids.append(prepared.item.id)
        self.contexts.append(prepared.context)
        self.origins.append(prepared.origin)

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
        origin = self.origins[number]
        assert origin is not None
        assert self._backend is not None
        return origin.prepare(self._backend)
