"""Instruments: a folder each, with the same floor plan."""
