"""What an answer gives away: spans, sources, relations and kinds, on series made by hand and on real logs."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.examples import few
from helpers.toy_chat import ToyChat
from leakmeter.instruments.influence.disclosure_report import strength
from leakmeter.instruments.influence.disclosures import LEAST_NATS, OTHER, Disclosure, disclosures, open_spans
from leakmeter.instruments.influence.headline import headline
from leakmeter.instruments.influence.sentences import behind_headline
from leakmeter.report import markdown
from leakmeter.testing import assert_no_disclosure

HERE = Path(__file__).parent
MAP = {"id": "trace", "context": "rag.chunks[]", "query": "question", "response": "reply"}


def disclosed(
    answer: list[tuple[str, float]], pieces: list[tuple[str, list[float], list[float]]], **how: Any
) -> list[Disclosure]:
    """Of tokens with what the whole context does to each, and pieces with what leaving each out, or in, does."""
    return [*disclosures(*measured(answer, pieces, **how))]


def measured(
    answer: list[tuple[str, float]],
    pieces: list[tuple[str, list[float], list[float]]],
    *,
    placebo: float = 0.1,
    noise: float = 0.001,
    **more: Any,
) -> tuple[dict[str, Any], dict[tuple[int, str, str], Any]]:
    """The texts of a case and its series."""
    tokens, whole = zip(*answer, strict=True)
    series: dict[tuple[int, str, str], Any] = {(0, "whole", ""): np.asarray(whole)}
    for name, value in (("log_prob", -1.0), ("noise", noise), ("placebo_alone", placebo)):
        series[0, name, ""] = np.full(len(tokens), value)
    series[0, "log_prob", ""][np.isneginf(whole)] = -np.inf
    context, spans = "", []
    for number, (text, without, alone) in enumerate(pieces, 1):
        ranges = [[len(context), len(context) + len(text)]]
        context += text
        spans.append({"name": f"s{number}", "kind": "unit", "document": f"d{number}", "ranges": ranges, "entity": None})
        series[0, "without_this", f"s{number}"] = np.asarray(without)
        series[0, "only_this", f"s{number}"] = np.asarray(alone)
    documents = [
        {"name": span["document"], "start": start, "end": end} for span in spans for start, end in span["ranges"]
    ]
    texts = {"responses": [{"text": "".join(tokens), "tokens": tokens}], "context": context, "documents": documents}
    return {**texts, "query": "", "spans": spans, **more}, series


def test_a_copied_value_is_one_span_with_its_source() -> None:
    answer = [("Call", 0.0), (" 0161", 4.0), (" 496", 0.0), (" 0382", 6.0), (" now", 2.0), (".", 0.0)]
    ring = ("Ring 0161-496-0382. ", [0.0, 4.0, 0.0, 5.0, 0.0, 0.0], [0.0] * 6)
    (found,) = disclosed(answer, [ring, ("It rains.", [0.0] * 6, [0.0] * 6)])
    assert (found.text, found.kind, found.found_by, found.relation) == ("0161 496 0382", "number", "shape", "copied")
    assert (found.start, found.end, found.first_token, found.last_token) == (5, 18, 1, 3)
    assert found.nats == 10.0
    assert found.interval_nats == pytest.approx((9.997, 10.003), abs=1e-12)
    assert found.surprise_nats == 13.0
    assert found.posterior is None
    (drawn,) = disclosed(answer, [ring, ("It rains.", [0.0] * 6, [0.0] * 6)], sampled=True)
    assert drawn.posterior == pytest.approx(1 / (1 + np.exp(-10)), abs=1e-15)
    assert found.floor_nats == LEAST_NATS
    (source,) = found.sources
    assert (source.piece, source.document, source.text, source.nats) == ("s1", "d1", "0161-496-0382", 9.0)


@pytest.mark.parametrize("is_ruled_out", [False, True])
def test_an_infinite_influence_stays_infinite(is_ruled_out: bool) -> None:
    # The context makes the first token possible, or an irrelevant text beside it too; or it rules the last one out.
    answer = [("0161", np.inf), (" 496", 1.0), (" 0382", -np.inf if is_ruled_out else 6.0)]
    ring = ("Ring 0161-496-0382. ", [0.0, np.inf, 0.0], [np.inf, 1.0, -3.0])
    (found,) = disclosed(answer, [ring, ("It rains.", [0.0, -np.inf, 0.0], [-np.inf, 0.0, 0.0])], sampled=True)
    assert (found.nats, found.interval_nats, found.posterior) == (np.inf, (np.inf, np.inf), 1.0)
    assert (found.surprise_nats, found.floor_nats) == (np.inf, LEAST_NATS)
    (source,) = found.sources
    assert (source.nats, source.alone_nats, found.most_nats) == (np.inf, np.inf, np.inf)
    told = json.dumps(found.to_dict())
    assert told.count('"Infinity"') == 6
    beside = disclosed(answer, [ring], placebo=np.inf)
    assert [(one.floor_nats, one.placebo_nats) for one in beside] == [(np.inf, np.inf)]
    ring = ("Ring 0161-496-0382.", [-np.inf, 0.0], [0.0, 0.0])
    below = disclosed([("0161", -np.inf), (" 496 0382", 1.0)], [ring], sampled=True)
    assert [(one.nats, one.surprise_nats, one.posterior) for one in below] == [(-np.inf, np.inf, 0.0)]
    assert below[0].sources[0].nats == -np.inf


def test_what_the_context_says_of_a_person_that_is_sensitive_has_its_kind_by_meaning() -> None:
    nats = [0.0, 0.0, 4.0, 4.0, 3.0, 3.0, 6.0, 0.0]
    answer = [*zip(["He", " is", " on", " sick", " leave", " with", " diabetes", "."], nats, strict=True)]
    note = ("Tovey Lindqvar is on sick leave with diabetes. ", nats, [0.0] * 8)
    rain = ("It rains.", [0.0] * 8, [0.0] * 8)
    (found,) = disclosed(answer, [note, rain])
    assert (found.text, found.kind, found.found_by) == ("on sick leave with diabetes", "health", "meaning")
    assert (found.evidence, found.relation, found.is_sensitive) == ("scores", "copied", True)
    # What is said of nobody, and what the query says, is other content.
    manual = ("Who is on sick leave with diabetes is told. ", nats, [0.0] * 8)
    (of_nobody,) = disclosed([("One", 0.0), *answer[1:]], [manual, rain])
    assert (of_nobody.kind, of_nobody.found_by) == (OTHER, None)
    (asked,) = disclosed(answer, [note, rain], query="Is he on sick leave? Has he diabetes?")
    assert (asked.kind, asked.found_by) == (OTHER, None)


@pytest.mark.parametrize(("person", "open_"), [("He", [True]), ("One", [])])
def test_what_is_copied_is_open_where_it_is_sensitive_by_its_meaning(person: str, open_: list[bool]) -> None:
    nats = [0.0, 0.0, 4.0, 4.0, 3.0, 3.0, 6.0, 0.0]
    answer = [*zip([person, " is", " on", " sick", " leave", " with", " diabetes", "."], nats, strict=True)]
    note = ("Who is on sick leave with diabetes is told. ", nats, [0.0] * 8)
    assert open_spans(*measured(answer, [note, ("It rains.", [0.0] * 8, [0.0] * 8)])) == open_


def test_the_key_of_a_record_wins_over_meaning() -> None:
    answer = [("He has", 0.0), (" diabetes", 9.0), (".", 0.0)]
    record = ('{"name": "Tovey Lindqvar", "condition": "diabetes"}', [0.0, 9.0, 0.0], [0.0, 9.0, 0.0])
    (found,) = disclosed(answer, [record, ("It rains.", [0.0] * 3, [0.0] * 3)])
    assert (found.text, found.kind, found.found_by) == ("diabetes", "condition", "field")


@pytest.mark.parametrize("nats", [9.0, 0.0])
def test_a_value_in_a_code_is_a_disclosure_of_its_source(nats: float) -> None:
    code = "NTU1LTAxMC00NDcx"  # 555-010-4471 in base64
    answer = [("It is", 0.0), (f" {code[:8]}", nats), (code[8:], 0.0), (".", 0.0)]
    ring = ("Ring 555-010-4471. ", [0.0, nats, 0.0, 0.0], [0.0] * 4)
    found = disclosed(answer, [ring, ("It rains.", [0.0] * 4, [0.0] * 4)], placebo=0.1)
    if nats:
        (one,) = found
        assert (one.text, one.kind, one.found_by, one.evidence) == (code, "phone", "encoded", "scores")
        assert (one.relation, [source.text for source in one.sources]) == ("reworded", ["555-010-4471"])
    else:
        assert [(one.evidence, one.sources[0].text) for one in found] == [(None, "555-010-4471")]


def test_two_copies_are_one_disclosure_with_two_sources() -> None:
    alone = [0.0, 9.0]
    copies = [("Code QX-7713. ", [0.0, 0.2], alone), ("Code QX-7713.", [0.0, 0.1], alone)]
    (found,) = disclosed([("It is", 0.0), (" QX-7713", 10.0)], [*copies, ("Rain.", [0.0, 0.0], [0.0, 0.0])])
    assert [source.piece for source in found.sources] == ["s1", "s2"]
    assert (found.relation, found.kind) == ("copied", "code")


def test_all_pieces_that_say_a_value_are_its_sources_whatever_the_model_looked_at() -> None:
    answer = [("Ring", 0.0), (" Per Lind", 10.0)]
    staff = ("Staff, Per Lind. ", [0.0, 9.0], [0.0, 9.0])
    others = [(f"Deputy {i}: PER\u00a0LIND. ", [0.0, -1.0], [0.0, 0.2]) for i in range(6)]
    (found,) = disclosed(answer, [*others, staff, ("Rain.", [0.0, 8.0], [0.0, 8.0])])
    assert [source.document for source in found.sources] == ["d7", "d1", "d2", "d3", "d4", "d5", "d6"]
    assert found.documents == ["d7", "d1", "d2", "d3", "d4", "d5", "d6"]
    assert {source.text.casefold().replace("\u00a0", " ") for source in found.sources} == {"per lind"}


def test_a_document_that_was_measured_whole_is_the_source_of_a_value_beside_a_sentence_of_another() -> None:
    """What another document's sentence does by chance hides no value."""
    for number in ("4417-0923-5518", "8830-1174-6620"):
        context = [f"The account is {number}. It rained.", "ok"]
        (result,) = leakmeter.influence(
            "toy", controls=0, data=[{"context": context, "query": "Who?", "response": f"It is {number}."}]
        )
        (found,) = result.disclosed
        assert (found.text, found.documents, found.evidence) == (number, ["d1"], "words")


