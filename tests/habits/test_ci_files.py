"""What others put into their own pipelines: the composite action, the pre-commit hooks, the image. Run or linted."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.places import ROOT

yaml: Any = pytest.importorskip("yaml")
ACTION: Final = ROOT / "action.yml"
HOOKS: Final = ROOT / ".pre-commit-hooks.yaml"
DOCKERFILE: Final = ROOT / "Dockerfile"
BASH: Final = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="there is no bash here")


def exactly(*required: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object of these properties and no others."""
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


TEXT: Final = {"type": "string"}
TEXTS: Final = {"type": "object", "additionalProperties": TEXT}
STEP: Final = {
    **exactly(**dict.fromkeys(("name", "id", "if", "run", "shell", "uses", "working-directory"), TEXT), env=TEXTS,
              **{"with": TEXTS}),
    "oneOf": [{"required": ["uses"]}, {"required": ["run", "shell"]}],
}  # fmt: skip
INPUT: Final = exactly("description", description=TEXT, required={"type": "boolean"}, default=TEXT)
# Of GitHub's "Metadata syntax" for composite actions.
ACTION_SCHEMA: Final = exactly(
    *("name", "description", "runs"), name=TEXT, author=TEXT, description={"type": "string", "maxLength": 125},
    branding={"type": "object", "required": ["icon", "color"]}, outputs={"type": "object"},
    inputs={"type": "object", "additionalProperties": INPUT},
    runs=exactly("using", "steps", using={"const": "composite"}, steps={"type": "array", "items": STEP}),
)  # fmt: skip
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


def test_the_action_is_one() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    action, text = loaded(ACTION), ACTION.read_text(encoding="utf-8")
    jsonschema.validate(json.loads(json.dumps(action)), json.loads(json.dumps(ACTION_SCHEMA)))
    # An input within a script would be code; it is given by the environment.
    assert not any("${{" in one.get("run", "") for one in action["runs"]["steps"])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    used = [one for one in action["runs"]["steps"] if "uses" in one]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one["uses"]) for one in used)
    # Scores are private text in effect: pull requests can read what a workflow has cached.
    (cache,) = (one["with"]["path"] for one in used if one["uses"].startswith("actions/cache"))
    assert cache.split() == ["~/.cache/pip", "~/.cache/leakmeter/models"]
    assert "download.pytorch.org/whl/cpu" in steps()["install"]["run"]


@needs_bash
def test_scripts_are_bash() -> None:
    of_action = [one["run"] for one in steps().values()]
    of_image = [rest for name, rest in instructions() if name == "RUN"]
    assert len(of_image) == 5
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


def test_the_dockerfile_is_made_as_it_should_be() -> None:
    found = instructions()
    known = ("ARG", "FROM", "WORKDIR", "RUN", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD")
    assert {name for name, _ in found} <= {*known}
    stages = [number for number, (name, _) in enumerate(found) if name == "FROM"]
    assert len(stages) == 2
    build, final = found[: stages[1]], found[stages[1] :]
    assert ("ARG", "DEVICE=cpu") in build
    assert "whl/cpu" in " ".join(rest for _, rest in build)
    last = dict(final)
    assert last["USER"] not in ("root", "0")
    assert (last["ENTRYPOINT"], last["CMD"]) == ('["leakmeter"]', '["--help"]')
    # Only what the image is made of is sent to the builder, and all of it is there.
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert "*" in ignored
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {word for name, rest in build if name == "COPY" for word in rest.split()[:-1]}
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)
    assert not any(name.startswith("--from") for name in copied)


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
