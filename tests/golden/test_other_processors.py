"""The goldens and the parity of back ends hold on processors with fewer instructions than this one has.

A child process runs them with the newer instructions of numpy, OpenBLAS, torch, MKL and oneDNN switched off, one
thread, another time zone and a locale that is not UTF-8.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from numpy._core import _multiarray_umath as numpy_features

from helpers.places import ROOT

GOLDENS = ("influence-group", "decode-epsilon", "icl-own", "susceptibility-T")
CHOSEN = [
    *(f"tests/golden/test_golden.py::test_a_command_says_what_it_said[{name}]" for name in GOLDENS),
    "tests/backends/test_parity_tiny.py::test_scores_equal_one_full_pass_a_token[gemma3-sdpa]",
    "tests/backends/test_parity_tiny.py::test_scores_equal_one_full_pass_a_token[llama-sdpa]",
    "tests/core/test_rules.py",
    "tests/stats/test_logspace.py",
]


def features_off() -> dict[str, str]:
    """Environment variables that switch off whatever this processor has beyond its architecture's oldest."""
    known = numpy_features.__cpu_features__
    environment = {
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in numpy_features.__cpu_dispatch__ if known.get(name)),
        "ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1", "TZ": "Pacific/Chatham", "LC_ALL": "C",
        "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "57", "TERM": "dumb",
    }  # fmt: skip
    if platform.machine().lower() in ("x86_64", "amd64"):
        environment |= {
            "OPENBLAS_CORETYPE": "Prescott",
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
        }
    return environment


@pytest.mark.long
def test_goldens_and_parity_hold_with_newer_instructions_switched_off() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    ended = subprocess.run(
        [*command, "-m", "not long and not hub", *CHOSEN], cwd=ROOT, env=environment | features_off(),
        capture_output=True, text=True, check=False, encoding="utf-8", errors="replace",
    )  # fmt: skip
    if ended.returncode:
        pytest.fail(ended.stdout[-4000:] + ended.stderr[-1000:])
