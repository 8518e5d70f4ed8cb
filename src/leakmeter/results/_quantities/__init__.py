"""The quantities of results: what can be compared between runs, and bounded by a gate.

A number that a case does not have is None, never 0. What a null of a case object stands for, nothing or infinity, is
said where the number is named.
"""
