"""Contexts of other cases of the same log: what an answer is held against that was not written from them.

They have the frame, the format, the language and the tone of the context that was read, and nothing of what only that
one says. What such a context raises in an answer is style; what its own raises beyond that came from there.

A document that has a value of the answer, or a phrase that the answer took from its own context, is no control but
another source, as the same document in two cases is; a phrase that more than half of the other contexts have is their
form, and counts for nothing. A context of the same tenant, person or conversation is no control either where there is
another (`text.kinship`). Of the contexts that are left those that share most words with the case's own are taken:
records of the same kind, with the same names of fields.

In a large log neighbouring cases are held against the same contexts where these are about as alike as any: a model runs
what their prompts begin with once.

No recogniser knows that "Marketing" is a value. A word that some of the controls say and others do not is no form:
those that say it are no controls for it (`words_of_some`).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Final, overload
from zlib import crc32

import numpy as np
import numpy.typing as npt

from leakmeter.core.case import Case, Document
from leakmeter.core.item import FEW_CASES
from leakmeter.overriding import override
from leakmeter.text import matching
from leakmeter.text.entities import values
from leakmeter.text.entities.packs import pack
from leakmeter.text.escapes import as_meant
from leakmeter.text.kinship import Groups, Kin, Kinship
from leakmeter.text.turns import SEPARATOR

SEED: Final = 0
_LOOKED_AT: Final = 48
"""Other cases of which the controls of a case are chosen."""
_GROUPS: Final = 8
"""Tenants, owners and conversations that these are of at least, where the log has so many; else more cases are looked
at."""
_PHRASE: Final = 4
"""Words in a row that are no coincidence."""
_LEAST_SHARE: Final = 0.25
"""Of the length of a case's own context that a control has to have, or `_LEAST_CHARACTERS`."""
_LEAST_CHARACTERS: Final = 200
_NEIGHBOURS: Final = 32
"""Cases in a row of a large log that may be held against the same contexts."""
_HELD: Final = 2 * (_LOOKED_AT + _NEIGHBOURS)
"""Contexts whose words are held."""
_PREFERRED: Final = 1.5
"""How much more alike another context has to be than one that a neighbour is held against."""
_LAST: Final = 6
"""Contexts that neighbours were held against last: those are preferred."""

_Hashes = npt.NDArray[np.uint32]
"""Distinct hashes of words or of phrases, ascending: the words of thousands of contexts would fill the memory."""


@dataclass(frozen=True)
class _Context:
    """What is asked of a case's context, found once."""

    documents: tuple[Document, ...]

    @cached_property
    def hashed(self) -> list[tuple[_Hashes, _Hashes]]:
        """Words and phrases of each document."""
        return [_hashed(document.text) for document in self.documents]

    @cached_property
    def words(self) -> _Hashes:
        return _union(words for words, _ in self.hashed)

    @cached_property
    def phrases(self) -> _Hashes:
        return _union(phrases for _, phrases in self.hashed)

    @property
    def text(self) -> str:
        return SEPARATOR.join(document.text for document in self.documents)


def _hashed(text: str) -> tuple[_Hashes, _Hashes]:
    words = [word for word, _, _ in matching.words(text)]
    phrases = (" ".join(words[i : i + _PHRASE]) for i in range(len(words) - _PHRASE + 1))
    return _hashes(words), _hashes(phrases)


def _hashes(texts: Iterable[str]) -> _Hashes:
    return np.unique(np.fromiter(map(word_hash, texts), dtype=np.uint32))


def _union(parts: Iterable[_Hashes]) -> _Hashes:
    return np.unique(np.concatenate([np.empty(0, dtype=np.uint32), *parts]))


def _has(hashes: _Hashes, sought: _Hashes) -> npt.NDArray[np.bool_]:
    return np.isin(sought, hashes, assume_unique=True)


