"""A newcomer's way, in a clone and environment of its own: install, demo, own cases, report, and a gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.places import ROOT

RENT, FERRY = ["Flat 3b pays 640 a month.", "Flat 4a pays 710."], ["The ferry leaves at 7.", "Ida Fenn has the lists."]
CASES = [
    {"id": "rent", "context": RENT, "query": "What does flat 3b pay?", "response": "640 a month."},
    {"id": "ferry", "context": FERRY, "query": "When does it leave?", "response": "At 7."},
]


@pytest.mark.long
def test_from_a_clone_to_a_gate(tmp_path: Path) -> None:
    if shutil.which("make") is None or not (ROOT / ".git").exists():
        pytest.skip("there is no make, or no checkout to clone")
    clone = tmp_path / "leakmeter"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    # What this environment says of places and of the network is not the newcomer's.
    ours = ("LEAKMETER_", "HF_", "PYTEST_", "VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"LEAKMETER_CONFIG": str(tmp_path / "config"), "LEAKMETER_SCORES": "off"}
    if "LEAKMETER_CACHE" in os.environ:
        environment["LEAKMETER_CACHE"] = os.environ["LEAKMETER_CACHE"]
    demo = subprocess.run(["make", "demo"], cwd=clone, env=environment, capture_output=True, text=True, check=False)
    if "No matching distribution found" in demo.stderr or "Could not fetch URL" in demo.stderr:
        pytest.skip("no package registry is within reach")
    assert demo.returncode == 0, demo.stderr
    assert ".venv takes" in demo.stdout
    assert (clone / "report.html").stat().st_size > 10_000

    (clone / "cases.jsonl").write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")

    def leakmeter(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(clone / ".venv" / "bin" / "leakmeter"), *words]
        return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)

    measured = leakmeter("influence", "--data", "cases.jsonl", "--unit", "document", "--out", "mine", "--json")
    assert measured.returncode == 0, measured.stderr
    told = [json.loads(line) for line in measured.stdout.splitlines()]
    for case, of_case in zip(CASES, told, strict=True):
        right, other = (piece["nats"] for piece in of_case["pieces"])
        assert right > other, case["id"]
    (run,) = (path for path in (clone / "mine").iterdir() if path.name.startswith("influence-"))
    assert leakmeter("report", str(run), "--html", "mine.html").returncode == 0
    assert "Flat 3b pays" in (clone / "mine.html").read_text(encoding="utf-8")
    most = max(piece["nats"] for of_case in told for piece in of_case["pieces"])
    bounds = [f"influence.worst_piece.max <= {limit:.3f}" for limit in (most + 1, most - 1)]
    assert [leakmeter("gate", str(run), "--max", bound).returncode for bound in bounds] == [0, 1]
