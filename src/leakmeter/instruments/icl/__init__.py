"""ICL influence: leakage from in-context examples."""

from leakmeter.core.instrument import Instrument

INSTRUMENT = Instrument(
    "icl",
    __name__,
    measure_at="measure:Icl",
    result_at="result:IclResult",
    example_at="example:example",
    study_at="study:KIND",
)
