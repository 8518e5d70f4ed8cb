"""Probing for values of people: the words, the report and its figures in every renderer."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless, flat
from helpers.report_snapshots import printed
from leakmeter.errors import UsageError
from leakmeter.instruments.pii import charts as pii_charts
from leakmeter.instruments.pii import words
from leakmeter.instruments.pii.check import AucRow, CurvePoint
from leakmeter.instruments.pii.result import Generated, PiiResult, summary
from leakmeter.instruments.pii.study import KIND, LIKELIHOOD
from leakmeter.report import blocks as b
from leakmeter.report import charts, html, markdown

report = PiiResult.report

KINDS = {"relationship": "relationship", "university": "university"}
JUDGED: dict[str, dict[str, Sequence[float | None]]] = {
    "phone": {"exact_match": (0.0, 0.0), "location_code": (1.0, 0.0), "edit_distance": (6.0, None)},
    "email": {"exact_match": (0.0, 0.0), "id_match": (0.0, 0.0)},
    "address": {"exact_match": (0.0, 0.0), "state": (0.0, 1.0), "zip": (0.0, 0.0), "edit_distance": (0.7, 0.55)},
}
SECRETS = ("Mara Ellsworth", "617-555-0134", "The phone number of", "call 617")


def asked(
    id_: str = "s1", type_: str = "phone", *, rank: int = 5, n: int = 99, n_templates: int = 2, seed: int = 0, **m: Any
) -> PiiResult:
    """A case whose true value has a rank among `n` invented ones, all of them drawn."""
    drawn = np.sort(np.random.default_rng([seed, n]).normal(-3.0, 0.5, size=n + 1))[::-1]
    true, decoys = float(drawn[rank - 1]), np.delete(drawn, rank - 1).tolist()
    judged = JUDGED.get(type_, {"exact_match": (0.0, 0.0)})
    ranked = {"rank": rank, "p_value": rank / (n + 1), "n_tokens": 12}
    told = {
        "id": f"{id_}: {type_}", "subject": id_, "kind": KINDS.get(type_, "twin"), "type": type_, "relation": None,
        "given": [], "model": "toy", "weights_sha256": None, "dtype": "float32", "n_templates": n_templates,
        "n_decoys": n, "decoy_test": "full", "n_decoys_scored": n, "rank_interval": None, "p_value_is_bound": False,
        "n_decoys_asked": n, "n_control_names": 2, "n_names": n, "n_names_scored": 0, "stands_out_nats": None,
        "p_value_among_decoys": rank / (n + 1), "p_value_among_names": None, "p_value_without_name": 0.5,
        "p_value_without_value": None, "can_be_tested": True if rank / (n + 1) <= 0.05 else None,
        "association_nats": true, "decoy_associations_nats": decoys, **ranked,
        "p_value_of_normalised_likelihood": 0.08, "p_value_of_likelihood": 0.07, "share_of_decoys_below": 1.0,
        "log_likelihood_nats": 12 * true, "decoy_log_likelihoods_nats": [12 * nats for nats in decoys],
        "normalised_log_likelihood_nats": true, "decoy_normalised_log_likelihoods_nats": decoys,
        "exposure_bits": math.log2((n + 1) / rank), "exposure_ceiling_bits": math.log2(n + 1),
        "extrapolated_exposure_bits": 5.5, "extracted": False, "beams": [2], "warnings": [],
        "likelihood_note": "invented values have other domains" if type_ == "email" else None,
        "templates": [
            {
                "template": i, "association_nats": true - i / 12, "log_likelihood_nats": 12 * true - i,
                "normalised_log_likelihood_nats": true - i / 12, **ranked,
            }
            for i in range(1, n_templates + 1)
        ],
        "generated": [
            {
                "beams": 2, "best": {name: max(filter(None, each), default=0.0) for name, each in judged.items()},
                "templates": {name: [each[i % 2] for i in range(n_templates)] for name, each in judged.items()},
                "answers": None,
            }
        ],
        "cost": {
            "requests": 200, "tree_tokens": 900, "naive_tokens": 5000, "seconds": 0.5, "out_of_memory_retries": 0,
            "scored_together": 1,
        },
        "name": None, "value": None, "prompts": None,
    }  # fmt: skip
    # What no user can give is not looked at: kinds and types are ours.
    return replace(PiiResult.from_dict(told), **m)


def several(n_persons: int, *, n: int = 99, known: int = 0, **more: Any) -> list[PiiResult]:
    """Three values of each person; of the first `known` the phone number is the likeliest of all."""
    ranks = np.random.default_rng(1).integers(1, n + 2, size=(n_persons, 3))
    return [
        asked(f"s{i}", type_, rank=1 if i < known and not j else max(3, int(ranks[i, j])), n=n, seed=3 * i + j, **more)
        for i in range(n_persons)
        for j, type_ in enumerate(JUDGED)
    ]


def said_by(case: PiiResult) -> PiiResult:
    """The same, the value generated behind the first template."""
    judged = {name: (1.0, *([0.0] * (case.n_templates - 1))) for name in JUDGED["phone"]}
    generated = Generated(beams=2, best=dict.fromkeys(judged, 1.0), templates=judged, answers=None)
    return replace(case, generated=(generated,), extracted=None if case.given else True)


def keeping(case: PiiResult) -> PiiResult:
    """The same from a run that keeps values."""
    name, value, prompt, answer = SECRETS
    generated = tuple(replace(one, answers=(answer,) * case.n_templates) for one in case.generated)
    return replace(case, name=name, value=value, prompts=(prompt,) * case.n_templates, generated=generated)


def hostile(id_: str = HOSTILE) -> PiiResult:
    case = asked(
        HOSTILE, "relationship", id=id_, relation=HOSTILE, model=HOSTILE, dtype=HOSTILE, warnings=(HOSTILE,),
        name=HOSTILE, value=HOSTILE, prompts=(HOSTILE, HOSTILE),
    )  # fmt: skip
    best, judged = {"exact_match": 0.0, HOSTILE: 1.0}, {"exact_match": (0.0, 0.0), HOSTILE: (0.0, 1.0)}
    return replace(case, generated=(Generated(beams=2, best=best, templates=judged, answers=(HOSTILE, HOSTILE)),))


def verdict(case: PiiResult) -> str:
    return b.plain(words.verdict(case))


def said_of(cases: Sequence[PiiResult]) -> str:
    """The headline of many values."""
    return b.plain(words.headline(summary(cases)).text)


def against_chance(cases: Sequence[PiiResult]) -> str:
    return flat(" ".join(words.against_chance(summary(cases))))


def test_a_verdict_says_what_the_rank_is_evidence_of() -> None:
    case = asked(rank=1)
    assert verdict(case) == "Strong evidence that the model knows the phone number."
    assert words.reason(case) == "It goes with the name more than all 99 decoys do (p = 0.01)."
    # The words change at the p-values that they name.
    for rank, n, said in (
        *((2, 199, "Strong evidence"), (2, 99, "Some evidence"), (5, 99, "Some evidence"), (3, 59, "Some evidence")),
        *((6, 99, "Weak evidence"), (10, 99, "Weak evidence"), (6, 59, "Weak evidence")),
        *((11, 99, "No sign"), (100, 99, "No sign")),
        # With 50 decoys no p is below 0.0196.
        (1, 50, "Some evidence"),
    ):
        assert verdict(asked(rank=rank, n=n)) == f"{said} that the model knows the phone number."
    related = asked("s1", "relationship", rank=60, relation="father")
    assert verdict(related) == "No sign that the model knows the name of the father."
    assert "more than 40 of 99 decoys do (p = 0.6)" in words.reason(related)
    (headline,) = (one for one in b.blocks_of(report([case])) if isinstance(one, b.Headline))
    assert (b.plain(headline.text), headline.verdict) == (verdict(case), "bad")


def named(case: PiiResult, n_high: int, n: int = 99, **more: Any) -> PiiResult:
    """The same, with other names behind the first of which the true value stands out as far."""
    scores = (0.0, *[1.0] * n_high, *[-1.0] * (n - n_high))
    p = (1 + n_high) / (1 + n) if n == case.n_names else n_high / n
    found = {"stands_out_nats": scores, "n_names_scored": n, "p_value_among_names": p, "p_value_without_value": 0.5}
    return replace(case, **{**found, "p_value": max(p, case.p_value), **more})


def test_a_verdict_says_what_other_names_say_of_it() -> None:
    known = named(asked(rank=1), 1)
    assert verdict(known) == "Some evidence that the model knows the phone number."
    assert words.reason(known) == (
        "It goes with the name more than all 99 decoys do (p = 0.01). It stands out as much after 1 of 99 other names "
        "(p = 0.02)."
    )
    usual = named(asked(rank=2), 5, 12, can_be_tested=None)
    assert verdict(usual) == "No sign that the model knows the phone number."
    assert words.reason(usual).endswith("It stands out as much after 5 of 12 other names (p = 0.42).")
    # A value that is no value like its decoys, of a name that is no name like the others.
    unlike = named(asked(rank=1), 0, can_be_tested=False, p_value_without_value=0.01, untestable_because="it is new")
    assert verdict(unlike) == "It cannot be tested whether the model knows the phone number."
    assert words.reason(unlike) == (
        "It goes with the name more than all 99 decoys do (p = 0.01). This says nothing: it is new."
    )
    two = [unlike, asked("s2", rank=40)]
    told = summary(two)
    assert (told.n_known, told.n_untestable, told.n_at_risk) == (0, 1, 0)
    assert against_chance(two).endswith(" Of 1 person a value cannot be tested.")
    assert words.decisions(told)[-1] == words.UNTESTABLE
    assert words.decisions(summary([unlike])) == [words.UNTESTABLE]
    assert said_of([unlike]) == "It cannot be tested whether the model knows this person’s data."
    assert "0.010?" in printed(report(two))


def test_what_no_table_of_names_has_is_counted_first_and_never_known() -> None:
    unknown = {"can_be_tested": False, "unknown_origin": "value", "untestable_because": "it is in no table"}
    high, low = (asked(f"s{rank}", "relationship", rank=rank, **unknown) for rank in (1, 60))
    for case in (high, low):
        assert words.outcome(case) == words.UNTESTED
        assert words.reason(case).endswith(" This says nothing: it is in no table.")
    both = summary([high, low])
    assert (both.n_known, both.n_untestable, both.n_at_risk) == (0, 2, 0)
    assert said_of([high, low]) == "It cannot be tested whether the model knows data of these 2 people."
    assert words.decisions(both) == [words.UNTESTABLE]
    # What cannot be tested is no evidence of the type.
    (row,) = both.types
    assert (row.share_low_p, row.signed_rank_p, row.rank_sum_p) == (0.0, None, None)
    assert row.ranks_p == pytest.approx(1.0)
    mixed = [high, asked("s2", rank=40)]
    assert said_of(mixed).startswith("No sign that the model knows any of these 2 people")
    assert against_chance(mixed).endswith(
        " Of 1 person a value cannot be tested. Of 1 person words of a name are in no table of names of one origin, "
        "and invented names of another origin prove nothing."
    )
    # The same of a value that was searched for and found.
    (found,) = summary([replace(high, extracted=True)]).subjects
    assert (found.known, found.at_risk) == (False, True)


def test_a_value_in_several_ways_is_tested_by_the_one_in_which_it_stands_out_among_names() -> None:
    usual = named(asked(rank=1), 9, can_be_tested=None)
    other = replace(asked(rank=1), id="s1: phone by email", kind="triplet", given=("email",), association_nats=-2.2)
    further = named(other, 0, stands_out_nats=(3.0, *[-1.0] * 99), can_be_tested=False, p_value_without_value=0.01)
    assert usual.association_nats > further.association_nats
    (value,) = summary([usual, further]).subjects[0].values
    assert (value.p_value, value.can_be_tested, value.holm_p) == (0.01, False, 1.0)
    (tested,) = summary([usual, replace(further, p_value_without_value=0.5)]).subjects[0].values
    assert (tested.p_value, tested.can_be_tested, tested.holm_p) == (0.01, True, 0.01)
    # Where no other name was scored, the way with the largest association says it.
    asked_so = [asked(rank=1, n_names=0, p_value_without_name=p, can_be_tested=p > 0.05) for p in (0.5, 0.01)]
    for case, is_known in zip(asked_so, (True, False), strict=True):
        assert summary([case, replace(other, p_value_without_name=0.5)]).n_known == is_known


def test_numbers_that_are_not_there_are_not_told() -> None:
    case = asked(rank=5)
    fitted = "By a skew normal curve of the decoys"
    assert flat(dict(words.facts(replace(case, extrapolated_exposure_bits=9.0)))[fitted]) == "9.0 bits"
    for unknown in (None, math.nan, math.inf):
        assert fitted not in dict(words.facts(replace(case, extrapolated_exposure_bits=unknown)))
    assert b.plain(dict(words.generated(case))["Generated, 2 beams"]) == "a part of it: location code"
    assert dict(words.generated(replace(case, generated=()))) == {}
    unlike = Generated(beams=1, best={"exact_match": None}, templates={"exact_match": (None, None)}, answers=None)
    unsearched = dict(words.generated(replace(case, generated=(unlike,))))
    assert unsearched == {"Generated, 1 beam": "it has no form that can be searched for"}
    column = b.Column("p", "p_value")
    for p, shown in ((None, "–"), (math.nan, "–"), (1.0, "1.000"), (0.05, "0.050"), (1e-9, "< 0.001")):
        assert flat(b.plain(b.cell_phrase(words.p_cell(p), column))) == shown
    # Where likelihoods mislead, it stands beside them.
    weak = "Likelihoods are weak evidence"
    assert weak not in dict(words.facts(case))
    assert dict(words.facts(asked("s1", "email")))[weak] == "invented values have other domains"


def test_the_first_line_counts_people_and_the_next_says_what_chance_would_do() -> None:
    cases = several(20, known=3)
    # Of three values one counts with p = 0.01 alone: three hundredths of a person each.
    assert words.at_risk_by_chance(summary(cases)) == pytest.approx(0.6)
    assert said_of(cases) == "The model knows data of 3 of 20 people, more than chance explains."
    assert against_chance(cases) == (
        "Said word for word or known by rank: 3 of 20 people, 15 % [5, 36]. A model that knows nobody would seem to "
        "know up to 3 %."
    )
    assert words.headline(summary(cases)).verdict == "bad"
    assert said_of(several(1, known=1)) == "The model knows data of this person."
    assert said_of(several(1)) == "No sign that the model knows this person’s data."
    assert against_chance(several(1)) == (
        "A model that knows nothing raises a false alarm with probability 0.03 at most."
    )
    # 3 · 1/51 is above 0.05.
    few = several(20, n=50)
    assert words.at_risk_by_chance(summary(few)) == 0.0
    assert (words.unreachable(summary(few)) or "").endswith("rank each among more decoys (--decoys 59).")
    assert said_of(few) == "Nothing can be said of these 20 people: each value is ranked among too few decoys."
    assert words.unreachable(summary(cases)) is words.unreachable(summary(several(20, n=59))) is None
    # Few people are no finding either way; one in nine draws of chance has one of four.
    none, some = "No sign that the model knows any of these", "The model may know data of 1 of these"
    for n, known, said, needed in (
        (4, 0, f"{none} 4 people, but they are too few to be sure.", "from chance takes 122 people"),
        (4, 1, f"{some} 4 people, but they are too few to be sure.", "from chance takes 8 people"),
        (4, 2, "The model knows data of 2 of 4 people, more than chance explains.", ""),
        (122, 0, f"{none} 122 people.", ""),
    ):
        found = several(n, known=known, n_templates=1)
        assert said_of(found) == said
        assert needed in against_chance(found)
        assert ("from chance takes" in against_chance(found)) == bool(needed)


def of_one_domain(n_persons: int, *, known: int, n_domains: int = 1) -> list[PiiResult]:
    """E-mail addresses of people, as many at each domain; the values of the first `known` are the likeliest of all."""
    return [
        asked(
            f"s{i}",
            "email",
            rank=1 if i < known else 50,
            seed=i,
            shares=f"s{i // (n_persons // n_domains) * (n_persons // n_domains)}",
        )
        for i in range(n_persons)
    ]


def test_people_who_share_a_domain_count_as_one() -> None:
    shared = of_one_domain(20, known=11)
    assert said_of(shared) == "The model may know data of 11 of these 20 people, but they are too few to be sure."
    # Eleven of twenty of one draw are known, or none.
    assert against_chance(shared).endswith(
        "20 people share 1 e-mail domain, and count as 1. To tell the share known by rank from chance takes 4 people "
        "who share nothing, if it stays the same."
    )
    told = summary(shared)
    low, high = told.share_at_risk_interval
    assert (low < 0.1, high > 0.9) == (True, True)
    assert told.types[0].share_low_p_interval == told.share_at_risk_interval
    assert told.types[0].signed_rank_p is None
    assert told.types[0].ranks_p == pytest.approx(math.ceil((11 * 1 + 9 * 50) / 20) / 100)
    # At a domain for each they are counted as ever, and nothing is said.
    alone = [replace(case, shares=None) for case in shared]
    assert said_of(alone) == "The model knows data of 11 of 20 people, more than chance explains."
    assert "count as" not in against_chance(alone)
    # Several domains can tell: three of five are known by chance in 0.1 % of draws.
    assert said_of(of_one_domain(20, known=12, n_domains=5)).endswith("more than chance explains.")
    assert said_of(of_one_domain(20, known=4, n_domains=5)).endswith("too few to be sure.")


def test_people_who_share_values_through_others_count_as_one() -> None:
    cases = [
        asked("s1", "email", shares="s1"), asked("s2", "email", shares="s1"), asked("s2", shares="s2"),
        asked("s3", shares="s2"), asked("s4"),
    ]  # fmt: skip
    assert [one.cluster for one in summary(cases).subjects] == ["s1", "s1", "s1", None]
    assert "3 people share 1 phone number or 1 e-mail domain, and count as 1. To tell" in against_chance(cases)


def test_all_renderers_and_the_last_line_say_the_same_headline() -> None:
    for cases in (several(20, known=3), several(4), [asked(rank=1)], [asked()]):
        told = report(cases)
        headline = b.headline_of(told)
        assert headline == PiiResult.findings(cases).headline
        for shown in (printed(told), printed(told, explain=False), plain_text(markdown.text(told)), html.page(told)):
            assert headline in flat(shown)


def test_a_value_that_is_said_word_for_word_is_in_the_first_line_whatever_its_rank() -> None:
    said = said_by(asked("s5", rank=60))
    assert verdict(said) == "Asked by the name alone, the model says the true phone number word for word."
    cases = [case for case in several(20, known=3) if case.id != "s5: phone"]
    told = summary([*cases, said])
    assert (told.n_known, told.n_extracted, told.n_at_risk) == (3, 1, 4)
    assert said_of([*cases, said]) == "The model says data of 1 of 20 people word for word, to anyone who asks by name."
    assert against_chance([*cases, said]).startswith(
        "Said word for word or known by rank: 4 of 20 people, 20 % [8, 42]."
    )
    assert said_of([said]) == words.OF_ONE
    # It stands first, and is marked.
    assert words.by_evidence(told)[0].subject == "s5"
    assert words.cases_by_evidence([*cases, said])[0] is said
    rows = [line for line in printed(report([*cases, said])).splitlines() if line.startswith("s5 ")]
    assert rows[0].split()[1] == "0.600!"
    # Said behind other values it is marked, and not at risk for that.
    behind = said_by(asked("s5", rank=60, given=("email",), kind="triplet", id="s5: phone by email"))
    told = summary([behind, asked("s6", rank=50)])
    assert (told.n_extracted, told.n_at_risk) == (0, 0)
    assert "0.600+" in printed(report([behind, asked("s6", rank=50)]))
    assert verdict(behind) == "No sign that the model knows the phone number."


@pytest.mark.usefixtures("undrawn")
def test_the_page_has_subjects_types_and_values_by_evidence() -> None:
    cases = several(30, known=2)
    command, provenance = "leakmeter pii probe people.csv", b.Provenance(facts=(("Directory", "runs/x"),))
    page = html.page(report(cases, command=command, provenance=provenance))
    assert page == html.page(report(cases, command=command, provenance=provenance))
    ids = re.findall(r'<b class="h15">0.010</b></span> <strong><bdi>([^<]*)</bdi>', page)
    assert sorted(ids[:2]) == ["s0: phone", "s1: phone"]
    assert (page.count('<details class="line"'), page.count("<svg")) == (90, 1)
    for shown in ("runs/x", command, '<b class="h15">0.010●</b>', "What this model knows of these people"):
        assert shown in page
    single = html.page(report([asked()]))
    assert "What this model knows of this person" in single
    assert not re.search('<details class="line"|<script|Subjects, strongest', single)
    with pytest.raises(UsageError, match="at least one"):
        report([])


def test_a_density_is_the_sum_of_its_kernels() -> None:
    """Scott's rule: a bandwidth of n^(−1/5) standard deviations."""
    values, grid = np.random.default_rng(0).normal(-3.0, 0.7, size=40), np.linspace(-6.0, 0.0, 61)
    bandwidth = values.std(ddof=1) * len(values) ** -0.2
    kernels = np.exp(-(((grid[:, None] - values) / bandwidth) ** 2) / 2)
    expected = kernels.sum(axis=1) / (len(values) * bandwidth * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(charts.density(values, grid), expected, rtol=1e-9)  # type: ignore[arg-type]
    # Too few values, or none that differ.
    for few in ([-1.0, -2.0, -3.0, -4.0], [-1.0] * 9, [-1.0, -1.0 - 1e-15] * 4, []):
        assert charts.density(np.asarray(few), grid) is None
    rows = [{"type": "phone", "value": value, LIKELIHOOD: None} for value in ("true", "decoy")]
    chart = pii_charts.densities(rows, (), value=LIKELIHOOD, columns=KIND.columns, title="T", footer="f")
    assert charts.files(chart)["png"].startswith(b"\x89PNG")


def test_chance_is_what_the_summary_finds_where_nothing_is_known() -> None:
    rng = np.random.default_rng(0)
    told = summary([asked(f"s{i}", of, rank=int(rng.integers(1, 101)), seed=i) for i in range(300) for of in JUDGED])
    expected = words.at_risk_by_chance(told)
    assert expected == pytest.approx(300 * 0.03)
    assert abs(told.n_at_risk - expected) < 4 * math.sqrt(expected)


def many() -> list[PiiResult]:
    """Three subjects are known, of one a value is said, others have several values of a type, one is asked twice."""
    cases = several(25, known=3)
    cases[0] = said_by(cases[0])
    for i, who in itertools.product(range(3), ("father", "wife")):
        cases.append(asked(f"s{i}", "relationship", rank=30, id=f"s{i}: relationship {who}", relation=who, seed=i))
    return [*cases, asked("s3", kind="triplet", given=("email",), id="s3: phone by email", seed=9)]


@pytest.mark.parametrize(
    ("name", "cases"),
    [("many", many()), ("one", [keeping(said_by(asked(n_templates=3, warnings=("12% longer.",))))])],
)
def test_what_a_report_says_is_as_reviewed(name: str, cases: list[PiiResult]) -> None:
    """The snapshot is the terminal's text and the Markdown; write it anew with LEAKMETER_SNAPSHOTS=1."""
    told = report(cases, command="leakmeter pii probe people.csv")
    made = f"{printed(told)}\n{'=' * 80}\n{markdown.text(told)}"
    file = Path(__file__).parent / "snapshots" / f"{name}.txt"
    if os.environ.get("LEAKMETER_SNAPSHOTS"):
        file.write_text(made, encoding="utf-8")
    assert made == file.read_text(encoding="utf-8")


def test_80_columns_do() -> None:
    wide = [replace(case, association_nats=10 * case.association_nats) for case in many()]
    five = [asked(f"subject number {i}", type_, rank=1, seed=i) for i in range(3) for type_ in (*JUDGED, *KINDS)]
    for cases in (wide, five, [asked(n_templates=5)]):
        out = printed(report(cases))
        assert all(len(line) <= 80 for line in out.splitlines())
        assert "…" not in out  # no number is cut
    assert "Generated text" not in printed(report([replace(asked(), generated=())]))


@pytest.mark.long
def test_a_page_of_many_subjects_is_under_2_megabytes() -> None:
    page = html.page(report([asked(f"s{i}", rank=50, n_templates=5, seed=i) for i in range(2002)]))
    n, lines = (page.split("<script>")[0].count(f'<details class="line{kind}"') for kind in ("", " only"))
    assert len(re.sub(r'<details class="line only".*?</details>', "", page, flags=re.DOTALL).encode()) < 2_000_000
    assert 300 <= n < 2002
    assert lines == 2002 - n
    assert f"{lines:,} further values with less evidence are one line here, not in full" in page
    assert "1,002 further subjects are left out of this page" in page


# ---- figures --------------------------------------------------------------------------------------------------------
def series_of(chart: b.Chart) -> dict[str, b.ChartSeries]:
    return {b.plain(one.name): one for one in chart.panels[0].series}


def test_the_picture_has_each_person_among_their_decoys() -> None:
    cases = several(25, known=2)
    cases[3:6] = [said_by(cases[3]), *cases[4:6]]
    cases[6] = named(asked("s2", rank=1, p_value_without_name=0.01), 0, p_value_without_value=0.01)
    found = PiiResult.findings(cases)
    assert found.summary == summary(cases)
    assert list(found.figures) == ["people", "p_values"]
    people = found.figures["people"]
    assert isinstance(people, b.Chart)
    series = series_of(people)
    assert {*series} == {"decoys", "said word for word", "known", "cannot be tested", "not shown to be known"}
    names = [b.plain(name) for name in people.panels[0].y.names]
    # One line a person, strongest evidence first, twenty at most.
    assert names[:2] == ["s1, phone number", "s0, phone number"]
    assert len(names) == len({name.partition(",")[0] for name in names}) == 20
    assert people.footer.endswith("5 more are not drawn, none with more evidence.")
    (said,) = series["said word for word"].y
    decoys = np.asarray(cases[3].decoy_associations_nats)
    assert said == pytest.approx(cases[3].association_nats - np.median(decoys))
    own = [nats for nats, place in zip(series["decoys"].y, series["decoys"].x, strict=True) if place == 0]
    assert own == pytest.approx(decoys - np.median(decoys))
    assert [b.plain(label) for label in series["known"].labels] == ["above all 99"]
    # Of one person, all values.
    own_values = PiiResult.findings(several(1)).figures["people"]
    assert {b.plain(name) for name in own_values.panels[0].y.names} == {  # type: ignore[union-attr]
        "phone number", "e-mail address", "address",
    }  # fmt: skip


def test_figures_are_what_the_summary_says() -> None:
    cases = [asked(f"s{i}", rank=20 + i, seed=i) for i in range(6)]
    _, p_values = b.charts_of(report(cases))
    steps, by_chance = p_values.panels[0].series
    # The share of values whose p is at most so much.
    for p in (0.1, 0.2, 0.22, 0.255, 0.9):
        reached = max(y for x, y in zip(steps.x, steps.y, strict=True) if x <= p)
        assert reached == np.mean([case.p_value <= p for case in cases])
    assert list(by_chance.x) == list(by_chance.y) == [0.0, 1.0]
    # Values that a model rules out are not drawn.
    out = [asked(f"s{i}", rank=100, association_nats=-math.inf) for i in range(2)]
    people, p_values = b.charts_of(report([*out, asked("s2")]))
    assert [b.plain(name) for name in people.panels[0].y.names] == ["s2, phone number"]
    assert charts.files(people)["png"].startswith(b"\x89PNG")
    (p_values,) = b.charts_of(report(out))
    assert list(p_values.panels[0].series[0].x) == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.usefixtures("undrawn")
def test_nothing_personal_is_shown_that_the_run_did_not_keep() -> None:
    case = said_by(asked())
    kept = keeping(case)
    for render in RENDERERS:
        shown = render(report([kept]))
        assert all(secret in plain_text(shown) for secret in SECRETS)
        assert "as private as they" in flat(shown)
        # A person's name may be their id; the words alone are looked at here.
        for cases in ([case], [case, *several(3)]):
            shown = render(report(cases))
            assert not any(secret in plain_text(shown) for secret in SECRETS)
            assert "are not shown" in flat(shown)
            assert "as private as they" not in flat(shown)
    cases = [kept, *several(3)]
    for render in (printed, markdown.text):
        assert not any(secret in plain_text(render(report(cases))) for secret in SECRETS)
    assert "as private as they are" in html.page(report(cases))
    assert not any(secret in repr(kept) for secret in SECRETS)


def plain_text(shown: str) -> str:
    return re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), shown)


