"""`--dry-run`: what a command would take; nothing is measured or written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from leakmeter.commands import output
from leakmeter.commands.options import RunOptions
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from leakmeter.core.loaded import Plan
    from leakmeter.engine.prediction import PredictedCase, PredictedCases, PredictedServed, Predictor

_CASES_AT_MOST = 20


def load_predictor(run: RunOptions) -> Predictor:
    from leakmeter.engine.loading import names_a_backend
    from leakmeter.engine.prediction import Predictor, predictor_for

    if run.model == "toy" or names_a_backend(run.model):
        local = replace(run, on=None, workers=None, gpus_per_worker=None, allow_mixed=False)
        return Predictor(local.load_backend())
    return predictor_for(run.model, dtype=run.dtype, device=run.device, memory=run.memory)


def predict_cases(plan: Plan, run: RunOptions) -> None:
    from leakmeter.engine.prediction import forecast

    prediction, kept = forecast(load_predictor(run), plan, price_per_million=run.price_per_million)
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
    console.print(Text(f"{predicted.model} ({how}); nothing was measured", style="bold"))
    console.print(_totals(predicted))
    if 1 < len(predicted.cases) <= _CASES_AT_MOST:
        console.print()
        console.print(_by_case(predicted.cases))
    if predicted.sampled_cases is not None:
        console.print(f"Estimated from {predicted.sampled_cases:,} of the cases, spread evenly over all.")
    if predicted.at_most:
        console.print("Upper limits: responses not yet drawn count with the most tokens that they may have.")
    if predicted.at_least:
        console.print(
            "Counted as if nothing were found. An answer that may disclose something takes several times as much: "
            "--complete --dry-run counts that of all."
        )
    elif predicted.depends:
        console.print("How much is run, and how long it takes, depends on what is found.")


def _totals(predicted: PredictedCases) -> Table:
    from leakmeter.report.words import about_seconds, saved

    run = predicted.tree_tokens
    most = "at most " if predicted.at_most else "at least " if predicted.at_least else ""
    about = f"{most}about " if predicted.depends or predicted.sampled_cases is not None else most
    rows = [
        ("cases", f"{predicted.n_cases:,}", ""),
        ("prompts scored", f"{about}{predicted.requests:,}", ""),
        ("tokens to run", f"{about}{run:,}", ""),
    ]
    if predicted.served is not None:
        rows = [*rows[:2], *_served(predicted.served, most)]
        return output.table(("", "", ""), rows, right=(1,))
    for words, n in (
        ("prompt", predicted.full_pass_tokens),
        ("prompt and token", predicted.full_pass_per_token_tokens),
    ):
        rows.append((f"a pass for each {words}", f"{n:,}", f"{saved(run, n)} saved"))
    time = "not predicted" if predicted.seconds is None else about_seconds(predicted.seconds)
    time = time if time.startswith("under") or predicted.seconds is None else f"{most}{time}"
    rows.append(("time, once loaded", time, ""))
    return output.table(("", "", ""), rows, right=(1,))


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
