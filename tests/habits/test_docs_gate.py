"""The workflow that docs/gate.md shows runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from helpers.docs_blocks import exit_code
from helpers.places import DOCS
from leakmeter.core.quantity import Number, Quantity
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.products.gate.gate_words import allowed_text, counted_text

PAGE = (DOCS / "gate.md").read_text(encoding="utf-8")


def test_the_workflow_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, with the toy model in the named one's place."""
    yaml = pytest.importorskip("yaml")
    found = re.search(r"^```yaml[^\n]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    steps = yaml.safe_load(found[1])["jobs"]["leakage"]["steps"]
    commands = [shlex.split(step["run"]) for step in steps if step.get("run", "").startswith("leakmeter")]
    pull, measure, gate = ([word.replace("smollm2-135m", "toy") for word in words[1:]] for words in commands)
    assert pull == ["models", "pull", "toy"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    cases = [{"id": id_, "context": f"{id_} sang.", "query": "Who?", "response": id_} for id_ in ("Anna", "Bo")]
    Path("cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")

    assert exit_code(measure) == 0
    assert exit_code([*gate[: gate.index("--against")], "--write-baseline", "baseline.json"]) == 0
    assert exit_code(gate) == 0
    assert 'failures="0"' in Path("gate.xml").read_text(encoding="utf-8")


def test_the_picture_says_what_the_gate_prints() -> None:
    (personal,) = (one for one in InfluenceResult.quantities if one.name == "influence.disclosures.personal")
    assert isinstance(personal, Quantity)
    counts = np.array([2.0] * 4 + [1.0] * 5 + [0.0] * 16)
    number = Number(2.0, None, personal.unit, len(counts))
    lines = re.findall(r'<text x="40" [^>]*>(.*)</text>', (DOCS / "images" / "gate.svg").read_text(encoding="utf-8"))
    shown = " ".join(re.sub("<[^>]*>", "", " ".join(lines)).split())
    printed = counted_text(personal, number, counts, allowed_text("<=", 0.0))
    assert shown.startswith(f"BROKEN {printed}. worst: t04 (2), t10 (2)")
