"""The Live page: its numbers are those of the library, hostile texts stay texts, and nothing is kept unasked."""

from __future__ import annotations

import json
import stat
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import leakmeter
from helpers.report_browser import CHROMIUM, Browser
from helpers.serving import CASE, HEADERS, asked, serving_of
from leakmeter.core.case import Recipient
from leakmeter.core.self_check import SelfCheck
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import LeakmeterError, UnknownNameError
from leakmeter.products.serve import live, serving
from leakmeter.products.serve.live import Typed
from leakmeter.products.serve.serving import Serving
from leakmeter.report import scale
from leakmeter.text.permissions import permissions_of


def nats_of(pieces: Any) -> dict[str, str]:
    return {piece.name: scale.nats_text(piece.nats) for piece in pieces}


def told_nats(pieces: Any) -> dict[str, str]:
    return {one["name"]: one["nats"] for one in pieces}


def rooms(n: int) -> dict[str, str]:
    """A case of a longer context."""
    return {**CASE, "context": " ".join(f"Room {k} is at number {k * 7}." for k in range(n))}


def test_pieces_come_one_by_one_with_the_numbers_of_the_library(made: TestClient) -> None:
    told = asked(made, "measure")
    names = [name for name, _ in told]
    assert names.index("pieces") < names.index("whole") < names.index("piece") < names.index("done")
    expected = leakmeter.influence("toy", **CASE, group=True)
    assert told_nats(data for name, data in told if name == "piece" and data["exact"]) == nats_of(expected.pieces)
    assert next(data for name, data in told if name == "whole")["nats"] == scale.nats_text(expected.whole_nats)
    done = told[-1][1]
    assert list(told_nats(done["pieces"]).items()) == list(nats_of(expected.pieces).items())
    assert done["floor"] == scale.nats_text(expected.noise_floor_nats)


def test_what_an_answer_gives_away_is_listed_and_marked_as_soon_as_the_context_is_scored(made: TestClient) -> None:
    number = "6" * 60
    told = asked(made, "measure", response=number)
    (expected,) = leakmeter.influence("toy", **{**CASE, "response": number}, group=True).disclosed
    scored = [data for name, data in told if name == "disclosed"]
    assert [name for name, _ in told].index("disclosed") < [name for name, _ in told].index("piece")
    # What other contexts do is known last.
    assert expected.own_nats < expected.nats
    for data, nats in ((scored[0], expected.nats), (told[-1][1], expected.own_nats)):
        (mark,) = data["marks"]
        assert mark["label"] == f"number, {scale.nats_text(nats)}\u00a0nats"
        assert (mark["tokens"], mark["sensitive"]) == ([expected.first_token, expected.last_token + 1], True)
        assert "".join(token["text"] for token in data["tokens"]).strip() == number
        assert f"“<bdi>{number}</bdi>”" in data["list"]
    # A piece is told as a source when it says the words, or when all are scored.
    assert ("so far" in scored[0]["list"], scored[0]["marks"][0]["pieces"], scored[0]["sources"]) == (True, [], {})
    done = told[-1][1]
    assert ("so far" in done["list"], done["marks"][0]["pieces"]) == (False, [s.piece for s in expected.sources])
    assert "".join(part["text"] for part in done["sources"]["4"]) == "Call 555-010-2231."
    assert [part["of"] for part in done["sources"]["4"]] == [[0]]
    assert "Nothing is disclosed." in asked(made, "measure", response="It rains.")[-1][1]["list"]


def test_a_value_that_the_context_says_is_told_with_its_piece_once_the_context_is_scored(made: TestClient) -> None:
    told = asked(made, "measure")
    names = [data["name"] if name == "piece" else name for name, data in told]
    known = next(i for i, (name, data) in enumerate(told) if name == "disclosed" and data["marks"])
    assert known > names.index("whole")
    # Which piece it came from is not known yet: the words say where they stand.
    assert "said in <bdi>s3</bdi>; pieces are being scored" in told[known][1]["list"]
    assert "said in" not in told[-1][1]["list"]
    (mark,) = told[-1][1]["marks"]
    assert (mark["label"].split(",")[0], mark["pieces"]) == ("phone number", ["s3"])
    assert told[-1][1]["sources"]["4"] == [
        {"text": "Call ", "of": [], "sensitive": False},
        {"text": "555-010-2231", "of": [0], "sensitive": True},
        {"text": ".", "of": [], "sensitive": False},
    ]


