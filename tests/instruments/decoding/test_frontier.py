"""`leakmeter.frontier` in Python: the same numbers as the command line's, nothing written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.toy_chat import ToyChat
from leakmeter.errors import DataError, UsageError
from leakmeter.privacy.draws import SEED_WARNING
from leakmeter.studies import quality

CASES = [
    {"id": f"c{i}", "context": f"the ferry {word} sat on the mat", "query": "Who?", "reference": f"{word} a e i"}
    for i, word in enumerate(("cat", "Anna", "rain"))
]

USER = {"role": "user", "content": "Who?"}


def test_python_and_the_command_line_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.cli import main

    monkeypatch.chdir(tmp_path)
    found = leakmeter.frontier("toy", CASES, lambdas=[0, 1, 2], max_new_tokens=6, samples=2, temperature=0.7)
    assert repr(found) == f"<Frontier of 3 settings: {found.recommendation}>"
    assert os.listdir() == []
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    words = ["frontier", "--data", "cases.jsonl", "--model", "toy", "--lambda", "0", "1", "2"]
    with pytest.raises(SystemExit):
        main([*words, "--max-new-tokens", "6", "--samples", "2", "--temperature", "0.7"])
    (path,) = Path("runs").glob("frontier-*")
    told = json.loads((path / "frontier.json").read_bytes())
    mine = json.loads(found.to_json())
    del told["model"]["memory_bytes"]
    assert mine == told
    assert found.to_frame()["nats"].tolist() == [row["nats"] for row in told["settings"]]
    assert found.recommendation == told["choices"]["rouge_l_f1"]["sentence"]


@pytest.mark.long
def test_a_bound_draws_anew_unless_seeded(capsys: pytest.CaptureFixture[str]) -> None:
    def told(seed: int | None) -> list[Any]:
        rows = leakmeter.frontier("toy", CASES, epsilons=[1.0, 8.0], max_new_tokens=6, seed=seed).settings
        return [row["nats"] for row in rows]

    assert told(None) != told(None)
    assert capsys.readouterr().err == ""
    assert told(5) == told(5)
    assert capsys.readouterr().err == f"{SEED_WARNING}\n" * 2
    with pytest.raises(UsageError, match="do not go together"):
        leakmeter.frontier("toy", CASES, epsilons=[1.0], lambdas=[1.0])


def test_bertscore_is_a_utility_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an encoder at hand; here one that counts letters."""

    def scored(responses: list[str], references: list[str], model: str, *, layer: int | None) -> list[float]:
        assert (model, layer) == ("counts", None)
        return [len(response) / 100.0 for response in responses]

    monkeypatch.setattr(quality, "bertscore_f1", scored)
    found = leakmeter.frontier("toy", CASES, lambdas=[0, 2], max_new_tokens=6, bertscore="counts")
    assert set(found.choices) == {"rouge_l_f1", "bertscore_f1"}
    assert found.settings[0]["bertscore_f1"] > 0
    assert [line.partition(":")[0] for line in found.recommendation.splitlines()] == ["ROUGE-L F1", "BERTScore F1"]


def test_what_is_context_in_chats_can_be_said_in_both_doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.cli import main

    monkeypatch.chdir(tmp_path)
    chats = [
        {
            "id": f"c{i}",
            "reference": "Anna a e i",
            "messages": [{"role": "system", "content": f"Anna {i} called."}, USER],
        }
        for i in range(2)
    ]
    with pytest.raises(DataError, match="--context-from system"):
        leakmeter.frontier(ToyChat(), chats, lambdas=[0, 1], max_new_tokens=2)
    found = leakmeter.frontier(ToyChat(), chats, lambdas=[0, 1], max_new_tokens=2, context_from="system")
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, chats)), encoding="utf-8")
    monkeypatch.setattr("leakmeter.engine.loading.load_backend", lambda *given, **options: ToyChat())
    words = ["frontier", "--data", "cases.jsonl", "--model", "toy", "--lambda", "0", "1", "--max-new-tokens", "2"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--context-from", "system"])
    assert ended.value.code in (0, None)
    (path,) = Path("runs").glob("frontier-*")
    told = json.loads((path / "frontier.json").read_bytes())
    assert [row["nats"] for row in told["settings"]] == pytest.approx([row["nats"] for row in found.settings])
