"""Quality of responses: ROUGE-L and BERTScore against what people wrote, FactKB against the context.

Flemings et al., Section 4.1: F1 of ROUGE-L (Lin 2004) and of BERTScore (Zhang et al. 2020) for similarity to the
reference, FactKB (Feng et al. 2023) for faithfulness to the context. All in [0, 1]; tables show them times 100.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from leakmeter.commands.studies.tables import HUNDREDTHS, StudyColumn, StudyColumns
from leakmeter.core.limits import refuse_bad
from leakmeter.core.plain import one_line
from leakmeter.errors import ModelError, UsageError
from leakmeter.stats.stats import interval_of_share
from leakmeter.text.overlap import n_shared_distinct, rouge_l, share_found

_BERTSCORE_LAYERS: Final = {"roberta-large-mnli": 19, "roberta-large": 17}
"""Layer whose embeddings are compared, as the BERTScore authors chose it; for other models the last. The published code
scores with roberta-large-mnli; the paper names no model."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality metrics that need a model."""

    bertscore: str | None = None
    """Encoder for BERTScore: a directory, or a name of the hub such as roberta-large-mnli; not measured by default."""
    bertscore_layer: int | None = None
    """Layer of the encoder; 19 for roberta-large-mnli, 17 for roberta-large, the last for others."""
    factkb: str | None = None
    """Classifier for FactKB: a directory, or a name of the hub such as bunsenfeng/FactKB; not measured by default."""

    @property
    def layer(self) -> int | None:
        return self.bertscore_layer or _BERTSCORE_LAYERS.get(self.bertscore or "")


def rouge_l_f1(responses: Sequence[str], references: Sequence[str]) -> list[float]:
    """F1 of ROUGE-L of each response against its reference, in [0, 1]."""
    return [rouge_l(response, reference).f1 for response, reference in zip(responses, references, strict=True)]


def bertscore_f1(
    responses: Sequence[str], references: Sequence[str], model: str, *, layer: int | None = None
) -> list[float]:
    """F1 of BERTScore of each response against its reference, without idf weights or rescaling, through torchmetrics.

    Embeddings of one layer are compared, the last by default; `model` is a directory, or a name of the hub.
    """
    try:
        from torchmetrics.functional.text.bert import bert_score
    except ImportError:
        raise UsageError("BERTScore needs torchmetrics: pip install 'leakmeter[quality]'") from None

    def score() -> list[float]:
        from leakmeter.backends.hf.judges import load_encoder

        encoder, tokenizer, window = load_encoder(model)
        # One pair at a time: torchmetrics (1.9) sorts responses and references by length, each by their own, and does
        # not put them back in order, so that pairs of a list are compared with each other's references.
        return [
            float(
                bert_score(
                    [response],
                    [reference],
                    model=encoder,
                    user_tokenizer=tokenizer,
                    num_layers=layer,
                    max_length=window,
                    truncation=True,
                    device=encoder.device,
                )["f1"]
            )
            for response, reference in zip(responses, references, strict=True)
        ]

    return _scored(score, model, "BERTScore", "--bertscore")


def factkb(responses: Sequence[str], contexts: Sequence[str], model: str) -> list[float]:
    """Probability, in [0, 1], that FactKB gives to each response's being true to its context.

    Response and context are a pair of texts, the context cut to fit the classifier's window: as FactKB's authors show
    it. The code of Flemings et al. joins the two into one text.
    """
    from leakmeter.backends.hf.judges import class_probabilities

    return _scored(lambda: class_probabilities(model, responses, contexts, label=1), model, "FactKB", "--factkb")


def check_at_hand(model: str, noun: str, option: str) -> None:
    """Refuse what is no directory, is not in the hub's cache, and cannot be fetched."""
    if Path(model).is_dir():
        return
    from huggingface_hub import HfApi, errors, try_to_load_from_cache

    failures: tuple[type[Exception], ...] = (OSError, ValueError, getattr(errors, "HTTPError", OSError))
    try:
        if not isinstance(try_to_load_from_cache(model, "config.json"), str):
            HfApi().model_info(model, timeout=3.0)
    except failures:
        raise ModelError(
            f"{noun} needs the model '{model}', which is not on this machine and could not be fetched from the hub; "
            f"give its directory with {option} DIR"
        ) from None


def _scored(score: Callable[[], T], model: str, noun: str, option: str) -> T:
    check_at_hand(model, noun, option)
    try:
        return score()
    except (OSError, KeyError, ValueError) as error:
        raise ModelError(f"{noun} could not be measured with '{model}': {one_line(error)[:200]}") from error


COLUMNS: Final[StudyColumns] = {
    "repeat_published": StudyColumn("Repeat prompts, as published"),
    "repeat_stated": StudyColumn("Repeat prompts, as stated"),
    "rouge_published": StudyColumn("ROUGE prompts, as published"),
    "rouge_stated": StudyColumn("ROUGE prompts, as stated"),
    "rouge_l_f1": StudyColumn("ROUGE-L F1", HUNDREDTHS),
    "bertscore_f1": StudyColumn("BERTScore F1", HUNDREDTHS),
    "factkb": StudyColumn("FactKB", HUNDREDTHS),
}
COUNTS: Final = tuple(COLUMNS)[:4]


@dataclass(frozen=True, slots=True)
class Regurgitation:
    """Thresholds of the two counts of responses that repeat their context, of Flemings et al., Section 4.2.

    The paper says

    - *Repeat prompts*: "the number of prompts yielding a response with at least half direct tokens from the context";
    - *ROUGE prompts*: "the number of prompts generating responses with a ROUGE-L score over 0.5".

    It does not say what a token is, whether repeated ones count, half of what, or which ROUGE-L. Its published code
    counts differently. Both counts are given: `published`, as in the code: more than 25 distinct words of the response
    are in the context; ROUGE-L recall or precision against the context is over 0.5; `stated`, as in the text: at least
    half of the response's words are; ROUGE-L F1 is over 0.5.

    25 is half of the 50 tokens that a response may have. Words are separated by white space and compared as they stand;
    ROUGE has words of its own (`text.overlap`). A response without words repeats nothing, by either reading.
    """

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
class HitCount:
    hits: int
    n: int
    interval: tuple[float, float]
    """95 % interval of the share behind it, in [0, 1] (Wilson)."""


def counts(responses: Sequence[str], contexts: Sequence[str]) -> dict[str, HitCount]:
    """Repeat and ROUGE prompts among responses, by each of `COUNTS`.

    Contexts are what the model was given; pieces of a context are joined without a separator, as published.
    """
    if not responses or len(responses) != len(contexts):
        raise UsageError(f"{len(responses)} responses and {len(contexts)} contexts; expected one or more of each")
    rule = Regurgitation()
    return tallied([rule.verdicts(response, context) for response, context in zip(responses, contexts, strict=True)])


def tallied(verdicts: Sequence[Mapping[str, bool]]) -> dict[str, HitCount]:
    """How many responses repeat their contexts, by each of `COUNTS`; see `Regurgitation.verdicts`."""
    n, hits = len(verdicts), {name: sum(verdict[name] for verdict in verdicts) for name in COUNTS}
    return {name: HitCount(hits[name], n, interval_of_share(hits[name], n)) for name in COUNTS}
