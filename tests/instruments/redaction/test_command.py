"""`leakmeter redact`: what to cut, measured with the toy model."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import assert_refused, object_of
from leakmeter.errors import UsageError

Call = Callable[..., Any]
NOTE = "Anna Ek lives in Graz. Her phone is 555-010-7788. Bo asked twice.\nCall 555-010-7788 after four."


@pytest.fixture
def plan(of_note: Call) -> Call:
    """`leakmeter redact` of the note; more options win."""
    return of_note("redact", response="Anna", max_loss=0.5, max_new_tokens=5, out="runs")


def test_what_is_left_is_what_influence_measures_of_the_text_that_is_left(plan: Call, cli: Call, note: Path) -> None:
    """The plan's own number, found again by another command on the text that it wrote."""
    case = object_of(plan("--json", removal="retokenize", write_redacted="left.txt"))
    assert case["reached"]
    assert case["redacted"]
    text = Path("left.txt").read_text(encoding="utf-8")
    assert text == case["redacted_documents"][0]["text"]
    assert len(text) < len(NOTE)
    asked = ("--query", "Who?", "--response", "Anna", "--unit", "whole", "--json")
    again, before = (
        object_of(cli("influence", "--model", "toy", "--context-file", file, *asked)) for file in ("left.txt", note)
    )
    assert again["whole_nats"] == pytest.approx(case["left_nats"], abs=1e-12)
    assert again["whole_nats"] <= 0.5
    assert before["whole_nats"] == pytest.approx(case["whole_nats"], abs=1e-12)


@pytest.mark.parametrize("response", ["Anna", "Graz, 555-010-7788"])
def test_the_whole_context_has_one_posterior_whichever_command_is_asked(
    plan: Call, cli: Call, note: Path, response: str
) -> None:
    planned = object_of(plan("--json", response=response))
    asked = ("--query", "Who?", "--response", response, "--unit", planned["unit"], "--json")
    measured = object_of(cli("influence", "--model", "toy", "--context-file", note, *asked))
    for name in ("whole_signed_nats", "whole_posterior", "whole_posterior_note"):
        assert measured[name] == planned[name]
    assert measured["placebo_alone_nats"] == planned["placebo_nats"]
    assert measured["placebo_alone_signed_nats"] == planned["placebo_signed_nats"]
    for last in planned["steps"][-1:]:
        assert last["left_posterior"] == planned["left_posterior"]
        assert last["left_posterior_note"] == planned["left_posterior_note"]


def test_a_dry_run_tells_about_what_it_takes(plan: Call) -> None:
    dry = object_of(plan("--dry-run", "--json"))
    assert (dry["depends"], dry["at_most"]) == (True, False)
    assert not Path("runs").exists()
    for limit in (1e-6, 0.5, 500.0):
        cost = object_of(plan("--json", max_loss=limit))["cost"]
        assert dry["requests"] / 4 < cost["requests"] < 4 * dry["requests"]
        assert dry["tree_tokens"] / 4 < cost["tree_tokens"] < 4 * dry["tree_tokens"]
    assert "depends on what is found" in plan("--dry-run").out