@pytest.mark.parametrize(("n", "search"), [(20, {}), (30, {"search": "top:2"})])
def test_a_long_context_is_screened_first_and_may_be_searched(made: TestClient, n: int, search: dict[str, str]) -> None:
    told = asked(made, "measure", **rooms(n), **search)
    pieces = [data for name, data in told if name == "piece"]
    screened = [one["name"] for one in pieces if not one["exact"]]
    assert len(screened) >= n
    assert not any(one["exact"] for one in pieces[:n])
    exact = nats_of(leakmeter.influence("toy", **rooms(n), group=True, **search).pieces)  # type: ignore[arg-type]
    assert told_nats(one for one in pieces if one["exact"]) == told_nats(told[-1][1]["pieces"]) == exact
    assert len(exact) < n if search else sorted(screened) == sorted(exact)


def test_an_answer_is_drawn_token_by_token_and_is_the_one_of_influence(made: TestClient, tmp_path: Path) -> None:
    told = asked(made, "measure", response=" ", max_new_tokens=5)
    tokens = [data for name, data in told if name == "token"]
    case = {"id": "live", **{name: CASE[name] for name in ("context", "query")}}
    ledger = leakmeter.decode("toy", [case], max_new_tokens=5)[0].ledger
    assert [one["nats"] for one in tokens] == [scale.nats_text(nats) for nats in ledger.per_token.loss_nats]
    drawn = leakmeter.influence("toy", [case], max_new_tokens=5, samples=1, group=True)[0]
    done = told[-1][1]
    assert done["drawn"]
    assert done["response"] == drawn.response.text
    assert told_nats(done["pieces"]) == nats_of(drawn.pieces)
    assert "given" not in done["found"]
    # It is kept as drawn; and of another context as given.
    for context, is_drawn in ((CASE["context"], True), ("Bo is 12.", False)):
        kept = asked(made, "keep", response=done["response"], max_new_tokens=5, context=context)[-1][1]["id"]
        response = leakmeter.load_run(tmp_path / "runs" / kept)[0].response
        assert (response.sampled, response.text.endswith(done["response"])) == (is_drawn, True)


def test_a_cut_piece_leaves_what_influence_says_of_the_rest(made: TestClient) -> None:
    told = asked(made, "cut", cut=["s3"], max_new_tokens=2)
    rest = leakmeter.influence("toy", **{**CASE, "context": "Ana is 41. She sings."}, unit="whole")
    left = next(data for name, data in told if name == "left")
    assert left["nats"] == scale.nats_text(rest.whole_nats)
    assert told[-1][1]["text"] == "Ana is 41. She sings."
    assert "<del>Call 555-010-2231.</del>" in told[-1][1]["html"]
    assert sum(name == "token" for name, _ in told) == 2
    # Surrogates stand for the personal data of a piece.
    text = asked(made, "cut", swap=["s3"], max_new_tokens=1)[-1][1]["text"]
    assert text.startswith("Ana is 41. She sings. Call ")
    assert "555-010-2231" not in text