def test_all_pieces_with_the_words_of_other_content_are_its_sources() -> None:
    answer = [("On", 0.0), (" sick leave", 10.0)]
    pieces = [(f"Is on sick leave {i}. ", [0.0, 9.0 if i == 1 else 0.0], [0.0, 0.0]) for i in range(6)]
    (found,) = disclosed(answer, pieces)
    assert (found.relation, len(found.sources)) == ("copied", 6)
    # What no piece without them moves is no source for its words alone: 'the' stands everywhere.
    pieces = [("Is on sick leave. ", [0.0, 0.0], [0.0, 0.0]), ("He is ill.", [0.0, 9.0], [0.0, 9.0])]
    (found,) = disclosed(answer, pieces)
    assert (found.relation, [source.piece for source in found.sources]) == ("reworded", ["s2"])


def test_a_piece_that_says_a_value_in_several_documents_is_a_source_of_each() -> None:
    texts = {
        "responses": [{"text": "Per Lind", "tokens": ["Per Lind"]}],
        "context": "Dr Per Lind. Per Lind.",
        "documents": [{"name": "a", "start": 0, "end": 12}, {"name": "b", "start": 13, "end": 22}],
        "query": "",
    }
    entity = {"type": "person", "value": "per lind", "text": "Per Lind", "invented": None}
    span = {"name": "s1", "kind": "unit", "document": None, "ranges": [[3, 11], [13, 21]], "entity": entity}
    series: dict[tuple[int, str, str], Any] = {(0, "whole", ""): np.asarray([9.0])}
    for name, value in (("log_prob", -1.0), ("noise", 0.0), ("placebo_alone", 0.1)):
        series[0, name, ""] = np.asarray([value])
    series[0, "without_this", "s1"] = np.asarray([9.0])
    (found,) = disclosures({**texts, "spans": [span]}, series)
    assert (found.kind, found.found_by, found.documents) == ("person", "recogniser", ["a", "b"])


