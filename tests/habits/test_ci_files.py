"""What others put into their own pipelines: the action, the pre-commit hooks, the image, the job. Run or linted."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.docs_blocks import exit_code
from helpers.places import ROOT

yaml: Any = pytest.importorskip("yaml")
ACTION: Final = ROOT / "action.yml"
HOOKS: Final = ROOT / ".pre-commit-hooks.yaml"
DOCKERFILE: Final = ROOT / "Dockerfile"
BASH: Final = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="there is no bash here")


CASES: Final = [
    {"id": name, "context": f"{name} Ek lives in Graz.", "query": "Who?", "response": name} for name in ("Anna", "Bo")
]


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps() -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in loaded(ACTION)["runs"]["steps"] if "name" in step}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A directory with cases, and `leakmeter` on the path."""
    monkeypatch.chdir(tmp_path)
    Path("cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
    program, temporary = tmp_path / "bin" / "leakmeter", tmp_path / "temporary"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m leakmeter "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    temporary.mkdir()
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    ours = {"LEAKMETER_CONFIG": str(tmp_path / "config"), "RUNNER_TEMP": str(temporary), "TMPDIR": str(temporary)}
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), **ours}


def step(name: str, environment: dict[str, str], **inputs: str) -> subprocess.CompletedProcess[str]:
    """A step of the action with its inputs, as GitHub runs it."""
    given = {key: one.get("default", "") for key, one in loaded(ACTION)["inputs"].items()} | inputs
    one = steps()[name]
    env = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
        for key, value in one["env"].items()
    }
    command = [str(BASH), "--noprofile", "--norc", "-eo", "pipefail", "-c", one["run"]]
    return subprocess.run(command, env={**environment, **env}, capture_output=True, text=True, check=False)


def test_the_action_runs_no_code_of_others_and_caches_no_scores() -> None:
    ran = loaded(ACTION)["runs"]["steps"]
    # An input within a script would be code; it is given by the environment.
    assert not any("${{" in one.get("run", "") for one in ran)
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one["uses"]) for one in ran if "uses" in one)
    # Scores are private text in effect: pull requests can read what a workflow has cached.
    (cache,) = (one["with"]["path"] for one in ran if one.get("uses", "").startswith("actions/cache"))
    assert cache.split() == ["~/.cache/pip", "~/.cache/leakmeter/models"]


@needs_bash
def test_scripts_are_bash() -> None:
    of_action = [one["run"] for one in steps().values()]
    of_image = [rest for name, rest in instructions() if name == "RUN"]
    assert of_action
    assert of_image
    for script in of_action + of_image:
        subprocess.run([str(BASH), "-n", "-c", script], check=True)
    for script in of_action if shutil.which("shellcheck") else ():
        subprocess.run(["shellcheck", "-s", "bash", "-"], input=script, text=True, check=True)


@pytest.mark.long
@needs_bash
def test_the_action_measures_and_gates(environment: dict[str, str]) -> None:
    options = "--unit=word\n--max-new-tokens=4\n"
    measured = step("measure", environment, data="cases.jsonl", model="toy", **{"measure-options": options})
    assert (measured.returncode, measured.stdout) == (0, ""), measured.stderr
    bounds = "influence.max <= 1e6\ninfluence.worst_piece.max <= 1e6\n"
    held = step("gate", environment, data="cases.jsonl", max=bounds, min="influence.min >= 0", junit="gate.xml")
    assert held.returncode == 0, held.stderr
    assert held.stdout.count("holds") == 3
    assert "influence, 2 cases, cases.jsonl, unit word" in held.stderr
    assert Path("gate.xml").read_text(encoding="utf-8").count("<testcase") == 3
    broken = step("gate", environment, data="cases.jsonl", max="influence.max < 0", confident="true")
    assert broken.returncode == 1
    hostile = step("gate", environment, data="cases.jsonl", max='"; touch harmed; $(touch harmed) `touch harmed`')
    assert hostile.returncode == 2
    assert not Path("harmed").exists()


