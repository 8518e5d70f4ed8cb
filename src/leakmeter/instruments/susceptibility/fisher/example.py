"""A small case to try it on."""

from __future__ import annotations

from leakmeter.instruments.susceptibility.example import example

__all__ = ["example"]
