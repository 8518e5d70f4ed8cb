"""What the doctor found, as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from leakmeter.core.plain import to_plain
from leakmeter.core.record import JsonObject, Record
from leakmeter.overriding import override
from leakmeter.results.result import AnyResult

if TYPE_CHECKING:
    from leakmeter.report.blocks import Report

Status = Literal["passed", "note", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck(Record):
    """One check."""

    number: int
    """From 1, in the order of the documentation."""
    name: str
    """What is checked."""
    status: Status
    """'note' where numbers are right and something about them is to be known; 'failed' where they would be wrong."""
    fault: str | None
    """Name of the fault of the server; None where there is none."""
    found: str
    """What was found, in words."""
    advice: str
    """What to do about it; empty where there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorNoise(Record):
    """How far a log-probability of a token moves when nothing but the circumstances change, nats."""

    repeat_nats: float
    """Asked again at once."""
    order_nats: float
    """Asked in another order."""
    batch_nats: float
    """Asked together with others, against alone."""
    cache_nats: float | None
    """After states of a prefix were kept, against without; None where measurements do not read it, or neither can be
    asked for."""
    split_nats: float | None
    """Scored alone behind the tokens before it, against together with them."""
    floor_nats: float
    """Largest difference between any two of these ways."""
    response_floor_nats: float
    """Largest such difference of a whole response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorAgainst(Record):
    """Differences to a model in this process."""

    model: str
    """The other model, as it was given."""
    n_tokens: int
    """Tokens whose log-probabilities were compared."""
    max_token_nats: float
    """Largest difference of a token's log-probability."""
    mean_token_nats: float
    """Mean absolute difference."""
    max_influence_nats: float
    """Largest difference of a piece's leave-one-out influence on a response."""
    largest_influence_nats: float
    """Largest influence of a piece, by the model that is examined; what the difference is to be compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorSpeed(Record):
    """How fast the model is."""

    tokens_per_second: float
    """Tokens of all sequences by the seconds they took; what is read from a cache counts too."""
    seconds_per_1000_cases: float
    """Forecast for leave-one-out of 8 pieces: 10 sequences of 292 tokens a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorResult(AnyResult, Record):
    """Whether a model's numbers are what measurements take them for."""

    schema: ClassVar[str] = "doctor-1"
    # It holds no text but our own.
    is_public: ClassVar[bool] = True

    model: str
    """The model, as it was given."""
    dialect: str
    """Of the server; 'in process' where there is none."""
    served_model: str | None
    """Name by which the server serves it."""
    revision: str | None
    """Of the weights, as the server or the loader tells."""
    server_version: str | None
    """As the server tells it; None where it does not."""
    window: int | None
    """Most tokens of prompt and response."""
    settings: dict[str, str] | None
    """Of a model in this process: precision, attention, threads, device; None behind a server."""
    fingerprint: str | None
    """Hash of the model's rounded log-probabilities of fixed texts; None where it could not be taken."""
    is_sound: bool
    """Whether no check failed."""
    verdict: str
    """What the checks say together."""
    checks: tuple[DoctorCheck, ...]
    """In the order of the documentation."""
    noise: DoctorNoise | None
    """How far other ways to ask move a number; None where it was not measured."""
    uses_prefix_cache: bool | None
    """None where it cannot be seen."""
    against: DoctorAgainst | None
    """How far another model's numbers are from these; None where there is none."""
    speed: DoctorSpeed | None
    """How fast the model is; None where it was not measured."""

    @override
    def to_dict(self) -> JsonObject:
        """As `Record.to_dict`, with the name and version of the schema in front."""
        return {"schema": self.schema, **to_plain(self)}

    @override
    @classmethod
    def _said_of(cls, results: Sequence[Any]) -> Report:
        from leakmeter.products.doctor.report import report

        return report(results)