def test_a_new_answer_that_gives_something_away_is_named_above_all(
    made: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, said = live._drawn, "555-010-2231"

    def drawn(kept: Any, typed: Any, watch: Any) -> Any:
        result, _ = draw(kept, typed, watch)
        answer = replace(result.response, text=said, tokens=tuple(said))
        return replace(result, response=answer), kept.tokenizer.encode_data(said, first=False).ids

    quiet = asked(made, "cut", cut=["s1"], max_new_tokens=len(said))[-1][1]["html"]
    assert ("Do not ship" in quiet, "Searched: telephone, account" in quiet) == (False, True)
    monkeypatch.setattr(live, "_drawn", drawn)
    told = asked(made, "cut", cut=["s1"], response="41", max_new_tokens=len(said))
    html = told[-1][1]["html"]
    assert html.index("The new answer discloses a phone number: do not ship.") < html.index(
        "What is left of the context"
    )
    assert "bad" in html[: html.index("The new answer")]
    assert 'class="leak strong"' in html
    assert "What the new answer gives away" in html
    assert [name for name, _ in told].index("searching") > max(i for i, (name, _) in enumerate(told) if name == "token")


def test_a_new_answer_is_not_called_quiet_where_nothing_could_be_found(
    made: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_whole = live._whole_result
    failed = SelfCheck(passes="plain", rows=5, nats=0.0, largest_nats=0.0, failed_nats=3.0)
    monkeypatch.setattr(
        live, "_whole_result", lambda *given, **how: replace(of_whole(*given, **how), self_check=failed)
    )
    html = asked(made, "cut", cut=["s1"], max_new_tokens=3)[-1][1]["html"]
    assert "Whether the new answer discloses any personal or secret data cannot be said: a self-check found" in html


@pytest.mark.parametrize("search", [{}, {"search": "top:1:1"}])
@pytest.mark.parametrize("n", [2, 14])
def test_nothing_is_final_before_noise_and_placebo(made: TestClient, search: dict[str, str], n: int) -> None:
    context = " ".join(f"Number {i} is {555_010_2200 + i}." for i in range(n))
    told = asked(made, "measure", context=context, query="Who?", response="5550102201", **search)
    names = [name for name, _ in told]
    steps = [data for name, data in told if name == "calibrating"]
    assert [(one["step"], one["of"]) for one in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert {one["what"] for one in steps} == {
        "each piece alone", "an irrelevant text", "other contexts", "the noise floor"
    }  # fmt: skip
    exact = [i for i, (name, data) in enumerate(told) if name == "piece" and data["exact"]]
    assert max(exact) < names.index("calibrating") < names.index("done")
    so_far = [data["list"] for name, data in told if name == "disclosed"]
    assert so_far
    assert all("so far" in listed for listed in so_far)
    assert "so far" not in told[-1][1]["list"]


def test_what_is_refused_is_said_in_one_line(made: TestClient) -> None:
    for what, fields, said in (
        ("cut", {"cut": ["s9"]}, "no piece named"),
        ("cut", {"cut": ["s1", "s2", "s3"]}, "nothing is left"),
        ("cut", {}, "choose a piece"),
        ("cut", {"swap": ["s2"]}, "no personal data"),
        ("measure", {"context": " "}, "empty context"),
        ("mix", {"at": 999}, "the answer has"),
        ("redact", {"max_loss": -1}, "max-loss"),
    ):
        name, data = asked(made, what, **fields)[-1]
        assert (name, said in data["error"], "\n" in data["error"]) == ("failed", True, False)
    for name in ("turn", "seed"):
        answer = made.post("/live/measure", json={**CASE, name: -5}, headers=HEADERS)
        assert (answer.status_code, f"{name} is -5; it has to be 0 or more" in answer.text) == (400, True)
    for fields in ({"template": "@/etc/passwd"}, {"unit": "x"}, {"model": "other"}, {"context": 3}, {"seed": "1"}):
        answer = made.post("/live/measure", json={**CASE, **fields}, headers=HEADERS)
        assert (answer.status_code, answer.text.count("\n")) == (400, 1)
    assert made.post("/live/measure", content=b"[" * 100_000, headers=HEADERS).status_code == 400


def test_a_row_of_a_log_says_who_may_know_its_documents(serving: Serving) -> None:
    row = {
        "context": [{"name": "crm/1", "text": "Ann owes 40.", "tenant": "acme"}, {"name": "kb/1", "text": "Nine."}],
        "recipient": {"id": "bob", "tenant": "zeta"},
    }
    case = Typed.from_json({"context": json.dumps(row), "query": "Who?", "response": "Ann"}, serving).case
    assert [(part.name, part.tenant) for part in case.documents] == [("crm/1", "acme"), ("kb/1", None)]
    decided = permissions_of(case, None)
    assert decided is not None
    assert decided.may("crm/1", kind="person").allowed == "no"
    chat = {"messages": [{"role": "tool", "content": "Ann owes 40."}, {"role": "user", "content": "Who?"}]}
    case = Typed.from_json({"context": json.dumps(chat | {"recipient": "bob"}), "response": "Ann"}, serving).case
    assert case.recipient == Recipient("bob")


def test_what_is_left_of_a_row_keeps_who_is_answered_and_whose_its_documents_are(
    made: TestClient, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, said = live._drawn, "Call 555-010-2231."

    def drawn(kept: Any, typed: Any, watch: Any) -> Any:
        result, _ = draw(kept, typed, watch)
        n = len(result.response.tokens) - 1
        answer = replace(result.response, text=said, tokens=(*said[:n], said[n:]))
        return replace(result, response=answer), kept.tokenizer.encode_data(said, first=False).ids

    monkeypatch.setattr(live, "_drawn", drawn)
    own, other = {"text": "Ana is 41. Call 555-010-2231.", "tenant": "acme"}, {"text": "Bo sings.", "tenant": "zeta"}
    for tenant, ships in (("acme", True), ("zeta", False)):
        row = {"context": [own, other], "recipient": {"id": "u1", "tenant": tenant}}
        given = {"context": json.dumps(row), "response": said, "max_new_tokens": len(said)}
        told = asked(made, "cut", **given, cut=["s3"])[-1][1]
        assert ("do not ship" in told["html"]) is not ships
        left = Typed.from_json({"context": told["text"], "query": "Who?", "response": said}, serving).case
        assert [(part.text, part.tenant) for part in left.documents] == [(own["text"], "acme")]
        assert left.recipient == Recipient("u1", tenant=tenant)
        text = asked(made, "redact", **given, goal="disclosures")[-1][1]["text"]
        assert json.loads(text)["recipient"] == row["recipient"]
    whole = json.dumps({"context": own["text"], "recipient": "u1"})
    text = asked(made, "cut", context=whole, cut=["s2"], response=said, max_new_tokens=len(said))[-1][1]["text"]
    case = Typed.from_json({"context": text, "query": "Who?", "response": said}, serving).case
    assert (case.recipient, [part.text for part in case.documents]) == (Recipient("u1"), ["Ana is 41."])
    several = asked(made, "cut", context="Ana is 41.\n---\nBo sings. He runs.", cut=["s3"], max_new_tokens=2)[-1][1]
    assert several["text"] == "Ana is 41.\n---\nBo sings."


def test_a_conversation_is_measured_turn_by_turn(made: TestClient, tmp_path: Path) -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "find", "arguments": "{}"}}]}
    chat = [
        {"role": "user", "content": "Who?"}, call, {"role": "tool", "tool_call_id": "1", "content": "Ana Ek."},
        {"role": "assistant", "content": "Ana."}, {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "You are welcome."},
    ]  # fmt: skip
    serving = serving_of(tmp_path / "other")

    def typed(**fields: Any) -> Typed:
        return Typed.from_json({"context": json.dumps({"messages": chat}), **fields}, serving)

    assert [(typed(turn=n).response, len(typed(turn=n).case.messages)) for n in (0, 2, 3)] == [
        ("You are welcome.", 5), ("Ana.", 3), ("You are welcome.", 5)
    ]  # fmt: skip
    assert [document.name for document in typed().case.context_documents] == ["find#1"]
    asked_again = typed(query="Who else?", response="Bo.")
    assert (asked_again.case.response, asked_again.case.messages[-1].text) == ("Bo.", "Who else?")
    for fields, problem in (
        ({"turn": 9}, "turn is 9; the model had read something before its turns 2, 3"),
        ({"response": "Bo."}, "the conversation has the answer of that turn; leave the answer empty"),
    ):
        with pytest.raises(LeakmeterError, match=problem):
            typed(**fields)
    # What only looks like one is a context.
    assert Typed.from_json({"context": '[{"a": 1}]', "query": "q"}, serving).conversation is None
    name, told = asked(made, "cut", context=json.dumps(chat), query="", response="")[-1]
    assert (name, "nothing can be cut out of a conversation" in told["error"]) == ("failed", True)


