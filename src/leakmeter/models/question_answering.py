"""A question-answering model of transformers from this machine: the stretch of a context that answers a question.

Nothing is fetched: a model is a directory, or `hf:ORG/NAME` where the hub's cache has it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.errors import ModelError
from leakmeter.models import hub, progress_bars
from leakmeter.models.local import check_model_folder
from leakmeter.models.recogniser import from_folder, whole_words

if TYPE_CHECKING:
    import numpy as np

Ask = Callable[[str, str], tuple[str, float]]
"""A question and a context to the answer as the context has it, and the model's confidence in it, from 0 to 1."""

MOST_ANSWER_TOKENS: Final = 15
_WINDOW_TOKENS = 384
_OVERLAP_TOKENS = 128


@functools.cache
def load_answerer(name: str) -> Ask:
    """A model that answers with a stretch of the context; loaded once. The confidence is the probability of the first
    token times that of the last, each a softmax over the tokens of the context and the very first token, which stands
    for no answer. A stretch has at most 15 tokens and is widened to whole words. A long context is read in overlapping
    windows, of which the most confident answer counts. Where the context is empty, or the question fills the window,
    the answer is empty, with confidence 0."""
    progress_bars.import_quietly()
    from transformers import AutoModelForQuestionAnswering

    noun = f"question-answering model '{name}'"
    tokenizer, model, loaded = from_folder(AutoModelForQuestionAnswering, _folder(name), noun)
    if loaded["missing_keys"]:
        raise ModelError(f"'{name}' was not trained to answer questions: it has no weights for the ends of an answer")
    if not tokenizer.is_fast:
        raise ModelError(f"'{name}' has no tokenizer.json, which locates tokens in the text")
    window = min(_WINDOW_TOKENS, getattr(model.config, "max_position_embeddings", _WINDOW_TOKENS) - 2)
    return functools.partial(_answer, tokenizer, model, window)


def _folder(name: str) -> Path:
    if name.startswith(hub.PREFIX):
        folder = hub.cached_snapshot(*hub.split_hub_name(name))
        if folder is None:
            raise ModelError(f"'{name}' is not in the hub's cache, and this command fetches nothing; give a directory")
        return folder
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ModelError(f"question-answering model '{name}' is not a directory; give one, or hf:ORG/NAME")
    check_model_folder(folder, name)
    return folder


def _answer(tokenizer: Any, model: Any, window: int, question: str, context: str) -> tuple[str, float]:
    import torch

    # Texts are data: what looks like a special token is read as the characters it is made of.
    n_question = len(tokenizer(question, add_special_tokens=False, split_special_tokens=True)["input_ids"])
    room = window - n_question - tokenizer.num_special_tokens_to_add(pair=True)
    if room < 2 or not context.strip():
        return "", 0.0
    coded = tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=window,
        stride=min(_OVERLAP_TOKENS, room // 2),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        split_special_tokens=True,
    )
    best = "", 0.0
    for number in range(len(coded["input_ids"])):
        inputs = {
            key: torch.tensor([coded[key][number]])
            for key in ("input_ids", "attention_mask", "token_type_ids")
            if key in coded
        }
        with torch.inference_mode():
            out = model(**inputs)
        allowed = [sequence == 1 for sequence in coded.sequence_ids(number)]
        first, last, confidence = best_span(
            out.start_logits[0].double().numpy(), out.end_logits[0].double().numpy(), allowed
        )
        if confidence > best[1]:
            offsets = coded["offset_mapping"][number]
            start, end = whole_words(context, offsets[first][0], offsets[last][1])
            best = context[start:end].strip(), confidence
    return best


def best_span(start_logits: np.ndarray, end_logits: np.ndarray, allowed: list[bool]) -> tuple[int, int, float]:
    """The most probable stretch of tokens, first and last, and its probability; (0, 0, 0.0) where none is allowed.
    Logits are (token,); the token at 0 counts in the softmax and is no answer."""
    import numpy as np
    from scipy.special import softmax

    counted = np.asarray(allowed, dtype=bool)
    if not counted.any():
        return 0, 0, 0.0
    counted[0] = True
    starts, ends = (softmax(np.where(counted, logits, -np.inf)) for logits in (start_logits, end_logits))
    starts[0] = ends[0] = 0.0
    pairs = np.triu(starts[:, None] * ends[None, :])
    pairs -= np.triu(pairs, MOST_ANSWER_TOKENS)
    first, last = np.unravel_index(int(pairs.argmax()), pairs.shape)
    return int(first), int(last), float(pairs[first, last])
