"""Private generation from exemplars, and its audit."""

from leakmeter.core.registry import Command, Instrument

INSTRUMENT = Instrument(
    "private_generation",
    __name__,
    measure_at="measure:PrivateGeneration",
    result_at="result:PrivateGenerationResult",
    example_at="prompts:example",
    public_report_at="report:public_report",
    functions=("command:generate",),
    study_at="study:KIND",
    commands=(
        Command(
            "generate",
            "command:app",
            "Generate text from private exemplars and compare the measured privacy loss with the guarantee.",
        ),
    ),
)
