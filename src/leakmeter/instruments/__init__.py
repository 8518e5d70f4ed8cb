"""Instruments: a folder each, with the same floor plan. `public` names what programs import of them."""
