"""PII probing: does a model know people's data?"""

from leakmeter.core.registry import Command, Instrument

INSTRUMENT = Instrument(
    "pii",
    __name__,
    measure_at="measure:Pii",
    result_at="result:PiiResult",
    example_at="prompts:example",
    functions=("command:pii", "command:pii_tune", "command:pii_insert", "command:pii_check"),
    study_at="study:KIND",
    commands=(
        Command(
            "pii",
            "command:app",
            "Measure whether a model knows people's telephone numbers, e-mail and postal addresses.",
        ),
    ),
)
