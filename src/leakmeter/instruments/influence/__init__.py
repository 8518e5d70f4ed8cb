"""Context influence: what a response owes to each piece of its context."""

from leakmeter.core.instrument import Instrument

INSTRUMENT = Instrument(
    "influence",
    __name__,
    measure_at="measure:Influence",
    result_at="result:InfluenceResult",
    example_at="example:example",
    study_at="study:KIND",
)
