"""What every measure is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Protocol, runtime_checkable

from leakmeter.core.item import Item
from leakmeter.core.measurement import Reading
from leakmeter.core.request import Trial


@runtime_checkable
class Measure(Protocol):
    """A frozen dataclass of parameters, with a trial."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def samples(self) -> int:
        """Responses it draws for a case that has none."""

    @property
    def max_new_tokens(self) -> int:
        """Most tokens it may add to a prompt whose case has no response."""

    def trial(self, item: Item) -> Trial[list[Reading]]:
        """Measure one item: yield requests, be sent their scores, return readings.

        A trial is a function of the item, the scores and the measure's own parameters, seed included; nothing else.
        """


@runtime_checkable
class ChoosingMeasure(Measure, Protocol):
    """A measure that goes on, or not, by the scores it is sent: what it takes is only known from above."""

    def longest_trial(self, item: Item) -> Trial[Any]:
        """Ask for at least as much as `trial` would of this item, whatever it was sent; its answers mean nothing."""


def params_of(measure: Measure) -> dict[str, Any]:
    """The parameters that a run is told by, given and defaulted.

    Of a measure that promises something they say of the nonce that there is none; of others they say nothing, as in
    runs that were made before there were any.
    """
    told = asdict(measure)
    if told.get("nonce", 0) is None and told.get("epsilon", 0) is None:
        del told["nonce"]
    return told