@pytest.mark.parametrize("search", [{}, {"search": "top:1:1"}])
def test_advice_names_the_controls_of_the_page_in_the_place_of_options(
    made: TestClient, search: dict[str, str]
) -> None:
    done = asked(made, "measure", **search)[-1][1]
    told = [done["found"], done["advice"], done["rest"]]
    told += [
        asked(made, "redact", **more)[-1][1]["html"] for more in ({"max_loss": 3, **search}, {"goal": "disclosures"})
    ]
    options = ("--unit", "--max-loss", "--write-redacted", "--search", "--disclosures")
    commands = ("leakmeter redact", "leakmeter influence", "leakmeter doctor")
    for html in told:
        assert [said for said in (*options, *commands) if said in html] == []
    assert "“Find out” chooses what to cut" in done["advice"]
    # What a user wrote stays as it is.
    typed = "Use another --unit (--write-redacted)."
    assert typed in asked(made, "redact", context=f"{typed} It rains.", max_loss=50)[-1][1]["html"]


def test_what_is_given_away_can_be_cut_too_and_what_is_left_is_told(made: TestClient) -> None:
    told = asked(made, "redact", goal="disclosures")[-1][1]
    (plan,) = leakmeter.redact("toy", [CASE], disclosures=True, max_loss=None, group=True, max_new_tokens=40)
    assert told["cut"] == [piece.name for piece in plan.redacted] != []
    assert told["text"] == plan.redacted_documents[0].text
    several = asked(made, "redact", context="Ana is 41.\n---\nCall 555-010-2231.", goal="disclosures")[-1][1]
    assert several["text"].split("\n---\n")[0] == "Ana is 41."
    name, refused = asked(made, "redact", goal="both")[-1]
    assert (name, "no goal named 'both'" in refused["error"]) == ("failed", True)


