"""The size of static drawings: numbers 0 to WIDTH across and HEIGHT down to 0."""

from __future__ import annotations

WIDTH = 1000
HEIGHT = 150