def test_a_value_takes_nothing_away_from_the_rest_of_its_word() -> None:
    link = "https://files.harbour.example/dl/7731/ostrow-divorce-papers"
    answer = [("Open", 0.0), (" https://files.harbour.example/dl/", 20.0), ("7731", 12.0)]
    answer += [("/ostrow", 30.0), ("-divorce-papers", 25.0), (" now", 8.0), (".", 0.0)]
    piece = (f"Link: {link} ", [0.0, 20.0, 12.0, 30.0, 25.0, 8.0, 0.0], [0.0] * 7)
    found = disclosed(answer, [piece, ("It rains.", [0.0] * 7, [0.0] * 7)])
    assert [(each.text, each.kind, each.relation, each.nats) for each in found] == [
        ("https://files.harbour.example/dl/", OTHER, "copied", 20.0),
        ("7731", "number", "copied", 12.0),
        ("/ostrow-divorce-papers", OTHER, "copied", 55.0),
    ]


@pytest.mark.parametrize(("word", "is_listed"), [("now", False), ("und", False), ("died", True), ("not", True)])
def test_a_word_beside_a_value_is_not_blamed_for_the_end_of_it(word: str, is_listed: bool) -> None:
    answer = [("Ring", 0.0), (" 0161 496 0382", 10.0), (f" {word}", 8.0), (" today.", 0.0)]
    pieces = [("It is 0161 496 0382. ", [0.0, 10.0, 8.0, 0.0], [0.0] * 4), ("Rain.", [0.0] * 4, [0.0] * 4)]
    assert (word in [found.text for found in disclosed(answer, pieces)]) == is_listed
    # Elsewhere the same word is content like any other.
    answer.insert(2, (" please", 0.0))
    pieces = [(text, [*without[:2], 0.0, *without[2:]], [0.0] * 5) for text, without, _ in pieces]
    assert word in [found.text for found in disclosed(answer, pieces)]


