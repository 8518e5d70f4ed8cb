"""Disclosures of answers with planted leaks: how many are found, and how many of what is found are leaks.

corpus    the cases: texts by hand, values that a seed draws
methods   ways to say which words of an answer give something away: ours, and others'
scoring   recall by kind and precision of a method, at a threshold
run       `python -m benchmarks disclosures`
"""
