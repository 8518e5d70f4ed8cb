"""Models that judge texts rather than write them: an encoder, and a classifier of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from leakmeter.backends.hf.load import without_bars
from leakmeter.errors import ModelError
from leakmeter.models.local import check_loaded

_BATCH = 16


def load_encoder(model: str) -> tuple[Any, Any, int]:
    """An encoder, its tokenizer, and the most tokens a text may have."""
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    encoder = _loaded(AutoModel, model)
    return encoder, tokenizer, _window(encoder)


def class_probabilities(model: str, firsts: Sequence[str], seconds: Sequence[str], *, label: int) -> list[float]:
    """Probability in [0, 1] of a class for each pair of texts: the first is kept whole, the second cut to what the
    model's window leaves. The model is a directory, or a name of the hub."""
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    classifier = _loaded(AutoModelForSequenceClassification, model)
    if not 0 <= label < classifier.config.num_labels:
        raise ModelError(f"'{model}' has {classifier.config.num_labels} classes; expected one numbered {label}")
    out: list[float] = []
    for start in range(0, len(firsts), _BATCH):
        batch = tokenizer(
            list(firsts[start : start + _BATCH]),
            list(seconds[start : start + _BATCH]),
            truncation="only_second",
            max_length=_window(classifier),
            padding=True,
            return_tensors="pt",
        ).to(classifier.device)
        with torch.inference_mode():
            logits = classifier(**batch).logits  # (pair, class)
        out += torch.softmax(logits.double(), dim=-1)[:, label].tolist()
    return out


def _loaded(kind: Any, model: str) -> Any:
    """A model of one of the library's kinds; without a pooler where the files have none, which no score reads.
    `ModelError` where a file lacks weights that would then be random; `OSError` where there are pickled weights
    alone."""
    with without_bars():
        loaded, report = kind.from_pretrained(
            model, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    missing = {key for key in report["missing_keys"] if not key.startswith("pooler.")}
    check_loaded(model, {**report, "missing_keys": missing, "unexpected_keys": ()})
    return loaded.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _window(model: Any) -> int:
    # RoBERTa counts positions from 2, so that two of them are never used.
    return min(int(model.config.max_position_embeddings) - 2, 512)
