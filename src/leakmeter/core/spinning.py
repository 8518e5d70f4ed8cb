"""How long threads of torch spin while they wait: called before whatever imports torch."""

from __future__ import annotations

import os
import sys
from typing import Final

SPINS: Final = "3000"
"""Rounds, some microseconds, that a thread of OpenMP waits for the next product before it sleeps.

Its default is some milliseconds, which beside other work are spent waiting for a thread that has no core.
"""


def limit_spinning() -> None:
    """Let threads of torch sleep soon while they wait, unless the user says how they wait.

    OpenMP reads it when torch is loaded; a program that has loaded torch already is left as it is.
    """
    if "torch" not in sys.modules and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS
