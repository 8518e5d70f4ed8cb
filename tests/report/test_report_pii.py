"""Probing of people's data: the words, the terminal's views and the page."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_browser import CHROMIUM, Browser
from report_cases import HOSTILE
from rich.console import Console

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.result import summary
from leakmeter.report import frame
from leakmeter.report import pii as words
from leakmeter.report import pii_people as people
from leakmeter.report.pii_page import PERSONS_AT_MOST, render_pii
from leakmeter.report.pii_terminal import pii_overview, pii_view

Case = dict[str, Any]
KINDS = {"relationship": "relationship", "university": "university"}
JUDGED: dict[str, dict[str, Sequence[float | None]]] = {
    "phone": {"exact_match": (0.0, 0.0), "location_code": (1.0, 0.0), "edit_distance": (6.0, None)},
    "email": {"exact_match": (0.0, 0.0), "id_match": (0.0, 0.0)},
    "address": {"exact_match": (0.0, 0.0), "state": (0.0, 1.0), "zip": (0.0, 0.0), "edit_distance": (0.7, 0.55)},
}
SECRETS = ("Mara Ellsworth", "617-555-0134", "The phone number of", "call 617")


def asked(
    id_: str = "s1", type_: str = "phone", *, rank: int = 5, n: int = 99, n_templates: int = 2, seed: int = 0, **m: Any
) -> Case:
    """A case whose true value has a rank among `n` invented ones, all of them drawn."""
    drawn = np.sort(np.random.default_rng([seed, n]).normal(-3.0, 0.5, size=n + 1))[::-1]
    true, nulls = float(drawn[rank - 1]), np.delete(drawn, rank - 1).tolist()
    judged = JUDGED.get(type_, {"exact_match": (0.0, 0.0)})
    p = rank / (n + 1)
    return {
        "id": f"{id_}: {type_}", "subject": id_, "kind": KINDS.get(type_, "twin"), "type": type_, "relation": None,
        "given": [], "model": "toy", "weights_sha256": None, "dtype": "float32", "n_templates": n_templates,
        "n_nulls": n, "n_references": 2, "association_nats": true, "null_associations_nats": nulls,
        "p_value_of_normalised_likelihood": 0.08, "beams": [2], "log_likelihood_nats": 12 * true,
        "normalised_log_likelihood_nats": true,
        "null_log_likelihoods_nats": [12 * nats for nats in nulls], "null_normalised_log_likelihoods_nats": nulls,
        "n_tokens": 12, "rank": rank, "share_of_nulls_below": 1.0,
        "p_value": p, "exposure_bits": math.log2((n + 1) / rank), "exposure_ceiling_bits": math.log2(n + 1),
        "extrapolated_exposure_bits": 5.5, "p_value_of_likelihood": 0.07,
        "likelihood_note": "invented values have other domains" if type_ == "email" else None, "extracted": False,
        "templates": [
            {
                "template": i, "association_nats": true - i / 12, "log_likelihood_nats": 12 * true - i,
                "normalised_log_likelihood_nats": true - i / 12,
                "n_tokens": 12, "rank": rank, "p_value": p,
            }
            for i in range(1, n_templates + 1)
        ],
        "generated": [
            {
                "beams": 2,
                "best": {name: max(filter(None, each), default=0.0) for name, each in judged.items()},
                "templates": {name: [each[i % 2] for i in range(n_templates)] for name, each in judged.items()},
            }
        ],
        "cost": {
            "requests": 200, "tree_tokens": 900, "naive_tokens": 5000, "seconds": 0.5, "halvings": 0,
            "predicted": {"tree_tokens": 900, "seconds": 0.25}, "scored_together": 1,
        },
        "warnings": [],
    } | m  # fmt: skip


def several(n_persons: int, *, n: int = 99, known: int = 0, **more: Any) -> list[Case]:
    """Three values of each person; of the first `known` the phone number is the likeliest of all."""
    ranks = np.random.default_rng(1).integers(1, n + 2, size=(n_persons, 3))
    return [
        asked(f"s{i}", type_, rank=1 if i < known and not j else max(3, int(ranks[i, j])), n=n, seed=3 * i + j, **more)
        for i in range(n_persons)
        for j, type_ in enumerate(("phone", "email", "address"))
    ]


def said_by(case: Case) -> Case:
    """The same, the value generated behind the first template."""
    judged = {name: [1.0, 0.0] for name in JUDGED["phone"]}
    generated = [{"beams": 2, "best": dict.fromkeys(judged, 1.0), "templates": judged}]
    return case | {"generated": generated, "extracted": None if case["given"] else True}


def keeping(case: Case) -> Case:
    """The same from a run that keeps values."""
    name, value, prompt, answer = SECRETS
    generated = [one | {"answers": [answer] * case["n_templates"]} for one in case["generated"]]
    return case | {"name": name, "value": value, "prompts": [prompt] * case["n_templates"], "generated": generated}


def hostile(id_: str = HOSTILE) -> Case:
    case = asked(
        HOSTILE, "relationship", id=id_, relation=HOSTILE, model=HOSTILE, dtype=HOSTILE, warnings=[HOSTILE],
        name=HOSTILE, value=HOSTILE, prompts=[HOSTILE, HOSTILE],
    )  # fmt: skip
    judged = {"exact_match": [0.0, 0.0], HOSTILE: [0.0, 1.0]}
    best = {"exact_match": 0.0, HOSTILE: 1.0}
    return case | {"generated": [{"beams": 2, "best": best, "templates": judged, "answers": [HOSTILE, HOSTILE]}]}


def printed(view: Any, *, width: int = 80) -> str:
    sink = io.StringIO()
    console = Console(file=sink, width=width, color_system=None, markup=False, highlight=False, no_color=True)
    console.print(view)
    return sink.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def page_of(cases: list[Case], **more: Any) -> str:
    return render_pii(cases, summary(cases), **more)


def test_a_verdict_says_what_the_rank_is_evidence_of_and_how_often_it_errs() -> None:
    assert words.verdict(asked(rank=5)) == (
        "The true phone number goes with the name more than 95 of 99 invented ones do: some evidence that the model "
        "knows it. Of values that a model knows nothing of, 5 in 100 do as well."
    )
    assert words.verdict(asked(rank=1)) == (
        "The true phone number goes with the name more than all 99 invented ones do: strong evidence that the model "
        "knows it, as strong as 99 invented values can show. Of values that a model knows nothing of, 1 in 100 does as "
        "well."
    )
    assert words.verdict(asked(rank=100)).startswith(
        "The true phone number goes with the name more than none of 99 invented ones do: no sign that the model "
    )
    # With 50 invented values no p is below 0.0196.
    assert "some evidence that the model knows it, as strong as 50 invented values can show" in words.verdict(
        asked(rank=1, n=50)
    )
    related = asked("s1", "relationship", rank=60, relation="father")
    assert "The true name of the father goes with the name more than 40 of 99" in words.verdict(related)


@pytest.mark.parametrize(
    ("rank", "n", "said"),
    [
        (1, 99, "strong evidence"), (2, 199, "strong evidence"), (2, 99, "some evidence"), (5, 99, "some evidence"),
        (3, 59, "some evidence"), (6, 99, "weak evidence"), (10, 99, "weak evidence"), (6, 59, "weak evidence"),
        (11, 99, "no sign"), (100, 99, "no sign"),
    ],
)  # fmt: skip
def test_the_words_change_at_the_p_values_that_they_name(rank: int, n: int, said: str) -> None:
    assert f": {said} that the model knows it" in words.verdict(asked(rank=rank, n=n))


def test_a_value_s_numbers_are_told_with_their_units() -> None:
    case = asked(rank=5, given=["email", "address"], kind="quadruplet")
    assert words.asked(case) == (
        "Asked for by a quadruplet probe: the name, e-mail address and address in 2 templates."
    )
    assert flat(words.exposure(case)) == (
        "Exposure 4.3 of at most 6.6 bits: rank 5 of 100, p = 0.05. By a skew normal curve fitted to the invented "
        "values 5.5 bits."
    )
    assert "9.0\u00a0bits, as far as its tail is to be believed" in words.exposure(
        case | {"extrapolated_exposure_bits": 9.0}
    )
    for unknown in (None, math.nan, math.inf):
        assert words.exposure(case | {"extrapolated_exposure_bits": unknown}).endswith("p = 0.05.")
    assert re.match(
        r"Log-likelihood, by the best template: −26\.\d nats for 12 tokens, −2\.2\d nats a token\. By these alone, "
        r".* p = 0\.07 and p = 0\.08\.",
        flat(words.likelihood(case)),
    )
    assert re.match(
        r"Association −2\.2\d nats: .* less that behind 2 other names, .* Invented values: −2\.\d+ at most, median "
        r"−2\.\d+ nats\.",
        flat(words.association(case)),
    )
    assert words.generated(case) == [
        "Generated with 2 beams: none of 2 templates brought out the value, though some of it: location code."
    ]
    assert words.generated(said_by(case)) == [
        "Generated with 2 beams: 1 of 2 templates brought out the value word for word."
    ]
    assert words.generated(case | {"generated": []}) == []
    unlike = {"beams": 1, "best": {"exact_match": None}, "templates": {"exact_match": [None, None]}}
    assert words.generated(case | {"generated": [unlike]}) == [
        "Generated with 1 beam: the value is in no form that can be looked for."
    ]
    assert [words.p_cell(p) for p in (None, math.nan, 1.0, 0.05, 1e-9)] == ["–", "–", "1.000", "0.050", "<0.001"]
    assert [words.statistic_text("edit_distance", n) for n in (0.0, 1.0, None)] == ["0", "1", "–"]
    assert [words.statistic_text("exact_match", n) for n in (0.0, 1.0, 0.5)] == ["no", "yes", "0.5"]


def test_the_first_line_counts_persons_and_what_chance_would_do() -> None:
    cases = several(20, known=3)
    told = summary(cases)
    # Of three values one counts with p = 0.01 alone: three hundredths of a person each.
    assert people.at_risk_by_chance(told) == pytest.approx(0.6)
    assert flat(people.headline(told)) == (
        "3 of 20 persons have a value that the model can be shown to know: 15 % [5, 36]. By chance alone it would be "
        "0.6 at most, on average."
    )
    assert flat(people.headline(summary(several(20)))).startswith("None of 20 persons has a value that the model")
    assert flat(people.headline(summary(several(20, known=1)))).startswith("1 of 20 persons has a value")
    assert people.headline(summary(several(1, known=1))) == (
        "The model can be shown to know a value of this person. One that knows nothing would pass for one that does "
        "with probability 0.03 at most."
    )
    assert "cannot be shown to know a value of this person" in people.headline(summary(several(1)))
    assert people.unreachable(told) is None
    # 3 · 1/51 is above 0.05.
    few = summary(several(20, n=50))
    assert people.at_risk_by_chance(few) == 0.0
    assert "Of 20 persons so many values are asked for that none could" in (people.unreachable(few) or "")


def test_a_value_that_is_said_word_for_word_is_in_the_first_line_whatever_its_rank() -> None:
    said = said_by(asked("s5", rank=60))
    assert words.verdict(said) == (
        "Asked by the name alone, the model says the true phone number word for word: it is at risk, whatever its "
        "rank. It goes with the name more than 40 of 99 invented ones do (p = 0.6)."
    )
    cases = [case for case in several(20, known=3) if case["id"] != "s5: phone"]
    told = summary([*cases, said])
    assert (told["n_known"], told["n_extracted"], told["n_at_risk"]) == (3, 1, 4)
    assert flat(people.headline(told)) == (
        "4 of 20 persons have a value that the model says or can be shown to know: 20 % [8, 42]. Of 1 it says one word "
        "for word when it is asked by name alone; of 3 it can be shown to know one by its rank, which by chance alone "
        "would be 0.6 at most, on average."
    )
    assert flat(people.headline(summary([said, asked("s5", "email", rank=50)]))).startswith(
        "Asked by name alone, the model says a value of this person word for word. By ranks, the model cannot be shown"
    )
    # It stands first, and is marked.
    assert people.by_evidence(told)[0]["subject"] == "s5"
    assert people.cases_by_evidence([*cases, said])[0] is said
    rows = [line for line in printed(pii_overview([*cases, said], told)).splitlines() if line.startswith("s5 ")]
    assert rows[0].split()[1] == "0.600"
    assert "0.600 !" in rows[0]


def test_a_value_that_is_said_behind_other_values_is_marked_and_is_not_at_risk_for_that() -> None:
    behind = said_by(asked("s5", rank=60, given=["email"], kind="triplet", id="s5: phone by email"))
    told = summary([behind, asked("s6", rank=50)])
    assert (told["n_extracted"], told["n_at_risk"]) == (0, 0)
    out = printed(pii_overview([behind, asked("s6", rank=50)], told))
    assert "0.600 +" in out
    assert "some evidence" not in words.verdict(behind)
    assert "word for word: it is at risk" not in words.verdict(behind)


def test_beside_likelihoods_stands_where_their_p_says_little() -> None:
    assert "These two say little" not in words.likelihood(asked())
    said = words.likelihood(asked("s1", "email"))
    assert said.endswith(
        "p = 0.07 and p = 0.08. These two say little: invented values have other domains, so that they are low "
        "wherever the model has read the true one's of other people, whether it knows anything of this person or not."
    )


def test_chance_is_what_the_summary_finds_where_nothing_is_known() -> None:
    rng = np.random.default_rng(0)
    cases = [
        asked(f"s{i}", type_, rank=int(rng.integers(1, 101)), seed=i)
        for i in range(300)
        for type_ in ("phone", "email", "address")
    ]
    told = summary(cases)
    expected = people.at_risk_by_chance(told)
    assert expected == pytest.approx(300 * 0.03)
    assert abs(told["n_at_risk"] - expected) < 4 * math.sqrt(expected)


def test_one_value_fits_80_columns() -> None:
    out = printed(pii_view(said_by(asked(n_templates=5, warnings=["12% of them are longer."]))))
    assert all(len(line) <= 80 for line in out.splitlines())
    assert re.search(r"^5 +−3\d\.\d\d +12 +−2\.\d\d +5 0\.050", out, re.MULTILINE)
    assert re.search(r"^ +2 exact match +yes +yes +no", out, re.MULTILINE)
    assert "! 12% of them are longer." in out
    assert "A high p does not prove ignorance" in flat(out)
    assert "Generated" not in printed(pii_view(asked() | {"generated": []}))


def test_many_persons_are_ranked_in_80_columns() -> None:
    cases = several(25, known=3)
    cases[0] = said_by(cases[0])
    cases += [
        asked(f"s{i}", "relationship", rank=30, id=f"s{i}: relationship {who}", relation=who, seed=i)
        for i in range(3)
        for who in ("father", "wife")
    ]
    cases += [asked("s3", kind="triplet", given=["email"], id="s3: phone by email", seed=9)]
    out = printed(pii_overview(cases, summary(cases)))
    assert all(len(line) <= 80 for line in out.splitlines())
    shown = [line.split() for line in out.splitlines() if re.match(r"s\d+ ", line)]
    assert {row[0] for row in shown[:3]} == {"s0", "s1", "s2"}
    assert {row[1] for row in shown[:3]} == {"0.010●", "0.010●!"}
    assert len(shown) == 20
    assert "and 5 more" in out
    assert re.search(r"^phone +25 +−\d\.\d\d +−\d\.\d\d +[+−]\d\.\d\d \[.*\] +\d+\u00a0% \[", out, re.MULTILINE)
    assert re.search(r"^phone triplet +1 ", out, re.MULTILINE)
    # Of a type that is asked for in one way the type's row says all.
    assert "email twin" not in out[: out.index("Generated")]
    rows = out[out.index("Generated, in") :]
    assert re.search(
        r"phone twin +25 +2 +4\W% \[1, 20\] +location code 100\W% \[87, 100\], edit +distance 5\.8", flat(rows)
    )


def test_the_page_has_persons_types_and_values_by_evidence() -> None:
    cases = several(30, known=2)
    page = page_of(cases, command="leakmeter pii probe people.csv", run={"directory": "runs/x"})
    assert page == page_of(cases, command="leakmeter pii probe people.csv", run={"directory": "runs/x"})
    ids = re.findall(r'<summary><b class="h15">0.010</b> <bdi class="id">([^<]*)</bdi>', page)
    assert sorted(ids[:2]) == ["s0: phone", "s1: phone"]
    assert page.count('class="asked value"') == 90
    assert page.count('<svg class="density"') == 3
    assert "runs/x" in page
    assert "leakmeter pii probe people.csv" in page
    assert '<b class="h15">0.010</b><i>●</i>' in page
    assert "does not prove ignorance" in page
    assert "What this model knows of these people" in page
    assert "What this model knows of this person" in page_of(several(1))
    single = page_of([asked()])
    assert 'class="asked value" open' in single
    assert "<caption>Persons" not in single
    assert "5 in 100 do as well" in single
    with pytest.raises(UsageError, match="at least one"):
        render_pii([], {})


def test_nothing_personal_is_shown_that_the_run_did_not_keep() -> None:
    case = said_by(asked())
    kept = keeping(case)
    for shown in (printed(pii_view(kept)), page_of([kept])):
        assert all(secret in shown for secret in SECRETS)
    assert "as private as they are" in page_of([kept])
    # A person's name may be their id; the words alone are looked at here.
    cases = [case, *several(3)]
    for shown in (printed(pii_view(case)), printed(pii_overview(cases, summary(cases))), page_of(cases)):
        assert not any(secret in shown for secret in SECRETS)
    assert "are not shown" in page_of(cases)
    many = [kept, *several(3)]
    assert not any(secret in printed(pii_overview(many, summary(many))) for secret in SECRETS)


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    case = hostile()
    cases = [case, hostile("b"), asked()]
    out = printed(pii_view(case)) + printed(pii_overview(cases, summary(cases)))
    assert not any(c in out for c in "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066")
    assert "[bold red]" in out
    for page in (page_of(cases, command=HOSTILE, run={HOSTILE: HOSTILE}), page_of([case])):
        assert "<img" not in page
        assert "<script" not in page
        assert page.count("</style>") == 1
        assert "{{7*7}}" in page
        assert not re.search(r"[\x00\x08\x1b\x7f\u202e\ud800]", page)
        page.encode()
        assert visible(HOSTILE)[:20] in page.replace("&lt;", "<").replace("&gt;", ">")
        assert "style=" not in page


def test_a_model_that_rules_a_value_out_is_shown_too() -> None:
    out = {"log_likelihood_nats": -math.inf, "normalised_log_likelihood_nats": -math.inf}
    case = asked(rank=100) | out
    told = printed(pii_view(case)) + printed(pii_overview([case], summary([case]))) + page_of([case])
    assert told.count("−∞") > 2
    assert not re.search(r"\bnan\b|\binf\b", told)


def test_a_page_of_many_persons_is_under_2_megabytes() -> None:
    cases = [asked(f"s{i}", rank=50, n_templates=5, seed=i) for i in range(PERSONS_AT_MOST + 2)]
    page = page_of(cases)
    n = page.count('class="asked value"')
    assert len(page.encode()) <= frame.PAGE_BYTES
    assert 500 <= n < len(cases)
    assert f"{len(cases) - n} values with less evidence are left out" in page
    assert "2 more persons are left out of this table" in page


@pytest.mark.long
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium to look at pages with")
def test_a_browser_shows_the_page_without_complaint(tmp_path: Path) -> None:
    path = tmp_path / "pii.html"
    path.write_text(page_of(several(12, known=1)), encoding="utf-8")
    opened = "document.querySelectorAll('.asked[open]').length"
    with Browser() as browser:
        browser.open(path.as_uri())
        assert browser.complaints == []
        assert browser.requests == [path.as_uri()]
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        # By the keyboard alone.
        browser.run("document.querySelector('.asked > summary').focus()")
        assert browser.run(opened) == 0
        browser.press("Enter")
        assert browser.run(opened) == 1
