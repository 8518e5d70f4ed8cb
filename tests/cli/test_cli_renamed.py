"""Options under their spellings of the release before."""

from __future__ import annotations

import pytest
from cyclopts import App

from leakmeter.commands.renamed import renamed, with_new_names


def program() -> App:
    app = App(name="leakmeter")
    icl = App(name="icl")

    @icl.default
    @renamed("--queries", "--max-queries", when=str.isdecimal)
    @renamed("--silent", "--quiet")
    def run(*, queries: str = "", max_queries: int = 0, quiet: bool = False) -> tuple[str, int, bool]:
        return queries, max_queries, quiet

    @app.command
    def other(*, queries: str) -> str:
        return queries

    app.command(icl)
    return app


@pytest.mark.parametrize(
    ("words", "found", "told"),
    [
        (["icl", "--queries", "100", "--silent"], ("", 100, True), ["--queries", "--silent"]),
        (["icl", "--queries=100"], ("", 100, False), ["--queries"]),
        (["icl", "--queries", "a.jsonl", "--max-queries", "3"], ("a.jsonl", 3, False), []),
        (["icl", "--queries=a.jsonl", "--quiet"], ("a.jsonl", 0, True), []),
        (["other", "--queries", "100"], "100", []),
    ],
)
def test_an_old_spelling_is_understood_and_told_of(
    words: list[str], found: object, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    app = program()
    said = app(with_new_names(app, words), result_action="return_value")
    assert said == found
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == told
    assert all("now; the old spelling goes with the next release" in line for line in lines)


def test_help_says_the_new_spelling_alone(capsys: pytest.CaptureFixture[str]) -> None:
    program()(["icl", "--help"], result_action="return_value")
    assert "--silent" not in capsys.readouterr().out