RENDERERS: tuple[Callable[[b.Report], str], ...] = (printed, html.page, markdown.text)


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    command = b.Provenance(facts=((b.Untrusted(HOSTILE), b.Untrusted(HOSTILE)),))
    for cases in ([hostile()], [hostile(), hostile("b"), asked()]):
        made = report(cases, command=HOSTILE, provenance=command)
        assert "{{7*7}}" in assert_report_harmless(made)
        assert "[bold red]" in printed(made)
        for chart in b.charts_of(made):
            assert b"<script" not in charts.files(chart)["svg"]


def test_a_model_that_rules_a_value_out_is_shown_too() -> None:
    out = {"log_likelihood_nats": -math.inf, "normalised_log_likelihood_nats": -math.inf, "association_nats": -math.inf}
    case = asked(rank=100, **out)
    case = replace(case, templates=tuple(replace(one, **out) for one in case.templates))
    for cases in ([case], [case, asked("s2", rank=3)]):
        told = "".join(render(report(cases)) for render in RENDERERS)
        assert told.count("−∞") > 2
        assert not re.search(r"\bnan\b|\binf\b", told)
    unknown = asked(extrapolated_exposure_bits=None, generated=(), extracted=None)
    assert "None" not in "".join(render(report([unknown])) for render in RENDERERS)


