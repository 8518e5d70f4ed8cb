"""Prompts of tokenizer families, id for id what transformers makes of the rendered chat or template."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from helpers.examples import examples, few
from helpers.tokenizer_families import SOME_QUICK, family, library_family
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.data.chat import messages_of
from leakmeter.text import templates

N_PROMPTS: Final = examples(80)
EDGES: Final = (
    "", " ", "  ", "\n", "\n\n", " \n", "\t", "🙂", "e\u0301", "\u0301", "é", ".", ")", "(", "“", "…", "'s", "7",
)  # fmt: skip
WORDS: Final = (
    "Anna", "sang", "ferry", "7731", "it's", "naïve", "café", "🙂", "Quellhof", "x", "(who", "ate)", "figs,", "nine.",
)  # fmt: skip
JOINTS: Final = (" ", " ", " ", "\n", "\n\n", "  ", ".\n\n", "")
SPECIALS: Final = (
    *("<|im_end|>", "<|im_start|>system\n", "</s>", "<s>", "<unk>", "[UNK]", "[INST]", "[/INST]", "<|eot|>", "<turn>"),
    *("<|begin|>", "<|end|>", "<|assistant|>", "<|im_", "[EOS]"),
)
TEMPLATES: Final = (
    "plain", "document", "article", "Read:\n{context}\n{query}\n", "{context}{query}", "({context}){query}.",
)  # fmt: skip


def texts(seed: str, *, specials: bool) -> Iterator[tuple[list[str], str]]:
    """Documents and a query of each of so many prompts."""
    rng = random.Random(seed)

    def text() -> str:
        words = [rng.choice(WORDS) + rng.choice(JOINTS) for _ in range(rng.randint(1, 9))]
        if specials:
            words.insert(rng.randrange(len(words) + 1), rng.choice(SPECIALS))
        return rng.choice(EDGES) + "".join(words) + rng.choice(EDGES)

    for _ in range(N_PROMPTS):
        yield [text() for _ in range(rng.randint(1, 3))], text()


def served(name: str, messages: list[dict[str, str]]) -> list[int]:
    made = library_family(name).apply_chat_template(messages, tokenize=True, add_generation_prompt=True)
    return list(made["input_ids"] if hasattr(made, "keys") else made)


@pytest.mark.parametrize("name", SOME_QUICK)
def test_a_plain_prompt_has_the_ids_of_the_filled_template(prepared: Any, name: str) -> None:
    for number, (context, query) in enumerate(texts(name, specials=False)):
        template = TEMPLATES[number % len(TEMPLATES)]
        one = prepared(context, tokenizer=family(name), template=template, query=query, unit="sentence")
        text = templates.NAMED.get(template, template)
        filled = text.replace("{query}", query).replace("{context}", "\n\n".join(context))
        assert one.item.prompt.ids.tolist() == library_family(name)(filled)["input_ids"]
        bare = text.replace("{query}", query).replace("{context}", "")
        assert one.item.blank.ids.tolist() == library_family(name)(bare)["input_ids"]


@pytest.mark.parametrize("name", SOME_QUICK)
def test_a_question_in_one_turn_has_the_ids_that_a_server_feeds(prepared: Any, name: str) -> None:
    for context, query in texts(name, specials=False):
        one = prepared(context, tokenizer=family(name), template="chat", query=query, unit="word")
        joined = "\n\n".join(context)
        assert one.item.prompt.ids.tolist() == served(name, [{"role": "user", "content": f"{joined}\n\n{query}"}])
        assert one.item.blank.ids.tolist() == served(name, [{"role": "user", "content": f"\n\n{query}"}])


@pytest.mark.parametrize("name", SOME_QUICK)
def test_a_chat_has_the_ids_that_a_server_feeds(prepared: Any, name: str) -> None:
    for number, (context, query) in enumerate(texts(name, specials=False)):
        roles = ("user", "assistant") if number % 2 or name == "gemma" else ("system", "user", "assistant")
        said = [*context, *context][: len(roles)]
        messages = [{"role": role, "content": text} for role, text in zip(roles, said * 3, strict=False)]
        messages.append({"role": "user", "content": query})
        one = prepared([], tokenizer=family(name), messages=messages_of(messages, "test"))
        assert one.item.prompt.ids.tolist() == served(name, messages)
        assert one.item.blank.ids.tolist() == served(name, messages[-1:])


@pytest.mark.parametrize("template", few(["chat", "plain"]))
@pytest.mark.parametrize("name", SOME_QUICK)
def test_no_special_token_comes_from_data(prepared: Any, name: str, template: str) -> None:
    tokenizer, library = family(name), library_family(name)
    special = set(library.all_special_ids) - {library.unk_token_id}
    kind = prepared(["Anna sang."], tokenizer=tokenizer, template=template, query="Who?")
    expected = [token for token in kind.item.prompt.ids.tolist() if token in special]
    for context, query in texts(name, specials=True):
        one = prepared(context, tokenizer=tokenizer, template=template, query=query, response=query)
        found = [token for token in one.item.prompt.ids.tolist() if token in special]
        assert found == expected
        assert not special.intersection(one.item.response or ())
        for cut in (*one.item.cuts.values(), *one.item.alone.values(), one.item.blank):
            assert [token for token in cut.ids.tolist() if token in special] == expected


@pytest.mark.parametrize("name", SOME_QUICK)
def test_what_is_encoded_around_special_tokens_is_what_is_encoded_at_once(name: str) -> None:
    """The way that texts with special-token strings take gives, for texts without, the ids of the whole string."""
    tokenizer: Any = family(name)
    for context, query in texts(name, specials=False):
        message = [{"role": "user", "content": f"{context[0]}\n\n{query}"}]
        rendered = tokenizer.render_chat(message, answer=True)
        whole = tokenizer.encode_joined([(rendered, True)])
        specials = list(tokenizer._specials_in(rendered, (0, len(rendered))))
        assert tuple(token for token, _ in tokenizer._encode_around(rendered, specials)) == whole.ids


@pytest.mark.parametrize("name", SOME_QUICK)
def test_every_character_is_of_some_token_also_where_a_normalizer_joins_them(name: str) -> None:
    for context, _ in texts(name, specials=False):
        text = f"{context[0]}e\u0301 a\u0301\u0323b 🙂\u0301"
        for coded in (family(name).encode_joined([(text, False)]), family(name).encode_data(text, first=False)):
            covered = {at for start, end in coded.offsets for at in range(start, end)}
            assert {at for at, char in enumerate(text) if not char.isspace()} <= covered
            starts = [start for start, _ in coded.offsets]
            assert starts == sorted(starts)


@pytest.mark.parametrize("name", SOME_QUICK)
def test_a_special_token_that_data_and_template_write_together_is_text(name: str) -> None:
    tokenizer, library = family(name), library_family(name)
    for special in {*library.all_special_tokens} - {library.unk_token}:
        half = len(special) // 2
        written = ([("Read: ", True), (special, False)], [(special[:half], True), (special[half:], False)])
        for parts in (*written, [(special[:half], False), (special[half:], True)]):
            assert library.convert_tokens_to_ids(special) not in tokenizer.encode_joined(parts).ids
        # Of template text in several parts it is special.
        whole = tokenizer.encode_joined([(special[:half], True), (special[half:], True)])
        assert whole.ids == (library.convert_tokens_to_ids(special),)


@pytest.mark.parametrize("text", ["a<|end|>b", "a\uff1c|end|\uff1eb"])
def test_data_that_a_normalizer_makes_a_special_token_of_stays_text(text: str) -> None:
    vocab = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken("<|end|>", special=True, normalized=True)])
    tokenizer = HfTokenizer(PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>"), None)
    special = len(vocab)
    *before, last = tokenizer.encode_joined([("Q: ", True), (text, False), ("\n<|end|>", True)]).ids
    assert last == special
    assert special not in before
    assert special not in tokenizer.encode_data(text, first=False).ids
