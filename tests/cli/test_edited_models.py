"""A run is of one model, and never continued with another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.examples import few

Call = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, byte_model: tuple[Any, Any]) -> Path:
    """A model's directory, to be edited."""
    made = tmp_path / "own"
    for part in byte_model:
        part.save_pretrained(made)
    turns = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    (made / "chat_template.jinja").write_text(turns + "{% if add_generation_prompt %}[reply]{% endif %}")
    return made


def edited(name: str, value: Any) -> Call:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **value}))

    return edit


def edited_template(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text().replace("[reply]", "[answer]"))


LOWER = edited("tokenizer.json", {"normalizer": {"type": "Lowercase"}})
EDITS = few([edited("config.json", {"rms_norm_eps": 0.5}), LOWER, edited_template])


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_model_is_measured_anew(edit: Call, folder: Path, measure: Call) -> None:
    first = measure("--json", model=folder)
    edit(folder)
    second = measure("--json", model=folder)
    assert (first.code, second.code) == (0, 0), second.err
    before, after = (json.loads(done.out)["whole_nats"] for done in (first, second))
    fresh = json.loads(measure("--json", model=folder, out="elsewhere").out)["whole_nats"]
    assert after == fresh != before
    assert len(list(Path("runs").iterdir())) == 2


@pytest.mark.parametrize("edit", EDITS)
def test_a_run_is_not_continued_with_an_edited_model(edit: Call, folder: Path, cli: Call) -> None:
    case = {"context": "Anna Ek lives in Graz.", "query": "Who?", "response": "Anna"}
    Path("cases.jsonl").write_text("".join(json.dumps({**case, "id": f"c{i}"}) + "\n" for i in range(3)))
    words = ("influence", "--model", folder, "--data", "cases.jsonl", "--json")
    assert cli(*words, "--out", "runs").code == 0
    (run,) = Path("runs").iterdir()
    # As a kill half-way leaves it.
    (run / "spec.json").rename(run / "begun.json")
    for left in ("cases-00002.json", "measurements-00002.parquet"):
        (run / left).unlink()
    edit(folder)
    resumed, fresh = (cli(*words, "--out", out) for out in ("runs", "elsewhere"))
    whole = [[json.loads(line)["whole_nats"] for line in done.out.splitlines()] for done in (resumed, fresh)]
    assert whole[0] == whole[1]
    assert not (run / "spec.json").exists()
