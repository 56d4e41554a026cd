//! The faults that last: as often and as long as the project promises to bear them. Other
//! modules have the same in short; `make test-long` runs these side by side.

use std::time::Duration;

use crate::alan_faults::{commands_go_on_while_locked, kill_again_and_again};
use crate::attach::silent_attachment_stays;
use crate::dialect;
use crate::faults::a_late_reader_finds_every_answer;
use crate::hosts_faults::{kill_at_any_moment, sleep_and_wake};
use crate::kill;
use crate::leftovers;
use crate::lifetime;
use crate::restarts;
use crate::shapes::corpus::{LONG, healthy_shapes_are_left_alone, stuck_shapes_are_named};
use crate::shapes::further::all_get_the_word_that_is_theirs;
use crate::shapes::reproductions::compilations_are_left_alone;
use crate::shown;
use crate::support::env::{Env, unique_word};
use crate::zsh_suite::runs_as_in_bare_zsh;

const MANY_KILLS: usize = 200;
const MINUTE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "takes long: make test-long"]
fn a_server_killed_two_hundred_times_leaves_a_sound_database() {
    kill_again_and_again(MANY_KILLS);
}

#[test]
#[ignore = "takes long: make test-long"]
fn of_projects_of_go_cmake_and_maven_each_failure_is_in_the_first_answer() {
    shown::of_further_projects_each_failure_is_shown_and_little_of_their_success();
}

#[test]
#[ignore = "takes long: make test-long"]
fn each_line_that_differs_in_bash_is_noted_and_runs_as_in_bash_with_shell_bash() {
    dialect::each_difference_is_noted(1);
    dialect::each_line_gives_the_bytes_of_bare_bash(1);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_database_that_others_lock_for_a_minute_delays_no_command() {
    commands_go_on_while_locked("NORMAL", MINUTE);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_database_that_nobody_may_read_for_a_minute_delays_no_command() {
    commands_go_on_while_locked("EXCLUSIVE", MINUTE);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_person_who_types_nothing_for_longer_than_an_idle_connection_lives_stays_attached() {
    silent_attachment_stays(MINUTE + MINUTE / 6);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_laptop_that_sleeps_for_forty_seconds_continues_its_tasks_on_a_host() {
    sleep_and_wake(MINUTE * 2 / 3, false);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_laptop_that_sleeps_for_forty_seconds_with_its_server_keeps_its_connection() {
    sleep_and_wake(MINUTE * 2 / 3, true);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_host_whose_processes_are_killed_a_hundred_times_runs_nothing_twice() {
    kill_at_any_moment(100);
}

#[test]
#[ignore = "takes long: make test-long"]
fn in_three_hundred_kills_each_request_is_answered_once_and_nothing_runs_twice() {
    restarts::kill_servers(100);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_client_that_does_not_read_for_a_minute_finds_every_answer() {
    a_late_reader_finds_every_answer(MINUTE);
}

#[test]
#[ignore = "takes long: make test-long"]
fn all_of_zshs_own_tests_run_as_in_bare_zsh() {
    runs_as_in_bare_zsh(1);
}

#[test]
#[ignore = "takes long: make test-long"]
fn what_is_healthy_is_never_called_stuck_in_eighty_seconds() {
    healthy_shapes_are_left_alone(LONG);
}

#[test]
#[ignore = "takes long: make test-long"]
fn what_is_stuck_is_named_within_seventy_five_seconds() {
    stuck_shapes_are_named(LONG);
}

#[test]
#[ignore = "takes long: make test-long"]
fn a_build_of_four_minutes_continues_past_a_deadline_that_it_did_not_set() {
    lifetime::a_build_of_four_minutes_continues();
}

#[test]
#[ignore = "takes long: make test-long"]
fn two_compilations_of_a_minute_are_never_called_hung() {
    compilations_are_left_alone();
}

#[test]
#[ignore = "takes long: make test-long"]
fn programs_of_many_kinds_get_the_word_that_is_theirs_in_two_minutes() {
    all_get_the_word_that_is_theirs();
}

/// How often each daemon is started and ended.
const DAEMONS: usize = 20;

#[test]
#[ignore = "takes long: make test-long"]
fn receipts_of_daemons_are_true_each_of_twenty_times() {
    for _ in 0..DAEMONS {
        leftovers::a_daemon_that_keeps_nothing_of_its_task_is_counted_and_ended_and_no_other_is();
        leftovers::an_sshd_is_named_and_ended();
        leftovers::a_daemon_of_the_list_is_named_as_kept_and_not_ended();
        kill::a_receipt_and_the_status_of_a_program_that_waited_for_input_agree();
        a_screen_is_named_as_kept_and_a_jshell_is_ended();
    }
}

fn a_screen_is_named_as_kept_and_a_jshell_is_ended() {
    let env = Env::new();
    let client = env.client();
    let name = unique_word();
    let screens = env.path("screens").display().to_string();
    let screen = format!("mkdir -m 700 -p {screens}; export SCREENDIR={screens}; screen");
    let started = client.run(&format!("{screen} -dmS {name} sleep 300"));
    assert_eq!(started.meta["exit_code"], 0, "{}", started.text);
    assert!(!started.footer().contains("still running"), "{}", started.text);
    let receipt = client.kill_task(&started.task_id());
    for kept in [&started, &receipt] {
        assert_eq!(kept.meta["kept"][0]["name"], "screen", "{}", kept.text);
    }
    let ended = client.run(&format!("{screen} -S {name} -X quit"));
    assert_eq!(ended.meta["exit_code"], 0, "{}", ended.text);

    let jshell = client.on_terminals(&["jshell"], 40).remove(0);
    let receipt = client.kill_task(&jshell.task_id());
    assert!(receipt.text.contains("no survivors"), "{}", receipt.text);
    assert_eq!(receipt.status(), "killed", "{}", receipt.text);
    assert!(!receipt.text.contains("RUNNING"), "{}", receipt.text);
}
