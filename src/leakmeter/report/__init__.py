"""Readings made readable: a heat map for the terminal and one self-contained HTML page."""
