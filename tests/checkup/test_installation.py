"""`leakmeter doctor` without a model: what it finds, what it says, and what it keeps to itself."""

from __future__ import annotations

import getpass
import importlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import leakmeter
from leakmeter.backends.toy import Toy
from leakmeter.checkup.installation import checks
from leakmeter.checkup.installation.parity import MODEL_NATS
from leakmeter.checkup.installation.result import InstallationResult
from leakmeter.cli.schema import made
from leakmeter.models import DEFAULT_MODEL

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's directories, without the default model, whose loading takes seconds."""
    for name in ("cache", "config", "scores"):
        monkeypatch.setenv(f"LEAKMETER_{name.upper()}", str(tmp_path / name))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return tmp_path


def check(name: str, result: InstallationResult) -> Any:
    (found,) = (one for one in result.checks if one.name.startswith(name))
    return found


def test_an_installation_that_works() -> None:
    result = leakmeter.check_installation()
    assert result.is_sound, result.verdict
    assert [one.status for one in result.checks] == ["passed", "passed", "note", "passed", "passed", "skipped"]
    assert result.libraries["numpy"] == np.__version__
    assert result.cached_models == ()
    assert f"models pull {DEFAULT_MODEL}" in check("Cache", result).advice
    (parity,) = result.parity
    assert parity.max_token_nats < 1e-12
    assert InstallationResult.from_dict(result.to_dict()) == result


@pytest.mark.long
def test_parity_of_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKMETER_CACHE")
    result = leakmeter.check_installation()
    if DEFAULT_MODEL not in result.cached_models:
        pytest.skip("the default model is not at hand")
    found = result.parity[1]
    assert found.max_token_nats < MODEL_NATS / 10  # 1.4e-8 measured
    assert found.n_tokens == 42  # 1.1 s measured on two idle cores; the work is the same on every machine


def test_the_command_prints_what_its_schema_says(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "doctor.html"
    told = json.loads(cli("doctor", "--json", "--report", str(page)).out)
    Draft202012Validator(json.loads(made("installation"))).validate(told)
    shown = cli("doctor").out
    assert "Sound: leakmeter works here" in shown
    assert "For a bug report" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--against", "--tokenizer", "--dtype"])
def test_what_is_about_a_model_asks_for_one(cli: Cli, option: str) -> None:
    done = cli("doctor", option, "toy")
    assert done.code == 2
    assert done.err == f"leakmeter: {option} is about a model; give --model too\n"


def test_nothing_private_is_said(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong: no path, user, host, or value of a variable."""
    secret = "zqxjk"
    home = tmp_path / f"home-{secret}"
    (home / "cache").mkdir(parents=True)
    for name in ("config", "scores"):
        (home / name).touch()  # where a directory should be
    for name in ("cache", "config", "scores"):
        monkeypatch.setenv(f"LEAKMETER_{name.upper()}", str(home / name))
    for name in ("HOME", "USER", "LOGNAME", "HOSTNAME", "RAY_ADDRESS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, f"{home}" if name == "HOME" else secret)
    monkeypatch.setattr(socket, "gethostname", lambda: secret)
    monkeypatch.setattr(getpass, "getuser", lambda: secret)
    monkeypatch.setattr(Toy, "score", _raising(OSError(2, f"in /home/{secret}", f"/home/{secret}/x")))
    page = tmp_path / "page.html"
    told = [cli("doctor"), cli("doctor", "--json", "--report", str(page))]
    assert [one.code for one in told] == [1, 1]
    assert "is no directory" in told[1].out
    assert "could not be computed (FileNotFoundError)" in told[1].out
    assert "OMP_NUM_THREADS" in told[1].out
    said = [*(one.out for one in told), page.read_text(encoding="utf-8").replace(str(page), "")]
    assert not any(word in one for one in said for word in (secret, str(tmp_path)))
    names = {socket.gethostname(), os.environ.get("USER", secret)}
    assert not any(name in one for one in said for name in names)


def _raising(error: Exception) -> Callable[..., Any]:
    def raising(*_: object) -> Any:
        raise error

    return raising


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
    words = " ".join(done.out.split())
    assert said in words
    assert "numbers of this installation are wrong" in words


def test_libraries_that_are_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"scipy": None, "numpy": "1.26.4", "starlette": "0.1"}
    version_of = checks.version_of
    monkeypatch.setattr(checks, "version_of", lambda name: installed.get(name, version_of(name)))
    result = leakmeter.check_installation()
    found = check("Versions", result)
    assert not result.is_sound
    assert "scipy is missing" in found.found
    assert "numpy is 1.26.4" in found.found
    assert found.advice.startswith("`pip install 'scipy>=")
    assert "'numpy>=" in found.advice
    del installed["scipy"], installed["numpy"]
    noted = checks.versions(checks.Installation())
    assert (noted.status, "starlette 0.1" in noted.said) == ("note", True)


def test_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = importlib.import_module

    def failing(name: str, *more: Any) -> Any:
        if name.startswith("leakmeter.backends.hf"):
            raise OSError("libcudart.so.13: cannot open")
        return imported(name, *more)

    monkeypatch.setattr(checks.importlib, "import_module", failing)
    result = leakmeter.check_installation()
    assert check("Threads", result).status == "failed"
    assert (result.processor, result.n_threads, result.devices) == (None, None, ())
    assert "libcudart" not in result.bug_report()


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
def test_directories_that_others_may_use(places: Path) -> None:
    def said() -> str:
        return checks.permissions(checks.Installation()).said

    assert "for you alone" in said()
    assert not any((places / name).exists() for name in ("cache", "config", "scores"))  # nothing is made
    for name in ("cache", "config", "scores"):
        (places / name).mkdir(mode=0o700)
    (places / "config" / "subjects.secret").touch(mode=0o600)
    assert "for you alone" in said()
    (places / "config" / "subjects.secret").chmod(0o644)
    (places / "cache").chmod(0o777)
    assert said() == (
        "The directory of cache can be written by others; A file in the directory of configuration can be read by "
        "others."
    )


def test_threads_and_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "n_processors", lambda: 0)
    assert "set OMP_NUM_THREADS=0" in checks.threads(checks.Installation()).advice
    monkeypatch.setattr(checks, "n_processors", lambda: 10_000)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert checks.threads(checks.Installation()).status == "passed"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert "leaves processors idle" in checks.threads(checks.Installation()).advice


def test_a_model_that_was_not_finished(places: Path) -> None:
    from leakmeter.models import KNOWN_MODELS
    from leakmeter.models.gguf import folder_of

    default = KNOWN_MODELS[DEFAULT_MODEL]
    folder_of(default.gguf_sha256, default.name).mkdir(parents=True)
    found = checks.cache(checks.Installation())
    assert (found.status, "damaged" in found.said) == ("note", True)
