"""`--dry-run`: what a command would take, predicted without the model's weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from leakmeter.commands import output
from leakmeter.commands.options import RunOptions
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from leakmeter.core.loaded import Plan
    from leakmeter.engine.prediction import PredictedCase, PredictedCases, PredictedServed

_CASES_AT_MOST = 20


def predict_cases(plan: Plan, run: RunOptions) -> None:
    from leakmeter.engine.prediction import forecast

    prediction, kept = forecast(run.load_predictor(), plan, price_per_million=run.price_per_million)
    for note in kept.notes:
        output.tell(note)
    if prediction.served is None and run.price_per_million is not None:
        raise UsageError(f"'{run.model}' runs here, and has no price; leave out --price-per-million")
    if run.json:
        output.print_json(asdict(prediction))
    else:
        _print(prediction)
    if kept.problems:
        output.tell(output.left_out(kept.problems))


def _print(predicted: PredictedCases) -> None:
    from rich.text import Text

    console = output.console()
    how = "served" if predicted.served is not None else f"{predicted.dtype}, {predicted.device}"
    console.print(Text(f"{predicted.model} ({how}); nothing was run", style="bold"))
    console.print(_totals(predicted))
    if 1 < len(predicted.cases) <= _CASES_AT_MOST:
        console.print()
        console.print(_by_case(predicted.cases))
    if predicted.sampled_cases is not None:
        console.print(
            f"Estimated from {predicted.sampled_cases:,} of the cases and the lengths of the others, which were not "
            "examined; in brackets: 95 % ranges."
        )
    if predicted.at_most:
        console.print(
            "Upper limits: pieces and responses not yet drawn or chosen count with the most that they may take."
        )
    if predicted.without_search is not None:
        console.print("A search is predicted with the most pieces that it may score, and with all rounds of its audit.")
        if predicted.without_search.tokens_ratio < 1:
            console.print("It may take more than scoring every piece: leave --search out.")


def _totals(predicted: PredictedCases) -> Table:
    from leakmeter.report.words import about_seconds, saved

    run = predicted.tree_tokens
    most = "at most " if predicted.at_most else ""
    about = most if predicted.sampled_cases is None else f"{most}about "
    tokens = predicted.tree_tokens_range
    rows = [
        ("cases", f"{predicted.n_cases:,}", ""),
        ("prompts scored", f"{about}{predicted.requests:,}", ""),
        ("tokens to run", f"{about}{run:,}", "" if tokens is None else f"[{tokens[0]:,}, {tokens[1]:,}]"),
    ]
    if predicted.served is not None:
        rows = [*rows[:2], *_served(predicted.served, most), *_without_search(predicted)]
        return output.table(("", "", ""), rows, right=(1,))
    for words, n in (
        ("prompt", predicted.full_pass_tokens),
        ("prompt and token", predicted.full_pass_per_token_tokens),
    ):
        rows.append((f"a pass for each {words}", f"{n:,}", f"{saved(run, n)} saved"))
    time = "not predicted" if predicted.seconds is None else f"{most}{about_seconds(predicted.seconds)}"
    between = predicted.seconds_range
    range_ = "" if between is None else f"[{', '.join(about_seconds(end).removeprefix('about ') for end in between)}]"
    rows.append(("time, once loaded", time, range_))
    return output.table(("", "", ""), [*rows, *_without_search(predicted)], right=(1,))


def _without_search(predicted: PredictedCases) -> list[tuple[str, str, str]]:
    from leakmeter.report.words import about_seconds

    every = predicted.without_search
    if every is None:
        return []
    most = "at most " if every.at_most else ""
    time = "" if every.seconds is None else f"{most}{about_seconds(every.seconds)}"
    # Both are an upper bound where a response is to be drawn: then a ratio of them bounds nothing.
    least = "at least " if predicted.at_most and not every.at_most else ""
    operations = "" if every.operations_ratio is None else f"of operations {least}{every.operations_ratio:,.1f}"
    return [
        ("tokens without a search", f"{most}{every.tree_tokens:,}", time),
        ("ratio of tokens", f"{least}{every.tokens_ratio:,.1f}", operations),
    ]


def _served(served: PredictedServed, most: str) -> list[tuple[str, str, str]]:
    rows = [
        (
            "requests to the server",
            f"{most}{served.requests:,}",
            "including those for the noise floor, without repeats",
        ),
        ("prompt tokens sent", f"{most}{served.prompt_tokens:,}", "with the responses that are scored"),
    ]
    if served.price is not None:
        rows.append(("price", f"{most}{served.price:,.2f}", f"at {served.price_per_million:,g} a million"))
    return [*rows, ("time", "not predicted", "`leakmeter doctor` measures how fast the server answers")]


def _by_case(cases: Sequence[PredictedCase]) -> Table:
    from rich.text import Text

    from leakmeter.core.plain import excerpt
    from leakmeter.report.words import about_seconds

    rows = []
    for case in cases:
        most = "≤ " if case.at_most else ""
        seconds = "" if case.seconds is None else about_seconds(case.seconds)
        rows.append((Text(excerpt(case.id, 40)), f"{most}{case.requests:,}", f"{most}{case.tree_tokens:,}", seconds))
    return output.table(("case", "prompts", "tokens", "time"), rows, right=(1, 2, 3))
