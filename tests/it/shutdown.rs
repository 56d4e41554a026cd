//! However the server ends, nothing that ran under it is left.

use std::time::Duration;

use serde_json::json;

use crate::support::client::send_signal;
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, assert_none_left, descendants_of};

#[test]
fn the_end_of_stdin_ends_the_server_and_all_that_ran_under_it() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("(env -i setsid {sleep} &); trap '' TERM; {sleep}");
    client.call("zsh", json!({"command": command, "yield_after": 0}));
    sleep.wait_for(2);
    client.close_stdin();
    let (status, _) = client.wait_exit(Duration::from_secs(10));
    assert_eq!(status.code(), Some(0));
    sleep.assert_gone();
    assert_none_left(env.mark());
}

#[test]
fn a_signal_ends_the_server_and_all_that_ran_under_it() {
    for signal in ["TERM", "INT", "HUP"] {
        let env = Env::new();
        let client = env.client();
        let sleep = UniqueSleep::new();
        client.call(
            "zsh",
            json!({"command": format!("{sleep} & wait"), "yield_after": 0}),
        );
        sleep.wait_for(1);
        client.signal(signal);
        let (status, _) = client.wait_exit(Duration::from_secs(10));
        assert_eq!(status.code(), Some(0), "{signal}");
        sleep.assert_gone();
        assert_none_left(env.mark());
    }
}

#[test]
fn the_death_of_the_guard_or_the_server_leaves_nothing_behind() {
    for the_guard in [true, false] {
        let env = Env::new();
        let client = env.client();
        let sleep = UniqueSleep::new();
        let command = format!("(env -i setsid {sleep} &); {sleep}");
        client.call("zsh", json!({"command": command, "yield_after": 0}));
        sleep.wait_for(2);
        let server = descendants_of(client.pid())
            .first()
            .map(|process| process.pid)
            .expect("the guard has started the server");
        send_signal("KILL", if the_guard { client.pid() } else { server });
        client.wait_exit(Duration::from_secs(10));
        sleep.assert_gone();
        assert_none_left(env.mark());
    }
}
