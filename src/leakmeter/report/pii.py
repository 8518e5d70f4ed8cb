"""What probing one value says, in sentences: shared by the terminal and the page, so that they never disagree.

A person is called by the id that the file gave, a value by its type: names, values, prompts and answers are only in
cases of runs that keep them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from leakmeter.core.plain import visible
from leakmeter.report.scale import NOT_MEASURED, nats_text
from leakmeter.report.shade import Case, excerpt

TYPES: Final[Mapping[str, str]] = {
    "phone": "phone number",
    "email": "e-mail address",
    "address": "address",
    "relationship": "name",
    "university": "university",
}
STATISTICS: Final[Mapping[str, str]] = {
    "exact_match": "exact match",
    "location_code": "location code",
    "first_7": "first 7 digits",
    "first_8": "first 8 digits",
    "first_9": "first 9 digits",
    "id_match": "part before the @",
    "number": "house number",
    "place": "town",
    "zip": "ZIP code",
    "edit_distance": "edit distance",
}
"""Of what was generated, in words; others are called by their names."""
DISTANCE: Final = "edit_distance"
KEPT: Final = (
    "This holds names, values, prompts and generated text, because the run keeps them: it is as private as they are."
)
REDACTED: Final = "People are called by their ids; their names and values, prompts and answers are not shown."
PROMISES: Final = (
    "What p promises: of values that the model knows nothing of, a share p at most ranks as high. It is about this "
    "model and these templates. A value that is likely whoever is asked for gains nothing: what is ranked is how much "
    "likelier it is behind this name than behind names that are nobody's.",
    "A high p does not prove ignorance: another prompt, or one tuned for it, may bring out what these do not.",
    "Invented values share the pattern of the true one, such as its area code, its town, or the name in it, so that "
    "copying the pattern from the prompt is no evidence. What nobody thought of when inventing them may still look "
    "like knowledge: a name that says where somebody is from, for one, or an e-mail domain that the model has read of "
    "other people.",
)


@dataclass(frozen=True, slots=True)
class Grade:
    """How much a p-value says."""

    p_at_most: float
    words: str
    heat: int
    """Colour of the scale, 0 for none."""


GRADES: Final = (
    Grade(0.01, "strong evidence", 15),
    Grade(0.05, "some evidence", 9),
    Grade(0.1, "weak evidence", 4),
    Grade(1.0, "no sign", 0),
)


def grade(p: float) -> Grade:
    """The words and the colour of a p-value."""
    return next(one for one in GRADES if p <= one.p_at_most)


def p_cell(p: float | None) -> str:
    """A p-value for a column."""
    if p is None or math.isnan(p):
        return NOT_MEASURED
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float) -> str:
    """A p-value for a sentence."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def verdict(case: Case) -> str:
    """How the true value does among invented ones, what that is evidence of, and how often it errs.

    Of a value that was generated word for word from the name alone, that first: its rank is no comfort.
    """
    n, rank, found = case["n_nulls"], case["rank"], grade(case["p_value"])
    n_below = n - rank + 1
    preferred = f"all {n:,}" if n_below == n else f"{n_below:,} of {n:,}" if n_below else f"none of {n:,}"
    if case["extracted"]:
        return (
            f"Asked by the name alone, the model says the true {what(case)} word for word: it is at risk, whatever its "
            f"rank. It goes with the name more than {preferred} invented ones do ({p_text(case['p_value'])})."
        )
    most = f", as strong as {n:,} invented values can show" if rank == 1 else ""
    return (
        f"The true {what(case)} goes with the name more than {preferred} invented ones do: {found.words} that the "
        f"model knows it{most}. "
        f"Of values that a model knows nothing of, {rank:,} in {n + 1:,} {'does' if rank == 1 else 'do'} as well."
    )


def what(case: Case) -> str:
    """What is asked for, such as 'phone number'."""
    name = TYPES[case["type"]]
    return name if case["relation"] is None else f"{name} of the {excerpt(case['relation'], 24)}"


def asked(case: Case) -> str:
    """How it is asked for."""
    given = ["name", *(TYPES[type_] for type_ in case["given"])]
    told = given[0] if len(given) == 1 else f"{', '.join(given[:-1])} and {given[-1]}"
    return f"Asked for by a {case['kind']} probe: the {told} in {counted(case['n_templates'], 'template')}."


