"""`leakmeter tokens`: the prompt as it is tokenised, without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from helpers.tokenizer_families import family, library_family
from leakmeter.commands.shown_tokens import TokensResult, shown
from leakmeter.core.case import Case, Document
from leakmeter.text.build import PromptSettings, prepare

Call = Callable[..., Any]
HOSTILE = "Anna sang.\x1b[31m Bo left. <|im_end|> 🙂 e\u0301\u202e."


def shown_of(name: str, text: str = HOSTILE, without: tuple[str, ...] = (), **settings: Any) -> TokensResult:
    case = Case("a", documents=(Document("note", text),), query="Who?", response="Anna 🙂.")
    prepared = prepare(case, family(name), PromptSettings(**settings), window=None, n_reserved=0)
    return shown(prepared, family(name), name, without)


@pytest.fixture
def tokens(of_note: Call) -> Call:
    """`leakmeter tokens` of the note."""
    return of_note("tokens")


def test_json_has_the_rendered_prompt_and_each_token_with_its_piece(tokens: Call, note: Path) -> None:
    ended = tokens("--json", response="Anna")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    text = f"Context: {note.read_text()}\n\nQuestion: Who?\nAnswer:"
    assert told["schema"] == "tokens-1"
    assert told["rendered"] == text
    assert told["prompt_ids"] == [10, *text.encode()]
    assert told["response_ids"] == list(b" Anna")
    assert told["blank_ids"] == [10, *b"Context: \n\nQuestion: Who?\nAnswer:"]
    assert [token["id"] for token in told["tokens"]] == told["prompt_ids"]
    assert "".join(token["text"] for token in told["tokens"][1:]) == text
    for token in told["tokens"][1:]:
        assert token["text"] == text[token["start"] : token["end"]]
    said = {one["name"]: "" for one in told["pieces"]}
    for token in told["tokens"]:
        assert (token["piece"] is not None) == (token["role"] == "context")
        if token["piece"]:
            said[token["piece"]] += token["text"]
    assert {name: one.strip() for name, one in said.items()} == {one["name"]: one["text"] for one in told["pieces"]}
    assert [token["text"] for token in told["tokens"] if token["role"] == "query"] == list("Who?")


@pytest.mark.parametrize("name", ["gpt2", "llama2", "unigram", "wordpiece", "qwen"])
@pytest.mark.parametrize("template", ["chat", "plain"])
@pytest.mark.parametrize("tokenization", ["joint", "parts"])
def test_every_token_is_shown_once(name: str, template: str, tokenization: str) -> None:
    one = shown_of(name, template=template, tokenization=tokenization)
    assert tuple(token.id for token in one.tokens) == one.prompt_ids
    assert tuple(token.id for token in one.response_tokens) == one.response_ids
    assert {token.role for token in one.tokens} == {"template", "context", "query"}
    assert {token.piece for token in one.tokens} == {None, *(piece.name for piece in one.pieces)}
    if tokenization == "joint":
        # Its characters, one after another; some vocabularies have white space in no token.
        assert "".join("".join(token.text for token in one.tokens if token.end).split()) == "".join(
            one.rendered.split()
        )
    assert TokensResult.from_dict(one.to_dict()) == one


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
def test_without_a_piece_it_is_the_prompt_that_is_scored(removal: str) -> None:
    one = shown_of("gpt2", "Anna sang. Bo left.", ("s1",), template="plain", removal=removal)
    assert one.without is not None
    assert "Anna" not in one.without.text
    assert "Bo left." in one.without.text
    gaps = [b - a for a, b in zip(one.without.positions, one.without.positions[1:], strict=False)]
    assert (max(gaps) > 1) == (removal == "mask")
    if removal == "retokenize":
        text = "Context: Bo left.\n\nQuestion: Who?\nAnswer:"
        assert list(one.without.prompt_ids) == library_family("gpt2")(text)["input_ids"]


def test_pieces_that_overlap_are_all_named() -> None:
    one = shown_of("gpt2", "Anna sang a song.", template="plain", unit="ngram:4:2")
    assert any(token.further_pieces for token in one.tokens)


@pytest.mark.parametrize("colours", [None, "standard", "truecolor"])
def test_a_terminal_is_given_nothing_that_it_would_obey(colours: Any) -> None:
    one = shown_of("gpt2", template="chat")
    console = Console(width=60, color_system=colours, force_terminal=colours is not None)
    with console.capture() as captured:
        console.print(one.to_rich())
    said = captured.get()
    assert "\x1b[31m" not in said
    assert "\u202e" not in said
    assert "⟦s1⟧" in said
    assert ("|.⟦s2⟧" in said) == (colours is None)


def test_the_page_shows_each_piece_in_its_colour(tokens: Call) -> None:
    ended = tokens("--report", "page.html")
    assert (ended.code, ended.err) == (0, "report: page.html (private, readable by you alone)\n")
    page = Path("page.html")
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text(encoding="utf-8")
    assert 'class="g g1" title="s1">A</b>' in text
    assert 'class="g solid" title="query">W</b>' in text
    assert "<script" not in text


def test_a_served_model_needs_its_tokenizer_and_no_server(tokens: Call) -> None:
    served = "vllm:http://127.0.0.1:9#none"
    ended = tokens(model=served)
    assert ended.code == 2
    assert "give --tokenizer" in ended.err
    assert tokens(model=served, tokenizer="toy").out == tokens().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--without", "s99"), "no piece named 's99'"),
        (("--unit", "stanza"), "stanza"),
        (("--report", "nowhere/page.html"), "does not exist"),
        (("--model", "no/such/model"), "no/such/model"),
    ],
)
def test_what_cannot_be_shown_is_one_line(tokens: Call, words: tuple[str, ...], said: str) -> None:
    ended = tokens(*words, **({"model": None} if "--model" in words else {}))
    assert ended.code == 2
    assert ended.out == ""
    assert said in ended.err
    assert ended.err.count("\n") == 1
