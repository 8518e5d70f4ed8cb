"""Generations of a study's cells side by side, record by record, as one HTML file without any script (see `frame`).

What Table 4 of Flemings et al. shows of one record: the context, and what was said of it under each setting. Each token
is shaded by its loss, on the one scale of all pages, and what stands in the context as it stands is underlined.

Texts are private: the page is for who may read the study's directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from leakmeter.core.plain import excerpt, visible
from leakmeter.errors import UsageError
from leakmeter.report import frame, scale
from leakmeter.text.overlap import copied, words_of

View = dict[str, Any]
"""Parts of a page as its template wants them: every number a string, every colour a class."""
RUN_WORDS: Final = 4
"""So many words in a row, or more, are marked as a passage that was copied; fewer are often chance."""
_ROUNDING_NATS: Final = 1e-9
"""What is smaller is no loss: with λ = 0 both distributions are one, but for the last digits."""
_READINGS: Final = {"published": "as published", "stated": "as stated"}


@dataclass(frozen=True, slots=True)
class Generation:
    """One response."""

    tokens: Sequence[str]
    """Text that each token adds."""
    nats: Sequence[float]
    """Loss of each token, |log p̄(y_t | D) − log p̄(y_t | ∅)|."""
    text: str
    """The response without what ended it."""
    rouge_l_f1: float
    """Against the reference, in [0, 1]."""
    verdicts: Mapping[str, bool]
    """By the names of `studies.regurgitation.COUNTS`."""


@dataclass(frozen=True, slots=True)
class Column:
    """What one cell has of a record."""

    line: str
    """What cells side by side have in common, in words; empty where it is nothing."""
    name: str
    """What tells it from the others of its line."""
    context: str
    """What the model was given, which a cell may have cut."""
    n_cut_tokens: int
    generations: Sequence[Generation]


@dataclass(frozen=True, slots=True)
class Generations:
    """A record, and what each cell made of it."""

    id: str
    dataset: str
    query: str
    reference: str
    columns: Sequence[Column]


def render_generations(records: Sequence[Generations], *, title: str, about: Sequence[str], n_records: int) -> str:
    """The page as text: as many of the records, from the first, as fit into `frame.PAGE_BYTES`, and at least one.

    Equal input gives equal bytes.

    Args:
        records: those that may be shown.
        title: of the study.
        about: where the numbers come from, one line each.
        n_records: how many records the study has.

    Raises:
        UsageError: there is no record.
    """
    if not records:
        raise UsageError("no record to show: a page of generations needs at least one")
    views = [_record(record, number) for number, record in enumerate(records, 1)]
    return frame.fitting(len(views), lambda n: _page(views[:n], title, about, n_records))


def _page(views: Sequence[View], title: str, about: Sequence[str], n_records: int) -> str:
    heads = list(dict.fromkeys((line["name"], name) for view in views for line in view["lines"] for name in line["of"]))
    return frame.render(
        "generations.html.j2",
        styles=("page.css", "generations.css"),
        title=visible(title),
        about=[visible(line) for line in about if line],
        records=views,
        several_datasets=len({view["dataset"] for view in views}) > 1,
        lines=[(line, sum(line == other for other, _ in heads)) for line in dict.fromkeys(line for line, _ in heads)],
        heads=heads,
        n_left_out=n_records - len(views),
        run_words=RUN_WORDS,
    )


def _record(record: Generations, number: int) -> View:
    # Cells may cut the context at different lengths; the longest holds what the others were given.
    widest = max(record.columns, key=lambda column: len(column.context))
    lines: dict[str, list[View]] = {}
    for column in record.columns:
        lines.setdefault(column.line, []).append(_column(column, widest))
    return {
        "anchor": f"r{number}",
        "id": excerpt(record.id, 80),
        "dataset": visible(record.dataset),
        "query": visible(record.query),
        "query_line": excerpt(record.query or record.reference, 72),
        "reference": visible(record.reference),
        "context": visible(widest.context),
        "n_context_words": len(words_of(widest.context)),
        "n_cut_tokens": widest.n_cut_tokens,
        "lines": [
            {"name": visible(name), "columns": columns, "of": [column["name"] for column in columns]}
            for name, columns in lines.items()
        ],
        "index": {
            (visible(name), column["name"]): column["responses"][0] for name, of in lines.items() for column in of
        },
    }


def _column(column: Column, widest: Column) -> View:
    n_words = len(words_of(column.context))
    return {
        "name": visible(column.name),
        "given": "" if column.context == widest.context else f"given the context’s first {n_words:,} words",
        "responses": [_response(one, column.context) for one in column.generations],
    }


def _response(one: Generation, context: str) -> View:
    total = _total(one.nats)
    text = "".join(one.tokens)
    # What ended the response is a token that was paid for, and no word.
    said = one.text if text.startswith(one.text) else text
    runs, words = copied(said, context), words_of(said)
    kinds = _kinds(text, words, runs)
    return {
        "marks": list(_marks(one, kinds)),
        "total": scale.nats_cell(total),
        "heat": scale.heat(total, _ROUNDING_NATS),
        "a_token": scale.nats_cell(total / len(one.nats)) if len(one.nats) else scale.NOT_MEASURED,
        "n_tokens": len(one.nats),
        "rouge_l": f"{100 * one.rouge_l_f1:.1f}",
        **{kind: _by_reading(one.verdicts, kind) for kind in ("repeat", "rouge")},
        "flagged": any(one.verdicts.values()),
        "there": f"{sum(run > 0 for run in runs)} of {len(words)}",
        "in_runs": f"{sum(run >= RUN_WORDS for run in runs)} of {len(words)}",
    }


def _total(nats: Sequence[float]) -> float:
    total = float(sum(nats))
    return 0.0 if total < _ROUNDING_NATS else total


def _by_reading(verdicts: Mapping[str, bool], kind: str) -> str:
    """By which measurements a response counts, in words; empty for none."""
    hits = [words for reading, words in _READINGS.items() if verdicts.get(f"{kind}_{reading}")]
    return "both" if len(hits) == len(_READINGS) else "".join(hits)


def _kinds(text: str, words: Sequence[tuple[int, int]], runs: Sequence[int]) -> list[str]:
    """How each character is marked: 'run' in a passage that was copied, 'there' in a word that the context has."""
    kinds = [""] * len(text)
    before = 0
    for (start, end), run in zip(words, runs, strict=True):
        kind = "run" if run >= RUN_WORDS else "there" if run else ""
        # White space between two words of a passage belongs to it.
        first = before if kind == "run" and start and kinds[before - 1] == "run" else start
        kinds[first:end] = [kind] * (end - first)
        before = end
    return kinds


def _marks(one: Generation, kinds: Sequence[str]) -> Iterator[View]:
    """The tokens in order, each in parts that are marked alike; a space before a word apart from it."""
    at = 0
    for token, nats in zip(one.tokens, one.nats, strict=True):
        mark = token_view(token, nats, _ROUNDING_NATS)
        start, end = at + len(mark["gap"]), at + len(token)
        shown = visible(token)
        parts = []
        for kind, places in groupby(range(start, end), key=lambda place: kinds[place]):
            held = [*places]
            parts.append((kind, shown[held[0] - at : held[-1] + 1 - at].replace("\n", "↵\n")))
        # A first word's space would only push it off the edge.
        yield {**mark, "gap": mark["gap"] if at else "", "gap_kind": kinds[at] if mark["gap"] else "", "parts": parts}
        at = end


def token_view(token: str, nats: float, floor_nats: float) -> View:
    """A response token by its nats; a space before a word apart from it."""
    text = visible(token)
    # A space before a word stays outside the shading: at a line's end it would hang there as a sliver of colour.
    word = text.lstrip(" ")
    gap = text[: len(text) - len(word)] if word else ""
    return {
        "gap": gap,
        "text": text[len(gap) :].replace("\n", "↵\n"),
        "heat": scale.heat(nats, floor_nats),
        "nats": scale.nats_cell(nats),
    }
