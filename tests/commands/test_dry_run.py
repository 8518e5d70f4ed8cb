"""`--dry-run`: what a command would take, told without measuring and without leaving anything behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import assert_refused, object_of
from leakmeter.engine.loading import load_run

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def model_directory(byte_model: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of one layer with its tokenizer of single bytes, as files."""
    path = tmp_path_factory.mktemp("model")
    for part in byte_model:
        part.save_pretrained(path)
    return path


def test_a_dry_run_foretells_the_run(measure: Call, model_directory: Path) -> None:
    options = {"model": model_directory, "device": "cpu", "unit": "sentence", "template": "plain"}
    dry = measure("--json", "--dry-run", **options)
    assert dry.err == ""
    told, cost = object_of(dry), object_of(measure("--json", **options))["cost"]
    assert told["tree_tokens"] == cost["tree_tokens"]
    assert (told["requests"], told["full_pass_tokens"]) == (cost["requests"], cost["naive_tokens"])
    assert told["full_pass_per_token_tokens"] > told["full_pass_tokens"] > told["tree_tokens"]
    assert told["seconds"] > 0
    assert (told["at_most"], [case["id"] for case in told["cases"]]) == (False, ["note"])


def test_nothing_is_left_behind(
    measure: Call, model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))
    options = {"model": model_directory, "device": "cpu", "template": "plain"}
    ended = measure("--dry-run", html="report.html", **options)
    assert (ended.code, ended.err) == (0, "")
    assert "tokens to run" in ended.out
    assert "at most" not in ended.out.lower()
    # A response that is drawn is foretold from above.
    drawn = {**options, "response": None}
    assert "Upper limits: responses not yet drawn" in measure("--dry-run", **drawn).out
    few, many = (json.loads(measure("--dry-run", "--json", **drawn, max_new_tokens=n).out) for n in (5, 9))
    assert few["at_most"]
    assert few["tree_tokens"] < many["tree_tokens"]
    assert not list(Path.cwd().iterdir())
    assert not (tmp_path / "cache").exists()


def test_many_cases_are_told_one_by_one_and_together(cli: Call, model_directory: Path, tmp_path: Path) -> None:
    texts = {"short": "Anna sang.", "long": "Anna sang. Bo ate. Cid left.", "empty": ""}
    lines = [{"id": id_, "context": text, "query": "Who?", "response": "Anna"} for id_, text in texts.items()]
    data = tmp_path / "cases.jsonl"
    data.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    words = (
        "influence",
        "--data",
        data,
        "--model",
        model_directory,
        "--device",
        "cpu",
        "--template",
        "plain",
        "--dry-run",
    )
    refused = cli(*words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    ended = cli(*words, "--skip-bad")
    assert ended.code == 0, ended.err
    assert "short" in ended.out
    assert ended.err.startswith("left out 1 bad case; the first: ")
    told = object_of(cli(*words, "--skip-bad", "--json"))
    assert [case["id"] for case in told["cases"]] == ["short", "long"]
    for name in ("requests", "tree_tokens", "full_pass_tokens", "full_pass_per_token_tokens", "seconds"):
        assert told[name] == pytest.approx(sum(case[name] for case in told["cases"]))


def test_the_toy_model_takes_what_is_told(measure: Call, cli: Call) -> None:
    told = object_of(measure("--dry-run", "--json"))
    assert told["seconds"] > 0
    assert "under 1 s" in measure("--dry-run").out
    assert "prompts scored" in cli("demo", "--model", "toy", "--dry-run").out
    assert not list(Path.cwd().iterdir())
    cost = object_of(measure("--json"))["cost"]
    assert told["tree_tokens"] == cost["tree_tokens"]
    (run,) = Path("runs").iterdir()
    assert next(iter(load_run(run))).to_dict()["cost"] == cost


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "smollm2-136m"}, "did you mean 'smollm2-135m'"),
        ({"model": "hf:nobody/nothing"}, "is not on this machine; fetch it with `leakmeter models pull"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"context-file": "LONG"}, "fit the model's window"),
        ({"model": "DAMAGED"}, "cannot be read as JSON"),
    ],
)
def test_what_cannot_run_cannot_be_foretold(
    options: dict[str, Any], said: str, measure: Call, model_directory: Path, tmp_path: Path
) -> None:
    long, damaged = tmp_path / "long.txt", tmp_path / "damaged"
    long.write_text("Anna sang. " * 40, encoding="utf-8")
    shutil.copytree(model_directory, damaged)
    (damaged / "config.json").write_text("{", encoding="utf-8")
    places = {"LONG": long, "DAMAGED": damaged}
    given = {"model": model_directory, **{name: places.get(value, value) for name, value in options.items()}}
    assert_refused(measure("--dry-run", template="plain", device="cpu", **given), said)
    assert not list(Path.cwd().iterdir())


def test_what_depends_on_what_is_found_is_said(measure: Call, model_directory: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text(" ".join(f"Bo ate {n}." for n in range(20)), encoding="utf-8")
    options = {"model": model_directory, "device": "cpu", "template": "plain", "context-file": long}
    search = {**options, "search": "top:1:1", "audit": "0.5:50%"}
    told, every = (object_of(measure("--dry-run", "--json", **given)) for given in (search, options))
    assert (told["depends"], every["depends"]) == (True, False)
    assert "depends on what is found" in measure("--dry-run", **search).out
    for name in ("requests", "tree_tokens"):
        assert every[name] > told[name]
    cost = object_of(measure("--json", **search))["cost"]
    assert told["tree_tokens"] / 4 < cost["tree_tokens"] < 4 * told["tree_tokens"]
