"""Shared words and ROUGE-L against the usual table and against torchmetrics."""

from __future__ import annotations

import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.text.overlap import copied, longest_common_subsequence, n_shared_distinct, rouge_l, share_found

words = st.lists(st.sampled_from("abcd"), max_size=70)


def by_table(one: list[str], other: list[str]) -> int:
    """The longest common subsequence by the table of all prefixes."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if a == b else max(table[i - 1][j], table[i][j - 1])
    return table[-1][-1]


@given(words, words)
def test_longest_common_subsequence_agrees_with_the_table(one: list[str], other: list[str]) -> None:
    assert longest_common_subsequence(one, other) == by_table(one, other)


def test_rouge_l_by_hand() -> None:
    # Words: the cat sat | on the mat the cat sat down: 3 in common.
    score = rouge_l("The cat, sat!", "on the mat. THE cat\nsat-down")
    assert score == (1.0, 3 / 7, 2 * (3 / 7) / (1 + 3 / 7))
    assert rouge_l("", "a") == rouge_l("a", "") == rouge_l("...", "a") == rouge_l("b", "a") == (0.0, 0.0, 0.0)
    assert rouge_l("a b", "a b") == (1.0, 1.0, 1.0)


def test_rouge_l_agrees_with_torchmetrics() -> None:
    rouge = pytest.importorskip("torchmetrics.functional.text.rouge", reason="torchmetrics is not installed")
    rng = random.Random(0)
    known = ("Anna-Ek", "sang,", "in", "2", "halls.", "the", "É", "ø", "it's")
    for _ in range(20):
        text, other = (" ".join(rng.choices(known, k=30)) for _ in range(2))
        theirs = rouge.rouge_score(text, other, rouge_keys="rougeL")
        ours = rouge_l(text, other)
        for name, value in (("precision", ours.precision), ("recall", ours.recall), ("fmeasure", ours.f1)):
            assert float(theirs[f"rougeL_{name}"]) == pytest.approx(value, abs=1e-6)


@given(st.text(alphabet="ab ", max_size=14), st.text(alphabet="ab ", max_size=14))
def test_runs_of_copied_words_against_every_run_there_is(text: str, other: str) -> None:
    ours, theirs = text.split(), other.split()
    runs = {tuple(theirs[i:j]) for i in range(len(theirs)) for j in range(i + 1, len(theirs) + 1)}
    found = [(i, j) for i in range(len(ours)) for j in range(i + 1, len(ours) + 1) if tuple(ours[i:j]) in runs]
    assert copied(text, other) == [max((j - i for i, j in found if i <= at < j), default=0) for at in range(len(ours))]


@given(st.text(alphabet="ab c\n", max_size=40), st.text(alphabet="ab c\n", max_size=40))
def test_shared_words_against_the_obvious(text: str, other: str) -> None:
    ours, theirs = (re.findall(r"\S+", part) for part in (text, other))
    assert n_shared_distinct(text, other) == len({word for word in ours if word in theirs})
    if ours:
        assert share_found(text, other) == len([word for word in ours if word in theirs]) / len(ours)
    else:
        assert math.isnan(share_found(text, other))