class WithControls(Sequence[Case]):
    """The cases, each with at most n controls; fewer where the others share too much with its answer, or where few are
    of another tenant, person and conversation.

    They are chosen when a case is asked for, after those of the neighbours before it. Of each case it is kept which
    they are, and texts are put together again: those of a large log would fill the memory.
    """

    def __init__(self, cases: Sequence[Case], n: int, *, region: str, packs: Sequence[str] = ()) -> None:
        self._cases, self._n, self._region, self._packs = cases, n, region, packs
        self._n_neighbours = _NEIGHBOURS if len(cases) > FEW_CASES else 1
        self._others: dict[int, _Others] = {}
        self._chosen: dict[int, list[tuple[_Chosen, ...]]] = {}
        """Of neighbours, by the number of the first, as far as one was asked for."""
        self._contexts = _Contexts(cases)
        self._kin = [Kin.of_case(case, case.context_documents) for case in cases]
        self._groups = Groups.of_log(self._kin)

    @override
    def __len__(self) -> int:
        return len(self._cases)

    @overload
    def __getitem__(self, at: int) -> Case: ...

    @overload
    def __getitem__(self, at: slice) -> list[Case]: ...

    @override
    def __getitem__(self, at: int | slice) -> Case | list[Case]:
        if isinstance(at, slice):
            return [self._at(number) for number in range(*at.indices(len(self)))]
        return self._at(range(len(self))[at])

    def _at(self, number: int) -> Case:
        first = number - number % self._n_neighbours
        chosen = self._chosen.setdefault(first, [])
        if number - first >= len(chosen):
            others = self._others.pop(first, None) or _Others.drawn(first, self._cases, self._contexts, self._groups)
            given = self._cases, self._contexts, self._kin, others, self._n, self._region, self._packs
            chosen += [_controls(missing, *given) for missing in range(first + len(chosen), number + 1)]
            if len(chosen) < self._n_neighbours:
                self._others[first] = others
        documents = tuple(one.document(self._cases) for one in chosen[number - first])
        return replace(self._cases[number], control_contexts=documents)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A control: documents of another case."""

    number: int
    kept: tuple[int, ...]
    """Which of that case's documents."""

    def document(self, cases: Sequence[Case]) -> Document:
        case = cases[self.number]
        documents = case.context_documents
        return Document(case.id, SEPARATOR.join(documents[at].text for at in self.kept))


