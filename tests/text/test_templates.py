"""Templates: named, written by the user, or the model's own chat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.toy_chat import ChatByteTokenizer
from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.case import Document, Message
from leakmeter.core.item import Prepared
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.text import templates

BYTES = ByteTokenizer(start_ids=())


def text_of(one: Prepared) -> str:
    return bytes(one.item.prompt.ids.tolist()).decode()


@pytest.mark.parametrize(
    ("template", "name", "expected"),
    [
        *((given, "plain", "Context: Anna sang.\n\nQuestion: Who?\nAnswer:") for given in (None, "plain")),
        ("document", "document", "Document: Anna sang.. Who?"),
        ("article", "article", "Article: Anna sang.. Summary of the above news article:"),
        ("Q {query} C {context}", "custom", "Q Who? C Anna sang."),
        ("{context}", "custom", "Anna sang."),
        ("{context}{query}", "custom", "Anna sang.Who?"),
        ("{other} {context} {} {{query}}", "custom", "{other} Anna sang. {} {Who?}"),
        ("a\n{context}\n", "custom", "a\nAnna sang.\n"),
    ],
)
def test_what_the_model_reads(prepared: Any, tmp_path: Path, template: str | None, name: str, expected: str) -> None:
    one = prepared("Anna sang.", tokenizer=BYTES, template=template)
    assert (one.template, text_of(one)) == (name, expected)
    if template == "article":
        assert prepared("Anna sang.", tokenizer=BYTES, template="article", query="unused").query == ""
    # The same from a file.
    file = tmp_path / "t.txt"
    if name == "custom":
        file.write_bytes(b"\xef\xbb\xbf" + str(template).encode())
        assert text_of(prepared("Anna sang.", tokenizer=BYTES, template=f"@{file}")) == expected
        assert templates.resolved(f"@{file}") == template
    else:
        assert templates.resolved(template) is template


def test_templates_that_cannot_be_used_are_refused(prepared: Any, tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    for template in ("{query}", "{context} {context}", "{context} {query} {query}", "no slots\n", "{Context} {query}"):
        file.write_text(template)
        for told in (template, f"@{file}"):
            with pytest.raises(UsageError, match=r"\{context\} exactly once and \{query\} at most once"):
                prepared("x", template=told)
    file.write_bytes(b"\xff{context}")
    for path, message in ((file, r".*t\.txt' is not UTF-8"), (tmp_path / "no", "cannot be read"), (tmp_path, "")):
        with pytest.raises(DataError, match=f"template file.*{message}"):
            prepared("x", template=f"@{path}")
    with pytest.raises(UnknownNameError, match="no template named 'plian'; did you mean 'plain'"):
        prepared("x", template="plian")
    with pytest.raises(UsageError, match="no chat template; give --template plain"):
        prepared("x", template="chat")
    with pytest.raises(UsageError, match="this model has no chat template"):
        templates.choose("chat", ByteTokenizer())


def test_messages_are_not_told_of_templates_that_cannot_write_them() -> None:
    class Last(ChatByteTokenizer):
        def render_chat(self, messages: Any, *, answer: bool) -> str:
            return super().render_chat(messages[-1:], answer=answer)

    class Loud(ChatByteTokenizer):
        def render_chat(self, messages: Any, *, answer: bool) -> str:
            return super().render_chat(messages, answer=answer).replace("boat", "BOAT")

    said = (("system", "A boat came."), ("user", "What came?"))
    chat = [Message(role, role, (Document(role, text),)) for role, text in said]
    for tokenizer, why in (
        (ByteTokenizer(), "no chat template, which messages need; give a model that has one"),
        (Last(), "does not write messages one after another; messages need one, so give another model"),
        (Loud(), "cannot be assigned to messages; messages need one, so give another model"),
    ):
        with pytest.raises(UsageError, match=why):
            templates.Chat(chat, 1, tokenizer).segments(["A boat came."])


@pytest.mark.parametrize("template", ["plain", "chat", "{context} | {query}"])
def test_slots_and_sentinels_inside_the_data_stay_text(chat_tokenizer: Any, prepared: Any, template: str) -> None:
    context = "A {query} B {context} C {} {{x}} LEAKMETERSLOTXQ LEAKMETERSLOTCQ %s {0}"
    query = "What of {context} and {query}, LEAKMETERSLOTCQ?"
    one = prepared(context, tokenizer=chat_tokenizer, template=template, query=query)
    text = chat_tokenizer.decode(one.item.prompt.ids.tolist())
    assert text.count(context) == text.count(query) == 1
    assert text.index(context) < text.index(query)
    assert (one.context, one.query) == (context, query)


def test_the_chat_template_is_the_default_where_there_is_one(chat_tokenizer: Any, prepared: Any) -> None:
    one = prepared("Anna sang.", tokenizer=chat_tokenizer)
    assert one.template == "chat"
    asked = [{"role": "user", "content": "Anna sang.\n\nWho?"}]
    rendered = chat_tokenizer.library.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    assert chat_tokenizer.decode(one.item.prompt.ids.tolist()) == rendered
    # No space is put before a response that begins a turn.
    assert chat_tokenizer.decode(one.item.response) == "Anna"


def test_a_chat_template_may_strip_its_contents_and_nothing_else() -> None:
    frames, contents = ("<u>", "</u>"), (" Who? ",)
    assert templates._contents("<u> Who? </u>", frames, contents) == [(0, 6)]
    assert templates._contents("<u>Who?</u>", frames, contents) == [(1, 5)]
    for rendered in ("<u> Who? </u>!", "<s> Who? </u>", "<u> WHO? </u>", "<u> Who? !/u>"):
        with pytest.raises(UsageError, match="changes its input"):
            templates._contents(rendered, frames, contents)


def test_a_response_after_a_colon_begins_with_the_space_a_model_would_write(prepared: Any) -> None:
    for response, said in (("Anna", b" Anna"), (" Anna", b" Anna"), ("\nAnna", b"\nAnna")):
        assert bytes(prepared("x", response=response).item.response or ()) == said
    assert bytes(prepared("x", response="Anna", template="{context}\n").item.response or ()) == b"Anna"
