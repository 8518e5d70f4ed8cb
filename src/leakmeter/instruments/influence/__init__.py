"""Context influence: the influence of each piece of a context on a response."""

from leakmeter.core.instrument import Command, Instrument

INSTRUMENT = Instrument(
    "influence",
    __name__,
    measure_at="measure:Influence",
    result_at="result:InfluenceResult",
    example_at="example:example",
    functions=("api:influence",),
    study_at="study:KIND",
    commands=(
        Command(
            "influence",
            "command:influence",
            "Measure, in nats, the influence of each piece of a context on a response.",
        ),
    ),
)
