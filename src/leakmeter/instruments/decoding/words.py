"""What the ledgers of decoding say, in sentences. What is said of a public result is made of that alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from leakmeter.instruments.decoding.result import DecodedResponse, DecodeResult, Guarantee, PublicResult
from leakmeter.privacy.draws import sentences
from leakmeter.report.blocks import Advice
from leakmeter.report.scale import NOT_MEASURED, nats_text, percent
from leakmeter.report.words import model_facts
from leakmeter.stats.stats import posterior_from_even_odds

PRIVATE = (
    "Private: λ, losses, what was spent, a seed, the run's directory and its id are functions of the context. "
    "Publish the response and its public part, nothing else of this."
)
CONDITIONS = (
    "The guarantee is about the tokens as they were drawn: from the whole distribution, with nothing applied "
    "afterwards. It covers the context, not the query or the template."
)
COUNTED = (
    "Basic composition counts the tokens that were drawn; the two with a δ count the most that could have been. All "
    "responses of a run are taken to be about one context."
)
UNBOUNDED = (
    "Nothing is guaranteed: a lower-bound estimate of the ex-post privacy loss of this context for this output, and "
    "nothing about other outputs the model could have given."
)
GIVEN = (
    "The response was given, not drawn from the model that scored it: the numbers are those of the "
    "scoring model; another model would give others."
)
ADVICE = {
    "bounded": (
        "A bound below 9 nats",
        "publish the response with its public part (--public), and nothing else of this",
    ),
    "worthless": (
        "A bound of 9 nats or more, which rules nothing out",
        "decode with a smaller --epsilon, or fewer tokens",
    ),
    "unbounded": (
        "No bound",
        "decode with --epsilon where others may read the answer; leakmeter frontier says what it costs",
    ),
    "influence": (
        "A response that leaks much",
        "leakmeter influence says which piece of the context it came from",
    ),
}
_WORTHLESS_NATS = 9.0  # even odds become 99.99 %


def advice(cases: Sequence[DecodeResult]) -> Iterator[Advice]:
    """The rows of the decision table that responses meet; those to chats of which only the system prompt is the context
    meet none.
    """
    cases = [case for case in cases if case.unmarked_query_tokens is None]
    met = set()
    for case in cases:
        if case.guarantee is None:
            met |= {"unbounded", "influence"}
        else:
            met.add("worthless" if case.guarantee.response.basic_nats >= _WORTHLESS_NATS else "bounded")
    if cases:
        yield Advice.of(ADVICE.values(), [ADVICE[name] for name in met])


def headline(one: DecodedResponse) -> str:
    ledger, guarantee = one.ledger, one.guarantee
    who = "the response" if one.response.sampled else "for the scoring model, this given response"
    sentence = f"{who} leaks {nats_text(ledger.whole_nats)}\u00a0nats of the context"
    if guarantee is None or ledger.per_token.spent_nats is None:
        return f"{sentence} (per token at most {nats_text(max(ledger.per_token.loss_nats))})"
    spent = nats_text(max(ledger.per_token.spent_nats))
    whole = f"{nats_text(ledger.spent_nats)} of {nats_text(guarantee.response.basic_nats)}"
    return f"{sentence}; spent {whole} guaranteed (per token at most {spent} of {nats_text(guarantee.epsilon_nats)})"


def bound(guarantee: Guarantee) -> str:
    """What is guaranteed of a response, without anything private."""
    response = guarantee.response
    n_tokens = response.n_tokens
    return (
        f"{n_tokens} token{'s' if n_tokens != 1 else ''} at {nats_text(guarantee.epsilon_nats)}\u00a0nats each: "
        f"at most {nats_text(response.basic_nats)}\u00a0nats between any two contexts"
    )


def meaning(guarantee: Guarantee, n_responses: int) -> list[str]:
    each = guarantee.epsilon_nats
    whole = guarantee.response.basic_nats
    which = "Response 1" if n_responses > 1 else "The response"
    if whole < _WORTHLESS_NATS:
        # The bound is on the log-likelihood ratio of any two contexts, in either direction: a posterior's too.
        sure = percent(posterior_from_even_odds(whole))
        posterior = f"Someone who starts from even odds between two contexts is at most {sure} sure afterwards."
    else:
        posterior = "So much rules nothing out in practice; a smaller ε or fewer tokens would."
    factor = f"{math.exp(each):.3g}" if each < 700 else NOT_MEASURED
    return [
        f"Between any two contexts, no token is likelier under one than under the other by more than a factor of "
        f"{factor} (ε = {nats_text(each)}\u00a0nats): whatever the contexts, whichever token, whoever asks.",
        f"Against no context at all it is half of that, {nats_text(each / 2)}\u00a0nats, which is what was certified, "
        "over the whole vocabulary, before each token was drawn.",
        f"{which} as a whole: at most {nats_text(whole)}\u00a0nats by basic composition. {posterior}",
        *sentences(guarantee.draws.to_dict()),
    ]


def settings(case: DecodeResult | PublicResult) -> dict[str, str]:
    facts = {
        **model_facts(case),
        "Temperature": f"{case.temperature:g}",
        "Tokens": f"{case.min_new_tokens} to {case.max_new_tokens}",
    }
    if case.guarantee is not None:
        epsilon, largest = case.guarantee.epsilon_nats, case.guarantee.lambda_max
        return facts | {"ε a token": f"{epsilon:g} nats", "Largest λ": f"{largest:g}"}
    return facts | {"Decoding λ": f"{case.cid_lambda:g}"} if isinstance(case, DecodeResult) else facts
