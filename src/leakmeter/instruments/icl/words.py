"""Sentences of ICL influence; texts of cases stay apart from our words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from leakmeter.core import self_check
from leakmeter.core.plain import counted
from leakmeter.instruments.icl.result import ExemplarInfluence, IclResult, IclSummary
from leakmeter.report import scale
from leakmeter.report.blocks import Headline, Phrase, Untrusted, parts
from leakmeter.report.scale import interval_text, nats_in, nats_text, share_in
from leakmeter.report.words import model_facts
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

INTERVALS: Final = "±: standard deviation over queries; in brackets: 95\u00a0% interval of the mean or share."
CAVEAT: Final = (
    "A data-dependent loss: what an answer drawn from these probabilities can reveal of these exemplars. It is not a "
    "guarantee, does not apply to other queries, and does not apply to the likeliest answer, whose loss is not finite."
)


def probability(share: float | None) -> str:
    """A probability in percent, three digits at most; never rounded to 0 or to 100."""
    if share is None:
        return scale.NOT_MEASURED
    if 0 < share < 1e-4:
        return "<\u00a00.01\u00a0%"
    if 0.9995 <= share < 1:
        return ">\u00a099.9\u00a0%"
    return f"{100 * share:.{2 if share < 0.01 else 1}f}\u00a0%"


def doubt(results: Sequence[IclResult]) -> str | None:
    """Why it says nothing that nothing was found, as a clause; None where it does."""
    doubts = (self_check.doubt(result.answer_noise_floor_nats, result.self_check) for result in results)
    return next((why for why in doubts if why is not None), None)


MUCH_NATS: Final = 1.0
"""From which an answer multiplies or divides odds by 2.7 or more."""
LITTLE_NATS: Final = 0.1
"""Up to which an exemplar makes an answer likelier or less likely by a tenth at most."""
HEADLINES: Final[Mapping[str, str]] = {
    "nothing": "The answers reveal nothing measurable of any one exemplar.",
    "doubtful": "Whether the answers reveal anything of an exemplar cannot be said: {why}.",
    "little": "The answers reveal almost nothing of an exemplar: {most}\u00a0nats at most.",
    "some": "The answers reveal a little of an exemplar: {most}\u00a0nats at most.",
    "much": "The answers reveal much of an exemplar: up to {most}\u00a0nats.",
}
"""By `found`. None says how sure an observer is: no label was drawn."""


def found(summary: IclSummary, results: Sequence[IclResult]) -> str:
    most = summary.answers.max_nats
    if most >= LITTLE_NATS:
        return "much" if most >= MUCH_NATS else "some"
    if doubt(results) is not None:
        return "doubtful"
    return "nothing" if summary.answers.share_below_noise_floor == 1 else "little"


def headline(summary: IclSummary, results: Sequence[IclResult]) -> Headline:
    what = found(summary, results)
    said = HEADLINES[what].format(most=nats_text(summary.answers.max_nats), why=doubt(results))
    verdict: Mapping[str, Literal["good", "bad"]] = {"nothing": "good", "little": "good", "much": "bad"}
    return Headline(said, verdict.get(what, ""))


def most_revealing(results: Sequence[IclResult]) -> IclResult:
    return max(results, key=lambda result: result.answer_nats)


def most_revealed(results: Sequence[IclResult]) -> Phrase:
    """Which exemplar, by which answer."""
    result = most_revealing(results)
    by: Phrase = (" to query “", Untrusted(result.id, 24), "”") if len(results) > 1 else ""
    answer = (Untrusted(result.answer, 24), "”", *parts(by))
    return ("Most is revealed of exemplar “", Untrusted(result.revealed.id, 24), "”, by the answer “", *answer, ".")


def mean(summary: IclSummary) -> str:
    losses = summary.answers
    few = "" if summary.n >= FEWEST_FOR_INTERVAL else " (too few for an interval)"
    return f"On average over {summary.n:,} queries{few}: {nats_in(losses.mean_nats, losses.interval_nats)}\u00a0nats."


def whose(summary: IclSummary, model: str) -> Phrase:
    n, n_given = summary.n, summary.answers.n_given
    largest = "For each query, the exemplar with the largest leakage counts."
    if not n_given:
        return "The answer to each query is the label that ", Untrusted(model), f" finds likeliest. {largest}"
    return (
        f"{n_given:,} of {n:,} answers were given; the others are the likeliest labels. The numbers are those of ",
        Untrusted(model),
        f", whichever model gave the answers. {largest}",
    )


def worst_case(summary: IclSummary, results: Sequence[IclResult]) -> str:
    """ICLInf as the paper prints it, with its interval."""
    shots = counted(max(len(result.exemplars) for result in results), "exemplar")
    any_ = "label" if results[0].space == "labels" else "token"
    size = nats_text(summary.mean_nats)
    if summary.std_nats is not None:
        size = f"{size} ± {nats_text(summary.std_nats)}"
    ends = interval_text(summary.interval_nats)
    rest = ", since an answer is possible with an exemplar and impossible without it" if size == "∞" else ""
    return f"In the worst case over every {any_}: ICLInf {size}\u00a0nats{ends}, with {shots}{rest}."


def accuracy(summary: IclSummary) -> str:
    if summary.accuracy is None or summary.accuracy_interval is None or summary.macro_f1 is None:
        return "The queries have no labels, so accuracy is unknown."
    return (
        f"The likeliest answer is right in {share_in(summary.accuracy, summary.accuracy_interval)} of the "
        f"{summary.n_with_label:,} queries with a label; macro-F1 {summary.macro_f1:.2f}."
    )


def noise(summary: IclSummary, results: Sequence[IclResult]) -> str:
    highest = max(result.noise_floor_nats for result in results)
    n = round(summary.share_below_noise_floor * summary.n)
    return f"{nats_text(highest)}\u00a0nats at most; not above it, in the worst case: {n:,} of {summary.n:,}"


def vocabulary(results: Sequence[IclResult]) -> str | None:
    """Losses over likely tokens and over labels; None where no more than labels was measured."""
    if results[0].space != "vocabulary":
        return None
    moved = [[(e.vocabulary, e.worst_label_nats) for e in result.exemplars] for result in results]
    likely = [max(losses.plausible.loss_nats for losses, _ in each if losses) for each in moved]
    labels = [max(nats for _, nats in each) for each in moved]
    return (
        "The maximum is over all tokens, including nearly impossible ones. Over tokens with a probability of "
        f"1e-6 or more, with or without the exemplar, the mean is {nats_text(sum(likely) / len(likely))}\u00a0nats; "
        f"over the labels alone {nats_text(sum(labels) / len(labels))}."
    )


def settings(result: IclResult) -> dict[str, str]:
    calibration = "none"
    if result.calibration is not None:
        own = result.calibration_baseline == "own"
        baseline = "each set’s own baseline" if own else "one baseline for all sets"
        calibration = f"{result.calibration}, {baseline}, ε = {result.calibration_epsilon:g}"
    space = "the labels, renormalised" if result.space == "labels" else "the whole vocabulary"
    return {
        **model_facts(result),
        "Prompt template": result.template,
        "Probabilities": f"over {space}",
        "Label scoring": result.label_scoring,
        "Calibration": calibration,
        "Temperature": f"{result.temperature:g}",
    }


def worst_case_of_one(result: IclResult) -> Phrase:
    worst, any_ = result.worst, "label" if result.space == "labels" else "token"
    if worst.below_noise_floor:
        return f"Worst case over every {any_}: {'nothing measurable' if doubt([result]) is None else 'not known'}."
    lead = f"Worst case over every {any_}: {nats_text(worst.loss_nats)}\u00a0nats, at “"
    return lead, changed(worst), "” without exemplar “", Untrusted(worst.id, 24), "”."


def answer(result: IclResult) -> Phrase:
    likely = f" ({probability(max(result.label_probabilities))})"
    mass = f" Before renormalising, all labels have {probability(result.label_mass)} together."
    phrase: tuple[str | Untrusted, ...] = (Untrusted(result.prediction),)
    if result.answer_given:
        phrase = (Untrusted(result.answer), " was given, and is the likeliest")
        if result.answer != result.prediction:
            share = result.label_probabilities[result.labels.index(result.answer)]
            likeliest = Untrusted(result.prediction)
            phrase = (Untrusted(result.answer), f" ({probability(share)}) was given; the likeliest is ", likeliest)
    if result.gold is None:
        return *phrase, f"{likely}; the right label is not known.{mass}"
    if result.is_right:
        return *phrase, f"{likely}, which is right.{mass}"
    return *phrase, f"{likely}; right is ", Untrusted(result.gold), f".{mass}"


def changed(exemplar: ExemplarInfluence, at_most: int | None = None) -> Untrusted:
    """The label or token whose probability changes most without an exemplar."""
    moved = exemplar.vocabulary
    text = exemplar.worst_label if moved is None else moved.farthest.token.replace("\n", "↵")
    return Untrusted(text, at_most)
