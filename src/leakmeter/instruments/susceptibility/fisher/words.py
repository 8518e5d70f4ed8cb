"""What Fisher susceptibility says, in sentences and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.report import words
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case
from leakmeter.report.words import interval_text

Summary = Mapping[str, Any]

CAVEAT: Final = (
    "Fisher susceptibility is how fast an answer begins to move, from gradients at the query itself. It follows no "
    "context to where it leads: what contexts that exist do is measured by Monte Carlo."
)
INTERVALS: Final = (
    "In brackets: 95\u00a0% interval; of a query for other random directions (Student’s t), of a mean over queries."
)
_DEAF: Final = "0: no change of the vectors at this place begins to move the answer; the model is deaf to it."
_IDENTITY: Final = (
    "Sigma identity is half the trace of the Fisher information, in units of squared {vectors}: it ranks queries of "
    "one model, and is no number of nats for contexts that exist."
)
_OF: Final = {
    "embedding": (
        "Sigma embedding: nats, to second order, if any token of the vocabulary stood in the place of each, drawn "
        "uniformly. Changes as large as these need not keep to second order."
    ),
    "empirical": (
        "Sigma empirical: nats, to second order, for what the contexts do there. Its spread stands for the "
        "susceptibility itself, its drift for the divergence of the mixture over contexts from the answer without one. "
        "Changes as large as a context makes need not keep to second order."
    ),
}


def measurements(cases: Sequence[Case]) -> list[str]:
    """What the values of each Σ mean."""
    vectors = "states" if cases[0]["place"].startswith("layer") else "embeddings"
    told = (_IDENTITY.format(vectors=vectors) if is_rank(name) else _OF[name] for name in cases[0]["sigma"])
    return [_DEAF, *told]


def is_rank(sigma: str) -> bool:
    """Whether the value only ranks queries of one model."""
    return sigma == "identity"


def unit(sigma: str) -> str:
    """What a heading says a column of values is."""
    return "half the trace" if is_rank(sigma) else "nats"


def headline(summary: Summary) -> str:
    """The mean over queries of each Σ."""
    told = "; ".join(_named(mean_text(row), row["sigma"]) for row in summary["values"])
    return f"Fisher susceptibility {told}: the mean of {_queries(summary['n'])}."


def verdict(case: Case) -> str:
    """One sentence: what was found of a query."""
    told = "; ".join(_named(value_text(value), value["sigma"]) for value in case["values"])
    return f"Fisher susceptibility {told}, at place {case['place']}."


def told(case: Case) -> str:
    """Where that was found, and beside what."""
    drawn = f" {case['n_probes']:,} random directions." if case["n_probes"] else ""
    return (
        f"Entropy of the next token: {nats_text(case['entropy_nats'])}\u00a0nats. "
        f"{case['n_query_tokens']:,} tokens of the query.{drawn}"
    )


def correlations(row: Summary) -> str | None:
    """What else may explain a Σ's ranks; None where there are too few queries, or all are alike.

    Args:
        row: of `values` of a summary.
    """
    known = [
        f"{rho:.2f} with {what}"
        for name, what in (("length", "the query’s length in tokens"), ("entropy", "the entropy of its next token"))
        if (rho := row[f"spearman_with_{name}"]) is not None
    ]
    if not known:
        return None
    return (
        f"Spearman correlation of sigma {row['sigma']} {' and '.join(known)}: ranks that these explain tell nothing "
        "of contexts."
    )


def by_value(cases: Sequence[Case], number: int) -> list[Case]:
    """The queries, highest value of a Σ first, which is given by its number; ties in their order."""
    return sorted(cases, key=lambda case: -case["values"][number]["fisher_nats"])


def value_text(value: Mapping[str, Any]) -> str:
    """A value and its interval."""
    return f"{nats_text(value['fisher_nats'])} {interval_text(value)}".rstrip()


def mean_text(row: Mapping[str, Any]) -> str:
    """Mean and interval of a row of a summary."""
    return f"{nats_text(row['mean_nats'])} {interval_text(row)}".rstrip()


def settings(cases: Sequence[Case]) -> dict[str, str]:
    """How queries were measured, by the words shown beside them."""
    first = cases[0]
    return {
        "Model": first["model"],
        "Weights (SHA-256)": first["weights_sha256"] or "not recorded",
        "Number type": first["dtype"],
        "Estimator": f"{first['estimator']}, {_method(cases)}",
        "Sigma": ", ".join(first["sigma"]),
        "Place": first["place"],
        "Contexts": f"{first['n_contexts']:,}",
        "Prompt template": first["template"],
        "Seed": str(first["seed"]),
    }


def cost(cases: Sequence[Case]) -> str:
    """Tokens and time, predicted and taken."""
    run, seconds = (sum(case["cost"][name] for case in cases) for name in ("tree_tokens", "seconds"))
    predicted = sum(case["cost"]["predicted"]["tree_tokens"] for case in cases)
    expected = [case["cost"]["predicted"]["seconds"] for case in cases]
    about = "" if None in expected else f" in {words.about_seconds(sum(expected))}"
    return f"{run:,} tokens forward and backward in {seconds:.1f}\u00a0s; predicted {predicted:,}{about}"


def _method(cases: Sequence[Case]) -> str:
    first = cases[0]
    if first["method"] == "top-k":
        return f"top-k of {first['top_k']:,}"
    numbers = sorted({case["n_probes"] for case in cases})
    probes = " to ".join(f"{n:,}" for n in dict.fromkeys((numbers[0], numbers[-1])))
    exact = f" and {first['directions']:,} directions" if first["method"] == "deflated" else ""
    return f"{first['method']} with {probes} probes{exact}"


def _named(value: str, sigma: str) -> str:
    """A number with what it is."""
    return f"{value} (half the trace, sigma {sigma})" if is_rank(sigma) else f"{value}\u00a0nats (sigma {sigma})"


def _queries(n: int) -> str:
    return "one query" if n == 1 else f"{n:,} queries"
