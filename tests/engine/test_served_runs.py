"""Runs of a served model: what identifies them, noise, cost, and what becomes of them when all goes wrong."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from helpers.command_line import Ended, run_command
from helpers.model_server import OPENAI, VLLM, ModelServer
from leakmeter.backends.served import connection
from leakmeter.backends.served.fingerprint import Fingerprint, settled
from leakmeter.engine.loading import load_run
from leakmeter.engine.storage.rundir import RunDirectory

KEY = "key-4711-of-nobody"
_PROBE = [0, 0]

Cli = Callable[..., Ended]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEAKMETER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_FIRST_WAIT", 0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cases = [
        {"id": name, "context": f"{name} lives in Graz. The dog of {name} barks.", "query": "Who?", "response": name}
        for name in ("Anna Ek", "Bo Lund", "Cid Holm")
    ]
    path = tmp_path_factory.mktemp("data") / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    return path


class Calm(NamedTuple):
    """What an undisturbed run gives, and how often it asks the server."""

    results: list[dict[str, Any]]
    run: Path
    n_calls: int
    n_scored: int


@pytest.fixture(scope="module")
def calm(data: Path) -> Calm:
    with ModelServer(VLLM) as server:
        out = data.parent / "calm"
        results = cases_of(influence(lambda *words: run_command(words), server, data, "--out", out))
    return Calm(results, the_run(out), len(server.calls), n_scored(server))


def influence(cli: Cli, server: ModelServer, data: Path, *more: object) -> Ended:
    options = ("--model", server.model, "--tokenizer", "toy", "--data", data, "--unit", "sentence", "--json")
    return cli("influence", *options, *more)


def cases_of(ended: Ended) -> list[dict[str, Any]]:
    assert ended.code == 0, ended.err
    results = [json.loads(line) for line in ended.out.splitlines()]
    for result in results:
        del result["cost"]
    return results


def the_run(out: str | Path = "runs") -> Path:
    (path,) = Path(out).iterdir()
    return path


def n_scored(server: ModelServer) -> int:
    """Requests that scored something, not those that ask what the server can."""
    return sum(call.body["prompt"] != [_PROBE] for call in server.calls)


def test_a_run_is_told_by_the_model_and_not_by_where_it_is_served(cli: Cli, data: Path, calm: Calm) -> None:
    out = calm.run.parent
    with ModelServer(VLLM) as elsewhere:
        assert cases_of(influence(cli, elsewhere, data, "--out", out)) == calm.results
        assert n_scored(elsewhere) < calm.n_scored / 4
    spec = RunDirectory(the_run(out)).read_spec()
    # A stable server has no noise.
    assert [result["noise_floor_nats"] for result in calm.results] == [0.0] * 3
    assert spec["noise"]["nats"] == 0.0
    assert spec["model"]["weights_sha256"] is None
    assert (spec["model"]["served_model"], spec["model"]["dialect"]) == ("toy", "vllm")
    assert not {"host", "port", "url"} & spec["model"].keys()
    with ModelServer(VLLM, faults=["swapped_weights"]) as other:
        assert cases_of(influence(cli, other, data)) != calm.results
    assert the_run().name != calm.run.name


def test_noise_does_not_take_a_models_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_SCORES", str(tmp_path / "scores"))
    told = {"served_model": "toy", "server_version": None}
    first = Fingerprint("aa", (-10.24, -3.0))
    assert settled(first, told) == first
    assert settled(Fingerprint("bb", (-10.26, -3.01)), told) == Fingerprint("aa", (-10.26, -3.01))
    assert settled(Fingerprint("cc", (-10.26, -4.0)), told).sha256 == "cc"
    assert settled(Fingerprint("dd", (-10.24, -3.0)), {**told, "server_version": "2"}).sha256 == "dd"
    (tmp_path / "scores" / "served.json").write_text("[{}]")
    assert settled(Fingerprint("ee", (-10.24, -3.0)), told).sha256 == "ee"
    monkeypatch.setenv("LEAKMETER_SCORES", "off")
    assert settled(Fingerprint("ff", (-10.24, -3.0)), told).sha256 == "ff"


def test_a_model_that_changes_in_the_middle_stops_the_run(cli: Cli, data: Path, calm: Calm) -> None:
    with ModelServer(VLLM, faults={"swapped_weights": calm.n_calls * 2 // 3}) as server:
        ended = influence(cli, server, data)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "does not serve the model that the run began with (another log-probabilities)" in ended.err
        n_done = len(ended.out.splitlines())
        assert n_done == len(RunDirectory(the_run()).parts)
        assert 0 < n_done < 3
        server.faults = {}
        n_before = n_scored(server)
        assert cases_of(influence(cli, server, data)) == calm.results
    # What was kept is paid for once.
    assert n_scored(server) - n_before < calm.n_calls * (1 - n_done / 6)
    assert the_run().name == calm.run.name


def test_a_new_version_of_the_server_in_the_middle_stops_the_run(cli: Cli, data: Path) -> None:
    versions = iter(["1"])
    routes = replace(VLLM, get={**VLLM.get, "/version": lambda server: {"version": next(versions, "2")}})
    with ModelServer(routes, faults={"cut": (52, 53)}) as server:
        ended = influence(cli, server, data)
    assert ended.code == 2
    assert "another server version" in ended.err


def test_noise_is_measured_once_and_stored_and_is_the_floor_of_results(cli: Cli, data: Path) -> None:
    with ModelServer(VLLM, faults=["unstable"]) as server:
        results = cases_of(influence(cli, server, data))
    noise = RunDirectory(the_run()).read_spec()["noise"]
    assert noise["nats"] >= max(noise[f"{name}_nats"] for name in ("repeat", "order", "company", "split"))
    assert 0.005 < noise["nats"] < 0.2
    assert min(noise["response_nats"], noise["split_nats"]) > 0.0
    assert noise["cache_nats"] is None
    for result in results:
        n_tokens = len(result["response"]["tokens"])
        assert result["noise_floor_nats"] == pytest.approx(2 * noise["nats"] * n_tokens)
    assert [case.to_dict()["noise_floor_nats"] for case in load_run(the_run())] == [
        result["noise_floor_nats"] for result in results
    ]


def test_a_continued_run_keeps_noise_that_was_stored_with_fewer_fields(cli: Cli, data: Path) -> None:
    with ModelServer(VLLM, faults={"changed_model": 60}) as server:
        assert influence(cli, server, data).code == 2
        directory = RunDirectory(the_run())
        assert directory.noise is not None
        old = {name: v for name, v in directory.noise.items() if name not in ("split_nats", "response_nats")}
        directory.keep_noise({**old, "nats": 0.25})
        server.faults = {}
        results = cases_of(influence(cli, server, data))
    assert RunDirectory(the_run()).noise == {**old, "nats": 0.25}
    assert results[-1]["noise_floor_nats"] == pytest.approx(0.5 * len(results[-1]["response"]["tokens"]))
    assert [case.id for case in load_run(the_run())] == [result["id"] for result in results]


def test_more_requests_at_a_time_have_the_noise_measured_again(cli: Cli, data: Path) -> None:
    with ModelServer(VLLM, faults={"unstable": 0, "changed_model": 52}) as server:
        assert influence(cli, server, data, "--concurrency", "1").code == 2
        alone = RunDirectory(the_run()).noise
        server.faults = {}
        assert influence(cli, server, data, "--concurrency", "8").code == 0
    noise = RunDirectory(the_run()).noise
    assert alone is not None
    assert noise is not None
    assert (alone["concurrency"], noise["concurrency"]) == (1, 8)
    # The server has no noise any more, and the run keeps what it had.
    assert (noise["company_nats"], noise["nats"]) == (0.0, alone["nats"])


@pytest.mark.parametrize("routes", [VLLM, OPENAI], ids=["vllm", "openai"])
def test_a_dry_run_says_what_the_server_is_asked(routes: Any, cli: Cli, data: Path) -> None:
    with ModelServer(routes) as server:
        dry = influence(cli, server, data, "--dry-run", "--price-per-million", "2.5")
        assert dry.code == 0, dry.err
        n_before = len(server.calls)
        run = influence(cli, server, data)
        asked = server.calls[n_before:]
        words = f"influence --model {server.model} --tokenizer toy --dry-run --price-per-million 2.5 --data"
        shown = cli(*words.split(), data).out
    told = json.loads(dry.out)
    # To find out what a server can, one request more is sent, before anything else.
    n_tokens = sum(len(prompt) for call in asked[1:] for prompt in call.body["prompt"])
    price = {"price_per_million": 2.5, "price": pytest.approx(n_tokens * 2.5e-6)}
    assert told["served"] == {"requests": len(asked) - 1, "prompt_tokens": n_tokens, **price}
    assert told["seconds"] is None
    costs = [json.loads(line)["cost"] for line in run.out.splitlines()]
    assert sum(one["tree_tokens"] for one in costs) == told["tree_tokens"]
    assert all(said in shown for said in ("requests to the server", "not predicted", "price"))


def test_a_price_without_a_server_is_refused(cli: Cli, data: Path) -> None:
    for options, said in (
        (("--price-per-million", "1"), "--price-per-million is for --dry-run"),
        (("--price-per-million", "-1", "--dry-run"), "at least 0"),
        (("--price-per-million", "1", "--dry-run"), "runs here, and has no price"),
    ):
        ended = cli("influence", "--model", "toy", "--data", data, *options)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert said in ended.err


@pytest.mark.parametrize("n_answers", [0, pytest.param(0.9, marks=pytest.mark.long)])
def test_only_a_run_that_kept_something_is_said_to_go_on(
    cli: Cli, data: Path, calm: Calm, monkeypatch: pytest.MonkeyPatch, n_answers: float
) -> None:
    once, begins = connection.Connection._once, int(calm.n_calls * n_answers)
    left = iter(range(begins))

    def breaking(*given: Any) -> Any:
        return (500, b"", None) if next(left, None) is None else once(*given)

    with ModelServer(VLLM) as server:
        monkeypatch.setattr(connection.Connection, "_once", breaking)
        ended = influence(cli, server, data, "--out", "cut")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.rstrip().endswith("read its log" if not begins else "; the run continues where it stopped")


def test_a_run_outlives_the_servers_restart_and_pays_nothing_twice(cli: Cli, data: Path, calm: Calm) -> None:
    with ModelServer(VLLM) as server:

        def restart() -> None:
            deadline = time.monotonic() + 60
            while len(server.calls) <= calm.n_scored // 2 and time.monotonic() < deadline:
                time.sleep(0.005)
            server.stop()
            time.sleep(0.1)
            server.start()

        restarting = threading.Thread(target=restart)
        restarting.start()
        results = cases_of(influence(cli, server, data))
        restarting.join()
        assert results == calm.results
        # What was under way is asked for again, and nothing else.
        assert 0 <= n_scored(server) - calm.n_scored <= connection.DEFAULT_CONCURRENCY


def test_a_key_is_in_no_file_and_no_output(cli: Cli, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_API_KEY", KEY)
    for name in ("cache", "config"):
        monkeypatch.setenv(f"LEAKMETER_{name.upper()}", str(Path.cwd() / name))
    with ModelServer(VLLM, key=KEY) as server:
        ended = [influence(cli, server, data, *more) for more in (("--html", "page.html"), ("--dry-run",))]
        monkeypatch.setenv("LEAKMETER_API_KEY", f"{KEY}-and-more")
        ended.append(influence(cli, server, data, "--out", "other"))
        monkeypatch.setenv("LEAKMETER_API_KEY", KEY)
        for fault in ("missing_rows", "nan", "changed_model", "echo_ignored"):
            server.faults = {fault: (len(server.calls) + 25, 10**9)}
            ended.append(influence(cli, server, data, "--out", "faulty"))
        server.faults = {}
        server.stop()
        assert all(call.headers["Authorization"].startswith(f"Bearer {KEY}") for call in server.calls)
    (run, *_) = sorted(Path("runs").iterdir())
    ended += [cli("report", run), cli("runs", "show", run)]
    assert [one.code for one in ended] == [0, 0, 2, 2, 2, 2, 2, 0, 0]
    for one in ended:
        assert KEY not in one.out + one.err
    files = {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()}
    assert len(files) > 8
    assert not [path for path, content in files.items() if KEY.encode() in content or KEY in path.name]
    assert os.environ["LEAKMETER_API_KEY"] == KEY
