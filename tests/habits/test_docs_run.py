"""What the documentation tells people to type works."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers import role_files
from helpers.docs_blocks import CONSOLE, PAGES, blocks, command_lines, shell_lines, words_of
from helpers.places import DOCS, ROOT, script
from leakmeter.instruments.influence.disclosures import Disclosure, Source


def test_every_command_line_parses() -> None:
    from leakmeter.cli import expanded, program

    known = cache(program)
    lines = {line: where for where, line in command_lines()}
    assert lines
    for line, where in lines.items():
        words, _ = expanded(words_of(line))
        # The command of the package that a page adds is there once that page's test has installed it.
        if words[:1] == ["order"] and where.startswith("docs/extending.md"):
            continue
        app = known(tuple(words[:1]))
        command, bound, *_ = app.parse_args(words, print_error=False, exit_on_error=False)
        assert command is not None, (where, line)
        assert bound is not None, (where, line)


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    drawings = {"", "text"}
    assert {block.language for block in blocks()} <= {*CONSOLE, "python", "toml", "json", "yaml", *drawings}


def test_what_is_shown_of_a_file_can_be_read() -> None:
    for block in blocks("toml", "json", "yaml"):
        if block.language == "json":
            assert all(json.loads(line) for line in block.text.splitlines()), block.id
        else:
            assert (tomllib.loads if block.language == "toml" else yaml.safe_load)(block.text), block.id


def test_other_programs_are_told_of_what_is_there() -> None:
    made = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for where, line in shell_lines():
        words, program = words_of(line.split("  #")[0]), line.split()[0]
        if program == "make":
            assert set(words) <= set(made), where
        elif program == "pip":
            named = re.findall(r"(?:leakmeter|\.)\[([\w,]+)\]", line)
            assert set(",".join(named).split(",")) <= {"", *project["optional-dependencies"]}, where
        elif program == "docker":
            # The words behind the image's name are leakmeter's.
            assert (ROOT / "Dockerfile").is_file()
            assert words[0] in ("build", "run"), where
            assert set(re.findall(r"DEVICE=(\w+)", line)) <= {"cpu", "cuda"}, where
        elif words[:1] == ["-m"]:
            assert words[1] in ("benchmarks", "benchmarks.long_contexts", "leakmeter.backends.served.llamacpp_server")
            assert find_spec(words[1]) is not None, where
        elif program in ("vllm", "llama-server"):
            assert "http://" not in line, where
        elif program != "leakmeter":
            assert program == "python", where
            assert (ROOT / words[0]).is_file(), where


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(page: Path) -> None:
    if page.name == "README.md":
        role_files.cases(Path("cases.jsonl"))
    names: dict[str, Any] = {"__name__": "__example__"}
    for block in blocks("python", page=page):
        # It sees what the blocks before it made.
        exec(compile(block.text, block.id, "exec", dont_inherit=True), names)


def pages_with(language: str) -> list[Path]:
    # Two pages have tests of their own: examples of one are files that have to be installed first, and the other's is a
    # client of a server (tests/products/serve/test_bounded.py).
    found = dict.fromkeys(block.page for block in blocks(language))
    return [page for page in found if page.name not in ("extending.md", "serve_completions.md")]


@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python_examples_run_with_the_toy_model(page: Path, somewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name, option and attribute they use is there; the toy model stands in for the named ones."""
    import leakmeter.engine.loading
    import leakmeter.engine.options

    load = leakmeter.engine.loading.load

    def toy(model: Any, *_: Any) -> Any:
        return load("toy" if isinstance(model, str) else model, leakmeter.engine.options.ModelOptions())

    monkeypatch.setattr(leakmeter.engine.loading, "load", toy)
    run(page)


@pytest.mark.long
@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python_examples_run_as_they_stand(page: Path, somewhere: Path, real_backend: Any) -> None:
    run(page)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_site_lists_every_field_of_a_case(somewhere: Path) -> None:
    import leakmeter

    page = script(DOCS / "reference" / "generate.py").fields_page()
    _, _, of_influence = page.partition("\n## influence\n")
    said = set(re.findall(r"^\| `(\w+)` \|", of_influence.partition("\n## ")[0], re.MULTILINE))
    case = leakmeter.influence("toy", context="Anna sang. Bo ate.", query="Who?", samples=2, max_new_tokens=4).to_dict()
    disclosure = {field.name: None for record in (Disclosure, Source) for field in dataclasses.fields(record)}
    for fields in (case, case["pieces"][0], case["samples"][0], case["response"], case["cost"], disclosure):
        assert set(fields) <= said
    named = set(re.findall(r"`([a-z_]+)(?:\[\])?`", (DOCS / "case.md").read_text(encoding="utf-8")))
    assert {"whole_nats", "signed_nats", "evidence", "posterior", "warnings"} <= named & said
    assert os.listdir(somewhere) == []