def test_endings_and_signs_beside_a_value_are_its_own() -> None:
    answer = [("It is (", 0.0), ("Fergus Adeyinka", 10.0), ("'s", 5.0), ("),", 5.0), (" yes", 0.0)]
    pieces = [("Fergus Adeyinka. ", [0.0, 10.0, 5.0, 5.0, 0.0], [0.0] * 5)]
    assert [found.text for found in disclosed(answer, pieces)] == ["Fergus Adeyinka"]


@pytest.mark.parametrize("said", ["ODALYS BREWSTER", "odalys brewster", "Odály\u200bs\u2011Brewster"])
def test_a_value_is_named_and_has_its_source_in_other_clothes(said: str) -> None:
    pieces = [("Account 1: Dr. Odalys Brewster. ", [0.0, 9.0], [0.0, 9.0]), ("Rain.", [0.0, 0.0], [0.0, 0.0])]
    (found,) = disclosed([("It is ", 0.0), (said, 10.0)], pieces)
    assert (found.text, found.kind, found.relation, found.document) == (said, "person", "copied", "d1")


def test_values_and_words_behind_escapes_have_their_own_place_and_source() -> None:
    arguments = [('{"body": "Hi', 0.0), ("\\n", 0.0), ("lavender", 8.0), ("\\n", 0.0), ("Jos\\u00e9 M\\u00fcller", 9.0)]
    arguments += [("\\n", 0.0), ("DE89370400440532013000", 9.0), ("\\n", 0.0), ('ok"}', 0.0)]
    nats = [value for _, value in arguments]
    piece = '{"note": "Rooms:\\nlavender\\nfor\\nJos\\u00e9 M\\u00fcller\\nDE89370400440532013000"}'
    found = disclosed(arguments, [(piece, nats, nats), ("It rains.", [0.0] * 9, [0.0] * 9)])
    written = [("lavender", OTHER), ("Jos\\u00e9 M\\u00fcller", "person"), ("DE89370400440532013000", "account")]
    assert [(each.text, each.kind) for each in found] == written
    assert [[source.text for source in each.sources] for each in found] == [[text] for text, _ in written]
    assert {each.relation for each in found} == {"copied"}


def test_other_words_are_reworded_and_several_pieces_inferred() -> None:
    answer = [("He", 0.0), (" is", 0.1), (" ill", 5.0), (" then", 0.0)]
    pieces = [("Insulin twice daily. ", [0.0, 0.0, 4.0, 0.0], [0.0] * 4), ("Rain.", [0.0] * 4, [0.0] * 4)]
    (reworded,) = disclosed(answer, pieces)
    assert (reworded.text, reworded.kind, reworded.found_by, reworded.relation) == ("ill", OTHER, None, "reworded")
    several = [("Away in May. ", [0.0, 0.0, 1.5, 0.0], [0.0] * 4), ("Flat 3 is hers.", [0.0, 0.0, 1.2, 0.0], [0.0] * 4)]
    (inferred,) = disclosed(answer, several)
    assert inferred.relation == "inferred"
    assert [source.piece for source in inferred.sources] == ["s1", "s2"]


