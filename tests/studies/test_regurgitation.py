"""Repeat and ROUGE prompts against the slow, obvious way."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import UsageError
from leakmeter.studies.regurgitation import COUNTS, Regurgitation, counted, counts

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
    assert counted([True, False]).interval == pytest.approx((0.0945, 0.9055), abs=1e-4)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(UsageError, match="0 responses and 0 contexts"):
        counts([], [])
    with pytest.raises(UsageError, match="1 responses and 2 contexts"):
        counts(["a"], ["a", "b"])
    with pytest.raises(UsageError, match=r"repeat-share is 1\.5; it has to be from 0 to 1"):
        Regurgitation(repeat_share=1.5)
    with pytest.raises(UsageError, match="repeat-words is -1"):
        Regurgitation(repeat_words=-1)
