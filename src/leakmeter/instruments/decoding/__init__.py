"""Decoding that bounds what each token tells of the context, with a ledger of what each told."""

from leakmeter.core.instrument import Command, Instrument

INSTRUMENT = Instrument(
    "decode",
    __name__,
    measure_at="measure:Decode",
    result_at="result:DecodeResult",
    example_at="example:example",
    functions=("api:decode", "api:frontier"),
    study_at="study:KIND",
    commands=(
        Command(
            "decode",
            "command:decode",
            "Draw a response from what a model says with a context and without it, and tell in nats what each token "
            "leaks.",
        ),
        Command(
            "frontier",
            "frontier_command:frontier",
            "Sweep λ or ε over your own cases: what each setting leaks, what it is good for, and which to ship.",
        ),
    ),
)
