"""Decoding that bounds what each token tells of the context, with a receipt for each token."""

from leakmeter.core.instrument import Instrument

INSTRUMENT = Instrument(
    "decode",
    __name__,
    measure_at="measure:Decode",
    result_at="result:DecodeResult",
    example_at="example:example",
    study_at="study:KIND",
)
