"""Surrogate values: fake values of the same kind, always the same for the same seed.

Swapped entities, decoys, control names and canaries are all made here, from the same words: if each had words of its
own, a model could tell them apart. Where some words are far more usual than others, one is drawn from a group of words
of like frequency, each as often as any other: a canary's value and its decoys are then drawn alike, without putting
back.
"""