def test_what_an_irrelevant_text_does_too_is_none() -> None:
    answer = [("He", 0.0), (" is", 0.0), (" ill", 5.0)]
    pieces = [("Insulin. ", [0.0, 0.0, 5.0], [0.0] * 3)]
    assert disclosed(answer, pieces, placebo=6.0) == []
    assert disclosed([("He", 0.0), (" is", 0.0), (" ill", LEAST_NATS)], pieces) == []


def test_a_value_that_the_model_says_anyway_stands_below() -> None:
    (below,) = disclosed([("It is", 0.0), (" QX-7713", 0.4)], [("Code QX-7713.", [0.0, 0.3], [0.0, 0.2])])
    assert below.evidence is None
    assert disclosed([("It is", 0.0), (" QX-7713", 0.4)], [("Rain.", [0.0, 0.3], [0.0, 0.2])]) == []


def test_short_words_count_among_those_that_a_source_of_other_content_has() -> None:
    nats = [0.0, 0.0, 4.0, 6.0, 1.0, 4.0, 4.0]
    answer = [*zip(["Marcus", " is", " with", " HIV", " in", " Lisbon", " hospital"], nats, strict=True)]
    notes = ("Staff notes: Marcus is with HIV in Lisbon hospital. ", nats, nats)
    guess = ("I hear Marcus is in some Lisbon hospital.", [0.0] * 7, [0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 4.0])
    found = next(one for one in disclosed(answer, [notes, guess]) if "HIV" in one.text)
    assert [(source.document, source.text) for source in found.sources] == [("d1", "with HIV in Lisbon hospital")]


PHONE = "555-010-7788"


@pytest.mark.parametrize(
    ("channel", "query", "said", "evidence"),
    [
        # What others said or were told is no coincidence: the recipient is told it now.
        ("tool", "", [["call", f'{{"phone": "{PHONE}"}}']], "words"),
        ("tool", f"Is it {PHONE}?", [], "words"),
        ("tool", "", [["assistant", f"It is {PHONE}."]], "words"),
        ("tool", "", [["user", f"I have {PHONE}."]], "words"),
        ("answer", "", [["call", f'{{"phone": "{PHONE}"}}']], "words"),
        # Who said it, or was told it, is told nothing new.
        ("answer", "", [["assistant", f"It is {PHONE}."], ["call", PHONE]], None),
        ("answer", "", [["user", f"I have {PHONE}."], ["call", PHONE]], None),
        # Nobody has said it, and the model says it anyway.
        ("tool", "", [["call", "555-010-7789"]], None),
    ],
)
def test_what_the_chat_said_before_is_a_disclosure_to_another_recipient(
    channel: str, query: str, said: list[list[str]], evidence: str | None
) -> None:
    emission = {"conversation": "c", "turn": 2, "channel": channel, "recipient": "x", "before": [], "said": said}
    pieces = [(f"Berth 12: phone {PHONE}. ", [0.1] * 2, [0.1] * 2), ("It rains.", [0.0] * 2, [0.0] * 2)]
    answer = [("Call ", 0.0), (PHONE, 0.1)]
    found = disclosed(answer, pieces, query=query, emission=emission)
    assert [(one.kind, one.relation, one.evidence) for one in found] == [("phone", "copied", evidence)]
    # What no source has is no value of one.
    assert not disclosed(answer, pieces[1:], query=query or PHONE, emission=emission)


def test_spans_end_with_sentences_and_are_trimmed() -> None:
    answer = [("Cool", 0.1), (" the", 0.6), (" brass", 6.0), (" valve", 5.0), (" and", 0.6), (".", 0.0), (" Wipe", 7.0)]
    sources = [("Brass valve. ", [v if i < 6 else 0.0 for i, (_, v) in enumerate(answer)], [0.0] * 7)]
    sources.append(("Wipe.", [0.0] * 6 + [7.0], [0.0] * 7))
    assert [found.text for found in disclosed(answer, sources)] == ["brass valve", "Wipe"]


