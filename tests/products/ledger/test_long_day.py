"""The benchmark of a day in a ledger, on a small part with the default model: killed twice, resumed, forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import ledger_day, ledger_day_log

LEAKS = ledger_day_log.LEAKS
# One answer is shown again and again, so that there are two batches and little to measure.
SIZES = ledger_day_log.Sizes(
    answers=24, documents=8, new_tokens=3, leaks=(LEAKS[0], LEAKS[1], LEAKS[7], *[LEAKS[3]] * 19)
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Invented articles and abstracts in the form of the real ones."""
    root = tmp_path / "data"
    text = " ".join(f"The {word} stood still in the yard that day." for word in ("kiln", "ladder", "orchard"))
    for folder in ("cnn_dailymail", "pubmedqa"):
        (root / folder).mkdir(parents=True)
    articles = "\n".join(json.dumps({"article": f"Number {n}. {text}"}) for n in range(20))
    (root / "cnn_dailymail" / "validation_subset.jsonl").write_text(articles, encoding="utf-8")
    abstracts = {str(n): {"CONTEXTS": [f"Trial {n}. {text}"], "QUESTION": f"Did trial {n} end?"} for n in range(20)}
    (root / "pubmedqa" / "ori_pqal.json").write_text(json.dumps(abstracts), encoding="utf-8")
    return root


@pytest.mark.parametrize("sizes", [SIZES, ledger_day_log.Sizes(answers=24, documents=10)], ids=["small", "every leak"])
def test_the_plan_has_every_planted_answer(data: Path, sizes: ledger_day_log.Sizes) -> None:
    made = ledger_day_log.planned(data, sizes)
    assert made.exchanges == ledger_day_log.planned(data, sizes).exchanges
    assert (len(made.exchanges), len(made.documents)) == (sizes.answers, sizes.documents)
    planted = [one.answer for one in made.exchanges if one.answer is not None]
    assert planted == [leak.answer for leak in sizes.leaks]
    assert all(text in one.messages[1]["content"] for one in made.exchanges for text in one.documents.values())


@pytest.mark.long
def test_a_day_is_killed_resumed_and_forgotten(
    data: Path, tmp_path: Path, real_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The benchmark sets them for its programs; both are put back here.
    for name in ("LEAKMETER_CONFIG", "LEAKMETER_SCORES"):
        monkeypatch.setenv(name, "off")
    monkeypatch.setattr(ledger_day, "_CALLS", 2)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in ledger_day.rows(data, tmp_path / "out", sizes=SIZES):
        found.setdefault(row["step"], []).append(row)
    assert found["add"][0]["n_added"] == SIZES.answers
    assert found["add"][0]["n_measured"] < SIZES.answers
    assert [row["moment"] for row in found["kill"]] == ["within a batch", "between batches"]
    assert found["resume"][0]["parts_written_twice"] == 0
    assert found["compare"][0]["equal"]
    assert (found["add again"][0]["n_added"], found["add again"][0]["files_changed"]) == (0, 0)
    assert found["verify"][0]["exit"] == 0
    assert found["on top"][0]["places"]["note-1"] == 1
    for row in found["budget"]:
        assert (row["over"], row["exit"]) == (row["expected_over"], int(row["expected_over"] > 0))
    assert found["modes"][0]["wrong"] == []
    (gone,) = found["forget"]
    assert gone["exits"] == [0, 0]
    assert not any(gone["found"].values())
    assert (gone["verify"], gone["added_again"]) == (0, 0)
    assert [row["ledger"] for row in found["guard"]] == ["empty", "day"]
