"""What of results can be compared and bounded: every measure's, and what a null stands for in each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from helpers import fisher_cases, susceptibility_cases
from helpers.report_cases import case as influence_case
from helpers.report_cases import piece
from leakmeter.core import registry
from leakmeter.core.quantity import SHARE_OF_CASES, AnyQuantity, Quantity, RunQuantity
from leakmeter.instruments.generation import result as private_generation
from leakmeter.stats.aggregates import EXTREMES, is_aggregate

RESULTS = registry.instruments()
QUANTITIES: dict[str, AnyQuantity] = {
    one.name: one for name in RESULTS for one in registry.instrument(name).result.quantities
}


def value(name: str, case: Any) -> float | None:
    quantity = QUANTITIES[name]
    assert isinstance(quantity, Quantity)
    return quantity.of(case)


def floor(name: str, case: Any) -> float | None:
    quantity = QUANTITIES[name]
    assert isinstance(quantity, Quantity)
    assert quantity.floor is not None
    return quantity.floor(case)


@pytest.mark.parametrize("measure", RESULTS)
def test_every_result_names_its_quantities(measure: str) -> None:
    quantities = registry.instrument(measure).result.quantities
    assert quantities
    head = quantities[0].name.partition(".")[0]
    assert head == ("audit" if measure == "private_generation" else measure)
    for quantity in quantities:
        first, *rest = quantity.name.split(".")
        assert first == head
        assert len(rest) <= 1
        # Else nobody could tell a quantity from an aggregate of another.
        assert not any(map(is_aggregate, rest))
        assert quantity.about.endswith(".")
        assert quantity.about[0].isupper()
        assert quantity.unit
        assert quantity.worse in ("more", "less")
        if isinstance(quantity, Quantity) and quantity.usual is not None:
            assert is_aggregate(quantity.usual)
            assert (quantity.usual in EXTREMES) != (quantity.unit == SHARE_OF_CASES)
    # What a baseline keeps where no bound names anything.
    assert isinstance(quantities[0], Quantity)


def test_no_two_have_one_name() -> None:
    assert len(QUANTITIES) == sum(len(registry.instrument(name).result.quantities) for name in RESULTS)


def test_what_may_be_published_names_none() -> None:
    assert private_generation.PublicTexts.quantities == ()


CONTEXT = "Ring Ann. Write to Bo. It rained."
PIECES = (
    piece(CONTEXT, "Ring Ann.", "p1", [1.0, 0.0, 0.0], entity_type="phone", repeated="verbatim"),
    piece(CONTEXT, "Write to Bo.", "p2", [0.0, 4.0, 0.0], entity_type="email", repeated="in part"),
    piece(CONTEXT, "It rained.", "p3", [0.0, 0.0, 2.0]),
)
INFLUENCE = influence_case(
    "one", CONTEXT, "Who?", ["a", "b", "c"], [1.0, 2.0, 3.0], pieces=PIECES, noise_floor_nats=0.5
)


def test_influence() -> None:
    assert value("influence", INFLUENCE) == 6.0
    assert value("influence.per_token", INFLUENCE) == 2.0
    assert value("influence.worst_piece", INFLUENCE) == 4.0
    assert value("influence.repeated", INFLUENCE) == 1.0
    assert floor("influence", INFLUENCE) == 0.5
    assert floor("influence.per_token", INFLUENCE) == pytest.approx(0.5 / 3, rel=1e-12)
    drawn = replace(INFLUENCE, whole_worst_nats=9.0, whole_mean_nats=7.0)
    assert (value("influence.worst_response", drawn), value("influence.mean_response", drawn)) == (9.0, 7.0)


def test_what_an_influence_does_not_have_is_not_0() -> None:
    bare = replace(INFLUENCE, pieces=(), response=replace(INFLUENCE.response, tokens=()))
    for name in ("per_token", "worst_piece", "repeated", "worst_response", "mean_response"):
        assert value(f"influence.{name}", bare) is None
    assert floor("influence.per_token", bare) is None
    found = replace(INFLUENCE, pieces=(replace(PIECES[0], repeated="no"),))
    assert value("influence.repeated", found) == 0.0


def ledger(spent: list[float] | None, nats: list[float], whole: float) -> SimpleNamespace:
    per_token = SimpleNamespace(max_loss_nats=nats, spent_nats=spent)
    return SimpleNamespace(ledger=SimpleNamespace(whole_nats=whole, per_token=per_token))


def decoded(*responses: SimpleNamespace, epsilon: float | None) -> SimpleNamespace:
    """A result; several responses are its samples."""
    bound = SimpleNamespace(epsilon_nats=epsilon, response=SimpleNamespace(basic_nats=3.0))
    samples = responses if len(responses) > 1 else ()
    guarantee = None if epsilon is None else bound
    return SimpleNamespace(ledger=responses[0].ledger, guarantee=guarantee, responses=responses, samples=samples)


def test_decode() -> None:
    first = ledger([0.1, 0.4], [0.2, 0.3], 1.5)
    case = decoded(first, epsilon=0.5)
    assert value("decode", case) == 1.5
    assert value("decode.worst_response", case) is None
    assert value("decode.worst_token", case) == 0.3
    assert value("decode.bound", case) == 3.0
    assert value("decode.ratio", case) == pytest.approx(0.8, rel=1e-12)
    several = decoded(first, ledger([0.2, math.inf], [0.1, 0.9], 2.5), epsilon=0.5)
    assert value("decode", several) == 1.5
    assert value("decode.worst_response", several) == 2.5
    assert value("decode.worst_token", several) == 0.9
    assert value("decode.ratio", several) == math.inf


def test_a_decoding_without_a_bound_guarantees_nothing() -> None:
    case = decoded(ledger(None, [0.2, math.inf], 1.5), epsilon=None)
    assert value("decode.bound", case) is None
    assert value("decode.ratio", case) is None
    assert value("decode.worst_token", case) == math.inf


def test_icl() -> None:
    case = SimpleNamespace(loss_nats=0.5, is_right=True, noise_floor_nats=0.1)
    assert (value("icl", case), value("icl.accuracy", case), floor("icl", case)) == (0.5, 1.0, 0.1)
    other = SimpleNamespace(loss_nats=math.inf, is_right=None)
    assert (value("icl", other), value("icl.accuracy", other)) == (math.inf, None)
    assert value("icl.accuracy", SimpleNamespace(is_right=False)) == 0.0


def audit(*ratios: float, holds: bool, epsilon: float | None = None, failures: Sequence[float] = ()) -> Any:
    def with_ratios(of: Sequence[float]) -> list[SimpleNamespace]:
        return [SimpleNamespace(ratio=ratio) for ratio in of]

    return SimpleNamespace(
        verdict=SimpleNamespace(
            holds=holds, worst_token=SimpleNamespace(ratio=ratios[0]), failures=with_ratios(failures)
        ),
        by_order=with_ratios(ratios[1:]),
        exemplars=[SimpleNamespace(measured_nats=0.2), SimpleNamespace(measured_nats=0.7)],
        bounds=SimpleNamespace(guarantee=None if epsilon is None else SimpleNamespace(epsilon=epsilon)),
        text_quality=SimpleNamespace(verbatim_share=0.25, perplexity=math.inf),
    )


def test_audit() -> None:
    assert value("audit.ratio", audit(0.5, 0.7, holds=True)) == 0.7
    assert value("audit.measured", audit(0.5, holds=True)) == 0.7
    assert value("audit.verbatim", audit(0.5, holds=True)) == 0.25
    assert value("audit.perplexity", audit(0.5, holds=True)) == math.inf
    assert value("audit.epsilon", audit(0.5, holds=True)) is None
    assert value("audit.epsilon", audit(0.5, holds=True, epsilon=8.0)) == 8.0
    assert value("audit.epsilon", audit(0.5, holds=True, epsilon=math.inf)) == math.inf


def test_an_audit_that_holds_is_never_above_its_bound_and_one_that_does_not_is() -> None:
    assert value("audit.ratio", audit(1.0 + 1e-12, holds=True)) == 1.0
    assert value("audit.ratio", audit(1.5, holds=False)) == 1.5
    assert value("audit.ratio", audit(math.inf, 0.5, holds=False)) == math.inf
    assert value("audit.ratio", audit(0.5, holds=False, failures=[3.0])) == 3.0


def test_susceptibility_and_fisher() -> None:
    case = susceptibility_cases.asked(
        share_of_ceiling=None,
        from_bare_nats=math.inf,
        noise_floor_nats=math.inf,
        contexts=(susceptibility_cases.context(1, 0.1), susceptibility_cases.context(2, 0.9)),
    )
    assert value("susceptibility", case) == 0.5
    assert value("susceptibility.share_of_ceiling", case) is None
    assert value("susceptibility.from_bare", case) == math.inf
    assert value("susceptibility.worst_context", case) == 0.9
    assert floor("susceptibility", case) == math.inf
    assert value("fisher", fisher_cases.asked(nats=0.025)) == 2.5


def test_pii() -> None:
    def case(*exact_matches: float | None) -> Any:
        generated = [SimpleNamespace(best={"exact_match": found}) for found in exact_matches]
        return SimpleNamespace(association_nats=1.5, exposure_bits=3.0, p_value=0.1, generated=generated)

    names = ("pii", "pii.exposure", "pii.p_value", "pii.generated")
    assert [value(name, case()) for name in names] == [1.5, 3.0, 0.1, None]
    assert value("pii.generated", case(None, 0.0, 1.0)) == 1.0
    assert value("pii.generated", case(None, 0.0)) == 0.0
    assert value("pii.generated", case(None)) is None


def test_redact_plan() -> None:
    case = SimpleNamespace(left_nats=1.0, whole_nats=5.0, redacted_share=0.5, reached=False, noise_floor_nats=0.25)
    names = ("redact_plan", "redact_plan.whole", "redact_plan.cut", "redact_plan.reached")
    assert [value(name, case) for name in names] == [1.0, 5.0, 0.5, 0.0]
    assert floor("redact_plan", case) == 0.25


def test_runs_as_a_whole_are_summed_up_as_their_summaries_do() -> None:
    of_runs = {name for name, one in QUANTITIES.items() if isinstance(one, RunQuantity)}
    assert of_runs == {"icl.macro_f1", "pii.people_at_risk"}
