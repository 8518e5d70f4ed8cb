"""What a release is made of: locked, hashed, under licences that permit it, and the same bytes whoever builds it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.places import ROOT, script

LOCKS: Final = ROOT / "locks"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Final = ("accounting", "dev", "docs", "integrations", "llamacpp", "quality", "ray", "serve", "stores", "test")
LESSER_GPL: Final[frozenset[str]] = frozenset()
"""Packages under the LGPL: each would have to be named here, with a reason."""
STRONG: Final = r"(?<!L)\bA?GPL|(?<!Lesser )General Public"
UNTOLD: Final = {"axe-playwright-python": "MIT by its file LICENSE; of it only axe-core's script is used (MPL-2.0)"}
"""Packages whose metadata has no licence."""


def tool(name: str) -> ModuleType:
    return script(ROOT / "tools" / f"{name}.py")


def test_everything_that_is_needed_is_locked_with_hashes() -> None:
    assert tool("lock").unlocked() == []
    for path in LOCKS.glob("*.txt"):
        entries = re.findall(r"^[^#\s\\][^\\\n]*(?:\\\n[^\\\n]*)*", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert entries, path
        for entry in entries:
            first, *hashes = re.split(r" \\\n +", entry)
            assert re.fullmatch(r"[a-z0-9][\w.-]*==[\w.+!]+( ; .+)?", first), first
            assert hashes, first
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), first


def test_torch_for_cpus_is_locked_for_every_python() -> None:
    text = (LOCKS / "torch-cpu.txt").read_text(encoding="utf-8")
    wheel = r"^#   torch-\S+\+cpu-cp(\d+)-cp\1-manylinux_\d+_\d+_(\w+)\.whl ([0-9a-f]{64})$"
    named = re.findall(wheel, text, re.MULTILINE)
    tags = {python.replace(".", "") for python in tool("lock").PYTHONS}
    assert {(tag, machine) for tag, machine, _ in named} == {(t, m) for t in tags for m in ("x86_64", "aarch64")}
    assert sorted(digest for *_, digest in named) == sorted(re.findall(r"--hash=sha256:(\w+)", text))


def test_a_lock_that_lacks_something_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tool("lock")
    found = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    changed = tmp_path / "constraints.txt"
    changed.write_text(re.sub(r"^(rich==).*$", r"\g<1>1.0", found, flags=re.MULTILINE), encoding="utf-8")
    monkeypatch.setattr(lock, "CONSTRAINTS", changed)
    assert lock.unlocked() == ["rich: constraints.txt and locks/ differ", "rich>=14: locked is 1.0; run tools/lock.py"]


def test_forks_and_platforms_stay_in_the_lock() -> None:
    lock = tool("lock")
    text = (
        "numpy==2.4 ; python_full_version < '3.12' \\\n    --hash=sha256:aa\n"
        "numpy==2.5 ; python_full_version >= '3.12' \\\n    --hash=sha256:bb\n"
        "httpx2-jsfetch==1.0 ; sys_platform == 'emscripten' \\\n    --hash=sha256:cc\n"
    )
    lines = {name: [lock.first_line(one) for one in of] for name, of in lock.entries(text).items()}
    assert lines == {
        "numpy": [f"numpy==2.{n} ; python_full_version {than} '3.12'" for n, than in ((4, "<"), (5, ">="))]
    }
    assert lock.versions(text)["numpy"] == {"2.4", "2.5"}


def closure() -> Iterator[metadata.Distribution]:
    """All that is installed of what leakmeter needs, with the extras of its developers."""
    todo, seen = [("leakmeter", frozenset(EXTRAS))], set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed here
        yield found
        for line in found.requires or []:
            one = Requirement(line)
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                todo.append((canonicalize_name(one.name), frozenset(one.extras)))


def licence(found: metadata.Distribution) -> str:
    """What a package's metadata says of its licence, all of it; a text in full is cut after its first line."""
    told = found.metadata
    classifiers = [one for one in told.get_all("Classifier") or [] if one.startswith("License")]
    words = [told.get("License-Expression") or "", (told.get("License") or "").partition("\n")[0], *classifiers]
    return " | ".join(word for word in words if word)


def test_no_dependency_is_under_the_gpl() -> None:
    of = {canonicalize_name(found.metadata["Name"]): licence(found) for found in closure()}
    assert {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]} <= of.keys()
    assert len(of) > 70
    # Some packages offer a choice of licences; an exception lets those be used that are compiled with a GPL'd compiler.
    assert {name: said for name, said in of.items() if _is_under(said, STRONG)} == {}
    assert {name for name, said in of.items() if _is_under(said, r"LGPL|Lesser General Public")} == LESSER_GPL
    assert {name for name, said in of.items() if not said} <= UNTOLD.keys()


