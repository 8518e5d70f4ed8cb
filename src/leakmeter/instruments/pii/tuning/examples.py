"""Subjects to examples for a soft prompt: a name and a value behind it; some kept apart to choose the epoch by.

A soft prompt that was tuned on a subject says nothing of whether the model knew them: subjects it is tuned on and
subjects it is tried on have to be different ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.core.tokenizer import Tokenizer
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.probe import ProbeCase, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings, example_of
from leakmeter.instruments.pii.subject import Subject, ValueType
from leakmeter.instruments.pii.tuning.vectors import Example

_CHOOSING: Final = 0.2
"""Share of the subjects by whom the epoch is chosen, where no others are given."""
_LEAST: Final = 2


def cases_of(subjects: Sequence[Subject], type_: ValueType) -> list[ProbeCase]:
    """Each subject's value of a type, asked for by the name alone."""
    return [case for case in probes_of(subjects, ("twin", "relationship", "university")) if case.type == type_]


def examples_of(subjects: Sequence[Subject], type_: ValueType, tokenizer: Tokenizer) -> list[Example]:
    """Token ids of the first prompt, without start tokens, and of the value of a type behind it."""
    return [example_of(case, tokenizer, ProbeSettings()) for case in cases_of(subjects, type_)]


def split(subjects: Sequence[Subject], *, seed: int) -> tuple[list[Subject], list[Subject]]:
    """Subjects at random into those to tune on and a fifth to choose the epoch by, both in the order they came."""
    n = max(1, round(_CHOOSING * len(subjects)))
    if len(subjects) - n < _LEAST:
        raise UsageError(f"a soft prompt needs {_LEAST + 1} or more people with the value, not {len(subjects)}")
    chosen = set(random.Random(seed).sample(range(len(subjects)), n))
    apart = [subject for i, subject in enumerate(subjects) if i in chosen]
    return [subject for i, subject in enumerate(subjects) if i not in chosen], apart


def check_disjoint(tuned_on: Sequence[Subject], others: Sequence[Subject]) -> None:
    """Refuse subjects who are in both, by name or by a value; the error names the records, not the subjects."""
    by_text = {text: subject for subject in tuned_on for text in _facts(subject)}
    for other in others:
        for text in _facts(other):
            if text in by_text:
                raise UsageError(
                    f"record {other.id} is, or shares a value with, record {by_text[text].id} of the people tuned on; "
                    "leave one of them out"
                )


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    yield "name", " ".join(subject.name.casefold().split())
    for type_, _, value in subject.targets():
        if type_ in ("phone", "email"):
            yield type_, "".join(value.casefold().split())
