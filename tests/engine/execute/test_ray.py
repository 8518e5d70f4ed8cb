"""Workers on Ray itself: two nodes of one processor each, on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.places import later
from leakmeter.engine.loading import load_backend
from leakmeter.engine.storage import export
from leakmeter.errors import LeakmeterError, ModelError

ray = later("ray")
pytestmark = pytest.mark.long

CASES = [
    {"id": f"c{i}", "context": f"Anna sang {i} songs. Bo ate. Ci sails.", "query": "Who?", "response": f"Anna {i}"}
    for i in range(40)
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without processors, and two nodes of one."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    made.first, made.second = made.add_node(num_cpus=1), made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def exported(run: Any, folder: Path) -> list[bytes]:
    export.write(run.path, folder)
    return [(folder / name).read_bytes() for name in ("measurements.parquet", "cases.jsonl", "spec.json")]


def test_a_run_on_two_nodes_is_that_of_one_process(cluster: Any, tmp_path: Path) -> None:
    alone = leakmeter.influence("toy", CASES, out=tmp_path / "alone")
    meter = leakmeter.Meter("toy", on=f"ray:{cluster.address}", workers=2)
    run = meter.influence(CASES, out=tmp_path / "ray")
    assert run.path.name == alone.path.name
    assert exported(run, tmp_path / "a") == exported(alone, tmp_path / "b")
    assert len({result.cost for result in run}) > 0
    texts = [json.loads(path.read_text()) for path in sorted(run.path.glob("cases-*.json"))]
    assert len({one["cost"]["worker"] for (one,) in texts}) == 2
    meter.backend.close()


def test_a_node_goes_and_another_comes(cluster: Any, tmp_path: Path) -> None:
    told: list[str] = []
    backend = load_backend("smollm2-135m", on=f"ray:{cluster.address}", workers=2, notify=told.append, cache=False)
    cases = CASES[:14]
    with ThreadPoolExecutor() as threads:
        running = threads.submit(leakmeter.influence, backend, cases, out=tmp_path / "ray")
        while not list(tmp_path.glob("ray/*/measurements-*")):
            time.sleep(0.05)
        cluster.remove_node(cluster.second)
        cluster.second = cluster.add_node(num_cpus=1)
        run = running.result()
    assert any("worker was lost" in line for line in told)
    backend.close()
    words = "-m leakmeter influence --data - --model smollm2-135m --threads 1 --no-cache --json --out"
    rows = "\n".join(map(json.dumps, cases))
    finished([sys.executable, *words.split(), str(tmp_path / "alone")], tmp_path, input=rows)
    (path,) = (tmp_path / "alone").iterdir()
    assert exported(run, tmp_path / "a") == exported(leakmeter.load_run(path), tmp_path / "b")


def test_the_first_worker_that_cannot_load_the_model_says_so(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(LeakmeterError, match="nowhere"):
        load_backend(str(tmp_path / "nowhere"), on=f"ray:{cluster.address}", workers=2)


def test_a_cluster_that_is_not_there() -> None:
    ray.shutdown()
    with pytest.raises(ModelError, match=r"no answer from '127\.0\.0\.1:1'"):
        load_backend("toy", on="ray:127.0.0.1:1")


COMMAND = ("influence", "--data", "cases.jsonl", "--model", "toy", "--on", "ray", "--workers", "2", "--out", "runs")
WORDS = [sys.executable, "-m", "leakmeter", *COMMAND]


def finished(words: list[str], folder: Path, **how: Any) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, **how)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended


def until_five_parts(tmp_path: Path) -> tuple[subprocess.Popen[str], list[Path]]:
    """A command that measures in the background, and what it had written when it had five parts."""
    long = [{**case, "context": case["context"] * 20} for case in CASES]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, long)))
    started = subprocess.Popen(WORDS, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(done := list(tmp_path.glob("runs/*/measurements-*.parquet"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    return started, done


def test_a_killed_driver_goes_on(tmp_path: Path) -> None:
    killed, done = until_five_parts(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert 5 <= len(done) < 40
    before = {path: path.stat().st_mtime_ns for path in done}
    finished(WORDS, tmp_path)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    (path,) = (tmp_path / "runs").iterdir()
    words = [*WORDS[: WORDS.index("--on")], "--out", "alone"]
    # The toy's products of matrices depend on the number of threads too.
    finished(words, tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    runs = [leakmeter.load_run(tmp_path / root / path.name) for root in ("runs", "alone")]
    assert exported(runs[0], tmp_path / "a") == exported(runs[1], tmp_path / "b")


def test_an_interrupt_keeps_what_is_under_way(tmp_path: Path) -> None:
    asked, _ = until_five_parts(tmp_path)
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=60)
    assert asked.returncode == 130
    # One of two workers may just have ended its part.
    assert re.search(r"ending when the [12] parts in progress are done", said)
    assert "Traceback" not in said
    assert 5 < len(list(tmp_path.glob("runs/*/measurements-*.parquet"))) < 40


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process had at most is read from /proc")
def test_ten_thousand_cases_fit_into_a_driver_of_500_mb(tmp_path: Path) -> None:
    lines = [
        {"context": f"Alpha {i} saw {i % 11} stones.", "query": "What?", "response": f"{i % 11}"} for i in range(10_000)
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, lines)))
    # The peak of the driver alone. What `resource` tells is at least what the process that started it had.
    driver = (
        "import sys; from leakmeter.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*(line for line in open('/proc/self/status') if 'VmHWM' in line), file=sys.stderr)"
    )
    ended = finished([sys.executable, "-c", driver, *COMMAND, "--unit", "document"], tmp_path)
    kilobytes = int(ended.stderr.split("VmHWM:")[1].split()[0])
    assert kilobytes < 500_000


def test_ray_keeps_no_text(tmp_path: Path) -> None:
    """What Ray writes while a run is measured, its logs and its store's files, has no text of a case.

    The first cases are larger than what Ray sends without its store.
    """
    secrets = [f"Zanzibarquux{i}" for i in range(20)]
    cases = [
        {"context": f"Anna lives in {one}. " + f"{one} is a town. " * 3000, "query": "Who?", "response": f"in {one}"}
        for one in secrets[:2]
    ] + [{"context": f"Bo lives in {one}.", "query": "Who?", "response": f"in {one}"} for one in secrets[2:]]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
    finished([*WORDS, "--max-context-tokens", "200"], tmp_path)
    newest = max(Path("/tmp/ray").glob("session_2*"), key=lambda path: path.stat().st_mtime)
    files = [path for path in newest.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if b"Zanzibarquux" in path.read_bytes()] == []
    if (shared := Path("/dev/shm")).is_dir():
        left = [path for path in shared.iterdir() if path.is_file() and "plasma" in path.name]
        assert [path for path in left if b"Zanzibarquux" in path.read_bytes()] == []