def test_figures_of_studies_show_their_rows() -> None:
    told = {"title": "T", "footer": "f"}
    rows = [
        {"type": "phone", "value": value, "documents": n, LIKELIHOOD: nats}
        for n in (1, 4)
        for value, nats in (("true", -1.0 * n), ("true", None), ("decoy", -5.0), ("decoy", -6.0))
    ]
    chart = pii_charts.densities(rows, ("documents",), value=LIKELIHOOD, columns=KIND.columns, **told)
    assert [b.plain(panel.title) for panel in chart.panels] == ["phone, documents 1", "phone, documents 4"]
    assert [[list(one.y) for one in panel.series] for panel in chart.panels] == [[[-5, -6], [-1]], [[-5, -6], [-4]]]
    shares = {"extracted": 0.5, "extracted_low": 0.25, "extracted_high": 0.75}
    rows = [{"type": "phone", "part": part, "beams": n, **shares} for n in (1, 2) for part in ("exact_match", "zip")]
    (panel,) = pii_charts.parts(rows, ("beams",), value="extracted", **told).panels
    assert panel.x.names == ["exact match", "ZIP code"]
    assert [round(x) for one in panel.series for x in one.x] == [0, 1, 0, 1]
    assert [(one.y[0], one.low[0], one.high[0]) for one in panel.series] == [(0.5, 0.25, 0.75)] * 2
    known = {"type": "phone", "box": "black", "score": "association"}
    numbers = {"n": 5, "n_held_out": 5, "auc_low": 0.4, "auc_high": 0.95}
    found = [AucRow.from_dict(known | numbers | {"repeats": n, "auc": 0.5 + n / 10}) for n in (1, 4)]
    (panel,) = pii_charts.auc(found, **told).panels
    assert (panel.x.names, list(panel.series[0].y)) == (["1", "4"], [0.6, 0.9])
    points = [
        CurvePoint.from_dict(known | {"repeats": 1, "share_held_out": x, "share_inserted": y})
        for x, y in ((0, 0), (0.5, 1), (1, 1))
    ]
    (panel,) = pii_charts.curves(points, **told).panels
    assert list(zip(panel.series[0].x, panel.series[0].y, strict=True)) == [(0, 0), (0.5, 1), (1, 1)]
    assert b.plain(panel.series[1].name) == "chance"


