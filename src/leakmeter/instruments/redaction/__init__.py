"""Redaction: which pieces to cut so that a response leaks little of what is left."""

from leakmeter.core.instrument import Instrument

INSTRUMENT = Instrument(
    "redact_plan",
    __name__,
    measure_at="measure:RedactPlan",
    result_at="result:RedactPlanResult",
    example_at="example:example",
    study_at="study:KIND",
)
