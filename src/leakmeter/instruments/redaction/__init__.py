"""Redaction: which pieces to cut so that what is left of the context has little influence on a response."""

from leakmeter.core.registry import Command, Instrument

INSTRUMENT = Instrument(
    "redact",
    __name__,
    measure_at="measure:Redaction",
    result_at="result:RedactionResult",
    example_at="..text.example:example",
    functions=("command:redact",),
    study_at="..studies.contexts:KIND",
    commands=(
        Command(
            "redact",
            "command:redact_command",
            "Find few pieces to cut from a context, so that the rest has little influence on the response.",
            group="Act",
        ),
    ),
)
