"""Generations of a study's cells side by side, record by record, as blocks.

As Table 4 of Flemings et al. does for one record: the context, and the responses under each setting. Each token is
shaded by its loss, on the one scale of all pages, and words that occur verbatim in the context are underlined.

Texts are private: the report is for who may read the study's directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, TypeAlias

from leakmeter.core.plain import counted
from leakmeter.errors import UsageError
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.text.overlap import copied, words_of

RUN_WORDS: Final = 4
"""So many words in a row, or more, are marked as a passage that was copied; fewer are often chance."""
Line: TypeAlias = Literal["", "solid", "dotted"]
_ROUNDING_NATS: Final = 1e-9
"""What is smaller is no loss: with λ = 0 both distributions are one, but for the last digits."""
_READINGS: Final = {"published": "as published", "stated": "as stated"}
_LEAD: Final = (
    "For each record, the responses of a language model to one context and query under each setting. Each token is "
    "shaded by its loss: the difference in nats of its log-probability with all of the context and with none. All "
    "responses share one scale."
)
_UNDERLINED: Final = (
    f"Underlined text occurs verbatim in the context. Solid line: a passage of {RUN_WORDS} words or more. Dotted "
    "line: a single word, which may be chance."
)
_PRIVATE: Final = "Private: this page contains contexts, queries and responses."
_MEANINGS: Final = (
    (
        "Nats",
        "|log p̄(y_t | D) − log p̄(y_t | ∅)|, added up over the tokens of a response, the one that ended it included",
    ),
    ("ROUGE-L F1", "against the reference, times 100"),
    (
        "Repeat and ROUGE prompts",
        "responses that repeat their context, as counted by the paper’s published code and as stated in its text",
    ),
    (
        "Words there",
        f"words of the response that occur in the context, and those in shared passages of {RUN_WORDS} words or more; "
        "words are separated by white space and compared verbatim",
    ),
)


@dataclass(frozen=True, slots=True)
class Generation:
    tokens: Sequence[str]
    """Text that each token adds."""
    nats: Sequence[float]
    """Loss of each token, |log p̄(y_t | D) − log p̄(y_t | ∅)|."""
    text: str
    """Without what ended it."""
    rouge_l_f1: float
    """Against the reference, in [0, 1]."""
    verdicts: Mapping[str, bool]
    """By the names of `studies.quality.COUNTS`."""

    def total(self) -> b.Shaded:
        nats = _total(self.nats)
        return b.Shaded(nats, scale.heat(nats, _ROUNDING_NATS), ("¶",) if any(self.verdicts.values()) else ())


@dataclass(frozen=True, slots=True)
class CellColumn:
    """A record's responses in one cell."""

    line: str
    """What cells side by side have in common, in words; may be empty."""
    name: str
    """What tells it from the others of its line."""
    context: str
    """The model's, which a cell may have cut."""
    n_cut_tokens: int
    generations: Sequence[Generation]


@dataclass(frozen=True, slots=True)
class Generations:
    """A record, and its responses in each cell."""

    id: str
    dataset: str
    query: str
    reference: str
    columns: Sequence[CellColumn]


def generations_report(records: Sequence[Generations], *, title: str, about: Sequence[str], n_records: int) -> b.Report:
    """A page keeps as many of the records, from the first, as it has room for; `n_records` are in the study."""
    if not records:
        raise UsageError("no record to show: a page of generations needs at least one")
    heads = list(dict.fromkeys((column.line, column.name) for record in records for column in record.columns))
    several = len({record.dataset for record in records}) > 1
    texts = [b.Text(b.Untrusted(line), "soft") for line in about if line]
    return b.Report(
        "Generations side by side",
        "decode",
        [_headline(records, heads), b.Text(b.Untrusted(title)), b.Text(_UNDERLINED, "soft"), b.Warning(_PRIVATE)],
        lead=_LEAD,
        sections=[_section(record, number, heads, several) for number, record in enumerate(records)],
        index=[
            b.Column("Query"),
            *(b.Column(_named(head), "nats", shade=True) for head in heads),
        ],
        index_caption="Nats of each response; ¶ counts as a Repeat or ROUGE prompt by either reading",
        case=("record", "records"),
        scripted=False,
        notes=[b.HeadedBlocks("Where this comes from", [*texts, b.Facts(_MEANINGS)])],
        n_further=n_records - len(records),
        held_by="the cell files next to it hold all",
        guide_to="context",
    )


def _headline(records: Sequence[Generations], heads: Sequence[tuple[str, str]]) -> b.Headline:
    """Which setting leaks least, and which most."""
    nats: dict[tuple[str, str], list[float]] = {head: [] for head in heads}
    for record in records:
        for column in record.columns:
            nats[column.line, column.name] += [_total(generation.nats) for generation in column.generations]
    means = sorted((sum(totals) / len(totals), head) for head, totals in nats.items() if totals)
    (least, first), (most, last) = means[0], means[-1]
    least_said, most_said = scale.nats_text(least), scale.nats_text(most)
    said = f"{counted(len(records), 'record')}: responses leak {least_said}\u00a0nats on average"
    if least_said == most_said:
        return b.Headline(f"{said}.")
    return b.Headline((f"{said} with ", _named(first), f" and {most_said} with ", _named(last), "."))


