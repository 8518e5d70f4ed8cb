"""Sentences about cases that several instruments share."""

from __future__ import annotations

from leakmeter.report.scale import NOT_MEASURED, nats_text, percent
from leakmeter.report.shade import Case

REMOVALS = {
    "drop": "its tokens are cut out and the rest moves up",
    "mask": "its tokens stay in place but the model may not look at them",
    "retokenize": "its characters are deleted and the text is tokenised again",
}
_POSTERIOR_NOTES = {"below the noise floor": "<\u00a0noise", "below the placebo": "<\u00a0placebo"}


def posterior_sentence(numbers: Case, prefix: str, what: str) -> str:
    """One sentence: how sure the response makes a reader that something was there, or why that is not said.

    Args:
        numbers: have a signed sum, a posterior and a note under names with the prefix.
        prefix: "whole_", "left_" or none.
        what: was there or was not.
    """
    signed = nats_text(getattr(numbers, f"{prefix}signed_nats"))
    sure: float | None = getattr(numbers, f"{prefix}posterior")
    if sure is None:
        why = getattr(numbers, f"{prefix}posterior_note")
        return f"No posterior is shown: with signs the sum is {signed}\u00a0nats, {why}."
    if sure < 0.5:
        return (
            f"The response is likelier without {what} (with signs the sum is {signed}\u00a0nats): from even odds, an "
            f"observer would give {percent(sure)} to {what} having been there."
        )
    return (
        f"From even odds, an observer of this response would be {percent(sure)} sure that {what} was there (with "
        f"signs the sum is {signed}\u00a0nats)."
    )


def posterior_cell(numbers: Case, prefix: str = "") -> str:
    """A posterior for a column, or which yardstick the signed sum is not above."""
    sure: float | None = getattr(numbers, f"{prefix}posterior")
    if sure is not None:
        return percent(sure)
    return _POSTERIOR_NOTES.get(getattr(numbers, f"{prefix}posterior_note"), NOT_MEASURED)


def warnings(case: Case) -> list[str]:
    """Everything that narrows what the numbers mean, one sentence each."""
    found = list(case.warnings)
    if case.truncated_tokens:
        cut = f"{case.truncated_tokens} tokens of the context"
        found.append(f"{cut} did not fit the model's window: they were left out, and unmeasured.")
    return found


def provenance(case: Case) -> str:
    """Where the response came from: sampled by the model, with its seed, or given."""
    if not case.response.sampled:
        return "given"
    return "sampled" if case.response.seed is None else f"sampled, seed {case.response.seed}"


def saving(case: Case) -> str | None:
    """The share of tokens that sharing prefixes saved against scoring each request alone."""
    return saved(case.cost.tree_tokens, case.cost.naive_tokens) if case.cost.naive_tokens else None


def saved(n_tokens: int, n_naive_tokens: int) -> str:
    """The share of tokens that another way would run and ours does not."""
    return f"{100 * (1 - n_tokens / n_naive_tokens):.0f}\u00a0%"


def prediction(case: Case, *, at_most: bool | None = None) -> str | None:
    """What was predicted before the case was run, and what it took; None where nothing was predicted.

    Args:
        case: the case.
        at_most: whether it was predicted from above; where the response was drawn, by default.
    """
    cost = case.cost
    if cost.predicted_tree_tokens is None:
        return None
    most = "at most " if (case.response.sampled if at_most is None else at_most) else ""
    said = f"{most}{cost.predicted_tree_tokens:,} tokens"
    if cost.predicted_seconds is not None:
        said += f" in {about_seconds(cost.predicted_seconds)}"
    return f"{said}; it took {cost.tree_tokens:,} in {cost.seconds:.1f} s"


def memory(case: Case) -> str | None:
    """What running out of memory did to a case; None where it did not happen."""
    n = case.cost.out_of_memory_retries
    if not n:
        return None
    times = "once" if n == 1 else f"{n} times"
    return f"ran out {times}; cut smaller, last digits may differ from a run with more"


def about_seconds(seconds: float) -> str:
    """A predicted time, with the digits that a prediction has: "about 12 s", "about 4 min", "about 2.5 h"."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    if seconds < 100 * 60:
        return f"about {seconds / 60:.{1 if seconds < 600 else 0}f} min"
    return f"about {seconds / 3600:.{1 if seconds < 36_000 else 0}f} h"


def about_bytes(n_bytes: float) -> str:
    """Memory to two digits: "0.54 GB", "71 MB"."""
    if n_bytes < 1e8:
        return f"{n_bytes / 1e6:.{1 if n_bytes < 1e7 else 0}f} MB"
    return f"{n_bytes / 1e9:.{2 if n_bytes < 1e9 else 1 if n_bytes < 1e10 else 0}f} GB"
