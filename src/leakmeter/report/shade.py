"""A name for results that are not typed yet."""

from typing import Any

Case = Any
"""A result."""
