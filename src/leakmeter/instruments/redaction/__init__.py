"""Redaction: which pieces to cut so that a response leaks little of what is left."""

from leakmeter.core.instrument import Command, Instrument

INSTRUMENT = Instrument(
    "redact_plan",
    __name__,
    measure_at="measure:RedactPlan",
    result_at="result:RedactPlanResult",
    example_at="example:example",
    functions=("api:redact_plan",),
    study_at="study:KIND",
    commands=(
        Command(
            "redact-plan",
            "command:redact_plan",
            "Find few pieces of a context without which a response owes at most so many nats to what is left of it.",
        ),
    ),
)