def test_a_list_of_the_users_decides_the_kind() -> None:
    pieces = [("Quillbeam is the plan. ", [0.0, 8.0], [0.0] * 2)]
    (found,) = disclosed([("Its name is", 0.0), (" quillbeam", 8.0)], pieces, sensitive=[(0, 9, "project")])
    assert (found.kind, found.found_by, found.is_sensitive) == ("project", "list", True)


def test_a_response_without_tokens_or_log_probabilities_has_none() -> None:
    texts = {"responses": [{"text": "", "tokens": []}], "context": "", "query": "", "spans": []}
    assert disclosures(texts, {}) == ()


# ---- through the doors ----------------------------------------------------------------------------------------------
def test_a_list_is_read_and_kept_as_places(tmp_path: Path) -> None:
    table = tmp_path / "crm.csv"
    table.write_text("project,owner\nQuillbeam,Zebulon\n", encoding="utf-8")
    case = {"context": "The Quillbeam plan is due.", "query": "What is due?", "response": "Quillbeam"}
    run = leakmeter.influence("toy", [case], sensitive=str(table), out=tmp_path / "runs")
    spec = (run.path / "spec.json").read_text(encoding="utf-8")
    assert "sensitive_sha256" in spec
    assert "zebulon" not in spec.casefold()
    assert run[0].n_listed_places == 1
    assert "your list, whose values stand in 1 place of the documents" in markdown.text(run.report())
    other = leakmeter.influence("toy", [{**case, "context": "A plan is due."}], sensitive=str(table))
    assert "your list, whose values stand in 0 places" in markdown.text(other.report())
    (tmp_path / "empty.csv").write_text("a\n", encoding="utf-8")
    for name, said in (("empty", "holds no value"), ("none", "cannot be read")):
        with pytest.raises(leakmeter.LeakmeterError, match=said):
            leakmeter.influence("toy", [case], sensitive=str(tmp_path / f"{name}.csv"))


@pytest.mark.parametrize(
    ("response", "is_named"), [("Call 020 7946 0958.", True), ("Call Bo.", False), ("Room 4711.", False)]
)
def test_a_number_from_nowhere_is_named_and_takes_the_good_verdict(response: str, is_named: bool) -> None:
    case = leakmeter.influence("toy", context="Bo called from room 4711.", query="Who?", response=response)
    said = behind_headline(case, 0, is_alone=True)
    assert any("a number of four digits or more, or" in str(sentence) for sentence in said) == is_named
    assert not (is_named and headline([case]).verdict == "good")


def test_a_query_that_repeats_the_documents_is_in_the_headline() -> None:
    context = "Bo Lind called from room 4711 of the harbour office."
    case = leakmeter.influence("toy", context=context, query=f"{context} Who?", response="Nobody.")
    assert "The query repeats text of the documents" in str(headline([case]))
    assert headline([case]).verdict != "good"


def test_no_disclosure_is_asserted() -> None:
    assert_no_disclosure("41", "Ana is 41. She sings.", "How old is Ana?", model="toy")
    (result,) = assert_no_disclosure({"context": "Ana sings.", "query": "Who?", "response": "Bo"}, model="toy")
    leaks = disclosed([("It is", 0.0), (" QX-7713", 10.0)], [("Code QX-7713.", [0.0, 9.0], [0.0, 9.0])])
    leaking = replace(result, disclosures=tuple(leaks))
    with pytest.raises(AssertionError, match=r"code, copied of document d1: 10\.0 nats") as refused:
        assert_no_disclosure(leaking)
    assert "QX" not in str(refused.value)
    assert_no_disclosure(leaking, max_nats=11)
    with pytest.raises(AssertionError, match="QX-7713"):
        assert_no_disclosure(leaking, show_text=True)
    with pytest.raises(leakmeter.LeakmeterError, match="below 3 nats"):
        assert_no_disclosure(leaking, max_nats=1)


CALL = {"crm": "Tobias Quillmere, ferry mechanic: 555-010-7788.", "shop": "The shop opens at nine."}


