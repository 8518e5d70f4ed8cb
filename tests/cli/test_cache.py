"""`leakmeter models cache`, and who uses the score cache."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from leakmeter.engine.scores import FILE_NAME, ScoreCache
from leakmeter.errors import UsageError

Call = Callable[..., Any]
CASE = {"context": "Anna Ek lives in Graz. Bo asked twice.", "query": "Who?", "response": "Anna"}


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The score cache's directory, not made yet."""
    monkeypatch.setenv("LEAKMETER_SCORES", str(tmp_path / "scores"))
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    return tmp_path / "scores"


def fill(scores: Path) -> None:
    cache = ScoreCache(scores / FILE_NAME, b"secret")
    for i in range(3):
        cache.put(b"%d" % i, np.zeros(100_000))
    cache.close()


def test_an_empty_cache(cli: Call, measure: Call, scores: Path) -> None:
    # The toy model goes without.
    assert measure().code == measure("--no-cache", out="others").code == 0
    ended = cli("models", "cache")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [str(scores / FILE_NAME), "0 entries, 0.0 MB of at most 2147.5 MB"]
    assert cli("models", "cache", "clear").out == f"cleared 0 entries, 0.0 MB from {scores / FILE_NAME}\n"
    assert not scores.exists()


def test_what_it_holds_and_clearing_it(cli: Call, scores: Path) -> None:
    fill(scores)
    assert re.search(r"^3 entries, 2\.\d MB of at most 2147\.5 MB$", cli("models", "cache").out, re.MULTILINE)
    told = json.loads(cli("models", "cache", "--json").out)
    assert told == {"path": str(scores / FILE_NAME), "entries": 3, "bytes": told["bytes"], "max_bytes": 2**31}
    assert told["bytes"] > 2_400_000
    assert re.match(r"cleared 3 entries, 2\.\d MB from ", cli("models", "cache", "clear").out)
    assert json.loads(cli("models", "cache", "--json").out)["entries"] == 0
    fill(scores)
    cleared = json.loads(cli("models", "cache", "clear", "--json").out)
    assert cleared == {name: told[name] for name in ("path", "entries", "bytes")}
    assert sum(path.stat().st_size for path in scores.iterdir()) < 200_000


def test_turned_off(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_SCORES", "off")
    for words in (["models", "cache"], ["models", "cache", "clear"]):
        assert "turned off by LEAKMETER_SCORES=off" in cli(*words).out
        assert json.loads(cli(*words, "--json").out)["path"] is None


def test_a_model_in_memory_is_reused_under_a_name_of_its_own(byte_model: Any, scores: Path) -> None:
    def measured(**options: Any) -> tuple[int, np.ndarray]:
        result = leakmeter.influence(byte_model, template="plain", **CASE, **options)
        return result.cost.tree_tokens, result.matrix

    n_tokens, expected = measured()
    assert n_tokens > 0
    assert measured(cache=True)[0] == n_tokens
    assert not scores.exists()
    for options in ({"model_id": "a"}, {"model_id": "a", "cache": False}, {"model_id": "b"}):
        assert measured(**options)[0] == n_tokens
    n_again, again = measured(model_id="a")
    assert (n_again, again.tobytes()) == (0, expected.tobytes())
    assert measured(model_id="a", temperature=0.7, cid_lambda=1.5)[0] == 0
    assert stat.S_IMODE(scores.stat().st_mode) == 0o700
    assert [path.name for path in (scores.parent / "config").iterdir() if path.suffix == ".secret"] == ["scores.secret"]
    with pytest.raises(UsageError, match="give it to load_backend"):
        leakmeter.influence(leakmeter.load_backend(byte_model), template="plain", model_id="a", **CASE)


@pytest.mark.long
def test_weights_are_known_again(byte_model: Any, scores: Path, measure: Call, cli: Call, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    for part in byte_model:
        part.save_pretrained(folder)

    def n_tokens(*more: object, out: str, **options: object) -> int:
        ended = measure("--json", *more, model=folder, device="cpu", template="plain", out=out, **options)
        assert ended.code == 0, ended.err
        assert len(ended.err.splitlines()) == 1
        return int(json.loads(ended.out)["cost"]["tree_tokens"])

    first = n_tokens("--no-cache", out="a")
    assert first > 0
    assert not scores.exists()
    assert n_tokens(out="b") == first
    assert n_tokens(out="c") == 0
    assert n_tokens(out="d", temperature=2) == 0
    assert n_tokens("--no-cache", out="e") == first
    assert n_tokens(out="f", unit="word") > 0
    assert json.loads(cli("models", "cache", "--json").out)["entries"] > 2
    cli("models", "cache", "clear")
    assert n_tokens(out="g") == first
    # The same weights under another configuration are another model.
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["rms_norm_eps"] = 0.1
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert n_tokens(out="h") == first


@pytest.mark.usefixtures("scores")
@pytest.mark.parametrize("variable", ["LEAKMETER_SCORES", "LEAKMETER_CONFIG"])
def test_a_place_that_cannot_be_written_costs_a_line(byte_model: Any, capsys: Any, variable: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(variable, f"{__file__}/below")
        result = leakmeter.influence(byte_model, template="plain", model_id="a", **CASE)
        assert result.cost.tree_tokens > 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("continuing without the score cache")
