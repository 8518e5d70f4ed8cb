"""What pages show below a command is what it prints: text word for word, numbers within what processors differ by.

A block `title="Output"` below a console block has the first lines of the last command's output, and one
`title="One output"` those of a command that draws again each time, which is not compared. Ids, secrets, dates, ports,
rounding errors and predicted times may differ. LEAKMETER_SNAPSHOTS=1 writes the blocks again, as many lines as there
are, or N where the block says '@N'. Every command of a tutorial or how-to has an output.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from glob import glob
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.command_line import PROGRAM
from helpers.docs_blocks import CONSOLE, DRAWN, OUTPUTS, PAGES, Block, blocks, command_lines, words_of
from helpers.llama_gguf import write_llama
from helpers.llama_server import llama_server
from helpers.places import DOCS, ROOT
from leakmeter.errors import ModelError
from leakmeter.models import DEFAULT_MODEL, resolve

_NUMBER = re.compile(r"[−+-]?\d+(?:,\d{3})*(?:\.\d+)?")
_VARYING = re.compile(
    r"[\w-]{40,}|\b[0-9a-f]{10,}\b|(?<=127\.0\.0\.1):\d+|\d{4}-\d\d-\d\d(?: \d\d:\d\d)?"
    r"|about [\d.]+ (?:s|min|h)\b|[\d.]+e-\d+(?= nats)"
)
_CUT = "…"
_MOST_CHARACTERS = 180
_SERVED = "http://127.0.0.1:8080"
"""Where pages have llama.cpp's server."""
_BUCKET = "audits"
SHOWING = [page for page in PAGES if any(block.title in OUTPUTS for block in blocks(page=page))]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a  1.0 nats", "a 1.04 nats", True),
        ("+3.1", "−3.1", False),
        ("run: influence-91b51725ac165696", "run: influence-a6d0d71779a7ac79", True),
        ("2026-11-25 18:44 UTC, about 17 min", "2027-01-02 08:01 UTC, about 9 s", True),
    ],
)
def test_numbers_are_compared_and_words_are_equal(shown: str, printed: str, same: bool) -> None:
    assert _agree(shown, printed) == same


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's directory, whose key and score cache all pages and workers share: several measure the same samples."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "user-of-pages"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.stem)
def test_output_is_what_the_command_prints(
    cli: Callable[..., Any], page: Path, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        model = Path(resolve(DEFAULT_MODEL, notify=str, download=False).path)
    except ModelError as error:
        pytest.skip(f"the default model is not cached: {error}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(user / "config"))
    monkeypatch.setenv("LEAKMETER_SCORES", str(user / "scores"))
    monkeypatch.setenv("LEAKMETER_SERVE_PASSWORD", "twelve letters or more")
    cli("demo", "--write-samples", "samples")
    found = blocks(page=page)
    for block in found:
        if block.title not in (None, *OUTPUTS):
            Path(block.title).write_text(block.text, encoding="utf-8")
    last = max(i for i, block in enumerate(found) if block.title in OUTPUTS)
    printed = ""
    replaced: dict[Block, str] = {}
    with _servers(page, model, monkeypatch) as address:
        for block, following in pairwise([*found[: last + 1], found[last]]):
            if block.language in CONSOLE:
                for line in block.text.replace("\\\n", " ").splitlines():
                    words = _expanded(line.replace(_SERVED, address)) if line.startswith("leakmeter") else []
                    if words[:1] == ["serve"]:
                        printed = _started(words)
                    elif words:
                        ended = cli(*words)
                        # What stands before may need files or servers that only a user has.
                        assert ended.code in (0, 1) or following.title not in OUTPUTS, (line, ended.err)
                        printed = (ended.out or ended.err).replace(address, _SERVED)
            elif block.language == "python" and page.stem == "integrations":
                # It logs the answers that the commands measure.
                exec(compile(block.text, block.id, "exec", dont_inherit=True), {})
            elif block.title in OUTPUTS:
                replaced[block] = _first_lines(printed, block.text)
    if os.environ.get("LEAKMETER_SNAPSHOTS"):
        text = page.read_text(encoding="utf-8")
        for block, lines in replaced.items():
            text = text.replace(f'title="{block.title}"\n{block.text}```', f'title="{block.title}"\n{lines}```', 1)
        page.write_text(text, encoding="utf-8")
        return
    for block, lines in replaced.items():
        shown = () if block.title == DRAWN else block.text.splitlines()
        for one, line in zip_longest(shown, lines.splitlines() if shown else (), fillvalue=""):
            assert _agree(one, line), (block.id, one, line)


def test_every_command_of_a_tutorial_or_how_to_has_an_output() -> None:
    silent = []
    for page in _followed():
        found = blocks(page=page)
        for block, following in pairwise([*found, None]):
            lines = block.text.splitlines() if block is not None and block.language in CONSOLE else []
            commands = [line for line in lines if line.startswith("leakmeter ")]
            if commands and (following is None or following.title not in OUTPUTS):
                silent.append((page.stem, " ".join(commands[-1].split()[1:4])))
    assert silent == []


def _followed() -> list[Path]:
    """Tutorials and how-tos."""
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    groups = {name: pages for group in menu for name, pages in group.items()}
    return [DOCS / name for group in ("Tutorials", "How-to") for page in groups[group] for name in page.values()]


def _expanded(line: str) -> list[str]:
    """Words of a command, with file names in place of patterns, as a shell has them."""
    return [name for word in words_of(line) for name in (("*" in word and sorted(glob(word))) or [word])]


def _started(words: list[str]) -> str:
    """What `leakmeter serve` prints before it waits for requests."""
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            return "".join(process.stdout.readline() for _ in range(1 + ("--epsilon" in words)))
        finally:
            process.terminate()


@contextmanager
def _servers(page: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An object store and llama.cpp's server with the model, if the page's commands name them; the latter's address."""
    lines = [line for _, line in command_lines(page)]
    address = _SERVED
    with ExitStack() as stack:
        if any("s3://" in line for line in lines):
            from helpers import s3_server

            store, _ = stack.enter_context(s3_server.s3_server())
            s3_server.make_bucket(store, _BUCKET)
            for name, value in s3_server.environment(store).items():
                monkeypatch.setenv(name, value)
        if any(_SERVED in line for line in lines) and page.stem == "served":
            pytest.importorskip("xllamacpp")
            write_llama(model, Path("model.gguf"), split="smollm")
            how = ("--exact", "--slots", "4", "--window", "2048", "--threads", "1")
            address = stack.enter_context(llama_server(Path("model.gguf"), *how))
        yield address


def _first_lines(printed: str, shown: str) -> str:
    asked = re.fullmatch(r"@(\d+)\n", shown)
    n = int(asked[1]) if asked else len(shown.splitlines()) - shown.endswith(f"{_CUT}\n")
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    lines = [line if len(line) <= _MOST_CHARACTERS + 1 else line[:_MOST_CHARACTERS] + _CUT for line in lines]
    return "".join(f"{line}\n" for line in (*lines[:n], *([_CUT] if len(lines) > n else [])))


def _agree(shown: str, printed: str) -> bool:
    shown, printed = (_VARYING.sub("#", text) for text in (shown, printed))
    if _NUMBER.sub("0", shown).split() != _NUMBER.sub("0", printed).split():
        return False
    pairs = zip(*([_value(text) for text in _NUMBER.findall(line)] for line in (shown, printed)), strict=True)
    return all(abs(a - b) <= 0.1 + 0.03 * abs(a) for a, b in pairs)


def _value(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))
