"""Unit auto: documents first, then sentences of those that matter, whose numbers are those of the other units."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.examples import few
from helpers.measure_items import readings_of
from helpers.report_snapshots import printed
from helpers.tiny_models import tiny_backend
from helpers.toy_chat import ToyChat
from leakmeter.backends.toy import Toy
from leakmeter.commands.studies.contexts import KIND
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem, Prepared
from leakmeter.core.measure import RESPONSE as TOKENS
from leakmeter.core.measure import TOKEN_ID, Measurement
from leakmeter.engine.measure import texts_of
from leakmeter.engine.storage.kept import FieldError
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.findings import is_finding, telling
from leakmeter.instruments.influence.ladder import Ladder, best_stretch
from leakmeter.instruments.influence.math import InfluenceStatistics, PieceScores
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
from leakmeter.stats.arrays import FloatArray
from leakmeter.testing import assert_leakage
from leakmeter.text.build import PromptSettings, prepare

QUERY, RESPONSE = "What is the code of Ana?", "41-77-20"
ASKED: dict[str, Any] = {"query": QUERY, "response": RESPONSE, "template": "plain"}
SAYS = "Her code is 41-77-20 now."
IDLE = ("Boats lie at the pier. Bread is baked there.", "It rained. Nobody sang. The lamp was lit at noon.")
WORDS = "the a boat lake house tree river 41-77-20 cat 41-77 moon rain".split()  # noqa: SIM905


class Copying(Toy):
    """A toy that goes on as its prompt does after the same three tokens, however often those stand in it."""

    def __init__(self) -> None:
        super().__init__(scale=0.02)

    def logits(self, ids: Any, positions: Any) -> Any:
        pulled = super().logits(ids, positions).copy()
        if len(ids) > 3:
            before = np.lib.stride_tricks.sliding_window_view(ids, 3)
            pulled[ids[3:][(before[:-1] == before[-1]).all(axis=1)]] = 6.0
        return pulled


def item_of(
    texts: Any, settings: PromptSettings | None = None, response: str | None = RESPONSE, backend: Any = None
) -> ContextItem:
    documents = tuple(Document(f"d{number}", text) for number, text in enumerate(texts, 1))
    settings = settings or PromptSettings(unit="auto", template="plain")
    case = Case("case", documents, QUERY, response)
    return prepare(case, (backend or Toy()).tokenizer, settings, window=None, n_reserved=8).item


def measured(texts: Any, **settings: Any) -> InfluenceResult:
    return leakmeter.influence(Copying(), context=list(texts), **{**ASKED, **settings})


def three_units(
    texts: list[str], **how: Any
) -> tuple[InfluenceResult, dict[tuple[bool, str], PieceInfluence], InfluenceResult]:
    """By unit auto; pieces by whether they are documents and by name, and the result, of the other two units."""
    documents, sentences = (measured(texts, **how, unit=unit) for unit in ("document", "sentence"))
    pieces = {(one is documents, piece.name): piece for one in (documents, sentences) for piece in one.pieces}
    return measured(texts, **how), pieces, sentences


def random_texts(rng: Random) -> list[str]:
    """Some of one sentence, and sentences that are said again."""

    def sentence() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.choice((1, 2, 5)))).capitalize() + "."

    texts = [" ".join(sentence() for _ in range(rng.randint(1, 6))) for _ in range(rng.randint(2, 5))]
    return [f"{text} {SAYS}" if rng.random() < 0.3 else text for text in texts]


# ---- numbers --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("removal", few(["drop", "mask", "retokenize"], 2))
@pytest.mark.parametrize("more", [{}, {"cid_lambda": 1.5, "temperature": 0.7}, {"group": True}], ids=str)
def test_numbers_are_those_of_documents_and_of_sentences(removal: str, more: dict[str, Any]) -> None:
    texts = [f"Ana sings. {SAYS}", IDLE[0], "Nobody asked.", f"{SAYS} It was late. Bo left.", IDLE[1]]
    got, others, of_sentences = three_units(texts, removal=removal, **more)
    assert got.unit == "auto"
    assert {piece.kind for piece in got.pieces} == {"unit", "document", "value" if "group" in more else "unit"}
    for piece in got.pieces:
        other = others[piece.kind == "document", piece.name]
        assert (piece.text, piece.spans, piece.n_tokens) == (other.text, other.spans, other.n_tokens)
        # Measured: equal; the tolerance is of another order of sums.
        np.testing.assert_allclose(piece.signed_per_token_nats, other.signed_per_token_nats, rtol=0, atol=1e-12)
        if piece.alone_nats is not None:
            assert piece.alone_nats == pytest.approx(other.alone_nats, abs=1e-12)
    assert any(piece.kind == "unit" and piece.alone_nats is not None for piece in got.pieces)
    for name in ("whole_nats", "noise_floor_nats", "placebo_nats", "placebo_alone_nats", "whole_posterior"):
        assert getattr(got, name) == getattr(of_sentences, name)
    assert InfluenceResult.from_dict(got.to_dict()) == got


def test_samples_are_those_of_the_other_units() -> None:
    texts = [f"Ana sings. {SAYS} Bo left. It was late.", "Rain fell. Wind blew. Dogs sat. Cats ran. Birds flew."]
    got, others, _ = three_units([*texts, "Nobody asked."], response=None, samples=3, max_new_tokens=6, seed=1)
    assert [piece.name for piece in got.pieces if piece.kind == "document"] == ["d1", "d2"]
    for number, piece in enumerate(got.pieces):
        other = others[piece.kind == "document", piece.name]
        assert (piece.mean_nats, piece.worst_nats) == pytest.approx((other.mean_nats, other.worst_nats), abs=1e-12)
        assert piece.interval_nats == pytest.approx(other.interval_nats, abs=1e-12)
        assert all(len(sample.piece_nats) == len(got.pieces) for sample in got.samples)
        assert piece.nats == pytest.approx(got.samples[0].piece_nats[number], abs=1e-12)


@pytest.mark.parametrize("texts", [[f"Ana sings. {SAYS} Bo left."], ["Ana sings.", SAYS, "Bo left."]], ids=len)
@pytest.mark.parametrize("weight", [1.0, 1.5])
def test_one_document_and_documents_of_one_sentence_are_measured_as_sentences(texts: list[str], weight: float) -> None:
    asked: list[Any] = []
    for unit in ("auto", "sentence"):
        item = item_of(texts, PromptSettings(unit=unit, template="plain"))
        measure = Influence(cid_lambda=weight)
        assert not measure._documents(item)
        chunks: list[Any] = []
        ([measurements], _) = drive(Copying(), [measure.trial(item)], on_plan=chunks.append)
        told = [(one.statistic, one.piece, one.values.tolist()) for one in measurements]
        asked.append(([chunk.requests for chunk in chunks], told))
    assert asked[0] == asked[1]


# ---- choice ---------------------------------------------------------------------------------------------------------
def test_sentences_are_measured_of_documents_that_matter_alone() -> None:
    got = measured([IDLE[0], f"Ana sings. {SAYS} Bo left.", IDLE[1]])
    # One sentence accounts for what the document does: none was scored alone.
    assert [(piece.name, piece.kind, piece.alone_nats is None) for piece in got.pieces] == [
        *((name, "unit", True) for name in ("s3", "s4", "s5")),
        *((name, "document", False) for name in ("d1", "d2", "d3")),
    ]
    assert (got.n_unmeasured_pieces, got.n_unmeasured_documents) == (5, 2)
    strongest = max(got.pieces, key=lambda piece: (piece.kind == "unit", piece.nats))
    assert strongest.text == SAYS
    assert [piece.name for piece in telling(got)] == ["s3", "s4", "s5", "d1", "d3"]
    (worst,) = [quantity for quantity in got.quantities if quantity.name == "influence.worst_piece"]
    assert worst.compute(got) == max(piece.nats for piece in telling(got))


@pytest.mark.parametrize(
    "texts",
    [[f"Ana sings. {SAYS} Bo left.", IDLE[1], f"Who came? {SAYS}"], [f"{SAYS} Bo left. {SAYS.lower()}", *IDLE]],
    ids=["in two documents", "in one document"],
)
def test_a_value_that_is_said_twice_is_found_alone(texts: list[str]) -> None:
    got = measured(texts)
    saying = [piece for piece in got.pieces if piece.kind == "unit" and "41-77-20" in piece.text]
    assert len(saying) == 2
    for piece in saying:
        assert piece.alone_nats is not None
        assert piece.alone_nats > 10 > 1 > piece.nats
        assert piece.redundant
    if len({piece.document for piece in saying}) == 1:
        # No sentence is a finding, so that the document is.
        top = max(telling(got), key=lambda piece: piece.nats)
        assert (top.kind, is_finding(got, top)) == ("document", True)


def test_a_document_that_is_given_twice_says_so() -> None:
    got = measured([f"{SAYS} Bo left.", f"{SAYS} Bo left.", IDLE[0]])
    twice = [piece for piece in got.pieces if piece.kind == "document"][:2]
    assert [piece.repeats for piece in twice] == [("d2",), ("d1",)]
    assert all(piece.redundant for piece in twice)


def test_the_best_stretch_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    for n in [1, 2, 3, 7, 20] * 20:
        nats = rng.normal(size=n).round(1)
        sums = [nats[a:b].sum() for a in range(n) for b in range(a + 1, n + 1)]
        found = best_stretch(nats)
        assert found.start < found.stop <= n
        assert nats[found].sum() == pytest.approx(max(sums), abs=1e-12)


def scored(without: Any, alone: Any, *, placebo: Any = 0.0, placebo_alone: Any = 0.0) -> PieceScores:
    """One document 'd' of four sentences that do nothing; what it does to four tokens, left out and alone, nats."""

    def row(nats: Any) -> FloatArray:
        return np.broadcast_to(np.asarray(nats, dtype=float), 4)

    return PieceScores(
        row(0), row(0), {"d": row(-np.asarray(without, dtype=float))}, {"d": row(alone)},
        placebo_alone=row(placebo_alone), placebos=[row(placebo)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("does", "noise", "matters"),
    [
        ({"without": (0, 0.6, 0.6, 0), "alone": 0}, 0, True),
        ({"without": (0, 0.6, -0.6, 0.6), "alone": 0}, 0, False),
        ({"without": -5, "alone": 0}, 0, False),
        ({"without": 0, "alone": (3, 0, 0, 0)}, 0, True),
        ({"without": 0, "alone": (3, 0, 0, 0), "placebo_alone": 1}, 0, False),
        ({"without": 0, "alone": (3, 0, 0, 0), "placebo": 1}, 0, True),
        ({"without": (3, 0, 0, 0), "alone": 0, "placebo": 1}, 0, False),
        ({"without": 0.5, "alone": 0}, 0.6, False),
        # A token is far above its noise, though the whole is not.
        ({"without": (5, 0.5, 0.5, 0.5), "alone": 0}, (0.1, 4, 4, 4), True),
        ({"without": (np.inf, 0, 0, 0), "alone": (0, -np.inf, 0, 0)}, 0, True),
    ],
)  # fmt: skip
def test_what_matters_is_above_noise_and_irrelevant_texts_on_a_stretch(does: Any, noise: Any, matters: bool) -> None:
    noise = np.broadcast_to(np.asarray(noise, dtype=float), 4)
    ladder = Ladder(item_of(IDLE), {"d": ("a", "b", "c", "e")}, [scored(**does)], noise, 0)
    assert ladder.documents() == ["d"] * matters


def test_a_document_that_another_response_needs_matters() -> None:
    responses = [scored(0, 0), scored((0, 0, 2, 0), 0)]
    assert Ladder(item_of(IDLE), {"d": ("a", "b", "c", "e")}, responses, np.zeros(4), 0).documents() == ["d"]


# ---- cost -----------------------------------------------------------------------------------------------------------
def any_measure(rng: Random) -> Influence:
    return Influence(
        cid_lambda=rng.choice((1.0, 1.5)), samples=rng.choice((1, 1, 2, 3)), max_new_tokens=6, seed=rng.randrange(99)
    )


@pytest.mark.parametrize(("kind", "n"), few([("copying", 20), ("tiny", 6), ("copying", 100), ("tiny", 20)], 2))
def test_it_takes_no_more_prompts_than_sentences(kind: str, n: int) -> None:
    backend: Any = {"copying": Copying, "tiny": tiny_backend}[kind]()
    for seed in range(n):
        rng = Random(seed)
        texts, measure = random_texts(rng), any_measure(rng)
        how: dict[str, Any] = {"removal": rng.choice(("drop", "mask")), "group": rng.random() < 0.3}
        response = RESPONSE if measure.samples == 1 and rng.random() < 0.8 else None
        taken = []
        for unit in ("auto", "sentence"):
            item = item_of(texts, PromptSettings(unit=unit, template="plain", **how), response, backend)
            if seed % 3 == 0:
                item = replace(item, model_noise_nats=0.0)
            _, cost = drive(backend, [measure.trial(item)])
            taken.append(cost.n_prompts)
        assert taken[0] <= taken[1], seed


def test_a_search_measures_no_documents_first() -> None:
    measure = Influence(search="top:2")
    assert (measure.documents_first, Influence().documents_first) == (False, True)
    case = Case("one", (Document("a", IDLE[0]), Document("b", IDLE[1])), QUERY, RESPONSE)
    assert PromptSettings(template="plain").prepare(case, Toy(), measure).unit == "sentence"


# ---- defaults and refusals ------------------------------------------------------------------------------------------
def test_other_measures_and_searches_refuse_it() -> None:
    with pytest.raises(UsageError, match="give another unit, such as sentence"):
        measured(IDLE, unit="auto", search="top:2")
    with pytest.raises(UsageError, match="unit 'auto' is for influence without a search"):
        leakmeter.redact("toy", context=list(IDLE), **ASKED, max_loss=1, unit="auto")
    with pytest.raises(UsageError, match="give another unit, such as sentence"):
        KIND.prompts({"dataset": "pubmedqa", "unit": "auto"})
    assert KIND.prompts({"dataset": "pubmedqa", "unit": None}).unit == "sentence"
    assert measured(IDLE, search="top:2").unit == "sentence"


def test_chats_keep_their_default_and_what_was_retrieved_into_a_turn_is_documents() -> None:
    notes = [f"{SAYS} Bo left.", *IDLE]
    answer = {"role": "assistant", "content": RESPONSE}
    turn = {"role": "user", "content": "".join(f"- {note}\n" for note in notes) + QUERY}
    got: dict[str | None, Any] = {
        unit: leakmeter.influence(ToyChat(), messages=[turn, answer], context_from=r"- (.*?)\n", unit=unit)
        for unit in (None, "sentence", "document")
    }
    assert got[None].unit == "auto"
    numbers = {(piece.kind, piece.name): piece.nats for piece in got[None].pieces}
    others = {piece.name: piece.nats for unit in ("sentence", "document") for piece in got[unit].pieces}
    assert [kind for kind, _ in numbers].count("document") == 3
    for (_, name), nats in numbers.items():
        assert nats == pytest.approx(others[name], abs=1e-12)
    tools = [{"role": "tool", "content": note} for note in notes]
    asking = [{"role": "user", "content": QUERY}, answer]
    read = leakmeter.influence(ToyChat(), messages=[*tools, *asking])
    assert (read.unit, [document.name for document in read.documents]) == ("auto", ["tool 1", "tool 2", "tool 3"])
    said = [{"role": "user", "content": notes[0]}, {"role": "assistant", "content": "Noted."}]
    assert leakmeter.influence(ToyChat(), messages=[*said, *asking]).unit == "message"


# ---- runs and reports -----------------------------------------------------------------------------------------------
CASES = [
    {"id": name, "context": context, "query": QUERY, "response": RESPONSE}
    for name, context in {
        "a": [IDLE[0], f"Ana sings. {SAYS} Bo left.", IDLE[1]], "b": [*IDLE], "c": [f"{SAYS} It rained."],
    }.items()
]  # fmt: skip


@pytest.fixture(scope="module")
def memory() -> Any:
    return leakmeter.influence(Copying(), CASES, template="plain")


def test_a_run_keeps_it_and_damage_is_seen(tmp_path: Path, memory: Any) -> None:
    run: Any = leakmeter.influence(Copying(), CASES, template="plain", out=tmp_path)
    for kept, one in zip(run, memory, strict=True):
        assert [piece.to_dict() for piece in kept.pieces] == [piece.to_dict() for piece in one.pieces]
        assert (kept.unit, kept.n_unmeasured_pieces) == ("auto", one.n_unmeasured_pieces)
    again: Any = leakmeter.influence(Copying(), CASES, template="plain", out=tmp_path)
    assert [one.to_dict() for one in again] == [one.to_dict() for one in run]
    item = item_of(CASES[0]["context"])
    (measurements,), _ = drive(Copying(), [Influence().trial(item)])
    prepared = Prepared(item, "\n\n".join(CASES[0]["context"]), (("d1", 0, 5),), QUERY, "plain", "auto", 0)
    tokens = Measurement(item.id, 0, "", TOKENS, TOKEN_ID, np.asarray(item.response, dtype=float))
    cost = {"requests": 1, "tree_tokens": 1, "naive_tokens": 1, "seconds": 0.0, "out_of_memory_retries": 0}
    texts = InfluenceResult.kept.from_dict({**texts_of(prepared, [tokens], Toy()), "cost": cost})
    texts.check_measurements(InfluenceStatistics, {}, measurements)
    # A document that was left in has its sentences left out, and of one that matters all are.
    for gone in (("without_this", "s4"), ("without_this", "d1"), ("only_this", "d2")):
        damaged = [m for m in measurements if (m.statistic, m.piece) != gone]
        assert len(damaged) == len(measurements) - 1
        with pytest.raises(FieldError, match=r"is missing|is none of"):
            texts.check_measurements(InfluenceStatistics, {}, damaged)


def test_the_report_says_what_was_not_measured_and_shows_documents_first(tmp_path: Path, memory: Any) -> None:
    one, none, single = (printed(InfluenceResult.report([result]), width=160) for result in memory)
    assert "5 sentences of 2 documents were not measured, since their documents have no effect" in one
    assert one.index("Documents") < one.index("Pieces of the context")
    assert "Pieces of the context" not in none
    assert "not measured" not in single
    assert "Documents" in memory.save_html(tmp_path / "all.html").read_text(encoding="utf-8")


def test_bounds_hold_of_pieces_that_tell_most(memory: Any) -> None:
    with pytest.raises(AssertionError, match="piece s4"):
        assert_leakage(memory["a"], max_nats=5)
    assert_leakage(memory["b"], max_nats=5)


def test_cases_that_are_scored_together_choose_as_each_does_alone() -> None:
    backend = Copying()
    items = [item_of(case["context"]) for case in CASES[:2]]
    together, _ = drive(backend, [Influence().trial(item) for item in items])
    for item, measurements in zip(items, together, strict=True):
        got = {(m.sample, m.statistic, m.piece): m.values for m in measurements}
        alone = readings_of(backend, Influence(), item)
        assert list(got) == list(alone)
        assert all((got[key] == values).all() for key, values in alone.items())
