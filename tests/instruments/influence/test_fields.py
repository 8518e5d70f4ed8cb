"""Records as contexts: values named by their fields, and values that are measured together first."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.report_snapshots import printed
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.item import Prepared, measured_together
from leakmeter.core.measure import RESPONSE as TOKENS
from leakmeter.core.measure import TOKEN_ID, Measurement
from leakmeter.engine.measure import texts_of
from leakmeter.engine.storage.kept import FieldError
from leakmeter.instruments.influence.disclosures import NAMES_FIELD, Disclosure, disclosures, judged
from leakmeter.instruments.influence.math import InfluenceStatistics
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.report import markdown
from leakmeter.report.html import page
from leakmeter.text.build import PromptSettings, prepare
from leakmeter.text.permissions import Permissions, RecipientFacts
from leakmeter.text.structured import fields_of

RECORD = {"name": "Anna Ek", "credit_score": 612, "patient": {"diagnosis": "diabetes"}, "insured": False}


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


def disclosed(
    answer: list[tuple[str, float]], effects: dict[str, list[float]], record: Any = RECORD, *, log_prob: float = -1.0
) -> list[Disclosure]:
    """Of tokens with what the whole context does to each, and what leaving out each field of a record does."""
    context = record if isinstance(record, str) else json.dumps(record)
    case = Case("case", (Document("ehr.get", context),), "Who?", "".join(token for token, _ in answer))
    item = prepare(
        case, Toy().tokenizer, PromptSettings(unit="sentence", template="plain"), window=None, n_reserved=0
    ).item
    tokens, whole = zip(*answer, strict=True)
    series: dict[tuple[int, str, str], Any] = {(0, "whole", ""): np.asarray(whole, dtype=float)}
    for name, value in (("log_prob", log_prob), ("noise", 0.001), ("placebo_alone", 0.1)):
        series[0, name, ""] = np.full(len(tokens), value)
    spans = [
        {"name": s.name, "kind": s.kind, "document": s.document, "ranges": [list(r) for r in s.ranges], "entity": None}
        for s in item.spans
    ]
    for span in spans:
        row = np.asarray(effects.get(span["name"], [0.0] * len(tokens)), dtype=float)
        series[0, "without_this", span["name"]] = series[0, "only_this", span["name"]] = row
    texts = {
        "responses": [{"text": "".join(tokens), "tokens": tokens}],
        "context": context,
        "documents": [{"name": "ehr.get", "start": 0, "end": len(context)}],
        "query": "Who?",
        "spans": spans,
    }
    return [*disclosures(texts, series)]


def test_a_value_of_a_record_is_named_by_its_key_and_its_source_by_the_field() -> None:
    answer = [("She", 0.0), (" has", 0.0), (" diabetes", 8.0), (", and", 0.0), (" 612", 7.0), (".", 0.0)]
    effects = {"patient.diagnosis": [0, 0, 8, 0, 0, 0], "credit_score": [0, 0, 0, 0, 7, 0]}
    ill, score = disclosed(answer, effects)
    assert (ill.text, ill.kind, ill.found_by, ill.relation, ill.evidence) == (
        "diabetes", "diagnosis", "field", "copied", "scores",
    )  # fmt: skip
    (source,) = ill.sources
    assert (source.piece, source.document, source.field, source.text) == (
        "patient.diagnosis", "ehr.get", "patient.diagnosis", "diabetes",
    )  # fmt: skip
    assert source.place == "ehr.get → patient.diagnosis"
    assert ill.places == ["ehr.get → patient.diagnosis"]
    assert (score.text, score.kind, score.found_by) == ("612", "credit_score", "field")
    assert ill.to_dict()["sources"][0]["field"] == "patient.diagnosis"
    assert Disclosure.from_dict(ill.to_dict()) == ill


@pytest.mark.parametrize("nats", [2.0, 8.0])
def test_words_alone_are_no_evidence_of_what_many_texts_say(nats: float) -> None:
    # 'log_prob' is -1: without the context the value has -1 - nats.
    surprise = {"log_prob": -9.0}
    answer = [("It", 0.0), (" is", 0.0), (" 612", nats), (".", 0.0)]
    (found,) = disclosed(answer, {"credit_score": [0, 0, nats, 0]}, **surprise)
    assert (found.kind, found.evidence) == ("credit_score", "scores" if nats > 3 else None)
    # A longer value is one also where scores show nothing.
    (found,) = disclosed([("Of", 0.0), (" Anna Ek", 2.0), (".", 0.0)], {"name": [0, 2, 0]}, **surprise)
    assert (found.kind, found.evidence) == ("name", "words")


def test_what_the_context_raised_is_other_content_where_the_field_did_not() -> None:
    # A single small word stands in what another field raised.
    record = {"kind": "civil", "note": "Of civil unrest in town"}
    answer = [("It", 0.0), (" was", 0.0), (" civil", 4.0), (" unrest", 5.0), (".", 0.0)]
    (found,) = disclosed(answer, {"note": [0, 0, 4, 5, 0]}, record)
    assert (found.text, found.kind) == ("civil unrest", "other")
    assert [source.field for source in found.sources] == ["note"]


@pytest.mark.parametrize(
    ("record", "piece", "is_name"),
    [
        ({"settlement_amount": 8541555, "x": 1}, "settlement_amount", True),
        ({"settlement_date": "May 3", "amount_due": 12}, "settlement_date", True),
        # Words that a value has too may be the value.
        ({"settlement_amount": 8541555, "note": "settlement amounts of May"}, "settlement_amount", False),
        ({"settlement_amount": 8541555, "note": "It rained."}, "note", False),
        # A key of one word may be data.
        ({"settlement": {"amount": 8541555}}, "settlement.amount", False),
    ],
)
def test_who_may_not_know_a_value_may_know_that_there_is_such_a_field(
    record: dict[str, Any], piece: str, is_name: bool
) -> None:
    answer = [("I", 0.0), (" left", 0.0), (" out", 0.0), (" settlement", 4.0), (" amounts", 3.0), (".", 0.0)]
    (found,) = disclosed(answer, {piece: [0, 0, 0, 4, 3, 0]}, record)
    assert (found.text, found.kind, found.evidence) == ("settlement amounts", "other", "scores")
    assert [source.field for source in found.sources] == [piece]
    somebody = RecipientFacts(id="a", channel="answer", roles=None, tenants=None)
    nobody = Permissions(recipient=somebody, documents={}, rules=(), is_closed=True)
    (told,) = judged([found], nobody, fields_of(json.dumps(record)))
    assert (told.allowed, told.rule == NAMES_FIELD) == (("unknown", True) if is_name else ("no", False))


@pytest.mark.parametrize(("of_field", "is_found"), [(6.0, True), (0.5, False)])
def test_a_reworded_value_has_the_field_as_its_source_where_that_raised_it(of_field: float, is_found: bool) -> None:
    answer = [("About", 0.0), (" ~", 0.0), ("$174,000", 6.0), (" it", 0.0), (" is", 0.0), (".", 0.0)]
    record = {"settlement_amount": 173746, "name": "Bo"}
    (found,) = disclosed(answer, {"settlement_amount": [0, 0, of_field, 0, 0, 0]}, record)
    assert found.relation == ("reworded" if is_found else "inferred")
    assert (found.kind, found.found_by) == (("settlement_amount", "field") if is_found else ("amount", "shape"))
    assert [source.field for source in found.sources] == (["settlement_amount"] if is_found else [])


def test_a_truth_in_words_is_reworded() -> None:
    answer = [("She", 0.0), (" is", 0.5), (" not", 4.0), (" insured", 3.0), (".", 0.0)]
    (found,) = disclosed(answer, {"insured": [0, 0.5, 4, 3, 0]})
    assert (found.text, found.kind, found.relation) == ("not insured", "insured", "reworded")
    assert disclosed(answer, {"credit_score": [0, 0.5, 4, 3, 0]})[0].kind == "other"


def test_a_date_written_otherwise_keeps_its_kind_and_names_the_field() -> None:
    answer = [("Born", 0.0), (" May 3, 1984", 9.0), (".", 0.0)]
    (found,) = disclosed(answer, {"dob": [0, 9, 0]}, {"dob": "1984-05-03", "x": 1})
    assert (found.kind, found.found_by, found.relation) == ("date", "recogniser", "reworded")
    assert [source.place for source in found.sources] == ["ehr.get → dob"]


def test_reports_name_document_and_field() -> None:
    case = {
        "id": "a",
        "context": [{"name": "ehr.get#2", "text": json.dumps({"code": "41-77-20", "x": 1})}, "It rained."],
    }
    got = leakmeter.influence(Copying(), [{**case, "query": "What?", "response": "code: 41-77-20"}], template="plain")
    (leak,) = [disclosure for disclosure in got["a"].disclosed if disclosure.is_sensitive]
    assert (leak.kind, leak.found_by, leak.document) == ("code", "field", "ehr.get#2")
    made = got.report()
    for text in (printed(made, width=160), *map(html.unescape, (markdown.text(made), page(made)))):
        assert "ehr.get#2 → code" in text
        assert "2 values of records in the documents, by their keys" in " ".join(text.split())


# ---- together -------------------------------------------------------------------------------------------------------
RECORD_OF_MANY = json.dumps({"code": "41-77-20", **{f"m{n:02}": f"v{n:02}" for n in range(12)}})
ASKED: dict[str, Any] = {"query": "What is it?", "template": "plain"}


def test_values_that_an_answer_shares_no_word_with_are_one_piece_unless_it_matters() -> None:
    got = leakmeter.influence(Copying(), context=RECORD_OF_MANY, response="code: 41-77-20", **ASKED)
    assert [(piece.name, piece.kind) for piece in got.pieces] == [
        ("code", "unit"),
        ("12 other fields of context", "fields"),
    ]
    assert got.n_unmeasured_pieces is None
    each = leakmeter.influence(Copying(), context=RECORD_OF_MANY, response="code: 41-77-20", unit="sentence", **ASKED)
    assert len(each.pieces) == 13
    assert got.pieces[0].signed_per_token_nats == pytest.approx(each.pieces[0].signed_per_token_nats, abs=1e-12)
    assert got.cost.tree_tokens < 0.6 * each.cost.tree_tokens
    assert InfluenceResult.from_dict(got.to_dict()) == got
    assert "12 other" in printed(InfluenceResult.report([got]), width=160)


def measurements(context: str, response: str, unit: str = "auto", n: int = 1) -> tuple[Any, list[Any]]:
    documents = tuple(Document(f"d{i}", context if i == 0 else f"Boats {i} lie. It rained.") for i in range(n))
    settings = PromptSettings(unit=unit, template="plain")
    item = prepare(
        Case("case", documents, "What?", response), Copying().tokenizer, settings, window=None, n_reserved=8
    ).item
    ([found], _) = drive(Copying(), [Influence().trial(item)])
    return item, found


@pytest.mark.parametrize("n", [1, 3])
def test_where_they_matter_each_has_the_numbers_that_it_has_alone(n: int) -> None:
    # The toy copies what no word is shared with: 'v07' within a longer word.
    context = json.dumps({f"key{k:02}": f"zzv{k:02}zz" for k in range(10)})
    item, found = measurements(context, "aaazzv07zzb", n=n)
    (group,) = measured_together(item.spans)
    assert group == "10 other fields of d0"
    by_piece = {(one.statistic, one.piece): one.values for one in found}
    assert all(("without_this", name) in by_piece for name in measured_together(item.spans)[group])
    _, each = measurements(context, "aaazzv07zzb", "sentence", n=n)
    for one in each:
        if one.statistic == "without_this" and (one.statistic, one.piece) in by_piece:
            np.testing.assert_allclose(by_piece[one.statistic, one.piece], one.values, rtol=0, atol=1e-12)


def test_a_run_that_lacks_some_of_them_is_refused() -> None:
    item, found = measurements(RECORD_OF_MANY, "code: 41-77-20")
    group, members = next(iter(measured_together(item.spans).items()))
    prepared = Prepared(item, RECORD_OF_MANY, (("d0", 0, 5),), "What?", "plain", "auto", 0)
    tokens = Measurement(item.id, 0, "", TOKENS, TOKEN_ID, np.asarray(item.response, dtype=float))
    cost = {"requests": 1, "tree_tokens": 1, "naive_tokens": 1, "seconds": 0.0, "out_of_memory_retries": 0}
    kept = InfluenceResult.kept.from_dict({**texts_of(prepared, [tokens], Toy()), "cost": cost})
    kept.check_measurements(InfluenceStatistics, {}, found)
    some = [replace(one, piece=members[0]) for one in found if one.piece == group]
    with pytest.raises(FieldError, match="is missing of a piece"):
        kept.check_measurements(InfluenceStatistics, {}, [*found, *some])
    with pytest.raises(FieldError, match="is missing of a piece"):
        kept.check_measurements(InfluenceStatistics, {}, [one for one in found if one.piece != group])


def test_fewer_than_eight_are_measured_one_by_one() -> None:
    context = json.dumps({"code": "41-77-20", **{f"m{n}": f"v{n}" for n in range(7)}})
    got = leakmeter.influence(Copying(), context=context, response="code: 41-77-20", **ASKED)
    assert {piece.kind for piece in got.pieces} == {"unit"}
