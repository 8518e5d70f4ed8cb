"""Searched contexts: what is listed is exact, what the audit says is true, and nothing else is taken for a number."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.examples import few
from helpers.model_server import VLLM, ModelServer
from helpers.mortal_toy import Mortal
from helpers.tiny_models import tiny_backend
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.backend import Capabilities
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.influence.search import Audit, Search, Searcher, SearchScores, draw, kth, reach
from leakmeter.instruments.influence.searched import SearchSummary
from leakmeter.stats.hypergeometric import upper_limit
from leakmeter.text.build import PromptSettings, prepare

WORDS = "the a boat lake house tree river dog cat sun moon rain road hill song bread door lamp".split()  # noqa: SIM905
QUERY, RESPONSE = "What is the number of Ana?", "41 77 20"
ASKED: dict[str, Any] = {"query": QUERY, "response": RESPONSE}


def documents(n: int = 4, n_sentences: int = 9, seed: int = 0) -> list[str]:
    rng = Random(seed)

    def sentence() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 8))).capitalize() + "."

    texts = [" ".join(sentence() for _ in range(n_sentences)) for _ in range(n)]
    return [*texts[:-1], f"{texts[-1]} The number of Ana is 41 77 20."]


def blind() -> Toy:
    """A toy that hides nothing, as a served model."""
    toy = Toy()
    toy.capabilities = Capabilities()
    return toy


def both(model: Any, texts: list[str], **settings: Any) -> tuple[InfluenceResult, InfluenceResult, SearchSummary]:
    """Without a search, and with one, and what that one says."""
    exhaustive = {name: how for name, how in settings.items() if name not in ("search", "audit", "audit_rounds")}
    full = leakmeter.influence(model, context=texts, **ASKED, **{"unit": "sentence", **exhaustive})
    some = leakmeter.influence(model, context=texts, **ASKED, **settings)
    assert some.search is not None
    return full, some, some.search


@pytest.mark.parametrize("removal", few(["drop", "mask", "retokenize"], 2))
def test_listed_values_are_those_of_full_scoring(removal: str) -> None:
    full, some, told = both("toy", documents(), search="top:3", audit="0.9:20%", removal=removal)
    exact = {piece.name: piece for piece in full.pieces}
    assert 3 < len(some.pieces) < len(full.pieces)
    for piece in some.pieces:
        of_all = exact.pop(piece.name)
        assert (piece.signed_per_token_nats, piece.alone_nats) == (of_all.signed_per_token_nats, of_all.alone_nats)
    assert (some.whole_nats, some.placebo_nats) == (full.whole_nats, full.placebo_nats)
    assert {piece.name for piece in told.pieces} == set(exact)
    assert all(piece.nats is None and piece.screened_nats is not None for piece in told.pieces)
    assert InfluenceResult.from_dict(some.to_dict()) == some
    assert full.search is None
    assert "search" not in full.to_dict()


def test_a_screen_that_is_exact_finds_the_strongest() -> None:
    # The toy has no layers: to it, what is hidden is masked.
    full, some, told = both("toy", documents(), search="top:4", removal="mask")
    strongest = sorted(full.pieces, key=lambda piece: -piece.nats)[:4]
    assert {piece.name for piece in strongest} <= {piece.name for piece in some.pieces}
    assert 5 <= told.n_rescored == len(some.pieces) < 15
    assert not told.stopped_early
    exact = {piece.name: piece.nats for piece in full.pieces}
    for left in told.pieces:
        assert left.screened_nats == pytest.approx(exact[left.name], abs=1e-9)
    assert told.threshold_nats == pytest.approx(strongest[-1].nats)
    # Documents are screened beside their sentences.
    of_documents = leakmeter.influence("toy", context=documents(), **ASKED, unit="document", removal="mask")
    exact = {piece.name: piece.nats for piece in of_documents.pieces}
    assert [level.name for level in told.levels] == list(exact)
    for level in told.levels:
        assert level.kind == "document"
        assert level.screened_nats == pytest.approx(exact[level.name], abs=1e-9)
        assert level.nats is None or level.nats == pytest.approx(exact[level.name])
    assert sum(level.nats is not None for level in told.levels) == 1
    assert {piece.kind for piece in some.pieces} == {"unit"}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_what_the_audit_says_is_what_the_draw_gives(seed: int) -> None:
    texts = documents(seed=seed)
    full, some, told = both("toy", texts, search="top:3:4", audit="0.9:10%", audit_rounds=2, seed=seed)
    exact = {piece.name: piece.nats for piece in full.pieces}
    first, *others = told.rounds
    assert first.n_left == len(full.pieces) - told.n_rescored
    assert first.confidence == 0.95  # half of what may be wrong, of two rounds
    # List and threshold are those of before the draw, which is of the seed and the case alone.
    unaudited = {piece.name for piece in leakmeter.influence("toy", context=texts, **ASKED, search="top:3:4").pieces}
    again = draw([name for name in exact if name not in unaudited], first.n_drawn, seed, some.id, 1)
    assert first.threshold_nats == kth([exact[name] for name in unaudited], 3)
    assert first.n_found == sum(exact[name] > first.threshold_nats for name in again)
    limit = upper_limit(first.n_left, first.n_drawn, first.n_found, 0.05)
    assert first.most_missed == limit - first.n_found
    assert bool(others) == (first.n_found > 0)
    assert set(again) <= {piece.name for piece in some.pieces}


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    names = [str(i) for i in range(40)]
    assert draw(names, 12, 0, "case", 1) == draw(names, 12, 0, "case", 1)
    others = [draw(names, 12, 1, "case", 1), draw(names, 12, 0, "other", 1), draw(names, 12, 0, "case", 2)]
    assert all(other != draw(names, 12, 0, "case", 1) for other in others)
    # Every piece is as likely as any other.
    counts = np.bincount([int(name) for seed in range(2000) for name in draw(names, 12, seed, "case", 1)])
    assert abs(counts - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)


def test_a_model_that_hides_nothing_is_screened_by_removal() -> None:
    full, some, told = both(blind(), documents(), search="top:2", audit="0.9:30%")
    assert told.screen == "removal"
    exact = {piece.name: piece.nats for piece in full.pieces}
    assert all(piece.nats == exact[piece.name] for piece in some.pieces)
    assert max(exact, key=exact.__getitem__) in {piece.name for piece in some.pieces}
    assert told.pieces
    assert all(piece.screened_nats is piece.interval_nats is None for piece in told.pieces)
    assert [level.nats is not None for level in told.levels] == [True] * 4
    # Pieces of a group that was not cut further have the group's number.
    _, _, told = both(blind(), documents(), search="top:1:1")
    of_documents = {level.name: level.nats for level in told.levels}
    assert told.pieces
    for piece in told.pieces:
        # Of groups within a document the number is another, and of none is it 0.
        assert piece.group_nats == of_documents[piece.document or ""] or (piece.group_nats or 0.0) > 0.0


def test_paragraphs_and_repeated_values_are_levels_and_pieces() -> None:
    _, _, told = both("toy", ["\n\n".join(documents(3, 5))], search="top:2")
    assert [level.kind for level in told.levels] == ["paragraph"] * 3
    texts = ["Call 0171 5550 123 today. " + documents(1)[0], documents(1, seed=2)[0] + " Ask 0171 5550 123 again."]
    full, some, told = both("toy", texts, search="top:2", removal="mask", group=True)
    values = [piece.name for piece in full.pieces if piece.kind == "value"]
    found = [piece for piece in (*some.pieces, *told.pieces) if piece.kind == "value"]
    assert [piece.name for piece in found] == values != []
    assert all(piece.n_mentions == 2 for piece in found)


def test_personal_data_is_searched() -> None:
    people = " ".join(f"Write to {name}@post.example." for name in ("ana", "bo", "cy", "di", "ed", "flo", "gus", "hal"))
    full, some, _ = both("toy", [documents(1)[0] + " " + people], search="top:2:3", unit="entity", swap=True)
    exact = {piece.name: piece for piece in full.pieces}
    assert 2 <= len(some.pieces) < len(full.pieces)
    for piece in some.pieces:
        assert (piece.nats, piece.swapped_nats) == (exact[piece.name].nats, exact[piece.name].swapped_nats)


def test_the_search_ends_at_the_most_that_it_may_score_and_may_leave_nothing() -> None:
    _, _, told = both("toy", documents(), search="top:3:4")
    assert (told.n_rescored, told.stopped_early) == (4, True)
    full, some, told = both("toy", documents(2, 4), search="top:2:2", audit="0.999999:0")
    assert told.is_complete
    assert len(some.pieces) == len(full.pieces)
    assert told.rounds[0].most_missed == 0
    full, some, told = both("toy", ["Ana is 41. She sings."], search="top:5:1000", audit="0.95:1")
    assert [piece.nats for piece in some.pieces] == [piece.nats for piece in full.pieces]
    assert (told.rounds, told.threshold_nats, told.stopped_early) == ((), None, False)


def test_other_responses_have_the_pieces_that_were_found() -> None:
    result = leakmeter.influence(
        "toy", context=documents(), query=QUERY, search="top:2", samples=2, max_new_tokens=4, cid_lambda=1.5
    )
    assert len(result.samples) == 2
    assert [len(sample.piece_nats) for sample in result.samples] == [len(result.pieces)] * 2


@pytest.mark.parametrize("attention", few(["sdpa", "eager"]))
def test_a_model_with_layers_lists_what_full_scoring_gives(attention: str) -> None:
    backend = tiny_backend("llama", attention)
    texts = [text[:70] for text in documents(3, 3)]
    full, some, told = both(backend, texts, search="top:2:2", audit="0.9:20%", unit="word")
    exact = {piece.name: piece for piece in full.pieces}
    assert told.screen == "attention"
    for piece in some.pieces:
        assert piece.signed_per_token_nats == pytest.approx(exact[piece.name].signed_per_token_nats, abs=5e-5)
    assert 0 < some.noise_floor_nats < 1e-3


def test_reach_is_the_largest_ratio_and_more_than_the_screen_says() -> None:
    # All screened values have the median 2, which damps ratios of small ones.
    assert reach([4.0, 2.0], [2.0, 2.0], [2.0]) == pytest.approx(1.5 * 4 - 2)
    assert reach([10.0, 2.0], [2.0, 2.0], [2.0]) == pytest.approx(3 * 4 - 2)
    assert reach([4.0, 2.0], [1.0, 3.0], [2.0]) == pytest.approx(2 * 4 - 2)
    assert reach([0.0], [0.0], [0.0]) == 0
    assert reach([float("inf")], [1.0], [1.0]) == float("inf")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"audit": "0.95:1"}, "give --search top:K"),
        ({"search": "top:2", "audit_rounds": 2}, "give --audit"),
        ({"search": "top:2", "audit": "0.9:1", "audit_rounds": 0}, "audit-rounds"),
    ],
)
def test_what_is_no_search_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Influence(**given)
    # A run without a search is named as before there were any.
    assert not {"search", "audit", "audit_rounds"} & Influence().record().keys()
    assert Influence(search="top:5").record()["search"] == "top:5"


@pytest.mark.long
def test_statements_of_audits_are_true_as_often_as_they_say() -> None:
    # The toy's screen is poor without gaps, so that pieces are missed.
    texts = documents(3, 9)
    full = leakmeter.influence("toy", context=texts, **ASKED, unit="sentence")
    exact = {piece.name: piece.nats for piece in full.pieces}
    n, false = 200, 0
    for seed in range(n):
        some = leakmeter.influence("toy", context=texts, **ASKED, search="top:4:4", audit="0.9:3", seed=seed)
        assert some.search is not None
        (told,) = some.search.rounds
        missed = sum(exact[piece.name] > told.threshold_nats for piece in some.search.pieces)
        false += missed > told.most_missed
    assert false / n <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / n)


def test_the_searcher_asks_for_no_piece_twice() -> None:
    case = Case("case", tuple(Document(f"d{i}", text) for i, text in enumerate(documents(2, 6))), QUERY, RESPONSE)
    item = prepare(case, ByteTokenizer(), PromptSettings(), window=None, n_reserved=0, levels=True).item
    measure = Influence(search="top:2", audit="0.9:10%")
    assert measure.searching is not None
    assert item.response is not None
    asked: list[bytes] = []

    def look(chunk: Any) -> None:
        for request in chunk.requests:
            if len(request.prompts) > 1:
                asked.extend(prompt.ids.tobytes() for prompt in request.prompts[1:] if not prompt.hidden)

    searcher = Searcher(measure.searching, measure.auditing, 1, measure.reduction, item.response, 0)
    (found,), _ = drive(Toy(), [searcher.trial(item)], on_plan=look)
    assert isinstance(found, SearchScores)
    parts = [ids for ids in asked if ids != item.prompt.ids.tobytes()]
    assert len(parts) == len({*parts})
    # Measurements say which pieces were screened and drawn.
    (measured,), _ = drive(Toy(), [measure.trial(item)])
    screened, audited, removed = (
        [one.piece for one in measured if one.statistic == name] for name in ("screened", "audited", "without_this")
    )
    assert len(screened) == len(item.spans)
    assert set(audited) < set(removed)


def test_a_searched_run_that_was_killed_goes_on_and_says_the_same(tmp_path: Path) -> None:
    cases = [{"id": str(i), "context": documents(2, 4, seed=i), **ASKED} for i in range(3)]
    how: dict[str, Any] = {"search": "top:2", "audit": "0.9:20%", "seed": 3}
    whole = leakmeter.influence(Toy(), cases, out=tmp_path / "whole", **how)
    for n_rounds in (5, 3):
        with pytest.raises(KeyboardInterrupt):
            leakmeter.influence(Mortal(n_rounds), cases, out=tmp_path / "killed", **how)
    again = leakmeter.influence(Toy(), cases, out=tmp_path / "killed", **how)
    untimed = [replace(one, cost=whole[0].cost) for one in (*whole, *again)]
    assert untimed[:3] == untimed[3:]


@pytest.mark.long
def test_a_served_model_is_searched_by_removal() -> None:
    with ModelServer(VLLM, window=None) as server:
        backend = leakmeter.load_backend(server.model, tokenizer="toy")
        full, some, told = both(backend, documents(2, 6), search="top:2:4", audit="0.8:3")
    exact = {piece.name: piece.signed_per_token_nats for piece in full.pieces}
    assert (told.screen, told.interval_confidence) == ("removal", None)
    assert told.pieces
    for piece in some.pieces:
        assert piece.signed_per_token_nats == pytest.approx(exact[piece.name], abs=1e-9)


@pytest.mark.parametrize(
    ("text", "search", "most"),
    [
        ("top:5", Search(5), 30), ("top:1000", Search(1000), 4010), (" top:07 ", Search(7), 38),
        ("top:5:40", Search(5, 40), 40),
    ],
)  # fmt: skip
def test_a_search_says_how_many(text: str, search: Search, most: int) -> None:
    assert Search.parse(text) == search
    assert search.most == most


@pytest.mark.parametrize(
    ("parse", "said", "text"),
    [
        *((Search.parse, r"^search is '", text) for text in (
            "", "top", "top:", "5", "top:0", "top:1001", "top:-1", "top:5.0", "top:٥", "top:1_0", "bottom:5", "top:5:",
            "top:5:x", "top:5:4",
        )),
        *((Audit.parse, r"^audit .*give ", text) for text in (
            "", "0.95", "0.95:", ":3", "0.95:3:4", "95%:3", "0.95:-3", "0.95:3.5", "0.95:%", "0.95:1e1%", "nan:3",
            "0.95:nan%", "0.49:3", "1:3", "1.0:3", "0.95:100.1%", "0.95:101%", "0,95:3", "0.95:٣", "0.95:3\n4", "0:3",
            "2:3",
        )),
    ],
)  # fmt: skip
def test_what_is_no_search_and_no_audit_is_one_line(parse: Any, said: str, text: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "audit", "canonical"),
    [
        ("0.95:3", Audit(0.95, 3), "0.95:3"), ("0.95:0", Audit(0.95, 0), "0.95:0"),
        ("0.950:03", Audit(0.95, 3), "0.95:3"), (".95:3", Audit(0.95, 3), "0.95:3"),
        (" 0.5:3 ", Audit(0.5, 3), "0.5:3"), ("0.95:5%", Audit(0.95, 5.0), "0.95:5%"),
        ("0.99:2.50%", Audit(0.99, 2.5), "0.99:2.5%"), ("0.95:0%", Audit(0.95, 0.0), "0.95:0%"),
        ("0.95:100%", Audit(0.95, 100.0), "0.95:100%"), ("0.95:0.000001%", Audit(0.95, 0.000001), "0.95:0.000001%"),
        ("0.999999999999:1", Audit(0.999999999999, 1), "0.999999999999:1"),
    ],
)  # fmt: skip
def test_an_audit_says_what_may_be_missed(text: str, audit: Audit, canonical: str) -> None:
    assert Audit.parse(text) == audit
    again = Audit.parse(canonical)
    assert (again, type(again.most_missed)) == (audit, type(audit.most_missed))


@pytest.mark.parametrize(
    ("confidence", "most_missed"),
    [(0.4, 3), (1.0, 3), (float("nan"), 3), (0.95, -1), (0.95, -0.1), (0.95, 100.1), (0.95, float("nan"))],
)
def test_numbers_out_of_range_are_refused_however_they_come(confidence: float, most_missed: float) -> None:
    with pytest.raises(UsageError, match="give"):
        Audit(confidence, most_missed)


def test_missing_none_draws_as_many_as_the_confidence_says() -> None:
    assert [Audit(confidence, 0).alpha for confidence in (0.95, 0.999)] == [Fraction(1, 20), Fraction(1, 1000)]
    for percent in (55, 90, 95, 99):
        audit = Audit.parse(f"0.{percent}:0")
        for n_left in (*range(1, 60), *range(60, 2001, 97)):
            assert audit.draws(n_left) == -(-n_left * percent // 100)


def test_a_percentage_is_rounded_down_to_pieces() -> None:
    for n_left, most in {0: 0, 1: 0, 19: 0, 20: 1, 39: 1, 40: 2, 100: 5}.items():
        assert Audit.parse("0.95:5%").most_missed_of(n_left) == most
    # 1.1 in binary is more; 100 times it is 110 all the same.
    assert [Audit.parse(f"0.95:{share}%").most_missed_of(1000) for share in (1.1, 0.7)] == [11, 7]
    assert Audit.parse("0.95:100%").draws(50) == Audit.parse("0.95:50").draws(50) == 0


@pytest.mark.parametrize("text", ["0.95:0", "0.95:3", "0.9:5%", "0.99:10%"])
def test_a_draw_that_finds_none_says_what_was_ordered(text: str) -> None:
    audit = Audit.parse(text)
    for n_left in (1, 7, 40, 395):
        drawn, most_missed = audit.draws(n_left), audit.most_missed_of(n_left)
        assert upper_limit(n_left, drawn, 0, audit.alpha) <= most_missed
        if drawn:
            assert upper_limit(n_left, drawn - 1, 0, audit.alpha) > most_missed


def any_search(rng: Random) -> Influence:
    k = rng.choice((1, 2, 3))
    audit: dict[str, Any] = {
        "audit": rng.choice(("0.95:0", "0.9:20%", "0.5:1", "0.95:2")), "audit_rounds": rng.choice((1, 2, 3)),
    }  # fmt: skip
    mixed = rng.random() < 0.3
    return Influence(
        search=f"top:{k}{rng.choice(('', f':{k}', f':{k + 2}'))}", cid_lambda=1.5 if mixed else 1.0,
        seed=rng.randrange(1000), **(audit if rng.random() < 0.6 else {}),
    )  # fmt: skip


def random_documents(rng: Random) -> tuple[Document, ...]:
    """Some of one sentence, and sentences that are said again."""

    def sentence() -> str:
        return " ".join(rng.choice(WORDS[:12]) for _ in range(rng.choice((1, 2, 5)))).capitalize() + "."

    texts = [" ".join(sentence() for _ in range(rng.randint(1, 6))) for _ in range(rng.randint(1, 3))]
    again = [f"{text} The boat." if rng.random() < 0.5 else text for text in texts]
    return tuple(Document(f"d{number}", text) for number, text in enumerate(again))
