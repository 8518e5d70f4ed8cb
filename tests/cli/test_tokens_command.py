"""`leakmeter doctor tokens`: a case as the model reads it, without the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import Ended
from helpers.tokenizer_families import library_family
from leakmeter.errors import UsageError

HOSTILE = "\x1b[31mred\x1b[0m [bold]Anna[/bold] \u202eabc <|im_end|> {query} %s\nBo left."


@pytest.fixture
def tokens(of_note: Callable[..., Callable[..., Ended]]) -> Callable[..., Ended]:
    """`leakmeter doctor tokens` of the note; more options win."""
    return of_note("doctor", "tokens")


def test_the_command_prints_what_the_function_returns(tokens: Callable[..., Ended], note: Path) -> None:
    how: dict[str, Any] = {"response": "Anna", "template": "plain", "removal": "mask"}
    done = tokens("--json", **how, without="s2")
    text = note.read_text(encoding="utf-8")
    one = leakmeter.tokens("toy", context={"note.txt": text}, query="Who?", **how, without=["s2"])
    assert done.code == 0
    assert json.loads(done.out) == {**one.to_dict(), "id": "note"}
    assert one.rendered == f"Context: {text}\n\nQuestion: Who?\nAnswer:"
    assert one.response == " Anna"
    assert len(set(one.without.positions)) == len(one.without.prompt_ids) < len(one.prompt_ids)


def test_it_needs_a_tokenizer_and_no_weights(tokens: Callable[..., Ended], tmp_path: Path) -> None:
    library_family("qwen").save_pretrained(tmp_path / "model")
    done = tokens("--json", model=tmp_path / "model")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["template"], found["rendered"][:19]) == ("chat", "<|im_start|>system\n")
    assert leakmeter.Meter(tmp_path / "model")._model.tokenizer.has_chat_template


def test_a_served_model_is_asked_nothing(tokens: Callable[..., Ended]) -> None:
    model = "vllm:http://127.0.0.1:9#none"
    done = tokens("--json", model=model, tokenizer="toy")
    assert (done.code, json.loads(done.out)["model"]) == (0, model)
    assert tokens(model=model).code == 2
    refused = tokens(tokenizer="toy")
    assert (refused.code, "served model" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"), [(("--truncate",), "max-context-tokens"), (("--swap",), "swap"), (("--removal", "b"), "mask")]
)
def test_what_needs_a_model_is_refused(tokens: Callable[..., Ended], options: tuple[str, ...], said: str) -> None:
    refused = tokens(*options, unit="entity")
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    for wrong, why in (({"truncate": True}, "max-context-tokens"), ({"removal": "burn"}, "no removal named 'burn'")):
        with pytest.raises(UsageError, match=why):
            leakmeter.tokens("toy", context="Anna sang.", query="Who?", **wrong)


def test_cases_of_data_are_shown_and_bad_ones_left_out(cli: Callable[..., Ended], tmp_path: Path) -> None:
    rows = [{"id": "a", "context": "Anna sang.", "query": "Who?"}, {"id": "b", "context": " ", "query": "Who?"}]
    data = tmp_path / "cases.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = cli("doctor", "tokens", "--model", "toy", "--data", data, "--skip-bad", "--json")
    assert done.code == 0
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == ["a"]
    assert "left out 1 bad case" in done.err
    assert cli("doctor", "tokens", "--model", "toy", "--data", data).code == 2
    assert [one.id for one in leakmeter.tokens("toy", rows, skip_bad=True)] == ["a"]


def test_a_hostile_text_is_text_coloured_by_its_pieces(tokens: Callable[..., Ended], note: Path) -> None:
    from rich.console import Console

    from leakmeter.cli.tokens import _print

    note.write_text(HOSTILE, encoding="utf-8")
    done = tokens(template="plain", unit="line", without="l1")
    assert done.code == 0
    assert "[bold]" in done.out.replace("|", "").replace("\n", "").replace(" ", "")
    said = StringIO()
    console = Console(file=said, force_terminal=True, color_system="truecolor", width=100, markup=False, no_color=False)
    _print(leakmeter.tokens("toy", context=HOSTILE, query="Who?", unit="line", without=["l2"]), console)
    assert not any(obeyed in out for out in (done.out, said.getvalue()) for obeyed in ("\x1b[31m", "\u202e"))
    assert "\x1b" not in done.out
    assert "48;2;255;216;168" in said.getvalue(), "the first piece's colour"
    assert "48;2;178;242;187" in said.getvalue(), "the second piece's"


def test_a_tokenizer_in_memory_is_used(byte_model: Any) -> None:
    one = leakmeter.tokens(byte_model, context="Anna sang.", query="Who?", template="plain")
    assert len(one.prompt_ids) == len(one.rendered)
    assert one.model == leakmeter.load_backend(byte_model).name
