"""Sentences of ICL influence; texts of cases stay apart from our words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from leakmeter.core import self_check
from leakmeter.instruments.icl.result import ExemplarInfluence, IclResult, IclSummary
from leakmeter.report import scale
from leakmeter.report.blocks import Phrase, Untrusted
from leakmeter.report.scale import interval_text, nats_text, percent
from leakmeter.report.words import model_facts
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL, GIVEN

READING: Final = (
    "0\u00a0nats: leaving an exemplar out changes nothing. 0.7\u00a0nats: some answer becomes twice or half as "
    "likely, which changes an observer's odds that the exemplar was in the prompt by a factor of 2 (2.3\u00a0nats: by "
    "10; 4.6\u00a0nats: by 100)."
)
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


def headline(summary: IclSummary, results: Sequence[IclResult]) -> str:
    losses = summary.answers
    answers = "For the scoring model, the answers" if losses.n_given else "The likeliest answers"
    why = doubt(results)
    if losses.share_below_noise_floor == 1 and why is not None:
        return f"Whether the answers to {summary.n:,} queries reveal anything of an exemplar cannot be said: {why}."
    if losses.share_below_noise_floor == 1:
        return f"{answers} to {summary.n:,} queries reveal nothing measurable of any one exemplar."
    mean = f"{nats_text(losses.mean_nats)}\u00a0nats{interval_text(losses.interval_nats)}"
    few = " (too few for an interval)" if summary.n < FEWEST_FOR_INTERVAL else ""
    return (
        f"{answers} reveal {mean} of an exemplar on average over {summary.n:,} queries{few}, and "
        f"{nats_text(losses.max_nats)}\u00a0nats at most."
    )


def whose(summary: IclSummary, model: str) -> Phrase:
    n, n_given = summary.n, summary.answers.n_given
    largest = " For each query, the exemplar with the largest leakage counts."
    if not n_given:
        start = "No answers were given, so the answer to each query is the label that "
        return start, Untrusted(model), f" finds likeliest.{largest}"
    answers = "All answers" if n_given == n else f"{n_given:,} of {n:,} answers"
    others = "" if n_given == n else " The other queries use the likeliest label."
    return (
        f"{answers} were given: the numbers are those of ",
        Untrusted(model),
        f", whichever model gave the answers.{others}{largest}",
    )


def worst_case(summary: IclSummary, results: Sequence[IclResult]) -> str:
    """ICLInf as the paper prints it, with its interval."""
    shots = max(len(result.exemplars) for result in results)
    drawn = "the same for all" if summary.exemplars else "drawn for each"
    mean = nats_text(summary.mean_nats)
    if summary.std_nats is not None:
        mean = f"{mean} ± {nats_text(summary.std_nats)}\u00a0nats{interval_text(summary.interval_nats)}"
    any_ = "label" if results[0].space == "labels" else "token"
    sentence = (
        f"Worst case over every {any_}, however unlikely: ICLInf {mean}, with {shots} "
        f"exemplar{'s' if shots > 1 else ''}, {drawn}."
    )
    high = summary.quantiles_nats["0.95"]
    if math.isinf(summary.mean_nats):
        return sentence + " For some query, an answer is possible with an exemplar and impossible without it: ∞."
    return sentence if high is None else f"{sentence} One query in twenty has {nats_text(high)}\u00a0nats or more."


def accuracy(summary: IclSummary) -> str:
    n = summary.n_with_label
    if summary.accuracy is None or summary.accuracy_interval is None or summary.macro_f1 is None:
        return "The queries have no labels, so accuracy is unknown."
    low, high = (f"{100 * end:.0f}" for end in summary.accuracy_interval)
    labelled = "" if n == summary.n else f" of the {n:,} with a label"
    return (
        f"The likeliest answer is right in {100 * summary.accuracy:.1f}\u00a0%{labelled} [{low}, {high}]; "
        f"macro-F1 {summary.macro_f1:.2f}."
    )


def noise(summary: IclSummary, results: Sequence[IclResult]) -> str:
    highest = max(result.noise_floor_nats for result in results)
    n_below = round(summary.share_below_noise_floor * summary.n)
    subject = "query has" if n_below < 2 else "queries have"
    return (
        f"Noise: other ways of computing the same number differ by {nats_text(highest)}\u00a0nats at most; "
        f"{n_below or 'no'} {subject} a loss below that of its own."
    )


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


def verdict(result: IclResult) -> Phrase:
    answer, exemplar, model = Untrusted(result.answer), result.revealed, Untrusted(result.model)
    if result.answer_given:
        first: tuple[str | Untrusted, ...] = ("The answer “", answer, "”, scored by ", model, ",")
    else:
        first = ("The likeliest answer, “", answer, "”,")
    if exemplar.answer_below_noise_floor:
        why = doubt([result])
        if why is not None:
            return *first, f": whether it reveals anything of an exemplar cannot be said: {why}."
        return *first, " reveals nothing measurable of any one exemplar."
    nats = f"”: {nats_text(exemplar.answer_nats)}\u00a0nats."
    return *first, " reveals most of exemplar “", Untrusted(exemplar.id), nats


def posterior(result: IclResult) -> Phrase:
    sure, id_ = result.revealed.answer_posterior, Untrusted(result.revealed.id)
    if result.revealed.answer_posterior_note == GIVEN:
        likelier = "likelier" if result.revealed.answer_signed_nats > 0 else "less likely"
        return f"It is {nats_text(result.revealed.answer_nats)}\u00a0nats {likelier} with the exemplar than without it."
    if sure is None and result.answer_given:
        return "The change is ", Untrusted(str(result.revealed.answer_posterior_note)), "."
    if sure is None:
        return "No posterior is shown: the change is ", Untrusted(str(result.revealed.answer_posterior_note)), "."
    if sure < 0.5:
        start = f"The answer is likelier without it. From even odds, an observer would assign {percent(sure)} to "
        return f"{start}exemplar “", id_, "” having been there."
    return (
        f"From even odds, an observer of this answer would be {percent(sure)} sure that exemplar “",
        id_,
        "” was there.",
    )


def worst_case_of_one(result: IclResult) -> Phrase:
    worst, any_ = result.worst, "label" if result.space == "labels" else "token"
    if worst.below_noise_floor:
        found = "nothing measurable" if doubt([result]) is None else "not known"
        return f"Worst case over every {any_}: {found}."
    lead = f"Worst case over every {any_}, however unlikely: {nats_text(worst.loss_nats)}\u00a0nats, at “"
    seen = ""
    if worst.worst_posterior is not None:
        sure = percent(worst.worst_posterior)
        seen = f" If the model gave that answer, an observer would be {sure} sure that the exemplar was there."
    return lead, changed(worst), "” without exemplar “", Untrusted(worst.id), f"”.{seen}"


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
