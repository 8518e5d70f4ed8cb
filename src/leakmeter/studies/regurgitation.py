"""Input regurgitation: how many responses repeat their context, by the two counts of Flemings et al., Section 4.2.

The paper says

- *Repeat prompts*: "the number of prompts yielding a response with at least half direct tokens from the context";
- *ROUGE prompts*: "the number of prompts generating responses with a ROUGE-L score over 0.5".

It does not say what a token is, whether repeated ones count, half of what, or which ROUGE-L. Its published code does,
and counts otherwise. Both measurements are given, by name:

| | `published`, as the code counts | `stated`, as the text says |
| --- | --- | --- |
| Repeat | more than 25 distinct words of the response stand in the context | at least half of the response's words do |
| ROUGE | ROUGE-L recall or precision against the context over 0.5 | ROUGE-L F1 over 0.5 |

25 is half of the 50 tokens that a response may have. Words are separated by white space and compared as they stand;
ROUGE has words of its own (`text.overlap`). A response without words repeats nothing, by either reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakmeter.core.limits import refuse_bad
from leakmeter.errors import UsageError
from leakmeter.stats.stats import interval_of_share
from leakmeter.text.overlap import n_shared_distinct, rouge_l, share_found

COUNTS = ("repeat_published", "repeat_stated", "rouge_published", "rouge_stated")


@dataclass(frozen=True, slots=True)
class Regurgitation:
    """Thresholds of the counts."""

    repeat_words: int = 25
    """A repeat prompt, as published: more distinct words than this shared with the context."""
    repeat_share: float = 0.5
    """A repeat prompt, as stated: at least this share of the response's words stand in the context."""
    rouge: float = 0.5
    """A ROUGE prompt: ROUGE-L recall or precision (as published), or F1 (as stated), over this."""

    def __post_init__(self) -> None:
        refuse_bad(
            (self.repeat_words >= 0, "repeat-words", self.repeat_words, "0 or more"),
            (0.0 <= self.repeat_share <= 1.0, "repeat-share", self.repeat_share, "from 0 to 1"),
            (0.0 <= self.rouge <= 1.0, "rouge", self.rouge, "from 0 to 1"),
        )

    def verdicts(self, response: str, context: str) -> dict[str, bool]:
        """Whether a response repeats its context, by each of `COUNTS`."""
        share, score = share_found(response, context), rouge_l(response, context)
        return {
            "repeat_published": n_shared_distinct(response, context) > self.repeat_words,
            # NaN, of a response without words, is no share at all.
            "repeat_stated": share >= self.repeat_share,
            "rouge_published": score.recall > self.rouge or score.precision > self.rouge,
            "rouge_stated": score.f1 > self.rouge,
        }


@dataclass(frozen=True, slots=True)
class Count:
    """So many of so many."""

    hits: int
    n: int
    interval: tuple[float, float]
    """95 % interval of the share behind it, in [0, 1] (Wilson)."""


def counted(verdicts: Sequence[bool]) -> Count:
    hits = sum(verdicts)
    return Count(hits, len(verdicts), interval_of_share(hits, len(verdicts)))


def counts(
    responses: Sequence[str], contexts: Sequence[str], thresholds: Regurgitation | None = None
) -> dict[str, Count]:
    """Repeat and ROUGE prompts among responses, by each of `COUNTS`.

    Contexts are what the model was given; pieces of a context are joined without a separator, as published.
    """
    if not responses or len(responses) != len(contexts):
        raise UsageError(f"{len(responses)} responses and {len(contexts)} contexts; expected one or more of each")
    rule = thresholds or Regurgitation()
    verdicts = [rule.verdicts(response, context) for response, context in zip(responses, contexts, strict=True)]
    return {name: counted([verdict[name] for verdict in verdicts]) for name in COUNTS}
