"""Fisher susceptibility: how far contexts would move the answer, from gradients."""

from leakmeter.core.registry import Instrument

INSTRUMENT = Instrument(
    "fisher",
    __name__,
    measure_at="measure:Fisher",
    result_at="result:FisherResult",
    example_at=".prompts:example",
    study_at="study:KIND",
)
