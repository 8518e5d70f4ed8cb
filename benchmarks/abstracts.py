"""A text to cite from: an abstract of PubMedQA where the file is at hand, else one of our own words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from leakmeter.text.units import starts_in_characters

_N_SENTENCES = 10
# Beside a checkout of the project, in its own workplace; users give a path or get the built-in text.
_USUAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "pubmedqa" / "ori_pqal.json"

_OWN_SENTENCES = (
    "Night shifts are common in hospitals, and nurses who work them often report that they sleep badly.",
    "Whether a short nap during the shift helps has been studied mostly in laboratories.",
    "We asked if a planned nap of twenty minutes lowers the number of errors made towards the end of the night.",
    "Over six months, eighty-four nurses from four wards took part.",
    "Each nurse worked eight night shifts with a nap at three in the morning and eight without one, in random order.",
    "Errors were counted by pharmacists who checked every dose that had been prepared and did not know of the naps.",
    "Sleepiness was rated on a scale of nine points at the start, in the middle and at the end of each shift.",
    "After a nap, 2.1 errors were found for every hundred doses, against 3.4 without it.",
    "Sleepiness at the end of the shift was lower by 1.3 points, but sleep on the next day was shorter by 15 minutes.",
    "Nurses older than fifty gained less from the nap than their younger colleagues.",
)
_OWN_QUESTION = "Does a short nap during the night shift lower the number of errors that nurses make?"
_OWN_ANSWER = (
    "A planned nap of twenty minutes was followed by about a third fewer errors in preparing doses and by less "
    "sleepiness at the end of the night. The gain was smaller in nurses over fifty, and sleep on the following day "
    "was slightly shorter."
)


@dataclass(frozen=True)
class Abstract:
    """An abstract in sentences, a question about it and the answer to be explained."""

    sentences: tuple[str, ...]
    question: str
    answer: str
    source: str
    """Where it is from, for the record."""


OWN = Abstract(_OWN_SENTENCES, _OWN_QUESTION, _OWN_ANSWER, "the built-in text")


def read(path: Path | None) -> Abstract:
    """The first record of ten sentences in a file of PubMedQA's form; without a path the usual one or our own."""
    if path is None and not _USUAL.exists():
        return OWN
    path = path or _USUAL
    for key, record in json.loads(path.read_text(encoding="utf-8")).items():
        sentences = _sentences(" ".join(record["CONTEXTS"]))
        if len(sentences) == _N_SENTENCES:
            source = f"record {key} of {path.parent.name}/{path.name}"
            return Abstract(sentences, record["QUESTION"], record["LONG_ANSWER"], source)
    raise SystemExit(f"{path}: no record of {_N_SENTENCES} sentences")


def _sentences(text: str) -> tuple[str, ...]:
    starts = [*starts_in_characters("sentence", text), len(text)]
    cut = (text[start:end].strip() for start, end in pairwise(starts))
    return tuple(sentence for sentence in cut if sentence)
