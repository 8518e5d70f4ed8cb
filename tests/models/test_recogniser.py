"""A recogniser from a directory: a model made here that knows one name, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakmeter.errors import ModelError
from leakmeter.models.recogniser import load_recogniser

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "ada", "vale", "met", "may", "3", "in", ".", "##s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token-classification model of one layer: 'ada vale' is a person, 'may 3' a date, everything else nothing."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("recogniser")
    inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    special = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **special).save_pretrained(path)
    labels = ["O", "B-PER", "I-PER", "DATE"]
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=len(WORDS),
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=24,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1.0)
        # Each word is a direction of its own, and the head reads it.
        model.bert.embeddings.word_embeddings.weight.copy_(torch.eye(len(WORDS)))
        for word, label in (("ada", 1), ("vale", 2), ("may", 3), ("3", 3)):
            model.classifier.weight[label, WORDS.index(word)] = 5.0
        model.classifier.bias[0] = 1.0
    model.save_pretrained(path)
    return path


def test_labels_come_with_places_in_the_text(folder: Path) -> None:
    text = "Ada Vale met Ada in May 3."
    found = [(text[a:b], label) for a, b, label in load_recogniser(str(folder))(text)]
    assert found == [("Ada Vale", "PER"), ("Ada", "PER"), ("May 3", "DATE")]


def test_a_long_text_is_read_in_parts(folder: Path) -> None:
    text = "met in . " * 60 + "Ada Vale\n" + "met " * 700 + "Ada Vales"
    found = [text[a:b] for a, b, _ in load_recogniser(str(folder))(text)]
    # To the end of the word, though the model saw only its beginning.
    assert found == ["Ada Vale", "Ada Vales"]
    assert list(load_recogniser(str(folder))("")) == []


def test_it_is_loaded_once(folder: Path) -> None:
    assert load_recogniser(str(folder)) is load_recogniser(str(folder))


def test_people_without_titles_become_entities(folder: Path) -> None:
    import leakmeter

    result = leakmeter.influence(
        "toy", context="Ada Vale met Bo. Vale left.", query="Who?", response="A", unit="entity", ner=str(folder)
    )
    assert [(piece.name, piece.text) for piece in result.pieces] == [("person1", "Ada Vale … Vale")]


def test_a_model_without_labels_of_its_own_is_refused(tmp_path: Path, folder: Path) -> None:
    import json
    import shutil

    shutil.copytree(folder, tmp_path / "bare")
    config = json.loads((tmp_path / "bare" / "config.json").read_text(encoding="utf-8"))
    for name in ("id2label", "label2id"):
        config.pop(name)
    config["num_labels"] = 4
    (tmp_path / "bare" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match="does not name its labels"):
        load_recogniser(str(tmp_path / "bare"))


def test_what_is_no_recogniser_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    for name in (str(tmp_path), "no_such_pipeline"):
        with pytest.raises(ModelError, match="recogniser") as caught:
            load_recogniser(name)
        assert "\n" not in str(caught.value)


def test_a_spacy_pipeline_from_a_directory(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Ada Vale"}])
    pipeline.to_disk(tmp_path / "pipeline")
    text = "Then Ada Vale left."
    found = [(text[a:b], label) for a, b, label in load_recogniser(str(tmp_path / "pipeline"))(text)]
    assert found == [("Ada Vale", "PERSON")]
