"""A named-entity recogniser from this machine: a token-classification model of transformers, or a spaCy pipeline.

Nothing is fetched: a recogniser is a directory, or the name of a spaCy pipeline that is installed as a package.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from leakmeter.core.record import JsonObject
from leakmeter.errors import ModelError
from leakmeter.models import progress_bars
from leakmeter.models.cache import settings_hash, weights_hash
from leakmeter.models.local import FROM_DISK, WEIGHTS_FROM_DISK, check_loaded, check_model_folder

Recognise = Callable[[str], Iterable[tuple[int, int, str]]]
"""A text to characters [start, end) and labels."""

_WINDOW_TOKENS = 510  # what most encoders were trained on, less two special tokens
_WINDOW_CHARACTERS = 2000


@functools.cache
def load_recogniser(name: str) -> Recognise:
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return _transformers(folder)
    try:
        import spacy
    except ImportError:
        raise ModelError(
            f"recogniser '{name}' is not a directory with a token-classification model of transformers; for a spaCy "
            "pipeline, install spaCy: pip install 'leakmeter[ner]', then python -m spacy download "
            "en_core_web_sm"
        ) from None
    try:
        pipeline = spacy.load(folder if folder.is_dir() else name)
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(f"recogniser '{name}' cannot be loaded: {str(error).split(chr(10))[0]}") from None

    def entities(text: str) -> Iterator[tuple[int, int, str]]:
        return ((entity.start_char, entity.end_char, entity.label_) for entity in pipeline(text).ents)

    return _in_stretches(entities, pipeline.max_length)


def recogniser_fingerprint(name: str) -> str:
    """What tells a recogniser from another of the same name: a hash of a directory's files, a package's version."""
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return f"{weights_hash(folder)} {settings_hash(folder)}"
    if folder.is_dir():
        return settings_hash(folder, recursive=True)
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name


def _transformers(folder: Path) -> Recognise:
    progress_bars.import_quietly()
    import torch
    from transformers import AutoModelForTokenClassification

    check_model_folder(folder, str(folder))
    tokenizer, model, loaded = from_folder(
        AutoModelForTokenClassification, folder, f"recogniser '{folder}'", ignore_mismatched_sizes=True
    )
    # Poolers of other tasks may be left in the files.
    check_loaded(str(folder), {**loaded, "unexpected_keys": ()})
    if not tokenizer.is_fast:
        raise ModelError(f"recogniser '{folder}' has no tokenizer.json, which locates tokens in the text")
    labels = {int(number): str(label) for number, label in model.config.id2label.items()}
    if all(re.fullmatch(r"LABEL_\d+", label) for label in labels.values()):
        raise ModelError(f"recogniser '{folder}' does not name its labels, so it was not trained to recognise anything")
    window = min(_WINDOW_TOKENS, getattr(model.config, "max_position_embeddings", _WINDOW_TOKENS) - 2)

    def classify(text: str) -> Iterator[tuple[int, int, str]]:
        coded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt", truncation=False)
        offsets = coded.pop("offset_mapping")[0].tolist()
        if len(offsets) > window + 2 and len(text) > 1:
            middle = _cut(text, 0, len(text) // 2)
            yield from classify(text[:middle])
            yield from ((middle + start, middle + end, label) for start, end, label in classify(text[middle:]))
            return
        with torch.inference_mode():
            best = model(**coded).logits[0].argmax(dim=-1).tolist()
        yield from _runs(text, offsets, [labels[number] for number in best])

    return _in_stretches(classify, _WINDOW_CHARACTERS)


def from_folder(kind: Any, folder: Path, noun: str, **options: bool) -> tuple[Any, Any, JsonObject]:
    """Tokenizer and model of one of the transformers library's kinds, without network, pickles or code of the model's
    own, and what the library says about the weights."""
    progress_bars.import_quietly()
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **FROM_DISK)
        model, loaded = kind.from_pretrained(folder, **WEIGHTS_FROM_DISK, **options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{noun} cannot be loaded: {str(error).split(chr(10))[0]}") from None
    return tokenizer, model.eval(), loaded


def _runs(text: str, offsets: list[list[int]], labels: list[str]) -> Iterator[tuple[int, int, str]]:
    run: tuple[int, int, str] | None = None
    for (start, end), label in zip(offsets, labels, strict=True):
        if start == end:
            continue
        place, _, kind = label.rpartition("-") if label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-") else ("", "", label)
        # 'B' begins another entity, unless it stands within a word.
        begins = place in ("B", "S", "U") and not (run and start == run[1] and text[start].isalnum())
        if run and (kind != run[2] or begins or text[run[1] : start].strip()):
            yield (*whole_words(text, run[0], run[1]), run[2])
            run = None
        if kind not in ("O", ""):
            run = (run[0] if run else start, end, kind)
    if run:
        yield (*whole_words(text, run[0], run[1]), run[2])


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters [start, end) out to the ends of the words that they cut."""
    while start and text[start].isalnum() and text[start - 1].isalnum():
        start -= 1
    while 0 < end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return start, end


def _in_stretches(recognise: Recognise, n_characters: int) -> Recognise:
    """Recognise in parts of a text of at most so many characters, cut at a line's end or between words if possible."""

    def recognise_all(text: str) -> Iterator[tuple[int, int, str]]:
        start = 0
        while start < len(text):
            end = _cut(text, start, start + n_characters) if len(text) - start > n_characters else len(text)
            yield from ((start + a, start + b, label) for a, b, label in recognise(text[start:end]))
            start = end

    return recognise_all


def _cut(text: str, start: int, at: int) -> int:
    """The last line's end, or else space, before a place; the place itself where there is none."""
    for mark in ("\n", " "):
        place = text.rfind(mark, start + 1, at)
        if place > start:
            return place + 1
    return at
