"""`leakmeter doctor` without a model: what it finds, what it prints, and what it keeps to itself."""

from __future__ import annotations

import getpass
import json
import socket
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from leakmeter.backends.toy import Toy
from leakmeter.models import DEFAULT_MODEL
from leakmeter.products.doctor import installation
from leakmeter.products.doctor.installation import BOUND_NATS, InstallationResult

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def _no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the default model, whose loading takes seconds."""
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))


def test_an_installation_that_works() -> None:
    result = leakmeter.check_installation()
    assert result.is_sound, result.problems
    assert result.libraries["numpy"] == np.__version__
    assert (result.model, result.max_token_nats) == ("toy", pytest.approx(0, abs=1e-12))
    assert InstallationResult.from_dict(result.to_dict()) == result


@pytest.mark.long
def test_numbers_of_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKMETER_CACHE")
    result = leakmeter.check_installation()
    if result.model != DEFAULT_MODEL:
        pytest.skip("the default model is not at hand")
    assert result.max_token_nats is not None
    assert result.max_token_nats < BOUND_NATS[DEFAULT_MODEL] / 10  # 5.3e-6 measured


def test_the_command(cli: Cli) -> None:
    assert json.loads(cli("doctor", "--json").out)["problems"] == []
    for option in ("--against", "--tokenizer", "--dtype", "--report"):
        done = cli("doctor", option, "toy")
        assert (done.code, done.err) == (2, f"leakmeter: {option} needs a model; give --model too\n")
    shown = cli("doctor")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"leakmeter {metadata.version('leakmeter')}, ")
    assert shown.out.endswith("Passed: leakmeter works here.\n")


def test_nothing_private_is_printed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong: no path, user or host."""
    secret = "zqxjk"
    (tmp_path / secret).touch()  # where a directory should be
    for name in ("LEAKMETER_CACHE", "LEAKMETER_CONFIG", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / secret))
    for name in ("USER", "LOGNAME", "HOSTNAME"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setattr(socket, "gethostname", lambda: secret)
    monkeypatch.setattr(getpass, "getuser", lambda: secret)

    def failing(*_: object) -> Any:
        raise OSError(2, f"in /home/{secret}", f"/home/{secret}/x")

    monkeypatch.setattr(Toy, "score", failing)
    for done in (cli("doctor"), cli("doctor", "--json")):
        assert done.code == 1
        assert "could not be computed (FileNotFoundError)" in done.out
        assert not any(word in done.out + done.err for word in (secret, str(tmp_path)))


@pytest.mark.parametrize(("off", "said"), [(1e-3, "differ by 0.001 nats"), (np.nan, "differ by inf nats")])
def test_a_fast_way_that_is_wrong_exits_with_1(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, off: float, said: str
) -> None:
    logits = Toy.score

    def score(self: Toy, chunk: Any) -> Any:
        found = logits(self, chunk)
        for one in found:
            one.values.flat[0] += off
        return found

    monkeypatch.setattr(Toy, "score", score)
    done = cli("doctor")
    assert done.code == 1
    assert said in done.out
    assert "Numbers of this installation are wrong" in done.out


def test_libraries_that_are_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"scipy": None, "numpy": "1.26.4", "starlette": "0.1"}
    version = installation._version
    monkeypatch.setattr(installation, "_version", lambda name: installed.get(name, version(name)))
    result = leakmeter.check_installation()
    # Of extras nothing is told.
    assert len(result.problems) == 2
    assert result.problems[0].startswith("numpy is 1.26.4: `pip install 'numpy>=")
    assert result.problems[1].startswith("scipy is missing: `pip install 'scipy>=")
    assert result.libraries["scipy"] == "missing"


def test_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "leakmeter.backends.hf.plain_pass", None)
    result = leakmeter.check_installation()
    assert (result.is_sound, result.max_token_nats) == (False, None)
    assert "could not be computed (ModuleNotFoundError)" in result.to_text()
