"""What an audit of private generation says, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.privacy.draws import sentences
from leakmeter.report.blocks import Phrase, Untrusted
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case

Told = Mapping[str, Any]

MEANING: Final = (
    "This can refute the promise, never confirm it: it was measured on these exemplars, at these tokens, and a promise "
    "is about all there could be."
)
PROOF: Final = "A mechanism that does what it promises cannot show this, whatever the exemplars."
PRIVATE: Final = (
    "Private: all of this but the texts and their promise depends on the exemplars. That goes for the verdict, for "
    "every number that was measured, and for the run’s directory, its name included."
)
CONDITIONS: Final = (
    "The promise is about the texts as they were drawn. It is for one exemplar more or less; the instruction, the "
    "label and the model are taken to be public."
)
SPENT: Final = "no guarantee, since the texts themselves decide how many tokens they have"
NOTHING: Final = "Nothing is promised of these texts: they were given, or drawn with a seed that everybody knows."
CONVENTION: Final = (
    "The paper adds what a conversion costs to the sum of the largest divergences and doubles it. With the same "
    "arithmetic a mechanism that tells nothing at all does not get 0. So this is no verdict; read the first beside the "
    "second."
)
VOTING: Final = "private voting"
"""Name of the mechanism that is not a user's own."""
_VOCABULARY: Final = 50_000
"""Tokens of a vocabulary such as many models have."""
_MOSTLY_NOISE: Final = 0.5


def verdict(cases: Sequence[Case]) -> str:
    """One sentence: whether more was measured than was promised."""
    broken = [case for case in cases if not case["verdict"]["holds"]]
    if not broken:
        where = "" if len(cases) == 1 else f" in any of {len(cases):,} batches"
        return f"Kept: nothing that was measured{where} is above its promise."
    where = "" if len(cases) == 1 else f" in {len(broken):,} of {len(cases):,} batches"
    return f"Broken: more was measured than was promised{where}."


def compared(case: Case, one: Told) -> tuple[str | Untrusted, ...]:
    """A number that was measured beside its promise: whose it is, where, and how much of the promise it is."""
    measured, promised = (nats_text(infinite(one[f"{what}_nats"])) for what in ("measured", "promised"))
    share = f"order {order_text(one['order'])} ({share_text(one['ratio'])})"
    numbers = f": {measured} of {promised}\u00a0nats promised at {share}"
    whose = exemplar(case, one["exemplar"])
    if one["token"] is None:
        return *whose, f", all tokens together{numbers}"
    where = f", token {one['token'] + 1} of sequence {one['sequence'] + 1}, “"
    return *whose, where, token(one["token_text"]), f"”{numbers}"


def measured(cases: Sequence[Case]) -> Phrase:
    """One sentence: what the exemplar that told most told of its promise, at the order of the promised ε."""
    case, row = max(((case, at_promise(case)) for case in cases), key=lambda of: infinite(of[1]["ratio"]))
    nats, promised = nats_text(infinite(row["measured_nats"])), nats_text(infinite(row["promised_nats"]))
    batch = () if len(cases) == 1 else (" of ", Untrusted(case["id"], 40))
    return (
        f"All tokens together told {nats}\u00a0nats of exemplar ",
        *exemplar(case, row["exemplar"]),
        *batch,
        f", and no more of any other, where {promised} were promised at order {order_text(row['order'])} "
        f"({share_text(row['ratio'])}).",
    )


def nearest(case: Case) -> Phrase:
    """What came nearest to its promise."""
    return "Nearest to it: exemplar ", *compared(case, case["verdict"]["worst_token"]), "."


def failures(case: Case) -> list[tuple[str | Untrusted, ...]]:
    """What is above its promise, the worst first."""
    return [("Exemplar ", *compared(case, one), ".") for one in case["verdict"]["failures"]]


def conditions(draws: Told | None) -> str:
    """What a promise is about, and how its tokens were drawn.

    Args:
        draws: see `privacy.draws.draws_of`; None where nothing is promised.
    """
    return " ".join([CONDITIONS, *(sentences(draws) if draws else ())])


def guarantee(told: Told | None) -> str:
    """What is promised of texts, or that nothing is."""
    if told is None:
        return NOTHING
    pure = infinite(told["pure_epsilon"])
    also = f", and ε = {nats_text(pure)} at δ = 0" if pure < infinite(told["epsilon"]) else ""
    return (
        f"ε = {nats_text(infinite(told['epsilon']))} at δ = {delta_text(told['delta'])}{also}, for up to "
        f"{told['n_tokens']:,} tokens"
    )


def spent(case: Case) -> str:
    """What the tokens that there are cost."""
    told = case["promise"]["spent"]
    return f"ε = {nats_text(infinite(told['epsilon']))} for the {told['n_tokens']:,} tokens there are; {SPENT}"


def at_promise(case: Case) -> Told:
    """The row of the promise's order."""
    return next(row for row in case["by_order"] if row["order"] == case["promise"]["order"])


def by_rank(case: Case) -> list[Told]:
    """The exemplars, who paid most first."""
    return sorted(case["exemplars"], key=lambda one: one["rank"])


