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
    """Number of the check, from 1, in the order of the documentation."""
    name: str
    """Name of the check."""
    status: Status
    """Outcome of the check: 'passed'; 'note' where numbers are right and something about them is to be known; 'failed'
    where they would be wrong; 'skipped'."""
    fault: str | None
    """Name of the fault of the server; None where there is none."""
    found: str
    """Finding of the check, in words."""
    advice: str
    """Advice on what to do about the finding; empty where there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorNoise(Record):
    """How far a log-probability of a token moves when nothing but the circumstances change, nats."""

    repeat_nats: float
    """Largest move of a token's log-probability when the same request is asked again at once, nats."""
    order_nats: float
    """Largest move of a token's log-probability when requests are asked in another order, nats."""
    batch_nats: float
    """Largest move of a token's log-probability when it is asked together with others instead of alone, nats."""
    cache_nats: float | None
    """Largest move of a token's log-probability when kept states of a prefix are used instead of none, nats; None where
    measurements do not read them, or a request cannot choose."""
    split_nats: float | None
    """Largest move of a token's log-probability when the token is scored alone behind the tokens before it instead of
    together with them, nats; None where no token was scored alone."""
    floor_nats: float
    """Noise floor of a token's log-probability, nats: largest difference between any two ways to ask for it."""
    response_floor_nats: float
    """Noise floor of a whole response's log-probability, nats: largest difference between any two ways to ask for it;
    at least `floor_nats`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorAgainst(Record):
    """Differences to a model in this process."""

    model: str
    """Name of the other model, as it was given."""
    n_tokens: int
    """Number of tokens whose log-probabilities were compared."""
    max_token_nats: float
    """Largest absolute difference of a token's log-probability, nats."""
    mean_token_nats: float
    """Mean absolute difference of a token's log-probability, nats."""
    max_influence_nats: float
    """Largest absolute difference of a piece's leave-one-out influence on a response, nats."""
    largest_influence_nats: float
    """Largest leave-one-out influence of a piece by the examined model, nats: the difference is to be compared with
    it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorSpeed(Record):
    """How fast the model is."""

    tokens_per_second: float
    """Number of tokens of all sequences over the seconds they took; tokens read from a cache count too."""
    seconds_per_1000_cases: float
    """Forecast of the seconds that leave-one-out of 8 pieces takes for 1,000 cases: 10 sequences of 292 tokens a
    case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorResult(AnyResult, Record):
    """Whether a model's numbers are what measurements take them for."""

    schema: ClassVar[str] = "doctor-1"
    # It holds no text but our own.
    is_public: ClassVar[bool] = True

    model: str
    """Name of the model, as it was given."""
    dialect: str
    """Dialect of the server; 'in process' where there is none."""
    served_model: str | None
    """Name by which the server serves the model; of a model in this process, its own name. None where the model could
    not be examined."""
    revision: str | None
    """Revision of the weights, or a hash or path, as the server or the loader states it; None where neither does."""
    server_version: str | None
    """Version of the server, as it states it; None where it does not."""
    window: int | None
    """Largest number of tokens of prompt and response together; None where it is not known."""
    settings: dict[str, str] | None
    """Settings of a model in this process: precision, attention, threads, device; None behind a server."""
    fingerprint: str | None
    """Hash of the model's rounded log-probabilities of fixed texts; None where it could not be taken."""
    is_sound: bool
    """Whether no check failed."""
    verdict: str
    """Conclusion of all checks together, in words."""
    checks: tuple[DoctorCheck, ...]
    """Checks, in the order of the documentation."""
    noise: DoctorNoise | None
    """Noise of a token's log-probability under other ways to ask; None where it was not measured."""
    uses_prefix_cache: bool | None
    """Whether the states of a common prefix are kept and used again; None where it cannot be seen."""
    against: DoctorAgainst | None
    """Differences to another model in this process; None where none was compared."""
    speed: DoctorSpeed | None
    """Speed of the model; None where it was not measured."""

    @override
    def to_dict(self) -> JsonObject:
        """As `Record.to_dict`, with the name and version of the schema in front."""
        return {"schema": self.schema, **to_plain(self)}

    @override
    @classmethod
    def _said_of(cls, results: Sequence[Any]) -> Report:
        from leakmeter.products.doctor.report import report

        return report(results)
