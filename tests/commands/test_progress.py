"""Progress where there is no terminal: a line now and then, of what is being done and of no text."""

from __future__ import annotations

import re
import sys
import threading

import pytest

from leakmeter.backends.toy import Toy
from leakmeter.commands import output, progress
from leakmeter.core import long_work
from leakmeter.core.long_work import heartbeat


class Said:
    """Lines that were told, each of which can be waited for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = threading.Condition()

    def tell(self, line: str) -> None:
        with self._more:
            self.lines.append(line)
            self._more.notify_all()

    def wait_for(self, n: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.lines) >= n, timeout=60)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    made = Said()
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    monkeypatch.setattr(progress, "tell", made.tell)
    return made


def test_a_line_a_case_and_of_each_cell(said: Said) -> None:
    with progress.progress(Toy(), 1_200) as callbacks:
        for number in range(3):
            callbacks.on_case(number, "note of Anna")
            said.wait_for(number + 1)
    times = r" · \d:\d\d(, about [\d:]+ left| gone)"
    kept = r"( · \d cached)?"
    assert [re.fullmatch(rf"measuring (\d)/1,200{times}{kept}", line)[1] for line in said.lines] == [*"123"]
    assert " left" in said.lines[2]
    with progress.study_progress({0: 1.0, 1: 3.0}) as state:
        for number in (0, 1):
            with state.watching(number, Toy(), 2, {"{:.0f} found": number}) as callbacks:
                callbacks.on_case(1, "note of Anna")
                said.wait_for(number + 4)
    assert re.match(r"cell 1/2 · measuring \d/2 · 0 found", said.lines[3])
    assert said.lines[-1].startswith("cell 2/2 · measuring ")


def test_the_rest_takes_as_long_as_what_was_not_read() -> None:
    state = progress._State({0: 100.0})
    with state.watching(0, Toy(), 100, {}) as callbacks:
        callbacks.on_case(60, "read before")
        assert state.left(10.0) == ""
        callbacks.on_case(80, "measured")
        assert state.left(10.0) == ", about 0:10 left"


def test_a_terminal_cuts_nothing_and_has_a_bar_where_there_is_room() -> None:
    state = progress._State({0: 100.0})
    found = {"{:,.0f} with personal or secret data": 9.0}
    with state.watching(0, Toy(), 100, found) as callbacks:
        callbacks.on_case(0, "first")
        assert progress.drawn_line(state, 75.0, 200).startswith(
            "measuring 1/100 · 9 with personal or secret data · 1:15 gone ░"
        )
        state.backend.n_tokens_run = 30_000
        callbacks.on_case(50, "measured")
        whole = (
            "measuring 51/100 · 9 with personal or secret data · 1:15, about 1:15 left · 30,000 tokens, 400 a second"
        )
        short = whole.partition(" · 30,")[0]
        for width, said in (
            (len(whole) + 9, f"{whole} ████░░░░"),
            # A bar is worth more than the pace.
            (len(whole) + 8, f"{short} █░"),
            (len(short) + 9, f"{short} ████░░░░"),
            (len(short) + 8, short),
            (len(short), short),
            (len(short) - 1, "measuring 51/100 · 1:15, about 1:15 left ███████████████░░░░░░░░░░░░░░░░"),
            (20, "measuring 51/100"),
            (5, "measu"),
            (-9, ""),
        ):
            line = progress.drawn_line(state, 75.0, width)
            assert len(line) <= max(width, 0)
            assert line.rstrip("█░ ") == said.rstrip("█░ ")
            assert ("█" in line) is ("█" in said)


def test_cases_of_which_nothing_had_to_be_run_are_counted() -> None:
    state, model = progress._State({0: 100.0}), Toy()
    with state.watching(0, model, 100, {}) as callbacks:
        callbacks.on_case(10, "the first that is not read")
        callbacks.on_case(11, "kept")
        callbacks.on_case(12, "kept")
        model.n_tokens_run += 100
        callbacks.on_case(13, "run")
        assert state.n_kept == 2
        assert " · 2 cached · 100 tokens, " in next(state.lines(2.0))
        model.n_tokens_run += 100
    assert [progress._clock(seconds) for seconds in (0.4, 61.0, 7_325.0)] == ["0:00", "1:01", "2:02:05"]


def test_work_that_grows_has_one_count_and_a_time_left_once_all_is_known() -> None:
    with progress.growing_progress("measurement") as work:
        work.expect(4, goes_on=True)
        with work.pass_of(Toy(), 2) as callbacks:
            callbacks.on_case(1, "note of Anna")
            work.show({"{:,.0f} disclosures": 3})
            assert (work.where, work.found, work.left(9.0)) == ("measurement 2/4 or more", " · 3 disclosures", "")
        work.expect(2, goes_on=False)
        with work.pass_of(Toy(), 4) as callbacks:
            callbacks.on_case(1, "note of Anna")
            assert next(work.lines(6.0)) == "measurement 4/6 · 3 disclosures · 0:06, about 0:09 left"
            assert work.left(6.0) == ", about 0:09 left"


def test_long_work_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "MOMENT", 0.001)
    said = Said()
    with long_work.told_if_long(said.tell, "loading toy …"):
        said.wait_for(1)
    assert said.lines == ["loading toy …"]
    monkeypatch.setattr(long_work, "MOMENT", 60.0)
    with long_work.told_if_long(said.tell, "loading toy …"):
        pass
    assert len(said.lines) == 1


def test_counting(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    with progress.counting("documents read") as count:
        count(1_000, 2_000)
    assert said.lines == ["documents read: 1,000 of 2,000 · under 1 s left"]
    monkeypatch.setattr(progress, "LINE_SECONDS", 10.0)
    with progress.counting("documents read") as count:
        count(2_000, 2_000)
    assert len(said.lines) == 1


def test_a_heartbeat() -> None:
    said = Said()
    with heartbeat(said.tell, "converting", every_s=0.001):
        said.wait_for(2)
    n = len(said.lines)
    assert re.fullmatch(r"converting: \d+ s so far …", said.lines[0])
    with heartbeat(said.tell, "converting"):
        pass
    assert len(said.lines) == n


@pytest.mark.parametrize("is_terminal", [False, True])
def test_what_is_told_on_a_terminal_is_broken_between_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    note = 'data: first case, context: "Account 4411: Odalys Brewster. Mobile 555-013-4402"'
    output.tell(note)
    told = capsys.readouterr().err
    lines = told.splitlines()
    assert " ".join(lines) == note
    assert (max(map(len, lines)) <= 40) is is_terminal
    command = "when all 3 parts are: leakmeter runs complete runs/influence-1f2e3d4c5b6a7988"
    output.tell(command)
    assert capsys.readouterr().err == f"{command}\n"
