"""The sequential test of decoys: its p-values where nothing is known, and its verdicts beside the full test's."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.examples import few
from leakmeter.backends.toy import Toy
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.request import Scores
from leakmeter.engine.ready import make_ready
from leakmeter.errors import ScoreError
from leakmeter.instruments.pii import words
from leakmeter.instruments.pii.canaries import canaries_of
from leakmeter.instruments.pii.decoy_test import (
    AT_RISK,
    batch_ends,
    exposure_of,
    is_bound,
    n_high_of,
    p_below,
    p_of,
    rank_interval,
    rank_of,
    stopped_at,
    stops_at,
    unselected,
)
from leakmeter.instruments.pii.decoys import control_names_of
from leakmeter.instruments.pii.measure import TOGETHER, DecoyTest, Pii
from leakmeter.instruments.pii.probe import ProbeKind, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.result import PiiResult, summary
from leakmeter.instruments.pii.subject import RelatedPerson, Subject
from leakmeter.stats.ranks import holm, rank_p, ranks_p

SIZES = (50, 60, 99, 999)


def sequential(scores: np.ndarray) -> np.ndarray:
    """The scores up to where the test stops."""
    end = stopped_at(scores, len(scores) - 1)
    return scores if end is None else scores[: 1 + end]


def test_how_many_end_the_test() -> None:
    for n in range(50, 2000):
        h = stops_at(n)
        assert h / n > AT_RISK >= (h - 1) / n - 1e-12
        assert (1 + h) / (1 + n) > AT_RISK
        *_, last = batch_ends(n)
        assert last == n
        assert next(batch_ends(n)) == 2 * h
    assert [stops_at(n) for n in SIZES] == [3, 4, 5, 50]


def test_p_written_out() -> None:
    # Of 60 decoys 4 end the test; the true value scores 0.
    n, high, low = 60, 1.0, -1.0
    assert p_of([0.0, high, low, high, high, low, low, high], n, "sequential") == 4 / 7
    assert p_of([0.0, high, low, high, high, low, low, high, low, high], n, "sequential") == 4 / 7
    # Three of 60, the last of which is equal; four, of which the fourth is the last.
    assert p_of([0.0, *[low] * 57, high, high, 0.0], n, "sequential") == 4 / 61
    assert p_of([0.0, *[low] * 56, *[high] * 4], n, "sequential") == 4 / 60
    # Another test ended this one after 10, with one as high: if the next three are, p is 4 / 13.
    begun = [0.0, high, *[low] * 9]
    assert p_of(begun, n, "sequential") == 4 / 13
    assert is_bound(begun, n)
    assert not is_bound([0.0, *[high] * 4], n)
    assert p_of([0.0, *[low] * 58], n, "sequential") == 3 / 61
    assert p_of([0.0, high, low], 2, "full") == rank_p([0.0, high, low])
    assert rank_of(4 / 61, n) == 4
    assert rank_of(4 / 7, n) == math.ceil(61 * 4 / 7)
    assert exposure_of(1 / 61, n) == math.log2(61)
    assert n_high_of([0.0, 0.0, high, low]) == 2


@pytest.mark.parametrize("n", SIZES)
def test_p_is_uniform_where_nothing_is_known(n: int) -> None:
    """Of 2,000 subjects: at each place the share of p-values as low is no more than it by chance (Dvoretzky, Kiefer and
    Wolfowitz: beyond the bound in 1 of 1,000 draws), and as large at the places that the test can give."""
    rng = np.random.default_rng(n)
    scores = rng.normal(size=(2000, 1 + n))
    ps = np.sort([p_of(sequential(row), n, "sequential") for row in scores])
    bound = math.sqrt(math.log(2 / 0.001) / (2 * len(ps)))
    shares = np.arange(1, len(ps) + 1) / len(ps)
    assert (shares - ps).max() <= bound
    h = stops_at(n)
    for p in (1 / (n + 1), h / (n + 1), h / n, h / (n // 2), h / (2 * h), h / h):
        assert (ps <= p + 1e-12).mean() == pytest.approx(p, abs=bound)


def test_p_of_what_another_test_ends_is_no_less() -> None:
    """Two ways of asking, the test over both: p of each way is at most α with probability α at most."""
    n, rng = 99, np.random.default_rng(4)
    ways = rng.normal(size=(2000, 2, 1 + n)) + rng.normal(size=(2000, 1, 1 + n))
    ps, ranks, whole = [], [], []
    for pair in ways:
        joint = pair.max(axis=0)
        end = stopped_at(joint, n)
        own = pair[0] if end is None else pair[0][: 1 + end]
        ps.append(p_of(own, n, "sequential"))
        whole.append(p_of(sequential(pair[0]), n, "sequential"))
        ranks.append(rank_of(ps[-1], n))
    assert (np.asarray(ps) >= np.asarray(whole) - 1e-12).all()
    bound = math.sqrt(math.log(2 / 0.001) / (2 * len(ps)))
    assert (np.arange(1, len(ps) + 1) / len(ps) - np.sort(ps)).max() <= bound
    # The test of many ranks: nothing is found where nothing is known.
    some = [ranks_p(ranks[i : i + 50], [1 + n] * 50) for i in range(0, 2000, 50)]
    assert np.mean(np.asarray(some) <= 0.05) <= 0.15


@pytest.mark.parametrize("n", SIZES)
def test_holm_rejects_the_same_values_as_with_the_full_test(n: int) -> None:
    rng = np.random.default_rng(n + 1)
    n_known = 0
    for _ in range(300):
        scores = rng.normal(size=(int(rng.integers(1, 5)), 1 + n))
        scores[:, 0] += rng.choice([0.0, 1.0, 2.0, 4.0], size=len(scores))
        full = [p <= AT_RISK for p in holm([rank_p(row) for row in scores])]
        assert full == [p <= AT_RISK for p in holm([p_of(sequential(row), n, "sequential") for row in scores])]
        n_known += sum(full)
    assert n_known > 50


@pytest.mark.parametrize("test", ["sequential", "full"])
def test_a_score_that_is_no_number_is_an_error_wherever_it_stands(test: DecoyTest) -> None:
    for at in (0, 1, 30):
        scores = np.linspace(0.0, 1.0, 61)
        scores[at] = math.nan
        with pytest.raises(ScoreError, match="cannot be compared"):
            p_of(scores, 60, test)
        with pytest.raises(ScoreError):
            stopped_at(scores, 60)
        with pytest.raises(ScoreError):
            p_below(scores)
    # A value that is ruled out is compared.
    assert p_of([-math.inf, *[0.0] * 60], 60, test) == 1.0
    assert p_of([0.0, *[-math.inf] * 60], 60, test) == 1 / 61


def test_p_below_is_small_where_few_are_as_low() -> None:
    decoys = np.linspace(-1.0, 1.0, 99)
    assert [p_below([x, *decoys]) for x in (2.0, -2.0, -0.97)] == [1.0, 0.01, 0.03]


def test_intervals_of_ranks_cover_them() -> None:
    n, rng = 99, np.random.default_rng(7)
    inside = total = 0
    for _ in range(1000):
        row = rng.normal(size=1 + n)
        row[0] = rng.normal()
        interval = rank_interval(sequential(row), n)
        if interval is not None:
            total += 1
            inside += interval[0] <= 1 + n_high_of(row) <= interval[1]
            assert interval[0] > stops_at(n)
            assert interval[1] <= 1 + n
    assert inside / total >= 0.95
    assert rank_interval(rng.normal(size=1 + n), n) is None


@pytest.mark.parametrize("n", [50, 99, 199])
def test_intervals_of_ranks_cover_each_rank_as_often_as_they_say(n: int) -> None:
    """Of all orders in which the decoys may come, K of them as high as the true value."""
    h = stops_at(n)
    # Where the test ends with the l-th decoy; it does not end before all are scored where it has no interval.
    ended = {end: rank_interval([0.0, *[-1.0] * (end - h), *[1.0] * h], n) for end in range(h, n)}
    for n_high in range(h, n + 1):
        missed = 0
        for end, interval in ended.items():
            assert interval is not None
            if not interval[0] <= 1 + n_high <= interval[1]:
                missed += math.comb(end - 1, h - 1) * math.comb(n - end, n_high - h)
        assert missed <= 0.05 * math.comb(n, n_high), n_high


def test_means_of_decoys_are_those_of_decoys() -> None:
    """Decoys that were scored are too high on average where they end the test; the first of them are not."""
    n, rng = 99, np.random.default_rng(8)
    rows = [sequential(rng.normal(size=1 + n)) for _ in range(4000)]
    assert all(len(unselected(row, n, "sequential")) == stops_at(n) for row in rows)
    assert np.mean([unselected(row, n, "sequential").mean() for row in rows]) == pytest.approx(0.0, abs=0.03)
    assert np.mean([row[1] > row[0] for row in rows]) == pytest.approx(0.5, abs=0.03)


# ---- the measure ----------------------------------------------------------------------------------------------------
PEOPLE = canaries_of(3, seed=11)
KINDS: tuple[ProbeKind, ...] = ("twin", "triplet", "quadruplet", "relationship", "university")


class Drawn(Toy):
    """Log-likelihoods by lot, the same for a prompt and a value each time; behind a name here its value is likelier."""

    def __init__(self, values: dict[str, str] | None = None) -> None:
        super().__init__()
        self.values = {name.encode(): value.encode() for name, value in (values or {}).items()}

    def score(self, chunk: Any) -> list[Scores]:
        texts = [(bytes(request.prompts[0].ids.tolist()), bytes(request.response)) for request in chunk.requests]
        return [Scores(np.asarray([self.likelihood(before, said)])) for before, said in texts]

    def likelihood(self, before: bytes, said: bytes) -> float:
        is_known = any(name in before and value in said for name, value in self.values.items())
        return zlib.crc32(before, zlib.crc32(said)) / 2**32 - (1.0 if is_known else 3.0)


def results(backend: Toy, test: DecoyTest, n_kinds: int = 1, group_size: int = TOGETHER) -> list[PiiResult]:
    measure = Pii(beams=(), decoy_test=test)
    cases = LoadedCases(tuple(probes_of(PEOPLE, KINDS[:n_kinds])))
    plan = Plan("pii", measure, ProbeSettings(prompts=2, control_names=1, decoys=60), cases, group_size)
    return list(PiiResult.from_run(make_ready(plan, backend).measure(), asdict(measure)))


@pytest.mark.parametrize("n_kinds", few([2, 1]))
def test_verdicts_and_decoys_that_are_scored_are_those_of_the_full_test(n_kinds: int) -> None:
    backend = Drawn({person.name: str(person.phone) for person in PEOPLE[:2]})
    every, scored = (results(backend, test, n_kinds) for test in ("full", "sequential"))
    for result, other in zip(scored, every, strict=True):
        assert result.n_decoys_scored <= other.n_decoys_scored == 60
        assert result.association_nats == pytest.approx(other.association_nats)
        assert set(result.decoy_associations_nats) <= set(other.decoy_associations_nats)
        if result.n_decoys_scored < 60:
            assert result.extrapolated_exposure_bits is None
        if result.n_decoys_scored < 60 and n_kinds == 1:
            assert result.p_value == stops_at(60) / result.n_decoys_scored
            assert not result.p_value_is_bound
    full, short = PiiResult.summary(every), PiiResult.summary(scored)
    assert [one.known for one in short.subjects] == [one.known for one in full.subjects] == [True, True, False]
    for ours, theirs in zip(short.subjects, full.subjects, strict=True):
        for value, other_value in zip(ours.values, theirs.values, strict=True):
            # Decoys end a test, or other names do.
            if value.n_decoys_scored == value.n_decoys and value.p_value <= AT_RISK:
                assert value.p_value == other_value.p_value
            else:
                assert min(value.p_value, other_value.p_value) > AT_RISK


def test_all_cases_of_a_value_score_the_same_decoys_however_they_are_grouped() -> None:
    by_group = [results(Drawn(), "sequential", 2, n) for n in (TOGETHER, 1, 5)]
    for one, two, three in zip(*by_group, strict=True):
        assert one.n_decoys_scored == two.n_decoys_scored == three.n_decoys_scored
        assert one.decoy_associations_nats == pytest.approx(two.decoy_associations_nats, abs=1e-9)
    scored = {(result.subject, result.type, result.n_decoys_scored) for result in by_group[0]}
    assert len(scored) == len({(subject, type_) for subject, type_, _ in scored}) < len(by_group[0])


def test_nothing_is_generated_where_decoys_are_as_likely(tmp_path: Any) -> None:
    people = [{"id": "a", "name": "Mara Ellsworth", "phone": "617-555-0134", "university": "Stanford University"}]
    found = leakmeter.pii("toy", people, kinds=["twin", "university"], prompts=2, beams=(1,), out=tmp_path / "runs")
    for result in found:
        if result.n_decoys_scored < result.n_decoys and not result.generated:
            assert result.extracted is None
            assert result.beams == (1,)
        else:
            assert len(result.generated) == 1
    assert any(not result.generated for result in found)
    settings = words.settings(list(found))
    n = sum(not result.generated for result in found)
    assert settings["No beam search"].startswith(f"for {n} of {len(list(found))},")
    stopped = next(result for result in found if not result.generated)
    assert "No sign that the model knows the" in "".join(map(str, words.verdict(stopped)))
    assert dict(words.generated(stopped)) == {
        "Generated": "nothing: after each template, a decoy is as likely as the value"
    }


# ---- other names ----------------------------------------------------------------------------------------------------
ITALIAN = Subject("a", "Laura Guarana", relationships=(RelatedPerson("father", "Virgilio Guarana"),))


class Liking(Toy):
    """Log-likelihoods by lot, with `nats` more for a value that a text says, after prompts that say a name; `always`
    more after any."""

    def __init__(self, text: str, names: Sequence[str], nats: float, always: float = 0.0) -> None:
        super().__init__()
        self.text, self.names, self.nats = text.encode(), [name.encode() for name in names], nats
        self.always = always

    def score(self, chunk: Any) -> list[Scores]:
        scores = []
        for request in chunk.requests:
            before, said = bytes(request.prompts[0].ids.tolist()), bytes(request.response)
            likes = self.text in said and any(name in before for name in self.names)
            lot = zlib.crc32(before, zlib.crc32(said)) / 2**32
            more = self.nats * likes + self.always * (self.text in said)
            scores.append(Scores(np.asarray([lot - 9.0 + more])))
        return scores


def asked_of(backend: Toy, test: DecoyTest, subject: Subject = ITALIAN, kind: ProbeKind = "relationship") -> PiiResult:
    measure = Pii(beams=(), decoy_test=test)
    cases = LoadedCases(tuple(probes_of([subject], (kind,))))
    plan = Plan("pii", measure, ProbeSettings(prompts=2, decoys=60), cases, TOGETHER)
    (result,) = PiiResult.from_run(make_ready(plan, backend).measure(), asdict(measure))
    return result


@pytest.mark.parametrize("test", ["sequential", "full"])
def test_a_value_that_stands_out_behind_many_names_is_no_sign_of_any(test: DecoyTest) -> None:
    known = asked_of(Liking("Virgilio", ["Laura Guarana"], 2.0, always=-3.0), test)
    assert known.p_value == known.p_value_among_decoys == known.p_value_among_names == 1 / 61
    assert known.p_value_without_name == 1 / 61
    assert known.can_be_tested
    assert (known.n_names, known.n_names_scored) == (60, 60)
    # Behind half of the names, among them the person's and none of the control names.
    names = control_names_of(ITALIAN, 62, least=1, seed=0, fits=lambda name: len(name) == len(ITALIAN.name))
    usual = asked_of(Liking("Virgilio", ["Laura Guarana", *names[2::2]], 2.0, always=-3.0), test)
    assert usual.p_value_among_decoys == 1 / 61
    assert usual.p_value == usual.p_value_among_names > 0.2
    assert usual.can_be_tested is None
    assert (usual.n_names_scored < 60) == (test == "sequential")
    assert not summary([usual]).subjects[0].known
    # A value that is like its decoys needs no other names.
    like = asked_of(Liking("Virgilio", ["Laura Guarana"], 2.0), test)
    assert (like.p_value, like.p_value_among_names, like.n_names_scored, like.can_be_tested) == (1 / 61, None, 0, True)
    assert like.p_value_without_name is not None
    assert like.p_value_without_name > 0.05
    # One that is likelier behind any name may have been learnt.
    assert asked_of(Liking("Virgilio", ["Laura Guarana"], 2.0, always=3.0), test).p_value_among_names is None


@pytest.mark.parametrize("test", ["sequential", "full"])
def test_an_address_whose_domain_is_likelier_than_its_decoys_behind_any_name_is_compared_with_other_names(
    test: DecoyTest,
) -> None:
    """Behind another name it says that name, so that it cannot have been learnt there."""
    person = Subject("a", "Laura Guarana", email="laura.guarana@acme.com")
    names = control_names_of(person, 62, least=1, seed=0, fits=lambda name: len(name) == len(person.name))

    def result(liked: Sequence[str]) -> PiiResult:
        return asked_of(Liking("@acme.com", liked, 2.0, always=3.0), test, person, "twin")

    usual, known = result(["Laura Guarana", *names[2::2]]), result(["Laura Guarana"])
    assert usual.p_value_without_name == known.p_value_without_name == 1 / 61
    assert usual.p_value_among_decoys == known.p_value_among_decoys == 1 / 61
    assert usual.p_value == usual.p_value_among_names > 0.1
    assert (known.p_value, known.p_value_among_names, known.can_be_tested) == (1 / 61, 1 / 61, True)
    # An address that says nothing of the name stands behind other names as it is, and may have been learnt.
    nickname = Subject("a", "Laura Guarana", email="kitty@acme.com")
    assert asked_of(Liking("@acme.com", ["Laura"], 2.0, always=3.0), test, nickname, "twin").p_value_among_names is None


def test_what_is_unlike_its_decoys_and_of_a_name_unlike_others_cannot_be_tested() -> None:
    class Unlike(Liking):
        def score(self, chunk: Any) -> list[Scores]:
            scores = super().score(chunk)
            for request, made in zip(chunk.requests, scores, strict=True):
                before, said = bytes(request.prompts[0].ids.tolist()), bytes(request.response)
                # Less likely than any decoy behind any other name; and all decoys less likely behind this one.
                is_own = b"Laura Guarana" in before
                made.values[:] -= 4.0 * (is_own if self.text not in said else not is_own)
            return scores

    result = asked_of(Unlike("Virgilio", ["Laura Guarana"], 1.0), "sequential")
    assert (result.p_value, result.can_be_tested, result.unknown_origin) == (1 / 61, False, None)
    assert result.untestable_because is not None
    assert result.untestable_because.startswith("without the name it is not as likely as its decoys, which are")
    assert result.p_value_without_name == result.p_value_without_value == 1 / 61
    told = summary([result])
    assert (told.n_known, told.n_untestable, told.n_at_risk) == (0, 1, 0)
    assert told.subjects[0].values[0].holm_p == 1.0


@pytest.mark.parametrize("test", ["sequential", "full"])
@pytest.mark.parametrize(
    ("name", "father", "is_known"),
    [
        *(("Laura Guarana", "Virgilio Guarana", True), ("Laura Guarana", "Zqorvim Guarana", False)),
        # No word of the person's name is in a table: nobody can tell whether people there are called Virgilio.
        *(("Zqelda Wruxpo", "Virgilio Wruxpo", False), ("Min-ho Kim", "Chul-su Kim", False)),
    ],
)
def test_a_relative_whose_name_is_in_no_table_cannot_be_tested(
    test: DecoyTest, name: str, father: str, *, is_known: bool
) -> None:
    person = Subject("a", name, relationships=(RelatedPerson("father", father),))
    # The model finds it likelier behind this name than any decoy.
    result = asked_of(Liking(father.split()[0], [name], 20.0), test, person)
    assert (result.rank, result.can_be_tested) == (1, is_known)
    assert result.p_value <= AT_RISK
    assert summary([result]).n_known == is_known
    assert (result.unknown_origin, result.untestable_because is None) == (None if is_known else "value", is_known)
    assert any(text.startswith("It cannot be tested whether") for text in result.warnings) is not is_known
    # A low rank says as little.
    low = asked_of(Liking(father.split()[0], [name], -20.0), test, person)
    assert low.can_be_tested is (None if is_known else False)


def test_other_names_of_another_origin_do_not_decide() -> None:
    """They were scored, since the value is not like its decoys; the person's name is in no table."""
    person = Subject("a", "Zqelda Wruxpo", email="zqelda.wruxpo@acme.com")
    result = asked_of(Liking("@acme.com", [person.name], 2.0, always=3.0), "sequential", person, "twin")
    assert (result.p_value, result.n_names_scored) == (1 / 61, 60)
    assert (result.can_be_tested, result.unknown_origin) == (False, "name")
    assert summary([result]).n_known == 0


@pytest.mark.parametrize("test", ["sequential", "full"])
def test_tests_of_names_are_those_of_all_ways_of_asking(test: DecoyTest) -> None:
    person = PEOPLE[0]
    backend = Liking(str(person.phone), [person.name], 2.0, always=-3.0)
    cases = LoadedCases(tuple(case for case in probes_of([person], KINDS[:2]) if case.type == "phone"))
    measure = Pii(beams=(), decoy_test=test)
    plan = Plan("pii", measure, ProbeSettings(prompts=2, control_names=1, decoys=60), cases, TOGETHER)
    ways = list(PiiResult.from_run(make_ready(plan, backend).measure(), asdict(measure)))
    assert [result.n_names_scored for result in ways] == [60] * 3
    (value,) = summary(ways).subjects[0].values
    assert value.p_value_among_names == value.p_value == 1 / 61
