"""Redaction: which pieces to cut so that what is left of the context has little influence on a response."""

from leakmeter.core.instrument import Command, Instrument

INSTRUMENT = Instrument(
    "redact_plan",
    __name__,
    measure_at="measure:Redaction",
    result_at="result:RedactionResult",
    example_at="..text.example:example",
    functions=("command:redaction",),
    study_at="..studies.contexts:KIND",
    commands=(
        Command(
            "redact-plan",
            "command:redact_plan",
            "Find few pieces to cut from a context, so that the rest has little influence on the response.",
        ),
    ),
)
