"""The workflow that docs/gate.md shows runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from helpers.docs_blocks import exit_code
from helpers.places import DOCS

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
