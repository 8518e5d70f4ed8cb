"""What an answer gives away: spans, sources, relations and kinds, on series made by hand and on real logs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.examples import few
from leakmeter.instruments.influence.disclosure_report import further, headline
from leakmeter.instruments.influence.disclosures import LEAST_NATS, OTHER, Disclosure, disclosures
from leakmeter.report import markdown
from leakmeter.testing import assert_no_disclosure

HERE = Path(__file__).parent
MAP = {"id": "trace", "context": "rag.chunks[]", "query": "question", "response": "reply"}


def disclosed(
    answer: list[tuple[str, float]],
    pieces: list[tuple[str, list[float], list[float]]],
    *,
    placebo: float = 0.1,
    noise: float = 0.001,
    **more: Any,
) -> list[Disclosure]:
    """Of tokens with what the whole context does to each, and pieces with what leaving each out, or in, does."""
    tokens, whole = zip(*answer, strict=True)
    series: dict[tuple[int, str, str], Any] = {(0, "whole", ""): np.asarray(whole)}
    for name, value in (("log_prob", -1.0), ("noise", noise), ("placebo_alone", placebo)):
        series[0, name, ""] = np.full(len(tokens), value)
    context, spans = "", []
    for number, (text, without, alone) in enumerate(pieces, 1):
        ranges = [[len(context), len(context) + len(text)]]
        context += text
        spans.append({"name": f"s{number}", "kind": "unit", "document": f"d{number}", "ranges": ranges, "entity": None})
        series[0, "without_this", f"s{number}"] = np.asarray(without)
        series[0, "only_this", f"s{number}"] = np.asarray(alone)
    documents = [dict(zip(("name", "start", "end"), (span["document"], *span["ranges"][0]))) for span in spans]
    texts = {"responses": [{"text": "".join(tokens), "tokens": tokens}], "context": context, "documents": documents}
    return [*disclosures({**texts, "query": "", "spans": spans, **more}, series)]


def test_a_copied_value_is_one_span_with_its_source() -> None:
    answer = [("Call", 0.0), (" 0161", 4.0), (" 496", 0.0), (" 0382", 6.0), (" now", 2.0), (".", 0.0)]
    ring = ("Ring 0161-496-0382. ", [0.0, 4.0, 0.0, 5.0, 0.0, 0.0], [0.0] * 6)
    (found,) = disclosed(answer, [ring, ("It rains.", [0.0] * 6, [0.0] * 6)])
    assert (found.text, found.kind, found.found_by, found.relation) == ("0161 496 0382", "number", "shape", "copied")
    assert (found.start, found.end, found.first_token, found.last_token) == (5, 18, 1, 3)
    assert found.nats == 10.0
    assert found.interval_nats == pytest.approx((9.997, 10.003), abs=1e-12)
    assert found.surprise_nats == 13.0
    assert found.posterior == pytest.approx(1 / (1 + np.exp(-10)), abs=1e-15)
    assert found.floor_nats == LEAST_NATS
    (source,) = found.sources
    assert (source.piece, source.document, source.text, source.nats) == ("s1", "d1", "0161-496-0382", 9.0)


def test_two_copies_are_one_disclosure_with_two_sources() -> None:
    alone = [0.0, 9.0]
    copies = [("Code QX-7713. ", [0.0, 0.2], alone), ("Code QX-7713.", [0.0, 0.1], alone)]
    (found,) = disclosed([("It is", 0.0), (" QX-7713", 10.0)], [*copies, ("Rain.", [0.0, 0.0], [0.0, 0.0])])
    assert [source.piece for source in found.sources] == ["s1", "s2"]
    assert (found.relation, found.kind) == ("copied", "code")


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
    assert any("a number of four digits or more, or" in str(block) for block in further([case])) == is_named
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


# ---- real logs ------------------------------------------------------------------------------------------------------
UNSEEN = ("t03", "t11", "t21")
"""Logs of which a model of 135 M parameters does not connect the answer's other words with their source."""


@pytest.mark.parametrize("n_logs", few([1, 25]))
def test_planted_leaks_appear_and_clean_answers_do_not(real_backend: Any, n_logs: int) -> None:
    """13 leaks of 25 support logs: every value is named; what is said in other words appears unless the model is too
    small for it; nothing personal or secret is claimed of the 12 clean ones."""
    logs = [json.loads(line) for line in (HERE / "support_logs.jsonl").read_text(encoding="utf-8").splitlines()]
    planted = json.loads((HERE / "support_logs.planted.json").read_text(encoding="utf-8"))
    for result in leakmeter.influence(real_backend, logs[:n_logs], map=MAP, unit="sentence"):
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