def test_an_invented_value_in_a_new_answer_is_no_disclosure(made: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, put_in = live._drawn, asked(made, "cut", swap=["s3"], max_new_tokens=1)[-1][1]["text"].split("Call ")[1][:-1]

    def drawn(said: str) -> Any:
        def answered(kept: Any, typed: Any, watch: Any) -> Any:
            result, _ = draw(kept, typed, watch)
            answer = replace(result.response, text=said, tokens=tuple(said))
            return replace(result, response=answer), kept.tokenizer.encode_data(said, first=False).ids

        return answered

    monkeypatch.setattr(live, "_drawn", drawn(put_in))
    html = asked(made, "cut", swap=["s3"], max_new_tokens=len(put_in))[-1][1]["html"]
    assert "The new answer does not disclose any recognisable personal or secret data." in html
    assert "Do not ship" not in html
    assert ("surrogate, " in html, 'class="leak strong"' in html) == (True, False)


def test_what_the_calibration_changed_is_said() -> None:
    before = {(0, 3): [1, 2], (4, 6): [0], (7, 9): [3]}
    assert live._changed(before, before) == ""
    # Ends of a span may move; it is the same that is listed.
    assert live._changed(before, {(0, 2): [2], (4, 6): [0], (7, 9): [3]}) == "The sources of 1 span changed. "
    assert live._changed(before, {(4, 6): [0]}) == "2 listed before are no finding after all. "


def test_redaction_is_that_of_the_library(made: TestClient) -> None:
    told = asked(made, "redact", max_loss=3)[-1][1]
    plan = leakmeter.redact("toy", **CASE, max_loss=3, group=True, max_new_tokens=40)
    assert told["cut"] == [piece.name for piece in plan.redacted]
    assert scale.nats_text(plan.left_nats) in told["html"]


def test_mixtures_run_from_the_prior_to_the_model(made: TestClient) -> None:
    told = asked(made, "mix", at=3)[-1][1]
    prior, model = (next(one for one in told["lambda"] if one["value"] == weight) for weight in (0.0, 1.0))
    assert all(row["shares"][0] == row["shares"][1] for row in prior["rows"])
    assert all(row["shares"][0] == row["shares"][2] for row in model["rows"])
    assert len(told["epsilon"]) > 5
    assert all("of ε are spent" in one["said"] for one in told["epsilon"])


def test_nothing_is_written_before_it_is_kept_and_then_a_run_is(made: TestClient, tmp_path: Path) -> None:
    asked(made, "measure")
    assert list(tmp_path.iterdir()) == []
    told = asked(made, "keep", name="phone")[-1][1]
    run = tmp_path / "runs" / told["id"]
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in run.glob("*.*[nt]")} == {0o600}
    kept = leakmeter.load_run(run)
    assert kept[0].whole_nats == leakmeter.influence("toy", **CASE, group=True).whole_nats
    assert json.loads((run / "spec.json").read_text())["name"] == "phone"


