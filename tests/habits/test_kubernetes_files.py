"""The image and the job for Kubernetes fit each other, leakmeter and its locked versions."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from helpers.docs_blocks import exit_code
from helpers.places import ROOT

FOLDER: Final = ROOT / "deploy" / "kubernetes"
DOCKERFILE: Final = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
JOB, POLICY = yaml.safe_load_all((FOLDER / "rayjob.yaml").read_text(encoding="utf-8"))
CLUSTER: Final[dict[str, Any]] = JOB["spec"]["rayClusterSpec"]
HEAD: Final[dict[str, Any]] = CLUSTER["headGroupSpec"]
(WORKERS,) = CLUSTER["workerGroupSpecs"]
SUBMITTER: Final = JOB["spec"]["submitterPodTemplate"]
PODS: Final = {"submitter": SUBMITTER, "head": HEAD["template"], "worker": WORKERS["template"]}


def words() -> list[str]:
    *said, arrow, nowhere = shlex.split(JOB["spec"]["entrypoint"])
    assert (arrow, nowhere) == (">", "/dev/null")
    return said


def option(name: str) -> str:
    return words()[words().index(name) + 1]


def test_the_image_has_the_ray_that_the_job_names() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.findall(r"^ray==([\d.]+)", constraints, re.MULTILINE) == [CLUSTER["rayVersion"]]
    assert "sed -n 's/^ray==//p'" in DOCKERFILE
    assert "ray[default]" in DOCKERFILE
    assert re.search(r"^USER leakmeter$", DOCKERFILE, re.MULTILINE)
    assert DOCKERFILE.rstrip().endswith('RUN leakmeter models pull "$MODEL"')


def test_all_pods_are_of_one_image_and_have_no_rights() -> None:
    for name, pod in PODS.items():
        (container,) = pod["spec"]["containers"]
        assert container["image"] == PODS["head"]["spec"]["containers"][0]["image"], name
        assert container["securityContext"]["runAsNonRoot"], name
        assert not container["securityContext"]["allowPrivilegeEscalation"], name
        assert not pod["spec"]["automountServiceAccountToken"], name
        assert pod["metadata"]["labels"] == POLICY["spec"]["podSelector"]["matchLabels"], name


def test_the_command_and_the_workers_fit_each_other() -> None:
    assert int(option("--workers")) == WORKERS["replicas"] == WORKERS["minReplicas"] == WORKERS["maxReplicas"]
    resources = WORKERS["template"]["spec"]["containers"][0]["resources"]
    assert option("--threads") == WORKERS["rayStartParams"]["num-cpus"] == resources["requests"]["cpu"]
    assert HEAD["rayStartParams"]["num-cpus"] == "0"
    assert option("--on") == "ray"  # the address of the cluster is in the environment of the job
    assert option("--model") in DOCKERFILE


def test_only_the_head_reads_the_cases_and_writes_the_run() -> None:
    (head,), (worker,) = (PODS[name]["spec"]["containers"] for name in ("head", "worker"))
    assert [one["mountPath"] for one in head["volumeMounts"]] == [str(Path(option("--data")).parent)]
    assert "envFrom" in head
    assert not {"envFrom", "env", "volumeMounts"} & set(worker)


def test_leakmeter_takes_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"context": "Anna ate.", "query": "Who?", "response": "Anna"}\n')
    given = {option("--data"): str(cases), option("--model"): "toy", option("--out"): str(tmp_path / "runs")}
    taken = [given.get(word, word) for word in words()[1:]]
    at = taken.index("--on")
    # The toy has no workers of its own, and no memory to bound.
    assert exit_code([*taken[:at], *taken[at + 8 :], "--dry-run"]) == 0
    assert "toy" in capsys.readouterr().out
