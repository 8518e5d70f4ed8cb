"""Commands over all instruments, whose JSON is kept: what they say now is what they said, whatever was moved."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any, Final

from helpers.places import TESTS

FERRY = "The ferry to Quellhof sails at nine. Nurse Tovey Lindqvar holds the key 7731. Her number is 617-555-0134. "
TASK = """
name = "mood"
label_column = "mood"
labels = ["Up", "Low"]
[fields]
said = "Said"
"""
NOTE: Final = "--context-file note.txt --query 'When does the ferry sail?'"
ANSWER: Final = "--response 'It sails at nine.'"
ICL: Final = "icl --task task.toml --data queries.jsonl --pool pool.jsonl --shots 3"
OWN: Final = "--task task.toml --data queries.jsonl --exemplars exemplars.jsonl --label-scoring whole-sequence"
ASKED: Final = "susceptibility --queries asked.jsonl --contexts contexts.jsonl"
PEOPLE: Final = "pii probe --subjects people.jsonl --decoys 50 --prompts 2 --control-names 1 --decoy-test full"
AUDIT: Final = (
    "generate --exemplars exemplars.jsonl --column said --seed 3 --batches 1 --subset-size 4 --samples 2 "
    "--max-new-tokens 4 --temperature 2"
)
_BOTH: Final = {
    "influence-sentence": f"influence {NOTE} {ANSWER} --unit sentence",
    "influence-entity-swap": f"influence {NOTE} {ANSWER} --unit entity --swap",
    "influence-group": f"influence {NOTE} {ANSWER} --unit sentence --group",
    "influence-entity-mask": f"influence {NOTE} {ANSWER} --unit entity --removal mask",
    "influence-cases-retokenize": (
        "influence --data cases.jsonl --samples 1 --unit sentence --removal retokenize --max-new-tokens 5"
    ),
    "audit": AUDIT,
    "susceptibility": ASKED,
}
TOY: Final = {
    **_BOTH,
    "influence-word-mask": f"influence {NOTE} {ANSWER} --unit word --removal mask",
    "influence-ngram-lambda": f"influence {NOTE} {ANSWER} --unit ngram:4:2 --cid-lambda 1.5",
    "influence-retokenize": f"influence {NOTE} {ANSWER} --unit sentence --removal retokenize --temperature 0.7",
    "influence-drawn": f"influence {NOTE} --unit sentence --samples 3 --max-new-tokens 6 --seed 4",
    "influence-document": "influence --data cases.jsonl --samples 1 --unit document --max-new-tokens 5",
    "influence-whole": f"influence {NOTE} {ANSWER} --unit whole",
    "decode-lambda": f"decode {NOTE} --lambda 0.5 --max-new-tokens 6 --samples 2 --seed 1",
    "decode-over": "decode --data cases.jsonl --lambda 1.5 --max-new-tokens 5",
    "decode-epsilon": (
        f"decode {NOTE} --epsilon 1 --seed 7 --delta 1e-6 --max-new-tokens 6 --min-new-tokens 2 --samples 2"
    ),
    "redact": f"redact {NOTE} {ANSWER} --max-loss 0.2 --max-new-tokens 4",
    "redact-word": f"redact {NOTE} {ANSWER} --max-loss 0.1 --unit word --max-new-tokens 3",
    "icl-labels": f"{ICL} --label-scoring whole-sequence",
    "icl-calibrated": f"{ICL} --label-scoring whole-sequence --calibration average",
    "icl-vocabulary": f"{ICL} --label-scoring whole-sequence --space vocabulary",
    "icl-own": f"icl {OWN} --temperature 2",
    "icl-select": f"icl select {OWN} --max-steps 2 --pool pool.jsonl --candidates 2",
    "audit-clip": f"{AUDIT} --clip 1 --delta 1e-4",
    "audit-calibrate": "generate calibrate --epsilon 8 --free temperature --clip 2 --subset-size 20 --samples 10",
    "susceptibility-T": f"{ASKED} --temperature 2 --separator '\n'",
    "pii": PEOPLE,
    "pii-twin-beams": f"{PEOPLE} --kinds twin --beams 1 2 3",
    "pii-sample": "pii probe --decoys 50 --decoy-test full",
    "frontier-lambda": "decode frontier --data cases.jsonl --lambda 0.5 1.5 --max-new-tokens 5",
    "frontier-epsilon": "decode frontier --data cases.jsonl --epsilon 0.5 2 --max-new-tokens 5 --seed 2",
    "regurgitation": "study regurgitation --csv answers.csv",
}
"""With the toy model, which computes in float64."""
MODEL: Final = {
    **_BOTH,
    "influence-word-lambda": f"influence {NOTE} {ANSWER} --unit word --cid-lambda 1.5",
    "influence-messages": "influence --messages chat.json --context-from system --unit message",
    "decode-lambda": f"decode {NOTE} --lambda 0.5 --max-new-tokens 6",
    "decode-epsilon": f"decode {NOTE} --epsilon 1 --seed 7 --max-new-tokens 6",
    "redact": f"redact {NOTE} {ANSWER} --max-loss 5 --max-new-tokens 4",
    "icl-labels": ICL,
    "icl-vocabulary": f"{ICL} --space vocabulary",
    "fisher": f"{ASKED} --estimator fisher --sigma identity --sigma embedding --probes 8",
    "fisher-slot": f"{ASKED} --estimator fisher --place slot --sigma empirical --method top-k",
    "pii": f"{PEOPLE} --kinds twin relationship",
}
"""With the default model: numbers agree within the noise floor."""
SKIPPED: Final = ("audit-calibrate", "regurgitation")
"""Commands without a model."""
VOLATILE: Final = re.compile(r"seconds|^run$|version|time_|_time|weights_sha256")


def words_of(name: str, model: str, out: Path) -> list[str]:
    """The command line of a command, behind 'leakmeter'."""
    words = [*shlex.split((TOY if model == "toy" else MODEL)[name]), "--json"]
    return words if name in SKIPPED else [*words, "--model", model, "--out", str(out)]


def write_data(folder: Path) -> None:
    moods = ("Up", "Low")
    said = [f"The boat no. {i} {('sank', 'arrived')[i % 2]} at {i + 3} in Quellhof." for i in range(12)]
    rows = [{"id": f"n{i}", "said": text, "mood": moods[i % 2]} for i, text in enumerate(said)]
    texts = [[FERRY, f"Boat {i} belongs to Ilvane Dostrel."] for i in range(3)]
    asked = {"query": "Whose boat is it?", "reference": "It belongs to Ilvane Dostrel."}
    files = {
        "cases": [{"id": f"c{i}", "context": text, **asked} for i, text in enumerate(texts)],
        "queries": rows[:3],
        "exemplars": rows[3:7],
        "pool": rows[7:],
        "asked": [{"id": f"q{i}", "query": f"Who owns boat {i}?"} for i in range(3)],
        "contexts": [{"id": f"k{i}", "context": text} for i, text in enumerate(said[:4])],
    }
    for name, records in files.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    chat = [
        {"role": "system", "content": FERRY},
        {"role": "user", "content": "When does the ferry sail?"},
        {"role": "assistant", "content": "At nine."},
    ]
    (folder / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
    (folder / "note.txt").write_text(FERRY * 2, encoding="utf-8")
    (folder / "task.toml").write_text(TASK, encoding="utf-8")
    shutil.copy(TESTS / "golden" / "people.jsonl", folder)
    rows = "".join(f'"a{i}",0,"{said[i]}","{FERRY}","x"\n' for i in range(3))
    (folder / "answers.csv").write_text(f"id,sample,generations,contexts,references\n{rows}", encoding="utf-8")


def without_volatile(value: Any) -> Any:
    """What a command said, without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without_volatile(one) for key, one in value.items() if not VOLATILE.search(key)}
    return [without_volatile(one) for one in value] if isinstance(value, list) else value