def test_samples_are_there(made: TestClient) -> None:
    for name in ("note", "tickets"):
        told = made.get(f"/live/samples/{name}").json()
        assert "555-010" in told["context"]
        assert "555-010" in told["response"]
    assert made.get("/live/samples/x").status_code == 404


def test_personal_data_are_pieces_of_their_own(made: TestClient) -> None:
    context = "Write to o.brandwick@example.com or call 555-010-2231. She asked twice: call 555-010-2231."
    for cut in ([], ["email1"]):
        asked_for = {"context": context, "unit": "entity", "cut": cut, "swap": ["phone1"], "max_new_tokens": 1}
        text = asked(made, "cut", **asked_for)[-1][1]["text"]
        assert "555-010-2231" not in text
        assert ("o.brandwick@example.com" in text, "@" in text) == (not cut, not cut)


def test_one_model_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    class Kept:
        def __init__(self, given: str, options: ModelOptions) -> None:
            self.source, self.backend = given, None
            alive.add(self)

    monkeypatch.setattr(serving, "KeptModel", Kept)
    held = serving.Models(("a", "b", "a"), ModelOptions())
    assert held.names == ("a", "b")
    for name in ("a", "b", "b", "a"):
        assert held.use(name).source == name
        assert {one.source for one in alive} == {name} == {held.loaded}
    with pytest.raises(UnknownNameError):
        held.use("c")


@pytest.mark.parametrize(
    ("context", "documents"),
    [
        ("Anna sang.", 1),
        ("Anna sang.\n---\nBo ate.", 2),
        ("---\nAnna sang.\n-----  \nBo ate.\n---\n", 2),
        ("a --- b\n- - -\n--", 1),
    ],
)
def test_lines_of_dashes_divide_documents(context: str, documents: int) -> None:
    case = Typed("toy", context, "Who?", "Anna").case
    assert len(case.documents) == documents
    assert documents == 1 or not any("--" in document.text for document in case.documents)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_sample_is_there_first_and_what_is_typed_stays_until_cleared(browser: Browser, serving: Serving) -> None:
    value = "document.querySelector('#live [name=context]').value"
    browser.until(f"{value}.includes('Tobias Quillmere')")
    browser.run(
        f"{value} = {json.dumps(CASE['context'])};"
        "document.getElementById('live').dispatchEvent(new Event('input', {bubbles: true}))"
    )
    browser.open(serving.access.origin + "/")
    browser.until(f"{value} === {json.dumps(CASE['context'])}")
    browser.run("document.getElementById('clear').click()")
    assert browser.run(f"{value} + (sessionStorage.getItem('live') || '')") == ""
    assert not browser.complaints
