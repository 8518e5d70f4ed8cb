"""Preparing a case takes work in proportion to its texts, however many documents and repeated values they have."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.examples import few
from helpers.operations import n_operations
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text import repeats
from leakmeter.text.build import PromptSettings

LINE = "Row {n:04}: Anna Ek, a{n:04}@x.example, a{n:04}@x.example."


def one_document(n: int) -> tuple[Document, ...]:
    return (Document("table", "\n".join(LINE.format(n=number) for number in range(n))),)


def many_documents(n: int) -> tuple[Document, ...]:
    return tuple(Document(f"note {number}", f"Anna Ek is {number:04}.") for number in range(n))


@pytest.mark.parametrize(("documents", "n"), few([(many_documents, 80), (one_document, 30)]))
@pytest.mark.parametrize("unit", few(["entity", "line", "whole"]))
def test_twice_the_context_is_twice_the_work(documents: Any, n: int, unit: str) -> None:
    settings = PromptSettings(unit=unit, group=unit != "whole")

    def preparing(n: int) -> int:
        return n_operations(lambda: settings.prepare(Case("many", documents(n), "Who?", "Anna Ek"), Toy(), Influence()))

    preparing(2)  # what is loaded once
    assert preparing(2 * n) < 2.1 * preparing(n)


def test_repeated_values_are_not_looked_for_in_a_context_that_goes_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("one", (*one_document(3), *many_documents(3)), "Who?", "Anna Ek")
    expected = PromptSettings(unit="whole").prepare(case, Toy(), Influence()).item

    def searching(text: str) -> Any:
        raise AssertionError("searched")

    monkeypatch.setattr(repeats, "find", searching)
    assert PromptSettings(unit="whole").prepare(case, Toy(), Influence()).item.spans == expected.spans
    with pytest.raises(AssertionError, match="searched"):
        PromptSettings(unit="whole", group=True).prepare(case, Toy(), Influence())
