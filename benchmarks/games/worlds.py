"""Pairs of texts that an answer may have been written from."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from leakmeter.backends.hf import HfBackend
from leakmeter.core.case import Case, Document
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Prompt
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

_OTHER: Final = "other"
_GOODS: Final = ("a kettle", "two lamps", "a desk", "a bicycle pump", "a tent", "a winter coat", "a radio", "a blender")
_WISHES: Final = ("a refund", "a repair", "a new invoice", "an earlier delivery", "a call back", "a spare part")
_QUESTIONS: Final = (
    "What is known about this customer?",
    "Write a short note to a colleague about this customer.",
    "What should we do next for this customer?",
)


@dataclass(frozen=True)
class World:
    """Two states of the world, in the same frame."""

    query: str
    one: str
    other: str | None
    """None where the other state is that nothing was read."""
    neither: str
    """The same without what the two differ in."""

    def prompts(self, backend: HfBackend) -> tuple[Prompt, Prompt]:
        """Of the two states."""
        item = self._item(backend, self.one)
        return item.prompt, item.blank if self.other is None else item.controls[_OTHER]

    def items(self, backend: HfBackend) -> list[ContextItem]:
        """Each text as the whole context."""
        return [self._item(backend, text) for text in (self.one, self.other) if text is not None]

    def prompt_of_neither(self, backend: HfBackend) -> Prompt:
        return self._item(backend, self.neither).prompt

    def ids_of(self, backend: HfBackend, answer: str) -> tuple[int, ...]:
        """An answer that another model wrote, as tokens of this one."""
        return self._item(backend, self.one, answer).response or ()

    def _item(self, backend: HfBackend, text: str, answer: str | None = None) -> ContextItem:
        case = Case("game", (Document("text", text),), self.query, answer)
        if self.other is not None:
            case = replace(case, control_contexts=(Document(_OTHER, self.other),))
        return PromptSettings(unit="whole").prepare(case, backend, Influence(controls=1)).item


def kinds(seed: int, n: int, data: Path | None) -> Mapping[str, Sequence[World]]:
    """n pairs of each kind."""
    drawn = random.Random(f"games {seed}")
    made = {
        "document in or out": [_in_or_out(drawn) for _ in range(n)],
        "this document or another": [_another(drawn) for _ in range(n)],
        "value A or B": [_values(drawn) for _ in range(n)],
    }
    if data is not None:
        for name, texts in (("PubMedQA abstract", _abstracts(data)), ("CNN/DailyMail article", _articles(data))):
            pairs = list(texts)
            drawn.shuffle(pairs)
            made[name] = [
                World(query, one, other, "")
                for (query, one), (_, other) in zip(pairs[:n], pairs[n : 2 * n], strict=True)
            ]
    return made


def _customer(drawn: random.Random) -> dict[str, str]:
    from faker import Faker

    fake = Faker("en_US")
    fake.seed_instance(drawn.getrandbits(32))
    return {
        "name": fake.name(),
        "town": fake.city(),
        "phone": f"555-{drawn.randrange(100, 1000)}-{drawn.randrange(1000, 10_000)}",
        "goods": drawn.choice(_GOODS),
        "sum": f"{drawn.randrange(20, 900)} dollars",
        "wish": drawn.choice(_WISHES),
    }


_RECORD: Final = "{name} of {town} bought {goods} for {sum} and asks for {wish}. Phone: {phone}."


def record(drawn: random.Random) -> str:
    """Of an invented customer."""
    return _RECORD.format(**_customer(drawn))


def _in_or_out(drawn: random.Random) -> World:
    return World(drawn.choice(_QUESTIONS), record(drawn), None, "A customer wrote to us.")


def _another(drawn: random.Random) -> World:
    one, other = (record(drawn) for _ in range(2))
    return World(drawn.choice(_QUESTIONS), one, other, "A customer bought something and asks for something.")


def _values(drawn: random.Random) -> World:
    """One value of a record is another one."""
    one, other = _customer(drawn), _customer(drawn)
    name = drawn.choice([field for field in one if one[field] != other[field]])
    swapped, redacted = {**one, name: other[name]}, {**one, name: "[removed]"}
    return World(drawn.choice(_QUESTIONS), *(_RECORD.format(**record) for record in (one, swapped, redacted)))


def _abstracts(data: Path) -> Iterator[tuple[str, str]]:
    path = data / "ori_pqal.json"
    if path.exists():
        for entry in json.loads(path.read_text(encoding="utf-8")).values():
            yield entry["QUESTION"], " ".join(entry["CONTEXTS"])[:600].rsplit(" ", 1)[0]


def _articles(data: Path) -> Iterator[tuple[str, str]]:
    path = data / "validation_subset.jsonl"
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield "Write a summary of the article.", json.loads(line)["article"][:600].rsplit(" ", 1)[0]
