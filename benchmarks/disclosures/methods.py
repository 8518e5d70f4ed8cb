"""Ways to say which words of an answer give something away of its documents, each with a score: more is surer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import regex

from benchmarks.base import UnavailableError
from benchmarks.disclosures.corpus import Example
from leakmeter.core.case import Case, Document
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.text.build import PromptSettings
from leakmeter.text.entities import values

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:[.@/+=_'’-][\p{L}\p{M}\p{N}]+)*")
_SENTENCE = regex.compile(r"[^.!?…]+(?:[.!?…]+(?=\s|\Z)|[.!?…](?!\s)[^.!?…]*)*")
N_ABLATIONS: Final = 32
"""Of context-cite; its own default is 64."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A stretch of an answer that a method calls given away."""

    start: int
    end: int
    score: float
    is_named: bool = True
    """Whether it is called personal or secret; False where the method only says that it comes from the documents."""


Method = Callable[[Example], list[Predicted]]


def ours(results: dict[str, InfluenceResult]) -> Method:
    """Disclosures of results of `influence` by case, by their nats."""

    def predict(example: Example) -> list[Predicted]:
        result = results[example.id]
        # A space before the answer is the template's.
        shift = len(result.response.text) - len(example.answer)
        return [
            Predicted(max(d.start - shift, 0), d.end - shift, max(d.nats, 0.0), d.is_sensitive)
            for d in result.disclosed
            if d.is_sensitive or d.relation != "copied"
        ]

    return predict


def string_overlap(example: Example) -> list[Predicted]:
    """The longest runs of words of the answer that a document has too, by their number of letters and digits."""
    words = [(match.group().casefold(), match.start(), match.end()) for match in _WORD.finditer(example.answer)]
    runs = {
        tuple(document[i : i + n])
        for text in example.documents
        for document in [[match.group().casefold() for match in _WORD.finditer(text)]]
        for n in range(1, len(words) + 1)
        for i in range(len(document) - n + 1)
    }
    predicted: list[Predicted] = []
    at = 0
    while at < len(words):
        n = next((n for n in range(len(words) - at, 0, -1) if tuple(w for w, _, _ in words[at : at + n]) in runs), 0)
        if n:
            predicted.append(
                Predicted(words[at][1], words[at + n - 1][2], sum(len(w) for w, _, _ in words[at : at + n]))
            )
        at += max(n, 1)
    return predicted


def shapes_alone(example: Example) -> list[Predicted]:
    """The recognisers and shapes that ours uses, without any score of a model; they have no threshold."""
    found = values.find(example.answer, "\n\n".join(example.documents), example.query, region="US")
    return [Predicted(value.start, value.end, 1.0) for value in found]


def presidio() -> Method:
    """Presidio's analyzer in the language of each answer, with spaCy's small models, by its own scores."""
    try:
        analyzer = importlib.import_module("presidio_analyzer")
        # By its folder: Presidio would fetch a package of another name.
        package = Path(str(importlib.import_module("en_core_web_sm").__file__)).parent
        model = next(package.glob("*-[0-9]*"), package)
        nlp = importlib.import_module("presidio_analyzer.nlp_engine")
        engine = nlp.NlpEngineProvider(
            nlp_configuration={
                "nlp_engine_name": "spacy",
                "models": [{"lang_code": "en", "model_name": str(model)}],
            }
        ).create_engine()
        analyze = analyzer.AnalyzerEngine(nlp_engine=engine, supported_languages=["en"]).analyze
    except (ImportError, OSError, SystemExit) as error:
        raise UnavailableError(f"presidio-analyzer or its models are not installed: {error}") from None

    def predict(example: Example) -> list[Predicted]:
        # The recognisers of English are asked of every language: those of others need models of theirs.
        return [Predicted(r.start, r.end, r.score) for r in analyze(text=example.answer, language="en")]

    return predict


def context_cite(backend: Any, n_ablations: int = N_ABLATIONS) -> Method:
    """ContextCite's weights of sentences for each sentence of the answer, which is called given away by the largest.

    Log-probabilities under its random masks are of our engine, which agrees with its own; the regression on log-odds
    is its own code.
    """
    try:
        solver = importlib.import_module("context_cite.solver").LassoRegression()
        utils = importlib.import_module("context_cite.utils")
    except ImportError as error:
        raise UnavailableError(f"context-cite is not installed: {error}") from None

    def predict(example: Example) -> list[Predicted]:
        case = Case(
            example.id,
            tuple(Document(f"{i + 1}", text) for i, text in enumerate(example.documents)),
            example.query,
            example.answer,
        )
        prepared = PromptSettings(unit="sentence").prepare(case, backend, _Nothing())
        item = prepared.item
        names = [span.name for span in item.spans if span.kind == "unit"]
        masks = np.array([utils._create_mask(len(names), 0.5, seed) for seed in range(n_ablations)])
        prompts = [
            item.without([name for name, kept in zip(names, mask, strict=True) if not kept])
            if mask.any()
            else item.blank
            for mask in masks
        ]
        (scores,) = backend.score(chunk_of([Request(tuple(prompts), item.response, TargetLogProbs())]))
        return list(_by_sentence(example, item.response, backend, masks, _log_odds(scores.values), solver))

    return predict


class _Nothing:
    """A measure that draws nothing."""

    samples = 1
    max_new_tokens = 0


def _by_sentence(
    example: Example, response: Sequence[int], backend: Any, masks: Any, log_odds: Any, solver: Any
) -> Iterator[Predicted]:
    ends = [len(backend.tokenizer.decode(response[: i + 1])) for i in range(len(response))]
    shift = ends[-1] - len(example.answer)
    for match in _SENTENCE.finditer(example.answer):
        inside = [i for i, end in enumerate(ends) if match.start() < end - shift <= match.end()]
        if inside:
            # As context-cite sums a selection: log p = Σ log σ(log-odds), and back to log-odds.
            target = _log_odds(-np.logaddexp(0.0, -log_odds[:, inside]).sum(axis=1))
            weights, _ = solver.fit(masks, target, len(inside))
            yield Predicted(match.start(), match.end(), float(np.max(weights)) * len(inside))


def _log_odds(log_probs: Any) -> Any:
    return log_probs - np.log1p(-np.exp(np.minimum(log_probs, -1e-12)))
