"""What the receipts of decoding say, in sentences.

A *private* case holds everything; a *public* one holds nothing that is a function of the context but through its
tokens. What is said of a public case is made of that alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from leakmeter.privacy.draws import sentences
from leakmeter.report.scale import NOT_MEASURED, nats_text, percent
from leakmeter.report.shade import Case
from leakmeter.stats.stats import posterior_from_even_odds

PRIVATE = (
    "Private: λ, losses, what was spent, a seed, the run's directory and its id are functions of the context. "
    "Publish the response and its public receipt, nothing else of this."
)
CONDITIONS = (
    "The promise is about the tokens as they were drawn: from the whole distribution, with nothing applied afterwards. "
    "It covers the context, not the query or the template."
)
COUNTED = (
    "Basic composition counts the tokens that were drawn; the two with a δ count the most that could have been. All "
    "responses of a run are taken to be about one context."
)
UNBOUNDED = (
    "Nothing was promised: a lower-bound estimate of the ex-post privacy loss of this context for this output, and "
    "nothing about other outputs the model could have given."
)
_WORTHLESS_NATS = 9.0  # even odds become 99.99 %


def headline(case: Case) -> str:
    """What a response told of its context, and what it spent of its promise."""
    private, epsilon = case["private"], case["epsilon"]
    told = f"told {nats_text(infinite(private['whole_nats']))}\u00a0nats of the context"
    if epsilon is None:
        return f"{told} (per token at most {nats_text(_largest(private['per_token']['loss_nats']))})"
    spent = nats_text(_largest(private["per_token"]["spent_epsilon"]))
    whole = f"{nats_text(infinite(private['spent_nats']))} of {nats_text(epsilon['response']['basic_nats'])}"
    return f"{told}; spent {whole} promised (per token at most {spent} of {nats_text(epsilon['per_token'])})"


def promise(case: Case) -> str:
    """What was promised of a response, without anything private."""
    response = case["epsilon"]["response"]
    n_tokens = response["n_tokens"]
    return (
        f"{n_tokens} token{'s' if n_tokens != 1 else ''} at {nats_text(case['epsilon']['per_token'])}\u00a0nats each: "
        f"at most {nats_text(response['basic_nats'])}\u00a0nats between any two contexts"
    )


def meaning(case: Case) -> list[str]:
    """What ε means, one sentence each."""
    each = case["epsilon"]["per_token"]
    whole = case["epsilon"]["response"]["basic_nats"]
    which = "Response 1" if case["samples"] else "The response"
    if whole < _WORTHLESS_NATS:
        # The bound is on the log-likelihood ratio of any two contexts, in either direction: a posterior's too.
        sure = percent(posterior_from_even_odds(whole))
        belief = f"Someone who starts from even odds between two contexts is at most {sure} sure afterwards."
    else:
        belief = "So much rules nothing out in practice; a smaller ε or fewer tokens would."
    return [
        f"Between any two contexts, no token is likelier under one than under the other by more than a factor of "
        f"{_factor(each)} (ε = {nats_text(each)}\u00a0nats): whatever the contexts, whichever token, whoever asks.",
        f"Against no context at all it is half of that, {nats_text(each / 2)}\u00a0nats, which is what was certified, "
        "over the whole vocabulary, before each token was drawn.",
        f"{which} as a whole: at most {nats_text(whole)}\u00a0nats by basic composition. {belief}",
        *sentences(case["epsilon"]["draws"]),
    ]


def losses(case: Case) -> list[float]:
    """What each token told, nats: the numbers that a response is shaded by."""
    return [infinite(x) for x in case["private"]["per_token"]["loss_nats"]]


def infinite(number: float | str | None) -> float:
    """The number that JSON has no word for."""
    return math.inf if number is None else float(number)


def settings(case: Case) -> dict[str, str]:
    """How a case was decoded, by the words shown beside it; for a public case as well."""
    epsilon = case["epsilon"]
    told = {
        "Model": case["model"],
        "Weights (SHA-256)": case["weights_sha256"] or "not recorded",
        "Number type": case["dtype"],
        "Temperature": f"{case['temperature']:g}",
        "Tokens": f"{case['min_new_tokens']} to {case['max_new_tokens']}",
    }
    if epsilon is None:
        return told | {"Decoding λ": f"{case['cid_lambda']:g}"}
    return told | {"ε a token": f"{epsilon['per_token']:g} nats", "Largest λ": f"{epsilon['lambda_max']:g}"}


def _factor(nats: float) -> str:
    return f"{math.exp(nats):.3g}" if nats < 700 else NOT_MEASURED


def _largest(numbers: Sequence[float | str | None]) -> float:
    return max(infinite(number) for number in numbers)
