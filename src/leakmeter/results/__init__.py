"""Measurements as results: of one case, of a run, of a directory of runs in SQL."""
