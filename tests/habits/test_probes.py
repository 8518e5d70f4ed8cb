"""What a model, a measure or a reduction can do is declared by its class: nobody asks an object for an attribute."""

from __future__ import annotations

import pytest
from tools.count_ideas import all_probes, checkable_protocols, probes


def test_no_model_measure_or_reduction_is_asked_for_an_attribute() -> None:
    assert all_probes() == []


@pytest.mark.parametrize(
    ("source", "n"),
    [
        ("getattr(backend, 'most_rows', None)", 1),
        ("hasattr(kept.backend, 'check')", 1),
        ("getattr(getattr(backend, 'model', None), 'device', 'cpu')", 1),
        ("getattr(cell.measure, 'seed', 0)", 1),
        ("getattr(request.reduction, 'temperature', 1.0)", 1),
        ("getattr(dialect_class, 'translates', False)", 1),
        ("hasattr(plan.settings, 'look')", 1),
        ("isinstance(settings, LookingSettings)", 1),
        ("isinstance(one, (Other, registry.LookingSettings))", 1),
        ("isinstance(settings, PlainSettings)", 0),
        ("def __getattr__(self, name): return getattr(self._measure, name)", 1),
        ("[getattr(measure, field.name) for field in fields(measure)]", 0),
        ("getattr(backend.config, 'layer_types', None)", 0),
        ("backend.capabilities.most_rows", 0),
    ],
)
def test_what_is_counted(source: str, n: int) -> None:
    assert len(list(probes(source, protocols={"LookingSettings"}))) == n


def test_protocols_that_are_checked_as_a_program_runs_are_known() -> None:
    """A user's mechanism may be any object that has what the protocol says."""
    assert checkable_protocols() == {"Mechanism"}