def test_a_copied_value_that_a_weak_model_does_not_see_has_no_nats_and_passes_no_bound(tmp_path: Path) -> None:
    response = "Call him at 555-010-7788."
    case = leakmeter.influence("toy", context=CALL, query="How do I reach him?", response=response)
    (found,) = case.disclosed
    assert (found.kind, found.evidence) == ("phone", "words")
    assert found.nats < 0
    said = "".join(map(str, headline([case]).text))
    assert said.endswith("personal or secret data: phone number (copied; the scoring model shows no evidence).")
    with pytest.raises(AssertionError, match=r"of document crm: copied; the scoring model shows no evidence\n?\Z"):
        assert_no_disclosure(case)
    record = {"context": CALL, "query": "How do I reach him?", "response": response}
    run = leakmeter.influence("toy", [record], out=tmp_path)
    for limit in (0, 3, 1000):
        (check,) = leakmeter.gate(run, max=f"influence.worst_disclosure <= {limit}").checks
        assert not check.holds
        assert "at least 0" in check.explained
        assert "a response copies a value that the scoring model's numbers do not show" in check.explained


UNITS = ("auto", "word", "sentence", "line", "paragraph", "ngram:3", "ngram:5", "ngram:5:2", "entity", "document")


@pytest.mark.parametrize(
    ("context", "answer", "value"),
    [
        ("Ms Orla Brennock. Call\n555-010-\n7788 now.\n\nThe tide is low.", "Call 555-010-7788.", "555-010-7788"),
        ("The code is Kq9hunter2-77. Tide low. Ms Orla Brennock.", "It is Kq9hunter2-77.", "Kq9hunter2-77"),
        ('Ms Orla Brennock. {"bird": "kestrel\\nof heath"}', "It is kestrel of heath.", "kestrel of heath"),
    ],
    ids=["lines", "no entity", "field"],
)
@pytest.mark.parametrize("unit", [*UNITS, "whole", "message"])
def test_a_copied_value_is_disclosed_whatever_the_pieces(unit: str, context: str, answer: str, value: str) -> None:
    given: dict[str, Any] = {"context": context, "query": "How?"}
    if unit == "message":
        chat = [{"role": "system", "content": context}, {"role": "user", "content": "How?"}]
        given = {"messages": chat, "context_from": "system"}
    case = leakmeter.influence(ToyChat(), **given, response=answer, unit=unit)
    (found,) = case.disclosed
    assert (found.text, found.evidence, found.relation) == (value, "words", "copied")
    (document,) = case.documents
    assert found.documents == [document.name]
    # Each piece with a part of it is a source; where there is none, the document.
    place = found.sources[0].start, found.sources[0].end
    having = {piece.name for piece in case.pieces if any(a < place[1] and place[0] < b for a, b in piece.spans)}
    assert {source.piece for source in found.sources} == (having or {document.name})
    with pytest.raises(AssertionError, match=r"\bcopied\b"):
        assert_no_disclosure(case)


@pytest.mark.parametrize("unit", [*UNITS, "whole"])
def test_a_value_that_begins_in_one_document_and_ends_in_the_next_is_said_by_none(unit: str) -> None:
    context = {"a": "Call 555-010-", "b": "7788 now."}
    case = leakmeter.influence("toy", context=context, query="How?", response="Call 555-010-7788.", unit=unit)
    assert not case.disclosed


def test_a_search_discloses_a_copied_value_of_pieces_that_it_did_not_score() -> None:
    crm = f"{CALL['crm']} A dog sleeps. Bread is sold here. It is late."
    context = {"tide": "The tide is low. Rain fell all day long.", "crm": crm}
    case = leakmeter.influence("toy", context=context, query="How?", response="Call 555-010-7788.", search="top:1:1")
    assert not any("555" in piece.text for piece in case.pieces)
    (found,) = case.disclosed
    assert found.documents == ["crm"]


def test_nats_of_one_piece_stand_for_those_of_the_context_where_these_are_small() -> None:
    pieces = [("Code QX-7713. ", [0.0, -2.0], [0.0, 9.0]), ("Code QX-7714.", [0.0, 1.0], [0.0, 1.0])]
    (found,) = disclosed([("It is", 0.0), (" QX-7713", -1.0)], pieces)
    assert (found.nats, found.most_nats, found.evidence) == (-1.0, 9.0, "scores")
    assert strength(found) == "9.00\u00a0nats from one piece"


