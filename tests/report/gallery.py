"""The site's gallery: real reports of the samples, one a command, as files of the site.

PYTHONPATH=tests python -m report.gallery docs/gallery --model smollm2-135m

The page on people in training data is of a copy of the model that has read of some of them: a model that has read of
nobody would show nothing. Fine-tuning it takes six minutes on a CPU.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

from helpers.docs_blocks import exit_code

_ASKED = '--context-file samples/note.txt --query "How can I reach the patient?" --response "Call 555-010-7788."'
PAGES = {
    "influence.html": "influence --data samples/log.jsonl",
    "conversations.html": "influence --data samples/agents.jsonl",
    "note.html": f"influence {_ASKED} --unit entity --swap",
    "redact.html": f"redact {_ASKED} --disclosures",
    "decode.html": (
        'decode --context-file samples/note.txt --query "Why is the patient coughing?" --epsilon 0.1 --seed 1'
    ),
    "icl.html": "icl --seed 0 --max-queries 12 --label-scoring whole-sequence",
    "generate.html": "generate --seed 0",
    "pii.html": "pii probe --subjects people.jsonl --kinds twin --prompts 2 --model planted",
    "susceptibility.html": "susceptibility --queries samples/questions.jsonl --contexts samples/contexts.jsonl",
}
PLANTED = "pii insert --canaries 4 --repeats 16 --epochs 5 --held-out 8 --out planted"
"""Makes the model of which `PAGES` asks for people."""
MOST_BYTES = 600_000


def write_pages(directory: Path, model: str, pages: Mapping[str, str] = PAGES) -> None:
    """Run each command beside the samples, and write its page."""
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        assert exit_code(["demo", "--write-samples", "samples"]) == 0
        if "pii.html" in pages:
            _plant(model)
        for name, line in pages.items():
            words = [*words_of(line, model), "--html", name]
            if exit_code(words):
                raise SystemExit(f"{line} failed")
            (directory / name).write_bytes(Path(name).read_bytes())


def words_of(line: str, model: str) -> list[str]:
    """The words of a command, with the model unless it has one of its own."""
    words = shlex.split(line)
    return words if "--model" in words else [*words, "--model", model]


def _plant(model: str) -> None:
    """The model that has read of some people, and all people in one file, called by the documents they were in."""
    if exit_code([*shlex.split(PLANTED), "--model", model]):
        raise SystemExit(f"{PLANTED} failed")
    with Path("people.jsonl").open("w", encoding="utf-8") as people:
        for file in sorted(Path("planted", "canaries").glob("*.jsonl")):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                people.write(json.dumps({**json.loads(line), "id": f"{file.stem}-{number}"}) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the pages of the gallery.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    options = parser.parse_args()
    write_pages(options.directory, options.model)
