"""Context influence: the influence of each piece of a context on a response."""

from leakmeter.core.registry import Command, Instrument

INSTRUMENT = Instrument(
    "influence",
    __name__,
    measure_at="measure:Influence",
    result_at="result:InfluenceResult",
    example_at="..text.example:example",
    functions=("command:influence",),
    study_at="..studies.contexts:KIND",
    commands=(
        Command(
            "influence",
            "command:influence_command",
            "Measure, in nats, the influence of each piece of a context on a response.",
        ),
    ),
)