def test_the_response_is_given_or_drawn_and_the_answer_after_drawn(plan: Call) -> None:
    given, drawn = object_of(plan("--json")), object_of(plan("--json", response=None, max_loss=1e-6))
    assert (given["response"]["sampled"], drawn["response"]["sampled"]) == (False, True)
    assert drawn["response"]["seed"] == drawn["after"]["seed"] == 0
    assert 1 <= len(drawn["after"]["tokens"]) <= 5
    assert given["after"]["whole_nats"] >= 0
    ended = plan("--json", unit="entity", max_loss=1e-6, write_redacted="left.txt")
    assert "redacted text: not written, since more than 1e-06 nats are left" in ended.err
    assert not Path("left.txt").exists()
    assert object_of(ended)["all_removed_nats"] >= object_of(ended)["left_nats"] > 1e-6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_loss": None}, "give --max-loss NATS, or --disclosures"), ({"max_loss": "much"}, "--max-loss"),
        ({"samples": "3"}, "samples is 3; it has to be 0 or 1"),
        ({"write_redacted": "no/such/left.txt"}, "is in a directory that does not exist"),
        ({"write_redacted": "NOTE"}, "which is an input of this command"),
        ({"write_redacted": "LINK"}, "which is an input of this command"),
        ({"unit": "entity", "entity_patterns": "PATTERNS", "write_redacted": "PATTERNS"}, "which is an input of this"),
        ({"write_redacted": "page.html", "html": "page.html"}, "--write-redacted and --html are both 'page.html'"),
        ({"write_redacted": "left.txt", "context_file": None, "query": None, "response": None, "data": "CASES"},
         "--write-redacted is for one --context-file, and none was given"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(
    plan: Call, note: Path, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    places = {name: tmp_path / f"{name}.jsonl" for name in ("LINK", "PATTERNS", "CASES")}
    places["LINK"].symlink_to(note)
    places["PATTERNS"].write_text("case = [A-Z]{2}-\\d+", encoding="utf-8")
    places["CASES"].write_text('{"context": "Anna sang.", "query": "Who?", "response": "Anna."}', encoding="utf-8")
    ended = plan(**{name: {"NOTE": note, **places}.get(value, value) for name, value in options.items()})
    assert_refused(ended, said)
    assert list(Path.cwd().iterdir()) == []
    assert note.read_text(encoding="utf-8") == NOTE


def test_other_words_that_do_not_go_together(plan: Call, note: Path) -> None:
    assert_refused(plan("--swap", unit="entity"), "--swap replaces personal data")
    assert_refused(plan("--context-file", note, write_redacted="left.txt"), "and 2 was given")


def test_from_python_it_is_the_same(plan: Call) -> None:
    told = object_of(plan("--json"))
    how: dict[str, Any] = {"query": "Who?", "response": "Anna", "max_loss": 0.5, "max_new_tokens": 5}
    result = leakmeter.redact("toy", context={"note.txt": NOTE}, **how)
    assert [piece.to_dict() for piece in result.redacted] == told["redacted"]
    assert result.left_nats == told["left_nats"]
    assert result.text == told["redacted_documents"][0]["text"]
    with pytest.raises(UsageError, match="no option of redact named 'swap'"):
        leakmeter.redact("toy", **how, context="Anna sang.", swap=True)


def test_what_disclosures_are_held_against_is_all_read() -> None:
    log = [
        {
            "id": name,
            "context": f"{name} sang. Call 617-555-01{n}0.",
            "query": "Who?",
            "response": f"{name}: 617-555-01{n}0.",
        }
        for n, name in enumerate(("Anna", "Bo", "Cora"), 1)
    ]
    for case in leakmeter.redact("toy", log, disclosures=True, max_loss=None, max_new_tokens=2):
        assert case.is_partly_read is None
        assert not any("kept more of its numbers" in warning for warning in case.warnings)


@pytest.mark.long
def test_the_demo_note_as_the_documentation_tells_it(real_backend: Any) -> None:
    """docs/redaction.md: float32 on a CPU; other processors differ in digits that are not told there."""
    folder = resources.files("leakmeter.data.samples")
    asked = json.loads(folder.joinpath("clinic_note.json").read_text(encoding="utf-8"))
    note = folder.joinpath("clinic_note.txt").read_text(encoding="utf-8")
    how: dict[str, Any] = {**asked, "context": note, "group": True, "max_new_tokens": 2}
    result = leakmeter.redact(real_backend, **how, max_loss=10)
    steps = result.to_frame()
    assert list(steps["name"]) == ["v1", "v2", "s1", "s8", "s5"]
    assert result.whole_nats == pytest.approx(81.4, abs=0.05)
    assert list(steps["left_nats"]) == pytest.approx([57.5, 35.6, 29.3, 26.0, 8.3], abs=0.06)
    assert list(steps["left_signed_nats"])[-1] == pytest.approx(-0.86, abs=0.01)
    assert result.placebo_nats == pytest.approx(9.7, abs=0.05)
    hiding = leakmeter.redact(real_backend, **how, disclosures=True)
    assert [(step.action, step.name) for step in hiding.steps] == [("cut", "v1"), ("cut", "v2"), ("cut", "s1")]
    assert (hiding.n_pieces, hiding.reached) == (12, True)
    assert hiding.disclosed is not None
    spans = hiding.disclosed.spans
    assert [span.text for span in spans] == ["Quillmere", "555-010-7788"]
    nats = [nats for span in spans for nats in (span.before_nats, span.after_nats)]
    assert nats == pytest.approx([27.9, 0.8, 27.3, 0.6], abs=0.06)
    assert hiding.disclosed.rest_change_nats == pytest.approx(-3.2, abs=0.06)
