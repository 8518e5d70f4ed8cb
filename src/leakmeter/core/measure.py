"""What a measure is, what its numbers mean, and the blocks of numbers that it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import Field, asdict, dataclass
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
import numpy.typing as npt

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

MOST: Final = 2**53
"""Above any number of tokens or characters, and the last up to which every whole number is a float."""

Per = Literal["response", "piece", "text", "width", "sigma"]
"""What a series is of: a response, or the case as a whole; a piece of its context; another text, such as the context of
another case, by its name; a width of beams; a choice of Σ."""
Over = Literal["token", "number", "label", "context", "value", "name", "answer", "order"]
"""What a series goes over: the tokens of a response; a single number; labels, contexts, values (a true one and its
decoys), names of people, answers (one number a template) or orders of a divergence."""


class Statistic(str):
    """Name of what a measurement means, as runs keep it, and all that is the same of its measurements.

    It is declared once, in the `Statistics` of its measure; everything else names it by that attribute. From the
    declaration follow what is checked where a run is read, and what `leakmeter runs query` says of it.
    """

    unit: str
    about: str
    """What it means, with its formula."""
    per: Per
    over: Over
    optional: bool
    """Whether a case may lack it."""
    first_only: bool
    """Whether only the first response has it."""
    below: int | None
    """Of whole numbers from 0, what each is below; None of other numbers."""
    undefined: bool
    """Whether a number may be missing, as NaN."""
    family: bool
    """Whether it is what names of several statistics begin with; see `member`."""

    def __new__(
        cls,
        name: str,
        unit: str = "",
        about: str = "",
        *,
        per: Per = "response",
        over: Over = "token",
        optional: bool = False,
        first_only: bool = False,
        below: int | None = None,
        undefined: bool = False,
        family: bool = False,
    ) -> Self:
        self = super().__new__(cls, name)
        self.unit, self.about, self.per, self.over, self.optional = unit, about, per, over, optional
        self.first_only, self.below, self.undefined = first_only, below, undefined
        self.family = family
        return self

    def but(self, **changes: Any) -> Self:
        """The same with some things said otherwise, such as noise of one number instead of each token's."""
        return type(self)(**{"name": str(self), **self.__dict__, **changes})

    def named(self, name: str, about: str) -> Self:
        """Another statistic of the same kind."""
        return self.but(name=name, about=about)

    def member(self, name: str) -> Self:
        """A statistic of the family: its name is the family's with this behind."""
        return self.but(name=f"{self}{name}", family=False)

    def of(self, item: str, values: npt.ArrayLike, piece: str = "", sample: int = 0) -> Measurement:
        """A measurement of it: `values` is a series, or its only number."""
        series = np.atleast_1d(np.asarray(values, dtype=np.float64))
        # As text alone: a measurement travels between processes, and its meaning does not change.
        return Measurement(item, sample, piece, str(self), self.unit, series)


class Statistics:
    """The statistics of a measure, an attribute each. A measure that has some of another one names the same
    attributes."""

    are_all: ClassVar[bool] = True
    """Whether a run that has others is refused. Where it is read, results have to say that it is read in part."""

    @classmethod
    def all(cls) -> Iterator[Statistic]:
        """In the order of their declaration, those of a base first."""
        own = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        yield from (value for value in own.values() if isinstance(value, Statistic))


RESPONSE: Final = Statistic("token", TOKEN_ID, "token of the response", below=MOST)
LOG_PROB: Final = Statistic("log_prob", NATS, "log p̄(y_t | D): with all of the context")
BARE_LOG_PROB: Final = Statistic("bare_log_prob", NATS, "log p(y_t | ∅): with no context")
WHOLE: Final = Statistic("whole", NATS, "log p̄(y_t | D) − log p̄(y_t | ∅): of the whole context")
LOSS: Final = Statistic(
    "loss", NATS, "|log p̄(y_t | D) − log p̄(y_t | ∅)|, whose sum is the influence of the whole context", undefined=True
)
WITHOUT_THIS: Final = Statistic("without_this", NATS, "log p̄(y_t | D) − log p̄(y_t | D∖D_i) of a piece D_i", per="piece")
SWAPPED: Final = Statistic(
    "swapped",
    NATS,
    "log p̄(y_t | D) − log p̄(y_t | D with a surrogate for D_i), of a piece D_i of personal data",
    per="piece",
    optional=True,
    first_only=True,
)
NOISE: Final = Statistic(
    "noise",
    NATS,
    "what neighbours in the computation do to a token, or to a number as a whole",
    optional=True,
    first_only=True,
    # Where the context rules a token out, both of what is contrasted are infinite.
    undefined=True,
)


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
    statistics: ClassVar[type[Statistics] | None] = None
    """What its numbers mean; None of a measure that does not say so, whose numbers are not checked when a run is
    read."""
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

    @property
    def noise_seed(self) -> int:
        """Seed of the draw of the cases that measure noise."""
        return 0

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
