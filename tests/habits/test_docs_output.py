"""What pages show below a command is what it prints: text word for word, numbers within what processors differ by.

A block `title="Output"` below a console block has the first lines of the last command's output, and one
`title="One output"` those of a command that draws anew each time, which is not compared. LEAKMETER_SNAPSHOTS=1 writes
them again, as many as there are, or N where the block says '@N'.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import pytest

from helpers.docs_blocks import CONSOLE, DRAWN, OUTPUTS, PAGES, Block, blocks, words_of
from leakmeter.errors import ModelError
from leakmeter.models import DEFAULT_MODEL, resolve

_NUMBER = re.compile(r"[−+-]?\d+(?:,\d{3})*(?:\.\d+)?")
_CUT = "…"
SHOWING = [page for page in PAGES if any(block.title in OUTPUTS for block in blocks(page=page))]


@pytest.mark.parametrize(("shown", "printed", "same"), [("a  1.0 nats", "a 1.04 nats", True), ("+3.1", "−3.1", False)])
def test_numbers_are_compared_and_words_are_equal(shown: str, printed: str, same: bool) -> None:
    assert _agree(shown, printed) == same


@pytest.mark.long
@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.stem)
def test_output_is_what_the_command_prints(
    cli: Callable[..., Any], page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        resolve(DEFAULT_MODEL, notify=str, download=False)
    except ModelError as error:
        pytest.skip(f"the default model is not cached: {error}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    cli("demo", "--write-samples", "samples")
    found = blocks(page=page)
    for block in found:
        if block.title not in (None, *OUTPUTS):
            Path(block.title).write_text(block.text, encoding="utf-8")
    last = max(i for i, block in enumerate(found) if block.title in OUTPUTS)
    printed = ""
    replaced: dict[Block, str] = {}
    for block, following in pairwise([*found[: last + 1], found[last]]):
        if block.language in CONSOLE:
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.startswith("leakmeter"):
                    ended = cli(*words_of(line))
                    # Commands without an output may need files or servers that only a user has.
                    assert ended.code in (0, 1) or following.title not in OUTPUTS, (line, ended.err)
                    printed = ended.out or ended.err
        elif block.title in OUTPUTS:
            replaced[block] = _first_lines(printed, block.text)
    if os.environ.get("LEAKMETER_SNAPSHOTS"):
        text = page.read_text(encoding="utf-8")
        for block, lines in replaced.items():
            text = text.replace(f'title="{block.title}"\n{block.text}```', f'title="{block.title}"\n{lines}```', 1)
        page.write_text(text, encoding="utf-8")
        return
    for block, lines in replaced.items():
        if block.title == DRAWN:
            continue
        for shown, line in zip_longest(block.text.splitlines(), lines.splitlines(), fillvalue=""):
            assert _agree(shown, line), (block.id, shown, line)


def _first_lines(printed: str, shown: str) -> str:
    asked = re.fullmatch(r"@(\d+)\n", shown)
    n = int(asked[1]) if asked else len(shown.splitlines()) - shown.endswith(f"{_CUT}\n")
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in (*lines[:n], *([_CUT] if len(lines) > n else [])))


def _agree(shown: str, printed: str) -> bool:
    if _NUMBER.sub("0", shown).split() != _NUMBER.sub("0", printed).split():
        return False
    pairs = zip(*([_value(text) for text in _NUMBER.findall(line)] for line in (shown, printed)), strict=True)
    return all(abs(a - b) <= 0.1 + 0.03 * abs(a) for a, b in pairs)


def _value(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))