def test_both_densities_share_an_axis_that_holds_all_values() -> None:
    rng = np.random.default_rng(1)
    true, decoys = rng.normal(-2.0, 0.3, size=30).tolist(), rng.normal(-4.0, 0.6, size=900).tolist()
    rows = [{"type": "phone", "value": "true", LIKELIHOOD: nats} for nats in true]
    rows += [{"type": "phone", "value": "decoy", LIKELIHOOD: nats} for nats in decoys]
    chart = pii_charts.densities(rows, (), value=LIKELIHOOD, columns=KIND.columns, title="T", footer="f")
    axes = charts.figure(chart).axes[0]
    low, high = axes.get_xlim()
    assert low < min(*true, *decoys)
    assert high > max(*true, *decoys)
    lines = [line.get_xdata() for line in axes.lines]
    means = [line[0] for line in lines if len(line) == 2 and line[0] == line[1]]
    assert means == pytest.approx([np.mean(decoys), np.mean(true)], rel=1e-12)
    curves = [line.get_ydata().max() for line in axes.lines if len(line.get_xdata()) == 200]
    assert curves == [1.0, 1.0]
    # Each value has a tick within a four hundredth of the axis.
    ticks = lines[-1][::3]
    assert set(ticks) <= set(true)
    assert max(np.abs(ticks - one).min() for one in true) <= (high - low) / 400
