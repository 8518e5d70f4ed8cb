"""White space of no piece: between two documents, and at the end of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.places import DOCS
from helpers.tokenizer_families import SOME_QUICK, family
from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.item import Span
from leakmeter.data.chat import messages_of
from leakmeter.text.layout import without_characters

SEPARATOR = "\n\n"
TWO = ["Anna sang. Bo ate.\n", "Cid left. Dee slept.\n"]
THREE = ["Anna sang. \n", "Bo ate.", "\n Cid left.\r\n"]


def test_the_documented_example_is_what_is_left(prepared: Any) -> None:
    texts = ["Anna sang. Bo ate.\n", "Cid left.\n"]
    item = prepared(texts, template="<{context}>{query}").item
    removals = {
        "nothing": [],
        "`Anna sang.`": ["s1"],
        "`Bo ate.`": ["s2"],
        "`Cid left.`, or the second file": ["s3"],
        "`Anna sang.` and `Bo ate.`, or the first file": ["s1", "s2"],
    }
    page = (DOCS / "tokens.md").read_text(encoding="utf-8")
    for removed, names in removals.items():
        left = bytes(item.without(names).ids.tolist()).decode().removeprefix("\n<").removesuffix(">Who?")
        shown = left.replace("\n", "↵")
        assert f"\n| {removed} | `{shown}` |\n" in page


def test_a_value_of_two_documents_is_cut_between_their_white_space(prepared: Any) -> None:
    texts = ["Call 555-010-7788\n", "555-010-7788 it is.\n"]
    for group in ({"unit": "document", "group": True}, {"unit": "entity"}):
        item = prepared(texts, template="<{context}>{query}", **group).item
        name = item.spans[-1].name
        assert bytes(item.cuts[name].ids.tolist()).decode() == "\n<Call\n\n\n it is.\n>Who?"
        assert bytes(item.alone[name].ids.tolist()).decode() == "\n<555-010-7788\n\n\n555-010-7788\n>Who?"


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
@pytest.mark.parametrize(
    ("parts", "gone", "left"),
    [
        (["Anna sang.", "Bo ate.", "Cid left."], "d2", "Anna sang.\nCid left."),
        (["Anna sang.", "Bo ate.\n", "Cid left.\n"], "d1", "Bo ate.\n\nCid left.\n"),
        (["Anna sang.", "Bo ate.\n", "Cid left.\n"], "d3", "Anna sang.\nBo ate.\n"),
    ],
)
def test_no_part_has_the_line_break(prepared: Any, parts: list[str], gone: str, left: str, removal: str) -> None:
    content = [{"name": f"d{i}", "text": text} for i, text in enumerate(parts, 1)]
    asking = {"role": "user", "content": "Who?"}
    tokenizer = family("gpt2")
    messages = messages_of([{"role": "user", "content": content}, asking], "test")
    one = prepared([], tokenizer=tokenizer, messages=messages, unit="document", removal=removal)
    expected = tokenizer.render_chat([{"role": "user", "content": left}, asking], answer=True)
    assert tokenizer.decode(one.item.cuts[gone].ids.tolist()) == expected


@pytest.mark.parametrize(
    ("texts", "unit", "expected"),
    [
        (TWO, "sentence", ["Anna sang.", " Bo ate.", "Cid left.", " Dee slept."]),
        (TWO, "document", ["Anna sang. Bo ate.\n\n\n", "\n\nCid left. Dee slept.\n"]),
        (THREE, "sentence", ["Anna sang. \n\n\n", "\n\nBo ate.", "\n\n\n Cid left.\r\n"]),
    ],
)
def test_a_search_hides_what_a_piece_takes(prepared: Any, texts: list[str], unit: str, expected: list[str]) -> None:
    item = prepared(texts, template="<{context}>{query}", unit=unit).item
    said = bytes(item.prompt.ids.tolist()).decode()
    for span, text in zip(item.spans, expected, strict=True):
        hidden = item.prompt.hiding(*span.pieces).hidden_tokens
        assert "".join(said[a:b] for a, b in hidden) == text
        left = said[: hidden[0][0]] + said[hidden[-1][1] :]
        assert bytes(item.cuts[span.name].ids.tolist()).decode() == left


def test_an_irrelevant_piece_stands_before_the_white_space(prepared: Any) -> None:
    item = prepared(["Anna sang.", "Bo ate.\n"], template="<{context}>{query}", unit="document").item
    made = [bytes(placebo.ids.tolist()).decode() for placebo in item.placebos]
    put = made[0].removeprefix("\n<").partition("Anna")[0]
    texts = [f"{put}Anna sang.\n\nBo ate.\n", f"Anna sang.{put}\n\nBo ate.\n", f"Anna sang.\n\nBo ate.{put}\n"]
    assert made == [f"\n<{text}>Who?" for text in texts]


def test_white_space_counts_as_context_where_it_is_cut_to_a_length(prepared: Any) -> None:
    n_tokens = len("".join(TWO)) + len(SEPARATOR)
    for n_cut in range(4):
        one = prepared(TWO, unit="document", max_context_tokens=n_tokens - n_cut)
        assert one.n_truncated_tokens == n_cut
        assert one.context == SEPARATOR.join(TWO)[: n_tokens - n_cut].rstrip() + "\n" * (n_cut == 0)


# What tokens join over the ends of documents, and what there is no word in.
ENDS = ("", "", "\n", " ", "  \n", "\r\n", "\r\n\r\n", "\t\n\n", ")\n")
WORDS = ("Anna", " sang.", " Bo(", " ate)", "\n\n", "  ", " figs,", "\r\n", "x", " Cid", ".", "!?", "\n- ")
middles = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map("".join)
texts = st.tuples(st.sampled_from(ENDS[:6]), middles, st.sampled_from(ENDS)).map("".join)
documents = st.lists(texts | st.sampled_from(ENDS), min_size=1, max_size=4).filter(lambda texts: "".join(texts).strip())
UNITS = ("word", "sentence", "line", "paragraph", "document", "ngram:1", "ngram:3", "ngram:4:2")
SHARED_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))


@pytest.mark.parametrize("name", ["bytes", *SOME_QUICK[:-1]])  # of white space the last one has no tokens
@SHARED_FIXTURES
@given(context=documents, unit=st.sampled_from(UNITS), removal=st.sampled_from(["drop", "mask"]), data=st.data())
def test_what_is_left_is_what_the_rules_leave(
    prepared: Any, name: str, context: list[str], unit: str, removal: str, data: st.DataObject
) -> None:
    tokenizer: Any = ByteTokenizer() if name == "bytes" else family(name)
    one = prepared(context, tokenizer=tokenizer, template="<{context}> {query}!", unit=unit, removal=removal)
    rules = Rules([text for text in context if text.strip()], tokenizer, unit)
    n_before = len(one.item.prompt.ids) - len(rules.ids)
    assert one.item.prompt.ids.tolist()[n_before:] == rules.ids
    spans = one.item.spans
    for gone in [[span] for span in spans[:6]] + [data.draw(st.lists(st.sampled_from(spans), min_size=1))]:
        names = [span.name for span in gone]
        left = one.item.without(names)
        if {piece for span in gone for piece in span.pieces} >= {piece for span in spans for piece in span.pieces}:
            assert left == one.item.blank
            continue
        assert left.ids.tolist()[len(one.item.prompt.ids) - len(rules.ids) :] == rules.left([*gone], spans)


@SHARED_FIXTURES
@given(context=documents, unit=st.sampled_from(UNITS[:5]), data=st.data())
def test_a_rendered_prompt_by_the_rules(prepared: Any, context: list[str], unit: str, data: st.DataObject) -> None:
    tokenizer = family("qwen")
    how = {"tokenizer": tokenizer, "template": "<{context}> {query}!"}
    one = prepared(context, unit=unit, removal="retokenize", **how)
    spans = one.item.spans
    texts_, starts = [text for text in context if text.strip()], [start for _, start, _ in one.documents]
    for gone in [[span] for span in spans[:6]] + [data.draw(st.lists(st.sampled_from(spans), min_size=1))]:
        ranges = [part for span in gone for part in span.ranges]
        pairs = zip(texts_, starts, strict=True)
        left = [without_characters(text, [(a - start, b - start) for a, b in ranges]) for text, start in pairs]
        if any(text.strip() for text in left):
            again = prepared(left, unit="whole", **how).item.prompt
            assert one.item.without([span.name for span in gone]).ids.tolist() == again.ids.tolist()
    for span in spans:
        # Of each document what the piece says, and the white space at the document's end.
        left = [
            "".join(text[max(a - start, 0) : max(b - start, 0)] for a, b in span.ranges)
            for text, start in zip(texts_, starts, strict=True)
        ]
        for i, (text, said) in enumerate(zip(texts_, left, strict=True)):
            left[i] = "" if not said else text if said == text.strip() else said + text[len(text.rstrip()) :]
        again = prepared(left, unit="whole", **how).item.prompt
        assert one.item.alone[span.name].ids.tolist() == again.ids.tolist()


class Rules:
    """The prompt "<{context}> Who?!" and what is left of it, one character after another, as docs/tokens.md has it.

    Args:
        texts: of the documents, each with a word.
        tokenizer: of the prompt.
        unit: what is removed.
    """

    def __init__(self, texts: Sequence[str], tokenizer: Any, unit: str) -> None:
        self.tokenizer = tokenizer
        self.unit = unit
        self.text = f"<{SEPARATOR.join(texts)}> Who?!"
        coded = tokenizer.encode_joined([(self.text, False)])
        self.ids, self.tokens = list(coded.ids), coded.offsets
        self.words = [[i for i in range(a, b) if not self.text[i].isspace()] for a, b in self.tokens]
        """Of each token, its characters that are no white space."""
        self.document: list[int | None] = [None] * len(self.text)
        """Of a character from the first of a document up to its last word, the document."""
        self.end: list[int | None] = [None] * len(self.text)
        """Of white space at a document's end, the document."""
        self.separator: list[int | None] = [None] * len(self.text)
        """Of the blank line before a document, the document."""
        at = 1
        for number, text in enumerate(texts):
            n_said = len(text.rstrip())
            lengths = ((self.separator, 2 * bool(number)), (self.document, n_said), (self.end, len(text) - n_said))
            for kinds, n in lengths:
                kinds[at : at + n] = [number] * n
                at += n

    def left(self, gone: Sequence[Span], spans: Sequence[Span]) -> list[int]:
        """The ids without some pieces."""
        self.cut_characters: set[int] = set()
        self.cut_tokens: set[int] = set()
        if self.unit.startswith("ngram"):
            owned = [i for i in range(len(self.tokens)) if self.document_of_token(i) is not None]
            n, *more = map(int, self.unit.split(":")[1:])
            stride = (more or [n])[0]
            of_each = [list(same) for _, same in groupby(owned, self.document_of_token)]
            # Windows begin until one has reached the end.
            starts = [(of, i) for of in of_each for i in range(0, max(len(of) - n + stride, 1), stride)]
            windows = [tokens[i : i + n] for tokens, i in starts]
            assert len(windows) == len(spans)
            self.cut_tokens = {i for span in gone for i in windows[spans.index(span)]}
        else:
            # Before the context stands one character.
            self.cut_characters = {i + 1 for span in gone for a, b in span.ranges for i in range(a, b)}
        self.emptied: set[int | None] = set()
        self.emptied = {*self.document} - {None} - self.with_text()
        out: list[int] = []
        reached = 0
        for token, (start, end) in enumerate(self.tokens):
            stays = [i for i in range(max(start, reached), end) if not self.goes(i, token)]
            if stays == list(range(start, end)):
                out.append(self.ids[token])
                continue
            for _, run in groupby(enumerate(stays), lambda pair: pair[1] - pair[0]):
                chars = [i for _, i in run]
                text = self.text[chars[0] : chars[-1] + 1]
                out += self.tokenizer.encode_data(text, first=chars[0] == 0).ids
                # Of a character in several tokens all is said.
                reached = end
        return out

    def document_of_token(self, token: int) -> int | None:
        """The document of its first character that is no white space; of white space alone of its first."""
        return self.document[[*self.words[token], self.tokens[token][0]][0]]

    def with_text(self) -> set[int | None]:
        """Documents that have a word left, or a piece that is white space."""
        return {
            self.document[i]
            for token, (start, end) in enumerate(self.tokens)
            for i in range(start, end)
            if not self.goes(i, token)
            and (not self.text[i].isspace() or self.document_of_token(token) == self.document[i])
        }

    def goes(self, i: int, token: int) -> bool:
        """Whether a character goes, as the token holds it."""
        if (number := self.separator[i]) is not None:
            return number in self.emptied or self.emptied.issuperset(range(number))
        if (number := self.end[i]) is not None:
            return number in self.emptied
        number, words = self.document[i], self.words[token]
        if number in self.emptied:
            return True
        behind = [word for word in words if word >= i]
        if token in self.cut_tokens:
            return number == self.document_of_token(token) or (number is None and behind == words != [])
        if behind:
            return behind[0] in self.cut_characters
        if number is None:
            return False
        if said := [word for word in words if self.document[word] == number]:
            return said[-1] in self.cut_characters
        # White space alone goes with the word behind it.
        return next(j for j in range(i, len(self.text)) if not self.text[j].isspace()) in self.cut_characters
