"""Decoding that bounds what each token tells of the context, with a ledger of what each told."""

from leakmeter.core.registry import Command, Instrument

INSTRUMENT = Instrument(
    "decode",
    __name__,
    measure_at="measure:Decode",
    result_at="result:DecodeResult",
    example_at="..text.example:example",
    public_report_at="report:public_report",
    functions=("command:decode", "command:frontier"),
    study_at="..studies.contexts:KIND",
    commands=(
        Command(
            "decode",
            "command:app",
            "Draw a response from a mixture of the model with and without a context, and measure what "
            "each token leaks.",
            group="Act",
        ),
    ),
)
