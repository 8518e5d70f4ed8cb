"""Sentences of an audit of private generation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from leakmeter.core.plain import counted
from leakmeter.instruments.generation.result import (
    BoundComparison,
    ClippedLogits,
    GenerationDraws,
    GenerationSummary,
    PrivateGenerationResult,
    PublicTexts,
    TextQuality,
)
from leakmeter.privacy.draws import sentences
from leakmeter.privacy.rdp import Guarantee
from leakmeter.report.blocks import Phrase, Untrusted
from leakmeter.report.scale import at_most_text, nats_text, share_in, share_text
from leakmeter.report.words import model_facts
from leakmeter.stats.stats import interval_of_share

_FOUND: Final = {
    "kept": "No violation found: no measurement is above its bound. That is not a proof.",
    "broken": "Broken: a measurement is above its bound.",
    "kept in all": "No violation found: no measurement in any of {n:,} batches is above its bound; the share above it "
    "is {share} of such batches. That is not a proof.",
    "broken in some": "Broken: a measurement is above its bound in {n_broken:,} of {n:,} batches, {share} of such "
    "batches.",
}
MEANING: Final = (
    "An audit can refute a guarantee but never prove it: it measures these exemplars at these tokens, while the "
    "guarantee covers all possible ones."
)
PROOF: Final = "A mechanism that keeps its guarantee cannot show this, whatever the exemplars."
PRIVATE: Final = (
    "Private: publish only the texts and their guarantee. The verdict, every measured number and the name of the run’s "
    "directory depend on the exemplars."
)
COVERED: Final = "The guarantee covers the texts as they were drawn, for one exemplar more or less."
ASSUMED: Final = "It assumes that the instruction, the label and the model are public."
SPENT: Final = (
    "The privacy cost of the {n:,} tokens there are is ε = {epsilon}. It is no guarantee: the length of a text is "
    "itself private."
)
NOTHING: Final = "These texts have no guarantee: they were given, or drawn with a known seed."
CONVENTION: Final = (
    "The paper adds the cost of a conversion to the sum of the largest divergences and doubles the result. By the "
    "same arithmetic, a mechanism that leaks nothing does not get 0. Compare the first number with the second; "
    "neither is a verdict."
)
BATCHES: Final = (
    "Batches share no exemplar, so an exemplar's guarantee and measurements are those of its batch. Bound and "
    "measured: Rényi divergence at the order of the guaranteed ε, nats."
)
ORDERS: Final = (
    "* the order of the guaranteed ε. Bound: for the tokens generated. Measured: for the exemplar with the largest "
    "sum, named next to it; share: of the bound. Sum of maxima: the largest loss of any exemplar for each token, added "
    "up as in the paper. Worst token: largest share of a token’s bound."
)
BROKEN: Final = (
    "a measurement is above its bound",
    "the mechanism is broken: publish nothing drawn from it; look at the token and the exemplar that the report names "
    "(a missing clip, a bound for other neighbours), and audit again",
)
KEPT: Final = (
    "no measurement is above its bound",
    "publish only the texts and their guarantee (`--public`). Rely on the guarantee, not on this measurement, which "
    "can miss a mistake: to look for mistakes, measure with very different exemplars, and with as few of them as the "
    "mechanism allows (`--subset-size`)",
)
UNGUARANTEED: Final = (
    "the texts have no guarantee",
    "publish none of them; draw again without a known seed (`--seed`)",
)
COPIED: Final = (
    "a run of tokens is copied from an exemplar",
    "read the copied passages before you publish: the guarantee does not protect text that many exemplars share",
)
NOISE: Final = (
    "the texts are mostly noise",
    "take more exemplars (`--subset-size`), fewer tokens, or a weaker guarantee (`--epsilon`); "
    "`leakmeter generate calibrate` finds a setting",
)
DECISIONS: Final = (BROKEN, UNGUARANTEED, COPIED, NOISE, KEPT)
"""As in the tutorial on audits: what has to be done before anything is published comes first."""


def verdict(cases: Sequence[PrivateGenerationResult]) -> str:
    n, n_broken = len(cases), sum(not case.holds for case in cases)
    if n == 1:
        return _FOUND["broken" if n_broken else "kept"]
    share = share_in(n_broken / n, interval_of_share(n_broken, n))
    return _FOUND["broken in some" if n_broken else "kept in all"].format(n=n, n_broken=n_broken, share=share)


def decisions(cases: Sequence[PrivateGenerationResult]) -> list[tuple[str, str]]:
    holds = all(case.holds for case in cases)
    met = [] if holds else [BROKEN]
    if any(case.bounds.guarantee is None for case in cases):
        met.append(UNGUARANTEED)
    qualities = [case.text_quality for case in cases]
    if any(texts.longest_verbatim_tokens >= texts.verbatim_from_tokens for texts in qualities):
        met.append(COPIED)
    if any(noise(case) is not None for case in cases):
        met.append(NOISE)
    return [*met, KEPT] if holds else met


def compared(row: BoundComparison) -> tuple[str | Untrusted, ...]:
    share = f"order {order_text(row.order)} ({share_text(row.ratio, 3)})"
    numbers = f": {nats_text(row.measured_nats)} nats measured, bound {nats_text(row.bound_nats)} at {share}"
    whose = _named(row.exemplar, row.exemplar_id)
    if row.sample is None or row.token is None:
        return *whose, f", all tokens together{numbers}"
    where = f", token {row.token + 1} of sample {row.sample + 1}, “"
    return *whose, where, token(row.token_text or ""), f"”{numbers}"


def measured(cases: Sequence[PrivateGenerationResult]) -> Phrase:
    """The largest sum over tokens of an exemplar, at the order of the guaranteed ε."""
    case, row = max(((case, case.at_guarantee) for case in cases), key=lambda pair: pair[1].ratio)
    batch = () if len(cases) == 1 else (" of ", Untrusted(case.id, 40))
    return (
        f"All tokens together leak {nats_text(row.measured_nats)}\u00a0nats of exemplar ",
        *exemplar(case, row.exemplar),
        *batch,
        f", the largest of all exemplars; the bound at order {order_text(row.order)} is {nats_text(row.bound_nats)} "
        f"({share_text(row.ratio, 3)}).",
    )


def conditions(draws: GenerationDraws | None) -> list[str]:
    """What a guarantee holds for, what depends on a seed before the rest; `draws` is None where there is none."""
    return [COVERED, *(reversed(sentences(asdict(draws))) if draws else ()), ASSUMED]


def guarantee(bound: Guarantee | None) -> str:
    if bound is None:
        return NOTHING
    also = f", and ε = {at_most_text(bound.pure_epsilon)} at δ = 0" if bound.pure_epsilon < bound.epsilon else ""
    return (
        f"ε = {at_most_text(bound.epsilon)} at δ = {delta_text(bound.delta)}{also}, for up to {bound.n_tokens:,} tokens"
    )


def convention(case: PrivateGenerationResult) -> list[tuple[str, float]]:
    figures = case.paper_convention
    return [
        ("measured", figures.epsilon),
        ("the same for a mechanism that leaks nothing", figures.zero_leak_epsilon),
        ("guaranteed", figures.guaranteed_epsilon),
    ]


def repeated(summary: GenerationSummary) -> str:
    n = counted(summary.n_repeated_texts, "exemplar")
    return f"The same text stands in several batches ({n}): for its author, these batches add up."


def quality(texts: TextQuality) -> str:
    shares = (texts.distinct_1, texts.distinct_2, texts.distinct_3)
    distinct = ", ".join(f"distinct-{n} {share_text(share, 3)}" for n, share in enumerate(shares, 1))
    least, longest = texts.verbatim_from_tokens, texts.longest_verbatim_tokens
    copied = f"no run of {least} tokens or more is copied from an exemplar"
    if longest >= least:
        share = share_text(texts.verbatim_share, 3)
        copied = f"{share} of the tokens are in runs of {least} or more copied from an exemplar, "
        copied += f"the longest of {longest:,}"
    return f"Perplexity {perplexity(texts.perplexity)} under the model without exemplars; {distinct}; {copied}."


def noise(case: PrivateGenerationResult) -> str | None:
    """None where the settings allow a sharp text, or are not known."""
    if not isinstance(case.mechanism, ClippedLogits):
        return None
    sentence, is_noise = sharpness(case.mechanism.clip, case.mechanism.temperature)
    return sentence if is_noise else None


def sharpness(clip: float, temperature: float) -> tuple[str, bool]:
    """The largest probability these settings leave a token, in words; and whether that makes for noise."""
    # Many models have such a vocabulary.
    n_vocab = 50_000
    share = most_likely(clip, temperature, n_vocab)
    least = share_text(share, 3) if share > 1e-4 else "less than 0.01 %"
    most = "nearly all probability" if share > 0.995 else f"{least} at most"
    sentence = f"Of a vocabulary of {n_vocab:,}, a token on which all exemplars agree gets {most}."
    if share >= 0.5:
        return sentence, False
    return f"{sentence} Most of the drawn text is then noise; use more exemplars or fewer tokens.", True


def most_likely(clip: float, temperature: float, n_vocab: int) -> float:
    """Probability of a token whose average is c, while that of all others is −c."""
    return 1.0 / (1.0 + (n_vocab - 1) * math.exp(-2.0 * clip / temperature))


def perplexity(value: float) -> str:
    return nats_text(value) if value < 1000 else f"{float(f'{value:.3g}'):,.0f}" if value < 1e9 else f"{value:.1e}"


def settings(case: PrivateGenerationResult | PublicTexts) -> dict[str, str]:
    rule = case.mechanism
    own = (
        {name: x for name, x in asdict(rule).items() if name != "name"}
        if isinstance(rule, ClippedLogits)
        else rule.settings
    )
    options = ", ".join(
        f"{name.replace('_', ' ')} {f'{x:g}' if isinstance(x, float) else x}" for name, x in own.items()
    )
    return {
        **model_facts(case),
        "Prompt template": case.template,
        "Label": case.query or "none",
        "Mechanism": f"{case.mechanism.name}{': ' if options else ''}{options}",
        "Exemplars of a batch": f"{case.subset_size:,}",
        "Samples of a batch": f"{case.n_samples:,}",
        "Tokens of a sample": f"{case.min_new_tokens:,} to {case.max_new_tokens:,}",
        "Neighbours": "one exemplar more or less",
    }


def exemplar(case: PrivateGenerationResult, name: str) -> tuple[str | Untrusted, ...]:
    """By its id in the data, or its place in the batch where it has none."""
    return _named(name, next((candidate.id for candidate in case.exemplars if candidate.name == name), None))


def _named(name: str, id_: str | None) -> tuple[str | Untrusted, ...]:
    return (Untrusted(name),) if id_ is None else (Untrusted(id_, 14),)


def token(text: str) -> Untrusted:
    return Untrusted(text.replace("\n", "↵").strip(" ") or "␣")


def order_text(order: float) -> str:
    return "∞" if math.isinf(order) else f"{order:g}"


def delta_text(delta: float) -> str:
    """Such as 1e-5 or 0.01."""
    return f"{delta:g}".replace("e-0", "e-")
