"""`leakmeter decode`: receipts, promises and what may be published of them, with the toy model."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import assert_refused, object_of
from leakmeter.backends.toy import Toy
from leakmeter.errors import StoreError, UsageError
from leakmeter.instruments.decoding import measure
from leakmeter.stats.exact_draw import StreamBits

Call = Callable[..., Any]
SEED_WARNING = "a seeded run has no guarantee unless the seed stays secret"
SECRETS = {
    *("weight", "log_prob_nats", "loss_nats", "max_loss_nats", "spent_nats", "whole_nats", "seed"),
    *("context", "documents", "id", "cost", "truncated_tokens", "query", "ledger", "cid_lambda"),
}


@pytest.fixture
def decode(of_note: Call) -> Call:
    """`leakmeter decode` of the note; more options win."""
    return of_note("decode", max_new_tokens=6)


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def test_a_public_receipt_holds_nothing_private(decode: Call, tmp_path: Path) -> None:
    page = tmp_path / "public.html"
    ended = decode("--json", "--public", "--html", page, epsilon=0.5, samples=2)
    receipt = object_of(ended)
    assert not SECRETS & set(keys(receipt))
    # Nobody can repeat the draws, so a response may draw a stop token at any step.
    assert len(receipt["samples"]) == 2
    for one in receipt["samples"]:
        assert len(one["token_ids"]) == 6 or one["token_ids"][-1] in Toy().tokenizer.stop_ids
    for text in (ended.out, page.read_text(encoding="utf-8")):
        assert not [private for private in ("Anna", "555-010", "decode-", str(tmp_path), "Who?") if private in text]


class OnATerminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_told_in_public_beside_the_receipt_is_the_same_for_every_context(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """Names of runs, numbers of tokens, and how long it takes to say them: with a given seed too."""
    monkeypatch.setattr("leakmeter.commands.progress._QUIET_SECONDS", 0.0)
    said = []
    for number, text in enumerate(("Anna sang.", "Bo ate. " * 300)):
        path = tmp_path / str(number) / "note.txt"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        monkeypatch.chdir(path.parent)
        seen = OnATerminal()
        if terminal:
            monkeypatch.setattr(sys, "stderr", seen)
        words = ("--context-file", "note.txt", "--query", "Who?", "--model", "toy", "--max-new-tokens", 3)
        ended = cli("decode", *words, "--epsilon", 0.5, "--seed", 5, "--public", "--json")
        assert ended.code == 0
        said.append(seen.getvalue() if terminal else ended.err)
    assert said[0] == said[1]
    assert said[0].splitlines() == [SEED_WARNING, "run: in 'runs', and private, its name included"]


def test_in_public_nothing_is_said_of_cases_that_cannot_be_used(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "cases.jsonl"
    lines = [json.dumps({"id": name, "context": text, "query": "Who?"}) for name, text in (("one", "A"), ("two", ""))]
    data.write_text("\n".join(lines))
    words = ("decode", "--data", data, "--model", "toy", "--epsilon", 1, "--max-new-tokens", 2)
    assert "'two'" in cli(*words, "--skip-bad").err
    ended = cli(*words, "--skip-bad", "--public")
    assert ended.code == 0
    assert ended.err.splitlines()[-1] == "left out 1 bad case"
    narrow = Toy()
    narrow.window = 8
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *given, **more: narrow)
    data.write_text(lines[0])
    assert "window" in cli(*words).err
    ended = cli(*words, "--public")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "leakmeter: a case cannot be used; run the command without --public to see why\n"
    assert_refused(cli(*words, "--public", "--dry-run"), "--dry-run reveals the length of a context")


def test_in_public_an_error_does_without_the_run_s_name(decode: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, *given: Any) -> None:
        raise StoreError(f"run directory '{self.path}' cannot be written: disk full")

    monkeypatch.setattr("leakmeter.engine.storage.rundir.RunDirectory.write_part", full)
    assert re.search("decode-[0-9a-f]{16}", decode(epsilon=0.5).err)
    ended = decode("--public", epsilon=0.5)
    assert ended.err == "leakmeter: run directory 'runs/decode-…' cannot be written: disk full\n"


def test_public_receipts_of_two_contexts_with_the_same_tokens_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy model draws the prior where the bound is next to nothing: by the same bits the same tokens."""
    monkeypatch.setattr(measure, "bits_of", lambda *given: lambda *place: StreamBits(b"any", place))
    results = [
        leakmeter.decode("toy", context=context, query="Who?", epsilon=1e-9, seed=5, max_new_tokens=8)
        for context in ("Anna sang.", "Bo ate. " * 30, ["One", "two", "three"])
    ]
    assert len({result.published().to_json() for result in results}) == 1