def _named(head: tuple[str, str]) -> b.Untrusted:
    line, name = head
    return b.Untrusted(f"{line}: {name}" if line else name)


def _section(record: Generations, number: int, heads: Sequence[tuple[str, str]], several: bool) -> b.Section:
    # Cells may cut the context at different lengths; the longest holds what the others were given.
    widest = max(record.columns, key=lambda column: len(column.context))
    first = {(column.line, column.name): column.generations[0].total() for column in record.columns}
    cut = b.Text(f"{widest.n_cut_tokens:,} tokens at its end were cut off.", "soft")
    blocks: list[b.Block] = [b.Headline(b.Untrusted(record.query))] if record.query else []
    if record.reference:
        blocks.append(b.Text(b.Untrusted(record.reference), "prose", "Reference"))
    context = b.Text(b.Untrusted(widest.context), "prose")
    n_words = len(words_of(widest.context))
    blocks.append(b.Details(f"Context, {n_words:,} words", [cut, context] if widest.n_cut_tokens else [context]))
    for line in dict.fromkeys(column.line for column in record.columns):
        cards = [card for column in record.columns if column.line == line for card in _cards(column, widest)]
        blocks.append(b.Cards(cards, b.Untrusted(line) if line else ""))
    return b.Section(
        (b.Untrusted(record.id, 80), *((", ", b.Untrusted(record.dataset)) if several else ())),
        blocks,
        [b.Untrusted(record.query or record.reference, 72), *(first.get(head, "") for head in heads)],
        weight=-number,
    )


def _cards(column: CellColumn, widest: CellColumn) -> Iterator[b.HeadedBlocks]:
    n = len(column.generations)
    n_words = len(words_of(column.context))
    is_cut = column.context != widest.context
    context_facts = (("Context", f"given the context’s first {n_words:,} words"),) if is_cut else ()
    for number, generation in enumerate(column.generations, 1):
        # What ended the response is a token that was paid for, and no word.
        text = "".join(generation.tokens)
        plain_text = generation.text if text.startswith(generation.text) else text
        runs = copied(plain_text, column.context)
        passage = b.Passage(list(_segments(generation, _lines(text, words_of(plain_text), runs))))
        place = (f", response {number} of {n}",) if n > 1 else ()
        yield b.HeadedBlocks(
            (b.Untrusted(column.name), *place),
            [
                b.ShadedText([passage], floor_nats=_ROUNDING_NATS, style="tokens"),
                b.Facts([*_facts(generation, runs), *context_facts]),
            ],
        )


def _facts(generation: Generation, runs: Sequence[int]) -> Iterator[tuple[b.Phrase, b.Phrase | b.Shaded]]:
    yield "Nats", generation.total()
    n = len(generation.nats)
    yield "… a token", scale.nats_cell(_total(generation.nats) / n) if n else scale.NOT_MEASURED
    yield "ROUGE-L F1", f"{100 * generation.rouge_l_f1:.1f}"
    yield "Repeat prompt", _by_reading(generation.verdicts, "repeat")
    yield "ROUGE prompt", _by_reading(generation.verdicts, "rouge")
    yield "Words there", f"{sum(run > 0 for run in runs)} of {len(runs)}"
    yield "… in passages", f"{sum(run >= RUN_WORDS for run in runs)} of {len(runs)}"


def _total(nats: Sequence[float]) -> float:
    total = float(sum(nats))
    return 0.0 if total < _ROUNDING_NATS else total


def _by_reading(verdicts: Mapping[str, bool], kind: str) -> str:
    hits = [words for reading, words in _READINGS.items() if verdicts.get(f"{kind}_{reading}")]
    return "¶ both" if len(hits) == len(_READINGS) else "".join(f"¶ {hit}" for hit in hits) or "no"


def _lines(text: str, words: Sequence[tuple[int, int]], runs: Sequence[int]) -> list[Line]:
    """The line beneath each character: solid in a copied passage, dotted in a word that the context has."""
    lines: list[Line] = [""] * len(text)
    before = 0
    for (start, end), run in zip(words, runs, strict=True):
        line: Line = "solid" if run >= RUN_WORDS else "dotted" if run else ""
        # White space between two words of a passage belongs to it.
        first = before if line == "solid" and start and lines[before - 1] == "solid" else start
        lines[first:end] = [line] * (end - first)
        before = end
    return lines


def _segments(generation: Generation, lines: Sequence[Line]) -> Iterator[b.Segment]:
    """The tokens in order, each in parts with one line beneath them; a space before a word apart from it."""
    at = 0
    for token, nats in zip(generation.tokens, generation.nats, strict=True):
        gap = len(token) - len(token.lstrip(" ")) if token.strip(" ") else 0
        # A first word's space would only push it off the edge.
        if gap and at:
            yield b.Segment(b.Untrusted(token[:gap]), line=lines[at])
        for line, places in groupby(range(at + gap, at + len(token)), key=lambda place: lines[place]):
            held = [*places]
            yield b.Segment(b.Untrusted(token[held[0] - at : held[-1] + 1 - at]), nats, line=line)
        at += len(token)