class _Contexts:
    """Contexts of cases by their numbers. As many are held as are asked for about some neighbours, so that words of a
    whole log are not."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._held: OrderedDict[int, _Context] = OrderedDict()

    def __getitem__(self, number: int) -> _Context:
        if number not in self._held:
            self._held[number] = _Context(self._cases[number].context_documents)
            if len(self._held) > _HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(number)
        return self._held[number]


@dataclass(frozen=True)
class _Others:
    """Cases of which the controls of some neighbours are chosen."""

    numbers: tuple[int, ...]
    boilerplate: _Hashes
    """Phrases that most of them have."""
    taken: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST))
    """Ids of those that neighbours were held against last."""

    @classmethod
    def drawn(cls, first: int, cases: Sequence[Case], contexts: _Contexts, groups: Sequence[Groups]) -> _Others:
        """For the neighbours from the first on."""
        name = f"controls\0{SEED}\0{first}\0{cases[first].id}"
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        order = np.random.default_rng(int.from_bytes(digest[:8])).permutation(len(cases))
        order = order[order != first]
        others: list[int] = order[:_LOOKED_AT].tolist()
        phrases, counts = np.unique(
            np.concatenate([np.empty(0, dtype=np.uint32), *(contexts[other].phrases for other in others)]),
            return_counts=True,
        )
        boilerplate = phrases[2 * counts > len(others)]
        for one in groups if others else ():
            others += one.added(others, order, _GROUPS)
        return cls(tuple(others), boilerplate)


def _controls(
    number: int,
    cases: Sequence[Case],
    contexts: _Contexts,
    kin: Sequence[Kin],
    others: _Others,
    n: int,
    region: str,
    packs: Sequence[str],
) -> tuple[_Chosen, ...]:
    case, own = cases[number], contexts[number]
    said = np.setdiff1d(own.phrases, others.boilerplate, assume_unique=True)
    known: list[_Hashes] = []
    if case.response is not None:
        said = said[_has(_hashed(case.response)[1], said)]
        recognised = pack.places(own.text, packs) if packs else ()
        found = values.find(case.response, own.text, case.query, region=region, recognised=recognised)
        known = [_hashed(as_meant(case.response, value.start, value.end))[0] for value in found]
    usable: list[tuple[Kinship, float, str, _Chosen]] = []
    least = max(min(_LEAST_SHARE * len(own.text), _LEAST_CHARACTERS), 1)
    for other in others.numbers:
        if other == number:
            continue
        kept = _left_of(contexts[other], own, said, known)
        text = SEPARATOR.join(contexts[other].documents[at].text for at in kept)
        if len(text) >= least:
            # Less than half as long, it can say less; a longer one is cut.
            likeness = _likeness(own, contexts[other]) * min(1.0, 2 * len(text) / max(len(own.text), 1))
            likeness *= _PREFERRED if cases[other].id in others.taken else 1.0
            is_all = len(kept) == len(contexts[other].documents)
            documents = [contexts[other].documents[at] for at in kept]
            kinship = kin[number].kinship(kin[other] if is_all else Kin.of_case(cases[other], documents))
            usable.append((kinship, -likeness, text, _Chosen(other, kept)))
    usable.sort(key=lambda one: one[:2])
    chosen: dict[str, tuple[str, _Chosen]] = {}
    # What one control raises counts against a disclosure, whatever the others do: one of kin is none beside others.
    for text, control in ((text, control) for kinship, _, text, control in usable if kinship == usable[0][0]):
        if text not in {taken for taken, _ in chosen.values()}:
            chosen.setdefault(cases[control.number].id, (text, control))
    names = list(chosen)[:n]
    others.taken.extend(names)
    return tuple(chosen[name][1] for name in names)


def words_of_some(controls: Sequence[Document], response: str | None) -> dict[str, list[int]]:
    """Of each control, by its name, the hashes of the words that it says and another one does not; only of those that
    the response says, where there is one."""
    said = {control.name: _words_hashed(control.text) for control in controls}
    if not said:
        return {}
    of_all = reduce(partial(np.intersect1d, assume_unique=True), said.values())
    of_some = {name: np.setdiff1d(words, of_all, assume_unique=True) for name, words in said.items()}
    if response is not None:
        asked = _words_hashed(response)
        of_some = {name: words[_has(asked, words)] for name, words in of_some.items()}
    return {name: words.tolist() for name, words in of_some.items() if len(words)}


def word_hash(word: str) -> int:
    """Of a word as `matching.words` folds it. The same in every process, unlike Python's own hash; two words of one
    hash would cost no more than a control."""
    return crc32(word.encode("utf-8", "surrogatepass"))


def _words_hashed(text: str) -> _Hashes:
    return _hashes(word for word, _, _ in matching.words(text))


def _likeness(one: _Context, other: _Context) -> float:
    """Share of words of either that both have."""
    n_both = int(_has(one.words, other.words).sum())
    return n_both / max(len(one.words) + len(other.words) - n_both, 1)


def _left_of(context: _Context, own: _Context, said: _Hashes, known: Sequence[_Hashes]) -> tuple[int, ...]:
    """Which documents of a context are not the case's own, and have nothing that its answer says."""
    own_documents = [hashed for hashed in own.hashed if len(hashed[0])]
    return tuple(
        at
        for at, (words, phrases) in enumerate(context.hashed)
        if not any(map(partial(_is_same, (words, phrases)), own_documents))
        and not _has(phrases, said).any()
        and not any(_has(words, value).all() for value in known if len(value))
    )


def _is_same(one: tuple[_Hashes, _Hashes], other: tuple[_Hashes, _Hashes]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def shortened(text: str, n_characters: int) -> str:
    """A text cut to at most so many characters, behind a word where it has any."""
    if len(text) <= n_characters:
        return text
    words = text[: n_characters + 1].rsplit(maxsplit=1)
    # Not all scripts part words.
    return words[0] if len(words) > 1 else text[:n_characters]
