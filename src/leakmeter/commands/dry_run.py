"""`--dry-run`: what a command would take, predicted without the model's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakmeter.commands import output
from leakmeter.commands.given import LoadedCases
from leakmeter.commands.options import RunOptions
from leakmeter.core.measure import Measure

if TYPE_CHECKING:
    from leakmeter.core.instrument import Settings

_CASES_AT_MOST = 20


def predict_cases(
    given: LoadedCases[Any], settings: Settings, measure: Measure, run: RunOptions, *, group_size: int = 1
) -> None:
    """Print what measuring these cases would take; nothing is measured and nothing is written.

    Args:
        given: what would be measured.
        settings: how prompts are made.
        measure: what would measure.
        run: with which model, and whether to print JSON.
        group_size: cases that would be scored together.

    Raises:
        LeakmeterError: something cannot be used as given, or the model is not on this machine.
    """
    from leakmeter.runs.prediction import predicted_cases

    predictor = run.load_predictor()
    prepared, kept = given.prepared(predictor.backend, settings, measure)
    told = predicted_cases(predictor, measure, prepared, group_size=group_size)
    if run.json:
        output.print_json(told)
    else:
        _print(told)
    if kept.problems:
        output.tell(output.left_out(kept.problems))


def _print(told: Mapping[str, Any]) -> None:
    from rich.text import Text

    console = output.console()
    console.print(Text(f"{told['model']} ({told['dtype']}, {told['device']}); nothing was run", style="bold"))
    console.print(_totals(told))
    if 1 < len(told["cases"]) <= _CASES_AT_MOST:
        console.print()
        console.print(_by_case(told["cases"]))
    if told["at_most"]:
        console.print("At most: what is still to be drawn or chosen is counted with the most that it may take.")


def _totals(told: Mapping[str, Any]) -> Any:
    from rich.table import Table

    from leakmeter.report.words import about_bytes, about_seconds, saved

    run = told["tree_tokens"]
    most = "at most " if told["at_most"] else ""
    rows = [
        ("cases", f"{len(told['cases']):,}", ""),
        ("prompts scored", f"{most}{told['requests']:,}", ""),
        ("tokens to run", f"{most}{run:,}", ""),
        *(
            (f"a pass for each {words}", f"{told[name]:,}", f"{saved(run, told[name])} saved")
            for words, name in (
                ("prompt", "full_pass_tokens"),
                ("prompt and token", "full_pass_per_token_tokens"),
            )
        ),
    ]
    memory = told["memory_bytes"]
    if memory is not None:
        parts = ", ".join(f"{name} {about_bytes(memory[name])}" for name in ("weights", "states", "logits"))
        rows.append(("memory, libraries apart", f"about {about_bytes(sum(memory.values()))}", parts))
    time = "not predicted" if told["seconds"] is None else f"{most}{about_seconds(told['seconds'])}"
    rows.append(("time, once loaded", time, ""))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def _by_case(cases: Sequence[Mapping[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    from leakmeter.report.shade import excerpt
    from leakmeter.report.words import about_seconds

    table = Table(box=None, pad_edge=False)
    table.add_column("case")
    for heading in ("prompts", "tokens", "time"):
        table.add_column(heading, justify="right")
    for case in cases:
        most = "≤ " if case["at_most"] else ""
        table.add_row(
            Text(excerpt(case["id"], 40)),
            f"{most}{case['requests']:,}",
            f"{most}{case['tree_tokens']:,}",
            "" if case["seconds"] is None else about_seconds(case["seconds"]),
        )
    return table