def test_a_promise_is_drawn_by_the_operating_system_and_a_seed_gets_a_warning(decode: Call) -> None:
    for _ in range(2):
        case = object_of(decode("--json", epsilon=0.5))
        assert case["ledger"]["seed"] is None
        assert case["public"]["guarantee"]["draws"] == {"random_bits": "operating system"}
    nonces = [json.loads(path.read_bytes())["params"]["nonce"] for path in Path("runs").glob("*/spec.json")]
    assert len(set(nonces)) == 2
    assert min(nonces) > 2**64

    def stamps() -> list[int]:
        return sorted(path.stat().st_mtime_ns for path in Path("runs").glob("*/measurements-*"))

    # By its nonce a run is found again, and nothing of it drawn again.
    before = stamps()
    assert object_of(decode("--json", epsilon=0.5, nonce=nonces[0]))["ledger"]["seed"] is None
    assert stamps() == before
    seeded = [decode("--json", epsilon=0.5, seed=0) for _ in range(2)]
    assert seeded[0].out == seeded[1].out
    assert [ended.err.splitlines()[0] for ended in seeded] == [SEED_WARNING] * 2
    assert len(list(Path("runs").iterdir())) == 3
    free = decode("--json")
    assert "guarantee" not in free.err
    assert object_of(free)["ledger"]["seed"] == 0
    assert object_of(free)["public"] is None


def test_terminal_and_page_and_report(cli: Call, decode: Call, tmp_path: Path) -> None:
    page = tmp_path / "private.html"
    ended = decode("--html", page, "--explain", epsilon=0.5)
    assert "The limit is " in " ".join(ended.out.split())
    assert "Basic composition counts the tokens that were drawn" in " ".join(ended.out.split())
    (run,) = Path("runs").iterdir()
    assert ended.err == f"run: {run}\nreport: {page} (private, readable by you alone)\n"
    again = tmp_path / "again.html"
    assert cli("report", run, "--html", again).code == 0
    assert again.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == again.stat().st_mode & 0o777 == 0o600
    public = tmp_path / "public.html"
    ended = cli("report", run, "--html", public, "--public")
    assert (ended.code, ended.err) == (0, f"report: {public}\n")
    assert public.stat().st_mode & 0o777 == 0o644
    shown = public.read_text(encoding="utf-8")
    assert not [private for private in ("Anna", "spent", "<rect") if private in shown]


def test_only_what_has_a_guarantee_is_public(cli: Call, decode: Call, note: Path) -> None:
    assert_refused(decode("--public"), "--public is for a response with a guarantee; give --epsilon")
    assert cli("influence", "--context-file", note, "--query", "Who?", "--response", "Anna", "--model", "toy").code == 0
    (run,) = Path("runs").iterdir()
    ended = cli("report", run, "--public")
    assert_refused(ended, "--public is for `leakmeter decode --epsilon` and `leakmeter generate`")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": "600"}, "epsilon is 600.0 for a token; it has to be above 0 and at most 500"),
        ({"epsilon": "1", "delta": "1"}, "delta is 1.0; it has to be above 0 and below 1"),
        ({"epsilon": "1", "dtype": "float16", "model": "smollm2-135m"}, "would void it; give float32"),
        ({"epsilon": "1", "nonce": "-1"}, "nonce is -1; it has to be 0 or more"),
        ({"nonce": "5"}, "a nonce replaces the seed of a bounded response"),
        ({"epsilon": "1", "nonce": "5", "seed": "5"}, "a nonce replaces the seed of a bounded response"),
        ({"query": ""}, "empty query"), ({"top-k": "5"}, "top-k"), ({"response": "Anna"}, "response"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused_in_one_line(decode: Call, options: dict[str, str], said: str) -> None:
    assert_refused(decode(**options), said)
    assert not Path("runs").exists()


def test_a_response_in_the_data_is_scored_and_none_is_given_under_a_bound(cli: Call, tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    data.write_text(json.dumps({"id": "x", "context": "Anna sang.", "query": "Who?", "response": "Anna"}))
    case, scored = (
        object_of(cli(name, "--model", "toy", "--data", data, "--json")) for name in ("decode", "influence")
    )
    assert (case["response"]["text"].strip(), case["response"]["sampled"]) == ("Anna", False)
    assert case["ledger"]["per_token"]["loss_nats"] == pytest.approx(scored["whole_per_token_nats"], abs=1e-12)
    refused = cli("decode", "--model", "toy", "--data", data, "--epsilon", 1)
    assert_refused(refused, "case 'x' has a response, and epsilon bounds only responses that it draws")


def test_a_dry_run_under_a_bound_leaves_nothing(decode: Call) -> None:
    assert json.loads(decode("--dry-run", "--json", epsilon=0.5).out)["at_most"]
    assert not Path("runs").exists()


def test_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    def ask(model: Any = "toy", **more: Any) -> leakmeter.DecodeResult:
        return leakmeter.decode(model, context="Anna sang.", query="Who?", max_new_tokens=4, **more)

    result = ask(epsilon=0.5, samples=2, delta=1e-6)
    assert len(result.to_frame()) == len(result.response.tokens)
    assert result.guarantee is not None
    assert result.guarantee.response.delta == 1e-6
    assert capsys.readouterr().err == ""
    assert ask(epsilon=0.5, seed=1).ledger.seed == 1
    assert capsys.readouterr().err == f"{SEED_WARNING}\n"
    coarse = Toy()
    coarse.dtype = "bfloat16"
    with pytest.raises(UsageError, match="dtype is 'bfloat16'; epsilon is certified from logits"):
        ask(coarse, epsilon=0.5)
    assert ask(coarse).ledger.whole_nats > 0
