"""Every guarantee of the page on reliability, and every attack, has its tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from helpers.places import DOCS, TESTS

GUARANTEES: Final = {
    "full disk, run": "engine/test_resume:full_disk storage/test_rundir:full_disk",
    "full disk, fetched model, extraction or traces": (
        "models/test_pull:full_disk instruments/pii/test_extraction_run:full_disk traces/test_reader:full_disk"
    ),
    "full disk, score cache": "engine/test_scores:full_disk",
    "full disk, ledger": "ledger/test_day:full_disk",
    "full disk, logged answers": "integrations/test_log:disk_that_is_full",
    "unwritable place": (
        "storage/test_rundir:cannot_be_made storage/test_export:cannot_be_written engine/test_scores:cannot_be_written "
        "models/test_resolve:cannot_be_written"
    ),
    "SIGKILL, run": "engine/test_resume:killed_again_and_again storage/test_rundir:kill_left_half_written",
    "SIGKILL, study, sweep, selection, search, tuning, ledger": (
        "cli/test_study:killed instruments/decoding/test_frontier_command:killed "
        "instruments/icl/test_selection_command:killed instruments/influence/test_search:killed "
        "instruments/pii/test_tuning_soft_prompt:killed instruments/pii/test_tuning_finetune:killed "
        "ledger/test_day:killed"
    ),
    "SIGKILL, extraction of people": "instruments/pii/test_extraction_run:after_a_kill",
    "SIGKILL, conversion of a model": "models/test_pull:killed_while_converting",
    "SIGKILL, worker, machine or driver": (
        "execute/test_ray:a_node_goes execute/test_ray:killed_driver engine/test_fleet:kills_its_worker"
    ),
    "SIGKILL, server under a bound": "serve/test_spent:process_that_is_killed",
    "Ctrl-C": "execute/test_ray:interrupt test_library:interrupted cli/test_runs:interrupted",
    "two writers of a run": "storage/test_rundir:two_processes stores/test_stored_runs:second_driver",
    "lost lock": (
        "storage/test_rundir:ends_before_a_part_is_finished stores/test_stored_runs:lease_ran_out "
        "stores/test_stored_runs:lost_the_lease"
    ),
    "failed or unanswered request to an object store": (
        "stores/test_stored_runs:fails_half_way stores/test_stored_runs:answers_are_lost "
        "stores/test_stored_runs:do_not_mix"
    ),
    "clock set back": "storage/test_clock:goes_back",
    "out of memory in the model": (
        "backends/test_memory:out_of_memory backends/test_memory:does_not_fit engine/test_groups:out_of_memory"
    ),
    "passes that give wrong numbers for a model": (
        "engine/test_self_check:no_instrument_reports engine/test_self_check:computed_plainly "
        "engine/test_self_check:disagrees_with_itself engine/test_self_check:before_a_failed_check"
    ),
    "small `--memory`": "commands/test_memory:keeps_its_budget commands/test_memory:budget_is_kept",
    "10,000 cases": "execute/test_ray:ten_thousand_cases core/test_preparations:stay_in_memory",
    "damaged file, run": (
        "storage/test_verify:damaged_file storage/test_verify:edited_spec cli/test_query:damaged_runs "
        "cli/test_runs:runs_are_listed"
    ),
    "damaged file, score cache or fetched model": "engine/test_scores:damaged_file models/test_pull:damaged_weights",
    "another model behind a server": "engine/test_served_runs:model_that_changes",
    "server restart": "engine/test_served_runs:servers_restart",
    "unforeseen error": "cli/test_errors:no_traceback cli/test_last_catch:closed_or_full",
}
"""Of each event, files of tests with words of the tests' names."""
ATTACKS: Final = {
    "Byte search after `ledger forget`": (
        "ledger_forget:left_in_any_byte ledger_forget:however_it_is_spelled ledger_forget:texts_that_cannot_be_read "
        "ledger_forget:disclosures"
    ),
    "SIGKILL at each step of `forget`": "ledger_forget:killed_at_any_step",
    "Forgetting what a killed `add` left uncommitted": (
        "ledger_forget:killed_addition ledger_forget:never_committed ledger_forget:half_written"
    ),
    "Adding a forgotten log again": "ledger_forget:added_again",
    "Pages and reports inside the ledger's directory": "ledger_forget:does_not_reach",
    "A ledger's copy without its key": "ledger_forget:without_the_key",
    "SIGKILL at each step of `ledger add`": "ledger_killed:addition_killed_at_any_step",
    "SIGKILL of a server under a bound, at each step": "ledger_killed:server_answered_that_was_killed",
    "20 threads at one guard, 20 guards at one ledger": "guard_threads:budget guard_threads:recorded_by_many",
    "`forget` beside a guard": (
        "guard_threads:forgotten_before guard_threads:while_others_forget guard_threads:texts_that_are_gone "
        "guard_threads:forgetting_at_once"
    ),
    "Values nested 100,000 deep": "hostile_traces:values_of_any_depth hostile_traces:whole_file_of_any_depth",
    "A line of 1 GB": "hostile_traces:line_of_any_length hostile_traces:line_of_a_gigabyte",
    "Packed files of gigabytes": "hostile_traces:what_unpacks hostile_traces:small_files_of_gigabytes",
    "Packed JSON of millions of lists, long records of no format": "hostile_traces:small_files_of_large_values",
    "Spans in rings, missing parents": "hostile_traces:whatever_is_above_it",
    "A million spans, chains of 10,000": (
        "hostile_traces:spans_take hostile_traces:too_many_spans hostile_traces:thousand_spans"
    ),
    "Many texts, places and turns": (
        "hostile_traces:looked_for hostile_traces:places_take hostile_traces:one_by_one "
        "hostile_traces:texts_and_places hostile_traces:many_ids hostile_traces:long_conversations"
    ),
    "Logs that fill memory": "hostile_traces:long_answers hostile_traces:not_held_without_end",
    "Repeated ids": "hostile_traces:answers_under_one_id hostile_traces:halves_of_calls",
    "Numbers of 5,000 digits": "hostile_traces:numbers_that_are_none",
    "A lying server": "lying_server:answer_that_is_none lying_server:lie_ends_a_command",
    "1,000 silent connections, or with half a request": (
        "serve/test_connections:thousand_silent serve/test_connections:half_of_a_second "
        "serve/test_connections:whole_head"
    ),
    "Model names that a page sends": "doctor_ssrf:no_other_model",
    "Markup and control characters in any text": (
        "pages_escape:markup_on_any_page pages_escape:markup_in_a_report pages_escape:obeyed_by_a_terminal"
    ),
    "Foreign run directories with pipes, devices, huge files": "foreign_runs:nobody_waits",
    "A run's part edited with its hash": "storage/test_parts:texts_that_were storage/test_parts:numbers_that_were",
}
"""The same of attacks; files are those of tests/hostile where no folder is named."""

PAGE: Final = (DOCS / "reliability.md").read_text(encoding="utf-8")


def test_every_guarantee_has_a_test_and_every_test_its_line() -> None:
    table = PAGE.split("## Guaranteed", 1)[1].split("## Not guaranteed")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if re.match(r"\| (?!event|---)", line)]
    assert [event for event, _ in rows] == list(GUARANTEES)
    assert all(consequence for _, consequence in rows)
    assert len(rows) > 20


def test_every_attack_has_a_test_and_says_what_comes_of_it() -> None:
    lines = re.findall(r"^- (.+)$", PAGE.split("\n## Attacks", 1)[1], re.MULTILINE)
    assert [line.split(": ", 1)[0] for line in lines] == list(ATTACKS)
    assert all(line.split(": ", 1)[1] for line in lines)


@pytest.mark.parametrize("event", [*GUARANTEES, *ATTACKS])
def test_named_tests_exist(event: str) -> None:
    for place, _, words in (test.partition(":") for test in (GUARANTEES | ATTACKS)[event].split()):
        path = Path(TESTS, f"{place}.py" if "test_" in place else f"hostile/test_{place}.py")
        assert re.search(rf"def test_\w*{words}", path.read_text(encoding="utf-8")), f"{place}:{words}"
