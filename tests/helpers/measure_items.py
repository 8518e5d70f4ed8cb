"""Items built by hand, and influence by direct enumeration of the toy model: Eq. 6 written out, nothing shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from helpers.masked_prompts import masking
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem, Span
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.influence.measure import Influence

Series = dict[tuple[int, str, str], np.ndarray]


def make_item(
    prompt: Prompt,
    response: Sequence[int] | None,
    *,
    masks: bool = False,
    groups: Mapping[str, tuple[str, ...]] | None = None,
    placebo: Sequence[int] = (),
    stop_ids: Sequence[int] = (),
    id_: str = "hand",
) -> ContextItem:
    """An item whose spans are the prompt's context pieces, then the groups, then all of them as 'all'."""
    names = prompt.names()
    members = {**{name: (name,) for name in names}, **(groups or {}), "all": names}
    remove = partial(masking, prompt) if masks else prompt.without
    placebos = (prompt.with_inserted(1, Piece("placebo", "context", tuple(placebo))),) if placebo else ()
    sizes = {piece.name: len(piece.ids) for piece in prompt.pieces}
    return ContextItem(
        id=id_, prompt=prompt,
        spans=tuple(Span(name, "unit", ((0, 1),), p, None, sum(sizes[n] for n in p)) for name, p in members.items()),
        cuts={name: prompt.blank() if set(p) == set(names) else remove(*p) for name, p in members.items()},
        alone={name: prompt.only(*pieces) for name, pieces in members.items()}, blank=prompt.blank(),
        placebos=placebos, placebo_alone=placebos[0].only("placebo") if placebos else None,
        response=None if response is None else tuple(response), stop_ids=frozenset(stop_ids),
    )  # fmt: skip


def readings_of(backend: object, measure: Influence, item: ContextItem) -> Series:
    """(sample, statistic, piece) to values."""
    (measurements,), _ = drive(backend, [measure.trial(item)])
    series = {(r.sample, r.statistic, r.piece): r.values for r in measurements}
    assert len(series) == len(measurements)
    assert {r.item for r in measurements} == {item.id}
    return series


class ByHand:
    """log p̄_{λ,T} of a response by enumeration, from lists of (id, position)."""

    def __init__(self, toy: Toy, prompt: Prompt, response: Sequence[int], weight: float, temperature: float) -> None:
        self.toy, self.pieces, self.response = toy, prompt.pieces, response
        self.weight, self.temperature = weight, temperature
        context = {p.name for p in prompt.pieces if p.role == "context"}
        self.bare = self._logits(gone=context, closes=True)

    def _logits(self, gone: set[str], closes: bool, extra: Sequence[int] = ()) -> np.ndarray:
        """(response, vocab) of the prompt without some pieces, and with others put in at position index 1."""
        ids, positions, at = list[int](), list[int](), 0
        for index, piece in enumerate(self.pieces):
            for token in extra if index == 1 else ():
                ids.append(token)
                positions.append(at)
                at += 1
            for token in piece.ids:
                if piece.name not in gone:
                    ids.append(token)
                    positions.append(at)
                at += piece.name not in gone or not closes
        rows = []
        for token in self.response:
            rows.append(self.toy.logits(np.asarray(ids), np.asarray(positions)))
            ids.append(token)
            positions.append(at)
            at += 1
        return np.stack(rows)

    def log_probs(self, gone: set[str] = frozenset(), closes: bool = True, extra: Sequence[int] = ()) -> np.ndarray:
        """log softmax((λ z + (1 − λ) z∅) / T) of each response token."""
        mixed = self.weight * self._logits(gone, closes, extra) + (1 - self.weight) * self.bare
        return self._normalised(mixed)

    def bare_log_probs(self) -> np.ndarray:
        """log softmax(z∅ / T) of each response token."""
        return self._normalised(self.bare)

    def _normalised(self, logits: np.ndarray) -> np.ndarray:
        weights = np.exp(logits / self.temperature)
        probabilities = weights / weights.sum(axis=-1, keepdims=True)
        return np.log(probabilities[np.arange(len(self.response)), list(self.response)])
