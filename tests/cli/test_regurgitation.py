"""`leakmeter study regurgitation`: existing generations from a CSV file, without a model."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leakmeter.commands import progress
from leakmeter.studies.quality import Regurgitation

Call = Callable[..., Any]
WORDS = [f"w{i}" for i in range(40)]
HEADING = ("generations", "contexts", "references")
ROWS = [
    (" ".join(WORDS[:30]), " ".join(WORDS), "w1 w2"),
    ("nothing of it", " ".join(WORDS), "nothing"),
    ('quotes "here"\nand lines', "quotes and\nlines", 'say "x"'),
    ("", "something", "some"),
]


@pytest.fixture
def generations(tmp_path: Path) -> Callable[..., Path]:
    """A CSV file of rows under a heading."""

    def write(rows: Sequence[Sequence[str]] = ROWS, heading: Sequence[str] = HEADING) -> Path:
        path = tmp_path / "generations.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([heading, *rows])
        return path

    return write


def test_published_outputs_are_counted(cli: Call, generations: Callable[..., Path]) -> None:
    ended = cli("study", "regurgitation", "--csv", generations(), "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    hits = {"repeat_published": 1, "repeat_stated": 2, "rouge_published": 2, "rouge_stated": 2}
    assert told["n"] == 4
    assert {name: told[name]["prompts"] for name in hits} == hits
    assert told["repeat_published"]["share"] == 0.25
    # ROUGE-L F1: 2·2/32, 2/4, 0 and 0 for no words.
    assert told["rouge_l_f1"]["mean"] == pytest.approx((4 / 32 + 0.5) / 4)
    table = cli("study", "regurgitation", "--csv", generations()).out
    assert "Repeat prompts, as published" in table
    assert "4 responses" in table
    # A long context is no matter.
    long = cli("study", "regurgitation", "--csv", generations([("a b", "a " * 200_000, "a")]), "--json")
    assert json.loads(long.out)["n"] == 1


def test_thresholds_are_options(cli: Call, generations: Callable[..., Path]) -> None:
    for option, value, name, hits in (
        ("--repeat-words", 30, "repeat_published", 0),
        ("--repeat-share", 1.0, "repeat_stated", 1),
        ("--rouge", 0.99, "rouge_published", 2),
    ):
        told = json.loads(cli("study", "regurgitation", "--csv", generations(), option, value, "--json").out)
        assert told[name]["prompts"] == hits, option
    ended = cli("study", "regurgitation", "--csv", generations(), "--rouge", 2)
    assert ended.code == 2
    assert "rouge is 2.0; it has to be from 0 to 1" in ended.err


@pytest.mark.parametrize("missing", HEADING)
def test_a_missing_column_is_one_line_that_names_it(cli: Call, generations: Callable[..., Path], missing: str) -> None:
    heading = [name if name != missing else "other" for name in HEADING]
    ended = cli("study", "regurgitation", "--csv", generations(heading=heading), "--json")
    assert (ended.code, ended.err.count("\n")) == (0 if missing == "references" else 2, 1)
    assert f"has no column '{missing}'" in ended.err
    assert ended.code or "rouge_l_f1" not in json.loads(ended.out)


def test_an_interrupted_count(cli: Call, generations: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts, lines = Regurgitation.verdicts, list[str]()

    def verdicts_and_end(self: Regurgitation, response: str, context: str) -> dict[str, bool]:
        if response == ROWS[2][0]:
            raise KeyboardInterrupt
        return verdicts(self, response, context)

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "tell", lines.append)
    monkeypatch.setattr(Regurgitation, "verdicts", verdicts_and_end)
    ended = cli("study", "regurgitation", "--csv", generations())
    assert ended.code == 130
    assert "Interrupted: 2 of 4 responses are measured, and all numbers here are for these." in ended.out
    assert "50.00" in ended.out
    assert ended.err == "leakmeter: interrupted; nothing is kept, and the same command starts again\n"
    assert [line.partition(", under")[0] for line in lines] == [
        f"responses: {n} of 4, 1 repeat their contexts, as published" for n in (1, 2)
    ]


def test_quality_models_that_are_not_at_hand_are_left_out(cli: Call, generations: Callable[..., Path]) -> None:
    ended = cli("study", "regurgitation", "--csv", generations(), "--factkb", "nobody/none", "--json")
    assert ended.code == 0
    assert ended.err.startswith("left out: FactKB needs the model 'nobody/none'")
    assert "factkb" not in json.loads(ended.out)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty; expected a heading and rows"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"generations,contexts\n", "has a heading and no rows"),
        (b"generations,contexts\na\n", "line 2: a row of 1 cells under a heading of 2"),
        (b'generations,contexts\n"a,b\n', "line 2"),
        (b"generations,contexts\n\xff,b\n", "is not UTF-8: byte 0xff at offset 21"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_is_one_line(cli: Call, tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "bad.csv"
    if content is not None:
        path.write_bytes(content)
    ended = cli("study", "regurgitation", "--csv", path)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert told in ended.err
