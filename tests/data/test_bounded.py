"""Files and patterns that would take for ever are refused in one line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakmeter.data import context_marker, rows, streamed
from leakmeter.data.cases import cases_of
from leakmeter.data.streamed import records_of
from leakmeter.errors import DataError, LeakmeterError, UsageError
from leakmeter.text import templates
from leakmeter.text.entities import pattern

CASE = b'{"query": "Who?", "context": "Anna.", "response": "Anna."}\n'


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.json.gz", "x.csv.gz", "x.gz"])
def test_blank_lines_are_not_read_for_ever(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    with gzip.open(path, "wb") as file:
        file.write(b"\n" * 50_000)
        file.write(CASE if "csv" not in name else b"query,context,response\nWho?,Anna.,Anna.\n")
    assert len(cases_of(path).cases) == 1
    monkeypatch.setattr(rows, "_MOST_ROWS", 20_000)
    with pytest.raises(DataError, match="has more than 20,000 blank lines; remove them"):
        cases_of(path)


def test_the_ledger_reads_no_more_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"\n" * 1000 + CASE)
    (row,) = records_of(path, 0, lambda n: None)
    assert row.place == "line 1001"
    monkeypatch.setattr(streamed, "MOST_BLANK", 999)
    with pytest.raises(DataError, match="has more than 999 blank lines"):
        list(records_of(path, 0, lambda n: None))


def test_a_table_of_too_many_columns_is_refused_and_few_of_many_are_named(tmp_path: Path) -> None:
    def written(n: int) -> Path:
        heading = ",".join(["query", "context", "response", *(f"c{number}" for number in range(n))])
        (tmp_path / "x.csv").write_text(f"{heading}\n{','.join(['Who?', 'Anna.', 'Anna.', *['1'] * n])}\n")
        return tmp_path / "x.csv"

    (note,) = cases_of(written(500)).notes
    assert note.startswith("data: columns left out: 'c0', 'c1', ")
    assert note.endswith("'c19' and 480 more")
    with pytest.raises(DataError, match="has 100,003 columns; 10,000 are read at most"):
        cases_of(written(100_000))


def test_a_pattern_that_is_slow_on_every_row_stops_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "SECONDS_AT_MOST", 0.02)
    monkeypatch.setattr(context_marker, "_FREE_SECONDS", 0.0)
    rows_of_data = [{"query": "a" * 40 + "b", "response": "a"} for _ in range(1000)]
    how: dict[str, Any] = {"context_from": r"((?:a|a)*)$", "skip_bad": True}
    with pytest.raises(LeakmeterError) as caught:
        cases_of(rows_of_data[:2], **how)
    assert "took longer than 0.02 s" in str(caught.value)
    monkeypatch.setattr(context_marker._Patience, "__init__", lambda self: setattr(self, "seconds", 0.05))
    with pytest.raises(UsageError, match="--context-from takes too long over the rows; the usual cause is nested"):
        cases_of(rows_of_data, **how)


@pytest.mark.parametrize("choose", [lambda text, path: text, lambda text, path: f"@{path}"])
def test_a_template_of_megabytes_is_refused(choose: Callable[[str, Path], str], tmp_path: Path) -> None:
    from leakmeter.backends.toy import Toy

    path, text = tmp_path / "x.txt", f"{'a ' * 200_000}{{context}} {{query}}"
    path.write_text(text)
    with pytest.raises(UsageError, match="a template of 400,017 characters; 200,000 are read at most"):
        templates.choose(choose(text, path), Toy().tokenizer)


def test_conversations_and_their_messages_are_bounded() -> None:
    user, answer = {"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Anna."}
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    vault = {"name": "Anna"}
    responses = [
        {"request": {"input": "Who?", "previous_response_id": f"resp_{n - 1}" if n else None},
         "response": {"id": f"resp_{n}", "output": [{"type": "message", **answer}] * 600}}
        for n in range(3)
    ]  # fmt: skip
    for data, why in (
        ([{"messages": [user, answer] * 5001}], "the conversation has 10,002 messages; 10,000 are read at most"),
        ([{"messages": [{**answer, "tool_calls": [call] * 2001}, answer]}], "more than 2,000 parts, calls and results"),
        ([{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 2001}, answer]}], "2,000 parts"),
        ([{"trace_id": "t", "llm_calls": [{}] * 1001, "channel_messages": []}], "1,000 are read at most"),
        (
            [{"vault": vault, "messages": [{"role": "system", "content": '{"name":' * 9999}, user, answer]}],
            "in none of",
        ),
        (responses, "goes on from 1,202 messages and items; 1,000 are put before it at most"),
    ):
        with pytest.raises(DataError, match=why) as caught:
            cases_of(data, needs_response=True)
        assert "\n" not in str(caught.value)


def test_places_of_retrieved_texts_are_bounded() -> None:
    def result(raw: str, context: list[str]) -> dict[str, Any]:
        answer = {"promptIdx": 0, "response": {"output": "c"}}
        return {**answer, "prompt": {"raw": raw}, "vars": {"context": context}}

    many = [f"a {n} b" for n in range(2001)]
    for held, why in (
        (result("a b " * 20_000, ["a b"]), "the retrieved texts stand at more than 10,000 places of a message"),
        (result(" ".join(many), many), "2,001 texts may stand in a message; 2,000 are looked for"),
    ):
        with pytest.raises(DataError, match=why):
            cases_of([held])