def _is_under(said: str, pattern: str) -> bool:
    """Whether a licence has to be followed: not one that another can be chosen for, nor one with an exception."""
    said = re.sub(r"[\w.+-]+ WITH [\w.-]+", "", said)
    parts = [part for part in re.split(r"\||\bAND\b", said) if not re.search(r"\bOR\b", part)]
    return any(re.search(pattern, part, re.IGNORECASE) for part in parts)


def test_the_licence_test_sees_what_it_should() -> None:
    told = {
        "GPL-3.0-or-later": True,
        "MIT AND AGPL-3.0-only": True,
        "License :: OSI Approved :: GNU General Public License v3 (GPLv3)": True,
        "GPL-2.0-only OR MIT": False,
        "BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1": False,
        "LGPL-2.1": False,
        "GNU Lesser General Public License v2": False,
    }
    assert {said: _is_under(said, STRONG) for said in told} == told


@pytest.mark.long
def test_wheel_and_sdist_are_the_same_bytes_whoever_builds_them(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    if not (ROOT / ".git").exists():
        pytest.skip("there is no checkout to build")
    command = [sys.executable, str(ROOT / "tools" / "build.py"), "--to", str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "SHA256SUMS").read_text("ascii").splitlines())
    assert sorted(sums) == [f"leakmeter-{PROJECT['version']}{end}" for end in ("-py3-none-any.whl", ".tar.gz")]
    for name, digest in sums.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest


def test_files_that_differ_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = tool("build")
    monkeypatch.setattr(build, "built", lambda mask, zone: {"a.whl": b"same", "a.tar.gz": zone.encode()})
    monkeypatch.setattr(sys, "argv", ["build.py", "--to", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"bytes differ: a\.tar\.gz"):
        build.main()
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_one() -> None:
    release = tool("release")
    assert [line for line in release.wrong_versions() if "not released" not in line] == []
    assert "the tag is v9, and pyproject.toml says" in release.wrong_versions("v9")[0]


def test_the_checklist_stops_at_what_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    release = tool("release")
    commands = {"first": ("true",), "second": ("true", "false"), "third": ("false",)}
    monkeypatch.setattr(release, "STEPS", [release.Step(name, "", words) for name, words in commands.items()])
    monkeypatch.setattr(sys, "argv", ["release.py", "--list"])
    release.main()
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["first", "second", "third"]
    monkeypatch.setattr(sys, "argv", ["release.py"])
    with pytest.raises(SystemExit) as ended:
        release.main()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "third" not in said.out
    assert said.err == "failed: false\nmend it, then go on: python tools/release.py --from second\n"
    asked = release.Step("look", "A person looks.", look="Look at {version}.")
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    release.walk(asked, asks=True)
    monkeypatch.setattr("builtins.input", lambda prompt: "")
    with pytest.raises(SystemExit):
        release.walk(asked, asks=True)
    assert f"Look at {PROJECT['version']}." in capsys.readouterr().out


def test_the_citation_is_one() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= cited.keys()
    assert (cited["version"], cited["license"], cited["type"]) == (PROJECT["version"], PROJECT["license"], "software")
    assert all(
        author.keys() <= {"name", "given-names", "family-names", "orcid", "website"} for author in cited["authors"]
    )


def test_workflows_have_no_more_rights_than_they_need() -> None:
    commits: dict[str, set[str]] = {}
    for path in (ROOT / "action.yml", *(ROOT / ".github" / "workflows").glob("*.yml")):
        text = path.read_text(encoding="utf-8")
        for action, commit in re.findall(r"uses: ([\w./-]+)@(\w+)", text):
            commits.setdefault(action, set()).add(commit)
        if path.name == "action.yml":
            continue
        workflow: dict[Any, Any] = yaml.safe_load(text)
        assert workflow["permissions"] == {}
        for name, job in workflow["jobs"].items():
            allowed = {("contents", "read"), ("contents", "write") if path.stem == "docs" else None}
            assert job["permissions"].items() <= allowed | {("id-token", "write") if name == "publish" else None}
            assert job["timeout-minutes"] <= 90
            uses = [step["uses"] for step in job["steps"] if "uses" in step]
            assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one) for one in uses)
            # What stands in a script by an expression would be code; the environment is data.
            assert not any("${{" in step["run"] for step in job["steps"] if "uses" not in step)
        assert "secrets." not in text
        # A commit says nothing to a reader; the version behind it does.
        assert all(re.search(r"# v\d+\.\d+\.\d+", line) for line in text.splitlines() if "uses:" in line)
    # An action has the same commit everywhere.
    assert {action: found for action, found in commits.items() if len(found) > 1} == {}


def test_the_files_of_a_release_are_in_the_sdist() -> None:
    include = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert all(list(ROOT.glob(name.removeprefix("/"))) for name in include["include"])
    assert {"/SECURITY.md", "/CITATION.cff", "/locks", "/tools", "/tests"} <= set(include["include"])
