"""Private generation from exemplars, and its audit."""

from leakmeter.core.instrument import Instrument

INSTRUMENT = Instrument(
    "private_generation",
    __name__,
    measure_at="measure:PrivateGeneration",
    result_at="result:PrivateGenerationResult",
    example_at="example:example",
    study_at="study:KIND",
)
