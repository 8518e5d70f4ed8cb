"""The terms of reports, each in one line, and where a report says them first.

Only words of the program are looked at: a user's text explains nothing. A term is found by its pattern and told once a
report: a terminal tells it behind the block that says it first, a page with all that explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from leakmeter.report import blocks as b


@dataclass(frozen=True, slots=True)
class Term:
    name: str
    pattern: str
    """Where a report says it; a word that is common besides is matched only as it stands in a heading."""
    gloss: str
    """One line, a sentence without its subject."""


TERMS: Final = (
    Term("nat", r"\bnats?\b", "unit of log-probability; 1 nat more multiplies odds by 2.7, 3 nats by 20"),
    Term(
        "noise floor",
        r"[Nn]oise floor|[Bb]elow noise|<\u00a0noise",
        "the effect of rounding alone; ignore values at or below it",
    ),
    Term(
        "placebo",
        r"[Pp]lacebo",
        "the effect of an irrelevant text in the same place; ignore values at or below it",
    ),
    Term(
        "posterior", r"[Pp]osterior", "an observer’s probability that it was there, from even odds and the signed sum"
    ),
    Term("without it", r"\bWithout it\b", "Σ|τ|, by how much the response’s log-probabilities move when it is ablated"),
    Term("signed", r"\bSigned\b(?!-)", "the same sum with signs; above 0, the piece made the response likelier"),
    Term("alone", r"\bAlone\b|“alone”", "how far the response moves when the piece is the only context"),
    Term("surrogate", r"[Ss]urrogate", "an invented value of the same kind that replaces the true one"),
    Term("decoy", r"\b[Dd]ecoys?\b", "an invented value of the same form, as plausible as the true one"),
    Term("by the answer", r"\bBy the answers?\b", "|log-ratio| of the label answered with the exemplar and without"),
    Term("worst case", r"\b[Ww]orst case\b", "the largest |log-ratio| of any label, however unlikely"),
    Term("ICLInf", r"\bICLInf\b", "mean over queries of the worst case over their exemplars"),
    Term(
        "association",
        r"[Aa]ssociation",
        "log-likelihood of a value after the name minus that after invented control names",
    ),
    Term(
        "p",
        r"(?<!Wilcoxon )\bp [=<≤] |^p$",
        "share of what it is compared with, itself included, that ranks as high",
    ),
    Term("exposure", r"\b[Ee]xposure\b", "log₂ of the number of values over the true one’s rank, bits"),
    Term(
        "susceptibility", r"(?<!Fisher )[Ss]usceptibility", "mean persuasion: how much an answer reveals of its context"
    ),
    Term(
        "persuasion", r"[Pp]ersuasion", "of a context: KL divergence of its answer from the mixture over all contexts"
    ),
    Term("from bare", r"\bFrom bare\b", "KL divergence from the answer with nothing before the query"),
    Term("Fisher susceptibility", r"Fisher susceptibility", "how fast an answer begins to move, from gradients"),
    Term("spread", r"\bSpread\b", "½ tr(I Σ), to second order the mutual information of context and answer"),
    Term("drift", r"\bDrift\b", "½ μᵀ I μ, to second order how far the mixture over contexts is from the bare answer"),
    Term(
        "memorisation ratio",
        r"Memorisation ratio",
        "share of answers that keep to what the model knew, among those that give either",
    ),
    Term(
        "Rényi divergence",
        r"Rényi",
        "how far leaving out what is protected (one exemplar, or the context) moves the next token’s distribution, by "
        "order",
    ),
    Term("perplexity", r"[Pp]erplexity", "e to the mean of −log p of the tokens, without exemplars"),
    Term("λ", "λ", "weight of the context in the distribution drawn from: 0 ignores it, 1 is the model itself"),
    Term("ε", "ε", "a bound, in nats: leaving out what is protected changes each probability by at most a factor e^ε"),
)
_PATTERNS: Final = {term.name: re.compile(term.pattern) for term in TERMS}


def explaining(blocks: Sequence[b.Block]) -> Iterator[tuple[b.Block, list[Term]]]:
    """Each block with the terms that it, or a block within it, is the first to say."""
    explained: set[str] = set()
    for block in blocks:
        yield block, [term for inner in b.walk([block]) for term in first_said(words(inner), explained)]


def first_said(texts: Iterable[str], explained: set[str]) -> list[Term]:
    """The terms in texts of the program that were not explained before; they are added to `explained`."""
    text = "\n".join(texts)
    terms = [term for term in TERMS if term.name not in explained and _PATTERNS[term.name].search(text)]
    explained.update(term.name for term in terms)
    return terms


def of_page(report: b.Report) -> list[Term]:
    """The terms that a page says: in its blocks, in the lines of its cases, and in what these open."""
    heads = (word for column in report.index for word in _own(column.title))
    # Cases of a report are alike: the first few say what all do.
    opened = (block for section in b.ranked(report)[:3] for block in section.blocks)
    blocks = b.walk([*b.blocks_of(report), *opened])
    return first_said((*heads, *(word for block in blocks for word in words(block))), set())


def words(block: b.Block) -> Iterator[str]:
    """The program's own words in a block, without those of the blocks within it."""
    match block:
        case b.Headline(text) | b.Warning(text):
            yield from _own(text)
        case b.Text(text, _, heading):
            yield from (*_own(heading), *_own(text))
        case b.Advice(rows):
            yield from (word for row in rows for phrase in row for word in _own(phrase))
        case b.Facts(facts):
            yield from (
                word for name, value in facts for phrase in (name, b.fact_phrase(value)) for word in _own(phrase)
            )
        case b.Table():
            yield from _own(block.caption)
            yield from (word for column in block.columns for word in _own(column.title))
            yield from (mark.name for mark in block.marks)
        case b.ShadedText():
            yield from _own(block.heading)
        case b.Chart(_, title, panels, footer):
            yield from (title, footer)
            yield from (guide.label for panel in panels for guide in panel.guides)
            yield from (word for panel in panels for axis in (panel.x, panel.y) for word in _own(axis.title))
        case _:
            return


def _own(phrase: b.Phrase) -> Iterator[str]:
    return (part for part in b.parts(phrase) if isinstance(part, str))
