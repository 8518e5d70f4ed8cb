"""ICL influence: leakage from in-context examples."""

from leakmeter.core.registry import Command, Instrument

INSTRUMENT = Instrument(
    "icl",
    __name__,
    measure_at="measure:Icl",
    result_at="result:IclResult",
    example_at="prompts:example",
    functions=("command:icl", "command:icl_responses", "command:icl_select"),
    study_at="study:KIND",
    commands=(
        Command(
            "icl",
            "command:app",
            "Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.",
        ),
    ),
)
