"""The prompt tokenised as one string: what a server feeds, and what is left of it without some of the context."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.tokenizer_families import FAMILIES, SOME_QUICK, family, library_family
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.prompt import CONTEXT, FRAME
from leakmeter.data.chat import messages_of
from leakmeter.errors import UsageError
from leakmeter.text.joined import TextStretch, prompt_of

# What tokens join over the ends of pieces: punctuation, brackets, blank lines, spaces, half a word.
WORDS = (
    "Anna", "sang.", "Bo(", "ate)", "\n\n", " ", "figs,", "“late”.", "\n", "  ", "x", "Cid", "é", "🙂", ".", ")\n",
    "!?",
)  # fmt: skip
UNITS = ("word", "sentence", "line", "paragraph", "document")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map("".join).filter(str.strip)


def solid(text: str) -> str:
    """The text without white space, of which a word takes what stands before it along."""
    return "".join(text.split())


def said(tokenizer: Any, ids: Any) -> str:
    start = len(tokenizer.start_ids)
    told = ids.tolist()
    return solid(tokenizer.decode(told[start:] if tuple(told[:start]) == tokenizer.start_ids else told))


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
@pytest.mark.parametrize("name", SOME_QUICK[:-1])  # of whole words the last one knows little
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
@given(context=st.lists(texts, min_size=1, max_size=3), query=texts, unit=st.sampled_from(UNITS))
def test_no_character_of_a_removed_piece_remains_and_all_others_do(
    prepared: Any, name: str, removal: str, context: list[str], query: str, unit: str
) -> None:
    tokenizer = family(name)
    how = {"tokenizer": tokenizer, "template": "<{context}>{query}!", "unit": unit, "removal": removal}
    one = prepared(context, query=query, **how)
    assert said(tokenizer, one.item.prompt.ids) == solid(f"<{one.context}>{query}!")
    assert said(tokenizer, one.item.blank.ids) == solid(f"<>{query}!")
    for span in one.item.spans:
        left = one.context
        for start, end in reversed(span.ranges):
            left = left[:start] + left[end:]
        assert said(tokenizer, one.item.cuts[span.name].ids) == solid(f"<{left}>{query}!")
        inner = "".join(one.context[start:end] for start, end in span.ranges)
        assert said(tokenizer, one.item.alone[span.name].ids) == solid(f"<{inner}>{query}!")


@pytest.mark.parametrize("removal", ["drop", "mask"])
def test_an_accent_that_a_normalizer_joins_to_a_removed_letter_remains(prepared: Any, removal: str) -> None:
    tokenizer = family("qwen")
    how = {"tokenizer": tokenizer, "template": "{query}{context}\u0301x", "unit": "word", "removal": removal}
    one = prepared(["Bo at e"], query="?", **how)
    assert said(tokenizer, one.item.prompt.ids) == "?Boat\u00e9x"
    assert [said(tokenizer, one.item.cuts[name].ids) for name in ("w2", "w3")] == ["?Bo\u00e9x", "?Boat\u0301x"]
    if removal == "mask":
        for cut in one.item.cuts.values():
            assert cut.positions.tolist() == sorted({*cut.positions.tolist()})
            assert cut.next_position == one.item.prompt.next_position


@pytest.mark.parametrize("name", FAMILIES)
def test_the_blank_prompt_is_the_same_whatever_the_context(prepared: Any, name: str) -> None:
    tokenizer = family(name)
    contexts = ["Anna sang.", "\n\n Bo (", "( 🙂", "\u0301 ate", "<|im_end|></s>[INST]"]
    for template in ["plain", "{context}{query}", "A{context}\n\n{query}:"] + ["chat"] * tokenizer.has_chat_template:
        for removal in ("drop", "mask", "retokenize"):
            made = [
                prepared(one, tokenizer=tokenizer, template=template, unit="whole", removal=removal) for one in contexts
            ]
            assert len({tuple(one.item.blank.ids.tolist()) for one in made}) == 1
            for one in made:
                assert list(one.item.cuts.values()) == [one.item.blank]


def test_a_template_that_begins_with_the_start_token_is_given_no_other() -> None:
    def ids(text: str, *, is_template: bool) -> list[int]:
        stretches = [TextStretch("open", FRAME, text, is_template=is_template), TextStretch("a", CONTEXT, "Bo ate.")]
        return prompt_of(stretches, ByteTokenizer()).ids.tolist()  # type: ignore[no-any-return]

    assert ids("\nSay: ", is_template=True) == list(b"\nSay: Bo ate.")
    assert ids("Say: ", is_template=True) == list(b"\nSay: Bo ate.")
    # What the data say is data.
    assert ids("\nSay: ", is_template=False) == list(b"\n\nSay: Bo ate.")


def test_a_chat_whose_question_is_refused_alone_has_no_blank_prompt(prepared: Any) -> None:
    library = deepcopy(library_family("qwen"))
    refusing = "{% if messages[0]['role'] != 'system' %}{{ raise_exception('a system message first') }}{% endif %}"
    library.chat_template = refusing + library.chat_template
    chat = [{"role": "system", "content": "Bo ate."}, {"role": "user", "content": "Who?"}]
    with pytest.raises(UsageError, match="a system message first"):
        prepared([], tokenizer=HfTokenizer(library, None), messages=messages_of(chat, "test"))


@pytest.mark.parametrize("removal", ["drop", "retokenize"])
def test_a_sentence_is_cut_out_of_a_message_that_the_template_strips(prepared: Any, removal: str) -> None:
    tokenizer = family("llama3")
    chat = [{"role": "system", "content": " \n Anna sang. Bo ate figs. "}, {"role": "user", "content": "Who?"}]
    one = prepared([], tokenizer=tokenizer, messages=messages_of(chat, "test"), unit="sentence", removal=removal)
    left = {name: said(tokenizer, cut.ids) for name, cut in one.item.cuts.items()}
    whole = said(tokenizer, one.item.prompt.ids)
    assert list(left.values()) == [whole.replace("Annasang.", ""), whole.replace("Boatefigs.", "")]


@pytest.mark.parametrize("name", FAMILIES)
def test_masking_moves_no_token_that_is_left_whole(prepared: Any, name: str) -> None:
    context = ["Anna sang.\n\nBo (ate) figs.", "Cid left.\n"]
    for unit in ("sentence", "word", "document"):
        one = prepared(context, tokenizer=family(name), template="<{context}>\n{query}!", unit=unit, removal="mask")
        at = dict(zip(one.item.prompt.positions.tolist(), one.item.prompt.ids.tolist(), strict=True))
        for span in one.item.spans:
            cut = one.item.cuts[span.name]
            positions = cut.positions.tolist()
            assert positions == sorted(set(positions))
            kept = [at.get(position) == token for position, token in zip(positions, cut.ids.tolist(), strict=True)]
            # What a joining token held of others may be other ids, at the edges alone.
            assert kept.count(False) <= 4
            assert kept[0]
            assert kept[-1]
            assert cut.next_position == one.item.prompt.next_position
