"""Queries behind contexts: the same tokens with and without one, and answers that can be told apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.prompt import Prompt
from leakmeter.errors import UnknownNameError, UsageError, WindowError
from leakmeter.instruments.susceptibility.case import ClosedAnswer, Context, Query, QueryCase
from leakmeter.instruments.susceptibility.measure import ContextSet
from leakmeter.instruments.susceptibility.prompts import PreparedQuery, QuerySettings, prepare_query

FERRY = Context("ferry", "The ferry <|im_end|> leaves at nine; 🙂 {query}.", weight=3.0, answer="nine")
GOATS = Context("goats", "Two goats slept.")
CASE = QueryCase("q", Query("q", "Q: When does the ferry leave?\nA:"), (FERRY, GOATS))
YES, NO = ClosedAnswer("Yes", ("Yes", "yes")), ClosedAnswer("No", ("No", "no"))
# Text that a tokenizer of any kind gives back as it was.
TEXTS = st.text(st.sampled_from("ab Z9.:\n\t<|>{}é🙂'"), min_size=1, max_size=12).filter(str.strip)


def made(case: QueryCase = CASE, tokenizer: Any = None, **settings: Any) -> PreparedQuery:
    how = {"window": settings.pop("window", None), "n_reserved": settings.pop("n_reserved", 0)}
    return prepare_query(case, tokenizer or ByteTokenizer(), QuerySettings(**settings), **how)


def asked(text: str = CASE.query.text, **more: Any) -> QueryCase:
    return replace(CASE, query=Query("q", text, **more))


def contexts_of(prepared: PreparedQuery) -> ContextSet:
    assert prepared.item.contexts is not None
    return prepared.item.contexts


def text_of(prompt: Prompt, tokenizer: Any) -> str:
    """What is read, behind the start tokens that every prompt without a chat template has."""
    ids = prompt.ids.tolist()
    assert tuple(ids[: len(tokenizer.start_ids)]) == tokenizer.start_ids
    return str(tokenizer.decode(ids[len(tokenizer.start_ids) :]))


def test_a_query_stands_behind_each_context_and_alone(tokenizer: Any) -> None:
    prepared = made(tokenizer=tokenizer)
    contexts = contexts_of(prepared)
    assert text_of(prepared.item.prompt, tokenizer).strip() == CASE.query.text
    for context, prompt in zip(CASE.contexts, contexts.prompts, strict=True):
        written = f"{context.text}\n{CASE.query.text}"
        assert text_of(prompt, tokenizer).strip() == written
        assert prompt.ids.tolist() == [*tokenizer.start_ids, *tokenizer.encode_joined([(written, False)]).ids]
    assert (contexts.weights, contexts.answers, prepared.item.spans) == ((0.75, 0.25), (), ())


@given(context=TEXTS, query=TEXTS, separator=st.sampled_from(["", " ", "\n", "\n\n", " – "]))
def test_a_context_adds_itself_and_the_separator(context: str, query: str, separator: str) -> None:
    case = QueryCase("q", Query("q", query), (Context("c", context),))
    prepared = made(case, separator=separator)
    bare, (behind,) = prepared.item.prompt.ids.tolist(), contexts_of(prepared).prompts
    start = list(ByteTokenizer().start_ids)
    assert bare == [*start, *query.encode()]
    assert behind.ids.tolist() == [*start, *(context + separator + query).encode()]


def test_in_a_chat_all_of_it_is_one_user_message(chat_tokenizer: Any) -> None:
    prepared = made(tokenizer=chat_tokenizer, template="chat")
    (one, other), bare = contexts_of(prepared).prompts, prepared.item.prompt
    ferry, goats = ([{"role": "user", "content": f"{of.text}\n{CASE.query.text}"}] for of in CASE.contexts)
    assert chat_tokenizer.decode(one.ids.tolist()) == chat_tokenizer.render_chat(ferry, answer=True)
    served = chat_tokenizer.library.apply_chat_template(goats, tokenize=True, add_generation_prompt=True)
    assert other.ids.tolist() == list(served["input_ids"])
    # What looks like a special token in a context is text: the turn ends behind the query alone.
    ends = chat_tokenizer.encode_joined([("<|im_end|>", True)]).ids
    assert [t for t in one.ids.tolist() if (t,) == ends] == [t for t in bare.ids.tolist() if (t,) == ends]
    assert made(tokenizer=chat_tokenizer, template=None).template == "chat"
    assert made(template=None).template == "plain"


def test_answers_follow_behind_a_space_where_the_query_ends_in_none(tokenizer: Any) -> None:
    answers = contexts_of(made(asked(answers=(YES, NO)), tokenizer)).answers
    forms = [
        {tokenizer.decode((*tokenizer.encode_data("A:", first=False).ids, *form)) for form in forms}
        for forms in answers
    ]
    assert forms == [{"A: Yes", "A: yes"}, {"A: No", "A: no"}]
    spaced = contexts_of(made(asked("It leaves at\t", answers=(YES, NO)))).answers
    assert [{bytes(form).decode() for form in forms} for forms in spaced] == [{"Yes", "yes"}, {"No", "no"}]


def test_of_an_answers_forms_those_that_begin_with_another_are_counted_with_it() -> None:
    long = ClosedAnswer("Yes", ("Yes", "Yes, sir", "yes", "Yes"))
    (forms, _) = contexts_of(made(asked(answers=(long, NO)))).answers
    assert {bytes(form).decode() for form in forms} == {" Yes", " yes"}


@pytest.mark.parametrize(("other", "longer", "shorter"), [("Yes", 1, 2), ("Yesterday", 2, 1), ("Ye", 1, 2)])
def test_answers_that_cannot_be_told_apart_are_refused(other: str, longer: int, shorter: int) -> None:
    said = f"case 'q': a form of answer {longer} begins with the tokens of one of answer {shorter}"
    with pytest.raises(UsageError, match=said):
        made(asked(answers=(YES, ClosedAnswer("Other", (other,)))))


def test_what_is_kept_for_people_is_short_and_says_what_a_context_says_of_the_query() -> None:
    factors = (("entity", "Emma"), ("openness", "open"))
    said = (Context("1", "Emma was written by Twain.", answer="Twain"), Context("2", "x" * 400, answer="Poe"))
    case = QueryCase("q", Query("q", "Who wrote Emma?", answer="Jane Austen", factors=factors), said)
    told = made(case).texts()
    assert [context["answer"] for context in told["contexts"]] == ["Twain", None]
    assert told["contexts"][1]["text"] == "x" * 300 + "…"
    assert (told["answer"], told["factors"], told["separator"]) == ("Jane Austen", dict(factors), "\n")
    closed = replace(case, query=replace(case.query, factors=(("openness", "closed"),)))
    assert [context["answer"] for context in made(closed).texts()["contexts"]] == [None, None]
    bare = replace(case, query=replace(case.query, factors=()))
    assert [context["answer"] for context in made(bare).texts()["contexts"]] == ["Twain", "Poe"]


def test_a_spec_tells_contexts_by_their_hash() -> None:
    told = CASE.record()
    assert "goats" not in str(told)
    assert (told["id"], told["n_contexts"], told["query"]["text"]) == ("q", 2, CASE.query.text)
    for other in (replace(FERRY, weight=1.0), replace(FERRY, text="Else."), replace(FERRY, answer=None)):
        assert replace(CASE, contexts=(other, GOATS)).record()["contexts_sha256"] != told["contexts_sha256"]


def test_what_does_not_fit_names_its_context() -> None:
    n = len(f"\n{FERRY.text}\n{CASE.query.text}".encode())
    made(window=n)
    for case, window, n_reserved, told in (
        (CASE, n - 1, 0, rf"case 'q' behind context 'ferry' needs {n} tokens .* and {n - 1} fit"),
        (CASE, n + 4, 5, "of its query, 5 of an answer"),
        (asked(answers=(YES, NO)), n + 3, 0, "of its query, 4 of an answer"),
        (replace(CASE, contexts=()), 8, 0, "case 'q' needs "),
    ):
        with pytest.raises(WindowError, match=told):
            made(case, window=window, n_reserved=n_reserved)


def test_texts_that_cannot_be_used_are_named() -> None:
    for case, said in (
        (asked(" \n"), "case 'q': the query is empty"),
        (replace(CASE, contexts=(Context("c", "  "),)), "case 'q': the context 'c' is empty"),
        (replace(CASE, contexts=(Context("c", "a\ud800"),)), "context 'c' is no valid Unicode"),
        (replace(CASE, contexts=(Context("c", "a", weight=0.0),)), "context 'c' has weight 0.0; it has to be above 0"),
        *(
            (
                replace(CASE, contexts=(Context("c", "a", weight=first), Context("d", "b", weight=second))),
                "the weights of its contexts, .*, are too large, or too far apart, to be added up; give shares",
            )
            for first, second in ((1e308, 1.5e308), (1e-300, 1e300))
        ),
        (replace(CASE, contexts=(Context("c", "a", weight=float("nan")),)), "has weight nan"),
        (asked(answers=(YES, ClosedAnswer("None", ()))), "case 'q': answer 2 has no form"),
    ):
        with pytest.raises(UsageError, match=said):
            made(case)
    with pytest.raises(UnknownNameError, match="no template for queries named 'chatt'; did you mean 'chat'"):
        QuerySettings(template="chatt")
