"""Prompts to write a text like an exemplar's: the paper's to the letter, one exemplar each; batches that share none."""

from __future__ import annotations

from typing import Any

import pytest

from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.item import Prepared
from leakmeter.core.prompt import CONTEXT, Prompt
from leakmeter.errors import UsageError, WindowError
from leakmeter.instruments.generation.prompts import GenerationSettings, batches_of, prepare_generation
from leakmeter.text.exemplars import ExemplarCase, LabelledText

GALAXY = (
    "Galaxy, Crew Play to 0-0 Tie (AP)\nAP - Kevin Hartman made seven saves for Los Angeles, and Jon Busch had two "
    "saves for Columbus as the Galaxy and Crew played to a 0-0 tie Saturday night."
)
SPORTS = LabelledText("", (), "Sports")
CASE = ExemplarCase(
    "batch 1",
    (LabelledText("7", (GALAXY,), "Sports"), LabelledText("9", ("Late goal.  <|im_end|> 🙂", "Cup."), "Sports")),
    SPORTS,
)
TABLE_3 = (
    "Given a label of news type, generate the chosen type of news accordingly.\n\n"
    f"News Type: Sports\nText: {GALAXY}\n\nNews Type: Sports\nText:"
)


def made(case: ExemplarCase = CASE, tokenizer: Any = None, **settings: Any) -> Prepared:
    window, n_reserved = settings.pop("window", None), settings.pop("n_reserved", 40)
    return prepare_generation(
        case, tokenizer or ByteTokenizer(), GenerationSettings(**settings), window=window, n_reserved=n_reserved
    )


def text_of(prompt: Prompt, tokenizer: Any) -> str:
    ids = prompt.ids.tolist()
    assert tuple(ids[: len(tokenizer.start_ids)]) == tokenizer.start_ids
    return str(tokenizer.decode(ids[len(tokenizer.start_ids) :]))


def test_the_papers_prompt_to_the_letter(tokenizer: Any) -> None:
    item = made(tokenizer=tokenizer).item
    assert text_of(item.alone["e1"], tokenizer) == TABLE_3
    assert text_of(item.blank, tokenizer) == TABLE_3.replace(f"News Type: Sports\nText: {GALAXY}\n\n", "")


def test_an_exemplar_is_the_same_tokens_alone_and_among_others(tokenizer: Any) -> None:
    prepared = made(tokenizer=tokenizer)
    item = prepared.item
    for span in item.spans:
        (piece,) = [piece for piece in item.alone[span.name].pieces if piece.role == CONTEXT]
        assert piece == next(piece for piece in item.prompt.pieces if piece.name == span.name)
        assert (piece.name, len(piece.ids)) == (span.name, span.n_tokens)
        assert len(item.alone[span.name].ids) == len(item.blank.ids) + span.n_tokens
    assert item.cuts["e1"] == item.alone["e2"]
    assert item.prompt.blank().ids.tolist() == item.blank.ids.tolist()
    assert [prepared.context[a:b] for span in item.spans for a, b in span.ranges] == [
        f"News Type: Sports\nText: {GALAXY}",
        "News Type: Sports\nText: Late goal.  <|im_end|> 🙂\nCup.",
    ]
    assert [span.document for span in item.spans] == ["7", "9"]
    assert (item.response, item.stop_ids) == (None, tokenizer.stop_ids)


def test_a_special_token_in_a_text_is_text(chat_tokenizer: Any) -> None:
    (end,) = chat_tokenizer.encode_joined([("<|im_end|>", True)]).ids
    assert end not in made(tokenizer=chat_tokenizer).item.alone["e2"].ids


def test_without_a_label_there_is_no_line_for_it(tokenizer: Any) -> None:
    own = ExemplarCase("own", (LabelledText("0", ("The boiler drips.",), None),), LabelledText("", (), None))
    prepared = made(own, tokenizer, instruction="Write a ticket.", text_heading="Ticket")
    said = text_of(prepared.item.alone["e1"], tokenizer)
    assert " ".join(said.split()) == "Write a ticket. Ticket: The boiler drips. Ticket:"
    assert said.endswith("\n\nTicket:")
    assert prepared.query == ""


def test_the_chat_template_holds_all_of_it(chat_tokenizer: Any) -> None:
    prompt = made(tokenizer=chat_tokenizer, template="chat").item.alone["e1"]
    said = chat_tokenizer.decode(prompt.ids.tolist())
    before, after = said.split(TABLE_3)
    assert before.endswith("<|im_start|>user\n")
    assert after == "<|im_end|>\n<|im_start|>assistant\n"
    assert made(tokenizer=chat_tokenizer, template=None).template == "chat"


def test_exemplars_that_say_the_same_are_marked() -> None:
    twice = ExemplarCase("b", (CASE.exemplars[0], *CASE.exemplars), SPORTS)
    assert made(twice).item.spans[0].repeats == ("e2",)
    assert made().item.spans[0].repeats == ()


def test_an_exemplar_has_to_leave_room() -> None:
    n = len(made().item.alone["e1"].ids)
    assert made(window=n + 40).item.window == n + 40
    with pytest.raises(WindowError, match=rf"needs {n + 40:,} tokens for exemplar e1 \([0-9]+ of it, 40 of what"):
        made(window=n + 39)


@pytest.mark.parametrize(
    ("exemplars", "said"),
    [
        ((), "case 'b' has no exemplars; give at least one"),
        ((LabelledText("4", (" ",), "Sports"),), "the exemplar '4' is empty; leave it out"),
        ((LabelledText("4", (), "Sports"),), "the exemplar '4' is empty"),
        ((LabelledText("4", ("x",), "World"),), "has label 'World', but texts with label 'Sports' are generated"),
        ((LabelledText("4", ("\ud800",), "Sports"),), "exemplar '4' is no valid Unicode"),
    ],
)
def test_exemplars_that_cannot_vote_are_refused(exemplars: tuple[LabelledText, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(ExemplarCase("b", exemplars, SPORTS))


POOL = [LabelledText(str(i), (f"text {i}",), "Sports" if i % 3 else "World") for i in range(12)]


def test_the_parts_of_a_batch_have_its_exemplars() -> None:
    cases, whole = (batches_of(POOL, 3, label="Sports", parts=parts) for parts in (2, 1))
    assert [case.id for case in cases] == [f"batch {i}, part {j}" for i in (1, 2) for j in (1, 2)]
    assert [case.exemplars for case in cases] == [case.exemplars for case in whole for _ in range(2)]


def test_batches_are_disjoint_in_order_and_full() -> None:
    cases = batches_of(POOL, 3, label="Sports")
    assert [case.id for case in cases] == ["batch 1", "batch 2"]
    assert [[one.id for one in case.exemplars] for case in cases] == [["1", "2", "4"], ["5", "7", "8"]]
    assert {case.query for case in cases} == {SPORTS}
    assert batches_of(POOL, 3, label="Sports", most=1) == cases[:1]
    assert len(batches_of(POOL, 8, label="Sports")) == 1
    for size, more, said in (
        (9, {}, "9 exemplars with label 'Sports' are needed, and there are 8; give more of them"),
        (3, {"most": 3}, "3 times 3 exemplars with label 'Sports' are needed, and there are 8"),
        (0, {}, "subset-size is 0; it has to be 1 or more"),
        (3, {"most": 0}, "batches is 0; it has to be 1 or more"),
    ):
        with pytest.raises(UsageError, match=said):
            batches_of(POOL, size, label="Sports", **more)
