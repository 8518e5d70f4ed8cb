"""Forty long contexts with a needle each, for the study of searches over long contexts (docs/results/long_contexts.md).

    python -m benchmarks.long_contexts DATA DIRECTORY

`DATA` is a directory with `cnn_dailymail/validation_subset.jsonl` and `pubmedqa/ori_pqal.json`: news articles and
abstracts, whose beginnings are put together as retrieved documents. The needles are invented. For each length a file
LENGTH.jsonl of cases is written into the directory, for `leakmeter influence --data`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from leakmeter.text.units import starts_in_characters

LENGTHS: Final = (1000, 2000, 4000, 8000)
"""Most tokens of a context."""
SEED: Final = 13
_PASSAGE_TOKENS = 260
_LEAST_TOKENS = 60
_ARTICLES = "cnn_dailymail/validation_subset.jsonl"
_ABSTRACTS = "pubmedqa/ori_pqal.json"


@dataclass(frozen=True, slots=True)
class Needle:
    """What is hidden in a context, and what is asked about it; names between braces differ from length to length."""

    sentences: tuple[str, ...]
    query: str
    response: str
    names: dict[str, tuple[str, str, str, str]]

    def at(self, length: int) -> Needle:
        """The needle with the names of a length."""
        own = {key: values[LENGTHS.index(length)] for key, values in self.names.items()}
        sentences = tuple(sentence.format(**own) for sentence in self.sentences)
        return Needle(sentences, self.query.format(**own), self.response.format(**own), {})


# Telephone numbers are of a range that is reserved for fiction.
_PHONES = {"phone": ("020 7946 0318", "020 7946 0572", "020 7946 0739", "020 7946 0846")}
_TOWNS = {"town": ("Harnsted", "Kelby Moor", "Torvik", "Aldermouth")}
_WOMEN = {"name": ("Marta Iversholm", "Edda Quarrel", "Ines Valtorta", "Ruth Ombersley")}

NEEDLES: Final[dict[str, tuple[Needle, Needle]]] = {
    "once": (
        Needle(
            ("The night desk of the clinic in {town} can be reached at {phone}.",),
            "What is the telephone number of the night desk of the clinic in {town}?",
            "The telephone number of the night desk is {phone}.",
            _TOWNS | _PHONES,
        ),
        Needle(
            ("Whoever finds the grey parrot of {name} is asked to ring {phone}.",),
            "Which number should be called by someone who finds the parrot?",
            "They should call {name} at {phone}.",
            _WOMEN | _PHONES,
        ),
    ),
    "twice": (
        Needle(
            (
                "Bookings for the ferry to {town} are taken at {phone}.",
                "The ferry office of {town} answers calls to {phone} until noon.",
            ),
            "At which number can one book the ferry to {town}?",
            "The ferry can be booked at {phone}.",
            _TOWNS | _PHONES,
        ),
        Needle(
            (
                "Her landlady gave the police {phone} as the number of {name}.",
                "On the back of the photograph somebody had written {name}, {phone}.",
            ),
            "What is the telephone number of {name}?",
            "Her number is {phone}.",
            _WOMEN | _PHONES,
        ),
    ),
    "paraphrase": (
        Needle(
            ("After nine years of running the galley of the {ship}, {name} handed in her notice.",),
            "What was the job of {name}, and what became of it?",
            "She was the cook of a ship and resigned.",
            _WOMEN | {"ship": ("Osprey", "Halcyon", "Northwind", "Petrel")},
        ),
        Needle(
            ("Nobody in {town} may drink from the tap any more since the {cause} spoiled the wells.",),
            "Is the water supply of {town} safe?",
            "No, the drinking water was contaminated by the {cause}.",
            _TOWNS | {"cause": ("tannery", "refinery", "flood", "smelter")},
        ),
    ),
    "hidden pair": (
        Needle(
            (
                "The archive of {town} is closed after {hour} on Fridays.",
                "On a Friday visitors have to leave the {town} archive by {hour}.",
            ),
            "When does the archive of {town} close on Fridays?",
            "It closes at {hour} on Fridays.",
            _TOWNS | {"hour": ("4:30 p.m.", "2:15 p.m.", "5:40 p.m.", "3:20 p.m.")},
        ),
        Needle(
            (
                "{name} plays the {instrument} in the orchestra of the railway workers.",
                "When the railway workers give a concert, {name} is at the {instrument}.",
            ),
            "Which instrument does {name} play?",
            "She plays the {instrument}.",
            _WOMEN | {"instrument": ("bassoon", "viola", "tuba", "harp")},
        ),
    ),
    "cancelling pair": (
        Needle(
            (
                "The new bridge at {town} will open on {day}.",
                "Contrary to what was printed, the new bridge at {town} will open on {other}.",
            ),
            "On which day will the new bridge at {town} open?",
            "On {day}.",
            _TOWNS
            | {
                "day": ("14 June", "9 March", "27 May", "3 October"),
                "other": ("2 August", "30 April", "11 July", "18 November"),
            },
        ),
        Needle(
            (
                "Doctor {name} gives new patients the {colour} tablets.",
                "Doctor {name} has stopped giving new patients the {colour} tablets and gives them the {other} ones.",
            ),
            "Which tablets does Doctor {name} give to new patients?",
            "The {colour} ones.",
            _WOMEN | {"colour": ("blue", "yellow", "green", "red"), "other": ("white", "brown", "orange", "purple")},
        ),
    ),
}
"""Two needles of each kind. A pair of the kind `hidden pair` says one thing in two ways, either of which is enough; of
a `cancelling pair`, the first sentence makes the response likelier and the second another response."""


@dataclass(frozen=True, slots=True)
class LongContext:
    """A case and what is known of it."""

    case: dict[str, Any]
    """As `--data` reads it."""
    kind: str
    length: int
    """Most tokens of the context."""
    needles: tuple[str, ...]
    """The needle's sentences."""


