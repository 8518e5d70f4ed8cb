"""SIGKILL in the middle of what writes: a ledger goes on to the same numbers, and no answer is charged too little."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.examples import few
from helpers.killed import add_two, all_rows, killed, ledger_in
from helpers.killed_server import EPSILON, MAX_TOKENS, N_CHOICES, asked, bounded_in
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book
from leakmeter.products.serve.spent import SpentError, nano


def texts(ledger: Ledger) -> dict[str, object]:
    """What is kept, but for how long it took."""
    kept = {score: dict(told or {}) for score, told in ledger.texts().items()}
    return {score: told for score, told in kept.items() if told.pop("cost")}


@pytest.mark.parametrize("n_kills", few([5, 40]))
def test_an_addition_killed_at_any_step_goes_on_to_the_same_ledger(tmp_path: Path, n_kills: int) -> None:
    (tmp_path / "before").mkdir()
    calm, places = killed("add", tmp_path, n_kills)
    whole = ledger_in(calm)
    n_unfinished = 0
    for place in places:
        ledger = ledger_in(place)
        n_unfinished += len(ledger.rows("events")) < 2
        # A reader sees a whole state, whatever the writer was at.
        book = Book(ledger)
        assert all(list(book.looks_of(event, "document")) for event in book.events)
        add_two(place)
        assert all_rows(ledger) == all_rows(whole)
        assert texts(ledger) == texts(whole)
        assert ledger.verify()[1] == []
        assert sorted(path.name for path in ledger.path.iterdir()) == sorted(path.name for path in whole.path.iterdir())
        assert not list(place.rglob("*.partial"))
    assert n_unfinished >= len(places) // 2


@pytest.mark.parametrize("n_kills", few([3, 30]))
def test_what_a_server_answered_that_was_killed_at_any_step_is_charged(tmp_path: Path, n_kills: int) -> None:
    """Kills charge nothing, or all that the request could have drawn."""
    bounded = bounded_in(tmp_path)
    whole = EPSILON * MAX_TOKENS * N_CHOICES
    n_killed = n_charged = 0
    for request in asked(tmp_path, n_kills):
        names = bounded.spent.names_of(request["document"])
        charged = bounded.spent.nats_of(names[0])
        n_tokens = n_drawn(request["received"], is_streamed=request["is_streamed"])
        assert n_tokens * EPSILON <= charged <= whole
        if request["n_steps"] is None:
            n_killed += 1
            n_charged += charged > 0
            # Given back is what was never drawn, by who knows that: an answer that was kept.
            assert charged in (0, whole) or is_kept(bounded.receipts, names[0], charged)
        else:
            assert charged == n_tokens * EPSILON
        # What is left is no more than that, whoever answers next.
        left = round((whole - charged) / EPSILON)
        if left:
            bounded.spent.charge(names, left * nano(EPSILON, up=True))
        with pytest.raises(SpentError):
            bounded.spent.charge(names, 1)
    assert n_killed >= n_kills
    assert n_charged >= n_kills // 2


def n_drawn(received: str, *, is_streamed: bool) -> int:
    """Tokens of the answers that came; the toy's are bytes, and what came of a broken stream is at least these."""
    head, _, body = received.partition("\r\n\r\n")
    if not body:
        return 0
    assert head.startswith("HTTP/1.1 200")
    if not is_streamed:
        return int(json.loads(body)["usage"]["completion_tokens"])
    pieces = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: {")]
    told = [json.loads(piece) for piece in pieces if piece.endswith("}")]
    if "leakmeter" in told[-1]:
        return sum(len(one["token_ids"]) for one in told[-1]["leakmeter"]["responses"])
    return sum(len(choice["delta"].get("content", "")) for one in told for choice in one["choices"])


def is_kept(receipts: Path, name: str, charged: float) -> bool:
    told = [json.loads(path.read_bytes()) for path in receipts.glob("*.json")]
    return any(name in one["documents"] and one["charged_nats"] == charged for one in told)
