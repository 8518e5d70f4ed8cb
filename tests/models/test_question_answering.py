"""A question-answering model from a directory: one made here that knows an answer, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakmeter.errors import ModelError
from leakmeter.models.question_answering import MOST_ANSWER_TOKENS, best_span, load_answerer

WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "is", "the", "father", "of", "ada", "vale", "tobias"),
    *("met", "in", "?", ".", ",", "'", "s", "[", "]", "sep", "##s"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, word_model: Any) -> Path:
    """An answer begins with 'tobias' and ends with 'vale'."""
    path = tmp_path_factory.mktemp("answerer")
    model = word_model(path, "BertForQuestionAnswering", WORDS, "[CLS] $A [SEP] $B:1 [SEP]:1", 32)
    model.qa_outputs.weight.data[0, WORDS.index("tobias")] = 4.0
    model.qa_outputs.weight.data[1, WORDS.index("vale")] = 4.0
    model.save_pretrained(path)
    return path


def test_the_answer_is_a_stretch_of_the_context(folder: Path) -> None:
    ask = load_answerer(str(folder))
    answer, confidence = ask("Who is the father of Ada Vale?", "Ada met Tobias Vales, in the met.")
    # To the end of the word, though the model saw only its beginning.
    assert answer == "Tobias Vales"
    assert confidence > 0.9
    assert load_answerer(str(folder)) is ask


def test_where_nothing_answers_the_confidence_is_low(folder: Path) -> None:
    ask = load_answerer(str(folder))
    assert ask("Who is the father of Ada Vale?", "met in the met")[1] < 0.1
    assert ask("Who?", " ") == ("", 0.0)
    assert ask("who " * 100, "Tobias Vale") == ("", 0.0)


def test_a_long_context_is_read_in_windows(folder: Path) -> None:
    ask = load_answerer(str(folder))
    for n in range(40, 60):
        assert ask("Who is the father?", "met in . " * n + "Tobias Vale" + " met in ." * n)[0] == "Tobias Vale"


def test_special_tokens_in_texts_are_characters(folder: Path) -> None:
    ask = load_answerer(str(folder))
    answer, confidence = ask("Who [SEP] is [PAD] ?", "[SEP] Tobias [CLS] Vale [PAD]")
    assert answer == "Tobias [CLS] Vale"
    # As many tokens share the probability as where the brackets stand apart; what is left to others is 7e-8.
    apart = ask("Who ?", "[ SEP ] Tobias [ CLS ] Vale [ PAD ]")
    assert apart == ("Tobias [ CLS ] Vale", pytest.approx(confidence, abs=1e-13))


def test_the_best_stretch_is_that_of_every_stretch_tried() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        n = int(rng.integers(3, 40))
        starts, ends = rng.normal(0, 2, (2, n))
        allowed = [bool(i > n // 4) for i in range(n)]
        n_counted = [0] + [i for i in range(n) if allowed[i]]
        p_start = {i: np.exp(starts[i]) / sum(np.exp(starts[j]) for j in n_counted) for i in n_counted}
        p_end = {i: np.exp(ends[i]) / sum(np.exp(ends[j]) for j in n_counted) for i in n_counted}
        tried = {
            (i, j): p_start[i] * p_end[j]
            for i in range(n)
            for j in range(i, min(n, i + MOST_ANSWER_TOKENS))
            if allowed[i] and allowed[j]
        }
        first, last, confidence = best_span(starts, ends, allowed)
        assert (first, last) == max(tried, key=tried.__getitem__)
        assert confidence == pytest.approx(tried[first, last], rel=1e-12)
    assert best_span(np.zeros(3), np.zeros(3), [False] * 3) == (0, 0, 0.0)


def test_what_is_no_model_that_answers_is_one_line(tmp_path: Path, folder: Path) -> None:
    from transformers import BertConfig, BertModel

    shutil.copytree(folder, tmp_path / "bare")
    BertModel(BertConfig.from_pretrained(folder)).save_pretrained(tmp_path / "bare")
    with pytest.raises(ModelError, match="not trained to answer questions"):
        load_answerer(str(tmp_path / "bare"))
    for name in (str(tmp_path), str(tmp_path / "none"), "no_such_model"):
        with pytest.raises(ModelError) as caught:
            load_answerer(name)
        assert "\n" not in str(caught.value)
