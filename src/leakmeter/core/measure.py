from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass
from typing import Any, ClassVar

from leakmeter.core.needs import ItemNeeds
from leakmeter.core.record import JsonObject
from leakmeter.core.request import Trial
from leakmeter.stats.arrays import FloatArray

Texts = Mapping[str, Any]
"""What a run keeps of a case beside numbers, as JSON; see `engine.measure.texts_of`."""
Params = Mapping[str, Any]

NATS = "nats"
WEIGHT = "weight"
TOKEN_ID = "token id"
LABEL = "label number"
COUNT = "count"
NATS_PER_SQUARE = "nats per squared length"
"""Of a trace of the Fisher information about vectors: their length has no unit."""


NOISE = "noise"
"""Statistic of what neighbours in the computation do to each token of a response, or to a number as a whole."""

RESPONSE = "token"
"""Statistic of the measurement that holds the tokens of a response."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A block of numbers with one meaning and one unit."""

    item: str
    sample: int
    """Which response of the case, from 0."""
    piece: str
    """Name of the span it is about; empty where it is about the response as a whole."""
    statistic: str
    unit: str
    values: FloatArray
    """One value a response token, (response,), or a label, (label,)."""


class Measure(ABC):
    """A frozen dataclass of parameters, with a trial. It knows no model, no tokenizer and no file."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    unsaid: ClassVar[Params] = {}
    """Values of parameters that `record` leaves out: what earlier versions did, which had no such parameter."""

    @property
    def documents_first(self) -> bool:
        """Whether it looks for what matters, so that contexts of several documents are cut into these by default."""
        return False

    @property
    def levels(self) -> bool:
        """Whether paragraphs and documents that units stand in are measured too."""
        return False

    @property
    def samples(self) -> int:
        """Responses it draws for a case that has none."""
        return 1

    @property
    def max_new_tokens(self) -> int:
        """Most tokens it may add to a prompt whose case has no response."""
        return 0

    @property
    def controls(self) -> int:
        """Most contexts of other cases that each response is scored beside."""
        return 0

    @property
    def n_controls(self) -> int:
        """The same with all other parameters: what disclosures are held against, where these are looked for."""
        return self.controls

    @property
    def together(self) -> int:
        """Cases that are best scored together although their prompts have nothing in common."""
        return 1

    @property
    def parts(self) -> int:
        """Cases that a result is made of."""
        return 1

    def check(self, item: Any) -> None:  # noqa: B027 - most measures refuse nothing
        """Refuse an item that cannot be measured so, before anything is scored or written."""

    def needs(self, item: Any) -> ItemNeeds:
        """What measuring an item asks of a model, so that a model that cannot answer is refused before anything is
        asked or written. By default nothing is known: what cannot be answered is refused when it is asked."""
        return ItemNeeds()

    @abstractmethod
    def trial(self, item: Any) -> Trial[list[Measurement]]:
        """Measure one item: yield requests, be sent their scores, return measurements. A trial is a function of the
        item, the scores and the measure's own parameters, seed included; nothing else."""

    def record(self) -> JsonObject:
        return asdict(self)