def convention(case: Case) -> list[tuple[str, float]]:
    """ε in the paper's convention beside that of a mechanism that tells nothing, and the promise."""
    told = case["paper_convention"]
    return [
        ("measured, in the paper’s convention", infinite(told["epsilon"])),
        ("the same of a mechanism that tells nothing", told["zero_leak_epsilon"]),
        ("promised", infinite(told["promised_epsilon"])),
    ]


def repeated(summary: Told) -> str:
    """What it means that a text stands in several batches."""
    n = summary["n_repeated_texts"]
    which = "1 exemplar stands" if n == 1 else f"{n:,} exemplars stand"
    return f"{which} in several batches with the same text; for whoever wrote it, these batches add up."


def quality(told: Told) -> str:
    """How good the texts are, and how much of them was copied."""
    distinct = ", ".join(f"distinct-{n} {_percent(told[f'distinct_{n}'])}" for n in (1, 2, 3))
    least, longest = told["verbatim_from_tokens"], told["longest_verbatim_tokens"]
    copied = f"no run of {least} tokens or more stands in an exemplar too"
    if longest >= least:
        copied = (
            f"{_percent(told['verbatim_share'])} of the tokens are in runs of {least} or more that an exemplar has "
            f"too, the longest of {longest:,}"
        )
    return f"Perplexity {perplexity(told['perplexity'])} under the model without exemplars; {distinct}; {copied}."


def noise(case: Case) -> str | None:
    """That a text is mostly noise, where its settings leave no more; None where they do, or are not known."""
    if case["mechanism"]["name"] != VOTING:
        return None
    said, is_noise = sharpness(case["mechanism"]["clip"], case["mechanism"]["temperature"])
    return said if is_noise else None


def sharpness(clip: float, temperature: float) -> tuple[str, bool]:
    """How likely these settings let a token be at most, in words; and whether that makes for noise."""
    share = most_likely(clip, temperature, _VOCABULARY)
    most = (
        "nearly all probability"
        if share > 0.995
        else f"{_percent(share) if share > 1e-4 else 'less than 0.01 %'} at most"
    )
    said = f"Of a vocabulary of {_VOCABULARY:,}, a token that every exemplar votes for gets {most}."
    if share >= _MOSTLY_NOISE:
        return said, False
    return f"{said} Most of what is drawn is noise then; more exemplars or fewer tokens would sharpen it.", True


def most_likely(clip: float, temperature: float, n_vocab: int) -> float:
    """Probability of a token that has every vote, c, while all others have none, −c each."""
    return 1.0 / (1.0 + (n_vocab - 1) * math.exp(-2.0 * clip / temperature))


def perplexity(value: float | None) -> str:
    """A perplexity in three digits."""
    value = infinite(value)
    return nats_text(value) if value < 1000 else f"{float(f'{value:.3g}'):,.0f}" if value < 1e9 else f"{value:.1e}"


def settings(case: Case) -> dict[str, str]:
    """How texts were generated, by the words shown beside them; of what may be published as well."""
    rule = {key: value for key, value in case["mechanism"].items() if key != "name"}
    told = ", ".join(f"{key.replace('_', ' ')} {f'{x:g}' if isinstance(x, float) else x}" for key, x in rule.items())
    return {
        "Model": case["model"],
        "Weights (SHA-256)": case["weights_sha256"] or "not recorded",
        "Number type": case["dtype"],
        "Prompt template": case["template"],
        "Label": case["query"] or "none",
        "Mechanism": f"{case['mechanism']['name']}{': ' if told else ''}{told}",
        "Exemplars of a batch": f"{case['subset_size']:,}",
        "Sequences of a batch": f"{case['n_sequences']:,}",
        "Tokens of a sequence": f"{case['min_new_tokens']:,} to {case['max_new_tokens']:,}",
        "Neighbours": "one exemplar more or less",
    }


def exemplar(case: Case, name: str) -> tuple[str | Untrusted, ...]:
    """An exemplar by its place in the batch and its id in the data."""
    id_ = next((one["id"] for one in case["exemplars"] if one["name"] == name), None)
    return (Untrusted(name),) if id_ is None else (Untrusted(name), " (", Untrusted(id_, 14), ")")


def token(text: str) -> Untrusted:
    """A token on one line."""
    return Untrusted(text.replace("\n", "↵").strip(" ") or "␣")


def order_text(order: float | None) -> str:
    """An order; a case object has null for ∞."""
    return "∞" if order is None else f"{order:g}"


def share_text(ratio: float | None) -> str:
    """A share of a promise; ∞ for what was measured infinite."""
    return "∞" if ratio is None or math.isinf(ratio) else f"{100 * ratio:.3g}\u00a0%"


def delta_text(delta: float) -> str:
    """δ in few letters: 1e-5, 0.01."""
    return f"{delta:g}".replace("e-0", "e-")


def infinite(nats: float | None) -> float:
    """A number of a case object: null stands for infinity there."""
    return math.inf if nats is None else float(nats)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.3g}\u00a0%"
