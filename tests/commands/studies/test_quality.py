"""Quality of responses: measures that need a model, and repeat and ROUGE prompts against the obvious way."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.commands.studies import quality
from leakmeter.commands.studies.quality import COUNTS, Quality, Regurgitation, counts, tallied
from leakmeter.errors import ModelError, UsageError

RESPONSES = ["anna sang in the hall", "bo", "a cat sat on the mat and slept for hours", "zz zz"]
REFERENCES = ["anna sings", "bo ate soup in the rain today", "a dog", "q w e r t y"]


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Directories of a tiny encoder and of a tiny classifier."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(words), max_position_embeddings=64, **shape)
    out = []
    for kind in (BertModel, BertForSequenceClassification):
        folder = tmp_path_factory.mktemp(kind.__name__)
        kind(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        out.append(str(folder))
    return out[0], out[1]


def test_bertscore_by_hand(judges: tuple[str, str]) -> None:
    """Greedy matching of the encoder's hidden states, special tokens left out.

    Each response against its own reference: lengths in different orders, which a sort of each side would pair wrongly.
    """
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(judges[0]), AutoModel.from_pretrained(judges[0]).eval()

    def unit(text: str, layer: int) -> Any:
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0]
        return torch.nn.functional.normalize(states[1:-1], dim=-1)

    for layer in (None, 1):
        found = quality.bertscore_f1(RESPONSES, REFERENCES, judges[0], layer=layer)
        for response, reference, value in zip(RESPONSES, REFERENCES, found, strict=True):
            similar = unit(response, layer or -1) @ unit(reference, layer or -1).T
            precision, recall = similar.amax(1).mean(), similar.amax(0).mean()
            assert value == pytest.approx(float(2 * precision * recall / (precision + recall)), abs=1e-5)
    assert quality.bertscore_f1(RESPONSES, RESPONSES, judges[0]) == pytest.approx([1.0] * 4, abs=1e-5)
    with pytest.raises(ModelError, match=r"BERTScore could not be measured with .* num_layers=7 is forbidden"):
        quality.bertscore_f1(RESPONSES, REFERENCES, judges[0], layer=7)


def test_factkb_is_a_probability_of_each_pair(judges: tuple[str, str]) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    found = quality.factkb(RESPONSES, REFERENCES, judges[1])
    tokenizer = AutoTokenizer.from_pretrained(judges[1])
    model = AutoModelForSequenceClassification.from_pretrained(judges[1]).eval()
    for response, context, value in zip(RESPONSES, REFERENCES, found, strict=True):
        with torch.inference_mode():
            logits = model(**tokenizer(response, context, return_tensors="pt")).logits
        assert value == pytest.approx(float(logits.softmax(-1)[0, 1]), abs=1e-5)
    # A long context is cut, a response is not.
    assert len(quality.factkb(RESPONSES, ["anna " * 500] * 4, judges[1])) == 4


@pytest.mark.parametrize(("what", "option"), [("BERTScore", "--bertscore"), ("FactKB", "--factkb")])
def test_a_model_that_is_not_at_hand_is_one_line(what: str, option: str) -> None:
    with pytest.raises(ModelError) as ended:
        quality.check_at_hand("nobody/no-such-model", what, option)
    said = str(ended.value)
    assert said.startswith(f"{what} needs the model 'nobody/no-such-model', which is not on this machine")
    assert said.endswith(f"give its directory with {option} DIR")


def test_a_directory_that_holds_no_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="FactKB could not be measured with") as ended:
        quality.factkb(["a"], ["b"], str(tmp_path))
    assert "\n" not in str(ended.value)


def test_torchmetrics_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torchmetrics.functional.text.bert", None)
    with pytest.raises(UsageError, match=r"BERTScore needs torchmetrics: pip install 'leakmeter\[quality\]'"):
        quality.bertscore_f1(["a"], ["a"], "anything")


def test_layers_are_those_of_the_bertscore_authors() -> None:
    assert Quality(bertscore="roberta-large-mnli").layer == 19
    assert Quality(bertscore="roberta-large-mnli", bertscore_layer=3).layer == 3
    assert Quality(bertscore="some/other").layer is None


texts = st.lists(st.sampled_from(["a", "b,", "B", "c.", "d", "e"]), max_size=30).map(" ".join)


def obvious(response: str, context: str, words: int, share: float, rouge: float) -> dict[str, bool]:
    ours, theirs = response.split(), context.split()
    distinct = [word for i, word in enumerate(ours) if word in theirs and word not in ours[:i]]
    common = [word for word in ours if word in theirs]
    a, b = (re.findall(r"[a-z0-9]+", text.lower()) for text in (response, context))
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, one in enumerate(a, 1):
        for j, other in enumerate(b, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if one == other else max(table[i - 1][j], table[i][j - 1])
    length = table[-1][-1]
    precision, recall = (length / len(part) if part else 0.0 for part in (a, b))
    f1 = 2 * precision * recall / (precision + recall) if length else 0.0
    return {
        "repeat_published": len(distinct) > words,
        "repeat_stated": bool(ours) and len(common) / len(ours) >= share,
        "rouge_published": recall > rouge or precision > rouge,
        "rouge_stated": f1 > rouge,
    }


@given(texts, texts, st.integers(0, 6), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 0.75]))
def test_verdicts_agree_with_the_obvious_way(
    response: str, context: str, words: int, share: float, rouge: float
) -> None:
    rule = Regurgitation(repeat_words=words, repeat_share=share, rouge=rouge)
    assert rule.verdicts(response, context) == obvious(response, context, words, share, rouge)


def test_the_papers_thresholds_are_the_defaults() -> None:
    words = [f"w{i}" for i in range(40)]
    context = " ".join(words)
    rule = Regurgitation()
    # More than 25 distinct words, each counted once.
    assert not rule.verdicts(" ".join(words[:25] * 2), context)["repeat_published"]
    assert rule.verdicts(" ".join(words[:26]), context)["repeat_published"]
    # At least half of the response's words.
    assert rule.verdicts("w1 w2 x y", context)["repeat_stated"]
    assert not rule.verdicts("w1 w2 x y z", context)["repeat_stated"]
    # Over 0.5, by precision as published; F1 is far below for so short a response.
    assert rule.verdicts("w1 w2 x", context)["rouge_published"]
    assert not rule.verdicts("w1 w2 x y", context)["rouge_published"]
    assert not rule.verdicts("w1 w2 x", context)["rouge_stated"]
    assert rule.verdicts("", context) == dict.fromkeys(COUNTS, False)


def test_counts_are_sums_of_verdicts() -> None:
    rng = random.Random(0)
    words = [f"w{i}" for i in range(60)]
    responses = [" ".join(rng.choices(words, k=40)) for _ in range(30)]
    contexts = [" ".join(rng.choices(words[: rng.randint(5, 60)], k=200)) for _ in range(30)]
    found = counts(responses, contexts)
    for name in COUNTS:
        hits = sum(obvious(r, c, 25, 0.5, 0.5)[name] for r, c in zip(responses, contexts, strict=True))
        assert (found[name].hits, found[name].n) == (hits, 30)
    assert 0 < found["repeat_published"].hits < 30
    halves = tallied([dict.fromkeys(COUNTS, True), dict.fromkeys(COUNTS, False)])
    assert halves["rouge_stated"].interval == pytest.approx((0.0945, 0.9055), abs=1e-4)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(UsageError, match="0 responses and 0 contexts"):
        counts([], [])
    with pytest.raises(UsageError, match="1 responses and 2 contexts"):
        counts(["a"], ["a", "b"])
    with pytest.raises(UsageError, match=r"repeat-share is 1\.5; it has to be from 0 to 1"):
        Regurgitation(repeat_share=1.5)
    with pytest.raises(UsageError, match="repeat-words is -1"):
        Regurgitation(repeat_words=-1)