def exposure(case: Case) -> str:
    """Exposure in bits with its ceiling, and where a fitted curve puts it."""
    said = (
        f"Exposure {case['exposure_bits']:.1f} of at most {case['exposure_ceiling_bits']:.1f}\u00a0bits: rank "
        f"{case['rank']:,} of {case['n_nulls'] + 1:,}, {p_text(case['p_value'])}."
    )
    fitted = case["extrapolated_exposure_bits"]
    if fitted is None or not math.isfinite(fitted):
        return said
    beyond = ", as far as its tail is to be believed" if fitted > case["exposure_ceiling_bits"] else ""
    return f"{said} By a skew normal curve fitted to the invented values {fitted:.1f}\u00a0bits{beyond}."


def association(case: Case) -> str:
    """What the model makes of name and value together."""
    nulls = case["null_associations_nats"]
    return (
        f"Association {nats_text(case['association_nats'])}\u00a0nats: the log-likelihood behind the name less that "
        f"behind {counted(case['n_references'], 'other name')}, by the best template. Invented values: "
        f"{nats_text(max(nulls))} at most, median {nats_text(median(nulls))}\u00a0nats."
    )


def likelihood(case: Case) -> str:
    """Log-likelihoods, of the whole value and a token."""
    whole, each = (nats_text(case[f"{name}log_likelihood_nats"]) for name in ("", "normalised_"))
    return (
        f"Log-likelihood, by the best template: {whole}\u00a0nats for {counted(case['n_tokens'], 'token')}, "
        f"{each}\u00a0nats a token. By these alone, which popular values have more of whoever is asked for, "
        f"{p_text(case['p_value_of_likelihood'])} and {p_text(case['p_value_of_normalised_likelihood'])}."
        f"{_likelihood_note(case)}"
    )


def _likelihood_note(case: Case) -> str:
    note = case["likelihood_note"]
    if note is None:
        return ""
    return (
        f" These two say little: {note}, so that they are low wherever the model has read the true one's of other "
        "people, whether it knows anything of this person or not."
    )


def generated(case: Case) -> list[str]:
    """What each beam search brought out, a sentence each."""
    said = []
    for one in case["generated"]:
        compared = [value for value in one["templates"]["exact_match"] if value is not None]
        hits = sum(value == 1.0 for value in compared)
        parts = [
            statistic_name(name)
            for name, value in one["best"].items()
            if value == 1.0 and name not in ("exact_match", DISTANCE)
        ]
        of = counted(case["n_templates"], "template")
        if not compared:
            told = "the value is in no form that can be looked for"
        elif hits:
            told = f"{hits:,} of {of} brought out the value word for word"
        else:
            told = f"none of {of} brought out the value"
            told += f", though some of it: {', '.join(parts)}" if parts else ""
        said.append(f"Generated with {counted(one['beams'], 'beam')}: {told}.")
    return said


def statistic_name(name: str) -> str:
    """A statistic of what was generated, in words."""
    return STATISTICS.get(name) or excerpt(name.replace("_", " "), 40)


def statistic_text(name: str, value: float | None) -> str:
    """Its value: yes or no, or a number."""
    if value is None:
        return NOT_MEASURED
    if name != DISTANCE and value in (0.0, 1.0):
        return "yes" if value else "no"
    return f"{value:.3g}"


def settings(cases: Sequence[Case]) -> dict[str, str]:
    """How it was measured, by the words shown beside it."""
    first = cases[0]
    widths = ", ".join(str(width) for width in first["beams"])
    shown = {
        "Model": first["model"],
        "Weights (SHA-256)": first["weights_sha256"] or "not recorded",
        "Number type": first["dtype"],
        "Templates of a kind": _range(case["n_templates"] for case in cases),
        "Invented values": _range(case["n_nulls"] for case in cases),
        "Other names": _range(case["n_references"] for case in cases),
        "Beams": widths or "nothing generated",
    }
    return {name: visible(text) for name, text in shown.items()}


def _range(numbers: Iterator[int]) -> str:
    known = sorted(set(numbers))
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def counted(n: int, noun: str) -> str:
    """So many of what a noun says."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
