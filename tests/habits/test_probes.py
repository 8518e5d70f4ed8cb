"""What a model, a measure or a reduction can do is declared by its class: nobody asks an object for an attribute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "count_probes.py"


def test_no_model_measure_or_reduction_is_asked_for_an_attribute() -> None:
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False)
    assert done.stdout == "getattr and hasattr on models, measures and reductions: 0\n"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("source", "n"),
    [
        ("getattr(backend, 'most_rows', None)", 1),
        ("hasattr(kept.backend, 'check')", 1),
        ("getattr(getattr(backend, 'model', None), 'device', 'cpu')", 1),
        ("getattr(cell.measure, 'seed', 0)", 1),
        ("getattr(request.reduction, 'temperature', 1.0)", 1),
        ("def __getattr__(self, name): return getattr(self._measure, name)", 1),
        ("[getattr(measure, field.name) for field in fields(measure)]", 0),
        ("getattr(backend.config, 'layer_types', None)", 0),
        ("backend.capabilities.most_rows", 0),
    ],
)
def test_what_is_counted(source: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import count_probes

    assert len(list(count_probes.probes(source))) == n
