"""The options that commands share, and the cases they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import object_of
from helpers.user_strings import all_strings
from leakmeter.backends.toy import Toy
from leakmeter.commands.cases import read_cases
from leakmeter.commands.options import CaseSource, RunOptions
from leakmeter.core.case import Case, Document
from leakmeter.core.loaded import LoadedCases
from leakmeter.engine.options import MODEL_OPTIONS
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

Call = Callable[..., Any]
GOOD = Case("good", (Document("a", "Anna sang."),), "Who?", "Anna")
BAD = Case("bad", (Document("a", "Anna sang."),), "Who?", "")


def text_of(ended: Any) -> str:
    """What help says, without the box it stands in."""
    return " ".join(ended.out.replace("│", " ").split())


@pytest.mark.parametrize("name", ["influence", "decode"])
def test_every_shared_option_is_one_of_the_command_and_flags_have_no_negatives(cli: Call, name: str) -> None:
    told = text_of(cli(name, "--help-all"))
    for field in (*fields(CaseSource), *fields(RunOptions)):
        # A loaded pair has no command, and --no-cache is that of `cache`.
        is_shown = f" --{field.name.replace('_', '-')} " in told
        assert is_shown == (field.name not in ("model_id", "cache"))
    assert "[default: smollm2-135m]" in told
    assert "[default: runs]" in told
    for option in ("--no-skip-bad", "--no-json", "--no-dry-run", "--empty-context-file"):
        assert option not in told
        ended = cli(name, "--model", "toy", option)
        assert (ended.code, f"Unknown option: {option}" in ended.err) == (2, True)


def test_a_command_says_where_an_option_means_something_else_to_it(cli: Call) -> None:
    influence, decode = (text_of(cli(name, "--help-all")) for name in ("influence", "decode"))
    for words, others in (
        ("'query', 'response', and optionally 'id'.", "A given 'response' is scored as if it had been drawn"),
        ("bfloat16 on CUDA by default.", "float32 on a CPU or with epsilon"),
        ("Directory of runs, or its URL", "Directory of runs; with epsilon private, names included."),
    ):
        assert [words in told for told in (influence, decode)] == [True, False]
        assert [others in told for told in (influence, decode)] == [False, True]


@pytest.mark.parametrize(
    ("name", "query"), [("influence", "- a list"), ("influence", "--json"), ("influence", "-"), ("decode", "--json")]
)
def test_a_query_may_begin_with_a_hyphen(cli: Call, note: Path, name: str, query: str) -> None:
    words = (name, "--model", "toy", "--context-file", note, "--query", query, "--max-new-tokens", 1, "--json")
    assert object_of(cli(*words, *(("--unit", "whole") if name == "influence" else ())))["query"] == query


def test_bad_cases_are_left_out_and_named_or_stop_the_command() -> None:
    settings, measure = PromptSettings(), Influence()
    given = LoadedCases((BAD, GOOD, BAD), ("line 1: not JSON",), skip_bad=True)
    prepared, kept = given.prepared(Toy(), settings, measure)
    assert [one.item.id for one in prepared] == ["good"]
    assert kept.cases == (GOOD,)
    assert kept.problems[0] == "line 1: not JSON"
    assert len(kept.problems) == 3
    assert given.problems == ("line 1: not JSON",)
    with pytest.raises(UsageError, match="'bad'"):
        LoadedCases((GOOD, BAD)).prepared(Toy(), settings, measure)
    with pytest.raises(UsageError, match="none of 1 cases can be used; the first: line 1: not JSON"):
        LoadedCases((BAD,), ("line 1: not JSON",), skip_bad=True).prepared(Toy(), settings, measure)


def test_one_source_of_cases(note: Path) -> None:
    (case,) = read_cases(CaseSource(context_file=[note, note], query="Who?"), "Anna").cases
    assert (case.id, case.query, case.response) == ("note", "Who?", "Anna")
    assert [document.name for document in case.documents] == ["note.txt", "note.txt (2)"]


def test_what_settings_cannot_use_is_said_before_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *_, **__: pytest.fail("the model was loaded"))
    with pytest.raises(LeakmeterError, match="no-such-file"):
        leakmeter.influence("smollm2-135m", context="Ana is 41.", query="Age?", response="41", template="@no-such-file")


OTHERWISE = {
    "--allow-remote": 3,  # the doctor sends its own texts, demo its sample, and serve lets others in too
    "--dtype": 2,  # of bounded draws, and of Fisher's gradients
    "--memory": 1,  # of a query in SQL
}
"""Further texts of options of a model, where a command means something else by the name."""


def test_an_option_of_a_model_has_one_help_text() -> None:
    texts = Counter(
        option
        for line in all_strings()
        if (option := line.removeprefix("option ").partition(":")[0]) in map(as_option, MODEL_OPTIONS)
    )
    assert texts == {option: 1 + OTHERWISE.get(option, 0) for option in texts}
    assert {*OTHERWISE, "--device", "--tokenizer", "--concurrency"} <= texts.keys()


def as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
