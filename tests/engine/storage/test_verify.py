"""Runs are read again: what was cut, edited, taken away or put there is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.made_runs import SPEC, written
from leakmeter.engine.storage.verify import Verified, verify
from leakmeter.errors import StoreError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A complete run of two parts."""
    return written(tmp_path / "runs")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def edit(path: Path) -> None:
    content = path.read_bytes()
    old, new = (b"Bo", b"Ed") if path.suffix == ".json" else (b"spam", b"eggs")
    middle = len(content) // 2
    changed = content.replace(old, new)
    path.write_bytes(changed if changed != content else content[:middle] + b"\x00" + content[middle + 1 :])


def in_spec(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    told = json.loads((path / "spec.json").read_bytes())
    change(told)
    (path / "spec.json").write_text(json.dumps(told), encoding="utf-8")


def test_a_run_is_whole(run: Path, tmp_path: Path) -> None:
    assert verify(run) == Verified(run, "whole", 4)
    together = written(tmp_path / "others", together=True)
    assert verify(together) == Verified(together, "whole", 2)
    (tmp_path / "link").symlink_to(run)
    assert verify(tmp_path / "link").state == "whole"
    # What only explains a run may differ.
    in_spec(run, lambda told: told.update(command=None, environment={}, problems=[]))
    assert verify(run).state == "whole"
    moved = run.rename(run.parent / "mine")
    assert verify(moved).findings == (f"spec.json: its id is {SPEC.id}, and the directory has another name",)
    (moved / "spec.json").unlink()
    assert verify(moved) == Verified(moved, "wrong", 4, ("spec.json: missing",))
    with pytest.raises(StoreError, match="cannot be read: No such file or directory"):
        verify(run)


@pytest.mark.parametrize("name", ["cases-00001.json", "measurements-00001.parquet"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "truncated or damaged"),
        (lambda path: path.write_bytes(b""), "truncated or damaged"),
        (edit, "edited"),
        (Path.unlink, "missing"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes((path.parent / path.name.replace("1", "0")).read_bytes()), "edited"),
    ],
)
def test_a_damaged_file_is_named(run: Path, name: str, damage: Callable[[Path], Any], said: str) -> None:
    damage(run / name)
    assert verify(run) == Verified(run, "wrong", 4, (f"{name}: {said}",))


def test_a_file_that_is_not_ours_is_named(run: Path) -> None:
    for name in ("notes.txt", "measurements-00002.parquet", "cases-00000.json.77.partial"):
        (run / name).write_bytes(b"x")
    (run / "more").mkdir()
    (run / "begun.json").write_bytes(b"{}")
    foreign = ("cases-00000.json.77.partial", "measurements-00002.parquet", "more", "notes.txt")
    assert verify(run).findings == tuple(f"{name}: foreign" for name in foreign)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told["params"].update(temperature=0.6), "spec.json: edited: its id is handmade-"),
        (lambda told: told["cases"][0].update(query="Wie?"), "spec.json: edited: its id is handmade-"),
        (lambda told: told.update(id="handmade-0"), "and what it holds makes handmade-"),
        (lambda told: told.update(n_parts=1), "spec.json: damaged: n_parts: "),
        (lambda told: told["files_sha256"].popitem(), "spec.json: damaged: n_parts: "),
        (lambda told: told.update(n_parts=-1), "spec.json: damaged: n_parts: "),
        (lambda told: told.update(files_sha256=[]), "spec.json: damaged: files_sha256: "),
        (lambda told: told.update(cases=None), "spec.json: damaged: cases: is of another kind"),
        (lambda told: told.update(measure="Dora lives here"), "spec.json: damaged: measure: has to be a name"),
        (lambda told: told.clear(), "spec.json: damaged: cases: is missing"),
    ],
)
def test_an_edited_spec_is_found_out(run: Path, change: Callable[[dict[str, Any]], Any], said: str) -> None:
    in_spec(run, change)
    found = verify(run)
    assert found.state == "wrong"
    assert said in found.findings[0]


def test_a_spec_that_cannot_be_read(run: Path) -> None:
    for content in (b"", b"{", b"[" * 100_000, b"\xff"):
        (run / "spec.json").write_bytes(content)
        found = verify(run)
        assert found.state == "wrong"
        assert found.findings[0].startswith("spec.json: damaged: all of it: ")


def test_parts_of_another_run_with_their_hashes(tmp_path: Path) -> None:
    """What a hash cannot tell: both parts are whole, and in the wrong places."""
    run = written(tmp_path)
    for kind, suffix in (("cases", "json"), ("measurements", "parquet")):
        a, b = (run / f"{kind}-0000{i}.{suffix}" for i in range(2))
        content = a.read_bytes()
        a.write_bytes(b.read_bytes())
        b.write_bytes(content)

    def swap(told: dict[str, Any]) -> None:
        hashes = told["files_sha256"]
        told["files_sha256"] = {
            name: hashes[re.sub("0000(.)", lambda m: f"0000{1 - int(m.group(1))}", name)] for name in hashes
        }

    in_spec(run, swap)
    assert verify(run).findings == ("spec.json: damaged: cases: are not those of the parts",)
    swapped = run / "cases-00000.json"
    swapped.write_bytes(swapped.read_bytes().replace(b'"id": "b"', b'"id": "c"'))
    assert verify(run).findings == ("cases-00000.json: edited",)


def test_an_unfinished_run_is_told_as_such(tmp_path: Path) -> None:
    run = written(tmp_path, parts=1)
    assert verify(run) == Verified(run, "unfinished", 2)
    # Texts come before numbers, and files are written beside their places.
    (run / "cases-00001.json").write_text("[]", encoding="utf-8")
    (run / "measurements-00001.parquet.12.partial").write_bytes(b"half")
    assert verify(run).state == "unfinished"
    cut(run / "measurements-00000.parquet")
    (run / "x").write_bytes(b"x")
    assert verify(run) == Verified(run, "wrong", 2, ("measurements-00000.parquet: truncated or damaged", "x: foreign"))
    (run / "cases-00000.json").unlink()
    assert "cases-00000.json: missing" in verify(run).findings
