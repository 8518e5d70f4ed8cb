"""ICL influence: leakage from in-context examples."""

from leakmeter.core.instrument import Command, Instrument

INSTRUMENT = Instrument(
    "icl",
    __name__,
    measure_at="measure:Icl",
    result_at="result:IclResult",
    example_at="example:example",
    functions=("api:icl",),
    study_at="study:KIND",
    commands=(
        Command(
            "icl",
            "command:icl",
            "Measure, in nats, how much the answer to a query owes to each exemplar that stands before it.",
        ),
        Command(
            "icl-plan",
            "selection_command:icl_plan",
            "Search for exemplars of which less shows: reorder, drop, replace or add some, one move at a time.",
        ),
    ),
)
