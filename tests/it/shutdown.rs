//! However the server ends, nothing that ran under it is left.

use std::time::Duration;

use serde_json::json;

use crate::support::client::send_signal;
use crate::support::env::{Env, unique_sleep};
use crate::support::processes::{assert_none_left, descendants_of, sleeps, wait_until};

#[test]
fn the_end_of_stdin_ends_the_server_and_all_that_ran_under_it() {
    let env = Env::new();
    let client = env.client();
    let sleep = unique_sleep();
    let command = format!("(env -i setsid sleep {sleep} &); trap '' TERM; sleep {sleep}");
    client.call("zsh", json!({"command": command, "yield_after": 0}));
    wait_until("both sleeps run", || {
        (sleeps(&sleep).len() == 2).then_some(())
    });
    client.close_stdin();
    let (status, _) = client.wait_exit(Duration::from_secs(10));
    assert_eq!(status.code(), Some(0));
    assert_none_left(&sleep);
    assert_none_left(env.mark());
}

#[test]
fn a_signal_ends_the_server_and_all_that_ran_under_it() {
    for signal in ["TERM", "INT", "HUP"] {
        let env = Env::new();
        let client = env.client();
        let sleep = unique_sleep();
        client.call(
            "zsh",
            json!({"command": format!("sleep {sleep} & wait"), "yield_after": 0}),
        );
        wait_until("the sleep runs", || {
            (sleeps(&sleep).len() == 1).then_some(())
        });
        client.signal(signal);
        let (status, _) = client.wait_exit(Duration::from_secs(10));
        assert_eq!(status.code(), Some(0), "{signal}");
        assert_none_left(&sleep);
        assert_none_left(env.mark());
    }
}

#[test]
fn the_death_of_the_guard_or_the_server_leaves_nothing_behind() {
    for the_guard in [true, false] {
        let env = Env::new();
        let client = env.client();
        let sleep = unique_sleep();
        let command = format!("(env -i setsid sleep {sleep} &); sleep {sleep}");
        client.call("zsh", json!({"command": command, "yield_after": 0}));
        wait_until("both sleeps run", || {
            (sleeps(&sleep).len() == 2).then_some(())
        });
        let server = descendants_of(client.pid())
            .first()
            .map(|process| process.pid)
            .expect("the guard has started the server");
        send_signal("KILL", if the_guard { client.pid() } else { server });
        client.wait_exit(Duration::from_secs(10));
        assert_none_left(&sleep);
        assert_none_left(env.mark());
    }
}
