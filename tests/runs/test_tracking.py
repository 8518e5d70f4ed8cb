"""A run's summary for experiment trackers, by modules that stand in for them, and by the real ones where installed."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import leakmeter
from leakmeter.errors import LeakmeterError
from leakmeter.runs.tracking import log_run, summary_of

Call = Callable[..., Any]
NAMES = ("Anna", "Bo", "Cora")


@pytest.fixture
def run(cli: Call, tmp_path: Path) -> Path:
    """Of notes about people, with a template and a name that say something private."""
    lines = [
        {"id": f"note of {name}", "context": f"{name} Ek lives in Graz.", "query": "Who?", "response": name}
        for name in NAMES
    ]
    data = tmp_path / "Anna_Ek.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    words = ("--template", "Notes of Dr Voss: {context} {query}", "--name", "Voss", "--seed", "77")
    ended = cli("influence", "--data", data, "--model", "toy", *words, "--json")
    assert ended.code == 0, ended.err
    return Path(ended.err.splitlines()[-1].removeprefix("run: "))


class Mlflow:
    """The documented calls of MLflow that are used: set_experiment, start_run, active_run, log_params, log_metrics."""

    def __init__(self, *, active: bool = False) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._active = active

    def active_run(self) -> object | None:
        return object() if self._active else None

    def set_experiment(self, name: str) -> None:
        self.calls.append(("experiment", name))

    @contextlib.contextmanager
    def start_run(self, *, run_name: str) -> Iterator[None]:
        self.calls.append(("start", run_name))
        yield
        self.calls.append(("end", None))

    def log_params(self, params: dict[str, Any]) -> None:
        self.calls.append(("params", params))

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.calls.append(("metrics", metrics))


class Wandb:
    """The documented calls of Weights & Biases that are used: Settings, init, and a run's log and finish."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def Settings(self, **settings: Any) -> dict[str, Any]:  # noqa: N802 - its name there
        return settings

    def init(self, **given: Any) -> Any:
        self.calls.append(("init", given))
        return SimpleNamespace(
            log=lambda numbers: self.calls.append(("log", numbers)), finish=lambda: self.calls.append(("finish", None))
        )


def expected(run: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, number in leakmeter.load_run(run).quantities().items():
        assert number.interval is not None
        found |= {name: number.value, f"{name}.low": number.interval[0], f"{name}.high": number.interval[1]}
        found[f"{name}.n"] = number.n
    return found


def assert_private(told: object, run: Path) -> None:
    said = repr(told)
    assert not any(word in said for word in (*NAMES, "Graz", "Who?", "Voss", "note of", "Notes", run.name, "/", "77"))


def test_mlflow_is_given_numbers_and_settings(cli: Call, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)  # type: ignore[arg-type]
    ended = cli("runs", "log", run, "--to", "mlflow", "--project", "leaks")
    assert (ended.code, ended.out, ended.err) == (0, "", "logged to mlflow, project leaks\n")
    assert [name for name, _ in mlflow.calls] == ["experiment", "start", "params", "metrics", "end"]
    told = dict(mlflow.calls)
    assert (told["experiment"], told["start"], told["metrics"]) == ("leaks", "influence", expected(run))
    settings = told["params"]
    assert (settings["measure"], settings["cases"], settings["prompts.unit"]) == ("influence", 3, "sentence")
    assert (settings["params.temperature"], settings["model.name"]) == (1.0, "toy")
    assert settings["influence.mean.unit"] == "nats"
    assert "prompts.template" not in settings
    assert "params.seed" not in settings
    assert_private([call for call in mlflow.calls if call[0] != "metrics"], run)


def test_mlflow_that_has_an_active_run_gets_it_there(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Mlflow(active=True)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)  # type: ignore[arg-type]
    log_run(run, "mlflow")
    assert [name for name, _ in mlflow.calls] == ["params", "metrics"]


@pytest.mark.parametrize("online", [False, True])
def test_wandb_stays_offline_unless_asked(cli: Call, run: Path, monkeypatch: pytest.MonkeyPatch, online: bool) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)  # type: ignore[arg-type]
    monkeypatch.setenv("WANDB_MODE", "online")
    ended = cli("runs", "log", run, "--to", "wandb", *(["--online"] if online else []))
    assert (ended.code, ended.err) == (0, f"logged to wandb, project leakmeter{'' if online else ', offline'}\n")
    assert [name for name, _ in wandb.calls] == ["init", "log", "finish"]
    told = dict(wandb.calls)
    assert told["init"]["mode"] == ("online" if online else "offline")
    assert told["init"]["save_code"] is False
    quiet = {"console": "off", "disable_git": True, "disable_code": True, "x_disable_meta": True}
    assert quiet.items() <= told["init"]["settings"].items()
    assert told["log"] == expected(run)
    assert_private(told["init"], run)


def test_what_is_infinite_is_a_word(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.core.check import Number

    opened = leakmeter.load_run(run)
    numbers = {
        "leak.max": Number(math.inf, None, "nats", 2),
        "leak.mean": Number(math.nan, (-math.inf, 1.0), "nats", 2),
    }
    monkeypatch.setattr(type(opened), "quantities", lambda self: numbers)
    settings, found = summary_of(opened)
    assert found == {"leak.max.n": 2.0, "leak.mean.high": 1.0, "leak.mean.n": 2.0}
    assert (settings["leak.max"], settings["leak.mean.low"]) == ("Infinity", "-Infinity")


def test_what_is_refused_is_one_line(cli: Call, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    for to in ("mlflow", "wandb"):
        ended = cli("runs", "log", run, "--to", to)
        assert (ended.code, ended.err) == (2, f"leakmeter: {to} is not installed: pip install {to}\n")
    ended = cli("runs", "log", run, "--to", "mlflow", "--online")
    assert (ended.code, "online is for wandb" in ended.err) == (2, True)
    assert cli("runs", "log", run, "--to", "excel").code == 2
    other: Any = "excel"
    with pytest.raises(LeakmeterError, match="no tracker named 'excel'"):
        log_run(run, other)


def test_the_real_mlflow(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "tracked").as_uri())
    log_run(run, "mlflow", project="leaks")
    (found,) = mlflow.search_runs(experiment_names=["leaks"], output_format="list")
    assert found.data.metrics == pytest.approx(expected(run), rel=1e-12)
    assert found.data.params["prompts.unit"] == "sentence"


@pytest.mark.filterwarnings("ignore")  # the package's own
def test_the_real_wandb(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "offline"))
    (tmp_path / "offline").mkdir()
    log_run(run, "wandb")
    files = [path for path in (tmp_path / "offline").rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in files)
    for path in files:
        content = path.read_bytes()
        assert not any(word.encode() in content for word in ("Graz", "Voss", "Anna_Ek", run.name)), path
