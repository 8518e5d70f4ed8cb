"""The site's gallery: real reports of the samples, one a command, as files of the site.

PYTHONPATH=tests python -m report.gallery docs/gallery --model smollm2-135m
"""

from __future__ import annotations

import argparse
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
    "pii.html": "pii probe --subjects samples/people.csv --kinds twin",
    "susceptibility.html": "susceptibility --queries samples/questions.jsonl --contexts samples/contexts.jsonl",
}
MOST_BYTES = 600_000


def write_pages(directory: Path, model: str, pages: Mapping[str, str] = PAGES) -> None:
    """Run each command beside the samples, and write its page."""
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        assert exit_code(["demo", "--write-samples", "samples"]) == 0
        for name, line in pages.items():
            words = [*shlex.split(line), "--model", model, "--html", name]
            if exit_code(words):
                raise SystemExit(f"{line} failed")
            (directory / name).write_bytes(Path(name).read_bytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the pages of the gallery.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    options = parser.parse_args()
    write_pages(options.directory, options.model)
