"""A case as its tokens: the ids that a server feeds, each with its characters and its piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from helpers.tokenizer_families import FAMILIES, family, library_family
from leakmeter.errors import UnknownNameError
from leakmeter.text.build import PreparedContext
from leakmeter.text.tokens import TokensResult, tokens_of

CONTEXT = ["Anna sang 🙂. Bo (who ate figs) left.", "Cid called\n</s>"]
QUERY = " Who sang?"
RESPONSE = "Anna."


@pytest.fixture
def shown(prepared: Callable[..., Any]) -> Callable[..., tuple[TokensResult, PreparedContext]]:
    """The tokens of a case in few words, and the case."""

    def make(
        context: list[str] = CONTEXT, *, name: str, without: Sequence[str] = (), **settings: Any
    ) -> tuple[TokensResult, PreparedContext]:
        settings = {"query": QUERY, "response": RESPONSE, **settings}
        one = prepared(context, tokenizer=family(name), **settings)
        return tokens_of(one, settings["response"], family(name), model=name, without=without), one

    return make


@pytest.mark.parametrize("template", ["plain", "chat", "{context}\n{query}"])
@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_have_characters_and_pieces(shown: Callable[..., Any], name: str, template: str) -> None:
    found, one = shown(name=name, template=template)
    assert found.prompt_ids == tuple(one.item.prompt.ids.tolist())
    assert found.response_ids == one.item.response
    assert tuple(token.id for token in found.tokens) == (*found.prompt_ids, *found.response_ids)
    message = [{"role": "user", "content": "\n\n".join([*CONTEXT, QUERY])}]
    library = library_family(name)
    if "</s>" not in library.all_special_tokens:
        # The ids are those that a server feeds.
        served = library(found.rendered)
        if template == "chat":
            assert found.rendered == library.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
            served = library.apply_chat_template(message, tokenize=True, add_generation_prompt=True)
        assert list(found.prompt_ids) == list(served["input_ids"] if hasattr(served, "keys") else served)
    written = found.rendered + found.response
    units = [span.name for span in one.item.spans if span.kind == "unit"]
    for token in found.tokens:
        assert token.text == written[token.start : token.end]
        assert token.piece in (*units, "context", "template", "query", "response", "start")
        assert (token.piece in units) == bool(token.spans)
        assert (token.piece in (*units, "context")) == (token.role == "context")
        assert token.piece != "context" or token.text.isspace()
        if token.piece in units and token.text.strip():
            first = token.start + len(token.text) - len(token.text.lstrip())
            ranges = next(span.ranges for span in one.item.spans if span.name == token.piece)
            assert any(one.context[a:b] in found.rendered for a, b in ranges)
            assert written[first] in "".join(one.context[a:b] for a, b in ranges)
    for unit in units:
        assert any(token.piece == unit for token in found.tokens)


@pytest.mark.parametrize("removal", ["drop", "mask"])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_left_is_the_tokens_of_others(shown: Callable[..., Any], name: str, removal: str) -> None:
    texts, template = ["Anna sang. Bo left.", "Cid called."], "{context}\n\n{query}"
    units = [span.name for span in shown(texts, name=name, template=template)[1].item.spans]
    n_anew = 0
    for gone in ([units[0]], [units[-1]], units[:2]):
        found, one = shown(texts, name=name, template=template, without=gone, removal=removal)
        left = found.without
        cut = one.item.without(gone)
        assert (left.prompt_ids, left.positions) == (tuple(cut.ids.tolist()), tuple(cut.positions.tolist()))
        anew = set(left.retokenised)
        n_anew += len(anew)
        kept = [token for i, token in enumerate(left.prompt_ids) if i not in anew]
        others = iter(token.id for token in found.tokens if token.piece not in gone)
        # Kept tokens are those of other pieces, in their order.
        assert all(token in others for token in kept)
    if name in ("llama3", "qwen"):
        assert n_anew, "a full stop and the line behind it are one token"


def test_without_all_of_a_context_the_prompt_is_rendered_anew(shown: Callable[..., Any]) -> None:
    found, one = shown(["Anna sang."], name=FAMILIES[0], without=["s1"], template="plain")
    assert found.without.retokenised is None
    assert found.without.prompt_ids == tuple(one.item.blank.ids.tolist())
    again, _ = shown(name=FAMILIES[0], without=["s1"], removal="retokenize")
    assert again.without.retokenised is None


def test_a_chats_turns_go_with_their_messages(shown: Callable[..., Any]) -> None:
    from leakmeter.data.chat import messages_of

    told = [{"role": "user", "content": "Anna sang."}, {"role": "assistant", "content": "Good."}]
    messages = messages_of([*told, {"role": "user", "content": "Who?"}], "test")
    found, _ = shown([], name="qwen", messages=messages, response=None)
    assert found.response is found.response_ids is None
    assert "user 1" in {token.piece for token in found.tokens if "<|im_start|>" in token.text}


def test_a_piece_that_there_is_not_is_refused(shown: Callable[..., Any]) -> None:
    with pytest.raises(UnknownNameError, match="s9"):
        shown(name=FAMILIES[0], without=["s9"])
