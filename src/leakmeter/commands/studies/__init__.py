"""Runs over many cases: part by part, to be continued after any interruption."""
