"""What an answer owes to its own context beyond what contexts of other cases do, and how often that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import leakmeter
from helpers.measure_items import readings_of
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.loaded import LoadedCases
from leakmeter.core.prompt import Prompt
from leakmeter.instruments.influence.controls import (
    ControlContext,
    FalseAlarms,
    ListCut,
    most_of,
    p_values,
)
from leakmeter.instruments.influence.disclosures import disclosures, examined
from leakmeter.instruments.influence.measure import Influence
from leakmeter.results.query import all_views
from leakmeter.text.build import PromptSettings
from leakmeter.text.controls import word_hash, words_of_some

CASES = [
    {"id": f"c{i}", "context": f"{name} lives in {town}.", "query": "Where?", "response": f"{name} lives in {town}."}
    for i, (name, town) in enumerate([("Anna Ek", "Graz"), ("Bo Lee", "Oslo"), ("Cora Alm", "Turku"), ("Ed", "Ulm")])
]


def test_a_token_is_held_against_whichever_control_raised_it_most() -> None:
    assert most_of([], 2).tolist() == [0.0, 0.0]
    assert most_of([np.asarray([3.0, -1.0, -2.0]), np.asarray([1.0, 2.0, -1.0])], 3).tolist() == [3.0, 2.0, 0.0]


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_a_control_is_the_prompt_with_another_context_against_the_bare_one(weight: float) -> None:
    cases = tuple(
        Case(str(one["id"]), (Document("note", str(one["context"])),), "Where?", str(one["response"])) for one in CASES
    )
    settings, toy = PromptSettings(template="plain").resolved(), Toy()
    prepared, _ = LoadedCases(cases).prepared(toy, settings, Influence(controls=2))
    item = prepared[0].item
    series = readings_of(toy, Influence(controls=2, cid_lambda=weight), item)

    def rows(prompt: Prompt) -> np.ndarray:
        at = [np.asarray([*prompt.ids.tolist(), *item.response[:t]]) for t in range(len(item.response))]
        return np.stack([toy.logits(sequence, np.arange(len(sequence))) for sequence in at])

    def by_hand(prompt: Prompt) -> np.ndarray:
        logits = weight * rows(prompt) + (1 - weight) * rows(item.blank)
        return logits[range(len(logits)), list(item.response)] - np.log(np.exp(logits).sum(axis=-1))

    assert len(item.controls) == 2
    for name, prompt in item.controls.items():
        np.testing.assert_allclose(
            series[0, "control", name], by_hand(prompt) - by_hand(item.blank), rtol=0, atol=1e-12
        )


def made(whole: list[float], controls: dict[str, list[float]]) -> tuple[dict[str, Any], dict[Any, Any]]:
    tokens = ["Based", " on", " the", " record", ",", " she", " moved", " north", "."]
    context = "He says that she went up there."
    span = {"name": "s1", "kind": "unit", "document": "d", "ranges": [[0, len(context)]], "entity": None}
    texts = {"responses": [{"text": "".join(tokens), "tokens": tokens}], "context": context, "query": ""}
    n = len(tokens)
    series: dict[Any, Any] = {(0, "whole", ""): np.asarray(whole), (0, "log_prob", ""): np.full(n, -1.0)}
    series |= {(0, "noise", ""): np.zeros(n), (0, "without_this", "s1"): np.asarray(whole)}
    series |= {(0, "control", name): np.asarray(values) for name, values in controls.items()}
    return {**texts, "spans": [span]}, series


STYLE = [4.0, 3.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_style_is_no_disclosure_and_what_only_the_own_context_says_is_one() -> None:
    whole = [4.0, 3.0, 3.0, 4.0, 0.0, 0.0, 5.0, 4.0, 0.0]
    texts, series = made(whole, {})
    alone = [found.text for found in disclosures(texts, series)]
    assert any("Based on the record" in text for text in alone)
    texts, series = made(whole, {"c1": STYLE, "c2": [0.2] * 9})
    (found,) = disclosures(texts, series)
    assert found.text == "moved north"
    # With the full stop, 0.2 nats of each of three tokens are the second control's; the first does nothing to them.
    assert (found.nats, found.control_nats, found.own_nats) == pytest.approx((9.0, 0.6, 8.4), abs=1e-12)
    # Each control is held against the other, as if the answer had been written from it.
    first, second = examined(texts, series)[1]
    assert (first.case, first.disclosures, first.nats) == ("c1", 1, 14.0)
    assert first.worst_nats > 10.0
    assert (second.disclosures, second.worst_nats) == (0, 0.0)


def test_a_span_is_held_against_one_context_and_cut_by_the_most_of_all() -> None:
    whole = [0.0] * 5 + [0.0, 5.0, 4.0, 0.0]
    texts, series = made(whole, {"c1": [4.0] + [0.0] * 5 + [1.5, -1.0, 0.0], "c2": [0.0] * 6 + [-1.0, 1.2, 0.0]})
    (found,) = disclosures(texts, series)
    assert (found.text, found.nats) == ("moved north", 9.0)
    # 1.5 − 1.0 of the first, −1.0 + 1.2 of the second: the most by token would have been 2.7.
    assert (found.control_nats, found.own_nats) == pytest.approx((0.5, 8.5), abs=1e-12)


def test_an_infinite_control_leaves_nothing_of_its_own() -> None:
    whole = [0.0] * 6 + [np.inf, 5.0, 0.0]
    texts, series = made(whole, {"c1": [0.0] * 6 + [np.inf, 0.0, 0.0]})
    (found,) = disclosures(texts, series)
    assert found.text == "north"
    assert np.isfinite(found.own_nats)


def test_false_alarms_are_counted_with_their_bound() -> None:
    controls = [ControlContext(case=str(i), nats=0.0, disclosures=int(i == 7), worst_nats=1.0) for i in range(75)]
    alone: list[Any] = [SimpleNamespace(controls=(control,), steps=None) for control in controls]
    alarms = FalseAlarms.of(alone)
    assert alarms is not None
    assert (alarms.pairs, alarms.alarms, alarms.share) == (75, 1, 1 / 75)
    # At the bound, so few alarms have a chance of 5 %.
    assert binom.cdf(1, 75, alarms.share_at_most) == pytest.approx(0.05, abs=1e-9)
    # Pairs of one response tell no more than the response does.
    together: list[Any] = [SimpleNamespace(controls=tuple(controls[i : i + 3]), steps=None) for i in range(0, 75, 3)]
    of_three = FalseAlarms.of(together)
    assert of_three is not None
    assert (of_three.pairs, of_three.alarms) == (75, 1)
    assert beta.cdf(of_three.share_at_most, 1 / 3 + 1, 25 - 1 / 3) == pytest.approx(0.95, abs=1e-9)
    without: list[Any] = [SimpleNamespace(controls=(), steps=None)]
    assert FalseAlarms.of([]) is FalseAlarms.of(without) is None


def test_p_values_are_shares_of_the_pairs_that_do_as_much() -> None:
    controls = [ControlContext(case=str(i), nats=0.0, disclosures=0, worst_nats=float(i)) for i in range(9)]
    assert p_values([8.0, 8.5, 0.0, 4.0], controls) == [0.2, 0.1, 1.0, 0.6]


def pairs_of(worst_nats: Sequence[float]) -> list[ControlContext]:
    return [ControlContext(case=str(i), nats=0.0, disclosures=0, worst_nats=nats) for i, nats in enumerate(worst_nats)]


def test_a_list_is_cut_where_contexts_of_other_cases_do_as_much() -> None:
    # Of few pairs nothing follows.
    assert ListCut.of([8.5, 4.0], []) == ListCut.of([8.5, 4.0], pairs_of([9.0] * 18)) == ListCut(0.0, None, False)
    pairs = pairs_of([0.0] * 295 + [3.5, 4.0, 4.5, 5.0, 6.0])
    # Of 100 responses ten have more than any pair; 100 × 1/301 are expected to have it by chance, a thirtieth of them.
    many = ListCut.of([7.0] * 10 + [0.0] * 90, pairs)
    assert (many.least_nats, many.is_bounded) == (7.0, True)
    assert many.false_responses == pytest.approx(100 / 301)
    # The same spans are hypotheses beside all that were searched: of three, a tenth is less than chance makes.
    few = ListCut.of([7.0] * 3 + [0.0] * 97, pairs)
    assert (few.least_nats, few.is_bounded) == (np.nextafter(6.0, 7.0), False)
    assert few.false_responses == pytest.approx(100 / 301)
    # Weaker ones stay as long as the list with them is long enough.
    mixed = ListCut.of([7.0] * 15 + [5.5] * 8 + [3.2] * 2 + [0.0] * 75, pairs)
    assert mixed.least_nats == 3.2
    assert ListCut.of([7.0] * 15 + [3.2] * 1 + [0.0] * 84, pairs).least_nats == 7.0


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.06, 0.15])
def test_of_what_is_listed_at_most_a_tenth_is_false(rate: float) -> None:
    """Logs in which nothing, or a fifth of the responses, discloses something; all others have spans as foreign
    contexts make them."""
    rng = np.random.default_rng(7)
    n_logs, n = 400, 100
    share: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(n_logs):
        for some in (False, True):
            null = np.where(rng.random(4 * n) < rate, 3.0 + rng.exponential(2.0, 4 * n), 0.0)
            best = null[:n].copy()
            if some:
                best[: n // 5] = 5.0 + rng.exponential(4.0, n // 5)
            cut = ListCut.of(best.tolist(), pairs_of(null[n:].tolist()))
            if cut.is_bounded:
                kept = best >= cut.least_nats
                false = kept[n // 5 :].sum() if some else kept.sum()
                share[some].append(false / kept.sum())
            else:
                assert cut.false_responses == pytest.approx(n / (3 * n + 1))
                share[some].append(0.0)
    for shares in share.values():
        assert np.mean(shares) <= 0.1 + 2 * np.std(shares) / np.sqrt(n_logs)


def test_reports_say_how_often_the_rule_is_wrong_here() -> None:
    results = leakmeter.influence("toy", CASES)
    assert {len(result.controls) for result in results} == {3}
    text = str(results.report()).replace("\\xa0", " ")
    checks = "0 of 12 checks with the context of another case would have listed something."
    assert f"False alarms: 0 % (at most 53 %): {checks}" in text
    told = results.to_dict()["summary"].to_dict()["false_alarms"]
    assert (told["pairs"], told["alarms"], round(told["share_at_most"], 2)) == (12, 0, 0.53)
    assert "pairs of a response and the context of another case, from which it was not written" in text
    assert "Each response was also scored beside contexts of other cases of these data, up to 3 each." in text
    assert (plain := leakmeter.influence("toy", CASES, controls=0))[0].controls == ()
    assert "controls" not in plain[0].to_dict()
    # As a table, and in SQL.
    assert len(results.to_frame(detail="controls")) == 12
    assert len(plain.to_frame(detail="controls")) == 0
    assert "influence_controls" in all_views()
    # A given answer has no posterior of the reader's: nobody knows that it holds for who wrote it.
    assert "Sure" not in text


def test_a_control_that_says_a_word_which_others_do_not_is_a_source_of_it() -> None:
    whole = [0.0] * 6 + [5.0, 4.0, 0.0]
    controls = {"c1": [0.0] * 6 + [4.5, 3.5, 0.0], "c2": [0.2] * 9}
    texts, series = made(whole, controls)
    assert disclosures(texts, series) == ()
    texts["control_words"] = words_of_some([Document("c1", "It moved North."), Document("c2", "It stayed.")], None)
    (found,) = disclosures(texts, series)
    assert (found.text, found.own_nats) == ("moved north", pytest.approx(9.0 - 0.6))
    # As the context that was read, it would have been taken for the source.
    assert [control.disclosures for control in examined(texts, series)[1]] == [1, 0]
    # What all of them say is form, and counts against it.
    texts["control_words"] = words_of_some([Document("c1", "moved north"), Document("c2", "north, moved")], None)
    assert texts["control_words"] == {}
    assert disclosures(texts, series) == ()


def test_words_of_some_are_those_of_the_response_in_any_clothes() -> None:
    texts = [Document("a", "Dept: MARKETING, floor 2"), Document("b", "Dept: sales, floor 2"), Document("c", "floor 3")]
    of_some = words_of_some(texts, "She works in marketing, on floor 2; ask the dept.")
    assert of_some == {
        "a": sorted(map(word_hash, ("dept", "marketing", "2"))),
        "b": sorted(map(word_hash, ("dept", "2"))),
    }
    assert words_of_some([], "x") == words_of_some(texts[:1], "Marketing") == {}


def test_a_value_that_another_record_shares_is_a_disclosure_all_the_same() -> None:
    cases = [
        Case(f"c{i}", (Document("d", f"Name: {name}. Department: {department}."),), "Where?", f"In {department}.")
        for i, (name, department) in enumerate([("Ann", "marketing"), ("Bob", "marketing"), ("Cy", "sales")])
    ]
    loaded = PromptSettings(unit="whole").with_controls(cases, Influence(controls=2))
    prepared = PromptSettings(unit="whole").prepare(loaded[0], Toy(), Influence(controls=2))
    assert prepared.texts()["control_words"] == {"c1": [word_hash("marketing")]}
