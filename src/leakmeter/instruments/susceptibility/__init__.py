"""Susceptibility: how far contexts move the answers to queries, by Monte Carlo."""

from leakmeter.core.registry import Command, Instrument

INSTRUMENT = Instrument(
    "susceptibility",
    __name__,
    measure_at="measure:Susceptibility",
    result_at="result:SusceptibilityResult",
    example_at="prompts:example",
    functions=("command:susceptibility", "command:fisher_susceptibility"),
    study_at="study:KIND",
    commands=(
        Command(
            "susceptibility",
            "command:susceptibility_command",
            "Measure, in nats, how far contexts move the answers to queries.",
        ),
    ),
)
