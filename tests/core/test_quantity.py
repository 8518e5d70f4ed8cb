"""What of results can be compared and bounded: every measure's, and what a null stands for in each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace as Like  # of a result, as far as quantities read it
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
EVERY: list[AnyQuantity] = [one for name in RESULTS for one in registry.instrument(name).result.quantities]
QUANTITIES = {one.name: one for one in EVERY}
assert len(QUANTITIES) == len(EVERY)


@pytest.mark.parametrize("measure", RESULTS)
def test_every_result_names_its_quantities(measure: str) -> None:
    quantities = registry.instrument(measure).result.quantities
    assert quantities
    head = quantities[0].name.partition(".")[0]
    assert head == ("generate" if measure == "private_generation" else measure)
    for quantity in quantities:
        first, *rest = quantity.name.split(".")
        assert first == head
        assert len(rest) <= 2
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


CONTEXT = "Ring Ann. Write to Bo. It rained."
PIECES = (
    piece(CONTEXT, "Ring Ann.", "p1", [1.0, 0.0, 0.0], entity_type="phone", repeated="verbatim"),
    piece(CONTEXT, "Write to Bo.", "p2", [0.0, 4.0, 0.0], entity_type="email", repeated="in part"),
    piece(CONTEXT, "It rained.", "p3", [0.0, 0.0, 2.0]),
)
INFLUENCE = influence_case(
    "one", CONTEXT, "Who?", ["a", "b", "c"], [1.0, 2.0, 3.0], pieces=PIECES, noise_floor_nats=0.5
)
INF = math.inf


def ledger(spent: list[float] | None, nats: list[float], whole: float) -> Any:
    return Like(ledger=Like(whole_nats=whole, per_token=Like(max_loss_nats=nats, spent_nats=spent)))


def decoded(*responses: Any, epsilon: float | None) -> Any:
    """A result; several responses are its samples."""
    samples = responses if len(responses) > 1 else ()
    guarantee = None if epsilon is None else Like(epsilon_nats=epsilon, response=Like(basic_nats=3.0))
    return Like(ledger=responses[0].ledger, guarantee=guarantee, responses=responses, samples=samples)


def audit(*ratios: float, holds: bool, epsilon: float | None = None, failures: Sequence[float] = ()) -> Any:
    failed, by_order = ([Like(ratio=ratio) for ratio in some] for some in (failures, ratios[1:]))
    return Like(
        verdict=Like(holds=holds, worst_token=Like(ratio=ratios[0]), failures=failed),
        by_order=by_order,
        exemplars=[Like(measured_nats=0.2), Like(measured_nats=0.7)],
        bounds=Like(guarantee=None if epsilon is None else Like(epsilon=epsilon)),
        text_quality=Like(verbatim_share=0.25, perplexity=INF),
    )


def found(*exact_matches: float | None) -> Any:
    generated = [Like(best={"exact_match": match}) for match in exact_matches]
    return Like(association_nats=1.5, exposure_bits=3.0, p_value=0.1, generated=generated)


FIRST = ledger([0.1, 0.4], [0.2, 0.3], 1.5)
BARE = replace(INFLUENCE, pieces=(), response=replace(INFLUENCE.response, tokens=()))
QUERY = susceptibility_cases.asked(
    share_of_ceiling=None,
    from_bare_nats=INF,
    noise_floor_nats=INF,
    contexts=(susceptibility_cases.context(1, 0.1), susceptibility_cases.context(2, 0.9)),
)
PLAN = Like(
    left_nats=1.0, whole_nats=5.0, redacted_share=0.5, reached=False, noise_floor_nats=0.25, is_partly_read=None
)
VALUES: list[tuple[Any, dict[str, float | None]]] = [
    (INFLUENCE, {"influence": 6.0, "per_token": 2.0, "worst_piece": 4.0, "repeated": 1.0}),
    (
        replace(INFLUENCE, whole_worst_nats=9.0, whole_mean_nats=7.0),
        {"influence.worst_response": 9.0, "mean_response": 7.0},
    ),
    # What an influence does not have is not 0.
    (BARE, dict.fromkeys(("influence.per_token", "worst_piece", "repeated", "worst_response"))),
    (replace(INFLUENCE, pieces=(replace(PIECES[0], repeated="no"),)), {"influence.repeated": 0.0}),
    (
        decoded(FIRST, epsilon=0.5),
        {"decode": 1.5, "worst_response": None, "worst_token": 0.3, "bound": 3.0, "ratio": 0.8},
    ),
    (
        decoded(FIRST, ledger([0.2, INF], [0.1, 0.9], 2.5), epsilon=0.5),
        {"decode": 1.5, "worst_response": 2.5, "worst_token": 0.9, "ratio": INF},
    ),
    (
        decoded(ledger(None, [0.2, INF], 1.5), epsilon=None),
        {"decode": 1.5, "bound": None, "ratio": None, "worst_token": INF},
    ),
    (Like(loss_nats=0.5, is_right=True), {"icl": 0.5, "accuracy": 1.0}),
    (Like(loss_nats=INF, is_right=None), {"icl": INF, "accuracy": None}),
    (Like(loss_nats=0.0, is_right=False), {"icl": 0.0, "accuracy": 0.0}),
    (audit(0.5, 0.7, holds=True), {"generate.ratio": 0.7, "measured": 0.7, "verbatim": 0.25, "perplexity": INF}),
    (audit(0.5, holds=True), {"generate.epsilon": None}),
    (audit(0.5, holds=True, epsilon=8.0), {"generate.epsilon": 8.0}),
    (audit(0.5, holds=True, epsilon=INF), {"generate.epsilon": INF}),
    # One that holds is never above its bound, and one that does not is.
    (audit(1.0 + 1e-12, holds=True), {"generate.ratio": 1.0}),
    (audit(1.5, holds=False), {"generate.ratio": 1.5}),
    (audit(INF, 0.5, holds=False), {"generate.ratio": INF}),
    (audit(0.5, holds=False, failures=[3.0]), {"generate.ratio": 3.0}),
    (QUERY, {"susceptibility": 0.5, "share_of_ceiling": None, "from_bare": INF, "worst_context": 0.9}),
    (fisher_cases.asked(nats=0.025), {"fisher": 2.5}),
    (found(), {"pii": 1.5, "exposure": 3.0, "p_value": 0.1, "generated": None}),
    (found(None, 0.0, 1.0), {"pii": 1.5, "generated": 1.0}),
    (found(None, 0.0), {"pii": 1.5, "generated": 0.0}),
    (found(None), {"pii": 1.5, "generated": None}),
    (PLAN, {"redact": 1.0, "whole": 5.0, "cut": 0.5, "reached": 0.0}),
]


@pytest.mark.parametrize(("case", "values"), VALUES, ids=[next(iter(values)) for _, values in VALUES])
def test_values(case: Any, values: dict[str, float | None]) -> None:
    head = next(iter(values)).partition(".")[0]
    for name, expected in values.items():
        quantity = QUANTITIES[name if name.startswith(head) else f"{head}.{name}"]
        assert isinstance(quantity, Quantity)
        assert quantity.compute(case) == (None if expected is None else pytest.approx(expected, rel=1e-12))


def test_floors_and_what_is_of_a_run_as_a_whole() -> None:
    icl = Like(noise_floor_nats=0.1)
    for name, case, expected in (
        ("influence", INFLUENCE, 0.5),
        ("influence.per_token", INFLUENCE, 0.5 / 3),
        ("influence.per_token", BARE, None),
        ("icl", icl, 0.1),
        ("susceptibility", QUERY, INF),
        ("redact", PLAN, 0.25),
    ):
        quantity = QUANTITIES[name]
        assert isinstance(quantity, Quantity)
        assert quantity.floor is not None
        assert quantity.floor(case) == (None if expected is None else pytest.approx(expected, rel=1e-12))
    of_runs = {name for name, one in QUANTITIES.items() if isinstance(one, RunQuantity)}
    assert of_runs == {"icl.macro_f1", "influence.false_alarms", "pii.people_at_risk"}
    # What may be published names none.
    assert private_generation.PublicTexts.quantities == ()
