"""What a plan of redaction says, in sentences and rows: shared by the terminal and the page."""

from __future__ import annotations

from dataclasses import dataclass

from leakmeter.report import view, words
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case

CAVEAT = (
    "It is a plan for this response: what is bounded is what this response owes to what is left. The answer after is "
    "another response, with a debt of its own. Pieces were chosen one by one: none of them can be put back alone, but "
    "that no other plan is shorter is not proved."
)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table of steps."""

    number: int
    """0 for the whole context."""
    action: str
    name: str
    text: str
    flag: str
    """What a reader must see beside the numbers; empty where there is nothing."""
    left_nats: float
    left_signed_nats: float
    posterior: str
    """From even odds, that what was left then was there; or which yardstick the signed sum is not above."""
    change_nats: float | None


def verdict(case: Case) -> str:
    """One sentence: what is cut, what is left, and whether that is within the limit."""
    limit, whole = f"the limit is {case['max_loss_nats']:g}", nats_text(case["whole_nats"])
    if not case["redacted"]:
        said = "Nothing has to be cut" if case["reached"] else "Cutting does not help"
        return f"{said}: the response owes {whole}\u00a0nats to the whole context; {limit}."
    n, of = len(case["redacted"]), case["n_pieces"]
    share = f"{100 * case['redacted_share']:.0f}\u00a0% of the text"
    cut = f"Cutting {n} of {of} piece{'s' if of > 1 else ''} ({share}) leaves {nats_text(case['left_nats'])} of {whole}"
    return f"{cut}\u00a0nats{'' if case['reached'] else ', the least that was found'}; {limit}."


def posterior(case: Case) -> str:
    """One sentence: what the response still tells of what is left."""
    if case["left_nats"] <= case["noise_floor_nats"]:
        return "Of what is left, this response tells nothing that could be measured."
    return words.posterior_sentence(case, "left_", "what is left")


def after_line(case: Case) -> str | None:
    """One sentence: what the answer after owes to what is left; None where there is none."""
    after = case["after"]
    if after is None:
        return None
    return f"Drawn from what is left, seed {after['seed']}; it owes {nats_text(after['whole_nats'])}\u00a0nats to that."


def rows(case: Case) -> list[Row]:
    """The steps, and before them the whole context."""
    whole = case["whole_nats"]
    return [
        Row(0, "", "", "", "", whole, case["whole_signed_nats"], words.posterior_cell(case, "whole_"), None),
        *(
            Row(
                number,
                step["action"],
                step["name"],
                step["text"],
                "raised the loss" if step["raised"] else "",
                step["left_nats"],
                step["left_signed_nats"],
                words.posterior_cell(step, "left_"),
                step["change_nats"],
            )
            for number, step in enumerate(case["steps"], 1)
        ),
    ]


def yardstick(case: Case) -> str:
    """What is left of an irrelevant context; empty where it was not measured."""
    if case["placebo_nats"] is None:
        return ""
    signed = nats_text(case["placebo_signed_nats"])
    return f"irrelevant words as the only context: {nats_text(case['placebo_nats'])}\u00a0nats, with signs {signed}"


def settings(case: Case) -> dict[str, str]:
    """How the case was measured, by the words shown beside it."""
    told = {"Limit": f"{case['max_loss_nats']:g}\u00a0nats", **view.settings(case)}
    if case["placebo_nats"] is not None:
        signed = nats_text(case["placebo_signed_nats"])
        told["Irrelevant words alone"] = f"{nats_text(case['placebo_nats'])}\u00a0nats, with signs {signed}"
    predicted = words.prediction(case, at_most=True)
    return told if predicted is None else told | {"Predicted": predicted}
