"""Context influence: what a response owes to each piece of its context."""

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
            "Measure, in nats, how much a response owes to each piece of its context.",
        ),
    ),
)