@pytest.mark.long
@needs_bash
def test_the_hooks_gate(environment: dict[str, str]) -> None:
    hooks = {hook["id"]: hook for hook in loaded(HOOKS)}
    assert set(hooks) == {"leakmeter-gate", "leakmeter-gate-data"}
    for hook in hooks.values():
        assert {"id", "name", "description", "entry", "language"} <= hook.keys()
        assert (hook["language"], hook["pass_filenames"], hook["always_run"]) == ("python", False, True)

    def code(name: str, *words: str) -> int:
        command = [*shlex.split(hooks[name]["entry"]), *words]
        env = {**environment, "LEAKMETER_MODEL": "toy"}
        return subprocess.run(command, env=env, capture_output=True, check=False).returncode

    assert code("leakmeter-gate-data", "cases.jsonl", "--max", "influence.max <= 1e6") == 0
    assert code("leakmeter-gate-data", "cases.jsonl", "--max", "influence.max < 0") == 1
    assert code("leakmeter-gate-data", "missing.jsonl", "--max", "influence.max <= 1e6") == 2
    # Nothing is left behind, neither where it ran nor among temporary files.
    assert {path.name for path in Path().iterdir()} <= {"cases.jsonl", "bin", "temporary", "config"}
    assert list(Path("temporary").iterdir()) == []
    assert code("leakmeter-gate", "--max", "influence.max <= 1e6") == 2


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile: each with what stands behind it, lines that go on joined."""
    text = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())]


def test_the_dockerfile_installs_what_is_locked_for_a_device() -> None:
    (choosing,) = (rest for name, rest in instructions() if name == "RUN" and "case" in rest)
    shown = choosing.replace("/opt/leakmeter/bin/pip", "echo")

    def said(device: str) -> tuple[int, str]:
        env = {**os.environ, "DEVICE": device}
        done = subprocess.run(["sh", "-c", shown], cwd=ROOT, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout.strip() + done.stderr

    installed = "install --no-cache-dir --no-deps --require-hashes"
    index = "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert said("cpu") == (0, f"{installed} -r locks/torch-cpu.txt {index}")
    assert said("cuda") == (0, f"{installed} -r locks/base.txt -r locks/cuda.txt")
    assert said("tpu") == (1, "DEVICE is 'tpu'; it has to be cpu or cuda\n")


def test_leakmeter_takes_the_command_of_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, _ = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rayjob.yaml").read_text(encoding="utf-8"))
    words = shlex.split(job["spec"]["entrypoint"])
    assert (words[0], words[-2:]) == ("leakmeter", [">", "/dev/null"])
    options = dict(pairwise(words))
    assert options["--on"] == "ray"  # the address of the cluster is in the environment of the job
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"context": "Anna ate.", "query": "Who?", "response": "Anna"}\n')
    given = {options["--data"]: str(cases), options["--model"]: "toy", options["--out"]: str(tmp_path / "runs")}
    taken = [given.get(word, word) for word in words[1:-2]]
    at = taken.index("--on")
    # The toy has no workers of its own, and no memory to bound.
    assert exit_code([*taken[:at], *taken[at + 8 :], "--dry-run"]) == 0
    assert "toy" in capsys.readouterr().out


@pytest.mark.long
def test_the_image_is_built() -> None:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([builder, *words], capture_output=True, text=True, check=False)

    there = [name for name in ("docker", "podman") if shutil.which(name)]
    builder = next((one for one in there if not subprocess.run([one, "info"], capture_output=True).returncode), "")
    if not builder:
        pytest.skip("no docker or podman that works is here: the image was linted, and not built")
    built = call("build", "-q", "-t", "leakmeter-test", str(ROOT))
    if built.returncode and re.search(r"resolv|network|timed? ?out|pull access|TLS", built.stderr):
        pytest.skip("no registry is within reach")
    assert built.returncode == 0, built.stderr
    assert re.fullmatch(r"\d+\.\d+\.\d+.*\n", call("run", "--rm", "leakmeter-test", "--version").stdout)
    assert call("run", "--rm", "--entrypoint", "id", "leakmeter-test", "-u").stdout.strip() != "0"
