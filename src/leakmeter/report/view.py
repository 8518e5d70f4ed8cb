"""Parts of a case as a page's template wants them: every number already a string, every colour already a class.

The template only loops and escapes. Class names are `h0` … `h20` for colours and `w0` … `w100` for lengths, because
the page's content security policy allows no style attributes.
"""

from __future__ import annotations

from typing import Any

from leakmeter.core.plain import visible
from leakmeter.report import scale, words
from leakmeter.report.shade import Case

View = dict[str, Any]


def settings(case: Case) -> dict[str, str]:
    """How the case was measured, by the words shown beside it."""
    cost = case.cost
    told: dict[str, str | None] = {
        "Model": case.model,
        "Weights (SHA-256)": case.weights_sha256 or "not recorded",
        "Number type": case.dtype,
        "Prompt template": case.template,
        "Unit of context": case.unit,
        "Removal": f"{case.removal}: {words.REMOVALS.get(case.removal, 'as named')}",
        "Temperature": f"{case.temperature:g}",
        "Decoding λ": f"{case.cid_lambda:g}",
        "Response": words.provenance(case),
        "Noise floor": f"{scale.nats_text(case.noise_floor_nats)}\u00a0nats; "
        f"{scale.nats_text(case.noise_floor_per_token_nats)} a token",
    }
    saved = words.saving(case)
    told["Cost"] = f"{cost.requests} requests, {cost.tree_tokens} tokens run" + (
        f", {saved} saved against {cost.naive_tokens} one by one" if saved else ""
    )
    told |= {"Predicted": words.prediction(case), "Memory": words.memory(case)}
    return {name: visible(text) for name, text in told.items() if text is not None}


def token_view(token: str, nats: float, floor_nats: float) -> View:
    """A response token by its nats; a space before a word apart from it."""
    text = visible(token)
    # A space before a word stays outside the shading: at a line's end it would hang there as a sliver of colour.
    word = text.lstrip(" ")
    gap = text[: len(text) - len(word)] if word else ""
    return {
        "gap": gap,
        "text": text[len(gap) :].replace("\n", "↵\n"),
        "heat": scale.heat(nats, floor_nats),
        "nats": scale.nats_cell(nats),
    }
