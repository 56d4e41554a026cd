//! The faults that last: as often and as long as the project promises to bear them. Other
//! modules have the same in short; `make test-long` runs these side by side.

use std::time::Duration;

use crate::alan_faults::{commands_go_on_while_locked, kill_again_and_again};
use crate::faults::a_late_reader_finds_every_answer;

const MANY_KILLS: usize = 200;
const MINUTE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "takes long: make test-long"]
fn a_server_killed_two_hundred_times_leaves_a_sound_database() {
    kill_again_and_again(MANY_KILLS);
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
fn a_client_that_does_not_read_for_a_minute_finds_every_answer() {
    a_late_reader_finds_every_answer(MINUTE);
}
