"""Runs held against limits, a baseline and one another."""