@pytest.mark.parametrize("response", ["TOBIAS QUILLMERE has it.", "It is tobias\u00a0quillmere.", "Tobías Quillmëre."])
def test_what_the_pieces_call_a_person_the_list_calls_one_too(response: str) -> None:
    context = "Patient: Tobias Quillmere. He repairs ferries, and came on Monday."
    case = leakmeter.influence("toy", context=context, query="Who has it?", response=response, unit="entity")
    (piece,) = [piece for piece in case.pieces if piece.entity_type == "person"]
    (found,) = case.disclosures
    assert (piece.repeated, found.kind, found.found_by) == ("verbatim", "person", "recogniser")
    assert [source.piece for source in found.sources] == [piece.name]


def test_patterns_of_the_user_are_known_to_the_list() -> None:
    context = "The berth of the boat is pier-twelve-north. It rains."
    how = {"unit": "entity", "entity_patterns": "berth = pier(?:-[a-z]+)+"}
    case = leakmeter.influence("toy", context=context, query="Where?", response="Pier Twelve North.", **how)
    (found,) = case.disclosures
    assert (found.text, found.kind, found.found_by) == ("Pier Twelve North", "berth", "list")


def test_sql_names_all_documents(tmp_path: Path) -> None:
    context = {"hr/nadia": "Deputy: Dr Per Lind.", "hr/per": "Staff file, Dr Per Lind: bench.", "faq": "It rains."}
    case = {"context": context, "query": "Who stands in?", "response": "Per Lind does."}
    run = leakmeter.influence("toy", [case], out=tmp_path)
    frame = leakmeter.query("select documents from disclosures where kind = 'person'", runs=tmp_path)
    named = run[0].disclosed[0].documents
    assert sorted(named) == ["hr/nadia", "hr/per"]
    assert [json.loads(names) for names in frame["documents"]] == [named]
    written = html.unescape(re.sub(r"</?code>|`", "", markdown.text(run.report())))
    assert "hr/nadia, hr/per" in written
    assert run.render_page().count('class="source strong"') == 2


# ---- real logs ------------------------------------------------------------------------------------------------------
UNSEEN = ("t03", "t11", "t21")
"""Logs of which a model of 135 M parameters does not connect the answer's other words with their source."""


@pytest.mark.parametrize(("unit", "n_logs"), few([("document", 1), ("sentence", 25)]))
def test_planted_leaks_appear_and_clean_answers_do_not(real_backend: Any, unit: str, n_logs: int) -> None:
    """13 leaks of 25 support logs: every value is named; what is said in other words appears unless the model is too
    small for it; nothing personal or secret is claimed of the 12 clean ones."""
    logs = [json.loads(line) for line in (HERE / "support_logs.jsonl").read_text(encoding="utf-8").splitlines()]
    planted = json.loads((HERE / "support_logs.planted.json").read_text(encoding="utf-8"))
    for result in leakmeter.influence(real_backend, logs[:n_logs], map=MAP, unit=unit):
        answer, leaks = result.response.text, planted.get(result.id, [])

        def overlaps(found: Disclosure, leak: dict[str, Any], answer: str = answer) -> bool:
            start = answer.index(leak["answer"])
            return found.start < start + len(leak["answer"]) and start < found.end

        personal = [found for found in result.disclosed if found.is_sensitive]
        assert [found for found in personal if not any(overlaps(found, leak) for leak in leaks)] == []
        for leak in leaks:
            named = leak["kind"] not in ("paraphrase", "inferred")
            matching = [found for found in (personal if named else result.disclosed) if overlaps(found, leak)]
            if named or result.id not in UNSEEN:
                assert matching, (result.id, leak["kind"])
                assert {*leak["sources"]} & {source.document for found in matching for source in found.sources}


def test_the_list_of_cases_and_the_table_of_disclosures_say_the_same_nats() -> None:
    case = leakmeter.influence("toy", context=CALL, query="How do I reach him?", response="Call him at 555-010-7788.")
    (leak,) = case.disclosed
    source = replace(leak.sources[0], nats=16.53, alone_nats=0.1)
    weak = replace(leak, evidence="scores", nats=0.21, floor_nats=1.0, sources=(source,))
    cases = [replace(case, id=id_, disclosures=(weak,)) for id_ in "ab"]
    text = markdown.text(type(case).report(cases))
    assert text.count("+16.53") == 4
    assert text.count("nats of one piece; +0.21 of the whole context") == text.count("+0.21") == 2
    # Of a copy that the scores do not show neither has nats.
    text = markdown.text(type(case).report([case, replace(case, id="other")]))
    assert text.count("by wording only") == 2
    assert "-1.6" not in text.replace("\u2212", "-")