def build(data: Path, n_tokens: Callable[[str], int]) -> Iterator[LongContext]:
    """All contexts, the shortest first, of each length one of each kind before the second of any.

    Args:
        data: directory of the articles and abstracts.
        n_tokens: length of a text in the model's tokens.
    """
    passages = _passages(data, n_tokens)
    for length in LENGTHS:
        for variant in range(2):
            for number, (kind, needles) in enumerate(NEEDLES.items()):
                rng = np.random.default_rng((SEED, length, variant, number))
                needle = needles[variant].at(length)
                documents = _haystack(passages, length - sum(map(n_tokens, needle.sentences)), n_tokens, rng)
                _hide(documents, needle.sentences, rng)
                case = {
                    "id": f"{kind.replace(' ', '-')}-{length}-{'ab'[variant]}",
                    "context": [{"name": name, "text": " ".join(sentences)} for name, sentences in documents],
                    "query": needle.query,
                    "response": needle.response,
                }
                yield LongContext(case, kind, length, needle.sentences)


_Document = tuple[str, list[str]]


def _passages(data: Path, n_tokens: Callable[[str], int]) -> tuple[list[_Document], list[_Document]]:
    """Beginnings of articles and of abstracts, in sentences under a name that tells nothing of the text."""
    articles = [json.loads(line)["article"] for line in (data / _ARTICLES).read_text("utf-8").splitlines()]
    abstracts = [" ".join(one["CONTEXTS"]) for one in json.loads((data / _ABSTRACTS).read_text("utf-8")).values()]
    made = []
    for name, texts in (("article", articles), ("abstract", abstracts)):
        sources = [
            (f"{name} {number}", _fitting(sentences_of(text), _PASSAGE_TOKENS, n_tokens))
            for number, text in enumerate(texts[:300])
        ]
        made.append([(key, kept) for key, kept in sources if len(kept) > 1])
    return made[0], made[1]


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, without the white space between them."""
    starts = [*starts_in_characters("sentence", text), len(text)]
    cut = (" ".join(text[start:end].split()) for start, end in pairwise(starts))
    return [sentence for sentence in cut if sentence]


def _fitting(sentences: Sequence[str], most: int, n_tokens: Callable[[str], int]) -> list[str]:
    """The first sentences that together have at most that many tokens."""
    kept: list[str] = []
    for sentence in sentences:
        most -= n_tokens(f" {sentence}")
        if most < 0:
            break
        kept.append(sentence)
    return kept


def _haystack(
    passages: tuple[list[_Document], list[_Document]],
    most: int,
    n_tokens: Callable[[str], int],
    rng: np.random.Generator,
) -> list[_Document]:
    """Articles and abstracts in turn until they have about that many tokens together."""
    orders = [rng.permutation(len(of_kind)) for of_kind in passages]
    documents: list[_Document] = []
    while most >= _LEAST_TOKENS or len(documents) < 2:
        kind, number = len(documents) % 2, len(documents) // 2
        name, sentences = passages[kind][orders[kind][number]]
        kept = _fitting(sentences, most - 2, n_tokens)
        if not kept:
            break
        documents.append((name, kept))
        most -= n_tokens(" ".join(kept)) + 2  # what stands between two documents
    return documents


def _hide(documents: list[_Document], sentences: Sequence[str], rng: np.random.Generator) -> None:
    """Put each sentence between two others, or at an end, of a document of its own, where it stays a sentence."""
    for number, sentence in zip(rng.permutation(len(documents)), sentences, strict=False):
        _, own = documents[number]
        for place in rng.permutation(len(own) + 1):
            if sentence in sentences_of(" ".join([*own[:place], sentence, *own[place:]])):
                own.insert(int(place), sentence)
                break


def main() -> None:
    """Write the cases."""
    from leakmeter.engine.loading import load_backend

    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_contexts", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    tokenizer = load_backend("smollm2-135m").tokenizer
    options.directory.mkdir(parents=True, exist_ok=True)
    made = list(build(options.data, lambda text: len(tokenizer.encode_data(text, first=False).ids)))
    for length in LENGTHS:
        lines = [json.dumps(one.case, ensure_ascii=False) + "\n" for one in made if one.length == length]
        (options.directory / f"{length}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
