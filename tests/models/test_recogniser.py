"""A recogniser from a directory: a model made here that knows one name, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from leakmeter.errors import ModelError
from leakmeter.models.recogniser import load_recogniser

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "ada", "vale", "met", "may", "3", "in", ".", "##s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, word_model: Any) -> Path:
    """'ada vale' is a person, 'may 3' a date, everything else nothing."""
    path = tmp_path_factory.mktemp("recogniser")
    labels = ["O", "B-PER", "I-PER", "DATE"]
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    model = word_model(path, "BertForTokenClassification", WORDS, None, 24, **names)
    for word, label in (("ada", 1), ("vale", 2), ("may", 3), ("3", 3)):
        model.classifier.weight.data[label, WORDS.index(word)] = 5.0
    model.classifier.bias.data[0] = 1.0
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
    assert load_recogniser(str(folder)) is load_recogniser(str(folder))


def test_people_without_titles_become_entities(folder: Path) -> None:
    result = leakmeter.influence(
        "toy", context="Ada Vale met Bo. Vale left.", query="Who?", response="A", unit="entity", ner=str(folder)
    )
    assert [(piece.name, piece.text) for piece in result.pieces] == [("person1", "Ada Vale … Vale")]


def test_what_is_no_recogniser_is_one_line(tmp_path: Path, folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name in ("id2label", "label2id"):
        config.pop(name)
    shutil.copytree(folder, tmp_path / "bare")
    (tmp_path / "bare" / "config.json").write_text(json.dumps({**config, "num_labels": 4}), encoding="utf-8")
    with pytest.raises(ModelError, match="does not name its labels"):
        load_recogniser(str(tmp_path / "bare"))
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
