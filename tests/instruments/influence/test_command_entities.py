"""`leakmeter influence --unit entity` with the toy model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def case_of(ended: Any) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    return dict(json.loads(ended.out))


def test_entities_and_their_surrogates(measure: Call) -> None:
    case = case_of(measure("--json", "--swap", unit="entity", response="Call 555-010-7788"))
    (phone,) = case["pieces"]
    assert (phone["name"], phone["n_mentions"], phone["repeated"], phone["rank"]) == ("phone1", 2, "verbatim", 1)
    assert phone["swapped_nats"] > 0
    assert phone["surrogate"] != "555-010-7788"
    again = case_of(measure("--json", "--swap", unit="entity", response="Call 555-010-7788"))
    assert again == case
    other = case_of(measure("--json", "--swap", unit="entity", response="Call 555-010-7788", swap_seed=4))
    assert other["pieces"][0]["surrogate"] != phone["surrogate"]


def test_terminal_and_page_show_both_numbers(measure: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    shown = measure("--swap", unit="entity", html="report.html").out
    for said in ("Without it", "surrogate", "phone1", "2 mentions, not", "repeated", "surrogate:"):
        assert said in shown
    page = Path("report.html").read_text(encoding="utf-8")
    for said in ("With a surrogate", "2 mentions, not repeated", "surrogate: "):
        assert said in page
    assert "With a surrogate" not in measure(unit="entity", html="plain.html").out
    assert "With a surrogate" not in Path("plain.html").read_text(encoding="utf-8")


def test_what_is_found_is_escaped(measure: Call, tmp_path: Path) -> None:
    note = tmp_path / "hostile.txt"
    note.write_text("Key <img src=x onerror=alert(1)> [bold]x[/]\x1b[31m. Key <img src=y>.", encoding="utf-8")
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("tag = <img[^>]*>\nmark = \\[bold\\]x\\[/\\]\x1b\\[31m\n", encoding="utf-8")
    given = {"context_file": note, "entity_patterns": patterns, "unit": "entity", "html": "h.html"}
    shown = measure("--swap", **given).out
    assert "\x1b" not in shown
    assert "[bold]x[/]" in shown
    page = Path("h.html").read_text(encoding="utf-8")
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\x1b" not in page


def test_a_run_is_known_by_its_patterns(measure: Call, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("# comment\nplace = Graz\n", encoding="utf-8")
    case = case_of(measure("--json", unit="entity", entity_patterns=patterns))
    assert [piece["name"] for piece in case["pieces"]] == ["place1", "phone1"]
    (spec,) = (json.loads(path.read_text()) for path in Path("runs").glob("*/spec.json"))
    assert spec["prompts"]["entity_patterns"] == "place = Graz"


def test_many_cases_of_which_some_hold_nothing(cli: Call, tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    texts = ["It rained.", *(f"Mail a{i}@x.example." for i in range(4))]
    data.write_text("\n".join(json.dumps({"context": text, "query": "Who?", "response": "A"}) for text in texts))
    ended = cli("influence", "--model", "toy", "--data", data, "--unit", "entity")
    assert ended.code == 0, ended.err
    assert "none above the placebo" in ended.out


def test_a_dry_run_counts_the_swaps(measure: Call) -> None:
    plain = case_of(measure("--json", "--dry-run", unit="entity"))
    swapped = case_of(measure("--json", "--dry-run", "--swap", unit="entity"))
    assert swapped["requests"] == plain["requests"] + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"region": "XX", "unit": "entity"}, "no region named 'XX'"),
        ({"entity_patterns": "nowhere.txt", "unit": "entity"}, "entity patterns 'nowhere.txt' cannot be read"),
        ({"entity_patterns": "x = (", "unit": "entity"}, "entity patterns, line 1"),
        ({"entity_patterns": "x = y"}, "entity-patterns is for personal data; give unit 'entity' with it"),
        ({"ner": "nowhere", "unit": "entity"}, "recogniser 'nowhere'"),
    ],
)
def test_what_cannot_be_used_is_one_line(measure: Call, options: dict[str, Any], message: str) -> None:
    ended = measure(**options)
    assert ended.code == 2
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert not Path("runs").exists()
