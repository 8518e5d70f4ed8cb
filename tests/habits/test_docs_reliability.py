"""Every guarantee of the page on reliability, and every attack, has its tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from helpers.places import DOCS, TESTS

GUARANTEES: Final = {
    "full disk, run": (
        "engine/test_resume:test_a_full_disk_ends_the_run_in_one_line_and_it_goes_on_later",
        "storage/test_rundir:test_a_full_disk_is_a_store_error",
    ),
    "full disk, fetched model, extraction or traces": (
        "models/test_pull:test_a_full_disk_is_one_line_and_leaves_no_temporary_files",
        "instruments/pii/test_extraction_run:test_a_full_disk_is_one_line_and_leaves_nothing",
        "traces/test_reader:test_a_full_disk_is_one_line",
    ),
    "full disk, score cache": ("engine/test_scores:test_a_full_disk_turns_the_cache_off",),
    "full disk, ledger": ("ledger/test_day:test_a_full_disk_and_a_ledger_in_use_for_too_long_are_one_line",),
    "full disk, logged answers": ("integrations/test_log:test_a_disk_that_is_full_costs_one_line",),
    "unwritable place": (
        "storage/test_rundir:test_a_directory_below_a_file_cannot_be_made",
        "storage/test_export:test_places_that_cannot_be_written",
        "engine/test_scores:test_a_place_that_cannot_be_written_turns_the_cache_off",
        "models/test_resolve:test_a_cache_that_cannot_be_written_costs_only_time",
    ),
    "SIGKILL, run": (
        "engine/test_resume:test_a_run_killed_again_and_again_ends_like_one_left_alone",
        "storage/test_rundir:test_what_a_kill_left_half_written_is_removed",
    ),
    "SIGKILL, study, sweep, selection, search, tuning, ledger": (
        "cli/test_study:test_a_study_that_is_killed_ends_like_one_left_alone",
        "instruments/decoding/test_frontier_command:test_a_sweep_killed_again_and_again_ends_like_one_left_alone",
        "instruments/icl/test_selection_command:test_a_selection_killed_again_and_again_ends_like_one_left_alone",
        "instruments/influence/test_search:test_a_searched_run_that_was_killed_goes_on_and_says_the_same",
        "instruments/pii/test_tuning_soft_prompt:test_a_tuning_that_was_killed_goes_on_to_the_same_numbers",
        "instruments/pii/test_tuning_finetune:test_a_fine_tuning_that_was_killed_goes_on_to_the_same_bytes",
        "ledger/test_day:test_killed_anywhere_it_goes_on_to_the_same_numbers",
    ),
    "SIGKILL, extraction of people": (
        "instruments/pii/test_extraction_run:test_after_a_kill_the_same_begins_anew_and_no_half_file_stays",
    ),
    "SIGKILL, conversion of a model": ("models/test_pull:test_a_process_killed_while_converting_holds_nobody_up",),
    "SIGKILL, worker, machine or driver": (
        "execute/test_ray:test_a_node_goes_and_another_comes",
        "execute/test_ray:test_a_killed_driver_goes_on",
        "engine/test_fleet:test_a_case_that_kills_its_worker_is_named_and_the_rest_is_kept",
    ),
    "SIGKILL, server under a bound": ("serve/test_spent:test_a_process_that_is_killed_gives_nothing_back",),
    "Ctrl-C": (
        "execute/test_ray:test_an_interrupt_keeps_what_is_under_way",
        "test_library:test_an_interrupted_call_goes_on",
        "cli/test_runs:test_an_interrupted_run_shows_what_is_measured",
    ),
    "two writers of a run": (
        "storage/test_rundir:test_two_processes_do_not_write_one_run",
        "stores/test_stored_runs:test_a_second_driver_is_refused",
    ),
    "lost lock": (
        "storage/test_rundir:test_the_lock_is_given_back_after_an_error",
        "stores/test_stored_runs:test_a_driver_that_was_killed_is_followed_when_its_lease_ran_out",
        "stores/test_stored_runs:test_who_lost_the_lease_stops_and_harms_nothing",
    ),
    "failed or unanswered request to an object store": (
        "stores/test_stored_runs:test_a_put_that_fails_half_way_costs_its_part_alone",
        "stores/test_stored_runs:test_puts_whose_answers_are_lost_are_ours",
        "stores/test_stored_runs:test_two_that_write_one_part_do_not_mix",
    ),
    "clock set back": ("storage/test_clock:test_a_clock_that_goes_back_changes_no_run",),
    "out of memory in the model": (
        "backends/test_memory:test_out_of_memory_halves_and_goes_on",
        "backends/test_memory:test_what_does_not_fit_alone_is_said_and_loses_nothing",
        "engine/test_groups:test_running_out_of_memory_names_the_group",
    ),
    "small `--memory`": (
        "commands/test_memory:test_every_instrument_keeps_its_budget",
        "commands/test_memory:test_a_budget_is_kept_with_the_default_model",
    ),
    "10,000 cases": (
        "execute/test_ray:test_ten_thousand_cases_fit_into_a_driver_of_500_mb",
        "core/test_preparations:test_few_stay_in_memory_and_none_that_cannot_be_prepared",
    ),
    "damaged file, run": (
        "storage/test_verify:test_a_damaged_file_is_named",
        "storage/test_verify:test_an_edited_spec_is_found_out",
        "cli/test_query:test_damaged_runs_are_left_out_and_told",
        "cli/test_runs:test_runs_are_listed",
    ),
    "damaged file, score cache or fetched model": (
        "engine/test_scores:test_a_damaged_file_is_replaced",
        "models/test_pull:test_damaged_weights_in_the_cache_are_replaced",
    ),
    "another model behind a server": ("engine/test_served_runs:test_a_model_that_changes_in_the_middle_stops_the_run",),
    "server restart": ("engine/test_served_runs:test_a_run_outlives_the_servers_restart_and_pays_nothing_twice",),
    "unforeseen error": (
        "cli/test_errors:test_no_traceback_in_a_process_of_its_own",
        "cli/test_last_catch:test_streams_that_are_closed_or_full",
    ),
}

ATTACKS: Final = {
    "Byte search after `ledger forget`": (
        "hostile/test_ledger_forget:test_nothing_is_left_in_any_byte",
        "hostile/test_ledger_forget:test_a_name_is_forgotten_however_it_is_spelled",
        "hostile/test_ledger_forget:test_texts_that_cannot_be_read_go_too",
        "hostile/test_ledger_forget:test_disclosures_of_what_is_forgotten_go_and_those_of_others_stay",
    ),
    "SIGKILL at each step of `forget`": (
        "hostile/test_ledger_forget:test_forgetting_that_is_killed_at_any_step_is_done_by_the_same_command",
    ),
    "Forgetting what a killed `add` left uncommitted": (
        "hostile/test_ledger_forget:test_what_a_killed_addition_left_is_removed_though_the_ledger_never_knew_of_it",
        "hostile/test_ledger_forget:test_the_command_reaches_what_was_never_committed",
        "hostile/test_ledger_forget:test_what_is_half_written_goes_whoever_has_its_writers_number_now",
    ),
    "Adding a forgotten log again": (
        "hostile/test_ledger_forget:test_what_was_forgotten_and_is_added_again_counts_as_in_a_new_ledger",
    ),
    "Pages and reports inside the ledger's directory": (
        "hostile/test_ledger_forget:test_what_forgetting_does_not_reach_is_said_or_refused",
    ),
    "A ledger's copy without its key": ("hostile/test_ledger_forget:test_a_copy_without_the_key_tells_nothing",),
    "SIGKILL at each step of `ledger add`": (
        "hostile/test_ledger_killed:test_an_addition_killed_at_any_step_goes_on_to_the_same_ledger",
    ),
    "SIGKILL of a server under a bound, at each step": (
        "hostile/test_ledger_killed:test_what_a_server_answered_that_was_killed_at_any_step_is_charged",
    ),
    "20 threads at one guard, 20 guards at one ledger": (
        "hostile/test_guard_threads:test_no_budget_is_overrun",
        "hostile/test_guard_threads:test_a_verdict_that_is_recorded_by_many_counts_once_and_is_read_meanwhile",
    ),
    "`forget` beside a guard": (
        "hostile/test_guard_threads:test_what_is_forgotten_before_an_answer_is_counted_is_counted_with_it",
        "hostile/test_guard_threads:test_answers_are_counted_with_their_numbers_while_others_forget",
        "hostile/test_guard_threads:test_texts_that_are_gone_when_an_answer_is_counted_are_not_said_to_be_kept",
        "hostile/test_guard_threads:test_forgetting_at_once_with_checks_that_keep_texts",
    ),
    "Values nested 100,000 deep": (
        "hostile/test_hostile_traces:test_values_of_any_depth",
        "hostile/test_hostile_traces:test_a_whole_file_of_any_depth_is_refused",
    ),
    "A line of 1 GB": (
        "hostile/test_hostile_traces:test_a_line_of_any_length_takes_the_memory_of_a_piece",
        "hostile/test_hostile_traces:test_a_line_of_a_gigabyte_and_small_files_of_gigabytes",
    ),
    "Packed files of gigabytes": (
        "hostile/test_hostile_traces:test_what_unpacks_to_far_more_than_it_is_is_refused",
        "hostile/test_hostile_traces:test_a_line_of_a_gigabyte_and_small_files_of_gigabytes",
    ),
    "Packed JSON of millions of lists, long records of no format": (
        "hostile/test_hostile_traces:test_small_files_of_large_values_are_refused",
        "hostile/test_hostile_traces:test_a_line_of_a_gigabyte_and_small_files_of_gigabytes",
    ),
    "Spans in rings, missing parents": ("hostile/test_hostile_traces:test_no_answer_is_lost_whatever_is_above_it",),
    "A million spans, chains of 10,000": (
        "hostile/test_hostile_traces:test_spans_take_a_time_in_proportion_to_their_number",
        "hostile/test_hostile_traces:test_a_record_with_too_many_spans_is_refused",
        "hostile/test_hostile_traces:test_a_hundred_thousand_spans",
    ),
    "Many texts, places and turns": (
        "hostile/test_hostile_traces:test_of_a_trace_no_more_is_looked_for_than_takes_seconds",
        "hostile/test_hostile_traces:test_places_take_a_time_in_proportion_to_their_number",
        "hostile/test_hostile_traces:test_places_within_words_are_not_tried_one_by_one",
        "hostile/test_hostile_traces:test_texts_and_places_beyond_all_use_are_refused",
        "hostile/test_hostile_traces:test_one_text_under_many_ids_takes_a_time_in_proportion_to_their_number",
        "hostile/test_hostile_traces:test_long_conversations_take_a_time_in_proportion_to_their_length",
    ),
    "Logs that fill memory": (
        "hostile/test_hostile_traces:test_a_batch_of_long_answers_is_a_short_one",
        "hostile/test_hostile_traces:test_a_log_of_conversations_is_not_held_without_end",
    ),
    "Repeated ids": (
        "hostile/test_hostile_traces:test_answers_under_one_id_are_all_accounted_for",
        "hostile/test_hostile_traces:test_halves_of_calls_under_one_id_are_not_put_together_by_chance",
    ),
    "Numbers of 5,000 digits": ("hostile/test_hostile_traces:test_numbers_that_are_none",),
    "A lying server": (
        "hostile/test_lying_server:test_an_answer_that_is_none_is_one_line",
        "hostile/test_lying_server:test_a_lie_ends_a_command_in_one_line_and_leaves_nothing",
    ),
    "Model names that a page sends": ("hostile/test_doctor_ssrf:test_no_other_model_is_asked_or_looked_for",),
    "Markup and control characters in any text": (
        "hostile/test_pages_escape:test_no_text_is_markup_on_any_page",
        "hostile/test_pages_escape:test_no_text_is_markup_in_a_report",
        "hostile/test_pages_escape:test_no_text_is_obeyed_by_a_terminal",
    ),
    "Foreign run directories with pipes, devices, huge files": (
        "hostile/test_foreign_runs:test_what_is_no_file_is_named_and_nobody_waits",
    ),
    "A run's part edited with its hash": (
        "storage/test_parts:test_texts_that_were_edited",
        "storage/test_parts:test_numbers_that_were_edited",
    ),
}

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
    named = (GUARANTEES | ATTACKS)[event]
    assert named
    for place, _, name in (test.partition(":") for test in named):
        assert f"def {name}(" in Path(TESTS, f"{place}.py").read_text(encoding="utf-8"), f"{place}:{name}"
